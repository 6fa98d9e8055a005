"""Experts, and halves of them, go into packed stacks in any order of calls: the bytes are those of the whole."""

import random

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

SIZES = 5, 64, 128
STACKS = [
    ("marlin:weights(dtype=u4)", "gptq:qweight(dtype=u4)", torch.int32, (5, 8, 128)),
    ("marlin:weights(dtype=u4)", None, torch.uint8, SIZES),
    ("flashinfer:gate_up(dtype=bf16)", None, torch.bfloat16, (5, 256, 64)),
    ("{2,1,0:T(8,128)}", None, torch.float32, SIZES),
    ("{1,2,0:T(8,16)}", None, torch.uint8, SIZES),
]


class Stack:
    """A packed stack of experts, and the same as the checkpoint has it."""

    def __init__(self, layout, source, dtype, sizes):
        self.source, self.layout, self.codes = source, layout, layout.startswith("marlin") and source is None
        self.plain = self.random(sizes, dtype)
        self.packed = gl.torch.pack_(self.plain.clone(), layout, source=source)

    def random(self, sizes, dtype):
        if dtype.is_floating_point:
            return torch.randn(sizes).to(dtype)
        first, last = (0, 16) if self.codes else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        return torch.randint(first, last, sizes, dtype=dtype)

    def box(self, order):
        """An expert, some, or a half of one: as a key of the checkpoint's tensor, and of the array."""
        first, half = order.randrange(5), self.plain.shape[1] // 2
        key = [slice(first, min(first + order.choice((1, 1, 2)), 5)), slice(None), slice(None)]
        if order.random() < 0.5:
            begin = order.choice((0, half))
            key[1] = slice(begin, begin + half)
        array = list(key)
        if self.source and key[1] != slice(None):  # eight inputs in a word
            array[1] = slice(8 * key[1].start, 8 * key[1].stop)
        return tuple(key), tuple(array)

    def turn(self, order):
        """Write a box, or read one."""
        key, array = self.box(order)
        if order.random() < 0.3:
            assert torch.equal(gl.torch.read(self.packed, at=array), self.plain[key]), (self.layout, array)
            return
        part = self.random(self.plain[key].shape, self.plain.dtype)
        before = self.packed._version
        gl.torch.copy_(self.packed, part, at=array)
        self.plain[key] = part
        assert self.packed._version > before  # what autograd is told
        assert torch.equal(gl.torch.read(self.packed), self.plain), (self.layout, array)


@pytest.mark.parametrize("follows", [True, False])
def test_boxes_of_stacks_in_any_order(follows, plans_anew):
    torch.manual_seed(1)
    order, stacks = random.Random(1), [Stack(*stack) for stack in STACKS]
    with torch.set_grad_enabled(follows):
        for _ in range(120):
            order.choice(stacks).turn(order)
            assert torch.is_grad_enabled() is follows
    for stack in stacks:
        made = gl.torch.empty_packed(gl.torch.layout_of(stack.packed), like=stack.plain, source=stack.source)
        gl.torch.copy_(made, stack.plain)
        assert torch.equal(made.view(torch.uint8).view(-1), stack.packed.view(torch.uint8).view(-1))
