"""Shapes and layouts as the bytes of protos, in both dialects.  `tests/xla/test_protos_oracle.py` asks real XLA."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings

import gpulayout as gl
from gpulayout.xla import proto_messages
from tests.support import proto_strategies, wire

pytest.importorskip("google.protobuf", reason="the extra `proto` (protobuf) is not installed")

# GPULAYOUT_ROUND_TRIPS=100000 in the environment sends that many shapes through text and both dialects, new ones each
# time.
MANY = os.environ.get("GPULAYOUT_ROUND_TRIPS")
ROUND_TRIPS = settings(max_examples=int(MANY or 100), derandomize=not MANY)
XLA, FIRST = proto_messages.DIALECTS
PLAIN = "100b 1a020203 2a070a020100800101 32020000"  # f32[2,3]{1,0}, as XLA writes it


def data(hexadecimal):
    return bytes.fromhex(hexadecimal)


# ---- the bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, dialect, hexadecimal",
    [
        ("f32[2,3]", XLA, PLAIN),
        ("f32[2,3]", FIRST, "100b 1a020203 2a040a020100"),
        ("f32[]", XLA, "100b 2a03800101"),
        ("f32[]", FIRST, "100b 2a00"),
        ("f32[2,3]{0,1:PD(3,5)}", FIRST, "100b 1a020203 2a08 0a020001 12020305"),
        ("f32[2,3]{0,1:PD(3,5)PV(zero)}", FIRST, "100b 1a020203 2a0a 0a020001 12020305 1801"),
        ("f32[2,3]{0,1:PD(3,5)PV(unknown)}", FIRST, "100b 1a020203 2a0a 0a020001 12020305 1805"),
        ("bf16[4,8]{1,0:T(2,4)(2,1)}", XLA, "1010 1a020408 2a130a020100 32040a020204 32040a020201 800101 32020000"),
        ("s4[5]{0:E(4)S(1)}", XLA, "1015 1a0105 2a0a0a0100 3804 4001 800101 320100"),
        ("f32[5]{0:L(8)#(u32)*(u64)M(16)}", XLA, "100b 1a0105 2a0c0a0100 5808 6009 7810 800108 320100"),
        ("f32[<=5,?,3]", XLA, "100b 1a0c0580808080808080808001 03 2a080a03020100 800101 3203010100"),
        ("token[]", XLA, "1011"),
        ("opaque[]", XLA, "100e"),
        ("()", FIRST, "100d"),
        ("(u8[1], (token[]))", FIRST, "100d 220a 1006 1a0101 2a030a0100 2206 100d 22021011"),
        ("b(f32[4])", XLA, "1022 2210 100b 1a0104 2a060a0100800101 320100"),
        (
            "f32[2,3]{1,0:SC(0:1)(1:1,2)}",
            XLA,
            "100b 1a020203 2a160a020100 800101 8a0103120101 8a010608011202 0102 32020000",
        ),
    ],
)
def test_the_bytes_of_a_shape(text, dialect, hexadecimal):
    assert gl.xla.shape_to_proto(text, dialect).hex() == data(hexadecimal).hex()
    assert str(gl.xla.shape_from_proto(data(hexadecimal), dialect)) == str(gl.parse_shape(text))


def test_every_element_type_has_its_number():
    for element_type in gl.ElementType:
        written = gl.xla.shape_to_proto(gl.Shape(element_type, (2,)))
        assert written[:2] == bytes([2 << 3, element_type.proto_number])
        assert gl.xla.shape_from_proto(written).element_type is element_type


@pytest.mark.parametrize(
    "hexadecimal, text",
    [
        ("100b 1a020203", "f32[2,3]{1,0}"),  # no layout means descending
        ("100b 1802 1803 2a04 0801 0800", "f32[2,3]{1,0}"),  # unpacked numbers, as proto2 wrote them
        ("100b 1a0102 1a0103 2a030a0101 2a030a0100", "f32[2,3]{1,0}"),  # a layout in two parts
        ("100b 1a020203 2a060a020001 2001", "f32[2,3]{0,1}"),  # format DENSE, written until 2022
        ("100b 1a020203 2a080a020001 4a020000", "f32[2,3]{0,1}"),  # dense levels
        ("100b 1a020203 2a070a020001 800100", "f32[2,3]{0,1}"),  # tail padding alignment 0 is 1
        ("1005 100b 1a020203", "f32[2,3]{1,0}"),  # the last value counts
    ],
)
def test_other_bytes_for_the_same_shape(hexadecimal, text):
    assert str(gl.xla.shape_from_proto(data(hexadecimal))) == text


# ---- round trips -----------------------------------------------------------------------------------


@ROUND_TRIPS
@given(proto_strategies.shapes(XLA))
def test_round_trip_today(shape):
    written = gl.xla.shape_to_proto(shape, XLA)
    again = gl.xla.shape_from_proto(written, XLA)
    assert again == shape and str(again) == str(shape) and gl.xla.shape_to_proto(again, XLA) == written
    assert gl.parse_shape(str(shape)) == shape


@ROUND_TRIPS
@given(proto_strategies.shapes(FIRST))
def test_round_trip_in_2017(shape):
    written = gl.xla.shape_to_proto(shape, FIRST)
    again = gl.xla.shape_from_proto(written, FIRST)
    assert again == shape and str(again) == str(shape) and gl.xla.shape_to_proto(again, FIRST) == written
    assert gl.parse_shape(str(shape)) == shape


@pytest.mark.parametrize("text", ["{}", "{0,1}", "{1,0:T(8,128)(2,1)L(4)E(4)S(1)SC(0:1)M(16)}", "{:T(256)}"])
def test_round_trip_of_a_layout(text):
    layout = gl.parse_layout(text)
    again = gl.xla.layout_from_proto(gl.xla.layout_to_proto(layout))
    assert again == layout and str(again) == text
    shape = gl.xla.shape_to_proto(gl.Shape("s4", (4,) * layout.rank, layout))
    assert gl.xla.layout_to_proto(layout) == next(value for number, _, value in wire.decode(shape) if number == 5)


# ---- unknown fields --------------------------------------------------------------------------------


def with_unknown_fields(written):
    """The message with one more field in it and in every message inside."""

    def add(fields):
        for _, _, value in fields:
            if isinstance(value, list):
                add(value)
        fields.append([100 + len(fields), 2, b"not known"])

    fields = wire.decode(written, "ShapeProto")
    add(fields)
    return wire.encode(fields)


def test_unknown_fields_stay_at_every_depth():
    shape = gl.parse_shape("f32[4,8]{1,0:T(2,4)(2,1)SC(0:1)}")
    full = with_unknown_fields(gl.xla.shape_to_proto(shape))
    unknown = wire.unknown_fields(wire.decode(full, "ShapeProto"), "ShapeProto")
    assert [path for path, *_ in unknown] == [(), (5, 17, 0), (5, 6, 0), (5, 6, 1), (5,)]
    assert gl.xla.shape_from_proto(full) == shape
    for changed in (shape, shape.with_element_type("bf16"), gl.parse_shape("f32[4,8]{0,1:T(4,4)(2,1)L(2)SC(1:1)}")):
        kept = gl.xla.shape_to_proto(changed, into=full)
        assert gl.xla.shape_from_proto(kept) == changed
        assert wire.unknown_fields(wire.decode(kept, "ShapeProto"), "ShapeProto") == unknown
    fewer = gl.xla.shape_to_proto("f32[4,8]{1,0:T(2,4)}", into=full)  # the second tile is gone, with its unknown field
    assert len(wire.unknown_fields(wire.decode(fewer, "ShapeProto"), "ShapeProto")) == 3
    assert gl.xla.shape_to_proto(gl.xla.shape_from_proto(full)) == gl.xla.shape_to_proto(shape)
    layout = next(value for number, _, value in wire.decode(full, "ShapeProto") if number == 5)
    kept = wire.decode(gl.xla.layout_to_proto(gl.parse_layout("{0}"), into=wire.encode(layout)), "LayoutProto")
    assert kept == [*wire.decode(gl.xla.layout_to_proto(gl.parse_layout("{0}"))), layout[-1]]


def test_a_message_may_become_another_kind_of_shape():
    full = with_unknown_fields(gl.xla.shape_to_proto("f32[<=4,8]{1,0:T(2,4)}"))
    for text in ("(f32[2], b(s8[3]))", "token[]", "opaque[]", "b(f32[<=4,8])", "()", "s4[]"):
        kept = gl.xla.shape_to_proto(text, into=full)
        assert gl.xla.shape_from_proto(kept) == gl.parse_shape(text)
        assert gl.xla.shape_from_proto(gl.xla.shape_to_proto("f32[2,3]{0,1}", into=kept)) == gl.parse_shape(
            "f32[2,3]{0,1}"
        )
        assert ((), 104, 2, b"not known") in wire.unknown_fields(wire.decode(kept, "ShapeProto"), "ShapeProto")


def test_a_message_that_cannot_be_read_cannot_be_written_into():
    for hexadecimal, dialect in (
        ("0a020000", XLA),
        ("0a0100 1801", XLA),
        ("0a0100 2002", FIRST),
        ("0a0100 3a00", FIRST),
    ):
        with pytest.raises(gl.LayoutError):
            gl.xla.layout_to_proto(gl.parse_layout("{0}"), dialect, into=data(hexadecimal))


# ---- refusals --------------------------------------------------------------------------------------

SHAPE = "100b 1a020203 "
REFUSED = {
    "ff": "ShapeProto of 1 byte is not a message that protobuf can read: ",
    "100b 1a05": "ShapeProto of 4 bytes is not a message that protobuf can read: ",
    "": "ShapeProto.element_type 0 is not the number of one of XLA's element types",
    "1063": "ShapeProto.element_type 99 is not the number of one of XLA's element types",
    "10ffffffffffffffffff01": "ShapeProto.element_type -1 is not the number of one of XLA's element types",
    "100b 1aff01 02": "ShapeProto of 6 bytes is not a message that protobuf can read: ",
    "100b 1a0b 02 ffffffffffffffffff01": "ShapeProto: dimensions (2, -1) has a negative",
    "100b 1d02000000": "ShapeProto.dimensions, field 3, cannot be of wire type 5",
    "100b 2200": "ShapeProto.tuple_shapes is set: an array of f32, element_type 11, has none",
    "100d 1a0105": "ShapeProto.dimensions is set: TupleShape, element_type 13, has none",
    "1011 2a00": "ShapeProto.layout is set: TokenShape, element_type 17, has none",
    "100e 22021011": "ShapeProto.tuple_shapes is set: OpaqueShape, element_type 14, has none",
    "100b 1a0a 80808080808080808001 320100": (
        "ShapeProto: dynamic_dimensions (False,) calls dimension 0 of (UNBOUNDED,) static"
    ),
    "1022": "ShapeProto.tuple_shapes has 0 entries: a BufferShape holds one array",
    "1022 22021011": "ShapeProto: shape TokenShape() cannot be held by a buffer",
    "100d 2206 100d 22021063": (
        "ShapeProto.tuple_shapes[0].tuple_shapes[0].element_type 99 is not the number of one of XLA's element types"
    ),
    SHAPE + "320101": "ShapeProto.is_dynamic_dimension has 1 entry for 2 dimensions",
    "1102000000000000 00": "ShapeProto.element_type, field 2, cannot be of wire type 1",
    SHAPE + "2a01": "ShapeProto of 8 bytes is not a message that protobuf can read: ",
    SHAPE + "2801": "ShapeProto.layout, field 5, cannot be of wire type 0",
    SHAPE + "2a030a0100": "ShapeProto: minor_to_major (0,) has 1 entry for f32[2,3]: the shape has 2 dimensions",
    SHAPE + "2a040a020000": (
        "ShapeProto.layout: minor_to_major (0, 0) is not an ordering of dimensions 0..1: dimension 0 appears twice"
    ),
    SHAPE
    + "2a08 0a020001 12020305": "ShapeProto.layout.padded_dimensions, field 2, does not exist in the dialect 'xla' of "
    "protos: it belongs to '2017'",
    SHAPE
    + "2a06 0a020001 1801": "ShapeProto.layout.padding_value, field 3, does not exist in the dialect 'xla' of protos: "
    "it belongs to '2017'",
    SHAPE + "2a06 0a020001 2002": "ShapeProto.layout.format 2, max_sparse_elements 0: sparse layouts no longer exist",
    SHAPE + "2a06 0a020001 2802": "ShapeProto.layout.format 0, max_sparse_elements 2: sparse layouts no longer exist",
    SHAPE + "2a08 0a020001 4a020001": "ShapeProto.layout.dim_level_types (0, 1) is not all 0 (dense): "
    "sparse layouts no longer exist",
    SHAPE + "2a06 0a020001 5200": "ShapeProto.layout.physical_shape is set: only sparse layouts had one",
    SHAPE + "2a06 0a020001 580b": "ShapeProto.layout: index_type f32 is not one of u8, u16, u32, u64",
    SHAPE
    + "2a06 0a020001 600d": "ShapeProto.layout: pointer_primitive_type 13 is not the number of an array's element type",
    SHAPE + "2a06 0a020001 3200": "ShapeProto.layout: tile () has no sizes: it needs at least one",
    SHAPE + "2a0b 0a020001 32050d00000000": "ShapeProto.layout.tiles[0].dimensions, field 1, cannot be of wire type 5",
    SHAPE
    + "2a09 0a020001 8a01020a00": "ShapeProto.layout.split_configs[0].dimension, field 1, cannot be of wire type 2",
    SHAPE + "2a08 0a020001 32020a00": "ShapeProto.layout: tile () has no sizes: it needs at least one",
    SHAPE
    + "2a12 0a020001 320c0a0a80808080808080808001": "ShapeProto.layout: tile (-9223372036854775808,) has a negative",
    SHAPE
    + "2a10 0a020001 8001ffffffffffffffffff01": "ShapeProto.layout: tail_padding_alignment -1 is not in 1..2^63-1",
    SHAPE + "2a07 0a020001 40c801": "ShapeProto.layout: memory_space 200 is not in 0..127",
    SHAPE + "2a07 0a020001 8a0100": "ShapeProto.layout: split_indices () is empty: dimension 0 needs at least one",
}


@pytest.mark.parametrize("hexadecimal", REFUSED)
def test_bytes_that_are_not_a_shape(hexadecimal):
    with pytest.raises(gl.LayoutError) as error:
        gl.xla.shape_from_proto(data(hexadecimal))
    assert str(error.value).startswith(REFUSED[hexadecimal])
    with pytest.raises(gl.LayoutError):
        gl.xla.shape_to_proto("f32[2]", into=data(hexadecimal) or b"\x10\x00")


@pytest.mark.parametrize(
    "text, dialect, message",
    [
        (
            "f32[2]{0:PD(3)}",
            XLA,
            "padded_dimensions of layout {0:PD(3)} cannot be expressed in the dialect 'xla' of protos: "
            "field 2 belongs to '2017'",
        ),
        (
            "f32[2]{0:PV(one)}",
            XLA,
            "padding_value of layout {0:PV(one)} cannot be expressed in the dialect 'xla' of protos: "
            "field 3 belongs to '2017'",
        ),
        (
            "f32[2]{0:PD(3)PV(2.5)}",
            FIRST,
            "padding_value of layout {0:PD(3)PV(2.5)} cannot be expressed in protos: "
            "they have named values but no numbers",
        ),
        (
            "f32[2,3]{1,0:T(*,4)}",
            XLA,
            "tiles of layout {1,0:T(*,4)} cannot be expressed in protos: XLA cannot read '*' there",
        ),
        (
            "f32[2]{0:T(4)}",
            FIRST,
            "tiles of layout {0:T(4)} cannot be expressed in the dialect '2017' of protos: field 6 belongs to 'xla'",
        ),
        (
            "f32[2]{0:L(4)}",
            FIRST,
            "tail_padding_alignment_in_elements of layout {0:L(4)} cannot be expressed in the dialect '2017' "
            "of protos: field 16 belongs to 'xla'",
        ),
        (
            "s4[2]{0:E(4)}",
            FIRST,
            "element_size_in_bits of layout {0:E(4)} cannot be expressed in the dialect '2017' of protos: "
            "field 7 belongs to 'xla'",
        ),
        ("(f32[<=2])", FIRST, "dynamic_dimensions of f32[<=2]{0} cannot be expressed in the dialect '2017' of protos"),
        ("f32[2]", "2018", "dialect '2018' of protos is not one of 'xla', '2017'"),
    ],
)
def test_properties_that_a_dialect_lacks_are_refused(text, dialect, message):
    with pytest.raises(gl.LayoutError) as error:
        gl.xla.shape_to_proto(text, dialect)
    assert str(error.value) == message


def test_a_dialect_refuses_the_fields_of_the_other():
    today = gl.xla.shape_to_proto("f32[2]{0:T(4)}")
    with pytest.raises(
        gl.LayoutError, match=r"^ShapeProto.is_dynamic_dimension, field 6, does not exist in the dialect '2017'"
    ):
        gl.xla.shape_from_proto(today, FIRST)
    with pytest.raises(gl.LayoutError, match=r"^LayoutProto.tiles, field 6, does not exist in the dialect '2017'"):
        gl.xla.layout_from_proto(gl.xla.layout_to_proto(gl.parse_layout("{0:T(4)}")), FIRST)
    with pytest.raises(gl.LayoutError, match="of protos is not one of"):
        gl.xla.shape_from_proto(today, "today")


def test_a_message_is_bounded_and_of_bytes():
    long = data("100b 1a0101 8206") + wire.varint(proto_messages.MAX_BYTES) + bytes(proto_messages.MAX_BYTES)
    with pytest.raises(
        gl.LayoutError, match=f"^ShapeProto of {len(long)} bytes is longer than {proto_messages.MAX_BYTES}$"
    ):
        gl.xla.shape_from_proto(long)
    assert (
        gl.xla.shape_from_proto(bytearray(data(PLAIN)))
        == gl.xla.shape_from_proto(memoryview(data(PLAIN)))
        == gl.parse_shape("f32[2,3]")
    )
    for wrong in ("100b", None, [16, 11]):
        with pytest.raises(TypeError, match="^ShapeProto must be bytes, not "):
            gl.xla.shape_from_proto(wrong)
    for write, value in (
        (gl.xla.shape_to_proto, None),
        (gl.xla.layout_to_proto, 3),
        (gl.xla.layout_to_proto, gl.parse_shape("f32[2]")),
    ):
        with pytest.raises(TypeError, match=" must be a shape or its text, | is not a Layout: "):
            write(value)
    assert gl.xla.layout_to_proto("{0,1:T(8,128)}") == gl.xla.layout_to_proto(gl.parse_layout("{0,1:T(8,128)}"))


def test_the_depth_of_tuples_is_limited():
    def nested(depth):
        written = data(PLAIN)
        for _ in range(depth):
            written = wire.encode([[2, 0, 13], [4, 2, written]])
        return written

    assert str(gl.xla.shape_from_proto(nested(64))) == "(" * 64 + "f32[2,3]{1,0}" + ")" * 64
    with pytest.raises(gl.LayoutError, match=r": more than 64 nested tuples$"):
        gl.xla.shape_from_proto(nested(65))
    with pytest.raises(gl.LayoutError, match="^ShapeProto of 991 bytes is not a message that protobuf can read: "):
        gl.xla.shape_from_proto(nested(200))


# ---- protobuf --------------------------------------------------------------------------------------


def test_another_library_may_ship_messages_of_the_same_name():
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name="gpulayout/xla_data.proto", package="xla", syntax="proto3")
    file.message_type.add(name="LayoutProto").field.add(name="something_else", number=1, type=9, label=1)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    proto_messages.message_factory.cache_clear()
    assert gl.xla.layout_from_proto(data("0a020001")) == gl.parse_layout("{0,1}")
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("xla.ShapeProto")


def test_a_missing_protobuf_is_named_and_it_is_loaded_only_when_used():
    script = (
        "import sys, gpulayout as gl; assert not any(name.startswith('google') for name in sys.modules)\n"
        "sys.modules['google.protobuf'] = None\n"
        "try: gl.xla.shape_to_proto('f32[2]')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.startswith("protos need protobuf, which cannot be imported (")
    assert done.stdout.endswith("): pip install 'gpulayout[proto]'\n")


@pytest.mark.parametrize("rank, length", [(67, 199), (68, 200)])
def test_layouts_longer_than_200_characters_are_cut_off_in_messages(rank, length):
    text = f"{{{','.join(map(str, reversed(range(rank))))}:T(*,4)}}"
    with pytest.raises(gl.LayoutError) as error:
        gl.xla.shape_to_proto(f"f32[{','.join(['1'] * rank)}]{text}")
    shown = text if len(text) <= 200 else text[:197] + "..."
    assert (
        len(shown) == length
        and str(error.value) == f"tiles of layout {shown} cannot be expressed in protos: XLA cannot read '*' there"
    )
