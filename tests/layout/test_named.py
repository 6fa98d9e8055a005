"""Names such as NHWC and NCHW16c say what the libraries that use them say, and a layout's name gives it back."""

import itertools
import math
import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, LayoutTypeError
from tests.support import strategies
from tests.support.effort import examples


def by_hand(array, name, logical, fill=0):
    """The buffer that a name describes: pad, reshape and transpose.  Letters of `logical` are small here."""
    name = name.lower()
    outer = re.match("[a-z]*", name)[0]
    blocks = [(logical.index(letter), int(size)) for size, letter in re.findall("([0-9]+)([a-z])", name)]
    own = [[size for dim, size in blocks if dim == axis] for axis in range(array.ndim)]
    whole = [-(-size // math.prod(sizes)) for size, sizes in zip(array.shape, own)]
    ends = [count * math.prod(sizes) for count, sizes in zip(whole, own)]
    padded = np.pad(array, [(0, end - size) for end, size in zip(ends, array.shape)], constant_values=fill)
    digits = padded.reshape([size for count, sizes in zip(whole, own) for size in (count, *sizes)])
    first = [sum(1 + len(sizes) for sizes in own[:axis]) for axis in range(array.ndim)]  # the axis of each count
    used = [0] * array.ndim
    axes = [first[logical.index(letter)] for letter in outer]
    for dim, _ in blocks:
        used[dim] += 1
        axes.append(first[dim] + used[dim])
    return digits.transpose(axes).ravel()


def numbered(dimensions):
    """An array in which every element holds its own number, from 1."""
    return np.arange(1, math.prod(dimensions) + 1, dtype=np.int32).reshape(dimensions)


def names_of(letters, most_blocks, sizes):
    """Every order of the letters with every list of blocks."""
    one = [f"{size}{letter}" for size in sizes for letter in letters]
    for outer in itertools.permutations(letters):
        for count in range(most_blocks + 1):
            for blocks in itertools.product(one, repeat=count):
                yield "".join(outer) + "".join(blocks)


KNOWN = [
    # (name, logical, dimensions, text of the layout)
    ("NHWC", "NCHW", (2, 5, 3, 4), "{1,3,2,0}"),
    ("NCHW", "NHWC", (2, 3, 4, 5), "{2,1,3,0}"),
    ("NCHW", "NCHW", (2, 5, 3, 4), "{3,2,1,0}"),
    ("NDHWC", "NCDHW", (2, 3, 2, 3, 2), "{1,4,3,2,0}"),
    ("HWIO", "OIHW", (4, 3, 3, 3), "{0,1,3,2}"),
    ("BHTD", "BTHD", (2, 3, 4, 5), "{3,1,2,0}"),
    ("TNC", "NTC", (2, 3, 4), "{2,0,1}"),
    ("NCHW16c", "NCHW", (2, 35, 3, 4), "{3,2,1,0:T(16,1,1)}"),
    ("nChw16c", "nchw", (1, 16, 3, 2), "{3,2,1,0:T(16,1,1)}"),
    ("NC/32HW32", "NCHW", (2, 33, 2, 3), "{3,2,1,0:T(32,1,1)}"),
    ("NC/4DHW4", "NCDHW", (1, 5, 2, 2, 3), "{4,3,2,1,0:T(4,1,1,1)}"),
    ("NHWC8", "NCHW", (2, 9, 2, 3), "{1,3,2,0:T(8)}"),
    ("NHWC8c", "NHWC", (2, 2, 3, 17), "{3,2,1,0:T(8)}"),
    ("OIhw4i16o4i", "OIHW", (17, 18, 2, 1), "{3,2,1,0:T(16,16,1,1)(16,4,1,1)}"),
    ("OIHW16i16o", "OIHW", (17, 5, 1, 2), "{3,2,1,0:T(16,16,1,1)(16,1,1,1)}"),
    ("gOIhw8i16o2i", "goihw", (2, 17, 5, 1, 2), "{4,3,2,1,0:T(16,16,1,1)(16,2,1,1)}"),
    ("aBCd8b16c2b", "abcd", (2, 17, 18, 3), "{3,2,1,0:T(16,16,1)(2,1,1)}"),
    ("HW8h128w2h", "HW", (40, 130), "{1,0:T(16,128)(2,1)}"),
    ("NCHW4c", "NCHW", (2, 0, 3, 4), "{3,2,1,0:T(4,1,1)}"),
]


@pytest.mark.parametrize("name, logical, dimensions, text", KNOWN, ids=[known[0] for known in KNOWN])
def test_known_names_are_these_layouts_and_these_bytes(name, logical, dimensions, text):
    layout = Layout.named(name, logical=logical)
    assert str(layout) == text
    plain = {"NC/32HW32": "NCHW32c", "NC/4DHW4": "NCDHW4c", "NHWC8": "NHWC8c"}.get(name, name)
    array = numbered(dimensions)
    assert np.array_equal(gl.pack(array, layout), by_hand(array, plain, logical.lower()))


@pytest.mark.parametrize(
    "letters, most_blocks, sizes, dimensions",
    [("a", 3, (1, 2, 3), (13,)), ("ab", 3, (2, 3), (5, 13)), ("abc", 2, (2, 3), (5, 2, 7))],
)
def test_every_small_name_is_pad_reshape_and_transpose_and_comes_back(letters, most_blocks, sizes, dimensions):
    array = numbered(dimensions)
    for name in names_of(letters, most_blocks, sizes):
        layout = Layout.named(name, logical=letters)
        assert np.array_equal(gl.pack(array, layout), by_hand(array, name, letters)), name
        again = layout.name(logical=letters)
        assert again == re.sub("1[a-z]", "", name) and Layout.named(again, logical=letters) == layout


@st.composite
def long_names(draw):
    """(name, its letters in the order of the array, dimensions) for up to 6 dimensions and 5 blocks of up to 9."""
    letters = draw(st.permutations("NCDHWT"))[: draw(st.integers(1, 6))]
    blocks = draw(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(letters)), max_size=5))
    outer = [draw(st.sampled_from([letter, letter.lower()])) for letter in draw(st.permutations(letters))]
    inner = [f"{size}{draw(st.sampled_from([letter, letter.lower()]))}" for size, letter in blocks]
    longest = {letter: math.prod([size for size, of in blocks if of == letter]) for letter in letters}
    hypothesis.assume(math.prod(longest.values()) <= 4000)
    dimensions = [draw(st.integers(0, min(longest[letter] + 2, 12))) for letter in letters]
    return "".join(outer + inner), "".join(letters), tuple(dimensions)


