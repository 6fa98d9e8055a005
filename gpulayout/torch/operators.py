"""The operators of PyTorch: `gpulayout::relayout` and `gpulayout::transpose`.

    gpulayout::relayout(Tensor given, str source, str target, SymInt[] sizes) -> Tensor
    gpulayout::transpose(Tensor given, SymInt[] split, int[] order, SymInt[] sizes) -> Tensor

torch knows the sizes of their results without running them, names them in its profiler, and follows their gradients.

The first moves a 1-D buffer of `source` to one of `target`.  An array of `source.dimensions`, with any strides, stands
for its buffer where `source` is row-major.  The result has the given sizes.  If they are those of a longer buffer, the
rest is zeros.  So pack, unpack and relayout are one operator, and so are their adjoints.  The second operator splits
axes, permutes them, and joins them.  All results are new and contiguous.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from gpulayout.api.running import run
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape

library = torch.library.Library("gpulayout", "DEF")  # it defines the operators as long as it lives
library.define("relayout(Tensor given, str source, str target, SymInt[] sizes) -> Tensor")
library.define("transpose(Tensor given, SymInt[] split, int[] order, SymInt[] sizes) -> Tensor")


@functools.lru_cache(maxsize=1024)
def is_row_major(shape: Shape) -> bool:
    """True for a shape whose buffer is the logical array in C order."""
    return shape == Shape(shape.element_type, shape.dimensions)


def moved_buffer(given: Any, source: Shape, target: Shape, sizes: Sequence[int]) -> Any:
    """The result of `gpulayout::relayout` for a tensor in memory; autograd does not know of it."""
    given = given.detach()
    if given.shape == source.dimensions and is_row_major(source):
        found = run("pack", given, None, target, None)
    else:
        given = given.contiguous().view(-1)
        if sizes == target.dimensions and is_row_major(target):
            return run("unpack", given, source, None, None)
        found = run("relayout", given, source, target, None)
    if found.shape == sizes:
        return found
    length = math.prod(sizes)
    if length > target.buffer_length:
        longer = found.new_zeros(length)
        longer[: target.buffer_length] = found
        found = longer
    return torch.ops.aten._unsafe_view.default(
        found, sizes
    )  # a view would be one of a tensor that autograd has never seen


def moved_axes(given: Any, split: Sequence[int], order: Sequence[int], sizes: Sequence[int]) -> Any:
    """The result of `gpulayout::transpose` for a tensor in memory; autograd does not know of it."""
    given = given.detach()
    if given.shape != split:
        given = given.view(split)
    found = run("transpose", given, None, order, None)
    return found if found.shape == sizes else torch.ops.aten._unsafe_view.default(found, sizes)


def _relayout(given: Any, source: str, target: str, sizes: Sequence[int]) -> Any:
    return moved_buffer(given, as_shape(source), as_shape(target), tuple(sizes))


def _transpose(given: Any, split: Sequence[int], order: Sequence[int], sizes: Sequence[int]) -> Any:
    return moved_axes(given, tuple(split), tuple(order), tuple(sizes))


def _new(given: Any, *arguments: Any) -> Any:
    """A result without its elements, for tensors without memory."""
    return given.new_empty(arguments[-1])


for _name, _function in (("relayout", _relayout), ("transpose", _transpose)):
    library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gpulayout::{_name}", _new, lib=library)
