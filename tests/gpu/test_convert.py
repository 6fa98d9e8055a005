"""Moves with arithmetic on the GPU's launch code: the bytes of the exact model, in one launch or two."""

import dataclasses

import numpy as np
import pytest

from gpulayout.gpu import convert
from gpulayout.gpu.convert import convert_plan, joined, planned_pieces, split, steps_number, type_number
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.kinds import Piece
from gpulayout.moves.move import Axis, Move
from tests import reference_arithmetic as model
from tests.support.cast_kernels import TYPES
from tests.support.convert_cases import CASES, ConvertCase
from tests.support.executors import guarded, guards_intact, source_buffer
from tests.support.simt.record import FRESH

EXECUTORS = [pytest.param("simt", marks=pytest.mark.simt), pytest.param("cupy", marks=pytest.mark.gpu)]
ON_KERNELS = pytest.mark.parametrize("executor", EXECUTORS, indirect=True)
TWO = [case for case in CASES if split(case.move)]


def moved(executor, case):
    """The target's bytes after a call; the memory around it must be as before."""
    source = source_buffer(executor, case.source_bytes, (case.phases[0] - case.before[0]) % 16)
    phase = (case.phases[1] - case.before[1]) % 16
    target, memory = guarded(executor, np.uint8, case.target_bytes, phase)
    target[...] = FRESH
    prepared = executor.backend.prepare_arithmetic((Piece(case.move, *case.before),))
    prepared.convert(source, target, case.parameters)
    assert guards_intact(executor, memory, phase, case.target_bytes), case.name
    assert (executor.host(source) == case.source_bytes).all(), case.name
    return executor.host(target)


@ON_KERNELS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_move_with_arithmetic_writes_what_the_model_says(executor, case):
    assert case.is_right(moved(executor, case))


def test_orders_that_differ_take_two_moves_in_the_narrower_type():
    assert len(TWO) == 4
    for case in TWO:
        found = split(case.move)
        sides = case.arithmetic.source, case.arithmetic.target
        assert {type(found.first), type(found.second)} == {Move, ConvertMove}
        plain, converts = sorted(found[:2], key=lambda move: type(move) is ConvertMove)
        narrow = min(side.itemsize for side in sides)
        assert plain.itemsize == narrow and found.temporary_bytes == narrow * case.move.element_count
        axis = min(converts.axes, key=lambda axis: abs(axis.target_stride))
        assert abs(axis.source_stride) == min(abs(each.source_stride) for each in converts.axes)
        assert split(converts) is None and convert_plan(converts).reasons == ()
        assert f"through {found.temporary_bytes} bytes of temporary memory" in convert_plan(case.move).reasons[0]


@ON_KERNELS
def test_several_pieces_share_a_call(executor):
    """Two halves and a fill between them, with one parameter that begins elsewhere for the second half."""
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("multiply", 0),), "scale")
    half = ConvertMove((Axis(10, 10, 1, 4),), arithmetic, ((1,),), (0,))
    fill = Move((Axis(2, 0, 0, 4),), 4, np.float32(-1).tobytes(), ((),))
    pieces = Piece(half), Piece(dataclasses.replace(half, parameter_offsets=(10,)), 10, 48), Piece(fill, 0, 40)
    values, scale = np.arange(20, dtype=np.uint8), np.linspace(-2, 3, 20, dtype=np.float32)
    target = executor.array(np.zeros(22, np.float32))
    executor.backend.prepare_arithmetic(pieces).convert(executor.array(values), target, [scale])
    result = values * scale
    assert executor.host(target).tolist() == [*result[:10], -1, -1, *result[10:]]


@ON_KERNELS
def test_parameters_may_have_any_strides(executor):
    arithmetic = Arithmetic(ElementType.S8, ElementType.F32, True, (Step("multiply", 0),), "scale")
    move = ConvertMove((Axis(3, 3, 1, 4), Axis(4, 4, 3, 12)), arithmetic, ((1, 3),), (0,))
    values, scale = np.arange(12, dtype=np.int8), np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4).T
    target = executor.array(np.zeros(12, np.float32))
    executor.backend.prepare_arithmetic((Piece(move),)).convert(executor.array(values), target, [scale])
    assert executor.host(target).tolist() == (values.reshape(4, 3) * scale).ravel().tolist()


@ON_KERNELS
@pytest.mark.parametrize("order", ((1, 0), (0, 1)))
def test_source_and_target_may_be_the_same_memory(executor, order):
    """Each element has the same place in both."""
    case = ConvertCase("f32", "s32", "cast", (30, 41), order, order)
    memory = source_buffer(executor, case.source_bytes)
    executor.backend.prepare_arithmetic((Piece(case.move),)).convert(memory, memory, ())
    assert case.is_right(executor.host(memory))


@ON_KERNELS
def test_nothing_to_convert_takes_no_launch(executor):
    move = ConvertMove((Axis(0, 0, 1, 4),), Arithmetic(ElementType.U8, ElementType.F32))
    assert planned_pieces((Piece(move),)).launches == ()
    executor.backend.prepare_arithmetic((Piece(move),)).convert(
        executor.array(np.zeros(0, np.uint8)), executor.array(np.zeros(0, np.float32)), ()
    )


