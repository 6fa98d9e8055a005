"""docs/tour.ipynb and docs/catalogue.ipynb: a kernel runs them, and their outputs are the stored ones.

After an intended change, store them again:

    python -m tests.ci.test_tour
"""

import pathlib
import re
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = {"tour.ipynb": ("nbclient", "ipykernel", "torch", "jax"), "catalogue.ipynb": ("nbclient", "ipykernel")}


def executed(path):
    """The stored notebook, and the same one with the outputs of a run."""
    import nbclient
    import nbformat

    stored, run = (nbformat.read(path, nbformat.NO_CONVERT) for _ in range(2))
    nbclient.NotebookClient(
        run, timeout=120, startup_timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    for cell in run.cells:
        cell.metadata.pop("execution", None)  # times
    run.metadata["language_info"] = {"name": "python"}  # without the version
    return stored, run


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module", params=NEEDED)
def page(request):
    for name in NEEDED[request.param]:
        pytest.importorskip(name)
    return ROOT / "docs" / request.param


@pytest.fixture(scope="module")
def notebooks(page):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the kernel's own packages
        return executed(page)


def test_a_run_gives_the_stored_outputs(notebooks):
    stored, run = notebooks
    for cell, ran in zip(code_cells(stored), code_cells(run), strict=True):
        assert cell.outputs == ran.outputs, cell.source


def test_the_outputs_say_nothing_about_the_machine(notebooks, page):
    text = page.read_text()
    assert not re.search(r"/(home|tmp|work|usr)/|0x[0-9a-f]{8}", text)
    assert all(
        output.output_type != "stream" or output.name == "stdout"
        for cell in code_cells(notebooks[0])
        for output in cell.outputs
    )


if __name__ == "__main__":
    import nbformat

    for notebook in NEEDED:
        nbformat.write(executed(ROOT / "docs" / notebook)[1], ROOT / "docs" / notebook)
