"""Writes gpulayout/gpu/kernel_costs.json: what the kernels take, counted in their machine code.

    python -m tests.support.kernel_cost_table             prints how far the table is from each count
    python -m tests.support.kernel_cost_table --budgets   the same, for the moves of tests/support/sass/budgets.py
    python -m tests.support.kernel_cost_table --write     counts again and writes the table: half a minute

Each variant of a kernel is run on a few small moves, and two numbers are fitted to the counts, neither negative:

    warp instructions = warps x fixed + accesses x each
"""

import collections
import json
import sys

import numpy as np

from gpulayout.gpu.estimate import launch_work, work_items
from gpulayout.gpu.kernel_costs import TABLE, Cost, key_of
from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc
from tests.support.kernel_cases import WIDTHS, Case, move_of
from tests.support.sass import budgets
from tests.support.sass.launches import taken

ARCHITECTURE = "sm_90"


def transposed(width, rows, columns, batch=1):
    """`batch` matrices of `rows` x `columns` elements, turned."""
    last = [(batch, batch, rows * columns, rows * columns)] if batch > 1 else []
    return move_of(width, [(rows, rows, columns, 1), (columns, columns, 1, rows), *last])


def permuted(width, sizes, order):
    """An array of these sizes, major first, whose dimensions come in this order afterwards."""
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
    axes, step = [], 1
    for dim in reversed(order):
        axes.append((sizes[dim], sizes[dim], int(strides[dim]), step))
        step *= sizes[dim]
    return move_of(width, axes)


def rows(width, count, length, gap, outer=1):
    """Rows that are `gap` elements further apart in the source than in the target."""
    axes = [(length, length, 1, 1), (count, count, length + gap, length)]
    return move_of(width, axes + ([(outer, outer, count * (length + gap) + gap, count * length)] if outer > 1 else []))


def samples():
    """Small cases of every variant that is worth a row: (case), in the order of the kernels' names."""
    moves = []
    for width in (1, 2, 4, 8, 16):
        unit = max(256, 512 // width)
        moves += [transposed(width, unit, unit), transposed(width, unit, 2 * unit, 2)]
        moves += [transposed(width, unit - 2, unit + 6), transposed(width, unit // 2 + 16 // width, 3 * unit + 16)]
        moves += [transposed(width, unit - 3, unit + 5), transposed(width, unit // 2 + 13, unit // 2 - 7, 2)]
        moves += [transposed(width, 1001, 5 + width % 3, 1), transposed(width, 21, 997, 2)]
        moves += [transposed(width, unit // 2 - 9, 2 * unit + 1), transposed(width, 3 * unit // 2 - 1, unit // 2 - 31)]
        moves += [transposed(width, 37, 1501), transposed(width, 701, 29), transposed(width, 333, 41, 3)]
        moves += [transposed(width, 20000, 3), transposed(width, 3, 20000), transposed(width, 4, 15000)]
        moves += [transposed(width, 1200, 49, 1), transposed(width, 49, 1200, 1)]
        # one tile has rows of the target whole
        moves += [move_of(width, [(size, size, 1503, 1), (1501, 1501, 1, size + 6)]) for size in (63, 125)]
        moves += [permuted(width, sizes, range(len(sizes))[::-1]) for sizes in _SHORT]
        moves += [
            rows(width, 64, 512, 16),
            rows(width, 50, 1024, 48, 4),
            rows(width, 200, 33, 7, 3),
            rows(width, 90, 501, 3),
            *(rows(width, 300, length, gap, 20) for length, gap in ((60 // width | 1, 2), (3, 1))),
        ]
        moves += [move_of(width, [(50000, 50000, 1, 1)]), move_of(width, [(8192, 8192, 1, 1)])]
        moves += [
            move_of(width, [(9000, 9000, 64, 1)]),
            move_of(width, [(70, 70, 7, 1), (50, 50, 600, 70), (9, 9, 31000, 3500)]),
        ]
        moves += [move_of(width, [(300, 290, 1, 1), (60, 57, 290, 300)])]
    cases = [Case(f"sample {number}", move) for number, move in enumerate(moves)]
    cases += [Case(f"{case.name}, shifted", case.move, 0, case.move.itemsize % 16) for case in cases[-2::-7]]
    return cases + [case for width in WIDTHS for case in budgets.moves(width)]


_SHORT = [(8, 16, 16, 16), (16, 8, 8, 32), (2, 8, 8, 8, 8), (3,) * 9, (7, 7, 7, 7, 9), (4, 5, 6, 7, 8, 3), (2,) * 15]


def counted(cases):
    """{key: [(items of work, usage of the compiled kernel, what was counted)]} of some cases."""
    found = collections.defaultdict(list)
    for case in cases:
        found[key_of(case.plan)].append((work_items(case.plan), usage_of(case.plan), taken(case, ARCHITECTURE).counted))
    return found


def usage_of(plan):
    """The resources of a plan's kernel."""
    return nvrtc.compiled(kernel_text(plan.file), ARCHITECTURE, dict(plan.macros)).usage[plan.kernel]


def fitted(runs):
    """The cost of one variant."""
    items, issued = (np.array(column, float) for column in ([run[0] for run in runs], [run[2].issued for run in runs]))
    fixed, each = least_squares(items, issued)
    return Cost(
        max(usage.registers for _, usage, _ in runs),
        max(usage.shared_bytes for _, usage, _ in runs),
        max(found.in_flight for *_, found in runs),
        round(fixed, 1),
        round(each, 2),
    )


def least_squares(items, issued):
    """The two numbers with small relative errors: both, or one if the other would be negative.

    Launches of many warps matter more.
    """
    heavy, choices = items[:, 0] ** 0.25, []
    for chosen in ([0, 1], [0], [1]):
        weighted = (items / issued[:, None] * heavy[:, None])[:, chosen]
        found = np.linalg.lstsq(weighted, heavy, rcond=1e-9)[0]
        if (found >= 0).all():
            both = np.zeros(2)
            both[chosen] = found
            choices.append((np.square(weighted @ found - heavy).sum(), tuple(map(float, both))))
    return min(choices)[1]


def main(arguments):
    if "--budgets" in arguments:
        for width in WIDTHS:
            for case in budgets.moves(width):
                issued, guess = taken(case, ARCHITECTURE).counted.issued, launch_work(case.plan).instructions
                print(f"{case.name:36} {key_of(case.plan):64} {guess / issued:5.2f}", flush=True)
        return
    if "--write" in arguments:
        found = {key: fitted(runs)._asdict() for key, runs in sorted(counted(samples()).items())}
        lines = [f'  "{key}": {json.dumps(list(cost.values()))}' for key, cost in found.items()]
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    for key, runs in counted(samples()).items():
        for items, _, count in runs:
            print(f"{key:64} {fitted(runs).instructions(*items) / count.issued:5.2f}  {items}")


if __name__ == "__main__":
    main(sys.argv[1:])
