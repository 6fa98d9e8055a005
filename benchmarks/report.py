"""One record per case, and the table of all figures."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.cases import Case, IndexCase, MoveCase
from benchmarks.clock import Samples
from benchmarks.contender import OURS, Contender
from benchmarks.goals import best_peer
from gpulayout import Shape
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.launch import KernelPlan
from gpulayout.gpu.traffic import expected_fraction
from gpulayout.moves.pieces import pack_pieces, relayout_pieces, unpack_pieces

SCHEMA = 2
# A ratio below this is a loss: the noise of one measurement on a shared machine is a few per cent.
LOSS = 0.95


def case_record(case: Case, backend: str, contenders: Sequence[Contender], samples: Sequence[Samples]) -> dict[str, Any]:
    """What was moved, how fast, and how that stands to a plain copy of as many bytes and to the best peer.

    `against` is how many times faster this library is than the contender: below 1 the contender wins.
    """
    copy = min((s.typical for c, s in zip(contenders, samples) if c.output == "copy"), default=None)
    ours = {c.output: s for c, s in zip(contenders, samples) if c.name == OURS}
    runs = []
    for contender, sample in zip(contenders, samples):
        run = {"contender": contender.name, "output": contender.output, "median_s": sample.median, "best_s": sample.best,
               "rounds": len(sample.seconds), "gb_per_s": round(case.bytes_moved / sample.typical / 1e9, 3)}
        if copy and contender.output != "copy":
            run["fraction_of_copy"] = round(copy / sample.typical, 4)
        if contender.name != OURS and contender.output in ours:
            run["against"] = round(sample.typical / ours[contender.output].typical, 3)
        runs.append(run)
    plan = kernel_of(case)
    return {"case": case.name, "group": case.group, "work": _work(case), "backend": backend, "family": family(case),
            "kernel": plan.kernel if plan else None, "expected_fraction": round(expected_fraction(plan), 3) if plan else None,
            "goal": case.goal, "bytes_moved": case.bytes_moved, "copy_s": copy, "statistic": samples[0].statistic, "runs": runs}


def add_stage(record: dict[str, Any], later: dict[str, Any]) -> None:
    """The peers of a later stage join a record: each against what this library took beside it, in that stage."""
    for run in later["runs"]:
        if "against" in run:
            if record["copy_s"]:
                run["fraction_of_copy"] = round(record["copy_s"] / run[later["statistic"] + "_s"], 4)
            record["runs"].append(run)


def _work(case: Case) -> str:
    return f"{case.kind} {case.target}" if case.kind in ("pack", "unpack", "linearize", "delinearize") else \
        f"{case.kind} {case.source} -> {case.target}"


def kernel_of(case: Case) -> KernelPlan | None:
    """The largest launch of a move whose buffers are aligned; None for index conversion, which has one kernel per direction."""
    if isinstance(case, IndexCase):
        return None
    if case.kind == "relayout":
        move = relayout_pieces(case.source, case.target)[0].move
    elif case.kind == "unpack":
        move = unpack_pieces(case.target, case.source.byte_strides)[0].move
    else:
        move = pack_pieces(_input_strides(case), case.target)[0].move
    return kernel_plan(move)


def _input_strides(case: MoveCase) -> tuple[int, ...]:
    if not case.cut_from:
        return case.source.byte_strides
    held = Shape(case.element_type, case.cut_from).byte_strides
    return tuple(-step if dim in case.backward else step for dim, step in enumerate(held))


def family(case: Case) -> str:
    """The kernel family of a case."""
    plan = kernel_of(case)
    return plan.family if plan else "index"


def small_record(case: MoveCase, backend: str, contenders: Sequence[Contender], samples: Sequence[Samples]) -> dict[str, Any]:
    """Microseconds per small call; `over_peer_us` is what this library adds to the first contender's time."""
    peer = samples[0]
    runs = [{"contender": c.name, "median_us": round(s.median * 1e6, 3), "best_us": round(s.best * 1e6, 3),
             "over_peer_us": round((s.best - peer.best) * 1e6, 3)} for c, s in zip(contenders, samples)]
    return {"case": case.name, "group": case.group, "work": _work(case), "backend": backend, "bytes_moved": case.bytes_moved,
            "runs": runs}


# ---- verdicts ------------------------------------------------------------------------------------------------

def losses(records: Sequence[dict[str, Any]]) -> list[str]:
    """The cases in which a peer is faster, worst first."""
    found = []
    for record in records:
        for output in ("warm", "fresh"):
            peer = best_peer(record, output)
            if peer and peer["against"] < LOSS:
                ratio = peer["against"]
                found.append((ratio, f"{record['case']}, {output} output: {ratio:.2f} of {peer['contender']}"))
    return [text for _, text in sorted(found)]


def table(records: Sequence[dict[str, Any]], small: Sequence[dict[str, Any]], quick: bool = False) -> str:
    """Text: one line per case, then the small calls, then the losses; there are none to speak of among tiny arrays."""
    lines = _aligned([_HEADER, *map(_row, records)], 2) if records else []
    if small:
        rows = [("one small call, microseconds", "best", "more than the peer")]
        for record in small:
            rows += [(f"{record['case']} ({record['bytes_moved']} bytes)", "", "")]
            rows += [(f"  {run['contender']}", f"{run['best_us']:.2f}", f"{run['over_peer_us']:.2f}") for run in record["runs"]]
        lines += ["", *_aligned(rows, 1)]
    if quick:
        return "\n".join(lines)
    lost = losses(records)
    lines += ["", f"best peer: its time over ours, 1.00 is even.  Below {LOSS}: {len(lost) or 'none'}"]
    return "\n".join(lines + [f"  {text}" for text in lost])


_HEADER = ("case", "family", "MB", "|", "warm GB/s", "of copy", "best peer", "|", "fresh GB/s", "best peer")


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    warm, fresh = (next((r for r in record["runs"] if r["contender"] == OURS and r["output"] == output), None)
                   for output in ("warm", "fresh"))
    fraction = f"{warm['fraction_of_copy']:.0%}" if warm and "fraction_of_copy" in warm else "-"
    return (record["case"], record["family"], f"{record['bytes_moved'] / 1e6:.1f}", "|", _speed(warm), fraction, _ratio(record, "warm"),
            "|", _speed(fresh), _ratio(record, "fresh"))


def _aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of columns, each as wide as its widest text; the first `left` ones begin at the left, the others end at the right.

    >>> _aligned([("case", "MB"), ("f32 16x16", "0.1")], 1)
    ['case       MB', 'f32 16x16 0.1']
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [" ".join(text.ljust(width) if k < left else text.rjust(width) for k, (text, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def _speed(run: dict[str, Any] | None) -> str:
    return f"{run['gb_per_s']:.2f}" if run else "-"


def _ratio(record: dict[str, Any], output: str) -> str:
    peer = best_peer(record, output)
    return f"{peer['against']:.2f}" if peer else "-"
