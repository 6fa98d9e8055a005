"""Moves with arithmetic on the GPU's launch code: the bytes of the exact model, in one launch."""

import dataclasses
import pathlib

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.element_width import MOST_AXES, joined
from gpulayout.gpu.kernel_numbers import defines
from gpulayout.gpu.run import launch_pieces
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove, Step, steps_number, type_number
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.pieces import Piece
from tests import reference_arithmetic as model
from tests.kernels.test_struct import MOST_PARAMETER_BYTES
from tests.support import fake_cuda
from tests.support.cast_kernels import FORMS, TYPES
from tests.support.convert_cases import CASES, ConvertCase
from tests.support.effort import ALL
from tests.support.executors import guarded, guards_intact, source_buffer
from tests.support.kernel_cases import forced_bits
from tests.support.simt import host_module
from tests.support.simt.record import FRESH

EXECUTORS = [pytest.param("simt", marks=pytest.mark.simt), pytest.param("cupy", marks=pytest.mark.gpu)]
ON_KERNELS = pytest.mark.parametrize("executor", EXECUTORS, indirect=True)


def moved(executor, case):
    """The target's bytes after a call; the memory around it must be as before."""
    source = source_buffer(executor, case.source_bytes, (case.phases[0] - case.before[0]) % 16)
    phase = (case.phases[1] - case.before[1]) % 16
    target, memory = guarded(executor, np.uint8, case.target_bytes, phase)
    target[...] = FRESH
    prepared = executor.backend.prepare_arithmetic((Piece(case.move, *case.before),))
    with forced_bits(case.bits):
        prepared.with_parameters(lambda: case.parameters).execute(source, target)
    assert guards_intact(executor, memory, phase, case.target_bytes), case.name
    assert (executor.host(source) == case.source_bytes).all(), case.name
    return executor.host(target)


@pytest.mark.one_in(8)
@ON_KERNELS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_move_with_arithmetic_writes_what_the_model_says(executor, case):
    assert case.is_right(moved(executor, case))


# One case of each family, for any types and a form with two parameters or none.
SHAPES = (
    {"dims": (131,), "source_order": (0,), "target_order": (0,), "per": ((0,), ())},
    {"dims": (7, 19), "source_order": (1, 0), "target_order": (1, 0), "per": ((0,), (0,)), "gaps": (1, 2)},
    {"dims": (2, 124, 3), "source_order": (2, 1, 0), "target_order": (1, 2, 0), "per": ((2,), (2,))},
    {"dims": (2, 124, 3), "source_order": (1, 2, 0), "target_order": (2, 1, 0), "per": ((2,), (0,))},
    {"dims": (64, 32), "source_order": (1, 0), "target_order": (0, 1), "per": ((1,), (1,))},
    {"dims": (33, 21), "source_order": (1, 0), "target_order": (0, 1), "per": ((1,), (0,))},
    {"dims": (2, 4, 5, 4, 3), "source_order": (4, 3, 2, 1, 0), "target_order": (3, 1, 4, 2, 0), "per": ((4,), (4,))},
    {"dims": (5, 17), "source_order": (1, 0), "target_order": (1, 0), "per": ((1,), ()), "gaps": (-1, 0)},
)


def covering_cases():
    """Every type as a source and as a target, families and forms in turn: 30 pairs by default."""
    for number, source in enumerate(TYPES):
        for shift in (7, 11, 13) if ALL else (11,):
            target = TYPES[(number + shift) % len(TYPES)]
            form = ("cast", "scale and shift")[(number + shift) % 2]
            shape = dict(SHAPES[(number + shift) % len(SHAPES)])
            if form == "cast":
                del shape["per"]
            yield ConvertCase(source.value, target.value, form, **shape, saturate=bool(number % 2))


@pytest.mark.one_in(8)
@pytest.mark.simt
@pytest.mark.parametrize("executor", ["simt"], indirect=True)
@pytest.mark.parametrize("case", [*covering_cases()], ids=lambda case: case.name)
def test_every_type_in_every_order_of_threads(executor, case):
    for order in host_module.ORDERS:
        executor.backend.runtime.order = order
        assert case.is_right(moved(executor, case)), order


@ON_KERNELS
def test_several_pieces_share_a_call(executor):
    """Two halves and a fill between them, with one parameter that begins elsewhere for the second half."""
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("multiply", 0),), "scale")
    half = ConvertMove((Axis(10, 10, 1, 4),), arithmetic, ((1,),), (0,))
    fill = Move((Axis(2, 0, 0, 4),), 4, np.float32(-1).tobytes(), ((),))
    pieces = Piece(half), Piece(dataclasses.replace(half, parameter_offsets=(10,)), 10, 48), Piece(fill, 0, 40)
    values, scale = np.arange(20, dtype=np.uint8), np.linspace(-2, 3, 20, dtype=np.float32)
    target = executor.array(np.zeros(22, np.float32))
    executor.backend.prepare_arithmetic(pieces).with_parameters(lambda: [scale]).execute(executor.array(values), target)
    result = values * scale
    assert executor.host(target).tolist() == [*result[:10], -1, -1, *result[10:]]


