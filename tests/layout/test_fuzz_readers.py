"""The readers of text and protos with their corpus and a few thousand damaged inputs.

`tests/support/fuzz_readers.py` runs for minutes with more of them.
"""

import random

import pytest

import gpulayout as gl
from tests.support import fuzz_readers, wire


@pytest.fixture(params=fuzz_readers.READERS)
def reader(request):
    if request.param == "proto":
        pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")
    return request.param


def test_every_entry_of_the_corpus_is_read_or_refused(reader):
    check, _ = fuzz_readers.READERS[reader]
    read = sum(check(entry) for entry in fuzz_readers.corpus(reader))
    assert 15 < read < len(fuzz_readers.corpus(reader)) - 10


def test_damaged_inputs_are_read_or_refused(reader):
    found = fuzz_readers.fuzz(reader, random.Random(1), lambda count: count < 1500)
    assert found["read"] > 50 and found["refused"] > 500


# ---- the checks can fail ------------------------------------------------------------------------


def findings(reader):
    with pytest.raises(fuzz_readers.Finding, match=f'\n{reader}: "'):
        fuzz_readers.fuzz(reader, random.Random(1), lambda count: count < 1500)


def test_a_text_reader_that_crashes_is_found(monkeypatch):
    real = gl.parse_shape
    monkeypatch.setattr(gl, "parse_shape", lambda text: real(text) if "M(" not in text else int("x"))
    findings("text")


def test_a_text_reader_that_takes_nonsense_is_found(monkeypatch):
    real = gl.parse_shape
    monkeypatch.setattr(gl, "parse_shape", lambda text: real(text.replace("L(", "L(1")))
    findings("text")


def test_a_proto_reader_that_crashes_is_found(reader, monkeypatch):
    if reader == "proto":
        monkeypatch.setattr(gl, "LayoutError", IndexError)
        findings("proto")


def test_lost_unknown_fields_are_found(reader, monkeypatch):
    if reader == "proto":
        real = gl.xla.shape_to_proto
        monkeypatch.setattr(gl.xla, "shape_to_proto", lambda shape, dialect, into=b"": real(shape, dialect))
        findings("proto")


def test_the_wire_format_by_hand_is_its_own_inverse(reader):
    if reader == "proto":
        for entry in fuzz_readers.corpus("proto"):
            if fuzz_readers.check_proto(entry):
                fields = wire.decode(entry, "ShapeProto")
                assert wire.decode(wire.encode(fields), "ShapeProto") == fields
