"""The mutation tool: its table fits the kernels, and it knows which mutants a test notices."""

import ast
import functools
import pathlib
import subprocess

import pytest

from tests.mutants import __main__ as command
from tests.mutants import kernel_table, kernels, native, native_table, python_code, python_tests, trial
from tests.mutants.python_equivalents import EQUIVALENTS
from tests.support.kernel_cases import kernel_files
from tests.support.native import stress
from tests.support.simt import toolchain

KERNELS = trial.ROOT / "kernels"


# ---- the table ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", kernel_table.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_to_replace_stands_once_in_its_file(mutant):
    text = (KERNELS / mutant.file).read_text()
    assert text.count(mutant.old) == 1, (
        f"{mutant.name}: this stands {text.count(mutant.old)} times in the file:\n{mutant.old}"
    )
    assert kernels.changed_text(text, mutant) not in (None, text)


def test_every_kernel_file_has_mutants_with_names_of_their_own():
    names = [mutant.name for mutant in kernel_table.MUTANTS]
    assert len(set(names)) == len(names) and {mutant.file for mutant in kernel_table.MUTANTS} >= set(kernel_files())


def test_text_that_stands_twice_or_not_at_all_is_not_replaced():
    mutant = kernel_table.Mutant("copy.cu", "one more", "a += 1;", "a += 2;")
    assert kernels.changed_text("a += 1;", mutant) == "a += 2;"
    assert kernels.changed_text("a += 1; a += 1;", mutant) is kernels.changed_text("b += 1;", mutant) is None


