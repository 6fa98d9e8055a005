"""The numbers that planners and kernels share stand in gpu/kernel_numbers.py only; no kernel compiles without them."""

import re
import subprocess

import pytest

from gpulayout.gpu import kernel_numbers, kernel_source
from gpulayout.gpu.kernel_numbers import defines
from gpulayout.gpu.kernel_source import kernel_text
from tests.support.kernel_cases import kernel_files
from tests.support.simt import toolchain

INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
FILES = sorted(
    {*kernel_files(), *(name for file in kernel_files() for name in INCLUDE.findall(kernel_source.raw_text(file)))}
)


def files_of(file):
    """The file and all headers that it includes."""
    return {file}.union(*(files_of(name) for name in INCLUDE.findall(kernel_source.raw_text(file))))


def code(file):
    return re.sub(r"//.*", "", kernel_source.raw_text(file))


def demanded(file):
    """The macros without which a file refuses to compile."""
    return set(re.findall(r"!defined\((GPL_\w+)\)", code(file)))


def defined(file):
    names = "".join(re.findall(r"^enum \w+ \{([^}]*)\}", code(file), re.MULTILINE))
    return {*re.findall(r"^#define (GPL_\w+)", code(file), re.MULTILINE), *re.findall(r"GPL_\w+", names)}


@pytest.mark.parametrize("file", FILES)
def test_a_file_demands_every_macro_that_it_uses(file):
    used = set(re.findall(r"\bGPL_[A-Z_]+\b", re.sub(r"^#error.*", "", code(file), flags=re.MULTILINE)))
    known = set().union(*(demanded(each) | defined(each) for each in files_of(file)))
    assert used <= known, used - known


@pytest.mark.parametrize("file", FILES)
def test_no_number_stands_in_a_kernel_too(file):
    shared = set(re.findall(r"^#define (GPL_\w+)", defines(file), re.MULTILINE))
    assert shared <= demanded(file) and not shared & defined(file)


@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
@pytest.mark.parametrize("file", FILES)
def test_a_file_without_a_macro_does_not_compile(file):
    """The error names the file and the macro; with all of them there is none."""
    text = kernel_text(file)
    given = {name for each in files_of(file) for name in demanded(each)} - set(
        re.findall(r"^#define (GPL_\w+)", text, re.MULTILINE)
    )
    assert "#error" not in preprocessed(text, given)
    for name in sorted(demanded(file)):
        without = re.sub(rf"^#define {name} .*\n", "", text, flags=re.MULTILINE)
        assert re.search(rf'#error "?{re.escape(file)} needs .*\b{name}\b', preprocessed(without, given - {name}))


def preprocessed(text, macros):
    """The preprocessor's errors."""
    command = ["g++", "-E", "-x", "c++", "-", *(f"-D{name}=1" for name in sorted(macros))]
    return subprocess.run(command, input=text, capture_output=True, text=True).stderr


def test_a_changed_number_is_another_text(monkeypatch):
    """CuPy's cache is keyed by the text and the options, so it compiles anew."""
    before = kernel_text.__wrapped__("tile_any.cu")
    monkeypatch.setitem(kernel_numbers.FILES["tile_any.cu"], "SHARED_BYTES", 8192)
    after = kernel_text.__wrapped__("tile_any.cu")
    assert "#define GPL_SHARED_BYTES 17408\n" in before and "#define GPL_SHARED_BYTES 8192\n" in after
