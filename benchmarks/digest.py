"""A run in a few lines: one per case, the tensor transpositions as least, geometric mean and most, and what falls short."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.contender import OURS
from benchmarks.goals import best_peer, case_verdicts, fraction_of, mean, run_verdicts, ttc_fractions

WIDTH = 108                      # characters of a line: all lines together are a short table
LISTED = 15                      # entries of one kind that are named; the file has them all


def digest(found: dict[str, Any], rows: bool = True) -> list[str]:
    """Lines for a run's figures.  Goals are a GPU's, and a run of tiny arrays is no measure of speed: only then is judged.

    rows   a line for every case, too
    """
    machine = found["machine"]
    judged = bool(machine.get("gpu")) and not found["quick"]
    lines = [f"benchmarks: {machine.get('gpu') or machine['cpu']}, {machine['date']}, commit {machine['commit']}, "
             f"{found['seconds']:.0f} s" + ("" if found["finished"] else ", cut short")]
    if found["quick"]:
        lines.append("tiny arrays: no measure of speed")
    if rows:
        lines += _rows(found["cases"], judged) + _small(found["small"])
    lines += _sweep(found["ttc"]) + (_verdicts(found) if judged else [])
    return [line[:WIDTH] for line in lines + _absent(found)]


def _rows(records: Sequence[dict[str, Any]], judged: bool) -> list[str]:
    if not records:
        return []
    lines = [f"{'case':44} {'us':>8} {'GB/s':>6} {'copy':>5} {'goal':>5} {'peer':>6} which: its time over ours, * fresh output"]
    for record in records:
        warm = next((run for run in record["runs"] if run["contender"] == OURS and run["output"] == "warm"), None)
        if warm is None:
            continue
        fraction, peer, goal = fraction_of(record), best_peer(record), record.get("goal") if judged else None
        mark = " " if not goal or fraction is None else "+" if fraction >= goal else "-"
        lines.append(f"{record['case'][:44]:44} {warm[record['statistic'] + '_s'] * 1e6:8.1f} {warm['gb_per_s']:6.0f} "
                     f"{_number(fraction):>5} {_number(goal):>4}{mark}" + (f" {_peer(peer)}" if peer else ""))
    return lines


def _peer(run: dict[str, Any]) -> str:
    return f"{run['against']:6.2f} {run['contender']}" + ("*" if run["output"] == "fresh" else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _sweep(records: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for element_type, fractions in ttc_fractions(records).items():
        own = [record for record in records if record["case"].startswith(element_type + " ")]
        peers = [peer for record in own if (peer := best_peer(record))]
        ratios = [peer["against"] for peer in peers]
        names = ", ".join(sorted({peer["contender"] for peer in peers}))
        lines.append(f"TTC {element_type}, {len(fractions)} transpositions: of copy {min(fractions):.2f} least, {mean(fractions):.2f} mean, "
                     f"{max(fractions):.2f} most" + (f"; peer {min(ratios):.2f} .. {mean(ratios):.2f}: {names}" if ratios else ""))
        least = sorted((fraction_of(record), record["case"]) for record in own if fraction_of(record) is not None)[:3]
        lines += [f"  {fraction:.2f} {name}" for fraction, name in least]
    return lines


def _small(records: Sequence[dict[str, Any]]) -> list[str]:
    return [f"host, one call of {record['case']}: " + ", ".join(f"{_short(run['contender'])} {run['best_us']:.1f} us" for run in record["runs"])
            for record in records]


def _short(contender: str) -> str:
    return contender.partition("(")[0].removeprefix(f"{OURS} ")


def _verdicts(found: dict[str, Any]) -> list[str]:
    """What the run as a whole reached, then every goal that was missed."""
    whole = run_verdicts(found["cases"], found["ttc"], found["small"])
    rows = [verdict for record in (*found["cases"], *found["ttc"]) for verdict in case_verdicts(record)]
    missed = sorted((verdict for verdict in rows if verdict.met is False), key=lambda verdict: verdict.found / verdict.wanted)
    counted = sum(verdict.met is not None for verdict in rows)
    return [*map(str, whole), f"goals of single cases: {counted - len(missed)} of {counted} met" + (", missed:" if missed else ""),
            *_listed([f"  {verdict}" for verdict in missed])]


def _absent(found: dict[str, Any]) -> list[str]:
    """What has no figures, and why."""
    lines = [f"peer not there: {name}: {why}" for name, why in found["peers_missing"].items()]
    lines += [f"peer not timed for want of time: {name}, {len(cases)} cases" for name, cases in found["peers_not_timed"].items()]
    lines += _listed([f"peer refused: {one['peer']} on {one['case']}: {one['reason']}" for one in found["peers_refused"]])
    lines += _listed([f"not run: {entry['case']}: {entry['reason']}" for entry in found["not_run"]])
    return lines + [f"left out: {name}: {why}" for name, why in found["left_out"].items()]


def _listed(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LISTED else [*lines[:LISTED], f"  and {len(lines) - LISTED} more"]
