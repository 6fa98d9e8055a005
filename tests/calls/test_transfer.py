"""Caches between calls: plans are found however shapes are written, never mixed up, and bounded in bytes."""

import inspect
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu.run import NumpyBackend
from gpulayout.layout.text import LONGEST_KEPT
from gpulayout.moves.backend import Backend, Prepared
from gpulayout.plans import plan as planning
from gpulayout.running import request, running
from gpulayout.running.kept import Kept
from tests.support import executors

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def planned(monkeypatch, plans_anew):
    """A word for every plan that is made."""
    calls = []
    real = request.pieces
    monkeypatch.setattr(request, "pieces", lambda *given: calls.append("pieces") or real(*given))
    return calls


def test_a_plan_is_found_again_however_its_shapes_are_given(planned, monkeypatch):
    source, target = gl.parse_shape("f32[2,3]"), gl.parse_shape("f32[2,3]{0,1}")
    plans = [
        gl.plan(*given)
        for given in (
            (source, target),
            ("f32[2,3]", "f32[2,3]{0,1}"),
            ("f32[2,3]", "{0,1}"),
            (source, gl.Layout((0, 1))),
            ("f32[2,3]{1,0}", target),
            ("f32[2,3]", "{0,1}"),
        )
    ]
    assert all(plan is plans[0] for plan in plans) and planned == ["pieces"]
    monkeypatch.setattr(planning, "read_plan", lambda *given: pytest.fail("a text was read again"))
    assert gl.plan("f32[2,3]", "{0,1}") is gl.plan(source, gl.Layout((0, 1))) is plans[0]
    monkeypatch.undo()
    assert gl.plan(source, "{1,0}") is not plans[0] and gl.plan("f32[2,3]{0,1}", "{0,1}") is not plans[0]


@pytest.mark.parametrize(
    "shape",
    [
        "f32[2,3]{0,1:PD(3,3)}",
        "{0,1:PD(3,3)}",
        gl.Layout((0, 1), padded_dimensions=(3, 3)),
        gl.Shape("f32", (2, 3), gl.Layout((0, 1), padded_dimensions=(3, 3))),
    ],
)
def test_pack_plans_once_for_each_kind_of_array(planned, shape):
    for _ in range(2):
        for array in (MATRIX, MATRIX.T.copy().T, np.repeat(MATRIX, 2, 1)[:, ::2]):
            assert gl.pack(array, shape).tolist() == [0, 3, 0, 1, 4, 0, 2, 5, 0]
    assert planned == ["pieces"] * 3
    whole = not isinstance(shape, gl.Layout) and "f32" in str(shape)
    if whole:
        with pytest.raises(TypeError, match="^array has dtype int32, but"):
            gl.pack(MATRIX.view(np.int32), shape)
    else:  # a layout fits every array of its rank
        assert gl.pack(MATRIX.view(np.int32), shape).dtype == np.int32
        assert gl.pack(MATRIX[:, :2], gl.Layout((0, 1))).tolist() == [0, 3, 1, 4]


def test_unpack_plans_once_for_each_kind_of_out(planned):
    buffer = gl.pack(MATRIX, "f32[2,3]{0,1}")
    planned.clear()
    for _ in range(2):
        for out in (
            None,
            np.empty((2, 3), np.float32),
            np.empty((3, 2), np.float32).T,
            np.empty((2, 6), np.float32)[:, ::2],
        ):
            assert gl.unpack(buffer, "f32[2,3]{0,1}", out=out).tolist() == MATRIX.tolist()
    assert planned == ["pieces"] * 3  # a new array is in C order too
    for wrong in (np.empty((2, 3), np.int32), np.empty((3, 2), np.float32)):
        with pytest.raises((TypeError, BufferError), match="^out has "):
            gl.unpack(buffer, "f32[2,3]{0,1}", out=wrong)


# ---- what bounds it ------------------------------------------------------------------------------------------------


