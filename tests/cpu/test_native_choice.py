"""Whether the native engine runs, why not, and where that is said."""

import json
import pathlib
import re
import threading
import types

import pytest

import gpulayout as gl
from gpulayout.cpu import native
from tests.support.command_line import failure, run

ROOT = pathlib.Path(gl.__file__).parent
ENGINE = types.ModuleType("engine")
ENGINE.instruction_sets = lambda: ("old", "new")
PLAIN = "f32[2,3]", "f32[2,3]{0,1}"


@pytest.fixture
def loads(monkeypatch, tmp_path):
    """loads(found): what an import of the extension gives or raises.  The package lies in an empty folder."""
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setattr(native, "FOLDER", tmp_path / "gpulayout" / "cpu")
    native.FOLDER.mkdir(parents=True)

    def load(found):
        def importing(name):
            assert name == "gpulayout.cpu._native"
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(native, "importlib", types.SimpleNamespace(import_module=importing))
        native.loaded.cache_clear()

    yield load
    native.loaded.cache_clear()


# ---- the variable ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", "1"])
def test_the_engine_runs_unless_it_is_turned_off(loads, monkeypatch, value):
    loads(ENGINE)
    if value is not None:
        monkeypatch.setenv("GPULAYOUT_NATIVE", value)
    assert native.module() is ENGINE and native.missing() == ""


def test_zero_turns_it_off(loads, monkeypatch):
    loads(ENGINE)
    monkeypatch.setenv("GPULAYOUT_NATIVE", "0")
    assert native.module() is None
    assert native.missing() == "GPULAYOUT_NATIVE is 0: unset it, and the native engine runs"


WRONG = "no", "2", "off", "true", " 1", "00", "a" * 50


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("call", [native.module, native.missing, native.engine, lambda: gl.plan(*PLAIN).explain()])
def test_any_other_value_is_an_error(loads, monkeypatch, value, call):
    loads(ENGINE)
    monkeypatch.setenv("GPULAYOUT_NATIVE", value)
    said = re.escape(f"GPULAYOUT_NATIVE is {value[:40]!r}: it must be 0, which turns the native engine off, or 1")
    with pytest.raises(native.BadNativeChoice, match=f"^{said}$"):
        call()
    assert gl.show_config("dicts")["engine"].startswith("GPULAYOUT_NATIVE is ")


@pytest.mark.parametrize("command", [("explain", *PLAIN), ("demo", "--quick")], ids=["explain", "demo"])
def test_the_command_line_says_it_in_one_line(monkeypatch, command):
    monkeypatch.setenv("GPULAYOUT_NATIVE", "no")
    assert failure(*command) == "GPULAYOUT_NATIVE is 'no': it must be 0, which turns the native engine off, or 1"


# ---- choices in code -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "1", "no"])
def test_a_choice_in_code_comes_before_the_variable_until_its_block_ends(loads, monkeypatch, value):
    loads(ENGINE)
    monkeypatch.setenv("GPULAYOUT_NATIVE", value)
    with native.chosen(False):
        assert native.module() is None and native.missing() == "native.chosen(False) turned the native engine off"
        with native.chosen(True):
            assert native.module() is ENGINE
        assert native.module() is None
    monkeypatch.setenv("GPULAYOUT_NATIVE", "1")
    with pytest.raises(ZeroDivisionError), native.chosen(False):
        1 / 0
    assert native.module() is ENGINE


def test_a_choice_in_code_holds_for_all_threads(loads):
    loads(ENGINE)
    seen = []
    with native.chosen(False):
        thread = threading.Thread(target=lambda: seen.append(native.module()))
        thread.start()
        thread.join()
    assert seen == [None]


# ---- why it is missing -----------------------------------------------------------------------------------------------

NOT_FOUND = ModuleNotFoundError("No module named 'gpulayout.cpu._native'", name="gpulayout.cpu._native")


