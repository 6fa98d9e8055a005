"""Parameters that follow a tensor: the law is NumPy, on one number for each element of the tensor."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.checkpoints.block_values import BlockValues, block_values, interleaved, joined, keywords, stacked

SIZES = range(8)


def numbered(dimensions, blocks):
    """A parameter of different numbers in these blocks, 0 for one number along a dimension."""
    sizes = [-(-own // block) if block else 1 for own, block in zip(dimensions, blocks)]
    block = [max(each, 1) for each in blocks]
    return block_values("scale", np.arange(1, 1 + np.prod(sizes, dtype=int)).reshape(sizes), tuple(dimensions), block)


def every(most=7, rank=1):
    """All parameters of tensors with at most so many elements along a dimension."""
    line = [(own, block) for own in range(most + 1) for block in range(most + 1)]
    for each in itertools.product(line, repeat=rank):
        yield numbered(*zip(*each))


def expanded(numbers):
    """The model: one number for each element, in the order of NumPy."""
    assert numbers.values.ndim == len(numbers.dimensions) == len(numbers.blocks)
    result = numbers.values
    for axis, (own, block) in enumerate(zip(numbers.dimensions, numbers.blocks)):
        result = np.take(result, np.arange(own) // (block or max(own, 1)), axis)
    return result


def check(numbers, wanted):
    """The numbers are those wanted, also for the call that gets them."""
    assert (expanded(numbers) == wanted).all() and numbers.dimensions == wanted.shape
    options = keywords({"scale": numbers})
    again = block_values("scale", options["scale"], wanted.shape, options.get("block"))
    assert (expanded(again) == wanted).all()


@pytest.mark.parametrize(
    "given, dimensions, block",
    [
        (np.arange(10).reshape(5, 2), (576, 256), 128),
        (np.arange(8).reshape(4, 2), (512, 256), None),
        (np.arange(256), (576, 256), None),
        (np.arange(576).reshape(576, 1), (576, 256), None),
        (3.5, (576, 256), None),
        ([7.0], (576, 256), None),
        (np.arange(18).reshape(9, 2), (576, 256), (64, 128)),
    ],
)
def test_it_is_read_as_a_call_reads_it(given, dimensions, block):
    found = expanded(block_values("scale", given, dimensions, block))
    options = {} if block is None else {"block": block}
    ones = np.ones(dimensions, np.float32)
    assert (found == gl.transpose(ones, (0, 1), scale=given, **options)).all()


def test_sizes_that_do_not_fit():
    with pytest.raises(gl.LayoutError, match=r"scale of shape \(5, 2\) does not fit an array of shape \(576, 256\)"):
        block_values("scale", np.ones((5, 2)), (576, 256))
    with pytest.raises(gl.LayoutError, match=r"mean of shape \(2, 2\) does not fit"):
        block_values("mean", np.ones((2, 2)), (4, 4))


def test_every_part_along_an_axis():
    for numbers in every():
        (own,), whole = numbers.dimensions, expanded(numbers)
        for begin, end, step in itertools.product(range(own + 1), range(own + 1), (1, 2, 3, 4)):
            check(numbers.part(0, range(begin, end, step)), whole[begin:end:step])


def test_other_axes_stay_in_blocks():
    for numbers in every(4, 2):
        rows, columns = numbers.dimensions
        check(numbers.part(0, range(1, rows)), expanded(numbers)[1:])
        cut = numbers.part(1, range(1, columns, 2))
        check(cut, expanded(numbers)[:, 1::2])
        assert cut.blocks[0] == numbers.blocks[0]
        for at in range(rows):
            check(numbers.at(0, at), expanded(numbers)[at])
        for at in range(columns):
            check(numbers.at(1, at), expanded(numbers)[:, at])


@pytest.mark.parametrize("sizes", [*itertools.product(range(4), range(4)), *itertools.product((0, 1, 2, 3), repeat=3)])
def test_an_axis_as_several_and_back(sizes):
    own = int(np.prod(sizes))
    for block in range(own + 2):
        numbers = numbered((own, 2), (block, 1))
        several = numbers.split(0, sizes)
        check(several, expanded(numbers).reshape(*sizes, 2))
        check(several.merged(0, len(sizes)), expanded(numbers))


def test_any_axes_as_one():
    for numbers in every(4, 2):
        check(numbers.merged(0), expanded(numbers).reshape(-1))
        check(numbers.transposed((1, 0)), expanded(numbers).T)
        check(numbers.transposed((1, 0)).merged(0), expanded(numbers).T.reshape(-1))


def test_every_pair_is_joined():
    for one, other in itertools.product(every(5), repeat=2):
        check(joined([one, other], 0), np.concatenate([expanded(one), expanded(other)]))


def test_pairs_of_two_axes():
    for one, other in itertools.product(every(3, 2), repeat=2):
        if one.dimensions[1] == other.dimensions[1]:
            check(joined([one, other], 0), np.concatenate([expanded(one), expanded(other)]))
        if one.dimensions == other.dimensions:
            check(stacked([one, other]), np.stack([expanded(one), expanded(other)]))
            for axis in (0, 1):
                turns = np.stack([expanded(one), expanded(other)], axis + 1)
                wanted = turns.reshape([size * (1 + (dim == axis)) for dim, size in enumerate(one.dimensions)])
                check(interleaved([one, other], axis), wanted)


lines = st.builds(lambda own, block: numbered((own, 6), (block, 4)), st.integers(0, 40), st.integers(0, 40))


@given(st.lists(lines, min_size=1, max_size=5), st.data())
def test_parts_of_joins_are_joins_of_parts(parts, data):
    whole, values = joined(parts, 0), np.concatenate([*map(expanded, parts)])
    check(whole, values)
    begin = data.draw(st.integers(0, len(values)))
    indices = range(begin, data.draw(st.integers(begin, len(values))), data.draw(st.integers(1, 9)))
    check(whole.part(0, indices), values[indices.start : indices.stop : indices.step])
    check(stacked([parts[0]] * 3).at(0, 1), expanded(parts[0]))
    check(interleaved([parts[0]] * 3, 0).part(0, range(1, 3 * len(expanded(parts[0])), 3)), expanded(parts[0]))


def test_blocks_stay_large_where_borders_allow_it():
    scale = numbered((1024, 512), (128, 128))
    assert scale.part(0, range(256, 512)).values.shape == (2, 4)
    assert scale.part(0, range(64, 192)).values.shape == (2, 4)
    assert scale.part(0, range(130, 250)).blocks == (0, 128)
    assert joined([scale, numbered((512, 512), (0, 0))], 0).values.shape == (12, 4)
    assert stacked([scale] * 3).blocks == (1, 128, 128)
    assert scale.split(0, (2, 512)).values.shape == (2, 4, 4)
    assert scale.split(0, (16, 64)).blocks == (2, 0, 128)
    assert scale.split(0, (2, 512)).part(1, range(256)).merged(0).values.shape == (4, 4)


@pytest.mark.parametrize("block", [(128, 128), (64, 0), (0, 128), (1, 0), (0, 0), (100, 30)])
def test_a_stand_in_of_the_same_sizes_is_planned_alike(block):
    """Values are read late, and what a plan depends on must be known before."""
    values = numbered((576, 256), block)
    zeros = np.broadcast_to(np.zeros((), "f4"), values.values.shape)
    stand_in = block_values("scale", zeros, (576, 256), [max(each, 1) for each in block])
    for step in (
        lambda each: each,
        lambda each: each.part(0, range(64, 576)),
        lambda each: joined([each, each.part(0, range(100))], 0),
        lambda each: interleaved([each, each], 1),
    ):
        shape = gl.Shape("f8e4m3fn", step(values).dimensions)
        plans = [gl.plan(shape, "F", dtype="bf16", **keywords({"scale": step(each)})) for each in (values, stand_in)]
        assert plans[0].change.blocks == plans[1].change.blocks and plans[0].source == plans[1].source


def test_several_parameters_share_a_block():
    for scale, zero in itertools.product(every(6), repeat=2):
        if scale.dimensions == zero.dimensions:
            options = keywords({"scale": scale, "zero_point": zero})
            for name, wanted in (("scale", scale), ("zero_point", zero)):
                again = block_values(name, options[name], wanted.dimensions, options.get("block"))
                assert (expanded(again) == expanded(wanted)).all()


def test_parts_may_be_of_different_types():
    halves = [np.array([0.5, 2], dtype) for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, np.float16)]
    parts = [block_values("scale", each, (4,)) for each in halves]
    assert joined(parts, 0).values.tolist() == [0.5, 2] * 3
    assert joined(parts[:1] * 2, 0).values.dtype == ml_dtypes.float8_e4m3fn
    whole = [block_values("zero_point", np.array([1, 2], dtype), (2,)) for dtype in ("u1", "i2")]
    assert stacked(whole).values.dtype == np.int16


def test_without_dimensions():
    one = block_values("scale", 2.5, ())
    assert isinstance(one, BlockValues) and keywords({"scale": one}) == {"scale": np.array(2.5)}
    assert keywords({}) == {}
    check(stacked([one, block_values("scale", 3, ())]), np.array([2.5, 3]))