@hypothesis.given(long_names())
@hypothesis.settings(max_examples=examples(150))
def test_longer_names_are_pad_reshape_and_transpose_and_come_back(case):
    name, logical, dimensions = case
    layout = Layout.named(name, logical=logical)
    array = numbered(dimensions)
    assert np.array_equal(gl.pack(array, layout), by_hand(array, name, logical.lower()))
    assert Layout.named(layout.name(logical=logical), logical=logical) == layout


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=examples(200))
def test_the_name_of_any_tiles_has_their_places_or_is_refused(data):
    order = data.draw(st.integers(0, 4).flatmap(lambda rank: st.permutations(range(rank))))
    layout = Layout(order, tiles=data.draw(strategies.tiles(max_size=4)))
    logical = "abcd"[: layout.rank]
    try:
        name = layout.name(logical=logical)
    except LayoutError as error:
        assert str(error).startswith(f"layout {layout} has no name: its tiles ")
    else:
        dimensions = data.draw(st.tuples(*[st.integers(0, 9)] * layout.rank))
        shapes = [gl.Shape("u8", dimensions, found) for found in (layout, Layout.named(name, logical=logical))]
        assert places(shapes[0]) == places(shapes[1])


def test_buffers_go_from_name_to_name_on_every_executor(executor):
    array = numbered((2, 19, 3, 4)).astype(np.float16)
    buffers = {name: by_hand(array, name, "nchw") for name in ("NCHW", "NHWC", "NCHW16c", "NHWC8c", "NCHW4c2w2c")}
    for source, target in itertools.permutations(buffers, 2):
        shapes = [gl.Shape("f16", array.shape, Layout.named(name, logical="NCHW")) for name in (source, target)]
        found = gl.relayout(executor.array(buffers[source]), *shapes)
        assert np.array_equal(executor.host(found), buffers[target]), (source, target)


def test_padding_in_blocks_takes_the_padding_value():
    layout = Layout.named("NCHW4c", logical="NCHW", padding_value="lowest")
    array = numbered((1, 5, 2, 2)).astype(np.float32)
    assert np.array_equal(gl.pack(array, layout), by_hand(array, "NCHW4c", "nchw", -np.inf))


# ---- the definitions of others ---------------------------------------------------------------------------------


def all_indices(dimensions):
    return np.indices(dimensions).reshape(len(dimensions), math.prod(dimensions))


