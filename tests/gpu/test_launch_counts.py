"""Launches captured in CUDA graphs and replayed on other bytes, compared with NumPy's results."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from tests.support.device_arrays import device_buffer, host_buffer, on_gpu_alone, overwrite, same_bytes
from tests.support.kernel_cases import kernel_files
from tests.support.placed import relayout_move
from tests.support.small_launches import ELEMENT_TYPES, MOVES, PACKED


def representatives():
    """{kernel and whether it pads: (source, target, elements before the buffers)}, one for each used by small moves."""
    found = {}
    for element_type in ELEMENT_TYPES:
        for dimensions, source_order, target_order, widths, before in MOVES:
            source = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(source_order))
            target = source.with_layout(gl.Layout.from_major_to_minor(target_order, padded_dimensions=widths))
            phase = before * source.itemsize % 16
            plan = kernel_plan(relayout_move(source, target), phase, phase)
            found.setdefault((plan.file, plan.kernel + " with padding" * bool(widths)), (source, target, before))
    for source, target, before in PACKED:
        plan = gl.plan(source, target)
        launch = kernel_plan(plan.move, before % 16, before % 16)
        found.setdefault(
            (launch.file, launch.kernel + f" {plan.source.bits_per_element} to {plan.target.bits_per_element} bits"),
            (plan.source, plan.target, before),
        )
    return found


CASES = representatives()


def test_the_cases_reach_every_kernel_of_single_moves():
    """All but moves with arithmetic, of which not all can be captured (tests/gpu/test_convert.py)."""
    others = {"convert.cu", "index.cu", "index_program.cu", "many.cu"}
    assert {file for file, _ in CASES} == set(kernel_files()) - others


class NoAllocation:
    """Within the block, no memory may be allocated from the pool."""

    def __init__(self, cp):
        class Hook(cp.cuda.MemoryHook):
            name, sizes = "gpulayout tests", []

            def malloc_preprocess(self, **given):
                self.sizes.append(given["size"])

        self.hook = Hook()

    def __enter__(self):
        self.hook.__enter__()

    def __exit__(self, kind, *error):
        self.hook.__exit__(kind, *error)
        assert kind is not None or not self.hook.sizes, f"{self.hook.sizes} bytes were allocated"


def captured(cp, call):
    """(stream, graph) of a call, after a first call that compiles and loads its kernels.

    In the global mode, a capture forbids driver calls that wait or allocate, in every thread.
    """
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.get_current_stream().synchronize()  # the arrays were filled on this stream
    with stream:
        call()
        stream.synchronize()
        stream.begin_capture(cp.cuda.runtime.streamCaptureModeGlobal)
        try:
            with NoAllocation(cp):
                call()
        finally:
            graph = stream.end_capture()
    return stream, graph


def replay(cp, stream, graph):
    cp.cuda.get_current_stream().synchronize()  # the arrays were written on this stream
    graph.launch(stream)
    stream.synchronize()


@on_gpu_alone
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_a_plan_with_out_is_captured_and_replayed_on_new_bytes(cp, case):
    source, target, before = CASES[case]
    plan = gl.plan(source, target)
    buffer, out = (device_buffer(cp, host_buffer(shape), before) for shape in (source, target))
    stream, graph = captured(cp, lambda: plan(buffer, out=out))
    for seed in (1, 2):
        given = host_buffer(source, seed)
        overwrite(cp, buffer, given)
        overwrite(cp, out, host_buffer(target, 3))
        replay(cp, stream, graph)
        assert same_bytes(cp, out, plan(given))


@on_gpu_alone
@pytest.mark.parametrize("strided", [False, True])
def test_pack_and_unpack_with_out_are_captured(cp, strided):
    shape = gl.parse_shape("f32[61,37]{0,1:PD(64,40)PV(7)}")
    logical = np.arange(61 * 74, dtype=np.float32).reshape(61, 74)
    array = cp.asarray(logical)
    view, expected = (array[:, ::2], logical[:, ::2]) if strided else (array[:, :37], logical[:, :37])
    buffer, back = cp.zeros(shape.buffer_size, np.float32), cp.zeros((61, 37), np.float32)
    there = captured(cp, lambda: gl.pack(view, shape, out=buffer))
    again = captured(cp, lambda: gl.unpack(buffer, shape, out=back))
    overwrite(cp, array, logical + 1)
    for stream, graph in (there, again):
        replay(cp, stream, graph)
    assert same_bytes(cp, buffer, gl.pack(expected + 1, shape))
    assert same_bytes(cp, back, expected + 1)


@on_gpu_alone
@pytest.mark.parametrize("mode", ["wrap", "clip"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_index_conversion_that_refuses_nothing_is_captured(cp, mode, dtype):
    shape = "f32[5,300]{0,1:PD(6,301)}"
    given = np.random.default_rng(0).integers(-1000, 1000, (2, 2, 5000)).astype(dtype)
    index, out = cp.asarray(given[0]), cp.zeros(5000, dtype)
    stream, graph = captured(cp, lambda: gl.linearize(index, shape, mode=mode, out=out))
    for values in (given[1], given[0]):
        overwrite(cp, index, values)
        overwrite(cp, out, np.full(5000, -1, dtype))
        replay(cp, stream, graph)
        assert cp.asnumpy(out).tolist() == gl.linearize(values, shape, mode=mode).tolist()


@on_gpu_alone
def test_a_list_of_moves_is_captured(cp):
    pairs = [(source, target) for source, target, _ in CASES.values()]
    pairs.append((gl.parse_shape("u8[1500,1400]"), gl.parse_shape("u8[1500,1400]{0,1}")))  # gets its own launch
    jobs = [(device_buffer(cp, host_buffer(source)), source, target) for source, target in pairs]
    outs = [device_buffer(cp, host_buffer(target)) for _, target in pairs]
    stream, graph = captured(cp, lambda: gl.relayout_many(jobs, out=outs))
    given = [host_buffer(source, 5) for source, _ in pairs]
    for (buffer, _, target), out, values in zip(jobs, outs, given):
        overwrite(cp, buffer, values)
        overwrite(cp, out, host_buffer(target, 6))
    replay(cp, stream, graph)
    for values, out, (source, target) in zip(given, outs, pairs):
        assert same_bytes(cp, out, gl.relayout(values, source, target)), (source, target)


@on_gpu_alone
def test_a_call_that_waits_cannot_be_captured(cp):
    """The counterexample to the captures above: a mode that raises reads its flag back."""
    index, out = cp.asarray(np.zeros((2, 50), np.int64)), cp.zeros(50, np.int64)
    calls = []

    def call():
        calls.append("begun")
        gl.linearize(index, "f32[2,3]", out=out)
        calls.append("done")

    with pytest.raises(Exception):  # noqa: B017 - an error of CUDA, of the hook, or of an invalidated capture
        captured(cp, call)
    assert calls == ["begun", "done", "begun"]


@on_gpu_alone
@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_index_arrays_that_broadcast_are_captured(cp, mode):
    given = np.random.default_rng(0).integers(-1000, 1000, (3, 60)).astype(np.int32)
    rows, columns, out = cp.asarray(given[0][:, None]), cp.asarray(given[1]), cp.zeros((60, 60), np.int64)
    stream, graph = captured(cp, lambda: gl.linearize((rows, columns), "f32[5,30]{0,1:PD(6,31)}", mode=mode, out=out))
    overwrite(cp, columns, given[2])
    replay(cp, stream, graph)
    assert (
        cp.asnumpy(out).tolist()
        == gl.linearize((given[0][:, None], given[2]), "f32[5,30]{0,1:PD(6,31)}", mode=mode).tolist()
    )