@ON_KERNELS
def test_parameters_may_have_any_strides(executor):
    arithmetic = Arithmetic(ElementType.S8, ElementType.F32, True, (Step("multiply", 0),), "scale")
    move = ConvertMove((Axis(3, 3, 1, 4), Axis(4, 4, 3, 12)), arithmetic, ((1, 3),), (0,))
    values, scale = np.arange(12, dtype=np.int8), np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4).T
    target = executor.array(np.zeros(12, np.float32))
    executor.backend.prepare_arithmetic((Piece(move),)).with_parameters(lambda: [scale]).execute(
        executor.array(values), target
    )
    assert executor.host(target).tolist() == (values.reshape(4, 3) * scale).ravel().tolist()


@ON_KERNELS
def test_parameters_may_run_backwards(executor):
    """Each value is as far from the end of the parameter as it was from its beginning."""
    case = max(CASES, key=lambda case: (case.plan.file == "tile_nd.cu") * len(case.per) * case.target_bytes)
    last = tuple(array.size - 1 for array in case.parameters)
    strides = tuple(tuple(-step for step in steps) for steps in case.move.parameter_strides)
    move = dataclasses.replace(case.move, parameter_strides=strides, parameter_offsets=last)
    assert kernel_plan(launch_pieces((Piece(move),))[0][0].move).file == "tile_nd.cu"
    source, target = source_buffer(executor, case.source_bytes), executor.array(np.zeros(case.target_bytes, np.uint8))
    parameters = [np.flip(array) for array in case.parameters]
    executor.backend.prepare_arithmetic((Piece(move),)).with_parameters(lambda: parameters).execute(source, target)
    assert case.is_right(executor.host(target))


@ON_KERNELS
@pytest.mark.parametrize("order", ((1, 0), (0, 1)))
def test_source_and_target_may_be_the_same_memory(executor, order):
    """Each element has the same place in both."""
    case = ConvertCase("f32", "s32", "cast", (30, 41), order, order)
    memory = source_buffer(executor, case.source_bytes)
    executor.backend.prepare_arithmetic((Piece(case.move),)).with_parameters(tuple).execute(memory, memory)
    assert case.is_right(executor.host(memory))


@ON_KERNELS
def test_nothing_to_convert_takes_no_launch(executor):
    move = ConvertMove((Axis(0, 0, 1, 4),), Arithmetic(ElementType.U8, ElementType.F32))
    assert launch_pieces((Piece(move),))[0] == ()
    executor.backend.prepare_arithmetic((Piece(move),)).with_parameters(tuple).execute(
        executor.array(np.zeros(0, np.uint8)), executor.array(np.zeros(0, np.float32))
    )


# ---- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", (0, 1))
def test_offsets_of_64_bits_where_a_side_reaches_further(side):
    strides = [1, 4]
    strides[side] *= 2**29
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32)
    near, far = (ConvertMove((Axis(count, count, *strides),), arithmetic) for count in (1 + 3 * (1 - side), 6))
    assert [kernel_plan(move).index_bits for move in (near, far)] == [32, 64]


def test_offsets_of_64_bits_where_a_parameter_reaches_further():
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("add", 0),))
    assert kernel_plan(ConvertMove((Axis(3, 3, 1, 4),), arithmetic, ((2**30,),), (0,))).index_bits == 64


def reversal(count, parameter_strides=()):
    """Elements of `count` axes of two places each, in the opposite order; each parameter has these strides."""
    axes = tuple(Axis(2, 2, 2 ** (count - 1 - k), 4 * 2**k) for k in range(count))
    steps = tuple(Step("multiply", number) for number in range(len(parameter_strides)))
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, steps, "scale" if steps else "cast")
    return ConvertMove(axes, arithmetic, parameter_strides, (0,) * len(steps))


def test_all_of_a_box_has_the_offsets_that_its_parameters_need():
    """Not only the loops over boxes, but also the tables of a box's own places."""
    outer = reversal(14, (tuple(int(k == 7) for k in range(14)),))
    with forced_bits(64):
        expected = kernel_plan.__wrapped__(outer).parameters
    far = reversal(14, (tuple(2**31 * (k == 7) for k in range(14)),))
    plan = kernel_plan(far)
    assert (plan.family, plan.index_bits, len(plan.parameters)) == ("tile", 64, len(expected))
    assert plan.parameters[-2048:] == expected[-2048:]  # the factors of the places


