"""Words of a checkpoint that are a view: the same bytes as of their contiguous copy, which nobody makes."""

import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import GPTQ, MARLIN, bytes_of, packed_bytes  # noqa: E402

CASES = 500 if ALL else 25
# The words' source, how many elements a word of int32 takes along each axis, the kernel's layout, and what sizes are
# multiples of.  A layout with braces gets the sizes between them.
SOURCES = {
    "gptq to marlin": (GPTQ, (8, 1), MARLIN, (32, 64)),
    "awq to marlin": ("awq:qweight", (1, 8), MARLIN, (32, 64)),
    "experts": (GPTQ, (1, 8, 1), MARLIN, (1, 32, 64)),
    "codes of 8 bits": ("gptq:qweight(dtype=u8)", (4, 1), "marlin:weights(dtype=u8)", (32, 64)),
    "zero points": ("gptq:qzeros(dtype=u4)", (1, 8), "u4[{}]{{0,1:E(4)}}", (1, 32)),
    "no kernel": (GPTQ, (8, 1), "u4[{}]{{0,1:E(4,big)}}", (32, 1)),
    "tiles that divide nothing": (GPTQ, (8, 1), "u4[{}]{{1,0:T(3,5)E(4)}}", (32, 1)),
}


def empty(source, layout, sizes):
    """New packed memory."""
    text = ",".join(map(str, sizes))
    return gl.torch.empty_packed(layout.format(text) if "[" in layout else f"{layout}[{text}]", source=source)


def random_sizes(rng, units):
    return tuple(rng.choice((1, 2, 3, 5)) * unit for unit in units)


def in_words(sizes, per):
    return tuple(size // each for size, each in zip(sizes, per, strict=True))


def random_view(rng, sizes):
    """A tensor of int32 with random strides, which may be 0, and not from the first byte of its storage."""
    order = list(range(len(sizes))) if rng.random() < 0.6 else rng.sample(range(len(sizes)), len(sizes))
    first, step, gap = ([rng.choice(each) for _ in order] for each in ((0, 0, 1, 3), (1, 1, 1, 2), (0, 0, 2)))
    widths = [first[axis] + sizes[dim] * step[axis] + gap[axis] for axis, dim in enumerate(order)]
    data = np.frombuffer(rng.randbytes(4 * int(np.prod(widths))), np.int32).reshape(widths).copy()
    view = torch.from_numpy(data)
    for axis, dim in enumerate(order):
        view = view.narrow(axis, first[axis], sizes[dim] * step[axis])
        view = view[(slice(None),) * axis + (slice(None, None, step[axis]),)]
    view = view.permute([order.index(dim) for dim in range(len(sizes))])
    if rng.random() < 0.2:
        view = view.narrow(dim := rng.randrange(len(sizes)), 0, min(sizes[dim], 1)).expand(sizes)
    assert view.shape == sizes
    return view


def elements(words, source, sizes):
    """The array that words hold."""
    shape = gl.parse_shape(f"{source}[{','.join(map(str, sizes))}]")
    return gl.unpack(np.ascontiguousarray(words.numpy()).reshape(-1).view(shape.buffer_dtype), shape)


@pytest.mark.parametrize("name", SOURCES)
def test_views_are_copied_as_their_contiguous_copy(name):
    source, per, layout, units = SOURCES[name]
    rng = random.Random(name)
    for _ in range(CASES):
        sizes = random_sizes(rng, units)
        view = random_view(rng, in_words(sizes, per))
        tensor = empty(source, layout, sizes)
        assert gl.torch.copy_(tensor, view) is tensor
        shape = gl.torch.layout_of(tensor)
        assert bytes_of(tensor) == packed_bytes(elements(view, source, sizes), shape), (sizes, view.stride())
        assert bytes_of(tensor) == bytes_of(gl.torch.copy_(empty(source, layout, sizes), view.contiguous()))
        assert gl.torch.read(tensor).equal(view)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SOURCES)
