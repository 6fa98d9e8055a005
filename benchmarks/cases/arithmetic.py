"""Conversions with arithmetic on the way, and what each must reach beside the peers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from gpulayout import Shape

RELAYOUT, CHAIN, IN_PLACE, OPENCV = "relayout and NumPy", "torch chain", "torch in place", "OpenCV blobFromImages"
QUANTIZED, CAST_ALONE = "torch quantize_per_channel", "NumPy cast alone"
CAST_FIRST, TURN_FIRST = "torch cast, then turn", "torch turn, then cast"
CAST_BEFORE = "torch cast, then relayout"  # the relayout is ours
LARGE = 50e6  # bytes of an output from which torch's chain must take twice our time


class Goal(NamedTuple):
    """A peer's time over ours that must be reached, with this kind of output: "warm" or "fresh".

    bound   a contender that is fast enough to be reached instead; "" if there is none
    """

    peer: str
    output: str
    ratio: float
    bound: str = ""


class Conversion(NamedTuple):
    """A dense array that changes its element type, and the order of its dimensions or not.

    order   the dimensions of the result, major first
    form    "cast", "scale and shift" with a factor and a shift for each index of `channel`, or "quantise"
    channel the dimension of the source with a parameter for each of its indices; None for a plain cast
    """

    name: str
    source_type: str
    target_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...]
    form: str = "cast"
    channel: int | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.dimensions)

    @property
    def bytes_written(self) -> int:
        return self.elements * Shape(self.target_type, ()).itemsize

    @property
    def bytes_moved(self) -> int:
        return self.elements * Shape(self.source_type, ()).itemsize + self.bytes_written

    @property
    def result_dimensions(self) -> tuple[int, ...]:
        return tuple(self.dimensions[dim] for dim in self.order)

    @property
    def is_turned(self) -> bool:
        return self.order != tuple(range(len(self.order)))

    def parameter_dimensions(self, dimensions: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a parameter that broadcasts against an array with these dimensions in this order."""
        return tuple(size if dim == self.channel else 1 for size, dim in zip(dimensions, order))

    def quick(self) -> Conversion:
        """The same with tiny arrays."""
        return self._replace(name=f"{self.name}, quick", dimensions=tuple(min(size, 12) for size in self.dimensions))

    @property
    def goals(self) -> tuple[Goal, ...]:
        """What must be reached; our own two passes must never be faster."""
        found = [Goal(RELAYOUT, "warm", 1.0), Goal(RELAYOUT, "fresh", 1.0)]
        if self.form == "cast" and self.is_turned:
            found += [Goal(peer, "warm", 1.0) for peer in (CAST_FIRST, TURN_FIRST, CAST_BEFORE)]
        elif self.form == "cast":
            found += [Goal(IN_PLACE, "warm", 0.8)]
        if self.form == "scale and shift" and self.target_type == "f32":
            found += [Goal(IN_PLACE, "warm", 1.0), Goal(OPENCV, "fresh", 3.0)]
            found += [Goal(CHAIN, "fresh", 2.0)] if self.bytes_written >= LARGE else []
        elif self.form == "quantise":
            found += [Goal(QUANTIZED, "fresh", 1.5), Goal(CHAIN, "fresh", 1.5)]
        elif self.source_type == "f32" and self.target_type == "bf16":
            found += [Goal(CHAIN, "fresh", 1.5)]
        elif self.source_type == "f32":
            found += [Goal(CHAIN, "fresh", 1.0, CAST_ALONE)]
        return tuple(found)


SIDE = 4096
IMAGES = {"224x224": (224, 224), "640x640": (640, 640), "1080p": (1080, 1920)}
MATRICES = (("f32", "bf16", True), ("f32", "f16", True))
MATRICES += tuple((source, "f32", turned) for source in ("bf16", "f16") for turned in (False, True))
CASTS = (("f32", "bf16"), ("f32", "f16"), ("f32", "f8e4m3fn"), ("f32", "f8e5m2"), ("f32", "f64"))
CASTS += (("f64", "bf16"), ("f64", "f16"), ("f64", "f32"))
ACTIVATIONS = (32, 64, 56, 56)  # N C H W


def conversions() -> Iterator[Conversion]:
    """Images, then matrices and activations to other floats, then matrices to integers with a scale for each row."""
    for target in ("f32", "f16", "bf16"):
        for batch in (1, 32):
            for name, sizes in IMAGES.items():
                yield Conversion(
                    f"u8 HWC to {target} CHW, {batch} x {name}",
                    *("u8", target, (batch, *sizes, 3), (0, 3, 1, 2), "scale and shift", 3),
                )
    for source, target, turned in MATRICES:
        name = f"{source} to {target}{', turned' if turned else ''}, {SIDE}x{SIDE}"
        yield Conversion(name, source, target, (SIDE, SIDE), (1, 0) if turned else (0, 1))
    for source, target in CASTS:
        for sizes in ((SIDE, SIDE), (SIDE // 16, SIDE // 4)):
            yield Conversion(f"{source} to {target}, {sizes[0]}x{sizes[1]}, no move", source, target, sizes, (0, 1))
    count, channels, *sizes = ACTIVATIONS
    for source, target in (("f32", "f16"), ("f32", "bf16"), ("f16", "f32"), ("bf16", "f32")):
        name = f"{source} to {target}, {'x'.join(map(str, ACTIVATIONS))}"
        yield Conversion(f"{name}, NCHW to NHWC", source, target, ACTIVATIONS, (0, 2, 3, 1))
        yield Conversion(f"{name}, NHWC to NCHW", source, target, (count, *sizes, channels), (0, 3, 1, 2))
    for turned in (False, True):
        name = f"f32 to s8 per channel{', turned' if turned else ''}, {SIDE}x{SIDE}"
        yield Conversion(name, "f32", "s8", (SIDE, SIDE), (1, 0) if turned else (0, 1), "quantise", 0)
