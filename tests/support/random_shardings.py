"""Random pairs of shardings, and what the ranks hold by the model: every element where the shard of its rank has it.

The model has no messages: a target rank gets the elements of its box, no matter which rank held them.
"""

import dataclasses
import functools
import math

import numpy as np

import gpulayout as gl
from gpulayout import ElementType
from tests.support import arithmetic_cases as cases

BYTES = "u8 s8 pred s16 bf16 f16 f32 s32 f64 c64 f8e4m3fn f8e5m2".split()
SMALL = {"u4": 4, "s4": 4, "u2": 2, "s1": 1, "f4e2m1fn": 4}  # and how many bits one takes where they are packed
CASTS = ["f32", "bf16", "f16", "f8e4m3fn", "u8", "s8", "s32", "u4", "s4"]
SIZES = (0, 1, 1, 2, 3, 4, 5, 6, 8, 9)
MOST = 400  # elements


@dataclasses.dataclass(frozen=True)
class Case:
    """An exchange, and the elements of the whole array as codes."""

    source: gl.Sharding
    target: gl.Sharding
    options: dict
    codes: np.ndarray

    def exchange(self):
        return gl.exchange(self.source, self.target, **self.options)

    @functools.cached_property
    def wanted(self):
        """The codes of the whole array afterwards."""
        if not self.options:
            return self.codes
        own, other = (side.shape.element_type for side in (self.source, self.target))
        options = {name: value for name, value in self.options.items() if name != "dtype"}
        return cases.expected_codes(self.codes, own, other, options)

    def buffers(self):
        """The buffer of each rank of the source, with garbage in its padding."""
        return [
            None if box is None else source_buffer(shard, self.codes[slices(box)])
            for box, shard in zip(self.source.boxes, self.source.shards)
        ]

    def outs(self):
        """Memory for each rank of the target, full of garbage."""
        return [
            None
            if shard is None
            else np.full(cases.buffer_of(shard, part(self.wanted, box), 0).nbytes, 0xA5, np.uint8).view(
                cases.kept_dtype(shard)
            )
            for box, shard in zip(self.target.boxes, self.target.shards)
        ]

    def is_result(self, rank, found):
        """Whether an array is the buffer of a rank of the target."""
        box, shard = self.target.boxes[rank], self.target.shards[rank]
        if box is None:
            return found is None
        expected = cases.buffer_of(shard, part(self.wanted, box), cases.pad_code(shard))
        if shard.is_packed:
            return found.dtype == np.uint8 and found.tolist() == expected.tolist()
        return cases.are_same(found, expected, shard.element_type)

    def first_missing(self):
        """(rank of the target, index) of the first element that no rank of the source holds; None for none."""
        held = np.zeros(self.codes.shape, bool)
        for box in self.source.boxes:
            if box is not None:
                held[slices(box)] = True
        for rank, box in enumerate(self.target.boxes):
            if box is not None and not part(held, box).all():
                inside = np.argwhere(~part(held, box))[0]
                return rank, tuple(int(first + at) for (first, _), at in zip(box, inside))
        return None

    def __str__(self):
        return f"{self.source}\n{self.target}\n{self.options}\n{self.codes.tolist()}"


def slices(box):
    """A box as an index."""
    return tuple(slice(*interval) for interval in box)


def part(array, box):
    """A box of an array, as an array also where it has no dimensions."""
    return np.asarray(array[slices(box)])


def source_buffer(shard, codes):
    """The buffer of a shard with these elements."""
    kind = shard.element_type
    garbage = 3 if kind.is_complex else (1 << min(kind.bits, 64)) - 1
    return cases.buffer_of(shard, np.asarray(codes), garbage).view(cases.kept_dtype(shard))


# ---- made at random --------------------------------------------------------------------------------------------------


def drawn_case(*seed):
    """A pair of shardings of any kinds: packed, tiled, padded, overlapping, with gaps, with elements that change."""
    rng = cases.generator(*seed)
    dimensions = tuple(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 4))))
    while math.prod(dimensions) > MOST:
        dimensions = tuple(rng.choice(SIZES) for _ in dimensions)
    before = after = rng.choice(BYTES if rng.random() < 0.6 else list(SMALL))
    options = {}
    if rng.random() < 0.4:
        before, after = rng.choice(CASTS), rng.choice(CASTS)
        own, other = ElementType(before), ElementType(after)
        form = rng.choice(cases.forms_of(own, other))
        options = {"dtype": other, **cases.drawn_options(rng, form, own, other, dimensions)}
    source = drawn_sharding(rng, before, dimensions, held_boxes(rng, dimensions))
    target = drawn_sharding(rng, after, dimensions, wanted_boxes(rng, dimensions))
    return Case(source, target, options, cases.drawn_codes(rng, ElementType(before), dimensions))


