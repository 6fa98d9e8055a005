"""CuTe layouts against tensor-layouts, a CuTe algebra in Python: index by index, in both directions."""

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import interop
from gpulayout.layout.strides import with_degenerate
from tests.reference import logical_indices
from tests.support.effort import examples
from tests.support.strategies import layouts

PAIRS = {  # exact in both directions
    "f32[]": "():()",
    "f32[6]{0}": "6:1",
    "f32[2,3]{0,1}": "(2,3):(1,2)",
    "f32[2,3]{1,0}": "(2,3):(3,1)",
    "f32[2,3]{0,1:PD(3,3)}": "(2,3):(1,3)",
    "f32[1,3]{1,0}": "(1,3):(3,1)",
    "f32[1,3]{0,1}": "(1,3):(1,1)",
    "f32[4,6]{1,0:T(2,2)}": "((2,2),(2,3)):((2,12),(1,4))",
    "f32[8]{0:T(2)(1)}": None,  # a tile that changes nothing
    "f32[16,256]{1,0:T(8,128)(2,1)}": "((2,4,2),(128,2)):((1,256,2048),(2,1024))",
    "f32[2,32,4,4]{3,2,1,0:T(16,1,1)}": "(2,(16,2),4,4):(512,(1,256),64,16)",  # NCHW16c
    "f32[12]{0:T(4)(3,1)}": "((4,3)):((3,1))",  # the lower digit is the more major one
    "f32[6]{0:T(2)(3)}": "((2,3)):((1,3))",  # a gap after every 2 elements
    "f32[2,3]{1,0:T(1)(2)}": "(2,3):(6,2)",  # a gap after every element
    "f32[4,5,3]{2,1,0:T(*,16)}": "(4,5,3):(16,3,1)",  # a gap that is no multiple of the strides below it
    "f32[4,5,3]{1,0,2:T(*,21)}": "(4,5,3):(5,1,21)",
    "f32[2,3,4]{2,1,0:T(1)(2)(*,*,9)(*,*,29)}": "(2,3,4):(29,9,2)",
    "f32[4,4]{1,0:T(2,2)(3,2)}": "((2,2),(2,2)):((2,12),(1,6))",  # after every tile
    "f32[4,4]{1,0:T(2,2)(1)(3,2)}": "((2,2),(2,2)):((6,24),(2,12))",
}


def oracle(text):
    """The layout of tensor-layouts with this text, and a function from an index to its place."""
    tensor_layouts = pytest.importorskip("tensor_layouts")
    sizes, _, strides = text.partition(":")
    layout = tensor_layouts.Layout(_tuple(sizes), _tuple(strides))
    return layout, lambda index: layout(*index) if len(index) != 1 else layout(index[0])


def _tuple(text):
    """Nested parentheses as CuTe writes them: (2) is a tuple."""
    return eval(text.replace(")", ",)").replace("(,)", "()"))


def places_of_text(text):
    """The place of every element, in row-major order of the indices, by CuTe's definition."""
    sizes, strides = (_tuple(side) if side[0] == "(" else (int(side),) for side in text.split(":"))
    terms = []
    for size, stride in zip(sizes, strides):
        parts = zip(*(side if isinstance(side, tuple) else (side,) for side in (size, stride)))
        terms.append([0])
        for extent, step in parts:
            terms[-1] = [place + digit * step for digit in range(extent) for place in terms[-1]]
    return [sum(term) for term in itertools.product(*terms)]


def places_of(shape):
    """The place of every element, in row-major order of the indices."""
    if not shape.rank:
        return [gl.linearize((), shape)]
    return gl.linearize(np.indices(shape.dimensions).reshape(shape.rank, -1), shape).tolist()


def check(text, shape):
    """Every element lies where the oracle puts it, and the layout ends at the same place."""
    layout, place_of = oracle(text)
    places = places_of(shape)
    assert places == [place_of(index) for index in logical_indices(shape.dimensions)], (text, shape)
    assert max(places) < shape.buffer_size


