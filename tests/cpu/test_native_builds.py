"""The native engine in C++: random moves against guard pages, under sanitizers, with every instruction set.

tests/support/native/stress.cpp says what each kind of case does.  A usual run compiles the engine once: for all three
instruction sets, which the compiler then makes of narrow vectors, with AddressSanitizer and UBSan, and with numbers
that make small moves have many portions and threads.  GPULAYOUT_TEST_ALL=1 runs all builds, and more moves.
"""

import functools
import platform

import pytest

from tests.support.effort import ALL
from tests.support.native import stress

NAMES = tuple(stress.BUILDS) if ALL else ("asan",)
CASES = {"moves": 1200, "callers": 200, "stops": 40, "within": 30, "forks": 20, "leaves": 20}
MOST_BYTES = {"moves": 100_000, "callers": 300_000}
MORE = 10 if ALL else 1


@pytest.fixture(params=NAMES)
def name(request):
    """The name of a build that can be had here."""
    if problem := stress.missing(stress.BUILDS[request.param]):
        pytest.skip(problem)
    return request.param


@functools.cache
def done(name, kind, count, most_bytes, seed=1):
    """What a run without a failure counted."""
    process = stress.run(stress.BUILDS[name], kind, seed, 0, count, most_bytes)
    assert process.returncode == 0, f"status {process.returncode}\n{process.stdout[-4000:]}\n{process.stderr[:8000]}"
    return stress.counts(process.stdout)


def done_here(name, kind):
    return done(name, kind, MORE * CASES[kind], MOST_BYTES.get(kind, 1 << 20))


@pytest.mark.parametrize("kind", stress.KINDS)
def test_random_moves_are_right(name, kind):
    if kind == "forks" and stress.BUILDS[name].runner:
        pytest.skip("qemu fails an assertion of its own when a forked process starts a thread")
    found = done_here(name, kind)
    if kind != "moves" and stress.BUILDS[name].numbers:
        assert found[("polls",)] > MORE * CASES[kind] / 5  # so the kind's poll did what it is about


@pytest.mark.parametrize("kind, count, most", [("packed", 3000, 20_000), ("indices", 1500, 5000)])
def test_random_packed_moves_and_indices_are_right(name, kind, count, most):
    process = stress.run(stress.BUILDS[name], kind, 1, 0, MORE * count, most)
    assert process.returncode == 0, f"{process.stdout[-4000:]}\n{process.stderr[:8000]}"


def test_every_kernel_of_every_instruction_set_moved_something(name):
    found = done_here(name, "moves")
    sets = {key[0] for key in found if len(key) == 2}
    for each in sets:
        zips = () if each in ("SSE2", "portable") else ("zip", "unzip")  # these need a permutation of bytes
        streams = () if each == "portable" else ("streams",)
        few = [
            kind
            for kind in ("any", "run", "copy", "step", "turn", "fill", *zips, *streams)
            if found.get((each, kind), 0) < 2
        ]
        assert not few, (each, few, found)
    if platform.machine() in ("x86_64", "AMD64") and "-DLOWERED" in stress.BUILDS[name].engine_flags:
        assert sets == {"SSE2", "AVX2", "AVX-512"}


@pytest.mark.parametrize("name", NAMES)
def test_random_moves_with_arithmetic_are_right(name):
    """The places that are read and written; other tests ask what becomes of an element."""
    if problem := stress.missing(stress.BUILDS[name]):
        pytest.skip(problem)
    process = stress.run(stress.BUILDS[name], "converts", 1, 0, MORE * 600, 60_000)
    assert process.returncode == 0, f"status {process.returncode}\n{process.stdout[-4000:]}\n{process.stderr[:8000]}"
    for way in ("gathers", "scatters", "gathersscatters", "streams"):
        assert way == "streams" and "portable" in process.stdout or f" {way}\n" in process.stdout, way


@pytest.mark.skipif(not ALL, reason="takes minutes: GPULAYOUT_TEST_ALL=1 runs it")
@pytest.mark.parametrize("count, most_bytes", [(100_000, 400_000), (200, 40 << 20)])
def test_many_moves_are_right(count, most_bytes):
    if problem := stress.missing(stress.BUILDS["usual"]):
        pytest.skip(problem)
    done("usual", "moves", count, most_bytes, seed=2)


# ---- the program notices -------------------------------------------------------------------------------------------


def test_a_number_that_the_engine_no_longer_has_is_a_mistake():
    with pytest.raises(ValueError, match="0 numbers SHARE"):
        stress.numbered("constexpr int64_t LESS = 1;\n", {"SHARE": "1"})
