"""What the codes of the floats mean: the one description, which Python, CUDA and C++ read.

A code is sign, exponent and mantissa, as IEEE 754 has them; the numbers of one sign have ascending codes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Special = Literal["ieee", "nan", "finite", "unsigned_zero"]


class FloatFormat(NamedTuple):
    """How the codes of a type are laid out.

    bias      what the exponent of a code is larger by
    special   the codes that are no numbers: "ieee" has infinities and nans, as IEEE 754 has them; "nan" is nan where
              all bits below the sign are ones; "finite" has none; of "unsigned_zero" the code where -0 would be is nan
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: Special = "ieee"

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.exponent_bits + self.mantissa_bits

    @property
    def infinity(self) -> int | None:
        """The code of infinity; None if the type has none."""
        return self.sign - (1 << self.mantissa_bits) if self.special == "ieee" else None

    @property
    def nan(self) -> int | None:
        """The code of a nan; None if the type has none."""
        if self.special == "ieee":
            return self.sign - (1 << self.mantissa_bits - 1)
        return {"nan": self.sign - 1, "unsigned_zero": self.sign, "finite": None}[self.special]

    @property
    def largest(self) -> int:
        """The code of the largest finite number."""
        if self.special == "ieee":
            return self.sign - (1 << self.mantissa_bits) - 1
        return self.sign - 2 if self.special == "nan" else self.sign - 1

    def too_large(self, saturate: bool) -> int:
        """The code for numbers that are too large."""
        if self.infinity is not None:
            return self.infinity
        return self.largest if saturate or self.nan is None else self.nan


FORMATS = {
    "f64": FloatFormat(11, 52, 1023),
    "f32": FloatFormat(8, 23, 127),
    "f16": FloatFormat(5, 10, 15),
    "bf16": FloatFormat(8, 7, 127),
    "f8e5m2": FloatFormat(5, 2, 15),
    "f8e4m3": FloatFormat(4, 3, 7),
    "f8e3m4": FloatFormat(3, 4, 3),
    "f8e4m3fn": FloatFormat(4, 3, 7, "nan"),
    "f8e5m2fnuz": FloatFormat(5, 2, 16, "unsigned_zero"),
    "f8e4m3fnuz": FloatFormat(4, 3, 8, "unsigned_zero"),
    "f8e4m3b11fnuz": FloatFormat(4, 3, 11, "unsigned_zero"),
    "f6e3m2fn": FloatFormat(3, 2, 3, "finite"),
    "f6e2m3fn": FloatFormat(2, 3, 1, "finite"),
    "f4e2m1fn": FloatFormat(2, 1, 1, "finite"),
}