def test_what_is_kept_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(Kept, "MOST_BYTES", 10 * Kept.ENTRY_BYTES)
    kept = Kept()
    for number in range(100):
        kept.keep((number,), number)
        assert kept.get((number,)) == number and len(kept.keys()) <= 10
    kept.keep(("large",), "large", pieces=10**6)  # larger than the bound: it has the cache to itself
    assert kept.get(("large",)) == "large" and len(kept.keys()) == 1
    kept.keep(("small",), "small")
    assert kept.get(("small",)) == "small" and kept.get(("large",)) is None
    kept.clear()
    for number in range(10):
        kept.keep((number,), number)
    assert all(kept.get((number,)) == number for number in range(10))


def test_plans_of_new_shapes_do_not_pile_up(monkeypatch, plans_anew):
    monkeypatch.setattr(Kept, "MOST_BYTES", 10 * (Kept.ENTRY_BYTES + Kept.PIECE_BYTES))
    for size in range(1, 60):
        array = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        buffer = gl.pack(array, "{0,1}")
        assert gl.relayout(buffer, f"f32[2,{size}]{{0,1}}", "{1,0}").tolist() == list(range(2 * size))
        assert gl.unpack(buffer, f"f32[2,{size}]{{0,1}}").tolist() == array.tolist()
        assert all(0 < len(kept.keys()) <= 14 for kept in (running.kept_calls, request.kept_requests))


def test_long_texts_are_read_and_not_kept(plans_anew):
    text = "f32[" + ",".join(["1"] * 2100) + "]"
    assert len(text) > LONGEST_KEPT
    assert gl.relayout(np.ones(1, np.float32), text, text).tolist() == [1]
    assert all(text not in key for key in running.kept_calls.keys())


def test_a_bound_says_what_an_entry_takes(numpy_alone):
    """The figures beside `Kept` are those of real entries, within a factor of 2, with all that NumPy prepares."""
    source = gl.parse_shape("u8[1500,1500]{1,0:T(53,59)}")
    target = gl.parse_shape("u8[1500,1500]{1,0:T(61,67)}")
    planning.Plan(source, target)(np.zeros(source.nbytes, np.uint8))  # what is made once does not count
    kept = Kept()
    tracemalloc.start()
    try:
        for size in range(200, 300):
            plan = planning.Plan(gl.Shape("f32", (3, size)), gl.Shape("f32", (3, size), gl.Layout((0, 1))))
            plan(np.zeros(3 * size, np.float32))
            kept.keep((plan.source, plan.target), plan, len(plan.pieces))
        each = tracemalloc.get_traced_memory()[0] / 100
        request.kept_requests.clear()
        tracemalloc.clear_traces()
        plan = planning.Plan(source, target)
        plan(np.zeros(source.nbytes, np.uint8))
        piece = tracemalloc.get_traced_memory()[0] / len(plan.pieces)
    finally:
        tracemalloc.stop()
    assert len(plan.pieces) > 300
    assert 0.5 < each / (Kept.ENTRY_BYTES + Kept.PIECE_BYTES) < 2 and 0.5 < piece / Kept.PIECE_BYTES < 2


# ---- the protocol --------------------------------------------------------------------------------------------------


def names_of(protocol):
    """All names that a protocol requires."""
    return {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}


@pytest.mark.parametrize("backend", ["numpy", "imitation"])
def test_a_backend_has_every_name_of_the_protocol(backend, request):
    made = NumpyBackend() if backend == "numpy" else request.getfixturevalue("cupy").backend_module.CupyBackend()
    assert len(names_of(Backend)) >= 16 and {
        "prepare",
        "contiguous",
        "max_operands",
        "linearize_broadcast",
    } <= names_of(Backend)
    assert [name for name in names_of(Backend) if not hasattr(made, name)] == []
    assert bool(made.linearize_broadcast) == bool(made.max_operands)


@pytest.mark.parametrize("backend", [NumpyBackend, executors.SimtBackend])
def test_what_a_backend_prepares_has_every_name_of_the_protocol(backend):
    made = backend().prepare(())
    prepared = type(made)
    assert [name for name in names_of(Prepared) if not hasattr(made, name)] == []
    for name in ("execute", "known_call"):
        wanted = list(inspect.signature(getattr(Prepared, name)).parameters)
        assert list(inspect.signature(getattr(prepared, name)).parameters)[: len(wanted)] == wanted
