"""The fields of a layout one by one: what each may be, and how it prints.  Tiles have a file of their own.

Split configurations say where XLA splits an array across several memories.  They are kept, compared and printed; a
shape with one does not describe one buffer, so it cannot be moved.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, get_args

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen
from gpulayout.layout.padding import PaddingValue, Scalar, plain_scalar, value_text

# The limits of every field that is one number.  XLA stores the memory space in a signed byte.
NUMBERS = {
    "tail_padding_alignment": (1, checks.INT64_MAX),
    "element_size_in_bits": (0, checks.INT64_MAX),
    "memory_space": (0, 127),
    "dynamic_shape_metadata_prefix_bytes": (0, checks.INT64_MAX),
}
Pair = tuple[SupportsIndex, Sequence[SupportsIndex]]  # a split configuration as (dimension, split_indices)
BitOrder = Literal["little", "big"]
BIT_ORDERS: tuple[BitOrder, ...] = get_args(BitOrder)
_OTHER_WORDS: dict[BitOrder, str] = {  # in lower case
    "big": "(big|high|msb|most).*|be|bo|bitorder",
    "little": "(little|low|lsb|least).*|le",
}
SPARSE_TYPES = (ElementType.U8, ElementType.U16, ElementType.U32, ElementType.U64)


def number(field: str, value: object) -> int:
    """`value` as an int within the limits of the field."""
    least, most = NUMBERS[field]
    whole = checks.whole_number(field, value)
    if not least <= whole <= most:
        limits = f"{least}..{most if most != checks.INT64_MAX else '2^63-1'}"
        raise LayoutError(f"{field} {checks.number_text(whole)} is not in {limits}")
    return whole


def meant_order(word: str) -> BitOrder | None:
    """The bit order that another word for it means.

    >>> meant_order("MSB"), meant_order("low"), meant_order("bitorder"), meant_order("X")
    ('big', 'little', 'big', None)
    """
    letters = re.sub("[^a-z]", "", word[:40].lower())
    return next((order for order, words in _OTHER_WORDS.items() if re.fullmatch(words, letters)), None)


def bit_order(value: object, bits: int) -> BitOrder:
    """One of NumPy's two words; "big" only where elements of so many bits share bytes."""
    if not isinstance(value, str):
        raise LayoutTypeError(
            f"bit_order {checks.value_text(value)} is {checks.type_text(value)}: write 'little' or 'big'"
        )
    if value not in BIT_ORDERS:
        meant = meant_order(value)
        hint = f": write bit_order={meant!r}" if meant else ""
        raise LayoutError(f"bit_order {checks.value_text(value)} is neither 'little' nor 'big'{hint}")
    if value == "big" and bits not in (1, 2, 4):
        raise LayoutError(
            f"bit_order 'big' orders packed elements within a byte, but element_size_in_bits is "
            f"{checks.number_text(bits)}: write element_size_in_bits=1, 2 or 4, or bit_order='little'"
        )
    return "big" if value == "big" else "little"


def padded_dimensions(value: Any, order: tuple[int, ...]) -> tuple[int, ...] | None:
    """One width for every dimension, or None."""
    if value is None:
        return None
    widths = checks.sizes("padded_dimensions", value)
    if len(widths) != len(order):
        raise LayoutError(
            f"padded_dimensions {checks.shown(widths)} has {checks.counted(len(widths), 'entry')}: "
            f"minor_to_major {checks.shown(order)} orders {checks.counted(len(order), 'dimension')}"
        )
    return widths


def padding_value(value: object, widths: tuple[int, ...] | None) -> PaddingValue | Scalar | None:
    """A pad value; INVALID, the proto's unset value, becomes None and is refused with padded dimensions."""
    if value is None:
        return None
    fill = plain_scalar(value)
    if fill is not PaddingValue.INVALID:
        return fill
    if widths is not None:
        raise LayoutError(
            f"padding_value INVALID cannot fill padded_dimensions {checks.shown(widths)}: "
            "use None for zeros, or a named value"
        )
    return None


def sparse_type(field: str, value: object) -> ElementType | None:
    """An unsigned integer type of whole bytes, or None."""
    if value is None:
        return None
    element_type = ElementType.of(value)
    if element_type not in SPARSE_TYPES:
        raise LayoutError(f"{field} {element_type} is not one of {', '.join(SPARSE_TYPES)}")
    return element_type


class MemorySpace(enum.IntEnum):
    """The memory spaces that XLA has names for; backends give meanings to other numbers.

    Examples
    --------
    >>> from gpulayout import Layout
    >>> print(Layout((1, 0), memory_space=MemorySpace.HOST))
    {1,0:S(5)}
    """

    DEFAULT = 0  # the device's main memory
    GENERIC_FAST = 1  # small and near the processor: a TPU's VMEM
    HOST = 5  # the host's memory, pinned
    UNPINNED_HOST = 6


