"""What becomes of one tensor: how it lies in the old file, how it will lie in the new one, and what has to move.

Rules say it, or notes that the files have.  Tensors that are alike share a plan.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpulayout.catalogue.names import is_name, read_name
from gpulayout.files.checkpoints.assembly import Array, mean_run, parts_of, whole
from gpulayout.files.checkpoints.block_values import keywords
from gpulayout.files.checkpoints.drafts import Draft
from gpulayout.files.checkpoints.flips import NO_FLIP, Flip, flip_of_move
from gpulayout.files.checkpoints.gguf import why_opaque
from gpulayout.files.checkpoints.header import DTYPES, StoredTensor, tensor_text
from gpulayout.files.checkpoints.kinds import Kind
from gpulayout.files.checkpoints.members import Member, Read
from gpulayout.files.checkpoints.model import Model, about_tensor, same_in_all
from gpulayout.files.checkpoints.plain_sides import plain_side_text
from gpulayout.files.checkpoints.rule_numbers import check_blocks_stay, check_keeps_scales, check_says_type
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.sibling_values import Siblings
from gpulayout.files.checkpoints.stored import Stored, stored_shape
from gpulayout.files.checkpoints.views import array_like, in_c_order, noted_shape, view_of
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import Pattern, read_pattern
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.plans.plan import Plan, plan

# One type for all tensors is for these: narrower floats hold codes whose scales are other tensors.
WIDE_FLOATS = (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64)
SHORT_RUN = 1 << 16  # bytes: shorter runs go through memory, where a call of the system for each would take longer


class RuleChange(NamedTuple):
    """What a rule makes of an array: how it will be stored, and the move; None where all bytes stay the same."""

    stored: Stored
    plan: Plan | None
    flip: Flip = NO_FLIP


@dataclass(frozen=True)
class TensorPlan:
    """What becomes of a tensor, or of several.

    parts    the names of the old tensors, the first of which the rule fits
    name     of the new one; None if it is left out
    array    where the old bytes lie
    change   what becomes of them
    before   how the first part lies in its file
    kind     what the tensor was taken as, where its rules ask
    plain    what the new file says of the plain tensor of packed bytes; None for nothing
    again    makes the move once more, with the numbers of siblings; None where it needs none
    """

    parts: tuple[str, ...]
    name: str | None
    array: Array
    change: RuleChange
    before: Stored
    kind: Kind | None = None
    plain: str | None = None
    again: Callable[[Read], Plan] | None = None

    @property
    def plan(self) -> Plan | None:
        """The move."""
        return self.change.plan

    @property
    def flip(self) -> Flip:
        """The parts that stand in reverse order on a side of the move."""
        return self.change.flip

    @property
    def is_measured(self) -> bool:
        """True for scales that are measured."""
        return any(part.shard.is_measured for part in parts_of(self.array))

    @property
    def stored(self) -> Stored:
        """How the new tensor lies."""
        return self.change.stored


def unchanged(model: Model, name: str, new_name: str | None, kind: Kind | None = None) -> TensorPlan:
    """A tensor that stays as it is, or is left out; of several inputs, all must have the same to keep it."""
    shard, tensor = model.tensors[name][0] if new_name is None else same_in_all(model, name)
    if new_name is not None and (problem := why_opaque(tensor)):
        raise LayoutError(problem)
    lies = Stored(tensor.dtype, tensor.dimensions, model.notes.get(name))
    array = whole(shard, tensor, (tensor.nbytes,), 8)
    change = RuleChange(lies, _gathered(tensor) if new_name is not None and tensor.blocks else None)
    return TensorPlan((name,), new_name, array, change, lies, kind, model.sides.get(name))


def _gathered(tensor: StoredTensor) -> Plan:
    """The move of bytes that lie in blocks, to where they are consecutive."""
    every = in_c_order(ElementType.U8, (tensor.nbytes,))
    return plan(every, every.layout)


class Changes:
    """What becomes of the tensors of one model.

    Models have thousands of tensors of a few shapes, and a plan takes longer and more memory than all else that is
    known of a tensor.  So tensors that are alike share one.
    """

    def __init__(self, siblings: Siblings, dtype: ElementType | None) -> None:
        """`dtype` is what all tensors of `WIDE_FLOATS` get where no rule says another type."""
        self._siblings, self._dtype = siblings, dtype
        self._shared: dict[tuple[object, ...], RuleChange] = {}

    def of_whole(
        self, model: Model, name: str, new_name: str | None, rule: Rule | None, kind: Kind | None
    ) -> TensorPlan:
        """What becomes of a tensor without a rule, or with one that leaves its elements where they are."""
        same = unchanged(model, name, new_name, kind)
        if new_name is None or self._dtype is None or (rule is not None and rule.keep) or name in model.measured:
            return same
        note = model.notes.get(name)
        element_type = (
            DTYPES[model.first(name).dtype] if note is None else noted_shape(model.first(name), note).element_type
        )
        if element_type not in WIDE_FLOATS or element_type is self._dtype:
            return same
        view = view_of(model.first(name), note)
        key = view.shape, view.name
        if key not in self._shared:
            with about_tensor(name, same.before):
                self._shared[key] = _in_place(view.shape, view.name, None, {"dtype": self._dtype})
        return replace(same, change=self._shared[key], plain=None)

    def of_draft(self, model: Model, draft: Draft, new_name: str, rule: Rule, kind: Kind | None) -> TensorPlan:
        """What becomes of one tensor, or of several, by a rule."""
        member, first = draft.member, model.first(draft.member.names[0])
        before = Stored(first.dtype, first.dimensions, model.notes.get(first.name))
        plain = {key: value for key, value in rule.options.items() if key not in member.numbers}
        if member.numbers:
            plain.pop("block", None)
        if rule.options.get("dtype") is None and member.view.shape.element_type in WIDE_FLOATS:
            if self._dtype not in (None, member.view.shape.element_type) and first.name not in model.measured:
                plain["dtype"] = self._dtype
        check_keeps_scales(rule, model, first)

        check_says_type(rule, member.view.shape.element_type)
        like = self._siblings.like

        def change(read: Read) -> RuleChange:
            values = {key: member.numbers_by_dimension(key, read) for key in member.numbers}
            options = plain | keywords(values) if values else plain
            if read is not like:
                return change_of(member, rule, options)
            alike = member.shape, member.view.name, member.pattern, id(rule), _key_of(options)
            if alike not in self._shared:
                self._shared[alike] = change_of(member, rule, options)
            return self._shared[alike]

        def about() -> AbstractContextManager[None]:
            return _about_siblings(model, rule, first.name, before)

        with about():
            made = change(like)
            check_blocks_stay(rule, member, like)
            if made.plan is None and mean_run(member.array) < SHORT_RUN:
                made = made._replace(plan=plan(member.shape, member.shape.layout))

        def again(read: Read) -> Plan:
            with about():
                move = change(read).plan
            assert move is not None  # there is arithmetic
            return move

        if "zero_point" in rule.siblings:  # whose values must be in the range of a type, which is said before writing
            again(self._siblings.known)
        says = made.stored.note is not None and made.flip == NO_FLIP
        plain_text = plain_side_text(model, member, rule, made.plan) if says else None
        later = again if rule.siblings else None
        return TensorPlan(member.names, new_name, member.array, made, before, kind, plain_text, later)


@contextlib.contextmanager
def _about_siblings(model: Model, rule: Rule, name: str, before: Stored) -> Iterator[None]:
    """Errors inside the `with` name the tensor, and say which others are its parameters."""
    with about_tensor(name, before):
        try:
            yield
        except LayoutError as error:
            siblings = {key: each.name_for(name, model.tensors) for key, each in rule.siblings.items()}
            those = ", ".join(f"{key} is {tensor_text(sibling)}" for key, sibling in siblings.items())
            pattern = ", whose own rule may have a pattern: n -> n 1" if "does not fit" in str(error) else ""
            raise LayoutError(f"{error} ({those}{pattern})" if siblings else str(error)) from None


def _key_of(options: Mapping[str, Any]) -> tuple[object, ...]:
    """What equal options have in common, hashable."""
    return tuple(
        (name, value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest())
        if isinstance(value, np.ndarray)
        else (name, str(value))
        for name, value in options.items()
    )


def _in_place(shape: Shape, name: str | None, rule: Rule | None, options: Mapping[str, Any]) -> RuleChange:
    """Other elements where the old ones lie; `LayoutError` for those that the layout is not for.

    name   of the entry of the layout, if there is one
    """
    try:
        move = plan(shape, shape.layout, **options)
        stored = stored_shape(move.target, name)
    except LayoutError as error:
        plan(shape, "C", **options)  # raises where the layout is not to blame
        where = "a rule" if rule is None else rule.origin
        raise LayoutError(f"{error}; to make an array of it, write C in {where}, as in 'C; dtype=bf16'") from None
    if rule is not None and rule.header is not None:
        stored = _as_said(rule, move.target, stored, {})
    return _change(stored, move)


def change_of(member: Member, rule: Rule, options: Mapping[str, Any]) -> RuleChange:
    """What a rule makes of an array, with the arithmetic on the way."""
    shape, text = member.shape, member.pattern
    pattern = None if text is None else read_pattern(text, shape.rank, "pattern")
    sizes: dict[str, int] = {} if pattern is None else pattern.axis_sizes(shape.dimensions, {})
    name = rule.layout if isinstance(rule.layout, str) else None
    if pattern is not None and rule.layout is not None:
        move, result = _turned(shape, pattern, rule, options)
    else:
        target = rule.layout if rule.layout is not None else text
        if target is None and rule.from_ is None:
            return _in_place(shape, member.view.name, rule, options)
        move = plan(shape, "C" if target is None else target, **options)
        result = move.target if pattern is None else array_like(move.target, pattern.result(shape.dimensions))
    stored = stored_shape(result, name)
    if rule.header is not None:
        stored = _as_said(rule, result, stored, sizes)
    flip = NO_FLIP
    if rule.flip and pattern is not None:
        flip = flip_of_move(shape, rule, pattern, move, result)
    return _change(stored, move, flip)


def _as_said(rule: Rule, result: Shape, stored: Stored, sizes: Mapping[str, int]) -> Stored:
    """A result with the type and the dimensions that a rule says."""
    assert rule.header is not None
    known = dict(sizes) if rule.layout is None else _named_sizes(rule.layout, result)
    dimensions = rule.header.dimensions(result.dimensions, result.nbytes, known)
    if stored.note is None and (stored.dtype, stored.dimensions) == (rule.header.dtype, dimensions):
        return stored
    return Stored(rule.header.dtype, dimensions, stored.note or str(result))


def _named_sizes(layout: Layout | str, result: Shape) -> dict[str, int]:
    """The sizes of an entry of the catalogue by name."""
    if not (isinstance(layout, str) and is_name(layout)):
        return {}
    names = [size.name for size in read_name(layout).entry.sizes]
    return dict(zip(names, result.dimensions[-len(names) :]))


def _turned(source: Shape, pattern: Pattern, rule: Rule, options: Mapping[str, Any]) -> tuple[Plan, Shape]:
    """The move to a layout of what a pattern makes of an array, and its result.

    The plan is between arrays of the old order, so that parameters fit: for "n k -> k n" the target, whose dimensions
    are K and N, is seen as one of N and K.
    """
    assert rule.layout is not None
    flat = [name for group in pattern.before for name in group]
    places = [flat.index(group[0]) if group else len(flat) for group in pattern.after]
    for group, place in zip(pattern.after, places):
        if tuple(flat[place : place + len(group)]) != group:
            raise LayoutError(
                f"{rule.origin}: {pattern.shown} joins axes that do not follow one another, and {rule.layout} is a "
                "layout of the result: do the two in two relayouts"
            )
    dimensions = pattern.result(source.dimensions)
    order = sorted(range(len(places)), key=lambda number: (places[number], number))
    read = tuple(dimensions[number] for number in order)
    if read != source.dimensions:
        _check_can_reshape(source, rule, pattern, options)
        source = array_like(source, read)
    only_type = {} if "dtype" not in options else {"dtype": options["dtype"]}
    result = plan(array_like(source, dimensions), rule.layout, **only_type).target
    return plan(source, result.permute_dimensions(order), **options), result


def _check_can_reshape(source: Shape, rule: Rule, pattern: Pattern, options: Mapping[str, Any]) -> None:
    """`LayoutError` for an array whose axes cannot become others before it moves."""
    several = [
        name
        for name, value in options.items()
        if name != "dtype" and isinstance(value, (list, tuple)) or getattr(value, "ndim", False)
    ]
    if not same_buffer(source, array_like(source, source.dimensions)):
        raise LayoutError(f"{rule.origin}: {pattern.shown} splits or joins axes of {source}, which is not in C order")
    if several:
        raise LayoutError(
            f"{rule.origin}: {pattern.shown} splits or joins axes, {rule.layout} is a layout of the result, and "
            f"{several[0]} has several numbers: do the arithmetic in one relayout, and the layout in another"
        )


def _change(stored: Stored, move: Plan, flip: Flip = NO_FLIP) -> RuleChange:
    """The change by a move, which is left out if it leaves all bytes as they are."""
    stays = flip == NO_FLIP and move.change is None and same_buffer(move.source, move.target)
    return RuleChange(stored, None if stays else move, flip)


def restored(tensor: StoredTensor, note: str) -> RuleChange:
    """A tensor without its note: the array in C order that the note describes.

    Integers of 1, 2 and 4 bits become those of 8.  Types that the format lacks keep a note, now without a layout.
    """
    source = noted_shape(tensor, note)
    options: dict[str, Any] = {}
    packed = source.element_type is ElementType.F4E2M1FN and source.element_count % 2 == 0
    if source.element_type.is_sub_byte and source.element_type.is_integral:
        options["dtype"] = "s8" if source.element_type.is_signed else "u8"
    move = plan(source, in_c_order(source.element_type, source.dimensions, packed=packed).layout, **options)
    return _change(stored_shape(move.target), move)
