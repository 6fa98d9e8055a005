"""How long each reader of text takes, and how much memory, for texts of 1 KB to 1 MB: `python -m benchmarks.readers`.

Every reader gets ordinary texts and hostile ones: one long token, many tokens, deep nesting, many commas, many digits.
A text is a frame with a hole, and something short that fills it again and again:

    f32[_]          1,          f32[1,1,1,...]

The table has the slowest text of each reader.  Time and memory grow with the length of the text, or the text is refused
early.  `tests/benchmarks/test_readers.py` proves the same by counting, without a clock.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from click.testing import CliRunner

import gpulayout as gl
from benchmarks.machine import machine
from gpulayout.catalogue.names import read_name
from gpulayout.cli.main import commands
from gpulayout.files.checkpoints.header import read_contents
from gpulayout.files.checkpoints.kinds import kind_in_name
from gpulayout.files.checkpoints.maps import read_map
from gpulayout.files.checkpoints.name_regex import NameRegex
from gpulayout.files.checkpoints.opening import read_index
from gpulayout.files.checkpoints.rule_text import rule_of_text
from gpulayout.files.npy import read_header
from gpulayout.interop import from_cute
from gpulayout.layout.checks import byte_count
from gpulayout.xla.hlo_results import find_results

SIZES = (1_000, 10_000, 100_000, 1_000_000)  # characters
ALL_TEXTS = 10_000  # characters up to which all texts are read; longer ones only of the kinds that were slowest before
SLOWEST = 3
MEASURED = 1  # of these, whose memory is measured: that takes much longer
ERRORS = (ValueError, TypeError, click.ClickException)  # what readers raise; nothing else may come
# What fills the hole, besides what a reader has of its own.
FILLS = (
    "a",
    "1",
    "9",
    "0",
    "(",
    "[",
    "{",
    ")",
    "1,",
    "a,",
    ",",
    " ",
    "\t ",
    "\n",
    "-",
    "->",
    "=",
    ":",
    "::",
    ".",
    "...",
)
FILLS += (
    "/*",
    "//",
    '"',
    "\\",
    "'",
    "a1",
    "a.",
    "a b ",
    "a1 ",
    "_",
    "é",
    "\u0301",
    "\0",
    "x\n",
    "(1,",
    "(a ",
    "a(",
    "*",
    "?",
)


class Reader(NamedTuple):
    """One reader.

    frames   texts in which `_` is the hole
    fills    beside `FILLS`
    """

    read: Callable[[str], Any]
    frames: tuple[str, ...]
    fills: tuple[str, ...] = ()


class Text(NamedTuple):
    """One kind of text of a reader."""

    reader: str
    frame: str
    fill: str

    def of(self, size: int) -> str:
        """The text of about so many characters."""
        return self.frame.replace("_", self.fill * max(size // len(self.fill), 1))


def _in_file(name: str, read: Callable[[Path], Any], begin: Callable[[bytes], bytes] = bytes) -> Callable[[str], Any]:
    """A reader of files."""

    def reader(text: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(begin(text.encode(errors="replace")))
            return read(path)

    return reader


def _header(path: Path) -> Any:
    with open(path, "rb") as stream:
        return read_contents(str(path), stream)


def _with_length(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


def _npy(text: bytes) -> bytes:
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text


def _command(*before: str) -> Callable[[str], Any]:
    return lambda text: CliRunner().invoke(commands, [*before, text], catch_exceptions=False)


def _all(found: Iterator[Any]) -> int:
    return sum(1 for _ in found)


TENSOR = '"_":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
READERS: dict[str, Reader] = {
    "pattern": Reader(
        lambda text: gl.transpose(np.zeros((2, 3)), text),
        ("_", "_ -> _", "(_) b -> b", "a (b=_ c) -> c a"),
        ("a ", "(a)"),
    ),
    "layout": Reader(
        gl.parse_layout,
        (
            "_",
            "{_",
            "{_}",
            "{0:_}",
            "{0:T(_)}",
            "{0:T_}",
            "{0:PD(_)}",
            "{0:PV(_)}",
            "{0:SC_}",
            "{1,0:E(_)}",
            "{0:D(_)}",
        ),
        ("T(1)", "(1)", "(*,1)", "(0:1)", "D,", "PD(1)"),
    ),
    "shape": Reader(
        gl.parse_shape,
        ("_", "f32[_", "f32[_]", "f32[2]{_}", "_[2]", "f32[2]{0:T_}", "f32[_]{0}", "f32 /*_*/[2]", "f32[_2]{0}"),
        ("<=1,", "?,", "(1)"),
    ),
    "shapes in tuples": Reader(
        gl.xla.parse_any_shape,
        ("_", "(_", "(_)", "b(_)"),
        ("f32[2],", "(f32[2],", "((),", "token[],", "b(f32[2]),", "f32[2]{0},"),
    ),
    "CuTe layout": Reader(
        lambda text: from_cute(text, "u8"),
        ("_", "(_", "(_1)", "(_1):(_1)", "((_1),2)", "_:_", "(_2):(1)", "S_"),
        ("2,", "(2,", "(2,2),", "_1,", "1@", "Sw<"),
    ),
    "layout name": Reader(
        lambda text: gl.Layout.named(text, logical="NCHW"), ("_", "NCHW_", "NCHW_c"), ("16c", "N", "N/1")
    ),
    "catalogue name": Reader(
        read_name,
        (
            "_",
            "cublas:_",
            "cublas:block_scales_",
            "cublas:block_scales(_)",
            "cublas:block_scales[_]",
            "cublas:block_scales[2,3]_x",
            "cublas:block_scales(a=_)",
            "cublas:block_scales_[2,3]_x",
            "cublas:block_scales_x",
            "cublas:block_scales_(a=b)_[2,3]_x",
            "_cublas:block_scales_[2",
        ),
        ("a=b,",),
    ),
    "element type": Reader(gl.ElementType.of, ("_", "f_", "<_", "f8e_m3"), ("f32",)),
    "bytes": Reader(lambda text: byte_count("max_bytes", text), ("_", "_M", "1._G", "1_M", "1._"), ()),
    "HLO module": Reader(
        lambda text: _all(find_results(text)),
        ("_", "ENTRY e {\n_\n}", "%a = _ add()", "%a = f32[2]_ add()", "%_ = f32[2] add()"),
        (
            "%a = f32[2]{0} add(%b)\n",
            "(f32[2],",
            "f32[2]{",
            "f32[",
            "f32",
            "%a = f32[2] fusion(), calls=%a\n",
            "b(",
            "ROOT %a = (f32[2]) tuple(%a)\n",
            "a {\n",
            "/*",
            '"\\',
            "f32[2] ",
            "(f32[2])->",
            "%f (\n",
            "f32 ",
        ),
    ),
    "text with shapes": Reader(
        lambda text: _all(gl.xla.find_shapes(text)),
        ("_",),
        ("(f32[2],", "f32[2]{0}", "f32 ", "f32[2]{0:T", "((f32[2]),", '"f32[2]', "f32[<="),
    ),
    "rule": Reader(
        rule_of_text,
        ("_", "a=_", "a=i o -> o i; _", "a=name=_", "_=keep", "a=scale=_", "a=i o -> o i; flip=_", "a=rank=_"),
        (";", "\\1", "\\g<", "\\g<1>", "keep;", "(a)", "a=b;"),
    ),
    "name of a tensor, many rules": Reader(
        lambda text: [
            NameRegex(each, "rule").fullmatch(text)
            for each in ("(a+)+b", r"(.*[./])?weight", r"(?!.*(?:lstm|gru|rnn))(.*/)?kernel", r"([^.]*)\.(.*)\.weight")
        ],
        ("_", "_.weight"),
        ("ab",),
    ),
    "kind in a name": Reader(
        lambda text: kind_in_name(text, {}),
        ("_", "_.weight", "a_.weight", "conv_.weight"),
        ("1.", "conv.", "embed", "Ab", "A", "trans", "conv_tr", "emb"),
    ),
    "safetensors header": Reader(
        _in_file("a.safetensors", _header, _with_length),
        (
            "_",
            "{_",
            "{_}",
            f"{{{TENSOR}}}",
            '{"a":{"dtype":"U8","shape":[_],"data_offsets":[0,0]}}',
            '{"a":_}',
            '{"__metadata__":{"a":"_"}}',
        ),
        ('"a":', '{"a":', '"a":[],', "[[", '"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},', "1e", "\\ud800"),
    ),
    "safetensors index": Reader(
        _in_file("model.safetensors.index.json", read_index),
        ("_", '{"weight_map":{_}}', '{"weight_map":{"a":"_.safetensors"}}', '{"weight_map":{"_":"a.safetensors"}}'),
        ('"a":"a.safetensors",', '{"a":'),
    ),
    ".npy header": Reader(
        _in_file("a.npy", read_header, _npy),
        (
            "_",
            "{'descr':'<f4','fortran_order':False,'shape':(_),}",
            "{'descr':'_','fortran_order':False,'shape':(1,),}",
            "{'descr':_,'fortran_order':False,'shape':(1,),}",
        ),
        ("1L,", "-", "~", "not ", "1+", "[('a','<f4'),", "'a' "),
    ),
    "map": Reader(
        _in_file("a.toml", read_map),
        (
            "_",
            "a = _",
            "rename = [_]",
            "metadata = {_}",
            "[[tensor]]\nmatch = '_'\n",
            "[[tensor]]\nmatch='a'\nto='_'",
            "_ = 1",
            "a = '''_'''",
        ),
        (
            "[a.",
            "a.",
            "['a','b'],",
            "[[tensor]]\nmatch='a'\nto='C'\n",
            "{a=",
            "[a]\n",
            "a=1\n",
            "[a.b]\n",
            "'",
            "a = 1 ",
            "#",
        ),
    ),
    "command: show SHAPE": Reader(_command("show"), ("_", "f32[2,3]_", "f32[_]"), ()),
    "command: explain TO": Reader(_command("explain", "f32[2,3]"), ("_", "{_}", "a b -> _"), ()),
    "command: index": Reader(_command("index", "f32[2,3]"), ("_", "(_)", "1,_"), ()),
    "command: show --names": Reader(_command("show", "f32[2,3]", "--names"), ("_", "a,_"), ()),
    "command: --scale": Reader(_command("explain", "f32[2,3]", "f32[2,3]", "--scale"), ("_", "1,_"), ("1.5,",)),
    "command: --block": Reader(_command("explain", "f32[2,3]", "f32[2,3]", "--scale", "2", "--block"), ("_",), ()),
    "command: --memory": Reader(_command("relayout", "a.npy", "b.npy", "--memory"), ("_", "_M"), ()),
    "command: --tensor": Reader(
        _command("relayout", "a.safetensors", "b.safetensors", "--tensor"), ("_", "a=_", "_=keep"), ()
    ),
    "command: --code --name": Reader(_command("show", "f32[2,3]", "--code", "c", "--name"), ("_",), ()),
    "command: catalogue": Reader(_command("catalogue"), ("_", "cublas:_"), ()),
}


def texts(name: str) -> Iterator[Text]:
    """All kinds of text of a reader."""
    reader = READERS[name]
    for frame in reader.frames:
        for fill in (*FILLS, *reader.fills):
            yield Text(name, frame, fill)


def read(name: str, text: str) -> str:
    """Read a text; what became of it: "read", or the name of the error.  Other exceptions go on."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            READERS[name].read(text)
    except ERRORS as error:
        return type(error).__name__
    return "read"


