"""A run as Markdown tables that also line up in a terminal: the goals, a row for each case, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.goals import JAX, MEGABYTE, NAIVE, TORCH, Figure, Goal, case_goals, goals, middle
from benchmarks.model import far_off_lines, model_text
from benchmarks.peers.contender import COPY, OURS
from benchmarks.record import Record, above_first, best_peer, fraction_of, ratio, seconds_of, sized, time_of

NAMED = ("numpy", "torch", "jax")
WIDTH = 108  # columns of a line outside of tables
LISTED = 6  # entries of one kind that are printed; the file has all
EVEN = 1.0  # a ratio below it is a loss, printed in bold

Cells = list[tuple[str, str]]  # the heading of each column, and the text in it


def report(found: Record) -> list[str]:
    """The machine and the versions, then the lines of all tables, each after a blank line."""
    lines = [_heading(found)]
    if found["quick"]:
        lines += ["", "Tiny arrays: no measure of speed, nothing is judged."]
    lines += [
        "",
        "A ratio is the peer's time over ours, bold where the peer is faster; "
        "copy is our fraction of a plain copy's speed, model the range expected, in percent.",
    ]
    sections = [
        _table([_goal(found, goal) for goal in goals(found)]),
        *(_table([row(found, record) for record in sized(found).get(section, ())]) for section, row in _ROWS.items()),
        _sweep(found),
    ]
    for section in (*sections, _missed(found), _far_off(found), _absent(found)):
        lines += ["", *section] if section else []
    return lines


def _heading(found: Record) -> str:
    machine = found["machine"]
    gpu, packages = machine.get("gpu"), machine.get("packages", {})
    named = [
        f"{name} {version}" for name, version in packages.items() if name in NAMED or (gpu and name.startswith("cupy"))
    ]
    statistic = f"{found['statistic']} of " if "statistic" in found else ""
    parts = [
        ", ".join(
            [
                *([gpu] if gpu else []),
                machine["cpu"],
                f"{machine['cores']} cores",
                f"{found['counts'][-1] if 'counts' in found else machine['threads']} threads at most",
            ]
        ),
        ", ".join([f"Python {machine['python']}", *named]),
        f"commit {machine['commit']}, {machine['date'][:10]}",
        f"{statistic}{found.get('rounds') or found['effort']['rounds']} rounds, {found['seconds']:.0f} s",
    ]
    if "peak_memory_bytes" in found:
        parts[-1] += f", at most {found['peak_memory_bytes'] / 1e9:.1f} GB"
    if found.get("only"):
        parts.append(f'only cases with "{found["only"]}"')
    return "; ".join(parts if found["finished"] else [*parts, "not finished"])


# ---- rows ------------------------------------------------------------------------------------------------------


def _goal(found: Record, goal: Goal) -> Cells:
    names = _headings(found, "measured") if "counts" in found else ["measured"]
    return [
        ("against", goal.against),
        ("must reach", goal.what),
        *((name, str(figure or "")) for name, figure in zip(names, goal.found)),
        ("met or missed", "" if found["quick"] else goal.verdict),
    ]


def _case(found: Record, record: Record) -> Cells:
    """A row of the lists without thread counts: ours in warm memory, and the best peer with either kind of output."""
    seconds, fraction, peer = time_of(record, OURS, "warm"), fraction_of(record), best_peer(record)
    goal = record["goal"] if _is_judged(found) else None
    mark = "" if goal is None or fraction is None else "+" if fraction >= goal else "-"
    digits = 1 if seconds is not None and seconds < 1e-4 else 0
    return [
        ("case", record["case"]),
        ("µs", _number(seconds, digits, 1e6)),
        ("copy", _number(fraction)),
        *(
            [("model", model_text(record))]
            if _is_judged(found) and any(each.get("model") for each in found["cases"])
            else []
        ),
        ("goal", _number(goal) + mark),
        *((output, _bold(_against(record, output))) for output in ("warm", "fresh")),
        ("best peer", peer["contender"] if peer else ""),
    ]


def _conversion(found: Record, record: Record) -> Cells:
    """A row of the conversions: nothing is judged."""
    seconds, peer = time_of(record, OURS, "warm"), best_peer(record)
    return [
        ("arithmetic on the way", record["case"]),
        ("µs", _number(seconds, 1 if seconds is not None and seconds < 1e-4 else 0, 1e6)),
        ("copy", _number(fraction_of(record))),
        *((output, _bold(_against(record, output))) for output in ("warm", "fresh")),
        ("best peer", peer["contender"] if peer else ""),
    ]


def _against(record: Record, output: str) -> float | None:
    peer = best_peer(record, output)
    return peer and peer["against"]


def _relayout(found: Record, record: Record) -> Cells:
    counts = found["counts"]
    return [
        ("relayout", record["case"]),
        _moved(record),
        *_milliseconds(found, record, "warm", "ms"),
        *_ratios(
            found, "np.copyto over ours", [ratio(record, NAIVE, "warm", count, peer_threads=1) for count in counts]
        ),
        *_ratios(found, "torch over ours", [ratio(record, TORCH, "warm", count) for count in counts]),
        (f"jax over ours {_headings(found)[-1]}, new outputs", _bold(ratio(record, JAX, "fresh", counts[-1]))),
        (
            "MB beyond the output",
            _number(max((entry["bytes"] for entry in record["scratch"]), default=0), 1, 1 / MEGABYTE),
        ),
    ]


def _padding(found: Record, record: Record) -> Cells:
    (first, last), (one, many) = found["counts"], _headings(found)
    plain = _plain(record, "warm")
    copies = {
        f"of a copy {one}": (first, first),
        f"of a copy, both {many}": (last, last),
        f"{many}, of a copy {one}": (last, 1),
    }
    return [
        ("padding", record["case"]),
        _moved(record),
        *_milliseconds(found, record, "warm", "ms"),
        *(
            (name, _number(ratio(record, COPY, "warm", count, "copy", copying)))
            for name, (count, copying) in copies.items()
        ),
        *_ratios(
            found,
            "plain way over ours",
            [ratio(record, plain, "warm", count, peer_threads=1) for count in found["counts"]],
        ),
        ("plain way", plain),
    ]


def _index(found: Record, record: Record) -> Cells:
    plain = _plain(record, "fresh")
    return [
        ("indices", record["case"]),
        ("peer", plain),
        *_milliseconds(found, record, "warm", "ms, warm output,"),
        *_milliseconds(found, record, "fresh", "ms, new output,"),
        *(
            cell
            for output, words in (("warm", "peer over ours, warm,"), ("fresh", "new,"))
            for cell in _ratios(
                found, words, [ratio(record, plain, output, count, "fresh", 1) for count in found["counts"]]
            )
        ),
    ]


def _small(found: Record, record: Record) -> Cells:
    """The plain copy's time, and how much longer every other contender takes."""
    peer = record["runs"][0]
    others = dict.fromkeys(
        (run["contender"], run.get("threads", 0)) for each in found["small"] for run in each["runs"][1:]
    )
    return [
        ("one small call, µs (+: more)", record["case"]),
        (peer["contender"], _number(seconds_of(record, peer), 2, 1e6)),
        *(
            (f"+ {_short(name)}{_threads(', ', count)}", _number(above_first(record, name, count)))
            for name, count in others
        ),
    ]