def blocked_offset(index, dimensions, order, blocks):
    """oneDNN's way to an offset: `dnnl_blocking_desc_t` has strides between whole blocks and lists of inner blocks,
    from the outermost to the innermost; dimensions are padded to whole blocks.
    """
    whole = [
        -(-size // math.prod([size for dim, size in blocks if dim == axis])) for axis, size in enumerate(dimensions)
    ]
    inside = math.prod(size for _, size in blocks)
    strides, step = {}, inside
    for dim in reversed(order):
        strides[dim] = step
        step *= whole[dim]
    position, offset, step = [np.array(coordinate) for coordinate in index], 0, 1
    for dim, size in reversed(blocks):
        offset = offset + position[dim] % size * step
        position[dim] = position[dim] // size
        step *= size
    return offset + sum(position[dim] * strides[dim] for dim in order)


@pytest.mark.parametrize(
    "name, dimensions, order, blocks",
    [
        ("aBcd8b", (2, 17, 5, 4), (0, 1, 2, 3), [(1, 8)]),
        ("aBcd16b", (2, 17, 5, 4), (0, 1, 2, 3), [(1, 16)]),
        ("ABcd4b16a4b", (17, 20, 2, 3), (0, 1, 2, 3), [(1, 4), (0, 16), (1, 4)]),
        ("ABcd16b16a", (17, 20, 2, 3), (0, 1, 2, 3), [(1, 16), (0, 16)]),
        ("BAcd8a16b2a", (17, 20, 2, 3), (1, 0, 2, 3), [(0, 8), (1, 16), (0, 2)]),
        ("Acdb16a", (17, 5, 2, 3), (0, 2, 3, 1), [(0, 16)]),
        ("ABc32a32b", (33, 5, 2), (0, 1, 2), [(0, 32), (1, 32)]),
        ("aBCd2c4b2c", (2, 5, 7, 3), (0, 1, 2, 3), [(2, 2), (1, 4), (2, 2)]),
    ],
)
def test_names_of_onednn_place_elements_as_its_blocking_descriptors_do(name, dimensions, order, blocks):
    shape = gl.Shape("f32", dimensions, Layout.named(name, logical="abcd"[: len(dimensions)]))
    index = all_indices(dimensions)
    assert np.array_equal(gl.linearize(index, shape), blocked_offset(index, dimensions, order, blocks))


def test_the_formats_of_tensorrt_place_elements_as_its_manual_says():
    n, c, h, w = dimensions = 2, 37, 3, 5
    index = tuple(all_indices(dimensions))
    for lanes in (2, 4, 16, 32):  # kCHW2, kCHW4, kCHW16, kCHW32: [N][(C+31)/32][H][W][32], at [n][c/32][h][w][c%32]
        shape = gl.Shape("f16", dimensions, Layout.named(f"NC/{lanes}HW{lanes}", logical="NCHW"))
        whole = n, (c + lanes - 1) // lanes, h, w, lanes
        at = index[0], index[1] // lanes, index[2], index[3], index[1] % lanes
        assert np.array_equal(gl.linearize(index, shape), np.ravel_multi_index(at, whole))
        assert shape.buffer_size == math.prod(whole)
    for lanes in (8, 16):  # kHWC8, kHWC16: [N][H][W][(C+7)/8*8], at [n][h][w][c]
        shape = gl.Shape("f16", dimensions, Layout.named(f"NHWC{lanes}", logical="NCHW"))
        whole = n, h, w, (c + lanes - 1) // lanes * lanes
        assert np.array_equal(gl.linearize(index, shape), np.ravel_multi_index([index[d] for d in (0, 2, 3, 1)], whole))
        assert shape.buffer_size == math.prod(whole)


# ---- the name of a layout --------------------------------------------------------------------------------------


def places(shape):
    """The place of every element, and the size of the buffer: all that a layout says about bytes."""
    return gl.linearize(all_indices(shape.dimensions), shape).tobytes(), shape.buffer_size


def test_a_layout_has_a_name_exactly_when_some_name_says_it():
    """All tiles of up to two sizes from 1 to 4, one or two of them, against all names of up to four blocks."""
    dimensions = (23, 29)

    def of(layout):
        return places(gl.Shape("u8", dimensions, layout))

    said = {
        of(Layout.named(name, logical="hw"))
        for name in names_of("hw", 4, (2, 3, 4))
        if all(math.prod(map(int, re.findall(f"([0-9]+){letter}", name))) <= 16 for letter in "hw")
    }
    tiles = [tile for count in (1, 2) for tile in itertools.product(range(1, 5), repeat=count)]
    named = 0
    for chosen in [[tile] for tile in tiles] + list(itertools.product(tiles, repeat=2)):
        layout = Layout((1, 0), tiles=chosen)
        try:
            name = layout.name(logical="hw")
        except LayoutError:
            assert of(layout) not in said, layout
        else:
            named += 1
            assert of(Layout.named(name, logical="hw")) == of(layout), layout
    assert 100 < named < len(tiles) ** 2


@pytest.mark.parametrize(
    "text, logical, name",
    [
        ("{1,3,2,0}", "NCHW", "NHWC"),
        ("{3,2,1,0:T(16,1,1)}", "nchw", "nchw16c"),
        ("{1,0:T(8,128)(2,1)}", "HW", "HW4h128w2h"),
        ("{1,0:T(1,128)}", "HW", "HW128w"),
        ("{0,1:T(16)(4)}", "HW", "WH4h4h"),
        ("{}", "", ""),
    ],
)
def test_names_of_layouts(text, logical, name):
    assert gl.parse_layout(text).name(logical=logical) == name


@pytest.mark.parametrize(
    "text, logical, message",
    [
        (
            "{1,0:PD(3,4)PV(lowest)}",
            "HW",
            "layout {1,0:PD(3,4)PV(lowest)} has no name: names say order and tiles only, not PD(3,4)PV(lowest)",
        ),
        ("{0:T(8)E(4)}", "W", "layout {0:T(8)E(4)} has no name: names say order and tiles only, not E(4)"),
        ("{0:M(8)}", "W", "layout {0:M(8)} has no name: names say order and tiles only, not M(8)"),
        ("{1,0:T(*,128)}", "HW", "layout {1,0:T(*,128)} has no name: its tiles join dimensions with '*'"),
        ("{0:T(8,128)}", "W", "layout {0:T(8,128)} has no name: its tiles have more dimensions than it has"),
        ("{0:T(3)(2)}", "W", "layout {0:T(3)(2)} has no name: its tiles cut a block of 3 by 2, which leaves gaps"),
        (
            "{1,0:T(4)(8,1)}",
            "HW",
            "layout {1,0:T(4)(8,1)} has no name: its tiles put a less significant digit of dimension W before a more "
            "significant one",
        ),
        ("{1,0}", "NHW", "logical 'NHW' names 3 dimensions of layout {1,0}, which has 2 dimensions"),
        ("{1,0}", "HH", "logical 'HH' has two dimensions H"),
    ],
)
def test_layouts_without_a_name_say_why(text, logical, message):
    with pytest.raises(LayoutError) as caught:
        gl.parse_layout(text).name(logical=logical)
    assert str(caught.value) == message


# ---- mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, logical, message",
    [
        ("HWC", "NCHW", "name 'HWC' has no dimension N, which logical 'NCHW' has"),
        ("NTHWC", "NCHW", "name 'NTHWC' has dimension T, which logical 'NCHW' lacks"),
        ("NCHWc", "NCHW", "name 'NCHWc' has dimension c twice: a block needs its size, such as 16c"),
        ("N-HWC", "NCHW", "name 'N-HWC' is not letters and blocks, as NHWC and NCHW16c are: character 1 is '-'"),
        ("NHWC ", "NCHW", "name 'NHWC ' is not letters and blocks, as NHWC and NCHW16c are: character 4 is ' '"),
        ("NHWÇ", "NCHW", "name 'NHWÇ' is not letters and blocks, as NHWC and NCHW16c are: character 3 is 'Ç'"),
        (
            "NC16cHW",
            "NCHW",
            "name 'NC16cHW' has the block 16c before dimension H: no layout can say that, "
            "since tiles put blocks after all dimensions",
        ),
        ("NCHW16x", "NCHW", "name 'NCHW16x' has the block 16x, whose dimension is not in logical 'NCHW'"),
        ("NCHW0c", "NCHW", "name 'NCHW0c' has a block of 0 for dimension C"),
        (
            f"NCHW{10**17}c{10**17}c",
            "NCHW",
            f"name 'NCHW{10**17}c{10**17}c' has blocks of more than 2^63-1 for dimension C",
        ),
        ("NHWC08", "NCHW", "name 'NHWC08' has the number '08', which begins with 0"),
        (
            "NC9223372036854775807c2c",
            "NC",
            "name 'NC9223372036854775807c2c' has blocks of more than 2^63-1 for dimension C",
        ),
        (
            "NC99999999999999999999c",
            "NC",
            "name 'NC99999999999999999999c' has a number of 20 digits, which is more than 2^63-1",
        ),
        ("NCHW32", "NCHW", "name 'NCHW32' has the number 32 without the letter of a dimension, such as 32c"),
        ("NCHW4c4", "NCHW", "name 'NCHW4c4' has the number 4 without the letter of a dimension, such as 4c"),
        ("NC/4H/4W4", "NCHW", "name 'NC/4H/4W4' has the number 4 without the letter of a dimension, such as 4c"),
        ("NC/32HW16c", "NCHW", "name 'NC/32HW16c' divides C by 32 and has blocks of 16 for it"),
        ("NC/32HW", "NCHW", "name 'NC/32HW' divides C by 32 and has no block for it"),
        ("NHWC", "NCCW", "logical 'NCCW' has two dimensions C"),
        ("NHWC", "NcHC", "logical 'NcHC' has two dimensions C"),
        ("NHWC", "NC W", "logical 'NC W' is not one letter for every dimension: character 2 is ' '"),
        ("NHWC", "NCHW16c", "logical 'NCHW16c' is not one letter for every dimension: character 4 is '1'"),
    ],
)
def test_names_that_say_nothing_possible_are_refused(name, logical, message):
    with pytest.raises(LayoutError) as caught:
        Layout.named(name, logical=logical)
    assert str(caught.value) == message


