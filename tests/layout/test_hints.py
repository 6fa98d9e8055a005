"""Arguments that are almost right: every error suggests what to write, and the suggestion works."""

import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutTypeError, Shape, ShapeTextError, Tile
from gpulayout.layout.argument_hints import corrects, numbers_in
from gpulayout.layout.element_type import why_no_type

ORDER = gl.parse_layout("{1,0}")
SLIPS = [
    # (call, error, message)
    # a name
    (
        lambda: Layout.named("NCHW"),
        LayoutTypeError,
        "Layout.named needs logical, the letters of the array's dimensions in order: write "
        "gl.Layout.named('NCHW', logical='NHWC') if the array's dimensions are N, H, W and C",
    ),
    (
        lambda: Layout.named(name="ba"),
        LayoutTypeError,
        "Layout.named needs logical, the letters of the array's dimensions in order: write "
        "gl.Layout.named(name, logical='NCHW') if they are N, C, H and W",
    ),
    (
        lambda: Layout.named("NHWC", "NCHW"),
        LayoutTypeError,
        "Layout.named takes only the name without a keyword: write gl.Layout.named('NHWC', logical='NCHW')",
    ),
    (
        lambda: Layout((1, 3, 2, 0)).name(),
        LayoutTypeError,
        "Layout.name needs logical, the letters of the array's dimensions in order, as a keyword: write "
        "layout.name(logical='NCHW') for an array of shape (n, c, h, w)",
    ),
    (
        lambda: Layout((0, 1)).name("HW"),
        LayoutTypeError,
        "Layout.name needs logical, the letters of the array's dimensions in order, as a keyword: write "
        "layout.name(logical='HW')",
    ),
    # a shape
    (
        lambda: Shape("f32", (4, 5), [0, 1]),
        LayoutTypeError,
        "layout [0, 1] is not a Layout for f32[4,5]: it is a list, write gl.Layout((0, 1))",
    ),
    (
        lambda: Shape((4, 5), "f32"),
        LayoutTypeError,
        "dimensions (4, 5) come before element_type 'f32': write gl.Shape('f32', (4, 5))",
    ),
    (
        lambda: Shape([4, 5], np.dtype(np.int16), ORDER),
        LayoutTypeError,
        "dimensions (4, 5) come before element_type dtype('int16'): write gl.Shape('s16', (4, 5))",
    ),
    (
        lambda: Shape((4, 5)),
        LayoutTypeError,
        "a Shape needs an element type before its dimensions: write gl.Shape('f32', (4, 5))",
    ),
    (
        lambda: Shape("f32"),
        LayoutTypeError,
        "a Shape needs dimensions after its element type: write gl.Shape('f32', (2, 3)), with () for a scalar",
    ),
    (
        lambda: Shape(np.zeros((4, 5))),
        LayoutTypeError,
        "element_type is an ndarray: write gl.shape_of(array) for the shape of an array",
    ),
    (
        lambda: Shape("f32", ORDER),
        LayoutTypeError,
        "dimensions Layout((1, 0)) is a Layout: write the dimensions before it",
    ),
    (lambda: Shape("f32", "4, 5"), LayoutTypeError, "dimensions '4, 5' is text: write (4, 5)"),
    (
        lambda: Shape("f32[4,5]", (4, 5)),
        LayoutTypeError,
        "element_type 'f32[4,5]' is the text of a shape: write gl.parse_shape('f32[4,5]')",
    ),
    (
        lambda: Shape("f32", (4, 5), minor_to_major=(1, 0)),
        LayoutTypeError,
        "minor_to_major is a field of the layout, not of a Shape: write layout=gl.Layout((1, 0))",
    ),
    (
        lambda: Shape("f32", (4, 5), tiles=((8, 128),)),
        LayoutTypeError,
        "tiles is a field of the layout, not of a Shape: write layout=gl.Layout(minor_to_major, tiles=((8, 128),))",
    ),
    (
        lambda: Shape("f32", (4, 5), order="F"),
        LayoutTypeError,
        "order is a field of the layout, not of a Shape: write layout=gl.Layout.ascending(rank)",
    ),
    (
        lambda: Shape("f32", shape=(4, 5)),
        LayoutTypeError,
        "a Shape has no field shape: write dimensions=(4, 5)",
    ),
    (
        lambda: Shape(dtype="f32", dimensions=(4, 5)),
        LayoutTypeError,
        "a Shape has no field dtype: write element_type='f32'",
    ),
    (lambda: Shape("f32", (4,), device=0), TypeError, "Shape.__init__() got an unexpected keyword argument 'device'"),
    # a layout
    (
        lambda: Layout((1, 0), padding=(4, 8)),
        LayoutTypeError,
        "a Layout has no field padding: write padded_dimensions=(4, 8) if these are the widths in memory",
    ),
    (
        lambda: Layout(padding=0),
        LayoutTypeError,
        "a Layout has no field padding: write padding_value=0 for what fills padding, padded_dimensions= for widths",
    ),
    (
        lambda: Layout((1, 0), tile=(8, 128)),
        LayoutTypeError,
        "a Layout has no field tile: write tiles=((8, 128),)",
    ),
    (
        lambda: Layout((1, 0), tiling="(8,128)"),
        LayoutTypeError,
        "a Layout has no field tiling: write tiles=((8, 128),)",
    ),
    (
        lambda: Layout(order="K"),
        LayoutTypeError,
        "a Layout has no field order: write gl.Layout.descending(rank) or gl.Layout.ascending(rank)",
    ),
    (
        lambda: Layout(major_to_minor=(0, 1)),
        LayoutTypeError,
        "a Layout has no field major_to_minor: write gl.Layout.from_major_to_minor((0, 1))",
    ),
    (
        lambda: Layout((1, 0), pitch=256),
        LayoutTypeError,
        "a Layout has no field pitch: write gl.Shape('f32', (2, 3), pitch=256), with the array's type and dimensions",
    ),
    (
        lambda: Layout((1, 0), align=256),
        LayoutTypeError,
        "a Layout has no field align: write gl.Shape('f32', (2, 3), align=256), with the array's type and dimensions",
    ),
    (lambda: Layout("1,0"), LayoutTypeError, "minor_to_major '1,0' is text: write gl.Layout((1, 0))"),
    (
        lambda: Layout("F"),
        LayoutTypeError,
        "minor_to_major 'F' is the name of an order: write gl.Layout.ascending(rank)",
    ),
    (
        lambda: Layout((1, 0), tiles="T(8,128)(2,1)"),
        LayoutTypeError,
        "tiles 'T(8,128)(2,1)' is not a sequence of tiles: write ((8, 128), (2, 1))",
    ),
    (
        lambda: Layout((1, 0), tiles="8x128"),
        LayoutTypeError,
        "tiles '8x128' is not a sequence of tiles: write ((8, 128),)",
    ),
    (
        lambda: Tile("8,128"),
        LayoutTypeError,
        "tile '8,128' is not a sequence of sizes: it is a str, write (8, 128)",
    ),
    (
        lambda: Layout((1, 0), tiles=["T(8,128)"]),
        LayoutTypeError,
        "tile 'T(8,128)' is not a sequence of sizes: it is a str, write (8, 128)",
    ),
    (
        lambda: gl.PaddingValue("lowest"),
        ValueError,
        "'lowest' is not a valid PaddingValue: write gl.PaddingValue.LOWEST",
    ),
    (lambda: gl.PaddingValue(7), ValueError, "7 is not a valid PaddingValue"),
    (
        lambda: gl.xla.TupleShape(("f32[2]",)),
        LayoutTypeError,
        "shapes entry 0 is not a shape: it is a str, write gl.parse_shape('f32[2]')",
    ),
    # element types
    (
        lambda: Shape("fp32", (4, 5)),
        TypeError,
        "element type 'fp32' is neither an XLA name nor the name of a NumPy dtype (did you mean 'f32'?)",
    ),
    (
        lambda: gl.ElementType("i16"),
        ValueError,
        "'i16' is not a valid ElementType (did you mean 's16'?)",
    ),
    (
        lambda: gl.ElementType("float32"),
        ValueError,
        "'float32' is not a valid ElementType: write gl.ElementType.of('float32')",
    ),
    # text
    (
        lambda: gl.parse_shape("float[4,5]"),
        ShapeTextError,
        "'float' has two meanings: f32, as in C, and f64, as in NumPy: write 'f32' or 'f64', "
        "at character 0 ('f') of 'float[4,5]'",
    ),
    (
        lambda: gl.parse_shape("float32[4,5]"),
        ShapeTextError,
        "'float32' is not one of XLA's element types (did you mean 'f32'?), at character 0 ('f') of 'float32[4,5]'",
    ),
    (
        lambda: gl.parse_shape("f32(4,5)"),
        ShapeTextError,
        "expected '[' (as in f32[2,3]), at character 3 ('(') of 'f32(4,5)'",
    ),
    (
        lambda: gl.parse_shape("f32[4x5]"),
        ShapeTextError,
        "expected ']' (commas separate sizes, as in f32[2,3]), at character 5 ('x') of 'f32[4x5]'",
    ),
    (
        lambda: gl.parse_shape("[4,5]"),
        ShapeTextError,
        "expected an element type (it comes first, as in f32[2,3]{1,0}), at character 0 ('[') of '[4,5]'",
    ),
    (
        lambda: gl.parse_shape("f32[4,5](1,0)"),
        ShapeTextError,
        "expected the end (braces enclose a layout, as in f32[2,3]{1,0}), at character 8 ('(') of 'f32[4,5](1,0)'",
    ),
    (
        lambda: gl.parse_shape("f32[4,5]T(8,128)"),
        ShapeTextError,
        "expected the end (properties are part of the layout, as in f32[2,3]{1,0:T(8,128)}), "
        "at character 8 ('T') of 'f32[4,5]T(8,128)'",
    ),
    (
        lambda: gl.parse_layout("{1,0,T(8,128)}"),
        ShapeTextError,
        "expected a dimension number (a colon comes before properties, as in {1,0:T(8,128)}), "
        "at character 5 ('T') of '{1,0,T(8,128)}'",
    ),
    (
        lambda: gl.parse_layout("{1,0 T(8,128)}"),
        ShapeTextError,
        "expected ':' (a colon comes before properties, as in {1,0:T(8,128)}), "
        "at character 5 ('T') of '{1,0 T(8,128)}'",
    ),
    (
        lambda: gl.parse_shape("f32[4,5]{1,0}:T(8,128)"),
        ShapeTextError,
        "expected the end (properties are part of the layout, as in f32[2,3]{1,0:T(8,128)}), "
        "at character 13 (':') of 'f32[4,5]{1,0}:T(8,128)'",
    ),
    (
        lambda: gl.parse_layout("T(8,128)"),
        ShapeTextError,
        "'T(8,128)' is not a layout: tiles follow the order and a colon: write '{1,0:T(8,128)}' if the array has 2 "
        "dimensions in C order",
    ),
    (
        lambda: gl.parse_layout("u8(4,5)"),
        ShapeTextError,
        "'u8(4,5)' is not a layout: a shape has its sizes in brackets, as in 'u8[2,3]'",
    ),
    (lambda: gl.parse_layout("1,0"), ShapeTextError, "'1,0' is not a layout: write '{1,0}'"),
    (lambda: gl.parse_layout("(0,)"), ShapeTextError, "'(0,)' is not a layout: write '{0}'"),
    (
        lambda: gl.parse_layout("C"),
        ShapeTextError,
        "'C' is not a layout: write gl.Layout.descending(rank), or its text such as '{1,0}'",
    ),
    (
        lambda: gl.Shape("f32", (2, 3), "F"),
        ShapeTextError,
        "'F' is not a layout: write gl.Layout.ascending(rank), or its text such as '{0,1}'",
    ),
    (
        lambda: gl.parse_layout("f32[2]{0}"),
        ShapeTextError,
        "'f32[2]{0}' is not a layout: it is the text of a shape; write gl.parse_shape('f32[2]{0}').layout",
    ),
    (
        lambda: Layout("f32[2]{0}"),
        LayoutTypeError,
        "minor_to_major 'f32[2]{0}' is the text of a shape: write gl.parse_shape('f32[2]{0}').layout",
    ),
    (
        lambda: Tile((8, 128), (2, 1)),
        LayoutTypeError,
        "dimensions of a Tile must be one sequence, not 2 arguments",
    ),
    (
        lambda: Shape((4, 5.0), "f32"),
        LayoutTypeError,
        "dimensions (4, 5.0) come before element_type 'f32'",
    ),
    (lambda: gl.parse_layout((1, 0)), TypeError, "layout text must be a str, not tuple"),
]