@pytest.mark.parametrize("shape, text", [pair for pair in PAIRS.items() if pair[1]])
def test_known_pairs(shape, text):
    assert interop.to_cute(shape) == text and str(interop.from_cute(text, "f32")) == shape
    check(text, gl.parse_shape(shape))


# ---- from CuTe -----------------------------------------------------------------------------------


def texts_of(modes, order, gaps, stride=1):
    """The text of nested modes whose parts lie in memory in `order`, minor first, each before a gap of elements."""
    strides = {}
    for part in order:
        strides[part] = stride
        stride = stride * modes[part[0]][part[1]] + gaps.get(part, 0)

    def side(number):
        return (
            "("
            + ",".join(f"({','.join(str(number(m, p)) for p in range(len(mode)))})" for m, mode in enumerate(modes))
            + ")"
        )

    return f"{side(lambda m, p: modes[m][p])}:{side(lambda m, p: strides[m, p])}"


def parts_of(modes):
    return [(mode, part) for mode in range(len(modes)) for part in range(len(modes[mode]))]


@pytest.mark.parametrize("modes", [[(2, 3)], [(2, 3), (2,)], [(2, 3), (3, 2)], [(2, 2, 3), (2,)], [(2,), (1, 2), (3,)]])
def test_every_order_of_nested_parts_is_a_layout(modes):
    for order in itertools.permutations(parts_of(modes)):
        text = texts_of(modes, order, {})
        shape = interop.from_cute(text, "u8")
        check(text, shape)
        assert shape.buffer_size == math.prod(map(math.prod, modes))
        assert interop.from_cute(interop.to_cute(shape), "u8") == shape


@st.composite
def cute_texts(draw):
    room, modes = 300, []
    for count in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
        modes.append([draw(st.sampled_from([size for size in (1, 2, 3, 4, 5) if size <= room])) for _ in range(count)])
        room //= math.prod(modes[-1])
        room = max(room, 1)
    order = draw(st.permutations(parts_of(modes)))
    gaps = {part: draw(st.sampled_from((0, 0, 0, 1, 2, 5))) for part in order if modes[part[0]][part[1]] > 1}
    return texts_of(modes, order, gaps, draw(st.sampled_from((1, 1, 2, 3))))


@given(cute_texts())
@example("((3),(2,4)):((1),(4,8))")  # a gap above a mode that no tile cuts
@settings(max_examples=examples(200))
def test_random_layouts_are_read_as_the_oracle_reads_them(text):
    shape = interop.from_cute(text, "u8")
    check(text, shape)
    assert interop.from_cute(interop.to_cute(shape), "u8") == shape


@pytest.mark.parametrize("modes", [[(2, 3)], [(2, 3), (2,)], [(2, 2, 2)], [(2, 2), (1, 2)]])
def test_a_gap_can_follow_any_part(modes):
    """Also one below all parts, and of any number of elements."""
    parts = parts_of(modes)
    for order in itertools.permutations(parts):
        for widths in itertools.product((0, 1, 4), repeat=len(order)):
            gaps = {part: gap for part, gap in zip(order, widths) if modes[part[0]][part[1]] > 1}
            for lowest in (1, 2):
                text = texts_of(modes, order, gaps, lowest)
                shape = interop.from_cute(text, "u8")
                assert places_of(shape) == places_of_text(text), (text, shape)


def test_nesting_changes_no_place():
    wanted = interop.from_cute("((2,2,3),4):((1,8,16),2)", "u8")
    for text in ("((2,(2,3)),4):((1,(8,16)),2)", "(((2,2),3),(4)):(((1,8),16),(2))", "((2,6),4):((1,8),2)"):
        assert interop.from_cute(text, "u8") == wanted


def test_spaces_underscores_and_missing_strides():
    for text in ("(2,3):(1,2)", " ( 2 , 3 ) : ( 1 , 2 ) ", "(_2,_3):(_1,_2)", "(2,3)", "(_2,3)"):
        assert str(interop.from_cute(text, "u8")) == "u8[2,3]{0,1}"
    assert interop.from_cute("((2,4),3)", "u8") == interop.from_cute("((2,4),3):((1,2),8)", "u8")
    assert str(interop.from_cute("6", "u8")) == str(interop.from_cute("(6)", "u8")) == "u8[6]{0}"
    assert interop.from_cute("(1,3):(0,1)", "u8").dimensions == (1, 3)  # CuTe's stride of a size of 1


