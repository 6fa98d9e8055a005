"""The table of `gpulayout benchmark`: a line per conversion and backend, under the shape that they are for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Median seconds of the calls of an `IndexJob`; None for a call that it does not have.

    backend   "native" or "numpy", both on the CPU, or "cupy"
    """

    shape: str
    name: str
    backend: str
    equal: bool
    warm: float
    fresh: float
    plain: float | None = None
    kernel: float | None = None
    to_gpu: float | None = None
    from_gpu: float | None = None


LABELS = {"native": "native", "numpy": "NumPy", "cupy": "GPU"}
CPU = ("native", "numpy")
# The two lines of each heading, and the text below it for a row and the CPU's row for the same work.
Column = tuple[str, str, Callable[[Row, Row], str]]
COLUMNS: tuple[Column, ...] = (
    ("", "out=", lambda row, cpu: _ms(row.warm)),
    ("", "new", lambda row, cpu: _ms(row.fresh)),
    ("", "plain", lambda row, cpu: _ms(row.plain)),
    ("plain/", "new", lambda row, cpu: _ratio(row.plain, row.fresh)),
)
GPU_COLUMNS: tuple[Column, ...] = (
    ("", "kernel", lambda row, cpu: _ms(row.kernel)),
    ("to", "GPU", lambda row, cpu: _ms(row.to_gpu)),
    ("from", "GPU", lambda row, cpu: _ms(row.from_gpu)),
    ("CPU/", "GPU", lambda row, cpu: _ratio(None if row.backend in CPU else cpu.fresh, row.fresh)),
    (
        "with",
        "copies",
        lambda row, cpu: _ratio(
            None if row.backend in CPU else cpu.fresh, (row.to_gpu or 0) + row.fresh + (row.from_gpu or 0)
        ),
    ),
)


def table_lines(rows: Sequence[Row], *, with_gpu: bool) -> Iterator[str]:
    """The lines of the table."""
    columns = COLUMNS + GPU_COLUMNS * with_gpu
    order = [row for name in ("numpy", "native") for row in rows if row.backend == name]
    on_cpu = {(row.shape, row.name): row for row in order}  # by the engine if there is one
    texts = {id(row): [text(row, on_cpu[row.shape, row.name]) for _, _, text in columns] for row in rows}
    widths = [
        max(map(len, column))
        for column in zip(*((first for first, _, _ in columns), (second for _, second, _ in columns), *texts.values()))
    ]

    def line(label: str, cells: Sequence[str]) -> str:
        return "  ".join([f"{label:21}", *map(str.rjust, cells, widths)])

    yield line("", [first for first, _, _ in columns]).rstrip()
    head = line("", [second for _, second, _ in columns])
    yield head
    yield "-" * len(head)
    for shape, group in itertools.groupby(rows, key=lambda row: row.shape):
        yield shape
        for row in group:
            label = f"  {row.name:11}  {LABELS[row.backend]}"
            yield line(label, texts[id(row)]) + ("" if row.equal else "  DIFFERS")


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def _ratio(slow: float | None, fast: float) -> str:
    if slow is None:
        return "-"
    return f"{slow / fast:.2g}" if slow < 10 * fast else f"{slow / fast:.0f}"
