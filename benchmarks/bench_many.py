"""Many small relayouts: one call against a loop of plan calls.  On a GPU the time includes waiting for the last launch.

pytest benchmarks/bench_many.py --benchmark-group-by=group --benchmark-columns=median,min
"""

import importlib

import pytest

import gpulayout as gl

LISTS = {
    "100 of f32 16x16": [("f32[16,16]", "f32[16,16]{0,1}")] * 100,
    "1000 of f32 8x8": [("f32[8,8]", "f32[8,8]{0,1}")] * 1000,
    "100 mixed": [
        ("f32[16,16]", "f32[16,16]{0,1}"),
        ("u8[32,31]", "u8[32,31]{1,0:PD(32,32)}"),
        ("f16[8,8,8]", "f16[8,8,8]{1,2,0}"),
        ("f64[4,4,4,4]", "f64[4,4,4,4]{0,1,2,3}"),
    ]
    * 25,
}


def jobs_and_outputs(side, pairs):
    """The jobs, with buffers on this side, and their outputs."""
    xp = importlib.import_module(side.name)
    shapes = [(gl.parse_shape(source), gl.parse_shape(target)) for source, target in pairs]
    jobs = [
        ((xp.arange(source.nbytes) % 251).astype(xp.uint8).view(source.dtype), source, target)
        for source, target in shapes
    ]
    return jobs, [xp.zeros(target.buffer_size, target.dtype) for _, target in shapes]


@pytest.mark.parametrize("who", ("a loop of plan calls", "relayout_many", "relayout_many with new outputs"))
@pytest.mark.parametrize("name", LISTS)
def test_many_small_moves(benchmark, side, name, who):
    jobs, outs = jobs_and_outputs(side, LISTS[name])
    plans = [gl.plan(source, target) for _, source, target in jobs]

    def run():
        if who == "relayout_many":
            found = gl.relayout_many(jobs, out=outs)
        elif who == "relayout_many with new outputs":
            found = gl.relayout_many(jobs)
        else:
            found = [plan(job[0], out=out) for plan, job, out in zip(plans, jobs, outs)]
        side.clock.synchronize()
        return found

    expected = [plan(job[0]) for plan, job in zip(plans, jobs)]
    assert all((result.view("u1") == one.view("u1")).all() for result, one in zip(run(), expected))
    benchmark.group = f"{side.name}: {name}"
    benchmark.extra_info.update(backend=side.name, contender=who, jobs=len(jobs))
    benchmark(run)
