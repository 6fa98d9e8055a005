"""The numbers of a rule's parameters for a tensor, and what has to be clear about them before they are used.

Scales of another tensor that go to the wrong elements leave numbers that look right.  So a rule says what could be
taken in two ways: how many elements share a number, along which axis one-dimensional numbers lie, and whether a tensor
is multiplied or divided.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpulayout.catalogue.names import find
from gpulayout.files.checkpoints.block_values import BlockValues, block_values
from gpulayout.files.checkpoints.header import StoredTensor, tensor_text
from gpulayout.files.checkpoints.members import Member, Numbers, Read
from gpulayout.files.checkpoints.model import Found, Model, read_tensor
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.views import View
from gpulayout.layout.checks import counted, either, shown
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import Groups
from gpulayout.requests.arithmetic import PARAMETERS
from gpulayout.requests.parameters import block_sizes

NARROW = 8  # bits: floats of so many and fewer hold codes, whose scale is another tensor


def followed(rule: Rule) -> list[str]:
    """The parameters of a rule that follow cuts and joins, and those that are other tensors; all of them, or none."""
    if not rule.siblings and not rule.regroup.regroups and rule.regroup.along is None:
        return []
    return [key for key in PARAMETERS if key in rule.siblings or rule.options.get(key) is not None]


def numbers_of(
    key: str, model: Model, found: Found, rule: Rule, match: Any, view: View, groups: Groups, sizes: Mapping[str, int]
) -> Numbers:
    """The numbers of a parameter for the axes of a tensor: those of the rule, or of another tensor."""
    shard, tensor = found
    given, block, dimensions = rule.options.get(key), rule.options.get("block"), view.shape.dimensions
    names = {each: rule.siblings[each].name_for(tensor.name, model.tensors, match) for each in rule.siblings}
    is_piece = len(model.tensors[tensor.name]) > 1 and rule.regroup.along is not None
    number = model.input_of[id(shard)] if is_piece else None

    def numbers(read: Read) -> BlockValues:
        own = given
        if key in names:
            own = read(names[key], number)
            _check_one_axis(key, names[key], own.shape, tensor.name, dimensions)
            if block is not None and key == "scale":
                _check_fills_blocks(names[key], own.shape, tensor.name, dimensions, block)
            if block is None:
                _check_blocks(key, names[key], own.shape, tensor.name, dimensions)
                _check_alike(names, own.shape, {each: read(names[each], number).shape for each in names})
        values = block_values(key, own, dimensions, block)
        for dim in reversed(range(len(groups))):
            if len(groups[dim]) > 1:
                values = values.split(dim, [sizes[axis] for axis in groups[dim]])
        if is_piece and key in names and len(model.tensors[names[key]]) < model.inputs:
            _check_is_for_all_pieces(key, names[key], tensor, values, groups, rule)
        return values

    return numbers


def _check_one_axis(key: str, sibling: str, sizes: tuple[int, ...], name: str, dimensions: tuple[int, ...]) -> None:
    """`LayoutError` for numbers of one dimension that may be along the last axis of a tensor, or along another one."""
    axes = [str(axis) for axis, size in enumerate(dimensions) if sizes == (size,) and size > 1]
    if len(axes) > 1 and str(len(dimensions) - 1) in axes:
        raise LayoutError(
            f"{key} is {tensor_text(sibling)} of shape {shown(sizes)}, which may be along axis {either(axes)} of "
            f"{tensor_text(name)} of shape {shown(dimensions)}: give it a rule with a pattern, such as "
            "'n -> n 1; drop' or 'n -> 1 n; drop'"
        )


def _check_fills_blocks(
    sibling: str, sizes: tuple[int, ...], name: str, dimensions: tuple[int, ...], block: Any
) -> None:
    """`LayoutError` for scales that are too few for the blocks that a rule says: they would be for larger ones."""
    of_axes = (1,) * (len(dimensions) - len(sizes)) + sizes[max(len(sizes) - len(dimensions), 0) :]
    for axis, (own, size, each) in enumerate(zip(of_axes, dimensions, block_sizes(block, dimensions))):
        if own == 1 and size > each:
            raise LayoutError(
                f"scale is {tensor_text(sibling)} of shape {shown(sizes)}, for {tensor_text(name)} of shape "
                f"{shown(dimensions)}: along axis {axis} it has 1 number, where block={each} needs {-(-size // each)}; "
                "if that one is for all, leave out block, or give it for each axis"
            )


def _check_blocks(key: str, sibling: str, sizes: tuple[int, ...], name: str, dimensions: tuple[int, ...]) -> None:
    """`LayoutError` where it is not clear how many elements share a number.

    3 numbers for 300 rows may be for 100 rows each, or for 128, 128 and 44.  3 for 384 are for 128 each.
    """
    for size, own in zip(reversed(dimensions), reversed(sizes)):
        if own in (0, 1, size) or size % own or (size // own).bit_count() == 1:  # what does not divide is refused later
            continue
        raise LayoutError(
            f"{key} is {tensor_text(sibling)} of shape {shown(sizes)}, for {tensor_text(name)} of shape "
            f"{shown(dimensions)}: add block=, which says how many elements share a number, such as block=128"
        )


def _check_alike(names: Mapping[str, str], sizes: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`LayoutError` for siblings of one tensor whose shapes differ, unless one of them is a single number."""
    for key, other in shapes.items():
        if other != sizes and max(sizes, default=1) > 1 and max(other, default=1) > 1:
            those = " and ".join(f"{tensor_text(names[each])} of shape {shown(shapes[each])}" for each in shapes)
            raise LayoutError(
                f"{' and '.join(names)} are {those}: if their types are read rightly, add block=, which says how many "
                f"elements share a number, such as block=128; {tensor_text(names[key])} may need a rule with from="
            )


