"""Names of memory spaces: XLA's names for the numbers in S(...) of a layout."""

import enum


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
