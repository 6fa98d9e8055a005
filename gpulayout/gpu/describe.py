"""A launch in words: its kernel, its memory traffic, its expected speed, and why it is not faster."""

from __future__ import annotations

import math

from gpulayout.gpu.devices import Device
from gpulayout.gpu.estimate import estimate, estimate_text
from gpulayout.gpu.kernel_costs import arithmetic_instructions
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import requests
from gpulayout.layout.checks import counted
from gpulayout.moves.move import tile_text


def described(plan: KernelPlan | None, device: Device | None = None) -> list[str]:
    """A plan's launch, its memory traffic, and why it is not faster; one fact per line.

    Without a device, its speed is that on the one at hand.
    """
    if plan is None:
        return ["  gpu      no launch: nothing to write"]
    kernel, *facts = launch_facts(plan)
    found = estimate(plan, device=device)
    facts += [estimate_text(found)] if found else []
    facts += [f"why not faster: {reason}" for reason in plan.reasons]
    return [f"  gpu      {kernel}", *(f"    {fact}" for fact in facts)]


def launch_facts(plan: KernelPlan) -> list[str]:
    """The kernel, how it moves the elements, and its memory traffic if that can be estimated: the same on every GPU."""
    tile = ""
    if plan.tile:
        named = plan.kind.tile_text
        tile = f", tile of {named.format(*plan.tile) if named else tile_text(plan.tile[::-1])}"
    facts = [
        f"{plan.family} ({plan.kernel} in {plan.file}), for buffers aligned to 16 bytes",
        f"{_accesses(plan)}{tile}, {plan.index_bits}-bit offsets, "
        f"{counted(math.prod(plan.grid), 'block')} of 256 threads",
    ]
    if plan.arithmetic:
        facts.append(
            f"{plan.arithmetic.form} on the way from {plan.arithmetic.source} to {plan.arithmetic.target}, about "
            f"{counted(round(arithmetic_instructions(plan.arithmetic)), 'instruction')} for each element"
        )
    if not plan.kind.is_estimated:
        return facts
    source, target = requests(plan)
    sectors = [
        f"{name} {side.sectors:.3g} (at least {side.ideal:.3g})"
        for side, name in ((source, "read"), (target, "written"))
        if side
    ]
    return [*facts, f"sectors of 32 bytes that a warp's request touches: {', '.join(sectors)}"]


def _accesses(plan: KernelPlan) -> str:
    """The sizes of elements and of accesses; both sides' if elements change on the way."""
    if plan.arithmetic is None:
        sizes = counted(plan.reads.nbytes, "byte"), counted(plan.vector_bytes, "byte")
        each = f"accesses of {sizes[0]}" if sizes[0] == sizes[1] else f"reads of {sizes[0]}, writes of {sizes[1]}"
        return f"elements of {counted(plan.element_bytes, 'byte')}, {each}"
    given, made = plan.in_memory
    read, written = plan.reads.nbytes // plan.element_bytes * given, plan.vector_bytes // plan.element_bytes * made
    return (
        f"elements of {counted(given, 'byte')} become {counted(made, 'byte')}, reads of {counted(read, 'byte')}, "
        f"writes of {counted(written, 'byte')}"
    )