@pytest.mark.parametrize("call, error, message", SLIPS, ids=[message for _, _, message in SLIPS])
def test_a_slip_is_answered_with_what_to_write(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message and type(caught.value) is error
    assert caught.value.__suppress_context__ is (caught.value.__context__ is not None)


@pytest.mark.parametrize(
    "message", [message for _, _, message in SLIPS if re.search(r"write gl\.\w+\((?!array)", message)]
)
def test_what_an_error_says_to_write_works(message):
    """The hint is a whole expression, so it can be evaluated."""
    hint = re.search(r"write (gl\..*?\)(\.layout)?)(, with .*)?$", message)[1]
    assert isinstance(eval(hint, {"gl": gl}), (Shape, Layout, gl.ElementType))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Shape("f32", -1),
        lambda: Shape("f32", 2**63),
        lambda: Shape("[4,5]"),
        lambda: Tile(-8),
        lambda: Tile(True),
        lambda: gl.xla.TupleShape(("*",)),
    ],
)
def test_no_hint_says_what_would_fail_too(call):
    with pytest.raises((LayoutTypeError, TypeError), match="^(?!.*write (?!gl.Shape..f32., .2, 3)|.*parse)"):
        call()


@pytest.mark.parametrize("text, found", [("1,0", (1, 0)), ("[1, 0]", (1, 0)), ("{7}", (7,)), ("(2,)", (2,))])
def test_numbers_in_text_are_read(text, found):
    assert eval(numbers_in(text)) == found


