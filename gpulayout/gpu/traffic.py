"""How a launch meets memory: sectors per request on both sides, and what that lets one expect.

Memory moves in sectors of 32 bytes.  The 32 lanes of a warp ask together, in one request; the ideal request touches as
many sectors as its bytes fill.  A run is what neighbouring lanes find one after the other.

    32 lanes x 4 bytes, runs of 128 bytes that start anywhere: 4.9 sectors on average where 4 are ideal
    32 lanes x 4 bytes, each alone:                           32 sectors

What is said here is an estimate from the plan alone, without a GPU.  tests/gpu/test_traffic.py compares the sectors
with what was counted in the kernels' own accesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.gpu.launch import Access, KernelPlan
from gpulayout.layout.checks import counted
from gpulayout.moves.texts import tile_text

SECTOR = 32  # bytes
LANES = 32


class Requests(NamedTuple):
    """The requests of one side, in bytes.

    access   of one lane
    run      what neighbouring lanes find one after the other
    start    every run starts at a multiple of this, a power of two up to a sector
    step     from the start of a run to that of the next one
    lanes    of a warp that ask together
    span     from the sector that the side's memory begins in to its end
    useful   the share of what is asked for that is wanted
    """

    access: int
    run: int
    start: int
    step: int
    lanes: int = LANES
    span: int = 1 << 62
    useful: float = 1

    @property
    def ideal(self) -> float:
        """Sectors that the bytes of a request would fill."""
        return math.ceil(self.lanes * self.access * self.useful / SECTOR)

    @property
    def sectors(self) -> float:
        """Sectors that a request touches, on average over where its runs start.

        >>> Requests(4, 128, 4, 1000).sectors, Requests(16, 4096, 16, 8000).sectors, Requests(4, 4, 4, 1000).sectors
        (4.875, 16.5, 32.0)

        Runs that lie close together share sectors, 12 bytes every 16:
        >>> Requests(4, 12, 4, 16).sectors
        6.333333333333333
        """
        asked = self.lanes * self.access
        starts = range(0, SECTOR, self.start)
        of_run = sum(-(-(start + self.run) // SECTOR) for start in starts) / len(starts)
        apart = asked / self.run * of_run + self._cut_sectors(asked)
        together = asked / self.run * self.step / SECTOR + 1 if self.run < asked else apart
        most = self.lanes * -(-self.access // SECTOR) if self.start >= self.access else math.inf
        return max(min(apart, together, math.ceil(self.span / SECTOR), most), self.ideal)

    def _cut_sectors(self, asked: int) -> float:
        """The share of requests that begin inside a sector of a run, which the request before has touched too."""
        step = math.gcd(asked, self.run)
        places = range(0, min(self.run, 64 * step), step)
        begun = [place and (start + place) % SECTOR for start in range(0, SECTOR, self.start) for place in places]
        return sum(map(bool, begun)) / len(begun)

    @property
    def excess(self) -> float:
        """Sectors touched over the ideal: 1 is best."""
        return self.sectors / self.ideal


def requests(plan: KernelPlan, source_phase: int = 0, target_phase: int = 0) -> tuple[Requests | None, Requests]:
    """Both sides of a launch between addresses with these remainders modulo 16; no source where nothing is read.

    Addresses that are multiples of 16 are taken to be multiples of 32, as allocators give them.
    """
    reads = all(axis.bound for axis in plan.axes)
    return _side(plan, "source", source_phase) if reads else None, _side(plan, "target", target_phase)


def _side(plan: KernelPlan, side: str, phase: int) -> Requests:
    number, field, width = ("source", "target").index(side), f"{side}_stride", plan.element_bytes
    sizes = [axis.bound if side == "source" else axis.extent for axis in plan.axes]
    access, useful = plan.reads if side == "source" else Access(plan.vector_bytes)
    if plan.runs:
        run = plan.runs[number]
        steps = [step for axis in plan.axes if (step := abs(getattr(axis, field))) >= run]
        steps += [run] * (run < math.prod(sizes))
    else:
        run, steps = _run(plan, sizes, number, field)
    start = math.gcd(SECTOR, phase, *(step * width for step in steps))
    if any(getattr(axis, field) == -1 for axis in plan.axes):  # such a run ends where the buffer begins
        start = width
    if plan.kind.in_vectors or access > width:  # whole vectors or words, whatever they hold
        start = max(start, min(access, SECTOR))
    lanes = min(plan.lanes[number], math.ceil(math.prod(sizes) * width / access))
    run_bytes = run * width
    if not steps:  # a single run, of which only the last request takes less than all it could
        run_bytes = -(-run_bytes // (lanes * access)) * lanes * access
    span = phase + (1 + sum((size - 1) * abs(getattr(axis, field)) for size, axis in zip(sizes, plan.axes))) * width
    following = next((abs(step) * width for step in steps if step), run_bytes)
    return Requests(access, run_bytes, start, following, lanes, span, useful)


def expected_fraction(plan: KernelPlan, source_phase: int = 0, target_phase: int = 0) -> float:
    """About how fast a large move can be beside a plain copy of as many bytes, by its memory traffic alone.

    An estimate, not a measurement: both sides weigh the same, and half of what is touched in vain comes out of the
    cache, or nothing of a gather's and of what lies unwanted between what is wanted.  At most 1: no side has less than
    its ideal.
    """
    source, target = requests(plan, source_phase, target_phase)
    sides = [
        (1 + plan.kind.wasted * (side.excess * side.useful - 1)) / side.useful for side in (source, target) if side
    ]
    return len(sides) / sum(sides)


def _walks(plan: KernelPlan) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The axes in the order in which lanes take them, on both sides, and how far each goes in one block."""
    extents = [axis.extent for axis in plan.axes]
    if not plan.kind.in_tiles:
        return range(len(extents)), range(len(extents)), extents
    sizes = [min(size, extent) for size, extent in zip(plan.tile, extents)] + [1] * (len(extents) - 2)
    return (1, 0), (0, 1), sizes