def test_a_number_of_any_length_is_read_in_time():
    with pytest.raises(LayoutError, match="^name 'NCHW9*... has a number of 9000 digits, which is more than 2.63-1$"):
        Layout.named("NCHW" + "9" * 9000 + "c", logical="NCHW")
    with pytest.raises(LayoutError, match="has blocks of more than 2.63-1 for dimension C$"):
        Layout.named("NCHW" + "4c" * 4000, logical="NCHW")
    with pytest.raises(LayoutError, match="^name 'N*... has 10001 characters: 10000 is the limit$"):
        Layout.named("N" * 10_001, logical="N")


def test_a_block_of_19_digits_is_one_number():
    assert Layout.named("NC9223372036854775807c", logical="NC").tiles == (gl.Tile((2**63 - 1,)),)


@pytest.mark.parametrize(
    "value, kind", [(5, "an int"), (None, "a NoneType"), (("N", "C"), "a tuple"), (b"NC", "a bytes")]
)
def test_names_are_text(value, kind):
    with pytest.raises(LayoutTypeError) as caught:
        Layout.named(value, logical="NC")
    assert str(caught.value) == f"name {value!r} is not text such as 'NHWC': it is {kind}"
    for call in (lambda: Layout.named("NC", logical=value), lambda: Layout((0, 1)).name(logical=value)):
        with pytest.raises(LayoutTypeError) as caught:
            call()
        assert str(caught.value) == f"logical {value!r} is not text such as 'NCHW': it is {kind}"