def test_views_are_copied_into_boxes(name):
    """Boxes begin where words do, or anywhere: then elements share bytes with those that stay."""
    source, per, layout, units = SOURCES[name]
    rng = random.Random(f"boxes of {name}")
    for _ in range(CASES):
        part, first = random_sizes(rng, units), [rng.choice((0, 1, 2, 3, unit)) for unit in units]
        box = tuple(slice(begin, begin + size) for begin, size in zip(first, part))
        whole = tuple((-(-each.stop // unit) + rng.choice((0, 1))) * unit for each, unit in zip(box, units))
        tensor, before = empty(source, layout, whole), random_view(rng, in_words(whole, per))
        gl.torch.copy_(tensor, before)
        values, view = elements(before, source, whole), random_view(rng, in_words(part, per))
        gl.torch.copy_(tensor, view, at=box)
        values[box] = elements(view, source, part)
        assert bytes_of(tensor) == packed_bytes(values, gl.torch.layout_of(tensor)), (whole, box, view.stride())


def test_a_rank_takes_its_part_of_a_loaded_tensor():
    """As an engine's loader cuts it: experts, inputs and outputs."""
    loaded = torch.randint(-(2**31), 2**31, (3, 16, 512), dtype=torch.int32)
    for dim, sizes in ((0, (1, 128, 512)), (1, (3, 64, 512)), (2, (3, 128, 64))):
        size = sizes[dim] // (8 if dim == 1 else 1)
        for first in range(0, loaded.shape[dim], size):
            part = loaded.narrow(dim, first, size)
            assert gl.torch.read(gl.torch.copy_(empty(GPTQ, MARLIN, sizes), part)).equal(part)


@pytest.mark.parametrize("sizes", [(64, 0), (0, 5), (0, 0)])
def test_views_without_words(sizes):
    tensor = empty(GPTQ, "u4[{}]{{0,1:E(4)}}", sizes)
    view = torch.zeros(40, 40, dtype=torch.int32)[3 : 3 + sizes[0] // 8, 2 : 2 + sizes[1]]
    assert gl.torch.copy_(tensor, view) is tensor and gl.torch.read(tensor).shape == view.shape


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bfloat16, torch.int64, torch.float64])
@pytest.mark.parametrize("source", ["u4[16,24]{0,1:T(4,8)E(4)}", "s16[16,24]{0,1}", "f32[16,24]{1,0:T(2,8)}"])
def test_words_of_every_width(dtype, source):
    """A word holds several elements, one, or a part of one."""
    shape, rng = gl.parse_shape(source), random.Random(f"{dtype} of {source}")
    data = torch.frombuffer(bytearray(rng.randbytes(2 * shape.nbytes)), dtype=torch.uint8).view(dtype)
    for view in (data[: len(data) // 2], data[::2], data.view(-1, 6)[:, 3:], data.view(2, -1).t()[:, 1]):
        tensor = gl.torch.empty_packed(
            shape.with_layout("{1,0:T(8,2)E(4)}" if shape.is_packed else "{1,0:T(8,2)}"), source=source
        )
        gl.torch.copy_(tensor, view)
        given = view.contiguous().view(-1).view(torch.uint8).numpy().view(shape.buffer_dtype)
        expected = gl.relayout(given, shape, gl.torch.layout_of(tensor))
        assert bytes_of(tensor) == expected.tobytes()


def taken(call):
    """Bytes that torch takes during a call."""
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=False) as profile:
        call()
    return sum(max(each.self_cpu_memory_usage, 0) for each in profile.function_events)


def test_nobody_copies_a_view():
    loaded = torch.randint(-(2**31), 2**31, (32, 2048), dtype=torch.int32)
    view, tensor = loaded.narrow(1, 512, 1024), empty(GPTQ, MARLIN, (256, 2048))
    assert taken(lambda: gl.torch.copy_(tensor, view, at=(..., slice(1024, 2048)))) == 0
    tensor = empty(GPTQ, MARLIN, (256, 1024))
    assert taken(lambda: gl.torch.copy_(tensor, view)) == 0
    assert taken(view.contiguous) == view.nbytes


def test_repeated_calls_take_the_strides_of_each():
    """Calls that have passed their checks run without them."""
    loaded = torch.randint(-(2**31), 2**31, (16, 256), dtype=torch.int32)
    tensor = empty(GPTQ, MARLIN, (64, 64))
    views = loaded[:8, :64], loaded[8:, 64:128], loaded[::2, :64], loaded[:8, ::4], loaded[:8, :64].contiguous()
    for view in (*views, *views[::-1], *views[:1] * 4, *views):
        assert gl.torch.read(gl.torch.copy_(tensor, view)).equal(view)


def test_words_that_require_a_gradient():
    values = torch.rand(16, 48, requires_grad=True)[:, 12:36]
    tensor = gl.torch.empty_packed("f32[16,24]{1,0:T(8,2)}", source="f32[16,24]{0,1}")
    for view in (values, values.detach().requires_grad_(), torch.nn.Parameter(values)):
        gl.torch.copy_(tensor, view)
        assert gl.torch.read(tensor).equal(view.detach().reshape(-1))
