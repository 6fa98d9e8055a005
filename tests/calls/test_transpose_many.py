"""transpose_many: what single transposes write, into slices of any array, in few launches; after an error, nothing."""

import re

import numpy as np
import pytest

import gpulayout as gl
from tests.calls.test_many import is_shim, launches
from tests.support.executors import guarded, guards_intact

PATTERN = "h w c -> c h w"
TYPES = ("uint8", "uint16", "float32", "float64", "complex128")


def images_of(rng, count, dtype, channels=3):
    sizes = rng.integers(1, 24, (count, 2)).tolist()
    return [rng.integers(0, 255, (height, width, channels)).astype(dtype) for height, width in sizes]


def places_of(images, channels=3):
    """One batch for images of different sizes: how large it is, and the slice of each."""
    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    cuts = [(n, slice(None), slice(image.shape[0]), slice(image.shape[1])) for n, image in enumerate(images)]
    return (len(images), channels, height, width), cuts


@pytest.mark.parametrize("seed", range(6))
def test_images_of_different_sizes_into_one_padded_batch(executor, seed):
    rng = np.random.default_rng(seed)
    if is_shim(executor):
        executor.backend.runtime.order, executor.backend.runtime.seed = seed % 3, seed + 1
    dtype = TYPES[seed % len(TYPES)]
    images = images_of(rng, int(rng.integers(1, 12)), dtype)
    sizes, cuts = places_of(images)
    phase = int(rng.integers(3)) * np.dtype(dtype).itemsize
    flat, memory = guarded(executor, np.dtype(dtype), int(np.prod(sizes)), phase)
    batch = flat.reshape(sizes)
    batch[...] = executor.array(np.full(sizes, 99, dtype))
    slices = [batch[cut] for cut in cuts]
    found = gl.transpose_many([(executor.array(image), PATTERN) for image in images], out=slices)
    assert all(result is part for result, part in zip(found, slices))
    expected = np.full(sizes, 99, dtype)
    for image, cut in zip(images, cuts):
        expected[cut] = image.transpose(2, 0, 1)
    assert executor.host(batch).tobytes() == expected.tobytes()
    assert guards_intact(executor, memory, phase, batch.nbytes)


AXES = {
    "a pattern": (PATTERN,),
    "numbers": ((2, 0, 1),),
    "a list": ([-1, 0, 1],),
    "reversed": (None,),
    "split": ("(h p) w c -> h (p c) w", {"p": 2}),
    "joined": ("h w c -> c (h w)",),
    "no sizes": (PATTERN, {}),
}


@pytest.mark.parametrize("options", ({}, {"dtype": "f32", "mean": [1, 2, 3], "std": 2}))
def test_every_form_of_axes_is_that_of_a_transpose(executor, options):
    values = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    arrays = [executor.array(values), executor.array(np.asfortranarray(values))]
    jobs = [(array, *axes) for axes in AXES.values() for array in arrays]
    outs = [None] * len(jobs)
    outs[3] = executor.array(np.zeros((4, 12, 3), np.float32 if options else np.uint8)).transpose(2, 0, 1)[..., ::2]
    for given in (jobs, map(list, jobs)):
        found = gl.transpose_many(given, out=outs, **options)
        for number, ((array, axes, *sizes), result) in enumerate(zip(jobs, found)):
            expected = gl.transpose(array, axes, **options, **(sizes or [{}])[0])
            assert type(result) is type(expected) and result.dtype == expected.dtype
            assert executor.host(result).tolist() == executor.host(expected).tolist()
            assert (result is outs[3]) if number == 3 else executor.host(result).flags.c_contiguous


def test_small_ones_share_launches(executor):
    images = images_of(np.random.default_rng(1), 60, "uint8")
    sizes, cuts = places_of(images)
    batch = executor.array(np.zeros(sizes, np.uint8))
    jobs = [(executor.array(image), PATTERN) for image in images]
    with launches(executor) as found:
        gl.transpose_many(jobs, out=[batch[cut] for cut in cuts])
    for image, cut in zip(images, cuts):
        assert executor.host(batch)[cut].tolist() == image.transpose(2, 0, 1).tolist()
    if is_shim(executor):
        assert {kernel for kernel, _ in found} == {"gpl_many"} and len(found) <= 3


# ---- memory that outputs share ---------------------------------------------------------------------------------------


def halves(canvas):
    return [canvas[:, :10], canvas[:, 10:]]


DISJOINT = {
    "left and right": halves,
    "even and odd": lambda canvas: [canvas[:, ::2], canvas[:, 1::2]],
    "one above the other": lambda canvas: [canvas.reshape(12, 10)[:6], canvas.reshape(12, 10)[6:]],
    "rows in turn": lambda canvas: [canvas.reshape(12, 10)[::2], canvas.reshape(12, 10)[1::2]],
    "one of them backwards": lambda canvas: [canvas[::-1, 9::-1], canvas[:, 10:]],
}


