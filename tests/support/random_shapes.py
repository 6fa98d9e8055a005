"""Shapes of every kind by the thousand, cheaper than with Hypothesis: for long runs over text and protos."""

import os
import random

import gpulayout as gl
from gpulayout import ElementType, LayoutError, PaddingValue

TYPES = list(ElementType)
PAD_VALUES = [name for name in PaddingValue if name is not PaddingValue.INVALID] + [
    0,
    1,
    2.5,
    -0.0,
    100,
    float("inf"),
    float("nan"),
    1 - 2j,
]
COUNT = int(os.environ.get("GPULAYOUT_TEST_SHAPES", "2000"))  # a long run: GPULAYOUT_TEST_SHAPES=100000


def random_shapes(seed, count=COUNT, **kinds):
    """`count` shapes of any kind; `kinds` as for `random_shape`."""
    rng = random.Random(seed)
    return (random_shape(rng, **kinds) for _ in range(count))


def random_shape(rng, *, tuples=True, padding=True, combine=True, depth=0):
    """An array mostly; without `tuples` always, without `padding` no padded dimensions, pad value or bit order, all of
    which XLA lacks, without `combine` no "*".
    """
    kind = rng.random() if tuples else 1
    if kind < 0.15 and depth < 4:
        return gl.xla.TupleShape(
            [
                random_shape(rng, padding=padding, combine=combine, depth=depth + 1)
                for _ in range(rng.choice((0, 1, 2, 3, 12)))
            ]
        )
    if kind < 0.2:
        return rng.choice((gl.xla.TokenShape(), gl.xla.OpaqueShape()))
    array = _array(rng, padding, combine)
    return gl.xla.BufferShape(array) if kind < 0.25 else array


def _array(rng, padding, combine):
    sizes = [
        rng.choice((0, 1, 2, 3, 7, 8, 128, 300, gl.UNBOUNDED)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6)))
    ]
    dynamic = [size is gl.UNBOUNDED or rng.random() < 0.1 for size in sizes]
    fields = _fields(rng, sizes, combine)
    if padding and gl.UNBOUNDED not in sizes and rng.random() < 0.3:
        fields["padded_dimensions"] = [size + rng.choice((0, 0, 1, 5)) for size in sizes]
    if padding and rng.random() < 0.3:
        fields["padding_value"] = rng.choice(PAD_VALUES)
    if padding and fields.get("element_size_in_bits") in (1, 4):
        fields["bit_order"] = rng.choice(("little", "big"))
    element_type = rng.choice(TYPES)
    try:
        return gl.Shape(element_type, sizes, gl.Layout(**fields), dynamic_dimensions=dynamic)
    except LayoutError:  # a pad value that the type cannot hold, or more than 2^63 bytes
        return gl.Shape(
            element_type, sizes, gl.Layout(**fields | {"padding_value": None, "tiles": ()}), dynamic_dimensions=dynamic
        )


def _fields(rng, sizes, combine):
    order = rng.sample(range(len(sizes)), len(sizes))
    splits = []
    for physical, dim in enumerate(reversed(order)):
        size = 100 if sizes[dim] is gl.UNBOUNDED else sizes[dim]
        if size > 1 and rng.random() < 0.1:
            splits.append((physical, sorted(rng.sample(range(1, size), min(size - 1, rng.choice((1, 2, 3)))))))
    fields = {"minor_to_major": order, "split_configs": splits}
    for name, values in (
        ("tail_padding_alignment", (2, 100)),
        ("element_size_in_bits", (1, 4, 8, 33)),
        ("memory_space", (1, 5, 127)),
        ("dynamic_shape_metadata_prefix_bytes", (8, 2**40)),
        ("index_type", ("u8", "u32")),
        ("pointer_type", ("u16", "u64")),
    ):
        if rng.random() < 0.2:
            fields[name] = rng.choice(values)
    if rng.random() < 0.5:
        fields["tiles"] = [_tile(rng, combine) for _ in range(rng.choice((1, 1, 2, 3)))]
    return fields


def _tile(rng, combine):
    entries = [rng.choice((1, 2, 4, 8, 100, "*" if combine else 3)) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
    return (*entries, rng.choice((1, 2, 128)))
