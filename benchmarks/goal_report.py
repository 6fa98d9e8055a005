"""The tables of a run that is judged by the CPU's goals, in Markdown, ready for a README."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.contender import OURS
from benchmarks.goal_peers import COPY, JAX, TORCH
from benchmarks.goal_table import MEGABYTE, NAIVE, UNPLANNED_CALL, Goal, Record, above, goals, median, ratio
from benchmarks.goals import PREPARED_CALL

NAMED = ("numpy", "torch", "jax")
EVEN = 1.0                       # a ratio below it is a loss and stands in bold letters
DIGITS = {"ms": 1, "us": 2, "ratio": 2, "MB": 1}


def tables(found: Record) -> list[str]:
    """The lines of all tables, each with a blank line before it, after what the figures depend on."""
    lines = [_heading(found)]
    if found["quick"]:
        lines += ["", "Tiny arrays: no measure of speed, nothing is judged."]
    lines += ["", "A ratio is the peer's time over ours, medians both; in bold letters where the peer is faster."]
    sections = [_goals(found), _relayouts(found), _paddings(found), _indices(found), _small(found)]
    for section in sections:
        lines += ["", *section] if section else []
    return lines + _absent(found)


def _heading(found: Record) -> str:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if name in NAMED)
    return (f"{machine['cpu']}, {machine['cores']} cores, {found['counts'][-1]} threads at most; Python {machine['python']}, {versions}; "
            f"commit {machine['commit']}, {machine['date'][:10]}; medians of {found['rounds']} rounds, {found['seconds']:.0f} s, "
            f"at most {found['peak_memory_bytes'] / 1e9:.1f} GB" + f"; only cases with \"{found['only']}\"" * bool(found["only"]) +
            "; not finished" * (not found["finished"]))


def _goals(found: Record) -> list[str]:
    one, many = _with(found)
    rows, last = [], ""
    for goal in goals(found):
        rows.append(["" if goal.against == last else goal.against, goal.what, *(_figure(goal, k) for k in (0, 1)),
                     "" if found["quick"] else goal.verdict])
        last = goal.against
    return _table(["against", "must reach", f"measured {one}", many, "met or missed"], rows)


def _figure(goal: Goal, column: int) -> str:
    figure = goal.found[column]
    return "" if figure is None else str(figure)


def _relayouts(found: Record) -> list[str]:
    one, many = _with(found)
    first, last = found["counts"][0], found["counts"][-1]
    rows = []
    for record in found["relayout"]:
        rows.append([record["case"], _number(record["bytes_moved"] / MEGABYTE, "MB"), *_milliseconds(record, "warm", (first, last)),
                     *(_ratio(record, NAIVE, "warm", count, peer_threads=1) for count in (first, last)),
                     *(_ratio(record, TORCH, "warm", count) for count in (first, last)), _ratio(record, JAX, "fresh", last),
                     _number(max((entry["bytes"] for entry in record["scratch"]), default=0) / MEGABYTE, "MB")])
    return _table(["relayout", "MB moved", f"ms {one}", many, f"np.copyto over ours {one}", many, f"torch over ours {one}", many,
                   f"jax over ours {many}, new outputs", "MB beyond the output"], rows)


def _paddings(found: Record) -> list[str]:
    one, many = _with(found)
    first, last = found["counts"][0], found["counts"][-1]
    rows = []
    for record in found["padding"]:
        plain = next((run["contender"] for run in record["runs"] if run["output"] == "warm" and run["contender"] != OURS), "")
        rows.append([record["case"], _number(record["bytes_moved"] / MEGABYTE, "MB"), *_milliseconds(record, "warm", (first, last)),
                     *(_number(ratio(record, COPY, "warm", count, "copy", copying), "ratio")
                       for count, copying in ((first, first), (last, last), (last, 1))),
                     *(_ratio(record, plain, "warm", count, peer_threads=1) for count in (first, last)), plain])
    return _table(["padding", "MB moved", f"ms {one}", many, f"of a copy {one}", f"of a copy, both {many}", f"{many}, of a copy {one}",
                   f"plain way over ours {one}", many, "plain way"], rows)


def _indices(found: Record) -> list[str]:
    one, many = _with(found)
    counts = (found["counts"][0], found["counts"][-1])
    rows = []
    for record in found["index"]:
        plain = next(run["contender"] for run in record["runs"] if run["contender"] != OURS)
        rows.append([record["case"], plain, *_milliseconds(record, "warm", counts), *_milliseconds(record, "fresh", counts),
                     *(_ratio(record, plain, output, count, "fresh", 1) for output in ("warm", "fresh") for count in counts)])
    return _table(["indices", "peer", f"ms, warm output, {one}", many, f"ms, new output, {one}", many,
                   f"peer over ours, warm, {one}", many, f"new, {one}", many], rows)


def _small(found: Record) -> list[str]:
    one, many = _with(found)
    counts = (found["counts"][0], found["counts"][-1])
    rows = []
    for record in found["small"]:
        rows.append([record["case"], _number((median(record, NAIVE, "call", 1) or 0) * 1e6, "us"),
                     *(_number(above(record, call, count), "us") for call in (PREPARED_CALL, UNPLANNED_CALL) for count in counts)])
    return _table(["1 KB", "np.copyto, µs", f"plan: µs more, {one}", many, f"gl.relayout: µs more, {one}", many], rows)


def _absent(found: Record) -> list[str]:
    """What has no figures, and why."""
    lines = [f"- peer not there: {name}: {why}" for name, why in found["peers_missing"].items()]
    lines += [f"- peer refused: {one['peer']} on {one['case']}: {one['reason']}" for one in found["peers_refused"]]
    lines += [f"- not run: {entry['case']}: {entry['reason']}" for entry in found["not_run"]]
    return ["", *lines] if lines else []


# ---- cells -----------------------------------------------------------------------------------------------------

def _with(found: Record) -> tuple[str, str]:
    """The words for both numbers of threads."""
    return "with 1 thread", f"with {found['counts'][-1]}"


def _milliseconds(record: Record, output: str, counts: Sequence[int]) -> list[str]:
    times = [median(record, OURS, output, count) for count in counts]
    return [_number(seconds and seconds * 1e3, "ms") for seconds in times]


def _ratio(record: Record, *peer: Any, **more: Any) -> str:
    value = ratio(record, *peer, **more)
    text = _number(value, "ratio")
    return f"**{text}**" if value is not None and float(text) < EVEN else text


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.{DIGITS[unit]}f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows)] if rows else []
