"""Fused tensors in pieces, such as q, k and v in one: parts of any sizes, put together, cut and fused again."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.layout.errors import LayoutError
from tests.support.effort import examples
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS


def fused(parts, cuts, axis):
    """What a rank has: its cut of each part, one after the other."""
    return np.concatenate([np.split(part, count, axis)[index] for part, (index, count) in zip(parts, cuts)], axis)


def moved(folder, files, rule):
    """The tensor `x` of several files as a rule makes it."""
    from safetensors.numpy import load_file, save_file

    paths = [folder / f"rank{number}.safetensors" for number in range(len(files))]
    for path, file in zip(paths, files):
        save_file({"x": np.ascontiguousarray(file)}, path)
    out = folder / "out.safetensors"
    gl.relayout_file(paths, out, tensors={"x": rule}, overwrite=True)
    return load_file(out)["x"]


@settings(max_examples=examples(60))
@given(
    counts=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    inputs=st.integers(1, 4),
    ranks=st.integers(1, 6),
    rest=st.lists(st.integers(1, 3), max_size=2),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_each_rank_gets_its_cut_of_every_part(counts, inputs, ranks, rest, seed, data, tmp_path_factory):
    """Parts of q, k and v may be cut for other numbers of ranks, as heads that ranks share are."""
    axis = data.draw(st.integers(0, len(rest)))
    of_parts = [data.draw(st.integers(1, ranks)) for _ in counts] if data.draw(st.booleans()) else [ranks]
    cuts = [(data.draw(st.integers(0, each - 1)), each) for each in of_parts]
    sizes = [count * np.lcm.reduce([inputs, *of_parts]) for count in counts]
    random = np.random.default_rng(seed)
    parts = [random.integers(0, 255, (*rest[:axis], size, *rest[axis:]), np.uint8) for size in sizes]
    files = [fused(parts, [(number, inputs)] * len(parts), axis) for number in range(inputs)]
    shard = ",".join(f"{index}/{count}" for index, count in cuts)
    if len(cuts) == 1:
        cuts *= len(parts)
    rule = f"along={axis}; sizes={','.join(map(str, sizes))}; shard={shard}"
    found = moved(tmp_path_factory.mktemp("fused"), files, rule)
    assert np.array_equal(found, fused(parts, cuts, axis))


@pytest.mark.parametrize("inputs, ranks", [*itertools.product((1, 2, 4), (1, 2, 4))])
def test_a_pattern_and_arithmetic_are_for_what_is_fused_again(inputs, ranks, tmp_path):
    parts = [np.arange(size * 3, dtype=np.float32).reshape(size, 3) + size for size in (8, 4, 4)]
    files = [fused(parts, [(number, inputs)] * 3, 0) for number in range(inputs)]
    for rank in range(ranks):
        rule = f"o i -> i o; along=o; sizes=8,4,4; shard={rank}/{ranks}; scale=2; dtype=f64"
        assert np.array_equal(moved(tmp_path, files, rule), 2.0 * fused(parts, [(rank, ranks)] * 3, 0).T)


def test_pieces_become_one_fused_tensor_without_a_cut(tmp_path):
    parts = [np.arange(size, dtype=np.int16) + 100 * size for size in (8, 2)]
    files = [fused(parts, [(number, 2)] * 2, 0) for number in range(2)]
    assert np.array_equal(moved(tmp_path, files, "along=0; sizes=8,2"), np.concatenate(parts))


@pytest.mark.parametrize(
    "rule, problem",
    [
        ("sizes=4,4; shard=0/2", "sizes are those of the parts of one tensor along=AXIS"),
        ("sizes=4,4; along=0; join=x,y; name=z", "sizes are those of the parts of one tensor along=AXIS"),
        ("sizes=4,4; along=0; split=a,b; interleave", "sizes are those .* neither join nor interleave"),
        ("sizes=4,4; along=0; shard=0/2,0/2,0/2", "shard has 3 parts, and sizes has 2 numbers"),
        ("sizes=4,4; along=0; split=a,b; shard=0/2,0/2", "shard has 2 parts, and join has 0 names"),
        ("sizes=4,4; along=0; resize=8->16", "resize is for a tensor by itself"),
        ("sizes=4,8; along=0; shard=0/2", r"sizes 4,8 are 12, and tensor 'x' .* is one of 2, which have 8 along"),
        ("sizes=5,3; along=0; shard=0/2", "sizes 5,3 do not divide among 2 inputs"),
        ("sizes=4,4; along=0; shard=0/3", "shard=0/3 cuts tensor 'x' .* whose size 4 is not a multiple of 3"),
        ("sizes=4,-4; along=0", "are not numbers of elements"),
    ],
)
def test_parts_that_do_not_fit_are_refused(rule, problem, tmp_path):
    pieces = [np.zeros((4, 2), np.float32)] * 2
    with pytest.raises(LayoutError, match=problem):
        moved(tmp_path, pieces, rule)
    assert not (tmp_path / "out.safetensors").exists()


def test_pieces_of_different_sizes_cannot_be_fused(tmp_path):
    with pytest.raises(LayoutError, match=r"sizes 4,4 are 8, and tensor 'x' of shape \(5, 2\) .* which have 10"):
        moved(tmp_path, [np.zeros((size, 2), np.float32) for size in (5, 3)], "sizes=4,4; along=0")


def test_sizes_alone_say_nothing_of_one_file(tmp_path):
    with pytest.raises(LayoutError, match="here is one input: say what is meant, such as shard=0/2"):
        moved(tmp_path, [np.zeros((8, 2), np.float32)], "sizes=4,4; along=0")
