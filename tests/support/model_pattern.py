"""Patterns as einops writes them, and axes by number or by name, in NumPy."""

import re

import numpy as np

from tests.support.model_elements import Unclear, Wrong


def is_pattern(to):
    return isinstance(to, str) and "->" in to


class Pattern:
    """Names of axes before and after a move.

    before, after    a list of names for each dimension
    sizes            those that the text gives
    """

    def __init__(self, text, rank):
        left, right = text.split("->")
        self.sizes = {name: int(size) for name, size in re.findall(r"(\w+)\s*=\s*(\d+)", left + right)}
        self.before, self.after = (_groups(re.sub(r"\s*=\s*\d+", "", side)) for side in (left, right))
        if ["..."] in self.before and rank is not None:
            names = [[f"~{number}"] for number in range(rank - len(self.before) + 1)]
            self.before, self.after = (
                [each for group in side for each in (names if group == ["..."] else [group])]
                for side in (self.before, self.after)
            )
        names = [sorted(name for group in side for name in group) for side in (self.before, self.after)]
        if names[0] != names[1]:
            raise Wrong(f"{text} does not keep every axis")
        if rank is not None and len(self.before) != rank:
            raise Wrong(f"{text} is not for rank {rank}")

    def axis_sizes(self, shape, known=None):
        """The sizes of all axes of an array; `Wrong` if they do not fit."""
        sizes = dict(self.sizes if known is None else known)
        for group, size in zip(self.before, shape):
            given = int(np.prod([sizes[name] for name in group if name in sizes], dtype=np.int64))
            left = [name for name in group if name not in sizes]
            if len(left) > 1 or size % max(given, 1) or (not left and given != size):
                raise Wrong(f"{group} of size {size}")
            if left:
                if not given:
                    raise Wrong(f"{group} of size {size}")
                sizes[left[0]] = size // given
        return sizes

    def applied(self, array, flip=()):
        """The array after the pattern, with the order of some axes reversed."""
        sizes = self.axis_sizes(array.shape)
        before = [name for group in self.before for name in group]
        after = [name for group in self.after for name in group]
        opened = array.reshape([sizes[name] for name in before])
        moved = opened.transpose([before.index(name) for name in after])
        moved = np.flip(moved, [after.index(name) for name in flip if name in after])
        return np.ascontiguousarray(moved).reshape(
            [int(np.prod([sizes[name] for name in group], dtype=np.int64)) for group in self.after]
        )

    def result_sizes(self, shape):
        """The sizes of axes that stand alone in the result."""
        if len(shape) != len(self.after):
            raise Unclear("axes of a part of a result")
        return {group[0]: size for group, size in zip(self.after, shape) if len(group) == 1}


def _groups(side):
    """The names of each dimension: "(a b) c 1" is [["a", "b"], ["c"], []]."""
    if re.sub(r"\([\w\s]*\)|\.\.\.|\w+|\s", "", side):
        raise Unclear(f"the pattern {side!r}")
    groups = []
    for inside, name in re.findall(r"\(([\w\s]*)\)|(\.\.\.|\w+)", side):
        groups.append([each for each in (inside.split() or [name]) if each not in ("", "1")])
    if any(re.fullmatch(r"[A-Z]{2,}", name) for group in groups for name in group):
        raise Unclear("axes of one letter")
    return groups


class Along:
    """An axis of a tensor, also one inside of a dimension: the tensor is opened there, and closed behind it."""

    def __init__(self, along, rank, to, *, stacked):
        self.names, self.pattern, self.name = None, None, along
        if isinstance(along, int) or re.fullmatch(r"-?\d+", along):
            number = int(along)
            if not -rank <= number < rank:
                raise Wrong(f"axis {number} of {rank}")
            self.dim = number % rank
            if is_pattern(to) and len(Pattern(to, rank + stacked).before[self.dim + stacked]) > 1:
                raise Wrong(f"axis {number} is several of the pattern's")
            return
        if not is_pattern(to):
            raise Wrong(f"there is no axis {along}")
        self.pattern = Pattern(to, rank + stacked)
        found = [dim for dim, group in enumerate(self.pattern.before) if along in group]
        if not found:
            raise Wrong(f"there is no axis {along}")
        self.dim, self.names = found[0] - stacked, self.pattern.before[found[0]]
        if self.dim < 0:
            raise Wrong(f"{along} is the axis of the stack")

    def opened(self, array):
        """The array with the axis as a dimension of its own, and which one that is."""
        if self.names is None or len(self.names) == 1:
            return array, self.dim
        known = {name: size for name, size in self.pattern.sizes.items() if name in self.names and name != self.name}
        if len(known) < len(self.names) - 1:
            if self.name in self.pattern.sizes:
                raise Unclear(f"which size {self.name} has in a part")
            raise Wrong(f"the sizes of {self.names}")
        inner = int(np.prod([*known.values()], dtype=np.int64))
        if not inner or array.shape[self.dim] % inner:
            raise Wrong(f"{self.names} of size {array.shape[self.dim]}")
        sizes = [known.get(name, array.shape[self.dim] // inner) for name in self.names]
        shape = (*array.shape[: self.dim], *sizes, *array.shape[self.dim + 1 :])
        return array.reshape(shape), self.dim + self.names.index(self.name)

    def closed(self, array):
        count = 1 if self.names is None else len(self.names)
        rest = array.shape[self.dim : self.dim + count]
        size = int(np.prod(rest, dtype=np.int64))
        return array.reshape((*array.shape[: self.dim], size, *array.shape[self.dim + count :]))

    def size(self, array):
        opened, axis = self.opened(array)
        return opened.shape[axis]

    def taken(self, array, numbers):
        """Some places along the axis."""
        opened, axis = self.opened(array)
        return self.closed(np.take(opened, numbers, axis))

    def cuts(self, array, count, sizes=None, interleave=False):
        """The places of each of `count` parts."""
        size = self.size(array)
        if sizes is not None:
            if interleave or len(sizes) != count or sum(sizes) != size or min(sizes, default=0) < 0:
                raise Wrong(f"{sizes} of {size}")
            ends = np.cumsum(sizes)
            return [np.arange(end - each, end) for each, end in zip(sizes, ends)]
        if not count or size % count:
            raise Wrong(f"{size} in {count} parts")
        places = np.arange(size)
        return [places[number::count] for number in range(count)] if interleave else np.split(places, count)

    def joined(self, arrays, interleave=False):
        """Arrays one after the other along the axis, or in turns."""
        if len({each.dtype for each in arrays}) > 1:
            raise Wrong("parts of different types")
        opened = [self.opened(each)[0] for each in arrays]
        axis = self.opened(arrays[0])[1]
        others = {each.shape[:axis] + each.shape[axis + 1 :] for each in opened}
        if len(others) > 1 or (interleave and len({each.shape[axis] for each in opened}) > 1):
            raise Wrong("parts of different shapes")
        if not interleave:
            return self.closed(np.concatenate(opened, axis))
        turns = np.stack(opened, axis + 1)
        shape = (*turns.shape[:axis], turns.shape[axis] * turns.shape[axis + 1], *turns.shape[axis + 2 :])
        return self.closed(turns.reshape(shape))