@pytest.mark.parametrize(
    "text", ["", "1 0", "1,,0", "x", "-1,0", "1.5", "\u0663", "1" + 10**6 * " " + "x", "1," * 10**6]
)
def test_other_text_has_no_numbers(text):
    assert numbers_in(text) is None


def test_a_name_that_is_meant_is_a_name():
    """Every suggestion is one of XLA's names, and XLA's own names are suggested for themselves in capitals."""
    for name in gl.ElementType:
        assert why_no_type(name.upper(), "is none") == f"is none (did you mean {name.value!r}?)"
    for name in (
        "fp8",
        "float8",
        "fp16",
        "fp64",
        "half",
        "double",
        "i1",
        "i8",
        "f4",
        "ui16",
        "uint4",
        "bool",
        "float8_e5m2",
    ):
        found = re.findall(r"'(\w+)'", why_no_type(name, ""))
        assert found and all(gl.ElementType(one) for one in found), name
    assert all(why_no_type(name, "is none") == "is none" for name in ("zz33", "x", ""))


def test_a_constructor_that_works_asks_for_no_hint():
    asked = []

    @corrects(lambda made, values, fields: asked.append(values))
    class Made:
        def __init__(self, value):
            if value < 0:
                raise gl.LayoutError("negative")

    Made(1)
    assert asked == []
    with pytest.raises(gl.LayoutError, match="^negative$"):  # no hint: the error itself
        Made(-1)
    assert asked == [(-1,)]