@dataclass(frozen=True, repr=False)
class SplitConfig(Frozen):
    """Where one dimension is cut.  Immutable and hashable.

    Parameters
    ----------
    dimension : int
        *Physical* dimension number, 0 being the most major; every other field of a layout uses logical numbers.
    split_indices : iterable of int
        The first index of every part except the first: ascending, each at least 1.

    Raises
    ------
    LayoutError
        The indices are empty, not ascending or less than 1.

    Notes
    -----
    The model is XLA's `SplitConfig`.

    Examples
    --------
    >>> str(SplitConfig(0, (30, 70)))
    '(0:30,70)'
    """

    dimension: int
    split_indices: tuple[int, ...]

    if TYPE_CHECKING:  # what a caller may write

        def __init__(self, dimension: SupportsIndex, split_indices: Iterable[SupportsIndex]) -> None: ...

    def __post_init__(self) -> None:
        self._set("dimension", checks.count("split_configs dimension", self.dimension))
        points = checks.sizes("split_indices", self.split_indices)
        if not points:
            raise LayoutError(f"split_indices () is empty: dimension {self.dimension} needs at least one")
        before = 0
        for entry, point in enumerate(points):
            if point <= before:
                raise LayoutError(
                    f"split_indices {checks.shown(points)} are not ascending from 1: entry {entry} is {point}"
                )
            before = point
        self._set("split_indices", points)

    def __str__(self) -> str:
        """The text form, `(0:30,70)`, which follows SC in a layout."""
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"

    def __repr__(self) -> str:
        return f"SplitConfig({self.dimension}, {self.split_indices})"


def as_split_configs(value: object, rank: int) -> tuple[SplitConfig, ...]:
    """A tuple of split configurations of distinct dimensions below `rank`; (dimension, indices) pairs are accepted."""
    if type(value) is tuple and not value:
        return ()
    if not isinstance(value, (tuple, list)):
        raise LayoutTypeError(f"split_configs {checks.value_text(value)} is not a sequence of split configurations")
    configs = tuple(entry if isinstance(entry, SplitConfig) else _of_pair(entry) for entry in value)
    seen = set()
    for config in configs:
        if config.dimension >= rank:
            raise LayoutError(
                f"split_configs {texts(configs)} cuts physical dimension {config.dimension}: "
                f"there {'is' if rank == 1 else 'are'} {checks.counted(rank, 'dimension')}"
            )
        if config.dimension in seen:
            raise LayoutError(f"split_configs {texts(configs)} cuts physical dimension {config.dimension} twice")
        seen.add(config.dimension)
    return configs


def _of_pair(entry: object) -> SplitConfig:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        raise LayoutTypeError(
            f"split_configs entry {checks.value_text(entry)} is neither a SplitConfig nor a pair "
            "(dimension, split_indices)"
        )
    return SplitConfig(*entry)


def texts(configs: Iterable[SplitConfig]) -> str:
    """The text of several configurations, which follows SC in a layout; cut off when it is long."""
    return checks.clipped("".join(map(str, configs)), 100)


def properties_text(layout: Any) -> str:
    """The text after the colon of a `Layout`: this library's two properties, then XLA's in XLA's fixed order.

    Properties with their default value are left out.
    """
    widths, bits, order = layout.padded_dimensions, layout.element_size_in_bits, layout.bit_order
    parts = (
        "" if widths is None else f"PD({','.join(map(str, widths))})",
        "" if layout.padding_value is None else f"PV({value_text(layout.padding_value)})",
        f"T{''.join(map(str, layout.tiles))}" if layout.tiles else "",
        f"L({layout.tail_padding_alignment})" if layout.tail_padding_alignment != 1 else "",
        "" if layout.index_type is None else f"#({layout.index_type})",
        "" if layout.pointer_type is None else f"*({layout.pointer_type})",
        f"E({bits}{',big' * (order == 'big')})" if bits else "",
        f"S({layout.memory_space})" if layout.memory_space else "",
        f"SC{''.join(map(str, layout.split_configs))}" if layout.split_configs else "",
        f"M({layout.dynamic_shape_metadata_prefix_bytes})" if layout.dynamic_shape_metadata_prefix_bytes else "",
    )
    return "".join(parts)


def after_sizes(layout: object) -> str:
    """A layout as the text of a shape ends with it: XLA leaves out that of a scalar, and `f32[]{}` is not a shape.

    >>> after_sizes("{1,0}"), after_sizes("{}")
    ('{1,0}', '')
    """
    text = str(layout)
    return text if text != "{}" else ""
