"""Launches that were simulated cycle by cycle, for the cost model: tests/data/gpu_simulation.json.

The kernels were those of an earlier version, so what they took comes from the simulation (instructions, registers) and
from this table (blocks, bytes, runs, sectors), not from today's plans.
"""

import json
import pathlib
from typing import NamedTuple

from gpulayout.gpu.cost_model import LaunchWork
from gpulayout.gpu.devices import Device

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpu_simulation.json"
SIDE = 2**21  # bytes that most launches read, and that they write
COPY = ("copy2097152", "peer_copy16")

# The V100 of GPGPU-Sim (SM7_QV100), cut to a sixteenth: 5 multiprocessors, 2 channels of 32 bytes per cycle at 850 MHz.
# A pipeline for integers takes a warp every second cycle, so half of the slots are filled; an instruction ends about 10
# cycles after it was issued, with 4 cycles in the pipeline.
SIMULATED = Device(
    "simulated",
    multiprocessors=5,
    clock=1.132e9,
    bandwidth=2 * 32 * 850e6,
    l2_bytes=384 * 2**10,
    shared_bytes=96 * 2**10,
    kept_bytes=0,
    issue_use=0.5,
    step=10,
    efficiency=0.95,
    launch=0,
)


class Facts(NamedTuple):
    """A launch's blocks, the bytes of its runs (0: they touch), the sectors of its requests relative to the fewest.

    kept   True if the cache keeps the sectors that a request uses only in part until they are used again
    """

    blocks: int
    runs: tuple[int, int] = (0, 0)
    excess: tuple[float, float] = (1, 1)
    shared_bytes: int = 0
    read: float = 0.5  # of all bytes
    kept: bool = False


FACTS = {
    COPY: Facts(512),
    ("copy2097152", "ours"): Facts(128),
    ("convert_linear_r3_i64", "ours"): Facts(256),
    ("linearize_r3_i64", "ours"): Facts(128, read=3 / 4),
    ("delinearize_r3_i64", "ours"): Facts(128, read=1 / 4),
    ("delinearize_r6_i64", "ours"): Facts(74, read=1 / 7),
    ("u8_aligned", "ours"): Facts(128, (128, 128), shared_bytes=16384),
    ("f16_aligned", "ours"): Facts(256, (128, 128), shared_bytes=8192),
    ("f32_aligned", "ours"): Facts(128, (256, 256), shared_bytes=16384),
    ("f32_aligned", "textbook"): Facts(512, (128, 128), shared_bytes=4224),
    ("f32_aligned", "cupy_like"): Facts(2048, excess=(8, 1), kept=True),
    ("f64_aligned", "ours"): Facts(128, (256, 512), shared_bytes=16384),
    ("f32_all_edge", "ours"): Facts(176, (256, 0), shared_bytes=16384),
    ("f32_all_edge", "textbook"): Facts(704, (128, 96), shared_bytes=4224),
    ("f32_odd", "ours"): Facts(276, (128, 256), (1.22, 1.22), shared_bytes=8704),
    ("f16_odd", "ours"): Facts(136, (126, 256), (1.22, 1.22), shared_bytes=16768),
    ("f32_8x16p4_rev", "ours"): Facts(256, (128, 256), shared_bytes=16384),
    ("nhwc_nchw_f16_c64", "ours"): Facts(256, (128, 0), shared_bytes=8192),
    ("hwc_planes_u8_c3", "ours"): Facts(86),
    ("planes_hwc_u8_c3", "ours"): Facts(86),
    ("pack_f32", "ours"): Facts(256),
    ("rows256B", "ours"): Facts(128, (256, 0)),
    ("rows64B", "ours"): Facts(128, (64, 0)),
}


def simulated_rows():
    """{(case, kernel): row} of the memory with nearly free row switches, where the simulation ran to the end."""
    rows = json.loads(DATA.read_text())["rows"]
    return {(row["case"], row["kernel"]): row for row in rows if row["memory"] == "flat" and row["of_copy"]}


def work_of(row):
    """What a simulated launch did."""
    facts = FACTS[row["case"], row["kernel"]]
    sides = read, written = 2 * SIDE * facts.read, 2 * SIDE * (1 - facts.read)
    return LaunchWork(
        facts.blocks,
        256,
        row["registers"],
        facts.shared_bytes,
        read,
        written,
        tuple(nbytes * excess / 32 for nbytes, excess in zip(sides, facts.excess)),
        sum(nbytes / run for nbytes, run in zip(sides, facts.runs) if run),
        row["thread_instructions"] / 32,
        0 if facts.kept else sum(nbytes * (excess - 1) / 2 for nbytes, excess in zip(sides, facts.excess)),
    )
