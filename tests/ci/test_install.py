"""ci/install.py: uv is told what pip's configuration says, and pip does what uv cannot."""

import importlib.util
import pathlib
import subprocess
import types

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "ci" / "install.py"


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """What ci/install.py starts, in an environment of its own with uv; `settings` is what `pip config list` prints."""
    spec = importlib.util.spec_from_file_location("install_under_test", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = types.SimpleNamespace(module=module, settings="", uv_status=0, pip_status=0, uv=[], pip=[], environment={})
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    (tmp_path / "uv").touch()

    def run(command, env=None, **options):
        if "config" in command:
            return types.SimpleNamespace(stdout=found.settings)
        of_uv = command[0] == str(tmp_path / "uv")
        (found.uv if of_uv else found.pip).append(command)
        found.environment = env
        return types.SimpleNamespace(returncode=found.uv_status if of_uv else found.pip_status)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_uv_installs_what_pip_would(calls):
    calls.settings = """:env:.find-links='/mine'
global.cert='/certificates'
global.extra-index-url='file:///one\\nfile:///two'
global.find-links='/theirs'
global.index-url='https://mirror/simple'
global.timeout='60'
"""
    assert calls.module.main(["--quiet", "numpy"]) == 0
    ([_, *command],) = calls.uv
    assert command[:2] == ["pip", "install"] and command[-2:] == ["--quiet", "numpy"] and not calls.pip
    options = set(zip(command, command[1:]))
    assert {("--extra-index-url", "file:///one"), ("--extra-index-url", "file:///two")} <= options
    assert {("--find-links", "/mine"), ("--default-index", "https://mirror/simple")} <= options
    assert "/theirs" not in command  # the environment wins over a file
    assert calls.environment["SSL_CERT_FILE"] == "/certificates"


@pytest.mark.parametrize("setting", ["global.proxy='http://proxy'", "install.no-index='1'", ":env:.platform='any'"])
def test_pip_installs_where_it_is_told_what_uv_is_not(calls, setting):
    calls.settings = setting
    assert calls.module.main(["numpy"]) == 0
    assert not calls.uv and [command[-1] for command in calls.pip] == ["numpy"]


@pytest.mark.parametrize("status", [0, 1])
def test_pip_has_the_last_word_where_uv_fails(calls, status):
    calls.uv_status, calls.pip_status = 2, status
    assert calls.module.main(["numpy"]) == status
    assert len(calls.uv) == len(calls.pip) == 1


def test_pip_installs_where_uv_cannot_be_had(calls, tmp_path):
    (tmp_path / "uv").unlink()
    assert calls.module.main(["numpy"]) == 0
    assert not calls.uv and [command[-1] for command in calls.pip] == [calls.module.PIN, "numpy"]
