"""Moves of tensors as values.  They are linear but for the padding that they fill, and each knows its adjoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from gpulayout.api.call import Call
from gpulayout.api.running import run
from gpulayout.api.traced import traced
from gpulayout.layout.frozen import cached_property
from gpulayout.layout.shape import Shape
from gpulayout.torch.operators import is_row_major, moved_axes, moved_buffer

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
        """The verb, the source and the target of the call that this is; no verb for the way to a longer buffer.

        To find it takes as long as to move a small buffer.
        """
        if self.sizes == self.source.dimensions and is_row_major(self.source):
            return "pack" if self.result == (self.target.buffer_length,) else "", None, self.target
        if self.result == self.target.dimensions and is_row_major(self.target):
            return "unpack", self.source, None
        return "relayout" if self.result == (self.target.buffer_length,) else "", self.source, self.target

    def run(self, tensor: Any) -> Any:
        """The result for a tensor in memory."""
        verb, source, target = self._call
        if not verb:
            return moved_buffer(tensor, self.source, self.target, self.result)
        tensor = tensor.detach()
        return run(verb, tensor if verb == "pack" else tensor.contiguous(), source, target, None)

    def by_operator(self, tensor: Any) -> Any:
        """The result, by the operator."""
        return torch.ops.gpulayout.relayout.default(tensor, *self._texts, self.result)

    def lowered(self, tensor: Any) -> Any:
        """The result, by torch's own operations."""
        if tensor.shape != self.source.dimensions:
            tensor = tensor.reshape(-1)
        found = traced(Call("relayout", self.source, self.target), tensor, None)
        length = math.prod(self.result)
        if found.numel() < length:
            found = torch.nn.functional.pad(found.reshape(-1), (0, length - found.numel()))
        return found.reshape(self.result)


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
        """The result for a tensor in memory."""
        return moved_axes(tensor, self.split, self.order, self.result)

    def by_operator(self, tensor: Any) -> Any:
        """The result, by the operator."""
        return torch.ops.gpulayout.transpose.default(tensor, self.split, self.order, self.result)

    def lowered(self, tensor: Any) -> Any:
        """The result, by torch's own operations."""
        found = tensor.reshape(self.split).permute(self.order).reshape(self.result)
        return found.clone(memory_format=torch.contiguous_format)


TensorMove = TensorRelayout | TensorTranspose


def _with_zeros(shape: Shape) -> Shape:
    """The same shape with zeros as padding."""
    return shape.with_layout(shape.layout.replace(padding_value=None))
