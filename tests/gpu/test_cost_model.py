"""The cost model against what an H100 measured, its ranges, and that no plan depends on it."""

import itertools
import math
import pathlib
import random
import re
import sys
import types

import pytest

import gpulayout as gl
from gpulayout.gpu import cost_model, devices, estimate
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.cost_model import LaunchWork, predicted, resident_blocks
from gpulayout.gpu.devices import DEVICES, REFERENCE, device_at_hand, device_of
from gpulayout.gpu.estimate import copy_work, ends, launch_work
from gpulayout.gpu.kernel_costs import Cost
from tests.support.kernel_cases import move_of, transposed
from tests.support.measured_launches import measured
from tests.support.random_moves import AIMS, drawn

H100 = DEVICES[REFERENCE]
CASES, MOVES = measured("cases"), measured("moves")


def fraction(work, device=H100):
    """The model's own figure, relative to a copy of as many bytes."""
    return min(predicted(copy_work(work.nbytes), device).seconds / predicted(work, device).seconds, 1)


def error(rows):
    """The root mean square error of a list of measured launches."""
    return math.sqrt(sum((fraction(work) - found) ** 2 for _, work, found in rows) / len(rows))


# ---- what was measured ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, count, limit", [(CASES, 171, 0.045), (MOVES, 37, 0.075)], ids=["cases", "moves"])
def test_the_model_is_near_what_was_measured(rows, count, limit):
    assert len(rows) == count and error(rows) <= limit


@pytest.mark.parametrize("rows, inside, width", [(CASES, 154, 0.13), (MOVES, 33, 0.22)], ids=["cases", "moves"])
def test_nine_of_ten_launches_are_in_their_range(rows, inside, width):
    """And ranges are no wider than they need to be for that: a model that knows nothing says 0 to 1."""
    ranges = [(ends(fraction(work)), found) for _, work, found in rows]
    assert sum(low <= found <= high for (low, high), found in ranges) >= inside
    assert sum(high - low for (low, high), _ in ranges) / len(rows) <= width


@pytest.mark.parametrize("seed", range(3))
def test_constants_that_are_fitted_to_one_half_predict_the_other(monkeypatch, seed):
    def of(turn, step, run, cut):
        for name, value in zip(("TURN", "STEP", "RUN", "CUT"), (turn, step, run, cut)):
            monkeypatch.setattr(cost_model, name, value)
        return [error(part) for part in (fitted, left_out)]

    rows = random.Random(seed).sample(CASES + MOVES, len(CASES) + len(MOVES))
    fitted, left_out = rows[::2], rows[1::2]
    choices = itertools.product((800, 1200, 1600), (3, 5, 8), (8, 12, 16), (45, 90, 135))
    assert min(of(*choice) for choice in choices)[1] <= 0.06


@pytest.mark.parametrize("name, rows, worse", [("TURN", MOVES, 0.1), ("CUT", MOVES, 0.09), ("RUN", CASES, 0.055)])
def test_without_one_of_its_parts_the_model_is_wrong(monkeypatch, name, rows, worse):
    monkeypatch.setattr(cost_model, name, 0)
    assert error(rows) > worse


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_instructions_that_are_known_roughly_are_enough(factor):
    for rows, limit in ((CASES, 0.045), (MOVES, 0.08)):
        assert (
            error([(name, work._replace(instructions=factor * work.instructions), f) for name, work, f in rows])
            <= limit
        )


def of_move(name):
    return next((work, found) for move, work, found in MOVES if move == name)


# Rows of 60 bytes with so many chunks of 4 bytes for a thread: registers, instructions for an element, and the fraction
# of a copy in benchmarks/results/gpu-h100-first-numbers.json.
CHUNKS = {1: (14, 52, 0.631), 2: (20, 32.5, 0.834), 4: (32, 17.75, 0.942), 8: (44, 10.9, 0.947)}


def test_with_half_as_many_bytes_in_flight_it_falls_as_it_did():
    work, _ = of_move("rows f32, 60 bytes")
    elements, expected = work.nbytes / 8, {}
    for count, (registers, instructions, found) in CHUNKS.items():
        changed = work._replace(
            blocks=round(elements / 256 / count), registers=registers, instructions=instructions * elements / 32
        )
        expected[count] = fraction(changed)
        assert expected[count] == pytest.approx(found, abs=0.09), count
    assert expected[1] < expected[2] - 0.1 < expected[4] - 0.1
    assert "too few bytes in flight" == predicted(work._replace(waits=8), H100).binding[0]


@pytest.mark.parametrize("registers, found", [(64, 0.805), (40, 0.884), (32, 0.897)])
def test_more_resident_blocks_help_as_they_did(registers, found):
    work, _ = of_move("images f16")
    assert fraction(work._replace(registers=registers)) == pytest.approx(found, abs=0.05)


def test_more_bandwidth_needs_more_bytes_in_flight():
    faster = [fraction(work, DEVICES["H200"]) - fraction(work) for _, work, _ in MOVES]
    assert max(faster) <= 0.001 and min(faster) < -0.1


