"""The model's expected speed beside the measured one, on a GPU."""

from __future__ import annotations

from benchmarks.record import Record, fraction_of

FAR = 0.15  # a fraction of a plain copy's speed that is further from the model's than this is listed


def model_text(record: Record) -> str:
    """The range that the model expects, in percent: `62-72`; empty for kernels that it does not know."""
    model = record.get("model")
    return "-".join(f"{100 * end:.0f}" for end in model["fraction_of_copy"]) if model else ""


def far_off(found: Record) -> list[Record]:
    """The cases in which the model was wrong by more than `FAR`, worst first."""
    cases = [record for section in ("cases", "ttc") for record in found.get(section, ())]
    judged = [(record, fraction_of(record), record.get("model")) for record in cases]
    far = [
        {"case": record["case"], "measured": measured, "model": model["middle"], "binds": model["binds"]}
        for record, measured, model in judged
        if measured is not None and model and abs(measured - model["middle"]) > FAR
    ]
    return sorted(far, key=lambda one: -abs(one["measured"] - one["model"]))


def far_off_lines(found: Record) -> list[str]:
    """How often the model was right, and where it was wrong."""
    cases = [record for section in ("cases", "ttc") for record in found.get(section, ())]
    judged = [record for record in cases if record.get("model") and fraction_of(record) is not None]
    if not judged:
        return []
    far = far_off(found)
    inside = sum(_is_inside(record) for record in judged)
    head = f"The model's range holds {inside} of {len(judged)} cases; {len(far)} are off by more than {FAR}"
    return [
        head + ":" * bool(far),
        *(
            f"- {one['case']}: {one['measured']:.2f}, model {one['model']:.2f} ({' and '.join(one['binds'])})"
            for one in far
        ),
    ]


def _is_inside(record: Record) -> bool:
    measured = fraction_of(record)
    low, high = record["model"]["fraction_of_copy"]
    return measured is not None and low <= min(measured, 1) <= high
