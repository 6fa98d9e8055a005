"""ci/test and ci/real_cupy: what they call, what they leave out, and when that is a failure; and ci/venv."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.support.waiting import HANG

CI = pathlib.Path(__file__).resolve().parents[2] / "ci"
PYTHON = """#!/bin/sh
case "$*" in
  "-c import ruff") exit {no_ruff} ;;
  "-c import xdist") exit 0 ;;
  "-m ruff"*) echo "python $*"; exit {ruff} ;;
esac
echo "python $*"
exit {tests}
"""
STUB = '#!/bin/sh\necho "{name} $*"\nexit {status}\n'


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def run_ci_test(tmp_path):
    """run(*arguments, tests=0, wheel=0, cupy=0, ruff=0, docs=0, gpu=0, versions=0) -> (status, lines).

    A stub prints its call and ends with the given status; ruff=None: it is not installed.
    """
    (tmp_path / "ci").mkdir()
    shutil.copy(CI / "test", tmp_path / "ci" / "test")

    def run(*arguments, tests=0, wheel=0, cupy=0, ruff=0, docs=0, gpu=0, versions=0):
        write(
            tmp_path / "python", PYTHON.format(tests=tests, ruff=1 if ruff is None else ruff, no_ruff=int(ruff is None))
        )
        write(tmp_path / "ci" / "venv", f"#!/bin/sh\necho {tmp_path}/python\n")
        write(tmp_path / "ci" / "check_wheel", STUB.format(name="check_wheel", status=wheel))
        write(tmp_path / "ci" / "real_cupy", STUB.format(name="real_cupy", status=cupy))
        for name, found in {"docs": docs, "gpu": gpu, "versions": versions}.items():
            write(tmp_path / "ci" / name, STUB.format(name=name, status=found))
        done = subprocess.run([tmp_path / "ci" / "test", *arguments], capture_output=True, text=True, timeout=HANG)
        return done.returncode, done.stdout.splitlines()

    return run


def test_one_command_runs_the_suite_the_wheel_check_and_the_real_cupy(run_ci_test):
    status, lines = run_ci_test()
    assert status == 0
    assert {"check_wheel ", "real_cupy --quick"} <= set(lines) and any(
        line.startswith("python -m pytest") for line in lines
    )
    assert any(
        line.startswith("python -m pytest benchmarks/bench_") and "--quick --benchmark-disable" in line
        for line in lines
    )
    assert [line for line in lines if "ruff" in line] == [
        "python -m ruff check --quiet .",
        "python -m ruff format --check --quiet .",
    ]
    left_out = [line for line in lines if line.startswith("ci/test: left out: ")]
    assert len(left_out) == 5 and all("ci/test --all" in line for line in left_out[:4]) and "ci/gpu" in left_out[4]


def test_all_runs_every_version_of_cupy(run_ci_test):
    status, lines = run_ci_test("--all")
    assert status == 0 and "check_wheel " in lines
    assert [line for line in lines if line.startswith("real_cupy")] == [
        "real_cupy --install",
        "real_cupy ",
        "real_cupy --cuda 12",
        "real_cupy --cupy lowest",
        "real_cupy --cuda 12 --cupy lowest",
    ]
    assert "docs --build" in lines and {"versions lowest", "versions gpu-machine", "gpu --rehearse"} <= set(lines)


@pytest.mark.parametrize("found, status", [(0, 0), (77, 0), (1, 1)])
def test_all_says_which_versions_this_machine_cannot_run(run_ci_test, found, status):
    ended, lines = run_ci_test("--all", versions=found)
    said = "ci/test: left out: ci/versions gpu-machine: this machine cannot run it, see above" in lines
    assert (ended, said) == (status, found == 77)


@pytest.mark.parametrize("given", [(), ("--all",)])
def test_arguments_go_to_pytest_alone(run_ci_test, given):
    status, lines = run_ci_test(*given, "-k", "plan")
    called = [line for line in lines if not line.startswith("ci/test: left out: ")]
    assert status == 0 and len(called) == 1 and re.fullmatch(r"python -m pytest .*-k plan", called[0])


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_short_and_runs_nothing(run_ci_test, option):
    status, lines = run_ci_test(option)
    assert status == 0 and len(lines) <= 24 and any(line.strip().startswith("ci/test --all") for line in lines)
    assert not any(line.startswith(("python", "real_cupy", "check_wheel", "#")) for line in lines)


@pytest.mark.parametrize("script", ["demo", "check_wheel", "docs", "gpu", "real_cupy", "test", "venv", "versions"])
def test_a_search_path_of_cd_misleads_no_script(script):
    """cd prints the folder that it found by CDPATH, which would become part of every path."""
    environment = os.environ | {"CDPATH": "."}
    done = subprocess.run(
        ["bash", "-x", f"ci/{script}", "--help"], cwd=CI.parent, env=environment, capture_output=True, text=True
    )
    roots = re.findall(r"^\++ root=(.*(?:\n[^+].*)?)$", done.stderr, re.MULTILINE)
    assert done.returncode == 0 and roots == [str(CI.parent)]


@pytest.mark.parametrize("part", ["tests", "wheel", "cupy", "ruff"])
def test_each_part_can_fail_the_run(run_ci_test, part):
    assert run_ci_test(**{part: 3})[0] == 3


def test_a_machine_that_cannot_run_the_real_cupy_passes_and_says_so(run_ci_test):
    """What cannot be installed is not tried again."""
    status, lines = run_ci_test(cupy=77)
    assert status == 0 and "ci/test: left out: ci/real_cupy --quick: this machine cannot run it, see above" in lines
    assert "real_cupy --install" in lines and "real_cupy --quick" not in lines


@pytest.mark.parametrize("status, left_out", [(1, 0), (77, 1)])
def test_the_documentation_fails_the_run_or_is_left_out_where_sphinx_cannot_be_had(run_ci_test, status, left_out):
    found, lines = run_ci_test("--all", docs=status)
    assert found == (0 if left_out else status)
    assert sum(line.startswith("ci/test: left out: ci/docs") for line in lines) == left_out


def test_a_failed_rehearsal_fails_the_run(run_ci_test):
    assert run_ci_test("--all", gpu=1)[0] == 1 and run_ci_test("--all", gpu=77)[0] == 0


def test_without_ruff_the_rest_runs_and_says_so(run_ci_test):
    status, lines = run_ci_test(ruff=None)
    assert status == 0 and "ci/test: left out: ruff check and ruff format: ruff is not installed" in lines
    assert not any("-m ruff" in line for line in lines) and any("-m pytest" in line for line in lines)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("script", ["demo", "check_wheel", "docs"])
def test_help_answers_before_an_environment_is_made(script, option, tmp_path):
    (tmp_path / "ci").mkdir()
    shutil.copy(CI / script, tmp_path / "ci" / script)
    write(tmp_path / "ci" / "venv", "#!/bin/sh\nexit 9\n")
    done = subprocess.run([tmp_path / "ci" / script, option], capture_output=True, text=True, timeout=HANG)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "") and 3 <= len(lines) <= 24
    assert any(line.startswith(f"  ci/{script} ") for line in lines) and not any("#" in line for line in lines)
    assert subprocess.run([tmp_path / "ci" / script], capture_output=True, timeout=HANG).returncode == 9


def test_check_wheel_takes_no_arguments():
    done = subprocess.run([CI / "check_wheel", "--all"], capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stderr) == (2, "usage: ci/check_wheel\n")


# ---- ci/real_cupy ----------------------------------------------------------------------------------------------------


def real_cupy(*arguments, **environment):
    return subprocess.run(
        [CI / "real_cupy", *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "CI": "", **environment},
    )


def test_another_system_is_left_out_with_the_reason(tmp_path):
    write(tmp_path / "uname", "#!/bin/sh\necho Darwin arm64\n")
    done = real_cupy(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 77 and done.stderr.endswith("is for Linux on x86-64, this is Darwin arm64\n")


@pytest.mark.skipif(os.uname()[::4] != ("Linux", "x86_64"), reason="the script ends before this on other systems")
def test_no_compiler_is_left_out_with_the_reason():
    done = real_cupy(CXX="no-such-compiler")
    assert done.returncode == 77 and done.stderr.endswith("no C++ compiler: no-such-compiler is not on the PATH\n")


@pytest.mark.skipif(
    shutil.which("g++") is None or os.uname()[::4] != ("Linux", "x86_64"), reason="the script ends before this"
)
@pytest.mark.parametrize("ci, status", [("", 77), ("true", 1)])
def test_no_network_is_left_out_but_a_failure_in_continuous_integration(tmp_path, ci, status):
    write(
        tmp_path / "python",
        "#!/bin/sh\ncase \"$*\" in -m*) echo 'ERROR: No matching distribution found'; exit 1;; esac\n",
    )
    done = real_cupy(GPULAYOUT_CUPY_VENV=str(tmp_path / "venv"), PYTHON=str(tmp_path / "python"), CI=ci)
    assert done.returncode == status, done.stderr
    assert done.stderr.endswith("CuPy cannot be installed: ERROR: No matching distribution found\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_of_real_cupy_fits_a_screen_and_names_every_option(option):
    done = real_cupy(option)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and not done.stderr and len(lines) <= 24 and max(map(len, lines)) <= 130
    options = re.findall(r"^ +(--[a-z-]+)(?: \| -h)?\)", (CI / "real_cupy").read_text(), re.MULTILINE)
    assert {"--quick", "--install", "--host-calls", "--cuda", "--cupy", "--help"} == set(options)
    assert all(option in done.stdout for option in options if option != "--help")


def test_the_quick_form_leaves_out_tests_that_exist():
    """A name that is gone would leave out nothing, and pytest would not say so."""
    lines = [line for line in (CI / "long_gpu_tests.txt").read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        file, function = re.match(r"--deselect=(\S+\.py)::(\w+)", line).groups()
        assert f"\ndef {function}(" in (CI.parent / file).read_text(), line
    assert len(lines) > 10


@pytest.mark.parametrize(
    "arguments", [["--cuda"], ["--cuda", "11"], ["--cupy"], ["--quick", "--host-calls"], ["--quick", "--install"]]
)
def test_wrong_usage(arguments):
    done = real_cupy(*arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: ci/real_cupy")


def test_an_environment_behind_a_link_is_not_emptied(tmp_path):
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "gpulayout.stamp", "kept"):
        (other / name).touch()
    (tmp_path / "link").symlink_to(other)
    done = subprocess.run(
        [CI / "venv"],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "GPULAYOUT_VENV": str(tmp_path / "link"), "GPULAYOUT_PYTHON": ""},
    )
    assert done.returncode == 1 and "link is a link: remove it" in done.stderr
    assert (other / "kept").exists()


PACKAGES = {"numpy", "ml-dtypes", "click", "rich", "pytest", "hypothesis", "ruff"}


def test_every_package_is_pinned_for_every_python():
    from packaging.requirements import Requirement  # pytest needs it, too

    lines = [line for line in (CI / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    for version in ("3.11", "3.12", "3.13", "3.14"):
        here = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
        names = [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
        assert len(names) == len(set(names)) and PACKAGES <= set(names), version


@pytest.mark.parametrize("unpinned", ["", "1"])
def test_the_pins_are_installed_unless_told_otherwise(tmp_path, unpinned):
    """A Python that prints what it is asked to install."""
    write(
        tmp_path / "python",
        f"#!/bin/sh\ncase \"$*\" in *'-m venv'*) for venv; do :; done; mkdir -p $venv/bin; cp $0 $venv/bin/python ;;\n"
        f'*install*) echo "$*" >>{tmp_path}/asked ;; esac\n',
    )
    environment = {"PYTHON": str(tmp_path / "python"), "GPULAYOUT_VENV": str(tmp_path / "venv"), "GPULAYOUT_PYTHON": ""}
    done = subprocess.run(
        [CI / "venv"],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, **environment, "GPULAYOUT_UNPINNED": unpinned},
    )
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked and all(("--constraint" in line) == (not unpinned) for line in asked)
