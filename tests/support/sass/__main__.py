"""Prints what moves take in machine code, for one or more architectures:

    python -m tests.support.sass                              the budgets' moves, for sm_90
    python -m tests.support.sass --architectures sm_80 sm_90 sm_100
    python -m tests.support.sass --only odd --widths 1 2      moves whose name contains a word, for some element sizes
    python -m tests.support.sass --in-flight                  every kernel: KB under way, and those that are too few

Columns: executed instructions per element, as a device issues them (32 for each that a warp executes), and those of
active lanes alone; registers; bytes of a thread that are under way at once, and KB of all blocks that fit on a
multiprocessor of an H100; instructions of a warp before its first read; sectors that
requests touch on both sides, and cycles of shared memory, relative to the fewest; cycles of a block
that has a multiprocessor for itself, and what binds where many such blocks run on an H100 (`expected.py`).
"""

import argparse
import dataclasses

from gpulayout.gpu.cost_model import resident_blocks
from gpulayout.gpu.devices import DEVICES, REFERENCE
from tests.support.kernel_cases import WIDTHS
from tests.support.sass import in_flight
from tests.support.sass.budgets import moves
from tests.support.sass.expected import executed, expected
from tests.support.sass.launches import taken

_HEAD = (
    f"{'move':34} {'kernel':14} {'arch':7}  instr  lanes regs flight  KB/SM before   read  write  banks   alone  binds"
)
_TIMES = 64  # as large a move: the blocks of half a million elements are too few to hide each other's waiting


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.support.sass", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--architectures", nargs="+", default=["sm_90"])
    parser.add_argument("--widths", nargs="+", type=int, default=list(WIDTHS), help="bytes of the elements")
    parser.add_argument("--only", default="", help="moves whose name contains this")
    parser.add_argument("--in-flight", action="store_true", help="the table of bytes in flight instead")
    given = parser.parse_args()
    if given.in_flight:
        for architecture in given.architectures:
            for line in in_flight.table(architecture, given.only):
                print(line, flush=True)
        return
    print(_HEAD)
    for width in given.widths:
        for case in moves(width):
            for architecture in given.architectures if given.only in case.name else ():
                print(_row(case, architecture), flush=True)


def _row(case, architecture):
    found = taken(case, architecture)
    launch = executed(case.record(), architecture, 4)
    launch = dataclasses.replace(launch, total=_TIMES * launch.total)
    speed = expected(launch, 2 * _TIMES * found.elements * case.move.itemsize, DEVICES[REFERENCE])
    blocks = resident_blocks(found.run.registers, found.run.shared_bytes, DEVICES[REFERENCE])
    under_way = blocks * found.counted.in_flight / 4  # of 256 threads, in KB
    return (
        f"{case.name:34} {case.plan.file:14} {architecture:7} {found.per_element:6.2f} {found.by_lanes:6.2f} "
        f"{found.run.registers:4} {found.counted.in_flight:6} {under_way:6.0f} "
        f"{found.counted.before_read:6.0f} "
        f"{found.sectors('read'):6.3f} {found.sectors('write'):6.3f} {found.conflicts:6.3f} "
        f"{speed.alone:7.0f}  {speed.binds}"
    )


if __name__ == "__main__":
    main()
