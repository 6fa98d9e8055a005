"""A move in words: what was merged, which kernel was chosen and why not a faster one, and how many bytes move."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.cpu import choose_plan, native
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.devices import Device
from gpulayout.gpu.estimate import estimate, estimate_text
from gpulayout.gpu.kernel_costs import arithmetic_instructions
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.many import JobMove, many_plan
from gpulayout.gpu.traffic import requests
from gpulayout.layout.checks import ByteCount, byte_count, counted
from gpulayout.layout.digits import Digit
from gpulayout.layout.padding import value_text
from gpulayout.layout.patterns import named_dimensions
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.blocks import NoSmallerBlock, box_grid, passes
from gpulayout.moves.convert_pieces import Stages
from gpulayout.moves.move import Axis, tile_text
from gpulayout.moves.pieces import AnyMove, Pieces

_WITH = {"multiply": "by ", "divide": "by ", "add": "", "subtract": ""}


class Explanation(str):
    """Text that the interactive prompt shows without quotes and escapes."""

    def __repr__(self) -> str:
        return str(self)


def explain(
    pieces: Pieces,
    source: Shape,
    target: Shape,
    device: Device | None = None,
    *,
    names: Sequence[str] | None = None,
    stages: Stages | None = None,
) -> Explanation:
    """What a relayout from `source` to `target` does, one fact per line; details are those of the first piece.

    The expected speed is that on the device, without one on the GPU that this process uses.

    names    of the dimensions
    stages   of a transfer with arithmetic, whose second stage the pieces are
    """
    move = pieces[0].move
    read, written = moved_bytes(pieces, stages)
    elements, places = (sum(getattr(piece.move, name) for piece in pieces) for name in ("element_count", "place_count"))
    if source.is_packed or target.is_packed:  # the pieces may count bytes that hold several elements each
        elements, places = source.element_count, target.buffer_size
    size = counted(*((source.bits_per_element, "bit") if source.is_packed else (source.itemsize, "byte")))
    lines = [
        f"relayout {source} -> {target}",
        f"  read     {counted(read, 'byte')}: {counted(elements, 'element')} of {size}",
        f"  written  {counted(written, 'byte')}: {counted(places, 'place')}, "
        f"{_padding(places - elements, places, target)}",
        *([] if stages is None else _stages(stages, source, target)),
        *_pieces(pieces),
    ]
    if move.has_loops:
        merged = f"{counted(source.rank, 'dimension')} into {counted(len(move.axes), 'axis')}"
        dropped = source.rank - len({dim for dims in move.dimensions for dim in dims}) if move.element_count else 0
        rest = f"; {dropped} of size 1 dropped" if dropped else ""
        lines.append(f"  merged   {merged}, minor first in the target{rest}")
    labels = axis_labels(move, target, named_dimensions(names, source.rank, source))
    for number, (axis, name) in enumerate(zip(move.axes, labels)):
        padded = f" ({axis.extent - axis.bound} of them padding)" if axis.is_padded else ""
        lines.append(
            f"    axis {number}  {name}: {counted(axis.extent, 'place')}{padded}, a step is "
            f"{counted(axis.source_stride, move.stride_unit)} in the source, {axis.target_stride} in the target"
        )
    if stages is None and same_buffer(source, target):
        lines.append("  bitcast  both are the same bytes: no move is needed")
    if move.place_count:
        lines.append(f"  engine   {native.engine()}")
    lines.append(f"  cpu      {choose_plan.describe(move)}")
    swaps = stages is not None and stages.arithmetic.swapped
    lines += ["  gpu      no launch: the CPU swaps bytes"] if swaps else described(kernel_plan(move), device)
    return Explanation("\n".join(lines))


def moved_bytes(pieces: Pieces, stages: Stages | None = None) -> tuple[int, int]:
    """Bytes that a transfer reads from its source and writes to its target."""
    first, last = (pieces, pieces) if stages is None else (stages.first, stages.last)
    return sum(piece.move.bytes_read for piece in first), sum(piece.move.bytes_written for piece in last)


def arithmetic_text(stages: Stages) -> str:
    """What happens to each element: "scale and shift from u8 in f32: multiply by 3 numbers, add 1 number; to bf16"."""
    arithmetic = stages.arithmetic
    source = f"{arithmetic.source}{' with swapped bytes' * arithmetic.swapped}"
    if not arithmetic.steps:
        return f"{arithmetic.form} from {source} to {arithmetic.target}"
    steps = []
    for operation, parameter in arithmetic.steps:
        count = None if parameter is None else counted(stages.counts[parameter], "number")
        steps.append(operation if count is None else f"{operation} {_WITH[operation]}{count}")
    start = f"{arithmetic.form} from {source} in {arithmetic.compute}"
    return f"{start}: {', '.join(steps)}; to {arithmetic.target}"


def _stages(stages: Stages, source: Shape, target: Shape) -> list[str]:
    """What happens to each element, and the dense arrays before and after that."""
    lines = [f"  changed  {arithmetic_text(stages)}"]
    sides = (
        (stages.before, source, "before   the source becomes"),
        (stages.after, target, "after    the target comes from"),
    )
    for pieces, shape, text in sides:
        if pieces:
            size = counted(shape.element_count * shape.itemsize, "byte")
            lines.append(f"  {text} a dense array of {shape.element_type}, {size}, by {counted(len(pieces), 'piece')}")
    return lines


def _pieces(pieces: Pieces) -> list[str]:
    """How many pieces and launches there are, and the share of the first piece, which the other lines describe."""
    if len(pieces) == 1:
        return []
    written = sum(piece.move.bytes_written for piece in pieces)
    fills = [piece.move.bytes_written for piece in pieces if not piece.move.element_count]
    parts = counted(len(pieces) - len(fills), "copy")
    if fills:
        parts += f" and {counted(len(fills), 'fill')} of {counted(sum(fills), 'byte')} of padding"
    if isinstance(pieces[0].move, ConvertMove):
        launches, reason = sum(piece.move.place_count > 0 for piece in pieces), "cut at tiles, padding and blocks"
    else:
        jobs = [JobMove("", piece.move, piece.source_offset % 16, piece.target_offset % 16) for piece in pieces]
        launches, reason = many_plan(tuple(jobs)).launch_count, "tiles are cut where the dimensions or other tiles end"
    return [
        f"  pieces   {parts}, in {counted(launches, 'launch')} on a GPU: {reason}",
        f"    the rest describes the largest piece, {pieces[0].move.bytes_written / written:.1%} of the bytes written",
    ]


def _padding(count: int, places: int, target: Shape) -> str:
    if not count:
        return "no padding"
    value = target.layout.padding_value
    shown = "zeros" if value is None else value_text(value)
    return f"{count} of them padding ({shown}, {count / places:.1%})"


def picture_facts(pieces: Pieces, stages: Stages | None = None) -> list[str]:
    """What the picture of a relayout says at its top: the facts of `explain` that hold on every GPU.

    The launch is that of the largest piece, for buffers aligned to 16 bytes.
    """
    read, written = moved_bytes(pieces, stages)
    facts = [f"reads {counted(read, 'byte')}, writes {counted(written, 'byte')}"]
    if stages is not None:
        facts.append(arithmetic_text(stages))
    launch = kernel_plan(pieces[0].move)
    if launch is None:
        return [*facts, "no launch: nothing to write"]
    if len(pieces) > 1:
        share = f"{pieces[0].move.bytes_written / written:.1%} of the bytes written"
        facts.append(f"the launch is that of the largest of {len(pieces)} pieces, {share}")
    return [*facts, *launch_facts(launch)]


def explain_blocks(source: Shape, target: Shape, max_bytes: ByteCount) -> list[str]:
    """How a limit cuts a relayout: in one pass, or why not, and in the passes that suit files."""
    limit = byte_count("max_bytes", max_bytes)
    cuts = [box_grid(*pair, limit) for pair in passes(source, target, limit)]
    try:
        one = box_grid(source, target, limit)
    except NoSmallerBlock as error:
        instead = ""
        lines = [f"  blocks   none in one pass: {counted(error.max_bytes, 'byte')} are too few {error.needs}"]
    else:
        written = one.whole_target.nbytes
        instead = f", instead of {one.bytes_read + written} in one pass"
        lines = [
            f"  blocks   {counted(one.block_count, 'block')} of at most {counted(one.block_bytes, 'byte')}, source and "
            "target together",
            f"    runs   {_runs(one.source_run_bytes, one.bytes_read)} read, "
            f"{_runs(one.target_run_bytes, written)} written",
            f"    files  {counted(one.bytes_read, 'byte')} read, {written} written",
        ]
    if len(cuts) == 1:
        return lines
    scratch, moved = cuts[0].whole_target, sum(cut.bytes_read + cut.whole_target.nbytes for cut in cuts)
    return [
        *lines,
        f"  passes   two, through {counted(scratch.nbytes, 'byte')} of scratch, {scratch}:",
        *[
            f"    runs   {cut.source_run_bytes} bytes read, {cut.target_run_bytes} bytes written, in "
            f"{counted(cut.block_count, 'block')}"
            for cut in cuts
        ],
        f"    files  {moved} bytes read and written{instead}",
    ]


def _runs(length: int, nbytes: int) -> str:
    count = -(-nbytes // max(length, 1))
    return f"{'about ' if count > 1 else ''}{counted(count, 'run')} of {counted(length, 'byte')}"


# ---- what axes are called ------------------------------------------------------------------------------------------

# By the dimensions, or by the parts that a pattern splits a dimension into.  `(h=8 d) s -> h s d` makes of f32[32,16]
# the target f32[32,16]{1,0:T(4,1)}.  Its digits of dimension 0 are d, with 4 places a stride of 1 apart, and h, with 8
# a stride of 64 apart.  So an axis with a step of 1 place is d, not `(h d)`.


def axis_labels(move: AnyMove, target: Shape, labels: Sequence[str]) -> list[str]:
    """A label for every axis of a move to `target`, made of those of the dimensions that it covers.

    labels   of the dimensions; `(h d)` is one that a pattern splits

    >>> from gpulayout import plan
    >>> split = plan("f32[32,16]", "(h=8 d) s -> h s d")
    >>> axis_labels(split.move, split.target, split.names)
    ['d', 's', 'h']
    """
    parts = {dim: _parts(dim, label, target) for dim, label in enumerate(labels) if label.startswith("(")}
    unit = 8 / target.bits_per_element if move.stride_unit == "byte" else 1  # of the strides, in places
    axis_names = []
    for axis, dims in zip(move.axes, move.dimensions):
        names = [_covered(axis, parts.get(dim, ()), unit) or labels[dim] for dim in reversed(dict.fromkeys(dims))]
        axis_names.append("*".join(names) or "-")
    return axis_names


def _parts(dim: int, label: str, target: Shape) -> list[tuple[str, Digit]]:
    """The parts of a dimension, the most major first, each with its digit of the target; none if some share one."""
    names = label.strip("()").split()
    digits = [digit for digit in stride_table(target).digits if digit.dim == dim]
    if len(names) != len(digits):
        return []
    return list(zip(names, sorted(digits, key=lambda digit: digit.step, reverse=True)))


def _covered(axis: Axis, parts: Sequence[tuple[str, Digit]], unit: float) -> str:
    """The parts whose places in the target are among those of an axis; `unit` is that of its strides, in places."""
    first = axis.target_stride * unit
    end = first * axis.extent
    return "*".join(name for name, digit in parts if digit.stride < end and first < digit.stride * digit.extent)


# ---- a launch --------------------------------------------------------------------------------------------------------


def described(plan: KernelPlan | None, device: Device | None = None) -> list[str]:
    """A plan's launch, its memory traffic, and why it is not faster; one fact per line.

    Without a device, its speed is that on the one at hand.
    """
    if plan is None:
        return ["  gpu      no launch: nothing to write"]
    kernel, *facts = launch_facts(plan)
    expected = estimate(plan, device=device)
    facts += [estimate_text(expected)] if expected else []
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
        accesses = f"accesses of {sizes[0]}" if sizes[0] == sizes[1] else f"reads of {sizes[0]}, writes of {sizes[1]}"
        return f"elements of {counted(plan.element_bytes, 'byte')}, {accesses}"
    before, after = plan.in_memory
    read, written = plan.reads.nbytes // plan.element_bytes * before, plan.vector_bytes // plan.element_bytes * after
    return (
        f"elements of {counted(before, 'byte')} become {counted(after, 'byte')}, reads of {counted(read, 'byte')}, "
        f"writes of {counted(written, 'byte')}"
    )