def _run(plan: KernelPlan, sizes: Sequence[int], number: int, field: str) -> tuple[int, list[int]]:
    """Elements that lanes find one after the other, and how far the starts of such runs are apart, the next one
    first.
    """
    *orders, block = _walks(plan)
    run, steps, inside = 1, [], set()
    for k in orders[number]:
        if abs(getattr(plan.axes[k], field)) != run:
            break
        inside.add(k)
        size = min(sizes[k], block[k])
        run *= size
        if size < plan.axes[k].extent:
            steps.append(run)  # the axis is cut, or padded: the run goes on elsewhere
            break
    others = [k for k in (*orders[number], *range(len(plan.axes))) if k not in inside]
    return run, [*(getattr(plan.axes[k], field) for k in dict.fromkeys(others)), *steps]


# ---- a launch in words --------------------------------------------------------------------------------


def described(plan: KernelPlan | None) -> list[str]:
    """What a plan's launch does, how it meets memory, and why it is not faster; one fact per line."""
    if plan is None:
        return ["  gpu      no launch: nothing to write"]
    tile = f", tile of {_tile_text(plan)}" if plan.tile else ""
    lines = [
        f"  gpu      {plan.family} ({plan.kernel} in {plan.file}), for buffers aligned to 16 bytes",
        f"    elements of {counted(plan.element_bytes, 'byte')}, accesses of {counted(plan.vector_bytes, 'byte')}{tile}, {plan.index_bits}-bit offsets, "
        f"{counted(math.prod(plan.grid), 'block')} of 256 threads",
    ]
    if plan.kind.is_estimated:
        source, target = requests(plan)
        met = [
            f"{name} {side.sectors:.3g} (at least {side.ideal:.3g})"
            for side, name in ((source, "read"), (target, "written"))
            if side
        ]
        lines.append(f"    sectors of 32 bytes that a warp's request touches: {', '.join(met)}")
        if math.prod(plan.grid) == 1:
            lines.append("    expected: the launch takes longer than the bytes")
        else:
            lines.append(
                f"    expected: about {expected_fraction(plan):.2f} of the speed of a plain copy, judged by the sectors: an estimate"
            )
    return lines + [f"    why not faster: {reason}" for reason in plan.reasons]


def _tile_text(plan: KernelPlan) -> str:
    """The sizes of a tile, and which is which."""
    if plan.kind.tile_text:
        return plan.kind.tile_text.format(*plan.tile)
    return tile_text(plan.tile[::-1])
