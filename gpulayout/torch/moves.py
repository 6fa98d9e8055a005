"""Moves of tensors as values, and as PyTorch's operators `gpulayout::relayout` and `gpulayout::transpose`.

    gpulayout::relayout(Tensor given, str source, str target, SymInt[] sizes) -> Tensor
    gpulayout::transpose(Tensor given, SymInt[] split, int[] order, SymInt[] sizes) -> Tensor

torch knows the sizes of their results without running them, names them in its profiler, and follows their gradients.

The first moves a 1-D buffer of `source` to one of `target`.  An array of `source.dimensions`, with any strides, stands
for its buffer where `source` is row-major.  The result has the given sizes.  If they are those of a longer buffer, the
rest is zeros.  So pack, unpack and relayout are one operator, and so are their adjoints.  The second operator splits
axes, permutes them, and joins them.  All results are new and contiguous.

Moves are linear but for the padding that they fill, and each knows its adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpulayout.layout.frozen import cached_property
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.requests.reading import Call
from gpulayout.running.running import run
from gpulayout.traced.traced import traced

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class TensorRelayout:
    """A call of `gpulayout::relayout`.

    sizes    of the tensor that it takes
    result   sizes of its result
    """

    source: Shape
    target: Shape
    sizes: Sizes
    result: Sizes

    @cached_property
    def linear(self) -> TensorRelayout:
        """The same with zeros as padding: what becomes of tangents."""
        return TensorRelayout(self.source, _with_zeros(self.target), self.sizes, self.result)

    @cached_property
    def adjoint(self) -> TensorRelayout:
        """What becomes of gradients.  Nothing reads those on padding; elements that nothing read have none."""
        return TensorRelayout(self.target, _with_zeros(self.source), self.result, self.sizes)

    @cached_property
    def _texts(self) -> tuple[str, str]:
        return str(self.source), str(self.target)

    @cached_property
    def _call(self) -> tuple[str, Shape | None, Shape | None]:
        """The verb, the source and the target of the call that this is: to find it takes as long as a small move."""
        if self.sizes == self.source.dimensions and self.source == row_major(self.source):
            return "pack", None, self.target
        if self.result == self.target.dimensions and self.target == row_major(self.target):
            return "unpack", self.source, None
        return "relayout", self.source, self.target

    @cached_property
    def _is_exact(self) -> bool:
        """False for a buffer longer than its shape: a call that was not strict took it."""
        return math.prod(self.sizes) <= self.source.buffer_length

    def run(self, tensor: Any) -> Any:
        """The result for a tensor in memory; autograd does not know of it."""
        verb, source, target = self._call
        tensor = tensor.detach()
        if verb != "pack":
            tensor = tensor.contiguous() if len(self.sizes) == 1 else tensor.contiguous().view(-1)
        result = run(verb, tensor, source, target, None, strict=self._is_exact)
        return result if result.shape == self.result else self._with_sizes(result)

    def _with_sizes(self, result: Any) -> Any:
        length = math.prod(self.result)
        if length > self.target.buffer_length:
            longer = result.new_zeros(length)
            longer[: self.target.buffer_length] = result
            result = longer
        return _as_new(result, self.result)

    def by_operator(self, tensor: Any) -> Any:
        """The result, by the operator."""
        return torch.ops.gpulayout.relayout.default(tensor, *self._texts, self.result)

    def lowered(self, tensor: Any) -> Any:
        """The result, by torch's own operations."""
        if tensor.shape != self.source.dimensions:
            tensor = tensor.reshape(-1)
        result = traced(Call("relayout", self.source, self.target, strict=False), tensor, None)
        length = math.prod(self.result)
        if result.numel() < length:
            result = torch.nn.functional.pad(result.reshape(-1), (0, length - result.numel()))
        return result.reshape(self.result)


@dataclass(frozen=True)
class TensorTranspose:
    """A call of `gpulayout::transpose`.

    sizes    of the tensor that it takes
    split    the same with the parts of axes that the move tears apart
    order    of these parts in the result
    result   sizes of the result
    """

    sizes: Sizes
    split: Sizes
    order: Sizes
    result: Sizes

    @property
    def linear(self) -> TensorTranspose:
        """The same: what becomes of tangents."""
        return self

    @cached_property
    def adjoint(self) -> TensorTranspose:
        """The way back, for gradients."""
        split = tuple([self.split[part] for part in self.order])
        order = tuple(sorted(range(len(split)), key=self.order.__getitem__))
        return TensorTranspose(self.result, split, order, self.sizes)

    def run(self, tensor: Any) -> Any:
        """The result for a tensor in memory; autograd does not know of it."""
        tensor = tensor.detach()
        if tensor.shape != self.split:
            tensor = tensor.view(self.split)
        result = run("transpose", tensor, None, self.order, None)
        return result if result.shape == self.result else _as_new(result, self.result)

    def by_operator(self, tensor: Any) -> Any:
        """The result, by the operator."""
        return torch.ops.gpulayout.transpose.default(tensor, self.split, self.order, self.result)

    def lowered(self, tensor: Any) -> Any:
        """The result, by torch's own operations."""
        result = tensor.reshape(self.split).permute(self.order).reshape(self.result)
        return result.clone(memory_format=torch.contiguous_format)


TensorMove = TensorRelayout | TensorTranspose


def _with_zeros(shape: Shape) -> Shape:
    """The same shape with zeros as padding."""
    return shape.with_layout(shape.layout.replace(padding_value=None))


def row_major(shape: Shape) -> Shape:
    """The same array in C order: its buffer is the array itself."""
    return Shape(shape.element_type, shape.dimensions)


def _as_new(result: Any, sizes: Sizes) -> Any:
    """The tensor with other sizes.  A view would be one of a tensor that autograd has never seen."""
    return torch.ops.aten._unsafe_view.default(result, sizes)


# ---- the operators ---------------------------------------------------------------------------------------------------

library = torch.library.Library("gpulayout", "DEF")  # it defines the operators as long as it lives
library.define("relayout(Tensor given, str source, str target, SymInt[] sizes) -> Tensor")
library.define("transpose(Tensor given, SymInt[] split, int[] order, SymInt[] sizes) -> Tensor")


def called_relayout(tensor: Any, source: str, target: str, sizes: Sequence[int]) -> TensorRelayout:
    """The move of a call of the operator."""
    return TensorRelayout(as_shape(source), as_shape(target), tuple(tensor.shape), tuple(sizes))


def called_transpose(tensor: Any, split: Sequence[int], order: Sequence[int], sizes: Sequence[int]) -> TensorTranspose:
    """The move of a call of the operator."""
    return TensorTranspose(tuple(tensor.shape), tuple(split), tuple(order), tuple(sizes))


def _new(tensor: Any, *arguments: Any) -> Any:
    """A result without its elements, for tensors without memory."""
    return tensor.new_empty(arguments[-1])


library.impl("relayout", lambda *call: called_relayout(*call).run(call[0]), "CompositeExplicitAutograd")
library.impl("transpose", lambda *call: called_transpose(*call).run(call[0]), "CompositeExplicitAutograd")
for _name in ("relayout", "transpose"):
    torch.library.register_fake(f"gpulayout::{_name}", _new, lib=library)
