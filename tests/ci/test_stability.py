"""docs/stability.md, the workflows and the hooks name the versions that pyproject.toml and ci/constraints.txt do."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
SETUP = (ROOT / "setup.py").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
TESTED = [f"3.{minor}" for minor in range(11, 15)]


def supported(what):
    """The two cells of a row of the table."""
    return re.search(rf"^\| {what} \| (.*?) \| (.*?) \|$", PAGE, flags=re.MULTILINE).groups()


def test_the_page_names_the_lowest_versions_of_the_package():
    lowest = re.search(r'requires-python = ">=([\d.]+)"', PROJECT)[1]
    assert supported("Python")[0] == f"{lowest} and newer" and lowest == TESTED[0]
    assert supported("Python")[1].endswith(f"the workflow has {TESTED[0]} to {TESTED[-1]}")
    for name, row in (("numpy", "NumPy"), ("ml_dtypes", "ml_dtypes")):
        lowest = re.search(rf'"{name}>=([\d.]+)"', PROJECT)[1]
        assert supported(row)[0] == f"{lowest} and newer"


LIBRARIES = {"NumPy": "numpy", "ml_dtypes": "ml_dtypes", "PyTorch": "torch", "JAX": "jax"}


def pinned(environment):
    """The versions that a file of ci/environments names."""
    text = (ROOT / "ci" / "environments" / f"{environment}.txt").read_text()
    return {
        name.replace("-", "_"): version for name, version in re.findall(r"^([\w-]+)==([\w.]+)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("row", LIBRARIES)
def test_the_lowest_version_of_a_library_is_promised_and_tested(row):
    name = LIBRARIES[row]
    (lowest,) = set(re.findall(rf'"{name}>=([\d.]+)', PROJECT))
    assert supported(row)[0].startswith(f"{lowest} and newer")
    assert pinned("lowest")[name].split(".")[: lowest.count(".") + 1] == lowest.split(".")


def test_the_lowest_versions_of_all_packages_are_tested():
    """Those that the tests need, of which the file has another for what came later or is another's."""
    pins = pinned("lowest")
    for name, lowest in re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)', PROJECT):
        name = name.replace("-", "_")
        if name in pins:
            assert pins[name].split(".")[: lowest.count(".") + 1] == lowest.split("."), name


def test_the_page_names_the_range_of_cupy_and_the_cudas():
    ranges = re.findall(r'^cuda(\d+) = \["cupy-cuda\d+x\[ctk\]>=([\d.]+),<(\d+)"\]$', PROJECT, flags=re.MULTILINE)
    ((lowest, above),) = {(low, high) for _, low, high in ranges}
    assert supported("CuPy")[0] == f"{lowest} to {int(above) - 1}.x"
    assert supported("CUDA")[0] == " and ".join(number for number, _, _ in ranges)
    default = re.search(r"^default_cupy=(.+)$", (ROOT / "ci" / "real_cupy").read_text(), flags=re.MULTILINE)[1]
    assert supported("CuPy")[1].startswith(f"{lowest} and {default},")


def test_the_workflows_test_every_python_that_the_page_names():
    matrix = re.search(r"python: \[(.+)\]\n +numpy: \[pinned\]", WORKFLOWS["tests.yml"])[1]
    lowest_numpy = re.findall(r'- \{python: "([\d.]+)", numpy: "2\.\d\.\*"\}', WORKFLOWS["tests.yml"])
    assert re.findall(r'"([\d.]+)"', matrix) == lowest_numpy == TESTED
    assert "[macos-latest, windows-latest]" in WORKFLOWS["tests.yml"]


def test_workflows_call_scripts_that_exist_and_no_pull_request_reaches_a_runner_of_ours():
    assert set(WORKFLOWS) == {"tests.yml", "gpu.yml", "docs.yml", "release.yml", "weekly.yml"}
    for name, text in WORKFLOWS.items():
        scripts = re.findall(r"(?<![\w/])ci/\w+", text)
        assert [script for script in scripts if not list(ROOT.glob(f"{script}*"))] == []
        assert not ("self-hosted" in text and "pull_request" in text), name
        assert text.count("permissions:") >= 1 and text.count("timeout-minutes:") == text.count("runs-on:")


def test_a_release_has_wheels_with_the_native_engine_a_wheel_for_the_rest_and_the_sources():
    release, lowest = WORKFLOWS["release.yml"], TESTED[0].replace(".", "")
    assert "os: [ubuntu-latest, ubuntu-24.04-arm, macos-15, macos-15-intel]" in release
    assert re.search(r"pypa/cibuildwheel@v\d+\.\d+\.\d+\b", release)
    assert re.search(r'GPULAYOUT_BUILD_NATIVE: "0"\n +run: python -m build --wheel\n', release)
    assert "python -m build --sdist" in release and "needs: [check, native]" in release
    section = PROJECT.partition("[tool.cibuildwheel]")[2].partition("\n[")[0]
    assert f'build = "cp{lowest}-*"' in section and 'GPULAYOUT_BUILD_NATIVE = "require"' in section
    assert f'return tag if self.root_is_pure else ("cp{lowest}", "abi3", tag[2])' in SETUP
    assert f'("Py_LIMITED_API", "0x03{int(TESTED[0][2:]):02X}0000")' in SETUP
    compilers = supported(r"C\+\+ compiler")[0]
    assert "g++ 12, clang 14 or newer" in SETUP and compilers.startswith("g++ 12 and newer, clang 14 and newer;")


def test_the_hooks_pin_the_versions_that_ci_installs():
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "ci" / "constraints.txt").read_text(), flags=re.MULTILINE))
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    found = dict(re.findall(r"/(ruff|mirrors-mypy)[\w-]*\n +rev: v([\d.]+)\n", hooks))
    assert found == {"ruff": pins["ruff"], "mirrors-mypy": pins["mypy"]}
    for name, version in re.findall(r"([\w-]+)==([\d.]+)", hooks):
        assert version == pins[name.replace("_", "-")] or name == "numpy"  # each Python has a newest NumPy of its own