def peak_bytes(name: str, text: str) -> int:
    """The most bytes that Python allocates while it reads a text."""
    tracemalloc.start()
    try:
        read(name, text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---- the table -----------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What the slowest texts of a reader cost, and the most memory that one of them takes."""

    seconds: float
    slowest: list[Text]
    peak: int


def costs(name: str, size: int, given: Sequence[Text]) -> Cost:
    """The costs of texts of one size."""
    times = []
    for text in given:
        whole = text.of(size)
        begin = time.perf_counter()
        read(name, whole)
        times.append((time.perf_counter() - begin, text))
    slowest = [text for _, text in sorted(times, key=lambda each: -each[0])[:SLOWEST]]
    peak = max(peak_bytes(name, text.of(size)) for text in slowest[:MEASURED])
    return Cost(max(seconds for seconds, _ in times), slowest, peak)


def table(names: Sequence[str], sizes: Sequence[int]) -> Iterator[str]:
    """The lines of the table, each as soon as it is known."""
    yield f"{'reader':30}" + "".join(f"{f'{size // 1000} KB':>12}{'memory':>10}" for size in sizes) + "  slowest text"
    for name in names:
        given, line = [*texts(name)], f"{name:30}"
        for size in sizes:
            found = costs(name, size, given)
            given = found.slowest if size >= ALL_TEXTS else given
            line += f"{found.seconds * 1e3:9.1f} ms{found.peak / 1e6:7.1f} MB"
        yield f"{line}  {found.slowest[0].frame!r} of {found.slowest[0].fill!r}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"one of {', '.join(READERS)}; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="in characters")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.readers if name not in READERS]:
        parser.error(f"{unknown[0]!r} is no reader: write one of {', '.join(READERS)}")
    found = machine("numpy", peers=False)
    print(f"{found['cpu']}, {found['cores']} cores, load {found['load']}, Python {found['python']}")
    for line in table(given.readers or [*READERS], given.sizes):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
