"""Gigabytes of address space for a few megabytes of memory."""

import mmap

import numpy as np

_MAP_NORESERVE = 0x4000   # Linux; the mmap module names it only since Python 3.13


def sparse_bytes(count):
    """count zero bytes as a writable uint8 array; a page costs memory only once it is written.

    For launches on more than 2**32 elements: write the few places that the chosen blocks read, and
    look only at the places they write.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = mmap.mmap(-1, count, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)   # or one touched byte would cost 2 MiB
    return np.frombuffer(memory, np.uint8)