@pytest.mark.parametrize("name", DISJOINT)
def test_slices_that_lie_between_each_other_are_outputs(executor, name):
    array = np.arange(60, dtype=np.int16).reshape(10, 6)
    canvas, expected = executor.array(np.zeros((6, 20), np.int16)), np.zeros((6, 20), np.int16)
    gl.transpose_many([(executor.array(array), None), (executor.array(-array), None)], out=DISJOINT[name](canvas))
    first, second = DISJOINT[name](expected)
    first[...], second[...] = array.T, -array.T
    assert executor.host(canvas).tolist() == expected.tolist()


def test_so_may_one_half_be_read_and_the_other_written(executor):
    canvas = executor.array(np.arange(64, dtype=np.int16).reshape(8, 8))
    left, right = canvas[:, :4], canvas[:, 4:]
    values = executor.host(canvas).copy()
    gl.transpose_many([(left[:4], None), (left[4:], None)], out=[right[:4], right[4:]])
    values[:4, 4:], values[4:, 4:] = values[:4, :4].T, values[4:, :4].T
    assert executor.host(canvas).tolist() == values.tolist()


def test_a_column_in_two_outputs_or_in_an_input_is_refused(executor):
    canvas = executor.array(np.full((6, 20), 7, np.int16))
    job = (executor.array(np.zeros((10, 6), np.int16)), None)
    message = "^out of job 0 and out of job 1 overlap in memory: out of job 1 must be separate memory$"
    with pytest.raises(BufferError, match=message):
        gl.transpose_many([job, job], out=[canvas[:, :10], canvas[:, 9:19]])
    message = "^array of job 1 and out of job 0 overlap in memory: out of job 0 must be separate memory$"
    with pytest.raises(BufferError, match=message):
        gl.transpose_many([job, (canvas[:, 9:19], None)], out=[canvas[:, :10], None])
    message = "^job 1: array and out overlap in memory: out must be separate memory, because only "
    with pytest.raises(BufferError, match=message):
        gl.transpose_many([job, (canvas[:, :6], None)], out=[None, canvas[:, :6]])
    assert executor.host(canvas).tolist() == [[7] * 20] * 6


# ---- errors ----------------------------------------------------------------------------------------------------------

