"""The blocks of a plan, against the definition of both layouts: every byte is written once, and right."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.moves.blocks import box_grid
from tests.support import strategies
from tests.support.block_cases import check, smallest_limit
from tests.support.effort import examples


def distinct_cuts(source, target, limits):
    """Limits that cut a plan in different ways."""
    seen = set()
    for limit in limits:
        blocks = gl.plan(source, target).blocks(limit)
        key = len(blocks), blocks.block_bytes, *blocks[:2]
        if key not in seen:
            seen.add(key)
            yield limit


def limits_of(source, target):
    """From the smallest that works to one block: all of them, or some hundred."""
    least, most = max(smallest_limit(source, target), 1), source.nbytes + target.nbytes + 1
    return [*range(least, most, max((most - least) // 100, 1)), most]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (0, 2), (2, 1)])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_every_small_shape_in_every_limit(rank, padding):
    for sizes in itertools.product({1: range(5), 2: (0, 1, 2, 4)}.get(rank, ()), repeat=rank):
        for order in itertools.permutations(range(rank)):
            source, target = (
                gl.Shape("u16", sizes, gl.Layout(o, padded_dimensions=[n + pad for n in sizes], padding_value=1))
                for o, pad in zip((range(rank), order), padding)
            )
            for limit in distinct_cuts(source, target, limits_of(source, target)):
                check(source, target, limit)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_every_small_shape_of_rank_3(order):
    for sizes in itertools.product((0, 1, 4), (1, 3), (1, 2, 3)):
        widths = [size + (dim == sum(sizes) % 3) for dim, size in enumerate(sizes)]
        source = gl.Shape("u8", sizes, gl.Layout((2, 1, 0), padded_dimensions=sizes if order[0] else widths))
        target = gl.Shape("u8", sizes, gl.Layout(order, padded_dimensions=widths, padding_value=7))
        least, most = smallest_limit(source, target), source.nbytes + target.nbytes
        for limit in distinct_cuts(source, target, range(max(least, 1), most + 2, max(most // 8, 1))):
            check(source, target, limit)


TILES = ["T(2)", "T(3)(2)", "T(2,4)", "T(2,4)(2,1)", "T(4)(2,2)", "T(*,4)", "T(*,3)", "T(8)(*,5)", "T(3,2,2)"]
TILES += [
    "T(5)(*,3)(3,1,2)",
    "T(1,16)",
    "T(*,6)",
    "T(2,2)L(7)",
    "L(50)",
    "T(3)(*,2)L(16)",
    "T(*,4)(2,*,5)",
    "T(4)(*,6)",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tiles", TILES)
def test_tiles_of_either_side(tiles):
    for sizes, order in itertools.product([(1, 6), (5, 7), (8, 4), (3, 16), (6, 6)], [(0, 1), (1, 0)]):
        text = "u8[{},{}]".format(*sizes)
        plain = gl.parse_shape(text)
        tiled = plain.with_layout("{{{},{}:PV(9){}}}".format(*order, tiles))
        wide = plain.with_layout("{{{},{}:PD({},{}){}}}".format(*order[::-1], sizes[0] + 2, sizes[1] + 1, tiles))
        for source, target in ((plain, tiled), (tiled, plain), (tiled, wide)):
            least, most = smallest_limit(source, target), source.nbytes + target.nbytes
            for limit in {least, least + 7, (least + most) // 2}:
                check(source, target, limit)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name, bits", [("u1", 1), ("s2", 2), ("s4", 4)])
def test_packed_rows_that_end_inside_a_byte(name, bits):
    packed = f"E({bits})"
    for sizes in [(9,), (16,), (3, 5), (5, 8), (16, 3), (17, 9), (2, 3, 5), (8, 2, 4)]:
        order = ",".join(map(str, range(len(sizes))))
        down = order[::-1]
        shape = gl.parse_shape(f"{name}[{','.join(map(str, sizes))}]")
        widths = f"PD({','.join(str(size + 1) for size in sizes)})PV(1)"
        pairs = [
            (f":{packed}", f":{packed}"),
            ("", f":{packed}"),
            (f":{packed}", ""),
            (f":{packed}", f":{widths}{packed}"),
        ]
        pairs += [(f":{packed}", f":T(4)L(21){packed}"), (f":{widths}T(2,4){packed}", f":L(99){packed}")]
        for first, second in pairs:
            source, target = shape.with_layout(f"{{{down}{first}}}"), shape.with_layout(f"{{{order}{second}}}")
            for limit in list(distinct_cuts(source, target, limits_of(source, target)))[:4]:
                check(source, target, limit)


@pytest.mark.parametrize(
    "source, target",
    [  # a tile holds a dimension whole, or rounds it up, where `*` joins it
        ("u8[1,6]{1,0:PD(18,8)}", "u8[1,6]{0,1:PD(6,6)T(*,6)}"),
        ("u1[18]{0:T(3,4,2)}", "u1[18]{0:T(3)(16,*,5)E(1)}"),
        ("u8[3]{0:T(8,1)(2,5)(1)}", "u8[3]{0:PD(8)T(8)(*,5)L(2)}"),
        ("s4[7]{0:T(6)(8)L(2)E(4)}", "s4[7]{0:PD(8)T(4)(*,2)E(4)}"),
        ("bf16[6,14]{1,0:T(5)(*,3)(3,1,2)}", "bf16[6,14]{0,1:PD(7,14)}"),
        ("bf16[8,3,7]{1,0,2}", "bf16[8,3,7]{1,0,2:T(16)(1,16,*,1)}"),
        ("u8[40,12]{1,0:T(*,4)}", "u8[40,12]{0,1:T(8)(*,16)}"),
        ("u8[4,6,5]{2,1,0:T(*,*,10)}", "u8[4,6,5]{0,1,2:T(*,12)(2,2)}"),
    ],
)
def test_joined_dimensions(source, target):
    source, target = gl.parse_shape(source), gl.parse_shape(target)
    for limit in distinct_cuts(source, target, limits_of(source, target)):
        check(source, target, limit)


@pytest.mark.parametrize(
    "source, target",
    [
        ("f32[20,30]", "f32[20,30]{0,1:PD(23,30)}"),
        ("u8[100]", "u8[100]{0:PD(3000)}"),
        ("u8[0]", "u8[0]{0:PD(300)}"),
        ("u8[10,9]{1,0:PD(40,16)}", "u8[10,9]{0,1:L(512)}"),
        ("s4[17,9]{1,0:E(4)}", "s4[17,9]{0,1:L(99)E(4)}"),
    ],
)
def test_the_largest_buffers_of_one_side_and_of_both(source, target):
    source, target = gl.parse_shape(source), gl.parse_shape(target)
    for limit in limits_of(source, target):
        blocks, found = gl.plan(source, target).blocks(limit), box_grid(source, target, limit)
        sizes = [(block.source_runs.nbytes, block.target_runs.nbytes) for block in blocks]
        for sides in ((True, False), (False, True), (True, True)):
            largest = max(sum(nbytes for nbytes, wanted in zip(both, sides) if wanted) for both in sizes)
            assert found.most_bytes(*sides) == largest, (limit, sides)


def test_plans_that_differ_in_numbers_alone_are_cut_once():
    one, other = (gl.plan("f32[40,50]", "F", scale=scale) for scale in (2, [*range(50)]))
    assert box_grid(one.source, one.target, 4096) is box_grid(other.source, other.target, 4096)
    assert len(one.blocks(4096)) == len(other.blocks(4096)) > 1


TYPES = [("u8", 8), ("f32", 32), ("c128", 128), ("s4", 4), ("u1", 1)]


@st.composite
def cases(draw):
    """(source, target, a number that chooses the limit): layouts with everything that places bytes."""
    sizes = draw(strategies.dimensions(max_rank=4, max_elements=300, sizes=(1, 2, 3, 4, 5, 7, 8, 9, 17)))
    name, bits = draw(st.sampled_from(TYPES))
    found = []
    for _ in range(2):
        layout = draw(strategies.tiled_layouts(sizes, tails=(1, 1, 7, 64)))
        packed = bits if bits < 8 and draw(st.integers(0, 3)) else 0
        found.append(gl.Shape(name, sizes, layout.replace(element_size_in_bits=packed)))
    return *found, draw(st.integers(0, 40))


def limit_of(source, target, number):
    """The smallest limit, a little more, or some part of everything."""
    least = max(smallest_limit(source, target), 1)
    return least + number * number * (source.nbytes + target.nbytes) // 1600


@given(cases())
@settings(max_examples=examples(100))
def test_blocks_of_any_layouts(case):
    source, target, number = case
    if source.nbytes + target.nbytes < 9000:
        check(source, target, limit_of(source, target, number))


@given(cases())
@settings(max_examples=examples(50))
def test_two_passes_by_blocks_are_one_relayout(case):
    source, target, number = case
    if source.nbytes + target.nbytes < 9000:
        limit = limit_of(source, target, number)
        passes = gl.plan(source, target).passes(limit)
        ends = [passes[0].source, *(each.target for each in passes)]
        assert [ends[0], ends[-1]] == [source, target] and len(passes) in (1, 2)
        for before, after in zip(ends, ends[1:]):
            check(before, after, limit)


@given(cases())
@settings(max_examples=examples(50))
def test_a_byte_less_than_the_smallest_block_is_refused(case):
    source, target, _ = case
    plan, least = gl.plan(source, target), smallest_limit(source, target)
    if least:
        assert plan.blocks(least).block_bytes == least
        with pytest.raises(gl.LayoutError, match=f"^max_bytes {least - 1} is too small .* {least} bytes$"):
            plan.blocks(least - 1)


def test_a_limit_of_some_bytes_cuts_an_array_of_any_size_without_counting_its_boxes():
    blocks = gl.plan("u8[1099511627776,1099511]", "{0,1}").blocks(9)
    assert blocks.bytes_read == blocks.bytes_written == 2**40 * 1099511
