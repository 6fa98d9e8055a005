"""Split configurations: where XLA splits an array across several memories.

They are kept, compared and printed.  A shape with one does not describe one buffer, so it cannot be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen

Pair = tuple[SupportsIndex, Sequence[SupportsIndex]]  # a split configuration as (dimension, split_indices)


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
    found = tuple(entry if isinstance(entry, SplitConfig) else _of_pair(entry) for entry in value)
    seen = set()
    for config in found:
        if config.dimension >= rank:
            raise LayoutError(
                f"split_configs {texts(found)} cuts physical dimension {config.dimension}: "
                f"there {'is' if rank == 1 else 'are'} {checks.counted(rank, 'dimension')}"
            )
        if config.dimension in seen:
            raise LayoutError(f"split_configs {texts(found)} cuts physical dimension {config.dimension} twice")
        seen.add(config.dimension)
    return found


def texts(configs: Iterable[SplitConfig]) -> str:
    """The text of several configurations, which follows SC in a layout; cut off when it is long."""
    return checks.clipped("".join(map(str, configs)), 100)


def _of_pair(entry: object) -> SplitConfig:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        raise LayoutTypeError(
            f"split_configs entry {checks.value_text(entry)} is neither a SplitConfig nor a pair "
            "(dimension, split_indices)"
        )
    return SplitConfig(*entry)