# ---- laws -----------------------------------------------------------------------------------------------------------


def test_one_block_alone_takes_everything_one_after_the_other():
    work = LaunchWork(8192, 1, 32, 0, 8192, 0, 0, 800, 1)
    found = predicted(work, H100)
    assert found.seconds >= found.bounds[cost_model.LATENCY] + H100.launch
    assert found.binding[0] == cost_model.LAUNCH


def test_more_of_anything_takes_no_less_time():
    for _, base, _ in MOVES:
        for field in ("sector_bytes", "runs", "cuts", "instructions", "waits", "registers"):
            more = base._replace(**{field: 2 * getattr(base, field) + 64})
            assert predicted(more, H100).seconds >= predicted(base, H100).seconds, field


@pytest.mark.parametrize(
    "move, waits",
    [
        (transposed(4, (1 << 20,), (0,)), 1),
        (transposed(4, (512, 512), (1, 0)), 2),  # 64 bytes of a thread are all of a tile
        (transposed(4, (8,) * 6, tuple(range(6))[::-1]), 2),  # a whole box is on its way
        (transposed(1, (200, 33, 31), (0, 2, 1)), 8),  # 16 of 53 bytes
    ],
    ids=["copy", "tile", "box", "stack"],
)
def test_a_block_waits_for_what_is_not_under_way_at_once_and_at_a_barrier(move, waits):
    assert launch_work(kernel_plan(move)).waits == waits


@pytest.mark.parametrize("in_flight, each", [(81, 1), (80, 2), (40, 3)])
def test_the_boxes_of_a_block_come_one_after_another_and_idle_lanes_load_nothing(monkeypatch, in_flight, each):
    """Boxes of 3^7 doubles, 17496 bytes, which 27 of 32 lanes read."""
    monkeypatch.setattr(estimate, "cost_of", lambda plan: Cost(64, 24064, in_flight, 1, 1))
    plan = kernel_plan(transposed(8, (3,) * 16, tuple(range(16))[::-1]))
    boxes = 3**9 / math.prod(plan.grid)
    assert boxes > 1 and plan.lanes[0] == 27 and plan.tile == (3,) * 7
    assert launch_work(plan).waits == pytest.approx(2 * each * boxes)


def test_channels_that_are_read_and_dropped_are_moved():
    plan = kernel_plan(gl.plan("u8[3000,4000,3]{2,1,0:PD(3000,4000,4)}", "{1,0,2}").move)
    work = launch_work(plan)
    assert (work.nbytes, work.sector_bytes) == (72_000_000, 84_000_000)


def test_memory_moves_whole_sectors_but_no_more_than_there_are():
    every_fourth = launch_work(kernel_plan(move_of(4, [(4096, 4096, 4, 1)])))
    far_apart = launch_work(kernel_plan(move_of(4, [(4096, 4096, 64, 1)])))
    assert every_fourth.sector_bytes == pytest.approx(5 * 4096 * 4, rel=0.01) and every_fourth.runs == 0
    assert far_apart.sector_bytes == 9 * 4096 * 4 and far_apart.runs == 4096 == far_apart.nbytes / 8
    odd = launch_work(kernel_plan(move_of(4, [(4097, 4097, 4095, 1), (4095, 4095, 1, 4097)])))
    assert odd.sector_bytes == odd.nbytes and odd.cuts == 0  # rows of its tiles begin at sectors
    doubles = launch_work(kernel_plan(move_of(8, [(4097, 4097, 4095, 1), (4095, 4095, 1, 4097)])))
    written = 4097 * 4095 * 8 / 512  # rows of its tiles, which begin at multiples of 8 bytes: 3 of 4 ends cut a sector
    assert doubles.cuts == pytest.approx(1.5 * written) and doubles.runs == pytest.approx(3 * written)


def test_what_memory_alone_allows_falls_with_the_alignment():
    tile, odd = ([(b, b, a, 1), (a, a, 1, b)] for a, b in ((4096, 4096), (4097, 4095)))
    for width in (8, 16):
        aligned, misaligned = (estimate.estimate(kernel_plan(move_of(width, axes))) for axes in (tile, odd))
        assert 0.2 < misaligned.memory_alone < aligned.memory_alone <= 1


@pytest.mark.parametrize(
    "registers, shared_bytes, blocks", [(32, 0, 8), (40, 0, 6), (48, 16384, 5), (64, 0, 4), (32, 65536, 3), (255, 0, 1)]
)
def test_registers_shared_memory_and_threads_limit_the_resident_blocks(registers, shared_bytes, blocks):
    assert resident_blocks(registers, shared_bytes, H100) == blocks


def test_a_copy_is_a_copy_on_every_device():
    move = gl.plan("u8[1000000000]", "u8[1000000000]").move
    for device in DEVICES.values():
        found = estimate.estimate(kernel_plan(move), device=device)
        assert found.middle == pytest.approx(1, abs=0.01) and found.binding[0] == "memory", device.name
        copied = 2e9 / (device.bandwidth * device.efficiency)
        assert found.seconds[0] <= copied * 1.03 and found.seconds[1] >= copied * 0.95


