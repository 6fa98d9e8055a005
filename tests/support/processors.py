"""Made-up processors that differ in kind, described as Linux describes them."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

VARIABLE = "GPULAYOUT_TEST_PROCESSOR"  # names the processor of tests that name none


class Processor(NamedTuple):
    """A processor.

    caches   the size of each level, the first-level cache first
    cores    how many a process may use
    free     MB of memory that are free
    """

    caches: tuple[str, ...]
    cores: int
    free: int


PROCESSORS = {
    "common": Processor(("32K", "1024K", "32768K"), 2, 4096),  # the caches of `caches.DEFAULT`
    "tiny": Processor(("16K", "128K"), 1, 256),
    "laptop": Processor(("32K", "256K", "3072K"), 4, 2048),
    "odd sizes": Processor(("48K", "1280K", "107520K"), 16, 8192),
    "two levels": Processor(("128K", "12288K"), 8, 8192),
    "huge": Processor(("64K", "2048K", "1179648K"), 64, 65536),
}


def chosen() -> Processor:
    """The processor of tests that name none."""
    name = os.environ.get(VARIABLE) or "common"
    if name not in PROCESSORS:
        raise ValueError(f"{VARIABLE} is {name!r}: it must be one of {', '.join(PROCESSORS)}")
    return PROCESSORS[name]


def describe_caches(folder: pathlib.Path, entries) -> pathlib.Path:
    """Write a folder like /sys/devices/system/cpu/cpu0/cache, from (level, type, size) of each cache."""
    for number, values in enumerate(entries):
        entry = folder / f"index{number}"
        entry.mkdir(parents=True)
        for name, value in zip(("level", "type", "size"), values):
            (entry / name).write_text(f"{value}\n")
    return folder


def describe(folder: pathlib.Path, processor: Processor) -> None:
    """Write what Linux says of a processor: `caches` as above, and `meminfo`."""
    levels = enumerate(processor.caches, 1)
    describe_caches(folder / "caches", [(level, "Data" if level == 1 else "Unified", size) for level, size in levels])
    (folder / "meminfo").write_text(f"MemAvailable: {processor.free << 10} kB\n")
