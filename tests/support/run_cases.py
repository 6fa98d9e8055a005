"""Lists of runs, applied by slicing, and the laws of such a list."""

import random

import numpy as np

import gpulayout as gl
from tests.support.box_cases import can_hold
from tests.support.random_shapes import random_shape

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17)


def random_layout(rng, shape, **kinds):
    """A layout of any kind for the array, whose buffer is small; None if none was found."""
    for _ in range(40):
        other = random_shape(rng, tuples=False, **kinds)
        if not isinstance(other, gl.Shape) or other.rank != shape.rank:
            continue
        padded = [size + rng.choice((0, 0, 1, 5)) for size in shape.dimensions] if rng.random() < 0.3 else None
        try:
            layout = other.layout.replace(padded_dimensions=padded, split_configs=(), tail_padding_alignment=1)
            if rng.random() < 0.2:
                layout = layout.replace(tail_padding_alignment=rng.choice((2, 100)))
            found = shape.with_layout(layout)
        except gl.LayoutError:
            continue
        if can_hold(found, 5000):
            return found
    return None


def random_pair(seed):
    """Two shapes of one logical array with layouts of any kind: tiled, padded, packed, empty, of rank 0."""
    rng = random.Random(seed)
    while True:
        drawn = random_shape(rng, tuples=False, padding=False)
        if not isinstance(drawn, gl.Shape):
            continue
        plain = gl.Shape(drawn.element_type, [rng.choice(SIZES) for _ in drawn.dimensions])
        pair = [random_layout(rng, plain) for _ in range(2)]
        if None not in pair:
            return pair


def applied(runs, source, target):
    """The target's bytes after the runs were copied one by one, each byte at most once."""
    written = np.zeros(target.size, bool)
    for begin, into, count in runs.tolist():
        assert count > 0 <= begin and begin + count <= source.size and 0 <= into and into + count <= target.size
        assert not written[into : into + count].any()
        written[into : into + count] = True
        target[into : into + count] = source[begin : begin + count]
    return written


def filled(fills, target, written):
    """The target's bytes after the padding was filled run by run."""
    for into, count in fills.runs.tolist():
        assert count > 0 and count % len(fills.value) == 0 and not written[into : into + count].any()
        written[into : into + count] = True
        target[into : into + count] = np.frombuffer(fills.value * (count // len(fills.value)), np.uint8)


def check_order(runs):
    """Runs are in the order of the last columns, and no two neighbours could be one."""
    assert runs.dtype == np.int64 and runs.ndim == 2
    *begins, counts = runs.T
    assert (begins[-1][1:] >= begins[-1][:-1] + counts[:-1]).all()
    goes_on = np.array([each[1:] == each[:-1] + counts[:-1] for each in begins])
    assert not goes_on.all(axis=0).any()


def cut_runs(runs, longest, align=1):
    """The same runs, cut one by one."""
    found = []
    for begin, into, count in runs.tolist():
        while count > longest:
            first = (into + longest) // align * align - into
            found.append((begin, into, first))
            begin, into, count = begin + first, into + first, count - first
        found.append((begin, into, count))
    return np.array(found, np.int64).reshape(-1, 3)


def expected_runs(plan):
    """The runs of a plan of whole bytes, from a relayout of numbers: where each element of the target comes from."""
    source, target = [
        gl.Shape("u32", shape.dimensions, shape.layout.replace(padding_value=None))
        for shape in (plan.source, plan.target)
    ]
    came_from = gl.relayout(np.arange(1, source.buffer_length + 1, dtype=np.uint32), source, target).astype(np.int64)
    places = np.flatnonzero(came_from)
    came_from = came_from[places] - 1
    is_new = np.r_[True, (np.diff(came_from) != 1) | (np.diff(places) != 1)][: len(places)]
    firsts = np.flatnonzero(is_new)
    counts = np.diff(np.r_[firsts, len(places)])
    return np.stack([came_from[firsts], places[firsts], counts], axis=1) * plan.source.itemsize
