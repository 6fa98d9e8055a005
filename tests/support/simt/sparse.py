"""Gigabytes of address space for a few megabytes of memory."""

import ctypes
import mmap

import numpy as np

_MAP_NORESERVE = 0x4000  # Linux; the mmap module names it only since Python 3.13
_PROT_NONE = 0


def _mprotect(address, length, protection):
    return ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), protection)


def sparse_bytes(count, ends=False):
    """`count` zero bytes as a writable uint8 array; a page costs memory only once it is written.

    ends   if True, the last byte is the last of a page, and the next page cannot be accessed

    For launches on more than 2**32 elements: write the few places that the chosen blocks read, and
    check only those that they write.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    whole = -(-count // mmap.PAGESIZE) * mmap.PAGESIZE if ends else count
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE * ends, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # otherwise one touched byte would cost 2 MiB
    found = np.frombuffer(memory, np.uint8)
    if ends and _mprotect(found.ctypes.data + whole, mmap.PAGESIZE, _PROT_NONE):
        raise OSError(ctypes.get_errno(), "a page cannot be closed")
    return found[whole - count : whole]
