"""Made-up processors that differ in kind, described as Linux describes them."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

VARIABLE = "GPULAYOUT_TEST_PROCESSOR"  # names the processor of tests that name none


class Processor(NamedTuple):
    """A processor.

    caches   (size, ways) of each level, the first-level cache first
    cores    how many a process may use
    free     MB of memory that are free
    """

    caches: tuple[tuple[str, int], ...]
    cores: int
    free: int


PROCESSORS = {
    "common": Processor((("32K", 8), ("1024K", 16), ("32768K", 16)), 2, 4096),  # the caches of `caches.DEFAULT`
    "tiny": Processor((("16K", 4), ("128K", 8)), 1, 256),
    "laptop": Processor((("32K", 8), ("256K", 4), ("3072K", 12)), 4, 2048),
    "odd ways": Processor((("48K", 12), ("1280K", 20), ("107520K", 15)), 16, 8192),
    "two levels": Processor((("128K", 8), ("12288K", 12)), 8, 8192),
    "huge": Processor((("64K", 4), ("2048K", 8), ("1179648K", 16)), 64, 65536),
}


def chosen() -> Processor:
    """The processor of tests that name none."""
    name = os.environ.get(VARIABLE) or "common"
    if name not in PROCESSORS:
        raise ValueError(f"{VARIABLE} is {name!r}: it must be one of {', '.join(PROCESSORS)}")
    return PROCESSORS[name]


def describe_caches(folder: pathlib.Path, entries) -> pathlib.Path:
    """Write a folder like /sys/devices/system/cpu/cpu0/cache, from (level, type, size, ways) of each cache."""
    for number, values in enumerate(entries):
        entry = folder / f"index{number}"
        entry.mkdir(parents=True)
        for name, value in zip(("level", "type", "size", "ways_of_associativity"), values):
            (entry / name).write_text(f"{value}\n")
    return folder


def describe(folder: pathlib.Path, processor: Processor) -> None:
    """Write what Linux says of a processor: `caches` as above, and `meminfo`."""
    levels = enumerate(processor.caches, 1)
    describe_caches(folder / "caches", [(level, "Data" if level == 1 else "Unified", *each) for level, each in levels])
    (folder / "meminfo").write_text(f"MemAvailable: {processor.free << 10} kB\n")