def _curve(found: Record, record: Record) -> Cells:
    """The times of all contenders at one point of the curves."""
    cells = [("time, µs", record["case"]), _moved(record)]
    for run in record["runs"]:
        name = f"{run['contender']}, {run['output']}{_threads(', ', run.get('threads', 0))}"
        cells.append((name, _number(seconds_of(record, run), 1, 1e6)))
    return cells


_ROWS = {
    "cases": _case,
    "arithmetic": _conversion,
    "relayout": _relayout,
    "padding": _padding,
    "index": _index,
    "small": _small,
    "bytes": _curve,
    "linearize": _curve,
}


def _sweep(found: Record) -> list[str]:
    """The tensor transpositions: one row for each element type."""
    types: dict[str, list[Record]] = {}
    for record in found.get("ttc", ()):
        types.setdefault(record["case"].split()[0], []).append(record)
    rows = []
    for element_type, records in types.items():
        fractions = [
            Figure(fraction, record["case"]) for record in records if (fraction := fraction_of(record)) is not None
        ]
        peers = [Figure(peer["against"], record["case"]) for record in records if (peer := best_peer(record))]
        least_peer = min((peer.value for peer in peers), default=None)
        rows.append(
            [
                ("tensor transpositions", f"TTC {element_type}, {len(records)} transpositions"),
                ("of copy, mean", str(middle(fractions) or "")),
                ("least", str(min(fractions, default=""))),
                ("best peer, mean", str(middle(peers) or "")),
                ("least", _number(least_peer)),
            ]
        )
    return _table(rows)


