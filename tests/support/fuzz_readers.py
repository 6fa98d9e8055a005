"""Fuzzes everything that reads text or bytes: shapes, layouts, programs, patterns of axes, protos.

    python -m tests.support.fuzz_readers --minutes 10 --seed 0

An input is an entry of the reader's corpus with a few changes; accepted inputs are changed again.  A reader either
refuses an input with its own error and a short message, or gives a value that survives being written and read again.
Anything else ends the run with exit code 1 and prints the input.  Add that input to tests/data/reader_corpus.json:
`tests/layout/test_fuzz_readers.py` then reads it every time.  A run that hangs for a minute ends with a traceback.
"""

import argparse
import collections
import faulthandler
import json
import pathlib
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import gpulayout as gl
from tests.support import wire

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CORPUS = json.loads((DATA / "reader_corpus.json").read_text())
LONGEST_INPUT, LONGEST_MESSAGE, LONGEST_PATTERN = 4000, 2000, 500
TOKENS = (
    *"{ } [ ] ( ) , : * ? <= # - /* */ // T( L( E( S( SC( M( D( P( PD( PV( b( f32 s4 token[] opaque[]".split(),
    *"0 1 2 128 300 00 lowest 1e999 nan".split(),
    *(str(2**31), str(2**63 - 1), str(2**63), "9" * 40, " ", "\0", "é", "٣"),
)
PATTERN_TOKENS = (*"( ) -> ... a b c h w 1 0 - > . ~0".split(), " ", "\0", "é")
PROGRAM_TOKENS = (*TOKENS, *"%a = add( -> f32[2]{0} metadata= s32[] b( ROOT".split(), '"', "\\", "\n")
NUMBERS = (0, 1, 2, 3, 7, 8, 11, 13, 14, 17, 34, 127, 128, 300, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2)


# ---- what a reader may do with an input --------------------------------------------------------------


def check_shape(text):
    """True when the text is a shape."""
    try:
        shape = gl.parse_shape(text)
    except gl.ShapeTextError as error:
        _check_refusal(error, text)
        return False
    written = str(shape)
    again = gl.parse_shape(written)
    assert again == shape and str(again) == written, written
    assert plain(written) == plain(text), written
    return True


def check_layout(text):
    """True when the text is a layout."""
    try:
        layout = gl.parse_layout(text)
    except gl.ShapeTextError as error:
        _check_refusal(error, text)
        return False
    written = str(layout)
    again = gl.parse_layout(written)
    assert again == layout and str(again) == written, written
    assert plain(written) == plain(text), written
    return True


def _check_refusal(error, text):
    assert 0 <= error.position <= len(text) and len(str(error)) < LONGEST_MESSAGE, error


def check_program(text):
    """True when the text holds shapes: each is where the reader says, and they stand side by side."""
    end = 0
    for found in gl.xla.find_shapes(text):
        assert end <= found.start < found.end <= len(text), found
        assert gl.parse_shape(text[found.start : found.end]) == found.shape, found
        assert found.line == text.count("\n", 0, found.start) + 1, found
        assert text.split("\n")[found.line - 1][found.column - 1 :].startswith(text[found.start]), found
        end = found.end
    return end > 0


def check_pattern(text):
    """True when the text rearranges the axes of an array: every element stays, and blanks do not count."""
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    sizes = {"a": 2} if re.search(r"\ba\b", text) else {}
    try:
        result = gl.transpose(array, text, **sizes)
    except gl.LayoutError as error:
        assert len(str(error)) < LONGEST_MESSAGE, error
        return False
    assert np.array_equal(np.sort(result, axis=None), array.reshape(-1)), result
    assert np.array_equal(gl.transpose(array, f"  {text}  ".replace("->", " -> "), **sizes), result), result
    return True


def check_proto(data):
    """True when the bytes are a shape in some dialect."""
    read = [_check_proto(data, dialect) for dialect in ("xla", "2017")]  # both, whatever the first gives
    return any(read)


def check_layout_proto(data):
    """True when the bytes are a layout in some dialect."""
    read = [_check_layout_proto(data, dialect) for dialect in ("xla", "2017")]
    return any(read)


def _check_proto(data, dialect):
    try:
        shape = gl.xla.shape_from_proto(data, dialect)
    except gl.LayoutError as error:
        assert len(str(error)) < LONGEST_MESSAGE, error
        return False
    assert gl.parse_shape(str(shape)) == shape
    _check_written(data, shape, dialect, "ShapeProto", gl.xla.shape_from_proto, gl.xla.shape_to_proto)
    return True


def _check_layout_proto(data, dialect):
    try:
        layout = gl.xla.layout_from_proto(data, dialect)
    except gl.LayoutError as error:
        assert len(str(error)) < LONGEST_MESSAGE, error
        return False
    assert gl.parse_layout(str(layout)) == layout
    _check_written(data, layout, dialect, "LayoutProto", gl.xla.layout_from_proto, gl.xla.layout_to_proto)
    return True