@pytest.mark.parametrize("count", (0, 1, 3))
@pytest.mark.parametrize("axes", (20, 27, 31, 32))
def test_a_launch_fits_the_parameters_of_a_kernel(axes, count):
    """Of every CUDA version; with its two pointers."""
    strides = ((*[0] * (axes - 1), 1),) * count
    assert len(kernel_plan(reversal(axes, strides)).parameters) + 16 <= MOST_PARAMETER_BYTES


def test_an_address_between_elements_is_refused():
    move = CASES[0].move
    for phases, side in (((2, 0), "source"), ((0, 1), "target")):
        with pytest.raises(BufferError, match=f"{side} address is"):
            kernel_plan(move, *phases)


def test_axes_join_where_all_sides_and_parameters_do():
    axes = Axis(3, 3, 1, 4), Axis(5, 5, 3, 12), Axis(1, 1, 7, 9), Axis(7, 7, 15, 60)
    arithmetic = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("add", 0),))
    plain = joined(ConvertMove(axes, arithmetic, ((0, 0, 5, 0),), (0,), ((0,), (1,), (2,), (3,))))
    assert plain.axes == (Axis(105, 105, 1, 4),) and plain.parameter_strides == ((0,),)
    assert plain.dimensions == ((0, 1, 3),)
    stepped = joined(ConvertMove(axes, arithmetic, ((0, 1, 5, 5),), (0,), ((0,), (1,), (2,), (3,))))
    assert [axis.extent for axis in stepped.axes] == [3, 35] and stepped.parameter_strides == ((0, 1),)


def test_more_axes_than_fit_the_parameters_are_refused():
    axes = tuple(Axis(2, 2, 3**k, 4 * 3**k) for k in range(MOST_AXES + 1))
    scaled = Arithmetic(ElementType.U8, ElementType.F32, True, (Step("multiply", 0),))
    with pytest.raises(BufferError, match="33 axes: a launch has room for 32"):
        kernel_plan(ConvertMove(axes, scaled, ((1,) * len(axes),), (0,)))
    assert kernel_plan(ConvertMove(axes, Arithmetic(ElementType.U8, ElementType.F32))).kernel == "gpl_rows"


def test_the_largest_parameters_fit():
    """All axes and parameters, with 64-bit offsets."""
    axes = tuple(Axis(2, 2, 3**k, 4 * 3**k) for k in range(MOST_AXES))
    plan = kernel_plan(
        ConvertMove(
            axes,
            Arithmetic(ElementType.U8, ElementType.F32, True, FORMS["normalise"]),
            ((1,) * len(axes),) * 3,
            (0,) * 3,
        )
    )
    assert plan.index_bits == 64 and len(plan.parameters) + 16 <= MOST_PARAMETER_BYTES


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
    monkeypatch.setattr(fake_cuda.Stream, "is_capturing", lambda stream: True)
    source, target = cupy.zeros(400, np.uint8), cupy.zeros(400, np.float32)
    plain = ConvertCase("u8", "f32", "cast", (400,), (0,), (0,))
    backend.prepare_arithmetic((Piece(plain.move),)).with_parameters(tuple).execute(source, target)
    turned = ConvertCase("u8", "f32", "cast", (20, 20), (1, 0), (0, 1))
    backend.prepare_arithmetic((Piece(turned.move),)).with_parameters(tuple).execute(source, target)
    scaled = ConvertCase("u8", "f32", "scale and shift", (400,), (0,), (0,), ((), ()))
    with pytest.raises(BufferError, match="captured in a CUDA graph if it has parameters"):
        backend.prepare_arithmetic((Piece(scaled.move),)).with_parameters(lambda: scaled.parameters).execute(
            source, target
        )


@pytest.mark.simt
@pytest.mark.parametrize("side", (0, 1))
def test_a_capture_is_refused_where_a_call_needs_temporary_arrays(cupy, monkeypatch, side):
    """Packed elements are unpacked before the arithmetic, or packed after it."""
    buffer = cupy.zeros((200, 400)[side], (np.uint8, np.float32)[side])
    given, made = ("u4[400]{0:E(4)}", "f32[400]") if side == 0 else ("f32[400]", "u4[400]{0:E(4)}")
    gl.relayout(buffer, given, made, dtype=made[: made.index("[")])
    out = cupy.zeros((400, 200)[side], (np.float32, np.uint8)[side])
    monkeypatch.setattr(cupy.backend_module.CupyBackend, "is_capturing", lambda backend, device: True)
    with pytest.raises(BufferError, match="captured in a CUDA graph if it needs temporary arrays"):
        gl.relayout(buffer, given, made, dtype=made[: made.index("[")], out=out)
    assert not cupy.asnumpy(out).any()


def test_the_native_engine_has_the_same_numbers():
    header = pathlib.Path(__file__).parents[2] / "kernels" / "cpu" / "convert_words.h"
    text = header.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if " GPL_" in line] == defines("convert.cuh").splitlines()
