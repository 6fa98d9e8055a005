"""ci/versions: its environments, what it leaves out, and what it says where it cannot run."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

CI = pathlib.Path(__file__).resolve().parents[2] / "ci"
ENVIRONMENTS = sorted(CI.glob("environments/*.txt"))
OWN_PYTHON = ".".join(map(str, sys.version_info[:2]))


def versions(*arguments, script=CI / "versions", **environment):
    return subprocess.run(
        [script, *arguments], capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_names_its_python_and_one_version_of_each_package(path):
    first, *lines = path.read_text().splitlines()
    assert re.fullmatch(r"# Python 3\.\d+", first)
    pins = [re.fullmatch(r"([\w.-]+)==[\w.]+", line) for line in lines if not line.startswith("#")]
    names = [pin[1] for pin in pins]  # a line that is no pin is None, which has no [1]
    assert len(names) == len(set(names)) and {"numpy", "ml-dtypes", "torch", "jax", "pytest", "pytest-xdist"} <= {
        *names
    }


def test_what_is_left_out_exists():
    """A name that is gone would leave out nothing, and pytest would not say so."""
    [paths] = re.findall(r"^elsewhere=\(.*?\)\n", (CI / "versions").read_text(), re.MULTILINE | re.DOTALL)
    shown = subprocess.run(["bash", "-c", paths + 'printf "%s\\n" "${elsewhere[@]}"'], capture_output=True, text=True)
    found = shown.stdout.splitlines()
    assert len(found) > 10 and [path for path in found if not (CI.parent / path).exists()] == []


@pytest.fixture
def other(tmp_path):
    """other(python) -> the script beside one environment, `other`, for that Python and a torch that nobody has."""
    (tmp_path / "ci" / "environments").mkdir(parents=True)
    script = shutil.copy(CI / "versions", tmp_path / "ci")

    def made(python):
        (tmp_path / "ci" / "environments" / "other.txt").write_text(f"# Python {python}\ntorch==0.0.7\n")
        return script

    return made


def test_a_machine_without_that_python_says_so(other, tmp_path):
    done = versions("other", script=other("3.99"), PYENV_ROOT=str(tmp_path))
    said = "ci/versions: left out: the tests with the versions of other: there is no Python 3.99\n"
    assert (done.returncode, done.stderr) == (77, said)


def test_pythons_of_pyenv_are_found(other, tmp_path):
    python = tmp_path / "versions" / "3.99.4" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 0;; *executable*) echo $0; exit;; esac\nexit 5\n')
    python.chmod(0o755)
    done = versions("other", script=other("3.99"), PYENV_ROOT=str(tmp_path))
    assert done.returncode == 77 and f"{python} makes no virtual environment" in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("large", ["", "1"])
def test_an_environment_without_its_torch_is_left_out(other, large):
    done = versions("other", script=other(OWN_PYTHON), PIP_NO_INDEX="1", GPULAYOUT_LARGE_DOWNLOADS=large)
    assert done.returncode == 77, done.stderr
    assert "left out: the tests with the versions of other: PyTorch 0.0.7 cannot be" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("arguments", [(), ("--install",), ("nothing",)])
def test_wrong_usage_names_the_environments(arguments):
    done = versions(*arguments)
    names = " ".join(path.stem for path in ENVIRONMENTS)
    assert done.returncode == 2 and done.stderr.startswith("usage: ci/versions NAME") and names in done.stderr


def test_the_help_fits_a_screen():
    done = versions("--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 24 and max(map(len, lines)) <= 130