def _check_is_for_all_pieces(
    key: str, sibling: str, tensor: StoredTensor, values: BlockValues, groups: Groups, rule: Rule
) -> None:
    """`LayoutError` for numbers along the axis of a tensor in pieces that are not in pieces themselves."""
    axes, along = [axis for group in groups for axis in group], rule.regroup.along
    axis = axes.index(along) if isinstance(along, str) else axes.index(groups[along or 0][0])
    if values.blocks[axis]:
        raise LayoutError(
            f"{tensor_text(tensor.name)} is in pieces, and {key} is {tensor_text(sibling)}, which is whole, with "
            f"several numbers along={along}: put the pieces together in one relayout, and use the numbers in another"
        )


# ---- before anything is read -----------------------------------------------------------------------------------------


def check_each_has_its_own(rule: Rule, parts: Sequence[str], match: Any, model: Model) -> None:
    """`LayoutError` for a join whose parts all have one and the same tensor as a parameter."""
    for key, each in rule.siblings.items():
        names = [each.name_for(part, model.tensors, match) for part in parts]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise LayoutError(
                f"{rule.origin} joins {counted(len(parts), 'tensor')}, and {key} is {tensor_text(twice)} for several "
                f"of them: write {{name}} or * in {key}=, so that each part finds its own"
            )


def check_says_type(rule: Rule, source: ElementType) -> None:
    """`LayoutError` for a scale of another tensor that gives codes, or makes them, without a word for it."""
    if "scale" not in rule.siblings or not source.is_floating:
        return
    dtype = rule.options.get("dtype")
    if dtype is None and source.bits <= NARROW:
        raise LayoutError(
            f"{rule.origin}: a scale makes numbers of {source}, which would be rounded to {source} again: write "
            f"dtype=bf16, or dtype={source} if you mean that"
        )
    target = source if dtype is None else ElementType.of(dtype)
    if target.is_floating and target.bits <= NARROW < source.bits and rule.options.get("divide") is None:
        raise LayoutError(
            f"{rule.origin}: from {source} to {target}, write divide, which divides by the scale, as when weights "
            f"become {target}; or divide=false, which multiplies"
        )


def check_keeps_scales(rule: Rule, model: Model, tensor: StoredTensor) -> None:
    """`LayoutError` for a rule that changes measured scales: others are divided by the ones that were measured."""
    if tensor.name in model.measured and (rule.options or rule.siblings):
        raise LayoutError(
            f"{rule.origin} changes the elements of {tensor_text(tensor.name)}, but those of "
            f"{tensor_text(model.measured[tensor.name])} are divided by it as it is measured: for another type, write "
            "scale_dtype= in the rule that measures"
        )


def check_blocks_stay(rule: Rule, member: Member, read: Read) -> None:
    """`LayoutError` for a measured tensor that is cut or joined within a block: no scales say what it would have."""
    block, along = rule.options.get("block"), rule.regroup.along
    if rule.measure is None or block is None or along is None:
        return
    groups = member.groups[1:] if member.stacked else member.groups
    if isinstance(along, int):
        axis = along % len(groups)
    else:
        axis = next(number for number, group in enumerate(groups) if along in group)
    size = block[axis] if isinstance(block, (list, tuple)) else block
    has = member.numbers_by_dimension("scale", read).blocks[axis + member.stacked]
    if has not in (0, size) and member.dimensions[axis]:
        raise LayoutError(
            f"{rule.origin}: along={along} cuts or joins within a block of {size}, so that blocks have {has}: measure "
            f"in another relayout, after this one; or write a block of {has}"
        )


def check_rows_in_order(model: Model, found: Found, view: View) -> None:
    """`LayoutError` where a tensor beside another says that its rows lie in an order that no layout has.

    GPTQ's g_idx has the group of every row.  With act-order the groups do not rise.
    """
    beside = "" if view.name is None else find(view.name.partition("(")[0]).order
    shard, tensor = found
    if not beside:
        return
    name = tensor.name[: tensor.name.rfind(".") + 1] + beside
    own = [each for each in model.tensors.get(name, ()) if model.input_of[id(each[0])] == model.input_of[id(shard)]]
    if not own or own[0][1].dtype not in ("I32", "I64"):
        return
    groups = read_tensor(own[0]).view(np.int32 if own[0][1].dtype == "I32" else np.int64)
    rows = view.shape.dimensions[-2]
    if groups.size != rows:
        raise LayoutError(
            f"{tensor_text(tensor.name)} as {view.name} has {counted(rows, 'row')}, but {tensor_text(name)} has "
            f"{counted(groups.size, 'number')}, one for each row: from= says another width of the elements than they "
            f"have"
        )
    if any(int(each) > int(other) for each, other in itertools.pairwise(groups.tolist())):
        raise LayoutError(
            f"{tensor_text(tensor.name)} has its rows in the order of {tensor_text(name)} (act-order, desc_act), "
            "which is no layout: sort them by it first, or take a checkpoint without"
        )
