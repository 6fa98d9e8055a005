"""Conversions on the way: images to planes, matrices to other floats, quantised weights and activations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpulayout import ElementType, Layout, Shape
from gpulayout.moves.arithmetic import Arithmetic, Step

SCALE, NORMALISE, QUANTISE, DEQUANTISE = "scale and shift", "normalise", "quantise", "dequantise"
STEPS = {
    "cast": (),
    SCALE: (Step("multiply", 0), Step("add", 1)),
    NORMALISE: (Step("divide", 0), Step("subtract", 1), Step("divide", 2)),
    QUANTISE: (Step("divide", 0), Step("round"), Step("add", 1)),
    DEQUANTISE: (Step("subtract", 0), Step("multiply", 1)),
}


@dataclass(frozen=True)
class ConvertCase:
    """A dense array whose elements change while they move.

    order      the target's dimensions, most major first
    form       what becomes of an element: a plain cast, or one of the names above
    parameter  sizes of each parameter, one for each dimension; they divide the array's
    """

    name: str
    source_type: str
    target_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...]
    form: str = "cast"
    parameter: tuple[int, ...] = ()
    group: str = "arithmetic"
    kind: str = "convert"
    goal: None = None  # nothing was measured that one could come from

    @property
    def source(self) -> Shape:
        return Shape(self.source_type, self.dimensions)

    @property
    def target(self) -> Shape:
        return Shape(self.target_type, self.dimensions, Layout.from_major_to_minor(self.order))

    @property
    def bytes_moved(self) -> int:
        return self.source.nbytes + self.target.nbytes

    @property
    def bytes_allocated(self) -> int:
        """One input, one output, and an f32 array between the steps of plain code."""
        return self.bytes_moved + 4 * math.prod(self.dimensions)

    @property
    def arithmetic(self) -> Arithmetic:
        """What happens to each element; all parameters have the same sizes."""
        return Arithmetic(
            ElementType(self.source_type), ElementType(self.target_type), True, STEPS[self.form], self.form
        )

    @property
    def is_turned(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def _images(form: str) -> list[ConvertCase]:
    """Pixels H W C to planes C H W, with parameters for each channel."""
    named = {"32x224x224x3": (32, 224, 224, 3), "1080p": (1, 1080, 1920, 3), "128x224x224x3": (128, 224, 224, 3)}
    words = "scaled" if form == SCALE else "normalised"
    return [
        ConvertCase(f"u8 HWC to f32 CHW {words}, {name}", "u8", "f32", sizes, (0, 3, 1, 2), form, (1, 1, 1, 3))
        for name, sizes in named.items()
    ]


def _matrix(source: str, target: str, side: int, turned: bool = False) -> ConvertCase:
    name = f"{source} to {target}{', turned' if turned else ''}, {side}x{side}"
    return ConvertCase(name, source, target, (side, side), (1, 0) if turned else (0, 1))


CONVERT_CASES = [
    *_images(SCALE),
    *_images(NORMALISE),
    *(_matrix("f32", "bf16", side, turned) for turned in (False, True) for side in (4096, 8192)),
    *(_matrix("f32", "f8e4m3fn", side, True) for side in (4096, 8192)),
    _matrix("bf16", "f32", 8192),
    ConvertCase("s8 to f16, a scale for a row, 8192", "s8", "f16", (8192, 8192), (0, 1), DEQUANTISE, (8192, 1)),
    ConvertCase("s8 to f16, a scale for 128, 8192", "s8", "f16", (8192, 8192), (0, 1), DEQUANTISE, (8192, 64)),
    ConvertCase("f32 to s8, a scale for a row, 8192", "f32", "s8", (8192, 8192), (0, 1), QUANTISE, (8192, 1)),
    ConvertCase("f16 NHWC to f32 NCHW 256x56x56x64", "f16", "f32", (256, 56, 56, 64), (0, 3, 1, 2)),
]