# ---- plans -----------------------------------------------------------------------------------------------------------


def vectors(**changes):
    case = dataclasses.replace(CASES[0], **changes)
    return dict(convert_plan(case.move, *case.phases).macros)["GPL_VECTOR"]


def test_a_thread_converts_neighbours_that_are_contiguous_and_aligned():
    assert vectors() == 4
    assert vectors(phases=(8, 4)) == 2 and vectors(phases=(4, 4)) == 1 and vectors(phases=(0, 6)) == 1
    assert vectors(dims=(302,)) == 2 and vectors(dims=(301,)) == 1
    assert vectors(gaps=(-1, 0)) == 1
    assert vectors(source="f64") == 2 and vectors(source="f64", target="s64") == 2
    rows = {"dims": (4, 8), "source_order": (1, 0), "target_order": (1, 0)}
    assert vectors(**rows, gaps=(4, 8)) == 4 and vectors(**rows, gaps=(2, 0)) == 2 and vectors(**rows, gaps=(0, 1)) == 1


@pytest.mark.parametrize("side", (0, 1))
def test_offsets_of_64_bits_where_a_side_reaches_further(side):
    strides = [1, 4]
    strides[side] *= 2**29
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32)
    near, far = (ConvertMove((Axis(count, count, *strides),), arithmetic) for count in (1 + 3 * (1 - side), 6))
    assert [convert_plan(move).index_bits for move in (near, far)] == [32, 64]


def test_offsets_of_64_bits_where_a_parameter_reaches_further():
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("add", 0),))
    assert convert_plan(ConvertMove((Axis(3, 3, 1, 4),), arithmetic, ((2**30,),), (0,))).index_bits == 64


def test_an_address_between_elements_is_refused():
    move = CASES[0].move
    for phases, side in (((2, 0), "source"), ((0, 1), "target")):
        with pytest.raises(BufferError, match=f"{side} address is"):
            convert_plan(move, *phases)


def test_axes_join_where_all_sides_and_parameters_do():
    axes = Axis(3, 3, 1, 4), Axis(5, 5, 3, 12), Axis(1, 1, 7, 9), Axis(7, 7, 15, 60)
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("add", 0),))
    plain = joined(ConvertMove(axes, arithmetic, ((0, 0, 5, 0),), (0,), ((0,), (1,), (2,), (3,))))
    assert plain.axes == (Axis(105, 105, 1, 4),) and plain.parameter_strides == ((0,),)
    assert plain.dimensions == ((0, 1, 3),)
    stepped = joined(ConvertMove(axes, arithmetic, ((0, 1, 5, 5),), (0,), ((0,), (1,), (2,), (3,))))
    assert [axis.extent for axis in stepped.axes] == [3, 35] and stepped.parameter_strides == ((0, 1),)


def test_more_axes_than_fit_the_parameters_are_refused():
    axes = tuple(Axis(2, 2, 3**k, 4 * 3**k) for k in range(convert.MOST_AXES + 1))
    with pytest.raises(BufferError, match="57 axes: a launch has room for 56"):
        convert_plan(ConvertMove(axes, Arithmetic(ElementType.U8, ElementType.F32)))


@pytest.mark.parametrize("element_type", TYPES)
def test_a_type_as_a_number(element_type):
    number, name = type_number(element_type), element_type.value
    assert number >> 5 & 127 == model.width_of(name) and number < 2**31
    if model.is_float(name):
        kind = model.float_of(name)
        assert (number >> 12 & 63, number >> 18) == (kind.mantissa_bits, kind.bias)


def test_steps_as_a_number():
    assert steps_number(()) == 0
    assert steps_number((Step("divide", 0), Step("round"), Step("add", 2))) == 4 | 5 << 5 | (2 | 2 << 3) << 10


# ---- calls on the imitation of CuPy ----------------------------------------------------------------------------------


@pytest.mark.simt
def test_a_capture_is_refused_where_memory_is_given_back(cupy, monkeypatch):
    backend = cupy.backend_module.CupyBackend()
    monkeypatch.setattr(backend, "is_capturing", lambda device: True)
    source, target = cupy.zeros(400, np.uint8), cupy.zeros(400, np.float32)
    plain = ConvertCase("u8", "f32", "cast", (400,), (0,), (0,))
    backend.prepare_arithmetic((Piece(plain.move),)).convert(source, target, ())
    turned = ConvertCase("u8", "f32", "cast", (20, 20), (1, 0), (0, 1))
    with pytest.raises(BufferError, match="captured in a CUDA graph if it has temporary arrays"):
        backend.prepare_arithmetic((Piece(turned.move),)).convert(source, target, ())
    scaled = ConvertCase("u8", "f32", "scale and shift", (400,), (0,), (0,), ((), ()))
    with pytest.raises(BufferError, match="captured in a CUDA graph if it has parameters"):
        backend.prepare_arithmetic((Piece(scaled.move),)).convert(source, target, scaled.parameters)
