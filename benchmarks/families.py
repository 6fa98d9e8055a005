"""A run on a GPU in few lines: each kernel family's speed beside the model's, and the slowest cases."""

from __future__ import annotations

from benchmarks.record import Record, best_peer, fraction_of, mean


def family_lines(found: Record) -> list[str]:
    """For each family the fraction of a copy, the model's and the slowest case; slowest family first."""
    families: dict[str, list[Record]] = {}
    for record in _judged(found):
        families.setdefault(_kernel(record), []).append(record)
    rows = []
    for name, records in families.items():
        fractions = [fraction_of(record) or 0.0 for record in records]
        models = [record["model"]["middle"] for record in records if record.get("model")]
        peers = [peer["against"] for record in records if (peer := best_peer(record, "warm"))]
        slowest = min(records, key=lambda record: fraction_of(record) or 0.0)
        rows.append(
            (
                mean(fractions) or 0.0,
                f"{name[:22]:22} {len(records):5} {mean(fractions) or 0:5.2f} {min(fractions):5.2f} "
                f"{_text(mean(models)):>5} {_text(mean(peers)):>5}  {slowest['case'][:48]}",
            )
        )
    head = f"{'kernel':22} cases  copy least model  peer  the slowest case"
    return [head, *(text for _, text in sorted(rows))] if rows else []


def slowest_lines(found: Record, count: int = 14) -> list[str]:
    """The cases furthest below their goal, or below a copy where they have none."""
    rows = []
    for record in _judged(found):
        fraction, model = fraction_of(record) or 0.0, record.get("model")
        binds = f"model {model['middle']:.2f}: {' and '.join(model['binds'])}" if model else ""
        text = f"{fraction:.2f} of {record.get('goal') or '-'} {record['case'][:50]}, {_kernel(record)}; {binds}"
        rows.append((fraction - (record.get("goal") or 0.9), text))
    return (
        [f"the {min(count, len(rows))} furthest below their goals:", *(text for _, text in sorted(rows)[:count])]
        if rows
        else []
    )


def _judged(found: Record) -> list[Record]:
    return [
        record
        for section in ("cases", "ttc", "arithmetic")
        for record in found.get(section, ())
        if fraction_of(record) is not None and record.get("group") != "tiny"
    ]


def _kernel(record: Record) -> str:
    return record.get("kernel") or record.get("family") or record["group"]


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"
