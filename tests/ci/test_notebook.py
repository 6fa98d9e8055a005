"""docs/run-on-your-gpu.ipynb: its cells, run unchanged in an empty folder, up to the probe that finds no device."""

import contextlib
import io
import json
import os
import pathlib
import subprocess

import pytest

from gpulayout.choices.backends import gpu_problem

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOK = json.loads((ROOT / "docs" / "run-on-your-gpu.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def run_cells(cells, names):
    """The output of the cells."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for number, cell in enumerate(cells):
            exec(compile(cell, f"cell {number + 1}", "exec"), names)
    return said.getvalue()


def test_it_is_a_notebook_without_outputs():
    assert NOTEBOOK["nbformat"] == 4 and len(CELLS) == 3
    assert all(
        not cell["outputs"] and cell["execution_count"] is None
        for cell in NOTEBOOK["cells"]
        if cell["cell_type"] == "code"
    )
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])


def test_without_an_address_it_says_so():
    with pytest.raises(SystemExit, match="^set REPOSITORY to the address of a clone of gpulayout$"):
        run_cells(CELLS[:1], {})


@pytest.fixture
def clone(tmp_path):
    """A repository with this tree, not its history."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this tree is no git checkout")
    tree = tmp_path / "origin"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
            (tree / name).chmod((ROOT / name).stat().st_mode)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test", "-c", "init.defaultBranch=main", "-C", str(tree)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "tree"]):
        subprocess.run([*git, *command], check=True)
    return tree


@pytest.mark.skipif(gpu_problem() is None, reason="a GPU works here, so everything would run")
def test_the_cells_run_up_to_the_probe_that_finds_no_device(tmp_path, monkeypatch, clone):
    import sys

    here = tmp_path / "notebook"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setitem(os.environ, "GPULAYOUT_PYTHON", sys.executable)
    names = {}
    said = run_cells([CELLS[0].replace('REPOSITORY = ""', f"REPOSITORY = {str(clone)!r}"), CELLS[1]], names)
    assert "ci/gpu: no GPU to test on: " in said and said.endswith("failed with status 1\n")
    with pytest.raises(SystemExit, match="^ci/gpu wrote no results"):
        run_cells(CELLS[2:], names)
    results = here / "gpulayout" / "gpu-results"
    (results / "summary.json").write_text('{"passed": true}')
    said = run_cells(CELLS[2:], names)
    assert said.startswith("written to ") and json.loads((here / "gpu-results.json").read_text()) == {
        "summary": {"passed": True}
    }
