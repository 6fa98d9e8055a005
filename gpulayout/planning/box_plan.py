"""Tiles of many axes through shared memory, for minor axes that are short on both sides."""
from __future__ import annotations

import math
from dataclasses import replace

from gpulayout.planning.launch import Kernel, KernelPlan, planned, reaches
from gpulayout.planning.parameters import pack_box
from gpulayout.planning.tile_box import MAX_OFFSET, Box, best_box, runs, split
from gpulayout.planning.widening import Work

_RUN_BYTES = 64              # two sectors: below, a tile of many axes is tried
_TILE_ND = Kernel("tile", "tile_nd.cu", "gpl_tile_nd")


def many_axes_plan(work: Work, found: KernelPlan | None) -> KernelPlan | None:
    """A tile of more axes where one of two axes was not found or has short runs, and more axes make longer ones."""
    shortest = 0
    if found:
        shortest = min(runs(found.axes, tuple(map(min, found.tile, (axis.extent for axis in found.axes)))
                            + (1,) * (len(found.axes) - 2))) * work.width
    if shortest >= _RUN_BYTES or max(map(abs, reaches(work.axes))) >= MAX_OFFSET:
        return found
    box = best_box(work.axes, work.width)
    if box is None or 2 * min(box.source_run, box.target_run) * work.width < 3 * shortest:
        return found
    return _box_plan(work, box, f"a tile of two axes would have runs of {shortest} bytes" if found else "two axes fill no tile")


def _box_plan(work: Work, box: Box, why: str) -> KernelPlan:
    """The struct's first two axes are those that are cut, then come the outer ones, then what is whole in every tile."""
    axes, sizes = work.axes, box.sizes
    cut = sorted(range(len(axes)), key=lambda k: (sizes[k] == axes[k].extent, sizes[k] == 1, abs(axes[k].target_stride)))[:2]
    outer = [k for k in range(len(axes)) if k not in cut and sizes[k] == 1]
    order = [*cut, *outer, *(k for k in range(len(axes)) if k not in cut and sizes[k] > 1)]
    counts = tuple(math.ceil(axes[k].extent / sizes[k]) for k in cut)
    total = math.prod(counts) * math.prod(axes[k].extent for k in outer)
    orders = pack_box([(split([sizes[k] for k in walk]), [(sizes[k], order.index(k), box.steps[k]) for k in walk])
                       for walk in (box.read, box.write)])
    run_bytes = f"{box.source_run * work.width} bytes in the source, of {box.target_run * work.width} in the target"
    work = work._replace(axes=tuple(axes[k] for k in order)).because(
        f"accesses of {work.width} bytes: {why}; one of {len(box.write)} axes has runs of {run_bytes}")
    plan = planned(work, _TILE_ND, work.width, total, total=total, counts=counts, tile=tuple(sizes[k] for k in cut))
    return replace(plan, parameters=plan.parameters + orders, tile=tuple(sizes[k] for k in box.write),
                   runs=(box.source_run, box.target_run))
