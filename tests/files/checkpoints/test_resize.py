"""Axes that get zeros or lose their last indices, and shards that differ from part to part, beside NumPy."""

import concurrent.futures

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from tests.support.model_cases import file_of, read_result
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS


def relayout(folder, model, rules, notes=None, **options):
    """The tensors of the result: shape and bytes by name."""
    metadata = {f"gpulayout:{name}": text for name, text in (notes or {}).items()}
    (folder / "in.safetensors").write_bytes(file_of(model, metadata))
    gl.relayout_file(folder / "in.safetensors", folder / "out.safetensors", tensors=rules, overwrite=True, **options)
    return {name: (tuple(shape), data) for name, (_, shape, data) in read_result(folder / "out.safetensors")[0].items()}


def resized(array, axis, size):
    """The array with zeros behind, or without the last indices."""
    more = [(0, 0)] * array.ndim
    more[axis] = (0, max(size - array.shape[axis], 0))
    return np.pad(array, more).take(np.arange(size), axis)


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    axis, parts = draw(st.integers(0, len(shape) - 1)), draw(st.integers(1, 4))
    size = parts * draw(st.integers(0, 4))
    dtype = draw(st.sampled_from([np.uint8, np.float16, np.float32, np.float64]))
    return tuple(shape), axis, size, draw(st.integers(0, parts - 1)), parts, dtype, draw(st.booleans())


@given(case=cases())
def test_zeros_come_behind_or_the_last_go_and_then_it_is_cut(case, tmp_path_factory):
    shape, axis, size, part, parts, dtype, turned = case
    array = np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)
    names = "abc"[: len(shape)]
    rule = f"resize={shape[axis]}->{size}; shard={part}/{parts} along={axis}"
    right = np.split(resized(array, axis, size), parts, axis)[part]
    if turned:
        rule += f"; {' '.join(names)} -> {' '.join(names[::-1])}"
        right = right.T
    result = relayout(tmp_path_factory.mktemp("resize"), {"x": array, "y": array}, {"x": rule})
    assert result == {"x": (right.shape, right.tobytes()), "y": (shape, array.tobytes())}


def test_zeros_come_behind_all_inputs_and_get_the_new_type(tmp_path):
    array = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    for number in range(2):
        (tmp_path / f"{number}.safetensors").write_bytes(file_of({"x": array + 10 * number}, {}))
    files = [tmp_path / f"{number}.safetensors" for number in range(2)]
    gl.relayout_file(files, tmp_path / "out.safetensors", tensors={"x": "resize=6->8; along=0; dtype=f16"})
    both = np.concatenate([array, array + 10, np.zeros((2, 2), np.float32)])
    assert read_result(tmp_path / "out.safetensors")[0]["x"][2] == both.astype(np.float16).tobytes()


@pytest.mark.parametrize("memory", ["96K", None])
def test_zeros_that_are_larger_than_a_block(memory, tmp_path):
    array = np.arange(1, 1001, dtype=np.float32).reshape(1000, 1)
    rules = {"x": "resize=1000->100000; along=0; a b -> b a"}
    result = relayout(tmp_path, {"x": array}, rules, max_bytes=memory)["x"]
    assert result == ((1, 100000), resized(array, 0, 100000).tobytes())


def test_threads_that_ask_for_zeros_at_once(tmp_path):
    def one(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        array = np.full((3, 5), number, np.float64)
        return (
            relayout(folder, {"x": array}, {"x": f"resize=3->{1000 * number}; along=0"})["x"][1]
            == resized(array, 0, 1000 * number).tobytes()
        )

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(one, range(1, 17)))


@pytest.mark.parametrize(
    "rule, problem",
    [
        ("resize=4->8; along=0", "resize=4->8, but tensor 'x' of shape .* has 3 along axis 0"),
        ("resize=3->8", "resize is for a tensor by itself, along an axis"),
        ("resize=3->8; along=0; stack=y", "resize is for a tensor by itself"),
        ("resize=3->8; along=0; join=x,y; name=z", "resize is for a tensor by itself"),
        ("resize=3->8; along=0; split=y,z", "resize is for a tensor by itself"),
        ("resize=8; along=0", "resize '8' is not the size that there is and the new one, such as 100->128"),
        ("resize=3->8; along=2", "along=2, but tensor 'x' .* has axes 0 to 1"),
        ("shard=0/3,1/3; along=0", "shard has 2 parts, and join has 0 names"),
        ("join=x,y; shard=0/3,0/3,0/3; along=0; name=z", "shard has 3 parts, and join has 2 names"),
        ("shard=0/3 along=0,1/3; along=0", "says along twice"),
        ("shard=0/3,; along=0", "shard '' is not a part"),
        ("shift=1; resize=3->8; along=0", "tensor 'x' .* has shift, so nothing can come behind it along axis 0"),
        ("scale=s; resize=3->8; along=0", "tensor 'x' .* has scale, so nothing can come behind it along axis 0"),
    ],
)
def test_what_does_not_fit_is_refused(rule, problem, tmp_path):
    array = np.ones((3, 2), np.float32)
    with pytest.raises(gl.LayoutError, match=problem):
        relayout(tmp_path, {"x": array, "y": array, "s": array[:, :1]}, {"x": rule, **({} if "y" in rule else {})})
    assert not (tmp_path / "out.safetensors").exists()


def test_zeros_behind_bytes_of_another_layout_are_refused(tmp_path):
    model, notes = {"x": np.zeros(8 * 128 * 4, np.uint8)}, {"x": "f32[5,100]{1,0:T(8,128)}"}
    with pytest.raises(gl.LayoutError, match=r"stored as f32\[5,100\].*, (so nothing can come behind|which can be)"):
        relayout(tmp_path, model, {"x": "resize=5->8; along=0"}, notes)


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4), seed=st.integers(0, 2**16), interleave=st.booleans())
def test_each_part_of_a_join_may_have_a_shard_of_its_own(sizes, seed, interleave, tmp_path_factory):
    rng = np.random.default_rng(seed)
    parts = [int(rng.integers(1, 5)) for _ in sizes]
    taken = [int(rng.integers(0, count)) for count in parts]
    if interleave:  # all must be as long
        sizes = [sizes[0]] * len(sizes)
    arrays = [rng.integers(0, 255, (count * size, 3), np.uint8) for count, size in zip(parts, sizes)]
    names = [f"x{number}" for number in range(len(sizes))]
    shards = ",".join(f"{part}/{count}" for part, count in zip(taken, parts))
    rule = f"join={','.join(names)}; along=0; shard={shards}; name=all{'; interleave' * interleave}"
    cut = [np.split(array, count)[part] for array, count, part in zip(arrays, parts, taken)]
    right = np.stack(cut, 1).reshape(-1, 3) if interleave else np.concatenate(cut)
    result = relayout(tmp_path_factory.mktemp("shards"), dict(zip(names, arrays)), {"x0": rule})
    assert result == {"all": (right.shape, right.tobytes())}