def test_what_the_oracle_prints_is_read():
    tensor_layouts = pytest.importorskip("tensor_layouts")
    for sizes in (6, (2, 3), ((2, 2), 3), ((2, (3, 2)), 4)):
        layout = tensor_layouts.Layout(sizes)
        shape = interop.from_cute(str(layout), "u8")
        assert shape == interop.from_cute(str(sizes), "u8") and interop.to_cute(shape).count(":") == 1
        check(str(layout).replace(" ", ""), shape)


def reversed_parts(count):
    """A mode of parts of 2, the lowest of which steps furthest, and a mode above it."""
    strides = ",".join(str(2**n) for n in reversed(range(count)))
    return f"(({','.join('2' * count)}),3):(({strides}),{2**count})"


def test_parts_in_reverse_order():
    for count in range(1, 9):
        check(reversed_parts(count), interop.from_cute(reversed_parts(count), "u8"))


def test_thousands_of_modes_take_steps_in_proportion_to_them():
    """Steps of the interpreter and comparisons, because the time depends on what else the machine does."""

    class Number(int):
        compared = 0

        def __eq__(self, other):
            Number.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    real = [Number(dim) for dim in range(0, 1000, 2)]
    assert with_degenerate(real, (2, 1) * 500) == tuple(range(1000)) and Number.compared < 5000

    def steps(ones):
        """Lines that to_cute runs."""
        taken = 0

        def count(frame, event, argument):
            nonlocal taken
            taken += 1
            return count

        text = f"u8[{'1,' * ones}2]"
        sys.settrace(count)
        try:
            interop.to_cute(text)
        finally:
            sys.settrace(None)
        return taken

    steps(10)
    assert steps(800) < 10 * steps(100)
    wide = interop.from_cute(f"({'1,' * 2000}(2,2)):({'0,' * 2000}(1,2))", "u8")
    assert wide.dimensions == (1,) * 2000 + (4,) and wide.layout.is_descending and not wide.layout.tiles


@pytest.mark.parametrize(
    "text, problem",
    [
        ("(2,3):(1,0)", "mode 1 has stride 0, so its elements share one place"),
        ("((2,3),4):((1,0),6)", "mode 0 (3:0) has stride 0"),
        ("(2,3):(-1,2)", "mode 0 has the negative stride -1"),
        ("(2,0):(1,2)", "mode 1 has size 0, it must be at least 1"),
        ("(-2,3):(1,2)", "mode 0 has size -2"),
        ("(2,3):(1,1)", "mode 1 (3:1) and mode 0 (2:1) overlap or interleave"),
        ("(2,3):(3,2)", "mode 0 (2:3) and mode 1 (3:2) overlap or interleave"),
        ("((2,2),3):((1,3),2)", "mode 0 (2:3) and mode 1 (3:2) overlap or interleave"),
        ("((2,2),3):((2,7),3)", "mode 1 (3:3) and mode 0 (2:2) overlap or interleave"),
        ("Sw<3,4,3> o 0 o (8,8):(8,1)", "swizzled or composed"),
        ("(8,8):(8,1) o (2,3):(1,2)", "swizzled or composed"),
        (reversed_parts(12), "needs tiles of more than 1002 sizes to reorder its parts"),
        (reversed_parts(60), "needs tiles of more than 1002 sizes to reorder its parts"),
    ],
)
def test_what_no_layout_can_say_names_the_mode(text, problem):
    with pytest.raises(gl.LayoutError) as caught:
        interop.from_cute(text, "u8")
    assert problem in str(caught.value) and text[:90] in str(caught.value)
    assert not isinstance(caught.value, gl.ShapeTextError)