def test_what_the_build_said_is_said(loads):
    (native.FOLDER / "native_build.txt").write_text("there is no C++ compiler: install one\n")
    loads(NOT_FOUND)
    assert native.module() is None
    assert native.missing() == "the native engine was not built: there is no C++ compiler: install one"


@pytest.mark.parametrize("is_clone", [True, False])
def test_without_a_build_it_says_how_to_build(loads, tmp_path, is_clone):
    if is_clone:
        (tmp_path / "setup.py").touch()
    loads(NOT_FOUND)
    how = f"run python setup.py build_ext --inplace in {tmp_path}" if is_clone else "reinstall gpulayout"
    assert native.module() is None and native.missing() == f"the native engine was not built: {how}"


@pytest.mark.parametrize("said", ["undefined symbol: PyBuffer_Release", "wrong ELF class: ELFCLASS32"])
def test_an_engine_for_another_python_or_machine_is_no_error(loads, said):
    loads(ImportError(said))
    assert native.module() is None
    assert native.missing() == f"this Python cannot load the native engine, so reinstall gpulayout for it: {said}"


def test_a_free_threaded_python_does_not_try(loads, monkeypatch):
    loads(ENGINE)
    monkeypatch.setattr(native, "sys", types.SimpleNamespace(abiflags="t"))
    assert native.module() is None
    assert native.missing().startswith("no free-threaded Python can load the native engine: use ")


def test_it_is_loaded_once_and_all_threads_get_the_same(loads, monkeypatch):
    loads(ENGINE)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(native.module())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [ENGINE] * 8
    monkeypatch.setattr(native, "importlib", None)  # another import would be an error
    assert native.module() is ENGINE


def test_no_other_file_imports_the_extension():
    files = [path for path in ROOT.rglob("*.py") if re.search(r"\b_native\b(?!_)", path.read_text(encoding="utf-8"))]
    assert files == [ROOT / "cpu" / "native.py"]


# ---- what runs, in the same words everywhere -------------------------------------------------------------------------


def test_the_best_instruction_set_is_named(loads):
    loads(ENGINE)
    assert native.engine() == "native, with new"
    with native.chosen(False):
        assert native.engine() == "NumPy: native.chosen(False) turned the native engine off"


@pytest.mark.machine
@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_everything_says_it_in_the_same_words(monkeypatch, capsys, is_on):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")
    monkeypatch.setenv("GPULAYOUT_NATIVE", str(int(is_on)))
    said = native.engine()
    assert said.startswith("native, " if native.module() else "NumPy: ")
    gl.show_config()
    assert f"engine          {said}" in capsys.readouterr().out.splitlines()
    assert gl.show_config("dicts")["engine"] == said == json.loads(run("info", "--json").stdout)["engine"]
    assert f"  engine   {said}" in str(gl.plan(*PLAIN).explain()).splitlines()
    assert f"  engine   {said}" in run("explain", *PLAIN).stdout.splitlines()
    assert json.loads(run("explain", *PLAIN, "--json").stdout)["engine"] == said


def test_nothing_to_move_needs_no_engine():
    assert "  engine   " not in str(gl.plan("f32[0]", "f32[0]").explain())
    assert json.loads(run("explain", "f32[0]", "f32[0]", "--json").stdout)["engine"] is None


@pytest.mark.machine
@pytest.mark.parametrize("value", ["0", "1"])
def test_the_demo_says_which_engine_ran(monkeypatch, value):
    monkeypatch.setenv("GPULAYOUT_BACKEND", "numpy")
    monkeypatch.setenv("GPULAYOUT_NATIVE", value)
    said = native.engine()
    lines = run("demo", "--quick").stdout.splitlines()
    assert lines[-2:] == [f"On the CPU: {said}", "No GPU rows: GPULAYOUT_BACKEND is numpy"]
    assert json.loads(run("demo", "--quick", "--json").stdout)["engine"] == said