# ---- what falls short ------------------------------------------------------------------------------------------


def _is_judged(found: Record) -> bool:
    """True on a GPU, unless the arrays were tiny: single cases have goals only there."""
    return bool(found["machine"].get("gpu")) and not found["quick"]


def _missed(found: Record) -> list[str]:
    """The goals of single cases that were missed on a GPU, worst first."""
    if not _is_judged(found):
        return []
    judged = [
        goal
        for section in ("cases", "ttc")
        for record in found.get(section, ())
        for goal in case_goals(record)
        if goal.missed != [None]
    ]
    missed = sorted(
        (goal for goal in judged if any(goal.missed)), key=lambda goal: goal.found[0].value / goal.bounds[0]
    )
    return [
        f"Goals of single cases: {len(judged) - len(missed)} of {len(judged)} met" + ", missed:" * bool(missed),
        *_listed([f"- {goal.against}: {goal.what}: {goal.found[0]}, wanted {goal.bounds[0]:.2f}" for goal in missed]),
    ]


def _far_off(found: Record) -> list[str]:
    """On a GPU: the cases whose speed is far from the model's."""
    first, *far = (far_off_lines(found) if _is_judged(found) else []) or [""]
    return [first, *_listed(far, 3)] if first else []


def _absent(found: Record) -> list[str]:
    """The contenders and cases without figures, and why."""
    lines = [f"- peer missing: {name}: {why}" for name, why in found["peers_missing"].items()]
    lines += [
        f"- peer not timed, out of time: {name}, {len(cases)} cases"
        for name, cases in found.get("peers_not_timed", {}).items()
    ]
    lines += _listed(
        [f"- peer refused: {one['peer']} on {one['case']}: {one['reason']}" for one in found["peers_refused"]]
    )
    lines += _listed([f"- not run: {entry['case']}: {entry['reason']}" for entry in found["not_run"]])
    return [
        line[:WIDTH]
        for line in lines + [f"- left out: {name}: {why}" for name, why in found.get("left_out", {}).items()]
    ]


def _listed(lines: list[str], most: int = LISTED) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"- and {len(lines) - most} more"]


# ---- cells -----------------------------------------------------------------------------------------------------


def _threads(words: str, count: int) -> str:
    return f"{words}with 1 thread" if count == 1 else f"{words}with {count}" if count else ""


def _headings(found: Record, words: str = "") -> list[str]:
    """One heading for each number of threads; only the first contains the words."""
    first, last = found["counts"][0], found["counts"][-1]
    return [_threads(f"{words} " if words else "", first), _threads("", last)]


def _moved(record: Record) -> tuple[str, str]:
    return "MB moved", _number(record["bytes_moved"], 1, 1 / MEGABYTE)


def _milliseconds(found: Record, record: Record, output: str, words: str) -> Cells:
    return [
        (name, _number(time_of(record, OURS, output, count), 1, 1e3))
        for name, count in zip(_headings(found, words), found["counts"])
    ]


def _ratios(found: Record, words: str, ratios: Sequence[float | None]) -> Cells:
    return list(zip(_headings(found, words), map(_bold, ratios)))


def _plain(record: Record, output: str) -> str:
    return next(run["contender"] for run in record["runs"] if run["output"] == output and run["contender"] != OURS)


def _short(contender: str) -> str:
    return contender.partition("(")[0].removeprefix(f"{OURS} ")


def _number(value: float | None, digits: int = 2, scale: float = 1.0) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


def _bold(value: float | None) -> str:
    text = _number(value)
    return f"**{text}**" if value is not None and float(text) < EVEN else text


def _table(rows: Sequence[Cells]) -> list[str]:
    """Columns as wide as their widest text, but for the last.

    >>> print(*_table([[("case", "f32 16x16"), ("MB", "0.1")]]), sep="\\n")
    case     |MB
    ---------|---
    f32 16x16|0.1
    """
    if not rows:
        return []
    texts = [[name for name, _ in rows[0]], *([text for _, text in row] for row in rows)]
    widths = [max(3, *map(len, column)) for column in zip(*texts)][:-1] + [0]
    texts.insert(1, ["-" * (width or 3) for width in widths])
    return ["|".join(text.ljust(width) for text, width in zip(row, widths)) for row in texts]