@functools.cache
def functions(path):
    """Names of the functions and classes of a test file."""
    return {
        node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def test_the_tests_that_should_notice_are_there():
    """Tests that change a kernel themselves, recognised by their names, are not among them."""
    named = {test for file in (*kernel_files(), *kernels.TESTS, "move.cuh") for test in kernels.killers(file)}
    named |= {test for _, _, tests in python_tests.TESTS for test in tests}
    for test in named:
        path, *inside = test.partition("[")[0].split("::")
        assert (trial.ROOT / path).is_file() and set(inside) <= functions(trial.ROOT / path), test
    assert not [
        test for file in kernel_files() for test in kernels.killers(file) if "broken" in test or "wrong" in test
    ]


def test_every_module_has_tests():
    assert len(python_code.modules()) > 80
    for module in python_code.modules():
        assert module in python_code.runs(module)[0] or "cupy" in module


def test_what_is_called_equivalent_stands_in_its_module():
    for module, old, new in EQUIVALENTS:
        lines = [line.strip() for line in (trial.ROOT / module).read_text().splitlines()]
        assert old in lines and new not in lines, (module, old)


# ---- trials -------------------------------------------------------------------------------------------------------

CODE = "def larger(a, b):\n    return a if a > b else b\n"
TESTS = "from gpulayout.pair import larger\n\ndef test_larger():\n    assert larger(1, 2) == larger(2, 1) == 2\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree of one function and one test."""
    root, copy = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("copy")
    for path, text in (("gpulayout/__init__.py", ""), ("gpulayout/pair.py", CODE), ("tests/test_pair.py", TESTS)):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starting pytest is most of what this takes
        yield trial.Tree(copy, root, builds=None)


def change(old, new, **more):
    return trial.Change(
        "pair", "gpulayout/pair.py", CODE.replace(old, new) if old in CODE else None, (("tests/test_pair.py",),), **more
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "given, verdict, by",
    [
        (change("a > b", "a < b"), trial.KILLED, "tests/test_pair.py::test_larger"),
        (change("a > b", "a > b, syntax error"), trial.KILLED, "tests/test_pair.py"),
        (change("    return", "    import os; os.abort()\n    return"), trial.KILLED, "a crash"),
        (change("a > b", "a >= b"), trial.SURVIVED, ""),
        (change("a > b", "a >= b", equivalent="two equal numbers cannot be told apart"), trial.EQUIVALENT, ""),
        (change("a > b", "a < b", equivalent="no reason"), trial.WRONGLY_EQUIVALENT, "tests/test_pair.py::test_larger"),
        (change("a == b", "a != b"), trial.VANISHED, ""),
        (change("return a", "while True: pass\n    return a", limit=6), trial.KILLED, "a time limit of 6 s"),
    ],
    ids=("killed", "not importable", "crashes", "survives", "equivalent", "wrongly equivalent", "vanished", "hangs"),
)
def test_what_became_of_a_mutant(tree, given, verdict, by):
    assert trial.tried(given, tree)[1:3] == (verdict, by)
    assert (tree.folder / "gpulayout/pair.py").read_text() == CODE


def test_a_test_that_fails_without_a_mutant_shows_nothing(tree):
    path = tree.folder / "tests/test_always.py"
    path.write_text("def test_always():\n    assert False\n")
    found = trial.tried(change("a > b", "a >= b")._replace(runs=((str(path.relative_to(tree.folder)),),)), tree)
    assert found[1:3] == (trial.NOTHING_KNOWN, "tests/test_always.py::test_always")


def test_nothing_is_begun_when_the_time_is_over():
    assert list(trial.outcomes([change("a > b", "a < b")] * 3, minutes=0)) == []


@pytest.mark.parametrize(
    "verdict, status",
    [
        (trial.KILLED, 0),
        (trial.EQUIVALENT, 0),
        (trial.SURVIVED, 1),
        (trial.WRONGLY_EQUIVALENT, 1),
        (trial.VANISHED, 1),
        (trial.NOTHING_KNOWN, 1),
    ],
)
def test_the_exit_status(monkeypatch, capsys, verdict, status):
    monkeypatch.setattr(
        trial, "outcomes", lambda changes, *_: (trial.Outcome(each, verdict, "a test") for each in changes)
    )
    assert command.main(["--only", "copy.cu: tail"]) == status
    assert f"1 {verdict}" in capsys.readouterr().out


def test_what_there_was_no_time_for_is_counted(capsys):
    assert command.main(["--only", "copy.cu", "--minutes", "0"]) == 1
    assert capsys.readouterr().out == f"{len(list(kernels.changes('copy.cu')))} not tried: the time is over\n"


def test_a_name_that_no_mutant_has(capsys):
    assert command.main(["--only", "no such file"]) == command.main(["--only", "no such file", "--list"]) == 1
    assert command.main(["--only", "copy.cu: tail", "--list"]) == 0
    assert capsys.readouterr().out == 2 * "no mutant has such a name\n" + "copy.cu: tail guard dropped\n"


# ---- mutants of the native engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", native_table.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_to_replace_stands_once_in_the_native_engine(mutant):
    text = stress.files()[mutant.file]
    assert text.count(mutant.old) == 1, f"{mutant.name}: this stands {text.count(mutant.old)} times:\n{mutant.old}"
    assert kernels.changed_text(text, mutant) not in (None, text)


def test_native_mutants_have_names_of_their_own_and_a_file_each():
    names = [mutant.name for mutant in native_table.MUTANTS]
    assert len(set(names)) == len(names) == len(native.changes())
    assert {mutant.file for mutant in native_table.MUTANTS} == {
        "register_kernels.h",
        "strided_move.cpp",
        "threads.h",
        *native.CASES_OF,
    }


@pytest.mark.parametrize(
    "end, equivalent, verdict, by",
    [
        (lambda build: 1, "", trial.KILLED, "moves (first)"),
        (lambda build: -11, "", trial.KILLED, "moves (first)"),
        (lambda build: build is stress.BUILDS["quick"], "", trial.KILLED, "moves (quick)"),
        (lambda build: 0, "", trial.SURVIVED, ""),
        (lambda build: 0, "same bytes", trial.EQUIVALENT, ""),
        (lambda build: 1, "same bytes", trial.WRONGLY_EQUIVALENT, "moves (first)"),
        (subprocess.TimeoutExpired("stress", 60), "", trial.KILLED, "moves (first), a time limit of 60 s"),
        (toolchain.BuildError("expected ;"), "", trial.NOTHING_KNOWN, "the compiler rejects it"),
    ],
    ids=(
        "fails",
        "crashes",
        "needs wide vectors",
        "survives",
        "equivalent",
        "wrongly equivalent",
        "hangs",
        "no program",
    ),
)
def test_what_became_of_a_native_mutant(monkeypatch, end, equivalent, verdict, by):
    def run(build, kind, *case, changed, limit):
        assert changed == {change.file: change.text} and limit == change.limit
        if isinstance(end, Exception):
            raise end
        return subprocess.CompletedProcess((), int(end(build)))

    change = native.changes()[0]._replace(equivalent=equivalent)
    monkeypatch.setattr(stress, "run", run)
    assert [outcome[1:3] for outcome in native.outcomes([change], 1, 2)] == [(verdict, by)]
    assert native.tried(change._replace(text=None))[1] == trial.VANISHED
    assert list(native.outcomes([change], 0, 2)) == []


def test_the_command_knows_the_native_mutants(capsys):
    assert command.main(["--native", "--list", "--only", "zip 3: "]) == 0
    assert (
        capsys.readouterr().out
        == "register_kernels.h: zip 3: row of a place\nregister_kernels.h: unzip 3: vector of a place\n"
        "register_kernels.h: zip 3: place of an element\nregister_kernels.h: unzip 3: place of an element\n"
    )


# ---- Python mutants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after, same",
    [
        ("@functools.cache\ndef f(a: int) -> str:\n    x: int = 1\n    return a", True),
        ("def f(a: int | str) -> None:\n    x: bool = 1\n    return a", True),
        ("def f(a):\n    x: int = 2\n    return a", False),
        ("def f(a):\n    x: int = 1\n    return not a", False),
    ],
)
def test_annotations_and_caches_are_no_mutants(after, same):
    before = "def f(a):\n    x: int = 1\n    return a"
    assert (python_code.meaning(after) == python_code.meaning(before)) == same


def test_a_sample_is_the_same_again_and_changes_one_line():
    pytest.importorskip("cosmic_ray")
    module = "gpulayout/xla/indices.py"
    first, again, other = ([each.name for each in python_code.sample(seed, module)] for seed in (1, 1, 2))
    assert first == again and first != other and len(first) > 20
    before = pathlib.Path(trial.ROOT, module).read_text().splitlines()
    for each in python_code.sample(1, module):
        assert sum(old != new for old, new in zip(before, each.text.splitlines())) >= 1 and each.shown
