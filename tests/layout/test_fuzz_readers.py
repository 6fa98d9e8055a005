"""Every reader of text and bytes with its corpus and a few thousand damaged inputs.

`python -m tests.support.fuzz_readers` runs the same checks for minutes.
"""

import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support import fuzz_readers, wire

INPUTS = 1500
# The name and module of each reader.
CALLS = {
    "text": (gl, "parse_shape"),
    "layout": (gl, "parse_layout"),
    "program": (gl.xla, "find_shapes"),
    "pattern": (gl, "transpose"),
    "proto": (gl.xla, "shape_from_proto"),
    "layout_proto": (gl.xla, "layout_from_proto"),
}


def needs_protobuf(name):
    if name in fuzz_readers.PROTO_READERS:
        pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")
    return name


@pytest.fixture(params=fuzz_readers.READERS)
def reader(request):
    return needs_protobuf(request.param)


@pytest.fixture(params=fuzz_readers.PROTO_READERS)
def proto_reader(request):
    return needs_protobuf(request.param)


def fuzz(reader):
    return fuzz_readers.fuzz(reader, random.Random(1), lambda count: count < INPUTS)


def test_every_entry_of_the_corpus_is_read_or_refused(reader):
    inputs = fuzz_readers.corpus(reader)
    read = sum(map(fuzz_readers.READERS[reader].check, inputs))
    assert 15 < read < len(inputs) - 10


def test_damaged_inputs_are_read_or_refused(reader):
    found = fuzz(reader)
    assert found["read"] + found["refused"] == INPUTS
    assert found["read"] > 50 and found["refused"] > 200


# ---- the checks can fail: each reader is broken on purpose ----------------------------------------------


def break_reader(monkeypatch, reader, broken):
    """Replace the reader by broken(the reader, its arguments...)."""
    module, name = CALLS[reader]
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments, **named: broken(real, *arguments, **named))


def finding(reader):
    with pytest.raises(fuzz_readers.Finding, match=f'\n{reader}: "') as found:
        fuzz(reader)
    return str(found.value)


def test_the_reader_gets_every_input(reader, monkeypatch):
    module, name = CALLS[reader]
    real, given, checked = getattr(module, name), set(), []
    check = fuzz_readers.READERS[reader].check

    def counted(*arguments, **named):
        given.add(arguments[1 if reader == "pattern" else 0])
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    counting = fuzz_readers.Reader(
        fuzz_readers.READERS[reader].corpus,
        lambda data: checked.append(data) or check(data),
        fuzz_readers.READERS[reader].change,
    )
    monkeypatch.setitem(fuzz_readers.READERS, reader, counting)
    fuzz(reader)
    assert len(checked) == INPUTS and len(set(checked)) > INPUTS // 2
    assert given.issuperset(checked)


def test_a_reader_that_crashes_late_is_found(reader, monkeypatch):
    calls = []

    def crashing(real, *arguments, **named):
        calls.append(arguments)
        if len(calls) == 1000:
            raise IndexError("list index out of range")
        return real(*arguments, **named)

    break_reader(monkeypatch, reader, crashing)
    assert finding(reader).startswith("IndexError: list index out of range\n")


def test_a_reader_whose_error_is_not_its_own_is_found(reader, monkeypatch):
    def raising(real, *arguments, **named):
        try:
            return real(*arguments, **named)
        except gl.LayoutError:
            raise OverflowError("too large") from None

    if reader == "program":  # it refuses nothing
        break_reader(monkeypatch, reader, lambda real, text: iter([*real(text)] or 1 // 0))
        assert finding(reader).startswith("ZeroDivisionError")
    else:
        break_reader(monkeypatch, reader, raising)
        assert finding(reader).startswith("OverflowError: too large\n")


def _without_memory_space(real, *arguments):
    value = real(*arguments)
    if isinstance(value, gl.Layout):
        return value.replace(memory_space=0)
    return value.replace(layout=value.layout.replace(memory_space=0)) if isinstance(value, gl.Shape) else value


def _one_more_element(real, *arguments):
    value = real(*arguments)
    return gl.Layout(range(value.rank + 1)) if isinstance(value, gl.Layout) else gl.xla.TupleShape((value,))


WRONG = {
    "text": _without_memory_space,
    "layout": _without_memory_space,
    "program": lambda real, text: list(real(text + " f32[7]")),
    "pattern": lambda real, array, *rest, **named: np.maximum(real(array, *rest, **named), 1),
    "proto": _one_more_element,
    "layout_proto": _one_more_element,
}


def test_a_reader_that_reads_something_else_is_found(reader, monkeypatch):
    break_reader(monkeypatch, reader, WRONG[reader])
    assert finding(reader).startswith("AssertionError")


def test_a_text_reader_that_takes_nonsense_is_found(monkeypatch):
    break_reader(monkeypatch, "text", lambda real, text: real(text.replace("L(", "L(1")))
    finding("text")


def test_lost_unknown_fields_are_found(proto_reader, monkeypatch):
    writer = CALLS[proto_reader][1].replace("from", "to")
    real = getattr(gl.xla, writer)
    monkeypatch.setattr(gl.xla, writer, lambda value, dialect, into=b"": real(value, dialect))
    finding(proto_reader)


def test_the_wire_format_by_hand_is_its_own_inverse():
    needs_protobuf("proto")
    for entry in fuzz_readers.corpus("proto"):
        if fuzz_readers.check_proto(entry):
            fields = wire.decode(entry, "ShapeProto")
            assert wire.decode(wire.encode(fields), "ShapeProto") == fields