@pytest.mark.parametrize(
    "text, position, problem",
    [
        ("", 0, "expected a size"),
        ("(2,3", 4, "expected ')'"),
        ("(2,3):", 6, "expected a stride"),
        ("(2,,3)", 3, "expected a size"),
        ("(2,3):(1,2) x", 12, "expected the end"),
        ("(2,3):(1,2):(1,2)", 11, "expected the end"),
        ("(2,3):(1,(2,3))", 6, "the strides are not nested as the sizes are"),
        ("(2,3):1", 6, "the strides are not nested as the sizes are"),
        ("(2,?):(1,2)", 3, "expected a size"),
        ("(2,_):(1,2)", 3, "expected a size"),
        ("(2,3):(1@0,1@1)", 7, "basis strides"),
        ("(99999999999999999999,3)", 1, "does not fit in 63 bits"),
        ("9" * 50000, 0, "does not fit in 63 bits"),
        ("(" * 60000, 32, "more than 32 levels of parentheses"),
    ],
)
def test_text_that_is_not_a_cute_layout_is_pointed_at(text, position, problem):
    with pytest.raises(gl.ShapeTextError) as caught:
        interop.from_cute(text, "u8")
    assert problem in str(caught.value) and caught.value.position == position and len(str(caught.value)) < 300


def test_wrong_types():
    with pytest.raises(TypeError, match="CuTe layout text must be a str, not int"):
        interop.from_cute(6, "u8")


@pytest.mark.parametrize("parts", ["(2,2)", "2", "((2))", "9000000000000000000"])
@pytest.mark.parametrize("nested", [False, True])
def test_compact_layouts_end_at_the_mode_that_makes_them_too_large(parts, nested):
    text = ",".join([parts] * 3000)  # without the check a stride of 6000 bits, and one more for every part
    with pytest.raises(gl.LayoutError) as caught:
        interop.from_cute(f"(({text}))" if nested else f"({text})", "u8")
    mode = 0 if nested else {"(2,2)": 31, "9000000000000000000": 1}.get(parts, 62)
    assert f"has 2^63 elements or more: mode {mode} is the first one too many" in str(caught.value)
    assert len(str(caught.value)) < 300


# ---- to CuTe -------------------------------------------------------------------------------------


@st.composite
def tiled_shapes(draw):
    """Shapes of any order and padding, and with tiles that divide what they cut."""
    rank = draw(st.integers(1, 4))
    sizes = tuple(draw(st.sampled_from((1, 2, 3, 4, 6, 8, 12)[: 8 - rank])) for _ in range(rank))
    layout = draw(layouts(sizes))
    if layout.padded_dimensions is None and draw(st.booleans()):
        cut = [sizes[dim] for dim in layout.major_to_minor[-draw(st.integers(1, rank)) :]]
        first = [draw(st.sampled_from([t for t in range(1, size + 1) if size % t == 0])) for size in cut]
        second = [draw(st.sampled_from([t for t in range(1, size + 1) if size % t == 0])) for size in first]
        layout = layout.replace(tiles=[first, second] if draw(st.booleans()) else [first])
    return gl.Shape("u8", sizes, layout)


@given(tiled_shapes())
@settings(max_examples=examples(200))
def test_random_shapes_are_written_as_the_oracle_understands_them(shape):
    text = interop.to_cute(shape)
    check(text, shape)
    again = interop.from_cute(text, "u8")
    assert again.dimensions == shape.dimensions and places_of(again) == places_of(shape)


def small_layouts(rank, sizes):
    """Every order, no or some padded dimensions, and no, one or two tiles of 1 to 3."""
    tiles = [tile for length in range(1, rank + 2) for tile in itertools.product((1, 2, 3), repeat=length)]
    second = [tile for length in (1, 2, 3) for tile in itertools.product((1, 2), repeat=length)] + [(3,), (4,)]
    some = [(), *((tile,) for tile in tiles), *itertools.product(tiles, second)]
    for order in itertools.permutations(range(rank)):
        for wider in itertools.product((0, 2), repeat=rank):
            for levels in some:
                yield gl.Layout(order, padded_dimensions=[*map(sum, zip(sizes, wider))], tiles=levels)


