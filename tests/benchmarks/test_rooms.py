"""The direction of imports in the benchmarks: cases, then peers, then measuring, the run and its report.

No cycles, and small files.
"""

import ast
import pathlib

import pytest

import benchmarks
from tests.ci.test_layers import check_sizes, circles

FOLDER = pathlib.Path(benchmarks.__file__).parent
MODULES = {
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FOLDER.rglob("*.py")
}
LOWER = {"cases": {"cases"}, "peers": {"cases", "peers"}}


def imported(source):
    """The modules of the benchmarks that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & set(MODULES) - {"benchmarks"}


def upwards(module, names):
    """Imports of a room above: a case knows no peer, and a peer does not know what measures it."""
    room = module.split(".")[1] if "." in module else ""
    return {name for name in names if name.split(".")[1] not in LOWER.get(room, {name.split(".")[1]})}


def test_imports_run_one_way():
    graph = {module: imported(path.read_text()) for module, path in MODULES.items()}
    assert len(graph) > 25 and circles(graph) == []
    assert not [module for module, names in graph.items() if upwards(module, names)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("benchmarks.cases.cpu", "from benchmarks.peers import words"),
        ("benchmarks.peers.words", "def f():\n    import benchmarks.numpy_side"),
    ],
)
def test_an_import_that_runs_backwards_is_found(module, source):
    assert upwards(module, imported(source))


def test_files_and_functions_are_small():
    assert [found for module, path in MODULES.items() for found in check_sizes(module, path.read_text())] == []
