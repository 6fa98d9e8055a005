"""Tests use the public names of the package's modules, so that the inside of a module can change."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OF_NAMED_TUPLES = {"_replace", "_fields", "_asdict"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def private_names(source):
    """The private names that a file imports from the package, reads from an import, or patches by their text."""
    tree = ast.parse(source)
    froms = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpulayout")
    ]
    imported = {alias.asname or alias.name for node in froms for alias in node.names}
    found = [alias.name for node in froms for alias in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            found.append(node.attr)
        if isinstance(node, (ast.Call, ast.Tuple)):  # setattr(module, "name", ...), (module, "name")
            first, *rest = (
                node.args if isinstance(node, ast.Call) and node.args else getattr(node, "elts", []) or [None]
            )
            if isinstance(first, ast.Name) and first.id in imported and rest and isinstance(rest[0], ast.Constant):
                found.append(str(rest[0].value))
    return [name for name in found if is_private(name)]


def test_no_test_uses_a_private_name_of_the_package():
    files = {path: private_names(path.read_text()) for path in sorted((ROOT / "tests").rglob("*.py"))}
    assert len(files) > 100
    assert {str(path): names for path, names in files.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from gpulayout.cpu.threads import _inside",
        "threads._inside",
        'patch.setattr(threads, "_inside", None)',
        '(threads, "_inside")',
    ],
)
def test_private_names_are_noticed(line):
    assert private_names(f"from gpulayout.cpu import threads\n{line}\n") == ["_inside"]


def test_public_names_are_fine():
    assert private_names("from gpulayout.cpu import threads\nthreads.inside\nthreads.Part._replace\n") == []