@pytest.mark.parametrize("sizes", [(4,), (6,), (2, 3), (4, 2)])
def test_every_small_layout_that_is_written_is_read(sizes):
    """All layouts of small shapes whose tiles have strides, and the strides of many of them have gaps everywhere."""
    found = {}
    for layout in small_layouts(len(sizes), sizes):
        shape = gl.Shape("u8", sizes, layout)
        try:
            found.setdefault(interop.to_cute(shape), shape)
        except gl.LayoutError:
            continue
    for text, shape in found.items():
        again = interop.from_cute(text, "u8")
        assert places_of(again) == places_of(shape) == places_of_text(text), (shape, text, again)
        assert again == interop.from_cute(interop.to_cute(again), "u8")
    assert len(found) >= 20


@st.composite
def any_tiles(draw):
    """Shapes of any order, padding and tiles."""
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.sampled_from((1, 2, 3, 4, 6, 8))) for _ in range(rank)]
    widths = [size + draw(st.sampled_from((0, 0, 1, 2, 4))) for size in sizes]
    tiles = draw(st.lists(st.lists(st.sampled_from((1, 2, 3, 4, "*")), min_size=1, max_size=4), max_size=3))
    tiles = [[*tile[:-1], 2 if tile[-1] == "*" else tile[-1]] for tile in tiles]
    return gl.Shape("u8", sizes, gl.Layout(draw(st.permutations(range(rank))), padded_dimensions=widths, tiles=tiles))


@given(any_tiles())
@example(gl.parse_shape("u8[4,4]{1,0:T(2,2,2)(2,1,1,1)}"))  # a digit that one tile leaves in front, then a gap
@example(gl.parse_shape("u8[6]{0:T(2)(4)(2)}"))  # a widened digit that is cut again
@settings(max_examples=examples(300))
def test_what_is_written_is_read(shape):
    try:
        text = interop.to_cute(shape)
    except gl.LayoutError:
        return
    assert places_of(interop.from_cute(text, "u8")) == places_of(shape) == places_of_text(text)


def test_the_end_of_the_buffer_is_not_said():
    assert interop.to_cute("f32[2,3]{0,1:PD(3,5)PV(lowest)L(16)}") == interop.to_cute("f32[2,3]{0,1:PD(3,3)}")
    layout, _ = oracle("(2,3):(1,3)")
    assert (
        pytest.importorskip("tensor_layouts").cosize(layout) == 8 < gl.Shape("f32", (2, 3), "{0,1:PD(3,5)}").buffer_size
    )


def test_places_that_no_element_fills_do_not_matter():
    assert interop.to_cute("f32[]{:T(4)}") == "():()"
    assert interop.to_cute("f32[8]{0:T(4)L(32)}") == "8:1"
    assert interop.to_cute("f32[4]{0:T(8)}") == "4:1"
    assert interop.to_cute("f32[4,4]{1,0:PD(8,8)T(2,4)}") == "((2,2),4):((4,16),1)"
    assert interop.to_cute("s4[4]{0:E(4)}") == "4:1"


@pytest.mark.parametrize(
    "text, problem",
    [
        ("f32[3,5]{1,0:T(2,2)}", "dimension 0 of size 3 ends inside a tile of 2; whole tiles need 4"),
        ("f32[5]{0:T(4)}", "dimension 0 of size 5 ends inside a tile of 4; whole tiles need 8"),
        ("f32[6]{0:T(3)(2)}", "a tile that does not divide what it cuts"),
        ("f32[5,6]{1,0:T(*,4)}", "a tile that does not divide what it cuts, or what * joins"),
        ("f32[2,0,3]", "dimension 1 has size 0"),
        ("f32[2,?]", "dimension 1 is unbounded"),
    ],
)
def test_what_cute_cannot_say(text, problem):
    with pytest.raises(gl.LayoutError) as caught:
        interop.to_cute(text)
    assert problem in str(caught.value) and text.partition("{")[0] in str(caught.value)
