"""Names of memory spaces: what XLA calls the numbers that stand as S(...) in a layout."""

import enum


class MemorySpace(enum.IntEnum):
    """The memory spaces that XLA's code has names for; every other number belongs to some backend.

    >>> from gpulayout import Layout
    >>> print(Layout((1, 0), memory_space=MemorySpace.HOST))
    {1,0:S(5)}
    """

    DEFAULT = 0  # the device's main memory
    GENERIC_FAST = 1  # small and near the processor: a TPU's VMEM
    HOST = 5  # the host's memory, pinned
    UNPINNED_HOST = 6
