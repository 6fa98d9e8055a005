"""Pixels of a few channels: one side stores them pixel by pixel, the other channel by channel, in planes."""

from __future__ import annotations

import math
from dataclasses import replace

from gpulayout.gpu.element_width import SIDE_NAMES, SOURCE, TARGET, VECTOR_BYTES, MoveWork, as_pixels
from gpulayout.gpu.kernel_numbers import LANES, THREADS
from gpulayout.gpu.launch import SHARED_TILE_BYTES, Access, Kernel, KernelPlan, MoveFields, bits_of, planned

MOST_CHANNELS = 16
_MOST_CHUNKS = 8
_CHANNELS = Kernel(
    "channels", "channels.cu", "gpl_channels", shared_bytes=SHARED_TILE_BYTES, tile_text="{1} channels x {0} pixels"
)


def channel_plan(work: MoveWork) -> tuple[KernelPlan | None, MoveWork]:
    """The plan or None, and the work; if this kernel cannot move the pixels, the work gets the reason.

    The work's axes are the target's minor axis, the source's minor axis, then the others.
    """
    minor, source_minor, *others = work.axes
    # Some channels of the source may be left out, but gaps in the target must not be written.
    to_planes = source_minor.bound <= minor.source_stride <= min(MOST_CHANNELS, 2 * source_minor.bound)
    to_planes = to_planes and source_minor.extent <= minor.extent
    to_pixels = minor.extent == source_minor.target_stride <= MOST_CHANNELS
    pixel, channel = (minor, source_minor) if to_planes else (source_minor, minor)
    channels = pixel.source_stride if to_planes else pixel.target_stride
    if channels < 2 or not (to_planes or to_pixels):
        return None, work
    pixels = as_pixels(work, SOURCE if to_planes else TARGET)
    bits, pixels = bits_of(pixels), pixels._replace(axes=(pixel, channel, *others))
    if why := _why_not(pixels, channels, bits, to_planes):
        return None, work.because(f"{why}, so a warp does not exchange channels between its registers")
    return _pixels_plan(pixels, channels, bits, to_planes), work


def _pixels_plan(work: MoveWork, channels: int, bits: int, to_planes: bool) -> KernelPlan:
    """The plan for pixels of so many channels; the work's axes are pixels, channels, then the others."""
    pixel, channel, *others = work.axes
    # Pixels with parameters of their own take registers for these.
    has_own = work.change is not None and work.change.is_any(pixel)
    chunks, chunk = 1 if has_own else chunks_of(work.width, channels, pixel.extent, bits), chunk_pixels(work.width)
    spans = math.ceil(pixel.extent / (chunks * chunk))
    total = spans * math.prod(axis.extent for axis in others)
    macros = (
        ("GPL_CHANNELS", channels),
        ("GPL_PLANES", channel.bound),
        ("GPL_CHUNKS", chunks),
        ("GPL_TO_PLANES", int(to_planes)),
    )
    vector, word = vector_bytes(work.width, channels), max(work.width, 4)  # accesses of the pixels and of the planes
    plan = planned(
        work,
        _CHANNELS,
        word if to_planes else vector,
        math.ceil(total * LANES / THREADS),
        MoveFields(total, (spans, 1), (chunks * chunk, channels)),
        variant=macros,
    )
    if to_planes:  # channels that have no plane are read and dropped
        reads = Access(vector, channel.bound / channels)
        return replace(plan, reads=reads, runs=(channels * pixel.bound, pixel.extent))
    return replace(plan, reads=Access(word), runs=(pixel.bound, channels * pixel.extent))


def _why_not(work: MoveWork, channels: int, bits: int, to_planes: bool) -> str | None:
    """Why vectors, registers, lanes or alignment do not fit the pixels; None if they do."""
    width, (pixel, channel, *others) = work.width, work.axes
    vector, word = vector_bytes(width, channels), max(width, 4)
    # elements of the planes may be wider than those of the pixels
    word_in_memory = work.in_memory(TARGET if to_planes else SOURCE, word)
    if word_in_memory > VECTOR_BYTES:
        return f"{word // width} elements of a plane take {word_in_memory} bytes"
    if registers(width, channels) > most_registers(width, bits):
        return f"{channels} channels of {width} bytes do not fit the registers"
    if not _keeps_lanes_busy(pixel.extent, chunk_pixels(width)):
        return f"rows of {pixel.extent} pixels would leave more than a fifth of all lanes idle"
    for side, (name, phase) in enumerate(zip(SIDE_NAMES, work.phases)):
        has_pixels = (side == SOURCE) == to_planes
        needed, axes = (vector, others) if has_pixels else (word, [channel, *others])
        if phase % needed:
            return f"the {name} address is {phase} past a multiple of 16, not a multiple of {needed}"
        for step in (axis[2 + side] * width for axis in axes):
            if step % needed:
                return f"the {name} steps by {step} bytes, not a multiple of {needed}"
    return None


def registers(width: int, channels: int) -> int:
    """Registers for the pixels of a lane: a word of at least 4 bytes per channel."""
    return channels * max(width, 4) // 4


def vector_bytes(width: int, channels: int) -> int:
    """Bytes of an access on the pixel side: the largest power of two up to 16 that divides the pixels of a lane.

    >>> vector_bytes(1, 3), vector_bytes(4, 6), vector_bytes(8, 3), vector_bytes(4, 16)
    (4, 8, 8, 16)
    """
    return math.gcd(4 * registers(width, channels), VECTOR_BYTES)


def chunk_pixels(width: int) -> int:
    """Pixels that a warp exchanges at once: each lane holds one word of every plane."""
    return LANES * max(4 // width, 1)


def most_registers(width: int, bits: int) -> int:
    """Registers for what a lane holds at a time.  With more, kernels need a stack on some architecture."""
    return 32 if width in (4, 8) and bits == 32 else 28


def chunks_of(width: int, channels: int, pixels: int, bits: int = 32) -> int:
    """Chunks per warp: as many as fit the registers, but no more than keep lanes busy at the ends of rows.

    With 64-bit offsets the compilers keep the places of all planes in registers between chunks, so fewer fit.

    >>> chunks_of(4, 3, 10**6), chunks_of(4, 3, 10**6, 64), chunks_of(8, 9, 10**6), chunks_of(1, 3, 3136)
    (8, 4, 1, 7)
    """
    most = min((most_registers(width, bits) if bits == 32 else 12) // registers(width, channels), _MOST_CHUNKS)
    return next((chunks for chunks in range(most, 1, -1) if _keeps_lanes_busy(pixels, chunks * chunk_pixels(width))), 1)


def _keeps_lanes_busy(pixels: int, span: int) -> bool:
    return 4 * math.ceil(pixels / span) * span <= 5 * pixels
