"""An old tensor on its way to a new one: its axes, where its bytes lie, and the numbers of its parameters.

All cuts and joins happen to arrays of the old files, before anything moves.  They are along an axis of the array in the
file, also along one that only a pattern names: (three o) i has the axes three, o and i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpulayout.catalogue.tensors import TensorAxis
from gpulayout.files.checkpoints import block_values
from gpulayout.files.checkpoints.assembly import Array, Turns, cut, parts_of
from gpulayout.files.checkpoints.block_values import BlockValues
from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.made_elements import made
from gpulayout.files.checkpoints.views import View
from gpulayout.layout.checks import shown
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import Groups
from gpulayout.layout.shape import Shape

# Gives the numbers of a tensor: by its name, and the number of the input if each has its own.
Read = Callable[[str, int | None], np.ndarray]
Numbers = Callable[[Read], BlockValues]  # of a parameter
FRESH = "member"  # what a pattern calls the axis of a stack
UNNAMED = "="  # begins the name of an axis of size 1, which a pattern calls 1


@dataclass(frozen=True)
class Member:
    """An old tensor, or several as one.

    names    of the old tensors
    view     what the first one is
    groups   the names of the axes of each dimension: those of the pattern's left side, or numbers
    after    those of the pattern's right side; None without a pattern
    first    what the pattern calls the axis of a stack, if it names one
    sizes    of all axes, in elements, by name
    places   where each axis lies along those of the array
    array    where the bytes lie
    numbers  of each parameter that is another tensor
    stacked  True when the first dimension is that of a stack
    """

    names: tuple[str, ...]
    view: View
    groups: Groups
    after: Groups | None
    first: str | None
    sizes: Mapping[str, int]
    places: Mapping[str, TensorAxis | None]
    array: Array
    numbers: Mapping[str, Numbers]
    stacked: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes, the most major first."""
        return tuple(name for group in self.groups for name in group)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of the array."""
        return tuple(math.prod(self.sizes[name] for name in group) for group in self.groups)

    @property
    def shape(self) -> Shape:
        """What the bytes are."""
        return self.view.of_sizes(self.dimensions, stacked=self.stacked)

    def __str__(self) -> str:
        return f"{tensor_text(self.names[0])} of shape {shown(self.dimensions)}"

    def taken(self, name: str, indices: range) -> Member:
        """The part with these indices along an axis, which rise."""
        place, number = self._place(name), self.axes.index(name)
        multiple = math.lcm(place.multiple, place.step.numerator)
        size = self.sizes[name]
        if any(each % multiple and each != size for each in (indices.start, indices.stop)) or (
            indices.step > 1 and (multiple > 1 or place.step != 1)
        ):
            raise LayoutError(
                f"{self} is stored as {self.view.shape}, which can be cut along {axis_text(name)} at multiples of "
                f"{multiple} only"
            )
        whole = self.array.dimensions[place.axis]  # with padding behind the last element
        first, last = (
            whole if each == size else math.ceil(each / place.step) for each in (indices.start, indices.stop)
        )
        array = cut(self.array, place.axis, first, last, indices.step)
        places = self.places
        if indices.step > 1:  # the array has one more axis there
            places = {
                key: each._replace(axis=each.axis + 1) if each and each.axis > place.axis else each
                for key, each in places.items()
            }
        numbers = {key: _after(each, lambda values: values.part(number, indices)) for key, each in self.numbers.items()}
        sizes = {**self.sizes, name: len(indices)}
        return replace(self, sizes=sizes, places=places, array=array, numbers=numbers)

    def at(self, name: str, index: int) -> Member:
        """The array at one index of an axis, which goes."""
        one, number = self.taken(name, range(index, index + 1)), self.axes.index(name)
        groups, after = _left_out(one.groups, name), None if one.after is None else _left_out(one.after, name)
        numbers = {key: _after(each, lambda values: values.at(number, index)) for key, each in self.numbers.items()}
        return replace(one, groups=groups, after=after, numbers=numbers)

    def _place(self, name: str) -> TensorAxis:
        place = self.places[name]
        if place is None:
            raise LayoutError(
                f"{self} is stored as {self.view.shape}, which can be neither cut nor joined along {axis_text(name)}: "
                "gpulayout unpack makes an array of it"
            )
        return place

    @property
    def pattern(self) -> str | None:
        """The pattern for the array, with the sizes of all axes that share a dimension.

        The axes of `...` and those of size 1 get names of their own.
        """
        if self.after is None:
            return None
        names: dict[str, str] = {}
        for name in self.axes:
            if not name.startswith(UNNAMED):
                names[name] = name if name.isidentifier() else fresh_name([*self.axes, *names.values()], "d")
        return f"{self._side(self.groups, names, with_sizes=True)} -> {self._side(self.after, names)}"

    def _side(self, groups: Groups, names: Mapping[str, str], *, with_sizes: bool = False) -> str:
        texts = []
        for group in groups:
            own = [
                f"{names[name]}={self.sizes[name]}" if with_sizes else names[name] for name in group if name in names
            ]
            texts.append(f"({' '.join(own)})" if len(own) > 1 else names[group[0]] if own else "1")
        return " ".join(texts)

    def numbers_by_dimension(self, key: str, read: Read) -> BlockValues:
        """The numbers of a parameter for the array with its dimensions."""
        values = self.numbers[key](read)
        for axis, group in enumerate(self.groups):
            values = values.merged(axis, len(group)) if len(group) > 1 else values
        return values


def joined(members: Sequence[Member], name: str, *, interleave: bool = False) -> Member:
    """Members one after the other along an axis, or in turns; `LayoutError` where they do not fit."""
    first = members[0]
    if len(members) == 1:
        return first
    place, number = first._place(name), first.axes.index(name)
    for each in members[1:]:
        _check_fits(first, each, but=None if interleave else name)
    multiple = math.lcm(place.multiple, place.step.numerator)
    if interleave and (multiple > 1 or place.step != 1):
        raise LayoutError(
            f"{first} is stored as {first.view.shape}, whose blocks hold several elements along {axis_text(name)}: it "
            "cannot take turns"
        )
    for each in members[:-1]:
        if each.sizes[name] % multiple:
            raise LayoutError(
                f"{each} is stored as {each.view.shape}, which can be joined along {axis_text(name)} at multiples of "
                f"{multiple} only: gpulayout unpack makes an array of it"
            )
    together = block_values.interleaved if interleave else block_values.joined
    numbers = {
        key: _all([each.numbers[key] for each in members], lambda values: together(values, number))
        for key in first.numbers
    }
    return replace(
        first,
        names=tuple(old for each in members for old in each.names),
        sizes={**first.sizes, name: sum(each.sizes[name] for each in members)},
        array=Turns(tuple(each.array for each in members), place.axis, interleave),
        numbers=numbers,
    )


def grown(member: Member, name: str, size: int) -> Member:
    """A member with zeros behind the last index of an axis; `LayoutError` where it has none alone, or numbers of
    parameters that would lack some.
    """
    more = size - member.sizes[name]
    if not more:
        return member
    place = member._place(name)
    if place.multiple > 1 or place.step != 1 or member.numbers:
        why = f"has {next(iter(member.numbers))}" if member.numbers else f"is stored as {member.view.shape}"
        raise LayoutError(f"{member} {why}, so nothing can come behind it along {axis_text(name)}")
    first = next(parts_of(member.array))
    sizes = [more if axis == place.axis else each for axis, each in enumerate(member.array.dimensions)]
    zeros = made(first.shard.path, member.names[0], first.tensor.dtype, sizes, first.bits)
    array = Turns((member.array, zeros), place.axis)
    return replace(member, sizes={**member.sizes, name: size}, array=array)


def stacked(members: Sequence[Member]) -> Member:
    """Members on a new first axis; `LayoutError` where they do not fit."""
    first = members[0]
    for each in members[1:]:
        _check_fits(first, each)
    fresh, after = first.first or fresh_name(first.axes), first.after
    if after is not None and first.first is None:
        after = ((fresh,), *after)
    numbers = {key: _all([each.numbers[key] for each in members], block_values.stacked) for key in first.numbers}
    places = {key: each and each._replace(axis=each.axis + 1) for key, each in first.places.items()}
    return replace(
        first,
        names=tuple(old for each in members for old in each.names),
        groups=((fresh,), *first.groups),
        after=after,
        sizes={**first.sizes, fresh: len(members)},
        places={**places, fresh: None},
        array=Turns(tuple(each.array for each in members), 0, is_new=True),
        numbers=numbers,
        stacked=True,
    )


def fresh_name(names: Sequence[str], name: str = FRESH) -> str:
    """A name for an axis that none of the others has."""
    while name in names:
        name += "_"
    return name


def axis_text(name: str) -> str:
    """What messages call an axis.

    >>> axis_text("o"), axis_text("~1")
    ('axis o', 'axis 1')
    """
    return f"axis {name.lstrip('~')}"


def _check_fits(first: Member, other: Member, but: str | None = None) -> None:
    """`LayoutError` unless two members are alike, but along one axis."""
    who = f"{tensor_text(first.names[0])} and {tensor_text(other.names[0])} do not go together"
    one, two = first.view, other.view
    lie_alike = one.shape.rank != two.shape.rank or one.name is not None or one.shape.layout == two.shape.layout
    if (one.shape.element_type, one.name) != (two.shape.element_type, two.name) or not lie_alike:
        raise LayoutError(f"{who}: they are {one.shape} and {two.shape}")
    sizes = [
        [size for name, size in each.sizes.items() if name in each.axes and name != but] for each in (first, other)
    ]
    if sizes[0] != sizes[1] or len(first.axes) != len(other.axes):
        beside = "" if but is None else f", which must be equal but along {axis_text(but)}"
        raise LayoutError(f"{who}: their shapes are {shown(first.dimensions)} and {shown(other.dimensions)}{beside}")


def _after(numbers: Numbers, step: Callable[[BlockValues], BlockValues]) -> Numbers:
    return lambda read: step(numbers(read))


def _all(numbers: Sequence[Numbers], step: Callable[[Sequence[BlockValues]], BlockValues]) -> Numbers:
    return lambda read: step([each(read) for each in numbers])


def _left_out(groups: Groups, name: str) -> Groups:
    """Groups without one name, and without the dimension that it had alone."""
    return tuple(tuple(each for each in group if each != name) for group in groups if group != (name,))