def test_ranges_are_ranges():
    for source, target in (("f32[4096,4096]", "{0,1}"), ("f32[4095,4097]", "{0,1}"), ("u8[64,32,9,9]", "{1,3,2,0}")):
        found = estimate.estimate(kernel_plan(gl.plan(source, target).move))
        assert 0 < found.low < found.middle <= found.high <= 1 and found.seconds[0] < found.seconds[1]
        low, middle, high = found.as_json()["fraction_of_copy"][0], found.as_json()["middle"], found.high
        assert low <= middle <= high and found.as_json()["measured"] is False


@pytest.mark.parametrize("kind", AIMS)
def test_every_random_move_has_a_sane_range(kind):
    for width in AIMS[kind].widths:
        for number in range(12):
            found = estimate.estimate(drawn(kind, width, number).plan)
            assert found is None or 0 < found.low <= found.middle <= found.high <= 1 and math.isfinite(found.seconds[1])


def test_bytes_that_many_places_share_are_read_once():
    plan = kernel_plan(gl.plan("f32[4096,4096]", "{0,1}").move)
    assert launch_work(plan).nbytes == launch_work(plan).sector_bytes == 2**27
    shared = kernel_plan(move_of(4, [(1024, 1024, 1, 1), (512, 512, 0, 1024)]))
    assert launch_work(shared).nbytes == 4096 + 2**21


# ---- devices --------------------------------------------------------------------------------------------------------

ATTRIBUTES = {
    "MultiProcessorCount": 132,
    "ClockRate": 1_755_000,
    "MemoryClockRate": 2_619_000,
    "GlobalMemoryBusWidth": 5120,
    "MaxSharedMemoryPerMultiprocessor": 228 * 2**10,
    "MaxThreadsPerMultiProcessor": 2048,
    "MaxBlocksPerMultiprocessor": 32,
    "MaxRegistersPerMultiprocessor": 65536,
}


def test_a_device_is_described_by_its_attributes():
    found = device_of("NVIDIA H100 80GB HBM3", ATTRIBUTES)
    assert found.name == "H100 80GB HBM3" and found.clock == 1.755e9
    assert found.bandwidth == pytest.approx(3.352e12, rel=0.001)
    assert device_of("NVIDIA L4", {}).multiprocessors == 58
    assert device_of("Tesla V100-SXM2-16GB", {}).shared_bytes == 96 * 2**10
    assert device_of("NVIDIA GeForce RTX 4090", {}).threads == 1536
    assert device_of("something new", {})[1:] == H100[1:]
    assert device_of("something new", {"MultiProcessorCount": 0, "ClockRate": 0})[1:] == H100[1:]  # not reported


@pytest.mark.parametrize("found, name", [(("NVIDIA H100 80GB HBM3", ATTRIBUTES), "H100 80GB HBM3"), (None, REFERENCE)])
def test_the_device_at_hand_is_asked_only_where_a_gpu_was_used(monkeypatch, found, name):
    monkeypatch.setitem(
        sys.modules, "gpulayout.gpu.cupy_runtime", types.SimpleNamespace(current_attributes=lambda: found)
    )
    assert device_at_hand().name == name
    monkeypatch.delitem(sys.modules, "gpulayout.gpu.cupy_runtime")
    assert device_at_hand() == H100


def test_plans_are_the_same_on_every_device(monkeypatch):
    """The planners do not import the model, and no plan changes with what it says."""
    moves = [
        gl.plan(source, target).move
        for source, target in (
            ("f32[900,700]", "{0,1}"),
            ("f16[8,16,16,16,16]", "{0,1,2,3,4}"),
            ("u8[99,99,3]", "{1,0,2}"),
        )
    ]
    before = [kernel_plan.__wrapped__(move, 0, 0) for move in moves]
    for device in (DEVICES["T4"], DEVICES["B200"]):
        monkeypatch.setattr(devices, "DEVICES", {REFERENCE: device})
        monkeypatch.setattr(cost_model, "predicted", None)
        assert [kernel_plan.__wrapped__(move, 0, 0) for move in moves] == before


MODEL = {"cost_model", "devices", "estimate", "kernel_costs"}


def test_planners_do_not_import_the_model():
    folder = pathlib.Path(devices.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        imported = set(re.findall(r"from gpulayout\.gpu\.(\w+) import", path.read_text()))
        assert path.stem in MODEL or not imported & MODEL, path.name


def test_a_copy_moves_its_bytes_and_no_more():
    work = copy_work(2**30)
    assert work.sector_bytes == 2**30 and work.runs == work.cuts == 0 and work.waits == 1


def test_a_process_that_has_used_no_gpu_has_the_reference_device(monkeypatch):
    monkeypatch.delitem(sys.modules, "gpulayout.gpu.cupy_runtime", raising=False)
    assert device_at_hand() is DEVICES[REFERENCE]