def test_a_scalar_has_the_empty_name():
    assert Layout.named("", logical="") == Layout(()) and Layout(()).name(logical="") == ""


def test_the_order_of_the_array_has_to_be_given():
    with pytest.raises(TypeError, match="logical"):
        Layout.named("NHWC")
    with pytest.raises(TypeError):
        Layout.named("NHWC", "NCHW")  # which of two texts is which is not to be guessed


@pytest.mark.parametrize("make", [Layout, gl.parse_layout, gl.Shape("f32", (1, 2, 3, 4)).with_layout])
@pytest.mark.parametrize(
    "name, logical", [("NHWC8c", "NCHW"), ("NCHW", "NHWC"), ("CHW", "HWC"), ("BTHD", "BTHD"), ("nchw16c", "nchw")]
)
def test_a_name_in_place_of_a_layout_is_recognised(make, name, logical):
    with pytest.raises(LayoutError) as caught:
        make(name)
    written = f"gl.Layout.named({name!r}, logical={logical!r})"
    assert f": write {written} if the array's dimensions are {', '.join(logical[:-1])} and {logical[-1]}" in str(
        caught.value
    )
    assert eval(written) == Layout.named(name, logical=logical)


@pytest.mark.parametrize("make", [Layout, gl.parse_layout])
@pytest.mark.parametrize("text", ["Fortran", "NNN", "channels_last", "PD", "HW T"])
def test_other_words_are_not_taken_for_names(make, text):
    with pytest.raises(LayoutError) as caught:
        make(text)
    assert "named" not in str(caught.value)
