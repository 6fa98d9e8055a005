"""Builds the sdist and the wheel outside the checkout, installs them in every way, and runs them from another folder.

All of that with the native engine, if this machine has a compiler, and then without, as where there is none: from the
same folders, of which nothing of the first build may come along.  Nothing is downloaded: packages are built with the
installed setuptools, and the clean environments have links to the dependencies of the Python that runs this.  Stops at
the first error.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
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
    "*.so",
    "native_build.txt",
)
# The two kinds of installation: what is in the environment, the wheel's tag, the file that tells them apart, and what
# native.missing() begins with.
ENGINE = "gpulayout/cpu/_native.abi3.so"
KINDS = {
    "with the native engine": (
        {"GPULAYOUT_BUILD_NATIVE": "require"},
        f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}",
        ENGINE,
        "",
    ),
    "without a compiler": (
        {"CXX": "no-such-compiler"},
        "py3-none-any",
        "gpulayout/cpu/native_build.txt",
        "the native engine was not built: there is no C++ compiler, no-such-compiler is not on the PATH: install ",
    ),
}

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
assert gpulayout.pack([[1, 2, 3], [4, 5, 6]], "f32[2,3]{0,1:PD(3,3)}").tolist() == [1, 4, 0, 2, 5, 0, 3, 6, 0]
from gpulayout.cpu import native
missing = native.missing()
assert missing.startswith(sys.argv[2]) and bool(missing) == bool(sys.argv[2]) == (native.module() is None), missing
assert missing or pathlib.Path(native.module().__file__).is_relative_to(sys.argv[1]), native.module()
for name in sys.argv[3:]:
    assert importlib.util.find_spec(name) is None, f"{name} can be imported"
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        tree = work / "clone" / "gpulayout"  # called like the package, as a clone is
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
        dependencies = link_dependencies(work / "dependencies")
        sdist = build(tree, "build_sdist", work / "dist", {})
        check_sdist(sdist)
        shutil.unpack_archive(sdist, work / "unpacked")
        print(f"wheel check: {sdist.name} holds every file")
        quick = make_quick_compiler(work / "quick")
        for number, kind in enumerate(KINDS):
            if kind == "with the native engine" and (reason := cannot_compile()):
                print(f"wheel check: left out what is installed {kind}: {reason}")
                continue
            (work / str(number)).mkdir()
            check_kind(kind, work / str(number), tree, next((work / "unpacked").iterdir()), dependencies, quick)


def cannot_compile() -> str:
    """Why this machine cannot compile the engine; empty if it can, or must."""
    compiler = os.environ.get("CXX") or "g++"
    if os.environ.get("GPULAYOUT_BUILD_NATIVE") == "require":
        return ""
    if shutil.which(compiler) is None:
        return f"{compiler} is not on the PATH"
    return "" if pathlib.Path(sysconfig.get_path("include"), "Python.h").exists() else "there are no headers of Python"


QUICK_COMPILER = """#!/bin/sh
previous="" compiles="" flags=""
for word; do
  case $previous$word in -o*) out=$word ;; -c*) compiles=yes ;; esac
  case $previous$word in -o* | -I*) ;; *) flags="$flags $word" ;; esac
  previous=""
  [ "$word" != -o ] || previous=$word
