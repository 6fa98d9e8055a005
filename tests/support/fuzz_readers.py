"""Damaged text and damaged protos for the readers of shapes.

    python -m tests.support.fuzz_readers --minutes 10 --seed 0

Every input is an entry of tests/data/reader_corpus.json, changed in a few places; what a reader accepts is changed
again.  A reader may do two things with an input: refuse it with its own error, whose message is short, or give a value
that says the same once more when it is written and read again.  Anything else ends the run with exit code 1 and prints
the input: add it to the corpus, and `tests/layout/test_fuzz_readers.py` reads it from then on.  A run that hangs for a
minute ends with a traceback.
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

import gpulayout as gl
from tests.support import wire

CORPUS = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data" / "reader_corpus.json").read_text())
LONGEST_INPUT, LONGEST_MESSAGE = 4000, 2000
TOKENS = (
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "*",
    "?",
    "<=",
    "#",
    "-",
    "/*",
    "*/",
    "//",
    " ",
    "T(",
    "L(",
    "E(",
    "S(",
    "SC(",
    "M(",
    "D(",
    "P(",
    "PD(",
    "PV(",
    "b(",
    "f32",
    "s4",
    "token[]",
    "opaque[]",
    "0",
    "1",
    "2",
    "128",
    "300",
    "00",
    str(2**31),
    str(2**63 - 1),
    str(2**63),
    "9" * 40,
    "lowest",
    "1e999",
    "nan",
    "\0",
    "é",
    "٣",
)
NUMBERS = (0, 1, 2, 3, 7, 8, 11, 13, 14, 17, 34, 127, 128, 300, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2)


# ---- what a reader may do with an input --------------------------------------------------------------


def check_text(text):
    """True when the text is a shape."""
    try:
        shape = gl.parse_shape(text)
    except gl.ShapeTextError as error:
        assert 0 <= error.position <= len(text) and len(str(error)) < LONGEST_MESSAGE, error
        return False
    written = str(shape)
    again = gl.parse_shape(written)
    assert again == shape and str(again) == written, written
    return True


def check_proto(data):
    """True when the bytes are a shape in some dialect."""
    return any([_check_proto(data, dialect) for dialect in ("xla", "2017")])


def _check_proto(data, dialect):
    try:
        shape = gl.xla.shape_from_proto(data, dialect)
    except gl.LayoutError as error:
        assert len(str(error)) < LONGEST_MESSAGE, error
        return False
    assert gl.parse_shape(str(shape)) == shape
    written = gl.xla.shape_to_proto(shape, dialect)
    assert gl.xla.shape_from_proto(written, dialect) == shape and not unknown(written), written
    kept = gl.xla.shape_to_proto(shape, dialect, into=data)
    assert gl.xla.shape_from_proto(kept, dialect) == shape and unknown(kept) == unknown(data), kept
    return True


def unknown(data):
    """The fields of a shape's message that nobody knows."""
    return wire.unknown_fields(wire.decode(data, "ShapeProto"), "ShapeProto")


# ---- changes -------------------------------------------------------------------------------------------


def change_text(text, rng, others):
    """The text with one change."""
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.choice((1, 1, 1, 2, 5, 20)))
    other = rng.choice(others)
    cut = rng.randrange(len(other) + 1)
    return rng.choice(
        (
            lambda: text[:start] + text[stop:],
            lambda: text[:start] + rng.choice(TOKENS) + text[start:],
            lambda: text[:start] + rng.choice(TOKENS) + text[stop:],
            lambda: text[:stop] + text[start:],
            lambda: text[:start] + other[cut:],
            lambda: f"({text}, {other})",
            lambda: _with_other_number(text, rng),
            lambda: _with_other_number(text, rng),
            lambda: text[:start] + rng.choice("(b[{") * rng.choice((3, 70, 500)) + text[start:],
        )
    )()


def _with_other_number(text, rng):
    """One of the numbers in the text is another one."""
    numbers = list(re.finditer("[0-9]+", text))
    if not numbers:
        return text
    at = rng.choice(numbers)
    return (
        f"{text[: at.start()]}{rng.choice((0, 1, 2, 3, 4, 5, 8, 64, 127, 128, rng.choice(NUMBERS)))}{text[at.end() :]}"
    )


def change_proto(data, rng, others):
    """The message with one change: most keep the wire format whole, so that the change reaches what is inside."""
    try:
        fields, other = (wire.decode(message, "ShapeProto") for message in (data, rng.choice(others)))
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
    return wire.encode(fields if rng.random() < 0.9 else [[2, 0, rng.choice((13, 34))], [4, 2, fields]])


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
    """A number becomes another; of a packed list one entry does, one goes or one comes."""
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


READERS = {"text": (check_text, change_text), "proto": (check_proto, change_proto)}


# ---- runs ----------------------------------------------------------------------------------------------


def corpus(reader):
    """The inputs to begin with, as the reader takes them; protos stand in the file in hexadecimal."""
    return [bytes.fromhex(entry) if reader == "proto" else entry for entry in CORPUS[reader]]


class Finding(Exception):
    """An input that a reader neither refused nor read."""


def fuzz(reader, rng, keep_going):
    """Give a reader changed inputs while `keep_going(how many)`; a count of what it did with them.

    Inputs that it accepted are changed further, a thousand of them at a time.
    """
    check, change = READERS[reader]
    first = corpus(reader)
    pool, found = list(first), collections.Counter()
    while keep_going(found["read"] + found["refused"]):
        data = rng.choice(pool if rng.random() < 0.7 else first)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            data = change(data, rng, first)[:LONGEST_INPUT]
        try:
            read = check(data)
        except Exception as error:
            raise Finding(
                f"{type(error).__name__}: {error}\n{reader}: {json.dumps(data if reader == 'text' else data.hex())}"
            ) from error
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
