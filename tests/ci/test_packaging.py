"""The files that are shipped, and the scripts in ci/; ci/check_wheel builds and installs for real."""

import os
import pathlib
import re
import subprocess

import pytest

import gpulayout

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path for folder in ("ci", ".ci") for path in (ROOT / folder).glob("*") if path.is_file() and not path.suffix
)


def test_every_package_is_listed_for_the_wheel():
    section = (ROOT / "pyproject.toml").read_text().partition("packages = [")[2].partition("]")[0]
    listed = re.findall(r'"(gpulayout(?:\.\w+)*)"', section)
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gpulayout").rglob("__init__.py")}
    assert set(listed) == folders | {"gpulayout.kernels"}


def test_the_version_is_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", gpulayout.__version__)


def test_nothing_imports_a_script():
    """What tests and benchmarks import stands in `tests/support/` and in `benchmarks/`, not in `ci/`."""
    importing = re.compile(r"^ *(from|import) ci\b|-p ci\.", re.MULTILINE)
    files = [*SCRIPTS, *(path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))]
    assert [path for path in files if importing.search(path.read_text(encoding="utf-8"))] == []
    assert importing.search("    from {} import skip".format("ci.gate")) and importing.search("-p {}".format("ci.gate"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_executable_and_stop_at_errors(script):
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)
