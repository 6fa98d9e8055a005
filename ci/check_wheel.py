"""Builds the sdist and the wheel outside the checkout, installs them in every way, and runs them from another folder.

Nothing is downloaded: packages are built with the installed setuptools, and the clean environments have links to the
dependencies of the Python that runs this.  Stops at the first error.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from importlib.util import find_spec

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEVER_INSTALLED = ("kernels", "tests", "benchmarks", "ci", "docs")
# With the metadata of setuptools, where it finds its own commands.
DEPENDENCIES = (
    "numpy",
    "numpy.libs",
    "ml_dtypes",
    "click",
    "rich",
    "markdown_it",
    "mdurl",
    "pygments",
    "setuptools",
    "setuptools-*.dist-info",
    "_distutils_hack",
)
NOT_COPIED = (
    ".git",
    ".venv*",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".benchmarks",
    "__pycache__",
    "*.egg-info",
    "build",
    "dist",
    "gpu-results",
)

# What an installed package must be able to do without click, rich and CuPy, and what it must not bring along.
CORE = """
import sys
sys.modules.update(click=None, rich=None, cupy=None)
import importlib.util, pathlib
import gpulayout
from gpulayout.gpu.kernel_source import kernel_text
assert pathlib.Path(gpulayout.__file__).is_relative_to(sys.argv[1]), gpulayout.__file__
assert "__global__" in kernel_text("tile.cu") and "#include \\"" not in kernel_text("tile.cu")
assert gpulayout.linearize((1, 2), "f32[2,3]{0,1}") == 5
for name in sys.argv[2:]:
    assert importlib.util.find_spec(name) is None, f"{name} can be imported"
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        tree = work / "clone" / "gpulayout"  # called like the package, as a clone is
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
        dependencies = link_dependencies(work / "dependencies")
        sdist = build(tree, "build_sdist", work / "dist")
        check_sdist(sdist)
        shutil.unpack_archive(sdist, work / "unpacked")
        [unpacked] = (work / "unpacked").iterdir()
        wheel = build(unpacked, "build_wheel", work / "dist")  # from the sdist, as an installer would
        check_wheel(wheel)
        print(f"wheel check: {sdist.name} and {wheel.name} hold every file")
        for way, arguments, home in (
            ("wheel", [str(wheel)], work / "env_wheel"),
            ("folder", [str(tree)], work / "env_folder"),
            ("editable", ["--editable", str(tree)], tree),
        ):
            environment = work / f"env_{way}"
            install(environment, arguments, dependencies)
            check_install(environment, home, work / "elsewhere", NEVER_INSTALLED if way != "editable" else ())
            check_install(environment, home, tree.parent, ())
            print(f"wheel check: {way} install works from another folder and from the one above a clone")


def link_dependencies(folder: pathlib.Path) -> pathlib.Path:
    """A folder with links to the packages that gpulayout and its build need, and no others."""
    folder.mkdir()
    sites = [
        pathlib.Path(find_spec(name).origin).parent.parent
        for name in ("numpy", "ml_dtypes", "click", "setuptools", "rich")
        if find_spec(name)
    ]
    for site in sites:
        for package in (found for pattern in DEPENDENCIES for found in site.glob(pattern)):
            if not (folder / package.name).exists():
                (folder / package.name).symlink_to(package)
    return folder


def build(tree: pathlib.Path, hook: str, out: pathlib.Path) -> pathlib.Path:
    """The file that a hook of the build backend makes, without isolation, so that nothing is downloaded."""
    out.mkdir(exist_ok=True)
    call = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    run([sys.executable, "-c", call, str(out)], tree)
    return next(out.glob("*.tar.gz" if hook == "build_sdist" else "*.whl"))


def check_sdist(path: pathlib.Path) -> None:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        str(file.relative_to(ROOT))
        for folder in ("gpulayout", "kernels", "tests", "benchmarks", "ci", "docs")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix in (".py", ".cu", ".cuh", ".hpp", ".cpp", ".md", ".toml")
    }
    assert wanted <= names, f"the sdist lacks {sorted(wanted - names)}"


def check_wheel(path: pathlib.Path) -> None:
    """Exactly the modules and ready maps of gpulayout/, py.typed, the kernels' costs, and the sources in kernels/."""
    names = {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}
    wanted = {str(file.relative_to(ROOT)) for kind in ("*.py", "*.toml") for file in (ROOT / "gpulayout").rglob(kind)}
    wanted |= {"gpulayout/py.typed", "gpulayout/gpu/kernel_costs.json"}
    wanted |= {
        f"gpulayout/kernels/{file.name}" for pattern in ("*.cu", "*.cuh") for file in (ROOT / "kernels").glob(pattern)
    }
    assert names == wanted, f"the wheel lacks {sorted(wanted - names)} and should not have {sorted(names - wanted)}"


def install(environment: pathlib.Path, arguments: list[str], dependencies: pathlib.Path) -> None:
    """A clean environment with gpulayout in it, installed by pip from a local path."""
    venv.create(environment, with_pip=False, symlinks=True)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(environment),
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            *arguments,
        ],
        environment,
    )


def check_install(
    environment: pathlib.Path, home: pathlib.Path, elsewhere: pathlib.Path, absent: tuple[str, ...]
) -> None:
    """The library without its optional packages, and the command, run in a folder; `absent` modules must not be
    importable.
    """
    elsewhere.mkdir(exist_ok=True)
    run([str(environment / "bin" / "python"), "-c", CORE, str(home), *absent], elsewhere)
    version = run([str(environment / "bin" / "gpulayout"), "--version"], elsewhere)
    assert "gpulayout" in version, version


def run(command: list[str], folder: pathlib.Path) -> str:
    # a PYTHONPATH to a checkout would hide what is installed
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=outside)
    if done.returncode:
        sys.exit(f"wheel check: {' '.join(command[:4])} ... failed in {folder.name}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