def _check_written(data, value, dialect, message, read, write):
    """A value survives its own bytes, and written into the message it came from it keeps every unknown field."""
    written = write(value, dialect)
    assert read(written, dialect) == value and not unknown(written, message), written
    kept = write(value, dialect, into=data)
    assert read(kept, dialect) == value and unknown(kept, message) == unknown(data, message), kept


def unknown(data, message="ShapeProto"):
    """The fields of a message that it does not have."""
    return wire.unknown_fields(wire.decode(data, message), message)


def plain(text):
    """The text without what a reader may drop: blanks, comments, leading zeros, values that are the default.

    Nothing of the library is used, so a property that the reader loses shows.

    >>> plain("f32[2, 03]/* x */"), plain("f32[2]{0:T(2)L(1)S(0)}")
    ('f32[2,3]{1,0}', 'f32[2]{0:T(2)}')
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*|[ \t\r\n]+", "", text, flags=re.DOTALL)
    text = re.sub(r"PV\([^()]*\)", "PV", text)  # one number has many spellings
    text = re.sub(r"(?<![0-9A-Za-z_])0+(?=[0-9])", "", text)
    text = re.sub(r"(?<![A-Z])D\([D,]*\)|L\(1\)|[ESM]\(0\)", "", text).replace(":}", "}")
    return re.sub(r"(?<=\[)([0-9<=?,]+)\](?!\{)", _with_descending_layout, text).replace("]{}", "]")


def _with_descending_layout(match):
    rank = match[1].count(",") + 1
    return f"{match[0]}{{{','.join(map(str, reversed(range(rank))))}}}"


# ---- changes -------------------------------------------------------------------------------------------


def change_text(text, rng, others, tokens=TOKENS):
    """The text with one change."""
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.choice((1, 1, 1, 2, 5, 20)))
    other = rng.choice(others)
    cut = rng.randrange(len(other) + 1)
    return rng.choice(
        (
            lambda: text[:start] + text[stop:],
            lambda: text[:start] + rng.choice(tokens) + text[start:],
            lambda: text[:start] + rng.choice(tokens) + text[stop:],
            lambda: text[:stop] + text[start:],
            lambda: text[:start] + other[cut:],
            lambda: f"({text}, {other})",
            lambda: _with_other_number(text, rng),
            lambda: _with_other_number(text, rng),
            lambda: text[:start] + rng.choice("(b[{") * rng.choice((3, 70, 500)) + text[start:],
        )
    )()


def _with_other_number(text, rng):
    """Replace one of the numbers in the text."""
    numbers = list(re.finditer("[0-9]+", text))
    if not numbers:
        return text
    at = rng.choice(numbers)
    return (
        f"{text[: at.start()]}{rng.choice((0, 1, 2, 3, 4, 5, 8, 64, 127, 128, rng.choice(NUMBERS)))}{text[at.end() :]}"
    )


def change_pattern(text, rng, others):
    """The pattern with one change."""
    return change_text(text, rng, others, PATTERN_TOKENS)[:LONGEST_PATTERN]


def change_program(text, rng, others):
    """The program with one change."""
    return change_text(text, rng, others, PROGRAM_TOKENS)


def change_proto(data, rng, others, kind="ShapeProto"):
    """The message with one change.  Most changes keep the wire format intact, so that they reach the fields."""
    try:
        fields, other = (wire.decode(message, kind) for message in (data, rng.choice(others)))
    except (ValueError, IndexError):
        fields = None
    if not fields or not other or rng.random() < 0.2:
        at = rng.randrange(len(data) + 1)
        return rng.choice(
            (
                lambda: data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
                lambda: data[:at],
                lambda: data[:at] + data[at + 1 :],
                lambda: data[:at] + rng.randbytes(3) + data[at:],
            )
        )()
    level = fields
    while (nested := [value for _, _, value in level if isinstance(value, list) and value]) and rng.random() < 0.7:
        level = rng.choice(nested)
    _change_fields(level, rng, other)
    if kind == "ShapeProto" and rng.random() < 0.1:
        fields = [[2, 0, rng.choice((13, 34))], [4, 2, fields]]
    return wire.encode(fields)


def change_layout_proto(data, rng, others):
    """The message of a layout with one change."""
    return change_proto(data, rng, others, "LayoutProto")


def _change_fields(level, rng, other):
    """Change one field of a message in place."""
    at = rng.randrange(len(level))
    number, wire_type, value = level[at]
    rng.choice(
        (
            lambda: level.pop(at),
            lambda: level.insert(at, list(rng.choice(level))),
            lambda: level.insert(at, list(rng.choice(other))),
            lambda: level.append([rng.choice((*range(1, 19), 20, 500)), 0, rng.choice(NUMBERS)]),
            lambda: level.append([rng.choice((*range(1, 19), 20, 500)), 2, rng.randbytes(rng.randrange(5))]),
            lambda: level.append([rng.choice((18, 19, 500)), 5, rng.randbytes(4)]),
            lambda: level.__setitem__(at, [rng.randrange(1, 20), wire_type, value]),
            lambda: level.__setitem__(at, _with_other_value(number, wire_type, value, rng)),
            lambda: level.__setitem__(at, _with_other_value(number, wire_type, value, rng)),
        )
    )()


def _with_other_value(number, wire_type, value, rng):
    """Another number; a packed list gains, loses or changes one entry."""
    if wire_type == 0:
        return [number, 0, rng.choice(NUMBERS)]
    if not isinstance(value, bytes):
        return [number, wire_type, value + [[rng.randrange(1, 20), 0, rng.choice(NUMBERS)]]]
    at = rng.randrange(len(value) + 1)
    return [
        number,
        wire_type,
        value[:at] + rng.choice((b"", wire.varint(rng.choice(NUMBERS)))) + value[at + rng.randrange(2) :],
    ]


# ---- readers -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """How one reader is fuzzed."""

    corpus: Callable  # () -> the inputs to begin with
    check: Callable  # input -> True if it was read, False if it was refused; an exception is a finding
    change: Callable  # (input, rng, corpus) -> another input


def _protos():
    return [bytes.fromhex(entry) for entry in CORPUS["proto"]]


def _layouts():
    """The braces of the shapes in the corpus, and texts that are no layout."""
    braces = [text[text.index("{") :] for text in CORPUS["text"] if "{" in text and text[0] not in "(b"]
    return list(dict.fromkeys([*braces, "", "{", "1,0", "NCHW", "{:", "{1,0", "{0}{0}", "{0}}"]))


def _programs():
    """Instructions made of the shapes in the corpus, lines of real programs, and texts that hold no shape."""
    made = [f"  %x.{number} = {text} add(f32[2]{{0}} %y)" for number, text in enumerate(CORPUS["text"])]
    dumps = [path.read_text().splitlines() for path in sorted((DATA / "hlo").glob("*.txt"))]
    real = [line[:400] for lines in dumps for line in lines[:: max(1, len(lines) // 10)] if line]
    nothing = ["", "add(", 'name="f32[2]"', "// f32[2]", "/* f32[2] */", "%f32[2]", "f33[2]", "f32[2", "((((", "b("]
    return [*made, *real, *nothing, "NaN", "{1,0}", "module"]


def _layout_protos():
    """The layouts inside the messages of the corpus, and messages of other kinds."""
    found = []
    for data in _protos():
        try:
            fields = wire.decode(data, "ShapeProto")
        except (ValueError, IndexError):
            found.append(data)
            continue
        found += [wire.encode(value) for number, wire_type, value in fields if (number, wire_type) == (5, 2)]
    return list(dict.fromkeys([*found, *_protos()[:12]]))


READERS = {
    "text": Reader(lambda: list(CORPUS["text"]), check_shape, change_text),
    "layout": Reader(_layouts, check_layout, change_text),
    "program": Reader(_programs, check_program, change_program),
    "pattern": Reader(lambda: list(CORPUS["pattern"]), check_pattern, change_pattern),
    "proto": Reader(_protos, check_proto, change_proto),
    "layout_proto": Reader(_layout_protos, check_layout_proto, change_layout_proto),
}
PROTO_READERS = ("proto", "layout_proto")  # they need protobuf


# ---- runs ----------------------------------------------------------------------------------------------


def corpus(reader):
    """The inputs to begin with, as the reader takes them."""
    return READERS[reader].corpus()


class Finding(Exception):
    """An input that a reader neither read nor refused properly."""


def fuzz(reader, rng, keep_going):
    """Give a reader changed inputs while `keep_going(how many so far)`; {"read": count, "refused": count}.

    Accepted inputs join a pool of a thousand that are changed further.
    """
    check, change = READERS[reader].check, READERS[reader].change
    first = corpus(reader)
    pool, found = list(first), collections.Counter()
    while keep_going(found["read"] + found["refused"]):
        data = rng.choice(pool if rng.random() < 0.7 else first)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            data = change(data, rng, first)[:LONGEST_INPUT]
        try:
            read = check(data)
        except Exception as error:
            shown = json.dumps(data.hex() if isinstance(data, bytes) else data)
            raise Finding(f"{type(error).__name__}: {error}\n{reader}: {shown}") from error
        found["read" if read else "refused"] += 1
        if read:
            if len(pool) < len(first) + 1000:
                pool.append(data)
            else:
                pool[rng.randrange(len(first), len(pool))] = data
    return found


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for reader in READERS:
        end = time.monotonic() + 60 * given.minutes / len(READERS)

        def keep_going(count, end=end):
            if count % 1000 == 0:
                faulthandler.dump_traceback_later(60, exit=True)
            return time.monotonic() < end

        try:
            found = fuzz(reader, random.Random(given.seed), keep_going)
        except Finding as finding:
            print(finding)
            return 1
        print(f"{reader}: {sum(found.values())} inputs, {found['read']} read, {found['refused']} refused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
