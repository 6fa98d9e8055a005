"""Draws recorded runs as SVG: `python -m benchmarks --plot`.  The same figures give the same file, byte for byte."""

from __future__ import annotations

import json
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.pictures import FRACTION, Bars, Curve, Picture, pictures

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results"
RECORDED = tuple(
    RESULTS / name
    for name in (
        "cpu-goals-native-epyc-zen3-2core.json",
        "cpu-epyc-zen4-2core-2threads.json",
        "cpu-curves-xeon-2core.json",
        "gpu-h100.json",
    )
)

# Okabe and Ito's colours, distinguishable with any kind of colour vision.  Lines also differ in their markers.
BLUE, ORANGE, GREEN, GREY, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#666666", "#56B4E9", "#CC79A7"
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # behind a number that a line crosses
COLOURS, MARKERS = (BLUE, SKY, ORANGE, GREY, GREEN, PURPLE), "osD^vP"
STYLE = {
    "svg.hashsalt": "gpulayout",  # names inside the file do not change from run to run
    "svg.fonttype": "none",  # text stays text
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
}


def draw(files: Sequence[pathlib.Path], folder: pathlib.Path = FOLDER) -> list[pathlib.Path]:
    """The pictures that these recorded runs have figures for, written to a folder; their paths.

    ModuleNotFoundError without matplotlib; ValueError for tiny arrays in `FOLDER`, whose pictures the pages show.
    """
    import matplotlib

    matplotlib.use("svg")
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if folder.resolve() == FOLDER:
        for file, run in zip(files, runs):
            if run.get("quick"):
                raise ValueError(f"{file} is a run with --quick, of tiny arrays: choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        for picture in pictures(runs):
            figure = _bars(picture) if picture.panels else _curves(picture)
            path = folder / picture.file
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
            path.write_text("\n".join(map(str.rstrip, path.read_text(encoding="utf-8").splitlines())) + "\n", "utf-8")
            written.append(path)
    return written


def _figure(picture: Picture, width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure with its title above and its note below."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    letters = int(width * 9)
    figure.suptitle("\n".join(textwrap.wrap(picture.title, letters)), fontsize=11, fontweight="bold", x=0.01, ha="left")
    note = "\n".join(textwrap.wrap(picture.note, int(width * 12)))
    figure.supxlabel(f"{picture.x_label}\n\n{note}", fontsize=8.5, color="#333333")
    return figure, axes


def _bars(picture: Picture) -> Any:
    """Panels side by side.  Ratios begin at 1 on a logarithmic axis; fractions of a copy begin at 0."""
    ratios = picture.x_label != FRACTION
    rows = len(picture.panels[0].cases)
    figure, axes = _figure(picture, 10 if len(picture.panels) > 1 else 8, 1.6 + 0.21 * rows, len(picture.panels))
    for axis, panel in zip(axes, picture.panels):
        (_ratio_panel if ratios else _fraction_panel)(axis, panel)
        axis.set_title(panel.title, fontsize=11)
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(rows), picture.panels[0].cases, fontsize=9)
    axes[0].set_ylim(rows - 0.4, -0.6)
    return figure


def _ratio_panel(axis: Any, panel: Bars) -> None:
    """Bars from 1 to the ratio: blue to the right where this library is faster, orange to the left where it is not."""
    known = [(row, value) for row, value in enumerate(panel.values) if value]
    axis.set_xscale("log")
    for row, value in known:
        axis.barh(row, value - 1, left=1, height=0.72, color=BLUE if value >= 1 else ORANGE)
        axis.annotate(
            f"{value:.1f}" if value >= 1 else f"{value:.2f}",
            (value, row),
            xytext=(3 if value >= 1 else -3, 0),
            textcoords="offset points",
            ha="left" if value >= 1 else "right",
            va="center",
            fontsize=8,
        )
    axis.axvline(1, color="black", linewidth=0.8)
    least, most = min(value for _, value in known), max(value for _, value in known)
    axis.set_xlim(least / 2 if least < 1 else 0.9, most * (1.2 if most < 4 else 2.2))
    ticks = (0.5, 1, 1.5, 2, 3) if most < 4 else (0.25, 0.5, 1, 2, 4, 8, 16, 32)
    ticks = [tick for tick in ticks if axis.get_xlim()[0] <= tick <= axis.get_xlim()[1]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)


def _fraction_panel(axis: Any, panel: Bars) -> None:
    """Bars from 0; a line at 1, the speed of a copy.  A range of the model is a line across its bar."""
    for row, value in enumerate(panel.values):
        expected = panel.ranges[row] if panel.ranges else None
        if value is not None:
            axis.barh(row, value, height=0.72, color=BLUE if panel.title == "gpulayout" else GREY)
            right = max(value, *expected) if expected else value
            axis.text(right + 0.02, row, f"{value:.2f}", va="center", fontsize=8, bbox=WHITE)
        if expected:
            axis.plot(expected, (row, row), color="black", linewidth=1, marker="|", markersize=6)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlim(0, max(1.2, *(value + 0.2 for value in panel.values if value)))


def _curves(picture: Picture) -> Any:
    """Lines on logarithmic axes, a marker for each case."""
    from matplotlib.ticker import LogLocator

    figure, (axis,) = _figure(picture, 8, 5)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for number, curve in enumerate(picture.curves):
        style = {"color": COLOURS[number % 6], "marker": MARKERS[number % 6], "markersize": 5, "linewidth": 1.6}
        (line,) = axis.plot(curve.x, curve.y, label=curve.name, **style)
        line.set_gid(f"{curve.name}: {'; '.join(dict.fromkeys(curve.cases))}")
    axis.set_ylabel(picture.y_label)
    values = [value for curve in picture.curves for value in curve.y]
    if max(values) < 1000 * min(values):  # decades would give too few ticks
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(_nanoseconds if "index" in picture.y_label else _microseconds)
    _x_axis(axis, picture.curves[0], picture.x_label)
    axis.legend(fontsize=9, framealpha=1, edgecolor="none")
    return figure


def _x_axis(axis: Any, curve: Curve, label: str) -> None:
    """A tick for each case, with its size in words."""
    words = _count if label.startswith("indices") else _byte_count
    ticks = list(dict.fromkeys(curve.x))
    axis.set_xticks(ticks, [words(tick) for tick in ticks], fontsize=9)
    axis.set_xticks([], minor=True)


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """A number in the largest unit that leaves 1 or more.

    >>> _scaled(2500.0, [(1e3, "ms"), (1.0, "us")])
    '2.5 ms'
    """
    size, unit = next(((size, unit) for size, unit in units if value >= size * 0.9999), units[-1])
    return f"{value / size:.3g} {unit}".rstrip()


def _microseconds(value: float, position: int = 0) -> str:
    return _scaled(value, [(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")])


def _nanoseconds(value: float, position: int = 0) -> str:
    return _scaled(value, [(1e3, "µs"), (1.0, "ns")])


def _byte_count(value: float) -> str:
    return _scaled(value, [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])


def _count(value: float) -> str:
    return _scaled(value, [(1e6, "million"), (1e3, "thousand"), (1.0, "")])