class Lines:
    def __repr__(self):
        return "one\n    two"


def deep():
    """A list inside lists, too many for `repr`."""
    found = []
    for _ in range(100_000):
        found = [found]
    return found


HOSTILE = [Lines(), np.zeros((2, 3)), 10**5000, [10**5000], deep(), "x" * 10**6, b"x" * 10**6, type("", (), {})()]
READERS = {
    "Shape": lambda value: Shape(value, (2,)),
    "dimensions": lambda value: Shape("f32", (value,)),
    "layout": lambda value: Shape("f32", (2,), value),
    "dynamic_dimensions": lambda value: Shape("f32", (2,), dynamic_dimensions=value),
    "Layout": lambda value: Layout((value, 0)),
    "tiles": lambda value: Layout((0,), tiles=value),
    "padding_value": lambda value: Layout((0,), padding_value=value),
    "split_configs": lambda value: Layout((0,), split_configs=value),
    "split_configs entry": lambda value: Layout((0,), split_configs=(value,)),
    "Tile": Tile,
    "TupleShape": gl.xla.TupleShape,
    "BufferShape": gl.xla.BufferShape,
    "use_backend": lambda value: gl.use_backend((value,)),
    "mode": lambda value: gl.linearize((np.array([1]),), "f32[2]", mode=[value]),
    "array": lambda value: gl.pack([value], "s32[1]"),
}


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("read", READERS)
def test_an_error_is_one_short_line_whatever_the_value(read, value):
    with pytest.raises((ValueError, TypeError)) as caught:
        READERS[read](value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert "sys.set_int_max_str_digits" not in str(caught.value)
