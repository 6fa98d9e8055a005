"""The kernel for many moves under the sanitizers, on buffers of exact length, with broken twins.

A recorded launch does not know addresses in advance, so a kernel around the real one puts those of three jobs into
the struct.
"""

import itertools

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many import JOBS, JobMove, many_plan, small_move
from tests.support.kernel_cases import BLOCK, WIDTHS, Case, cases, move_of
from tests.support.simt import runner, toolchain
from tests.support.simt.record import Record

REASON = toolchain.sanitizers_missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
MODES = ("asan_ubsan", "tsan_block", "tsan_grid")
PLACED = """
extern "C" __global__ void placed(const void* source0, void* target0, const void* source1, void* target1,
                                  const void* source2, void* target2, const __grid_constant__ GplMany many) {
  GplMany own = many;
  own.job[0].source = source0, own.job[0].target = target0;
  own.job[1].source = source1, own.job[1].target = target1;
  own.job[2].source = source2, own.job[2].target = target2;
  gpl_move_one_of(own);
}
"""


def small_cases(width):
    """The cases of a width that can share a launch with elements of that width; those with few axes come first."""
    found = [case for case in cases(width) if case.move.bytes_written < 100_000]
    alike = [(case, small_move(case.move, case.source_phase, case.target_phase)) for case in found]
    kept = [(case, small) for case, small in alike if small and small.element_bytes == width]
    return [case for case, _ in sorted(kept, key=lambda pair: len(pair[1].axes))]


def threes(width):
    """Three cases at a time."""
    found = small_cases(width)
    return list(zip(found[::3], found[1::3], found[2::3]))


def record(three, order=0, change=lambda text: text):
    plan = many_plan(
        tuple(JobMove(f"job {i}: ", case.move, case.source_phase, case.target_phase) for i, case in enumerate(three))
    )
    (launch,) = plan.shared
    assert launch.members == (0, 1, 2)
    text = change(kernel_text("many.cu")) + PLACED
    buffers = itertools.chain.from_iterable(case.record().arguments[:2] for case in three)
    return Record(text, dict(launch.macros), "placed", launch.grid, (BLOCK,), (*buffers, launch.template), order)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS)
def test_jobs_of_all_families_are_clean_and_right(width, mode):
    chosen = threes(width)
    assert len(chosen) >= 5
    for three, result in zip(
        chosen, runner.run([record(three, number % 3) for number, three in enumerate(chosen)], mode)
    ):
        names = [case.name for case in three]
        assert result.reports == (), names
        assert [*result.buffers[1::2]] == [case.expected() for case in three], names


def test_the_cases_reach_both_numbers_of_axes():
    assert {dict(record(three).macros)["GPL_AXES"] for width in WIDTHS for three in threes(width)} == set(JOBS)


SEVERAL_BLOCKS = [
    Case(f"{count} places", move_of(1, [(count, count, 2, 1), (2, 1, 0, count)])) for count in (5, 2000, 700)
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode, right, wrong, finding",
    [
        ("asan_ubsan", "if (place.inside)", "if (true)", "heap-buffer-overflow"),
        ("asan_ubsan", "places(job.source", "places(many.job[0].source", "heap-buffer-overflow"),
        ("asan_ubsan", "job + step < GPL_JOBS && ", "", ""),
        ("tsan_grid", "blockIdx.x - many.first[number]", "0", "data race"),
        ("tsan_grid", "(GPL_THREADS * GPL_PLACES)", "(GPL_THREADS * GPL_PLACES - 1)", "data race"),
    ],
)
def test_a_broken_twin_is_caught(mode, right, wrong, finding):
    assert right in kernel_text("many.cu")
    three = [Case("padded", move_of(1, [(3, 2, 300000, 2), (700, 700, 1, 6)])), *SEVERAL_BLOCKS[1:]]
    chosen = [SEVERAL_BLOCKS, three] if mode == "tsan_grid" else [*threes(1), three, SEVERAL_BLOCKS]
    twins = [record(each, change=lambda text: text.replace(right, wrong)) for each in chosen]
    assert any(finding in report for result in runner.run(twins, mode) for report in result.reports)


@pytest.mark.parametrize(
    "right, wrong",
    [("<= block", "< block"), ("step = 32", "step = 0"), ("job.target, job,", "job.target, many.job[0],")],
)
def test_a_wrong_job_gives_wrong_bytes(right, wrong):
    assert right in kernel_text("many.cu")
    result = runner.run(record(SEVERAL_BLOCKS, change=lambda text: text.replace(right, wrong)), "asan_ubsan")
    assert result.reports or [*result.buffers[1::2]] != [case.expected() for case in SEVERAL_BLOCKS]
