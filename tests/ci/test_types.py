"""mypy --strict and pyright accept the package, the examples of the README and of docs/, and typical user code.

Each page becomes a module in which every example stands on its own line of the page, so that errors name that line.
"""

import doctest
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL
from tests.support.simt import toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
USER_CODE = [ROOT / "tests" / "typing" / "test_user_code.py"]
if importlib.util.find_spec("torch") and importlib.util.find_spec("jax"):  # their types are read from the libraries
    USER_CODE.append(ROOT / "tests" / "typing" / "test_tensors.py")
# Before 2.3 NumPy's classes lack defaults for their type parameters; the package's own code relies on them.
HAS_DEFAULTS = np.lib.NumpyVersion(np.__version__) >= "2.3.0"
PACKAGE = [ROOT / "gpulayout"] if HAS_DEFAULTS else []
# Functions of Dask have no types, or wrong ones; h5py, `PartitionSpec` and `torch.nn` have none.
UNTYPED_PAGES = "page_dask.py", "page_models.py", "page_reload_weights.py"
UNTYPED = re.compile(r"""['"](compute|from_zarr|to_zarr|from_array|arange|h5py|P|Module)['"]""")
# Both must find exactly these errors: a checker that checks nothing finds none.
WRONG = """\
import gpulayout as gl
gl.pack("f32[2]")
text: str = gl.linearize((1, 2), "f32[2,3]")
gl.no_such_name()
"""
# What a user writes in annotations, and what mypy says that its values are.
REVEALED = {
    "array: gl.Array -> array": "gpulayout.calls.array.Array[Any]",
    "array: gl.Array -> array.buffer": "Any",
    "array: gl.Array -> array.to('C')": "gpulayout.calls.array.Array[Any]",
    "array: gl.Array | None -> array": "gpulayout.calls.array.Array[Any] | None",
    "arrays: list[gl.Array] -> arrays[0].logical()": "Any",
    "array: gl.Array[list[int]] -> array.to('C').buffer": "list[int]",
    "array: gl.Array[NDArray[Any]] -> array.logical()": "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]",
    "array: gl.Array -> array == array": "bool",
}


def annotations():
    """A module of a user: every public class without type parameters, and a line for each of `REVEALED`."""
    lines = ["import gpulayout as gl", "from typing import Any", "from numpy.typing import NDArray"]
    for path, module in {"gl": gl, "gl.xla": gl.xla, "gl.catalogue": gl.catalogue, "gl.interop": gl.interop}.items():
        classes = [name for name in module.__all__ if isinstance(getattr(module, name), type)]
        lines += [
            f"def of_{path[3:]}_{name}(given: {path}.{name}) -> list[{path}.{name}]: return [given]" for name in classes
        ]
    for number, line in enumerate(REVEALED):
        parameter, value = line.split(" -> ")
        lines.append(f"def reveal_{number}({parameter}) -> None: reveal_type({value})")
    return "\n".join(lines) + "\n"


def module_of(page):
    """The examples of a page as a module with as many lines."""
    lines = page.read_text(encoding="utf-8").count("\n") * [""]
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        source = example.source.rstrip("\n").split("\n")
        lines[example.lineno : example.lineno + len(source)] = source
    return "\n".join(lines).rstrip("\n") + "\n"


@pytest.fixture
def modules(tmp_path):
    """Paths of all pages with examples, as modules, and of the wrong one."""
    for page in PAGES:
        if ">>>" in page.read_text(encoding="utf-8"):
            (tmp_path / f"page_{page.stem.replace('-', '_')}.py").write_text(module_of(page), encoding="utf-8")
    assert len(list(tmp_path.iterdir())) >= 5
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "annotations.py").write_text(annotations(), encoding="utf-8")
    return sorted(tmp_path.glob("*.py"))


def output_of(module, *arguments):
    """What `python -m module` prints."""
    pytest.importorskip(module, reason=f"{module} is not installed")
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT
    )


def check(found, done):
    """Assert that these (path, line, message) are the errors of the wrong module, and no others."""
    wrong = [(path, line, message) for path, line, message in found if pathlib.Path(path).name == "wrong.py"]
    assert sorted(line for _, line, _ in wrong) == [2, 3, 4], done.stdout + done.stderr
    rest = [
        f"{path}:{line}: {message}"
        for path, line, message in found
        if pathlib.Path(path).name != "wrong.py"
        and not (pathlib.Path(path).name in UNTYPED_PAGES and UNTYPED.search(message))
    ]
    assert not rest, "\n" + "\n".join(rest)


def test_mypy(modules):
    kept = toolchain.build_folder() / "mypy"  # what it found in NumPy, PyTorch and JAX serves every clone
    options = ("--strict", "--output=json", "--follow-imports=silent", "--sqlite-cache", f"--cache-dir={kept}")
    with toolchain.turn("mypy"):
        done = output_of("mypy", *options, *PACKAGE, *USER_CODE, *modules)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    check([(line["file"], line["line"], line["message"]) for line in lines if line["severity"] == "error"], done)
    notes = [line["message"] for line in lines if pathlib.Path(line["file"]).name == "annotations.py"]
    assert notes == [f'Revealed type is "{kind}"' for kind in REVEALED.values()]


@pytest.mark.skipif(not ALL, reason="10 s, and mypy reads the same files; GPULAYOUT_TEST_ALL=1 runs it")
def test_pyright(modules, tmp_path):
    settings = {
        "include": [*map(str, [*PACKAGE, *USER_CODE, *modules])],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "basic",
        "reportUnusedExpression": "none",  # of an example
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    if output_of("pyright", "--version").returncode:
        pytest.skip("pyright cannot start: it needs Node, which the extra pyright[nodejs] brings")
    done = output_of("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", tmp_path)
    lines = json.loads(done.stdout)["generalDiagnostics"]
    errors = [line for line in lines if line["severity"] == "error"]
    check([(line["file"], line["range"]["start"]["line"] + 1, line["message"]) for line in errors], done)