BAD = {
    "axes": lambda ex: ((ex.array(np.zeros((2, 3), np.uint8)), (0, 0)), None),
    "pattern": lambda ex: ((ex.array(np.zeros((2, 3), np.uint8)), "h w -> w"), None),
    "sizes": lambda ex: ((ex.array(np.zeros((2, 3), np.uint8)), "(h p) w -> w h p", {"p": 3}), None),
    "array": lambda ex: (("text", None), None),
    "elements": lambda ex: ((np.zeros((2, 3), object), None), None),
    "out's shape": lambda ex: ((ex.array(np.zeros((2, 3), np.uint8)), None), ex.array(np.zeros((2, 3), np.uint8))),
    "out's dtype": lambda ex: ((ex.array(np.zeros((2, 3), np.uint8)), None), ex.array(np.zeros((3, 2), np.int8))),
    "an Array": lambda ex: ((gl.Array(ex.array(np.zeros(6, np.uint8)), "u8[2,3]"), None), None),
    "out in itself": lambda ex: (
        (np.zeros((2, 3), np.uint8), None),
        np.lib.stride_tricks.as_strided(np.zeros(9, np.uint8), (3, 2), (1, 1)),
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", (0, 2))
def test_an_error_is_that_of_transpose_with_the_jobs_number_and_nothing_is_written(executor, name, place):
    (array, axes, *sizes), bad_out = BAD[name](executor)
    with pytest.raises(Exception) as alone:
        gl.transpose(array, axes, out=bad_out, **(sizes or [{}])[0])
    canvas = executor.array(np.full((3, 10, 6), 7, np.uint8))
    jobs, outs = [(executor.array(np.zeros((6, 10), np.uint8)), None) for _ in canvas], [*canvas]
    jobs[place], outs[place] = (array, axes, *sizes), bad_out
    with launches(executor) as found, pytest.raises(type(alone.value)) as raised:
        gl.transpose_many(jobs, out=outs)
    assert type(raised.value) is type(alone.value) and str(raised.value) == f"job {place}: {alone.value}"
    assert not found and executor.host(canvas).tolist() == [[[7] * 6] * 10] * 3


GOOD = (np.zeros((2, 3), np.uint8), None)
FORM = "(array, axes) or (array, axes, sizes)"


@pytest.mark.parametrize(
    "jobs, options, kind, message",
    [
        (5, {}, TypeError, f"jobs is an int: it must be a list of {FORM}"),
        ([GOOD, GOOD[0]], {}, TypeError, f"job 1 is an ndarray: it must be {FORM}"),
        ([GOOD, GOOD[:1]], {}, TypeError, f"job 1 has 1 part: it must be {FORM}"),
        ([(GOOD[0], 1, 0, 2)], {}, TypeError, f"job 0 has 4 parts: it must be {FORM}"),
        (
            [GOOD, (GOOD[0], 1, 0)],
            {},
            TypeError,
            "job 1: sizes is 0: it must be a dict of the sizes of axes by name, such as {'h': 32}",
        ),
        (
            [(GOOD[0], "(h p) w -> w h p")],
            {"p": 2},
            TypeError,
            "job 0: 'p' is no keyword: sizes belong to a job, as in (array, axes, {'h': 32})",
        ),
        ([GOOD], {"dtyp": "f32"}, TypeError, "job 0: 'dtyp' is not a keyword of this call: did you mean dtype?"),
        (
            [(GOOD[0], "(scale p) w -> w scale p", {"p": 2})],
            {"scale": 2},
            gl.LayoutError,
            "job 0: axes '(scale p) w -> w scale p' has an axis called scale, and scale= is arithmetic: write the size "
            "of the axis in the pattern, as in (scale=2 n), or call it something else",
        ),
        ([GOOD], {"out": []}, ValueError, "out has 0 arrays for 1 job: it needs one or None per job"),
        (
            [GOOD],
            {"out": GOOD[0]},
            TypeError,
            "out is an ndarray: it must be a list with one array or None per job; list(out) is one",
        ),
    ],
)
def test_malformed_calls_are_refused(jobs, options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        gl.transpose_many(jobs, **options)


def test_an_empty_list():
    assert gl.transpose_many([]) == gl.transpose_many([], out=[]) == gl.transpose_many(iter(())) == []


# ---- other libraries -------------------------------------------------------------------------------------------------


def two(one, other):
    return gl.transpose_many([(one, PATTERN), (other, "(h p) w -> w h p", {"p": 2})], dtype="f32", scale=2)


def values():
    return np.arange(24, dtype=np.float32).reshape(2, 4, 3), np.arange(12, dtype=np.float32).reshape(4, 3)


def test_tensors_also_with_gradients():
    torch = pytest.importorskip("torch")
    expected = [each.tolist() for each in two(*values())]
    tensors = [torch.from_numpy(each) for each in values()]
    batch = torch.zeros(2, 3, 4, 5)
    gl.transpose_many([(tensors[0], PATTERN), (tensors[0], PATTERN)], out=[batch[0, :, :2, :4], batch[1, :, 2:, 1:]])
    plain = tensors[0].permute(2, 0, 1)
    assert batch[0, :, :2, :4].equal(plain) and batch[1, :, 2:, 1:].equal(plain) and batch.sum() == 2 * plain.sum()
    assert [each.tolist() for each in two(*tensors)] == expected
    tensors[1].requires_grad_()
    first, second = two(*tensors)
    assert not first.requires_grad and second.tolist() == expected[1]
    (second * torch.arange(12.0).reshape(3, 2, 2)).sum().backward()
    weights = np.arange(12.0).reshape(3, 2, 2).transpose(1, 2, 0).reshape(4, 3)
    assert tensors[1].grad.tolist() == (2 * weights).tolist()
    with pytest.raises(BufferError, match=r"^job 1: out is given, and array \(Tensor\) requires a gradient"):
        gl.transpose_many([(tensors[0], None), (tensors[1], None)], out=[None, torch.zeros(3, 4)])


def test_inside_torch_compile_they_are_part_of_the_graph():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    tensors = [torch.from_numpy(each) for each in values()]
    compiled = torch.compile(two, backend="eager", fullgraph=True)
    assert [each.tolist() for each in compiled(*tensors)] == [each.tolist() for each in two(*values())]
    wrong = torch.compile(
        lambda x: gl.transpose_many([(x, None), (x, "scale w -> w scale")], scale=2.0), backend="eager"
    )
    with pytest.raises(gl.LayoutError, match="^job 1: axes 'scale w -> w scale' has an axis called scale, and scale= "):
        wrong(tensors[1])
    torch._dynamo.reset()


def test_arrays_of_jax_in_memory_and_traced():
    jax = pytest.importorskip("jax", exc_type=ImportError)
    expected = [each.tolist() for each in two(*values())]
    for run in (two, jax.jit(two)):
        found = run(*map(jax.numpy.asarray, values()))
        assert all(isinstance(each, jax.Array) for each in found) and [each.tolist() for each in found] == expected