done
[ -n "$compiles" ] || exec COMPILER "$@" -O0
COMPILER "$@" -O0 -E || exit
known=FOLDER/$({ echo "$flags"; cat "$out"; } | cksum | tr -d ' ').o
if [ -f "$known" ]; then exec cp "$known" "$out"; fi
COMPILER "$@" -O0 && cp "$out" "$known"
"""


def make_quick_compiler(folder: pathlib.Path) -> pathlib.Path:
    """A C++ compiler that leaves out optimization, and compiles the same text once.

    ci/venv has compiled the same sources as users compile them; here the question is which files and flags arrive.
    """
    folder.mkdir()
    path = folder / "compiler"
    text = QUICK_COMPILER.replace("COMPILER", os.environ.get("CXX") or "g++").replace("FOLDER", str(folder))
    path.write_text(text)
    path.chmod(0o755)
    return path


def check_kind(
    kind: str,
    work: pathlib.Path,
    tree: pathlib.Path,
    unpacked: pathlib.Path,
    dependencies: pathlib.Path,
    quick: pathlib.Path,
) -> None:
    """The wheel and each way of installing, of one kind."""
    environ, tag, own, missing = KINDS[kind]
    environ = {"CXX": str(quick)} | environ
    wheel = build(unpacked, "build_wheel", work / "dist", environ)  # from the sdist, as an installer would
    check_wheel(wheel, tag, own)
    print(f"wheel check: {kind}: {wheel.name} holds every file")
    for way, arguments, home in (
        ("wheel", [str(wheel)], work / "env_wheel"),
        ("folder", [str(tree)], work / "env_folder"),
        ("editable", ["--editable", str(tree)], tree),
    ):
        environment = work / f"env_{way}"
        install(environment, arguments, dependencies, environ)
        check_install(environment, home, work / "elsewhere", missing, NEVER_INSTALLED if way != "editable" else ())
        check_install(environment, home, tree.parent, missing, ())
        print(f"wheel check: {kind}: {way} install works from another folder and from the one above a clone")


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


def build(tree: pathlib.Path, hook: str, out: pathlib.Path, environ: dict[str, str]) -> pathlib.Path:
    """The file that a hook of the build backend makes, without isolation, so that nothing is downloaded."""
    out.mkdir(exist_ok=True)
    call = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    run([sys.executable, "-c", call, str(out)], tree, environ)
    return next(out.glob("*.tar.gz" if hook == "build_sdist" else "*.whl"))


def check_sdist(path: pathlib.Path) -> None:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        str(file.relative_to(ROOT))
        for folder in ("gpulayout", "kernels", "tests", "benchmarks", "ci", "docs")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix in (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".md", ".toml")
    }
    wanted.add("setup.py")
    assert wanted <= names, f"the sdist lacks {sorted(wanted - names)}"
    built = [name for name in names if name.endswith((".so", "native_build.txt"))]
    assert not built, f"the sdist has {built}, which belong to one machine"


def check_wheel(path: pathlib.Path, tag: str, own: str) -> None:
    """Exactly the modules and ready maps of gpulayout/, py.typed, the kernels' costs, their sources, and `own`."""
    assert path.name.endswith(f"-{tag}.whl"), f"{path.name} is not for {tag}"
    names = {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}
    wanted = {str(file.relative_to(ROOT)) for kind in ("*.py", "*.toml") for file in (ROOT / "gpulayout").rglob(kind)}
    wanted |= {"gpulayout/py.typed", "gpulayout/gpu/kernel_costs.json", own}
    wanted |= {
        f"gpulayout/kernels/{file.name}" for pattern in ("*.cu", "*.cuh") for file in (ROOT / "kernels").glob(pattern)
    }
    assert names == wanted, f"the wheel lacks {sorted(wanted - names)} and should not have {sorted(names - wanted)}"


def install(
    environment: pathlib.Path, arguments: list[str], dependencies: pathlib.Path, environ: dict[str, str]
) -> None:
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
        environ,
    )


def check_install(
    environment: pathlib.Path, home: pathlib.Path, elsewhere: pathlib.Path, missing: str, absent: tuple[str, ...]
) -> None:
    """The library without its optional packages, and the command, run in a folder.

    missing   how the reason begins why there is no native engine; empty if there is one
    absent    modules that must not be importable
    """
    elsewhere.mkdir(exist_ok=True)
    run([str(environment / "bin" / "python"), "-c", CORE, str(home), missing, *absent], elsewhere, {})
    version = run([str(environment / "bin" / "gpulayout"), "--version"], elsewhere, {})
    assert "gpulayout" in version, version


def run(command: list[str], folder: pathlib.Path, environ: dict[str, str]) -> str:
    """What a command prints, with these variables and without those that would change what is installed or runs."""
    # a PYTHONPATH to a checkout would hide what is installed
    hidden = ("PYTHONPATH", "GPULAYOUT_BUILD_NATIVE", "GPULAYOUT_NATIVE")
    outside = {name: value for name, value in os.environ.items() if name not in hidden} | environ
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=outside)
    if done.returncode:
        sys.exit(f"wheel check: {' '.join(command[:4])} ... failed in {folder.name}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
