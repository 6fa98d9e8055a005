"""Whether two arrays share a byte: exact, where their byte ranges only say that they may.

The planes of an array lie between each other: cache[:, 0] and cache[:, 1] overlap as ranges, but share no byte.

Each byte of an array is a sum of steps from its lowest byte: for each axis 0 to size - 1 times the stride, and 0 to
itemsize - 1 times one byte.  The other array's bytes are counted down from its highest byte, so that its steps add up
too.  Then a shared byte is a way to reach one total:

    sum of step * k = total,  0 <= k <= count        for the steps of both arrays

Addresses do not show all: two arrays at different addresses can share the bytes of a file, if each is in a memory map
of its own.  Writing through one map then changes what the other reads.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

MOST_RESTS = 1000  # bounds the time of a check; where strides are multiples of each other there are 3 at a time
MAPS = "/proc/self/maps"
_STRIDED: type[Any] = type(as_strided(np.zeros(1)).base)  # as_strided puts an object between a view and its array


def share_bytes(a: Any, b: Any, distance: int) -> bool:
    """True when two arrays share a byte.  True also for strides with so little in common that it takes long to know.

    distance   bytes from the lowest byte of `a` to the lowest byte of `b`
    """
    if not (a.size and b.size):
        return False
    counts = Counter({1: a.itemsize + b.itemsize - 2})
    for array in (a, b):
        for step, count in _steps(array):
            counts[step] += count
    total = distance + sum((size - 1) * abs(stride) for size, stride in zip(b.shape, b.strides)) + b.itemsize - 1
    return _is_reached(total, counts)


def _steps(array: Any) -> list[tuple[int, int]]:
    """(step in bytes, how often at most) of the axes, with neighbours joined where no gap lies between."""
    joined: list[tuple[int, int]] = []
    for step, size in sorted(
        (abs(stride), size) for size, stride in zip(array.shape, array.strides) if size > 1 and stride
    ):
        if joined and step == joined[-1][0] * (joined[-1][1] + 1):
            step, below = joined.pop()
            size *= below + 1
        joined.append((step, size - 1))
    return joined


def _is_reached(total: int, counts: dict[int, int]) -> bool:
    """Whether steps, each taken at most so often, can add up to a total; True if there are too many ways to try.

    The largest step first: it is taken so often that the smaller ones can reach the rest, and no further.
    """
    bytes_within = counts[1]
    common = math.gcd(*(step for step in counts if step > 1))
    if common and total % common > bytes_within:  # all elements of both lie in other parts of the same period
        return False
    below = sum(step * count for step, count in counts.items())
    rests = {total}
    for step in sorted(counts, reverse=True):
        below -= step * counts[step]
        ways = [(rest, max(0, -((below - rest) // step)), min(counts[step], rest // step)) for rest in rests]
        if sum(max(0, most - least + 1) for _, least, most in ways) > MOST_RESTS:
            return True
        rests = {rest - step * times for rest, least, most in ways for times in range(least, most + 1)}
    return 0 in rests


# ---- memory maps of one file --------------------------------------------------------------------------------------


class Map(NamedTuple):
    """A part of a file in memory.

    start    address of its first byte, which is byte `offset` of the file
    file     identifies the file
    shared   False for a copy-on-write map, whose writes never reach the file
    """

    start: int
    offset: int
    file: tuple[object, ...]
    shared: bool


def overlap_in_file(read: np.ndarray, written: np.ndarray) -> bool:
    """True when writing one array may change the other through a file that both map."""
    if not _owner(written):
        return False
    return any(
        len(low) == 2 and max(low) < min(high) and share_bytes(read, written, low[1] - low[0])
        for _, low, high in by_file((read, written), 1)
    )


def by_file(arrays: Sequence[Any], first_written: int) -> list[tuple[list[int], list[int], list[int]]]:
    """For each mapped file: the indices of the arrays in it, and where their bytes in the file start and end.

    Arrays from index `first_written` on are written to.  Of these, arrays in copy-on-write maps are left out, because
    their writes stay in memory.  Arrays that are only read are always included: until a page of a copy-on-write map is
    written to, it is the file's page and changes with it.  Maps are looked up only when at least two arrays are in maps
    and one of them is written to.
    """
    owners = {number: owner for number, array in enumerate(arrays) if (owner := _owner(array))}
    files: dict[tuple[object, ...], tuple[list[int], list[int], list[int]]] = {}
    if len(owners) > 1 and max(owners) >= first_written:
        for number, owner in owners.items():
            mapped = _map(*owner)
            if mapped and (mapped.shared or number < first_written):
                low, high = (address - mapped.start + mapped.offset for address in byte_bounds(arrays[number]))
                for values, value in zip(files.setdefault(mapped.file, ([], [], [])), (number, low, high)):
                    values.append(value)
    return list(files.values())


def _owner(array: Any) -> tuple[mmap.mmap, np.memmap | None] | None:
    """The memory map that holds an array, and the `np.memmap` over it if there is one; None for other memory."""
    if type(array) is not np.ndarray or array.base is None:
        return None
    owner: Any = array.base
    named: np.memmap | None = None
    while not isinstance(owner, mmap.mmap):
        if isinstance(owner, memoryview):
            owner = owner.obj
        elif isinstance(owner, (np.ndarray, _STRIDED)):
            named = owner if isinstance(owner, np.memmap) else named
            owner = owner.base
        else:
            return None
    return owner, named


# A map does not change while arrays use it (only `mmap.resize` moves one), and to ask the system is to read its
# list of all maps of the process.
_known: weakref.WeakKeyDictionary[mmap.mmap, Map] = weakref.WeakKeyDictionary()


def _map(owner: mmap.mmap, named: np.memmap | None) -> Map | None:
    """The part of a file that is mapped; None for anonymous memory, or if it cannot be determined."""
    start = np.frombuffer(owner, np.uint8).__array_interface__["data"][0]
    mapped = _known.get(owner)
    if mapped is None or mapped.start != start:
        mapped = listed_map(start) or named_map(start, named)
        if mapped:
            _known[owner] = mapped
    return mapped


def listed_map(start: int) -> Map | None:
    """The map at an address, from Linux's list of maps.

    The list identifies a file by device and inode.  On btrfs all subvolumes have one device number, so a file and its
    snapshot look like the same file.  Such a pair is rejected although it does not overlap.
    """
    with contextlib.suppress(OSError), open(MAPS, "rb") as lines:
        for line in lines:
            addresses, permissions, offset, device, inode = line.split(None, 5)[:5]
            low, high = (int(address, 16) for address in addresses.split(b"-"))
            if low <= start < high:
                shared = permissions.endswith(b"s")
                return Map(start, int(offset, 16) + start - low, (device, inode), shared) if inode != b"0" else None
    return None


def named_map(start: int, memmap: np.memmap | None) -> Map | None:
    """The map at an address on systems without such a list, from the file name and offset of its `np.memmap`."""
    if memmap is None or memmap.filename is None:
        return None
    try:
        status = os.stat(memmap.filename)
        file: tuple[object, ...] = (status.st_dev, status.st_ino)
    except OSError:  # the file has been deleted: only its name is left
        file = (str(memmap.filename),)
    return Map(start, memmap.offset - memmap.offset % mmap.ALLOCATIONGRANULARITY, file, memmap.mode != "c")