def drawn_sharding(rng, name, dimensions, boxes):
    """These boxes in the layout of the whole array, in another one, or each in its own."""
    whole = gl.Shape(name, dimensions, drawn_layout(rng, name, dimensions))
    given = [None if box is None else slices(box) for box in boxes]
    kind = rng.random()
    if kind < 0.4:
        return gl.Sharding(whole, given)
    if kind < 0.5:
        order = gl.Layout(tuple(rng.sample(range(len(dimensions)), len(dimensions))))
        return gl.Sharding(whole, given, layouts=order)
    layouts = [
        None if box is None or rng.random() < 0.2 else drawn_layout(rng, name, [last - first for first, last in box])
        for box in boxes
    ]
    return gl.Sharding(whole, given, layouts=layouts)


def drawn_layout(rng, name, dimensions):
    """A layout of an array or a shard: C order, any order, or with tiles and padding too."""
    bits = SMALL.get(name, 0) if rng.random() < 0.7 else 0
    order = tuple(rng.sample(range(len(dimensions)), len(dimensions)))
    if rng.random() < 0.6:
        layout = cases.drawn_layout(rng, ElementType(name), order, dimensions, bits)
    else:
        order = order if rng.random() < 0.6 else tuple(reversed(range(len(dimensions))))
        layout = gl.Layout(order, element_size_in_bits=bits)
    return layout.replace(bit_order="big") if bits and rng.random() < 0.3 else layout


def held_boxes(rng, dimensions):
    """Boxes that are the whole array together, some of them for several ranks, cut along a mesh or anywhere.

    Now and then one of them is missing.
    """
    boxes = mesh_boxes(rng, dimensions) if rng.random() < 0.4 else cut_boxes(rng, dimensions, rng.randint(1, 5))
    boxes += [rng.choice(boxes) for _ in range(rng.choice((0, 0, 1, 2)))]
    boxes += [any_box(rng, dimensions) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    boxes += [None] * rng.choice((0, 0, 1))
    if rng.random() < 0.5:
        rng.shuffle(boxes)
    if rng.random() < 0.15:
        boxes[rng.randrange(len(boxes))] = None
    return boxes


def wanted_boxes(rng, dimensions):
    """Boxes of a target: as those of a source, or any."""
    if rng.random() < 0.6:
        return held_boxes(rng, dimensions)
    return [None if rng.random() < 0.1 else any_box(rng, dimensions) for _ in range(rng.randint(1, 5))]


def mesh_boxes(rng, dimensions):
    """The boxes of a mesh with an axis for each dimension, of parts that are equal but for the last, and replicas."""
    parts = [[(0, size)] if rng.random() < 0.4 else chunks(size, rng.choice((1, 2, 2, 3))) for size in dimensions]
    boxes = [()]
    for intervals in parts:
        boxes = [(*box, interval) for box in boxes for interval in intervals]
    return boxes * rng.choice((1, 1, 1, 2)) if len(boxes) < 9 else cut_boxes(rng, dimensions, 3)


def chunks(size, count):
    """A dimension in so many parts, as `torch.chunk` makes them, and empty ones."""
    longest = -(-size // count)
    return [(min(n * longest, size), min((n + 1) * longest, size)) for n in range(count)]


def cut_boxes(rng, dimensions, count):
    """The whole array, cut again and again anywhere."""
    boxes = [tuple((0, size) for size in dimensions)]
    for _ in range(count - 1 if dimensions else 0):
        box = boxes.pop(rng.randrange(len(boxes)))
        dim = rng.randrange(len(dimensions))
        first, last = box[dim]
        middle = rng.randint(first, last)
        boxes += [(*box[:dim], (first, middle), *box[dim + 1 :]), (*box[:dim], (middle, last), *box[dim + 1 :])]
    return boxes


def any_box(rng, dimensions):
    """A box anywhere."""
    return tuple(tuple(sorted((rng.randint(0, size), rng.randint(0, size)))) for size in dimensions)
