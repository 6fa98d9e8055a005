"""The arithmetic of a launch: its types and steps as kernels/element.cuh takes them, and where its parameters are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, steps_number, type_number
from gpulayout.moves.move import Axis

CHANGE_MACROS = (
    "GPL_SOURCE_TYPE",
    "GPL_TARGET_TYPE",
    "GPL_SATURATE",
    "GPL_STEPS",
    "GPL_CODE_BYTES",
    "GPL_COMPONENTS",
    "GPL_PARAMETERS",
    "GPL_VARIES",
)
ALONG_OTHERS, ALONG_AXIS_0 = 1, 2  # where a parameter changes, in GPL_VARIES


@dataclass(frozen=True)
class Change:
    """The arithmetic of a launch.

    axes      of the move, in elements
    strides   for each axis, a stride in each parameter
    starts    for each parameter, the place of the value for the first element
    phases    elements from a multiple of 16 bytes to the first, in the source and in the target
    """

    arithmetic: Arithmetic
    axes: tuple[Axis, ...] = ()
    strides: tuple[tuple[int, ...], ...] = ()
    starts: tuple[int, ...] = ()
    phases: tuple[int, int] = (0, 0)

    @property
    def varies(self) -> bool:
        """True if some parameter has more than one value."""
        return any(map(any, self.strides))

    def is_any(self, minor: Axis) -> bool:
        """True if elements that follow each other along this axis have other parameters."""
        return any(self.strides_of(minor))

    @property
    def reach(self) -> int:
        """The largest place in a parameter, and one that is as far below 0."""
        moved = [[(axis.extent - 1) * abs(step) for step in steps] for axis, steps in zip(self.axes, self.strides)]
        return max((start + sum(column) for start, column in zip(self.starts, zip(*moved))), default=0)

    def bytes_of(self, side: int) -> int:
        """Bytes of an element of a side."""
        return (self.arithmetic.source, self.arithmetic.target)[side].itemsize

    def strides_of(self, axis: Axis) -> tuple[int, ...]:
        """The strides in the parameters of an axis of a plan: one of the move's, or steps over several of its places.

        Only one can be meant, because no two places of the target are the same.
        """
        for own, strides in zip(self.axes, self.strides):
            steps = axis.target_stride // own.target_stride
            if (steps * own.source_stride, steps * own.target_stride) == axis[2:] and 0 < steps < max(own.extent, 2):
                return tuple(steps * stride for stride in strides)
        return (0,) * len(self.starts)

    def macros(self, minor: Axis, axes: Sequence[Axis]) -> tuple[tuple[str, int], ...]:
        """The macros of a kernel whose axis 0 is `minor`, which may be one of all `axes`."""
        along = self._along(minor, axes)
        return (
            *arithmetic_macros(self.arithmetic),
            ("GPL_PARAMETERS", len(self.starts)),
            ("GPL_VARIES", sum(bits << 2 * number for number, bits in enumerate(along))),
        )

    def is_only(self, minor: Axis, axes: Sequence[Axis]) -> bool:
        """True if parameters change along this axis, one of all `axes`, and along no other."""
        return {*self._along(minor, axes)} - {0} == {ALONG_AXIS_0}

    def _along(self, minor: Axis, axes: Sequence[Axis]) -> list[int]:
        """For each parameter, where it changes."""
        own, others = self.strides_of(minor), [self.strides_of(axis) for axis in axes if axis[2:] != minor[2:]]
        return [
            ALONG_AXIS_0 * bool(own[number]) | ALONG_OTHERS * any(strides[number] for strides in others)
            for number in range(len(self.starts))
        ]


def arithmetic_macros(arithmetic: Arithmetic) -> tuple[tuple[str, int], ...]:
    """The macros of a kernel for this arithmetic; ValueError if it swaps bytes, which no array on a GPU needs."""
    if arithmetic.swapped:
        raise ValueError(f"{arithmetic.source} with swapped bytes is for the CPU: no kernel swaps them")
    return (
        ("GPL_SOURCE_TYPE", type_number(arithmetic.source.component)),
        ("GPL_TARGET_TYPE", type_number(arithmetic.target.component)),
        ("GPL_SATURATE", int(arithmetic.saturate)),
        ("GPL_STEPS", steps_number(arithmetic.steps)),
        ("GPL_CODE_BYTES", 8 if is_wide(arithmetic) else 4),
        ("GPL_COMPONENTS", parts_of(arithmetic)),
    )


def parts_of(arithmetic: Arithmetic) -> int:
    """Numbers of an element, each of which is cast: two of a complex one."""
    return arithmetic.source.itemsize // arithmetic.source.component.itemsize


def is_wide(arithmetic: Arithmetic) -> bool:
    """True if a kernel computes this arithmetic in 64 bits."""
    widths = arithmetic.source.component.itemsize, arithmetic.target.component.itemsize
    return 8 in widths or (bool(arithmetic.steps) and arithmetic.compute is ElementType.F64)
