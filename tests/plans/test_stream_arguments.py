"""`plan.stream` on NumPy arrays and those of other libraries: what it takes, refuses, gives back and reports."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support import fake_cuda

PLAN = gl.plan("f32[40,70]", "{0,1}")


def values():
    return np.arange(2800, dtype=np.float32)


@pytest.fixture(autouse=True)
def on_numpy():
    with gl.use_backend("numpy"):
        yield


def test_memory_maps(tmp_path):
    values().tofile(tmp_path / "in")
    buffer = np.memmap(tmp_path / "in", np.float32, "r")
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=(2800,))
    assert PLAN.stream(buffer, out=out, max_bytes=4096) is out
    assert (tmp_path / "out").read_bytes() == PLAN(values()).tobytes()


def test_arrays_of_many_dimensions_that_lie_as_the_shapes_say():
    buffer, out = values().reshape(40, 70), np.zeros((40, 70), np.float32, order="F")
    assert PLAN.stream(buffer, out=out, max_bytes=4096) is out and (out == buffer).all()


def test_longer_buffers_keep_their_ends():
    out = np.full(2900, -1, np.float32)
    buffer = np.concatenate([values(), values()])
    for given, message in ((buffer, "^buffer has 5600 elements"), (values(), "^out has 2900 elements")):
        with pytest.raises(BufferError, match=message):
            PLAN.stream(given, out=out, max_bytes=4096)
    assert (out == -1).all()
    PLAN.stream(buffer, out=out, max_bytes=4096, strict=False)
    assert (out[:2800] == PLAN(values())).all() and (out[2800:] == -1).all()


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    out = torch.zeros(2800)
    assert PLAN.stream(torch.from_numpy(values()), out=out, max_bytes=4096) is out
    assert (out.numpy() == PLAN(values())).all()
    half = gl.plan("bf16[40,70]", "{0,1}")
    out = torch.zeros(2800, dtype=torch.bfloat16)
    half.stream(torch.arange(2800).to(torch.bfloat16), out=out, max_bytes=4096)
    assert torch.equal(out, half(torch.arange(2800).to(torch.bfloat16)))


def test_an_array_of_jax_is_read_and_never_written():
    jax = pytest.importorskip("jax")
    buffer, out = jax.numpy.asarray(values()), np.zeros(2800, np.float32)
    assert (PLAN.stream(buffer, out=out, max_bytes=4096) == PLAN(values())).all()
    with pytest.raises(BufferError, match="^out is read-only: JAX arrays never change$"):
        PLAN.stream(values(), out=buffer)


def test_progress_counts_bytes_up_to_all_of_them():
    calls = []
    plan = gl.plan("f32[40,70]", "{0,1:PD(41,70)L(512)}")
    out = np.zeros(plan.target.buffer_length, np.float32)
    plan.stream(values(), out=out, max_bytes=4096, progress=lambda *given: calls.append(given))
    blocks = plan.blocks(4096 // 2 - 16)
    assert len(calls) == len(blocks) > 10 and {total for _, total in calls} == {calls[-1][0]}
    assert calls[-1][0] == blocks.bytes_read + blocks.bytes_written
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


def test_an_error_in_between_says_what_is_written():
    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    out, blocks = np.full(2800, -1, np.float32), PLAN.blocks(2032)
    with pytest.raises(KeyboardInterrupt) as error:
        PLAN.stream(values(), out=out, max_bytes=4096, progress=stop)
    complete = len(blocks) // 2 + 1
    assert error.value.__notes__ == [
        f"plan.stream has written the first {complete} of {len(blocks)} blocks of plan.blocks(2032), and nothing is "
        "under way"
    ]
    expected = np.full(2800, -1, np.float32)
    for block in blocks[:complete]:
        block(values(), out=expected)
    assert (out == expected).all()


@pytest.mark.parametrize(
    "buffer, out, error, message",
    [
        (values(), np.zeros(2799, "f4"), BufferError, r"^out has 2799 elements, but f32\[40,70\]\{0,1\} needs 2800$"),
        (values()[1:], np.zeros(2800, "f4"), BufferError, "^buffer has 2799 elements, but "),
        (values().astype("i4"), np.zeros(2800, "f4"), TypeError, "^buffer has dtype int32, but "),
        (values(), np.zeros(2800, "f8"), TypeError, "^out has dtype float64, but "),
        (values(), np.zeros(5600, "f4")[::2], BufferError, "^out steps by 8 bytes, but "),
        (values(), np.broadcast_to(np.float32(0), 2800), BufferError, "^out "),
        (values(), bytes(11200), TypeError, "^out is "),
        (values(), [0.0] * 2800, TypeError, "^out is "),
        (values().tolist(), np.zeros(2800, "f4"), TypeError, "^buffer is "),
        (values(), None, TypeError, "^out is "),
    ],
    ids=str,
)
def test_wrong_arrays_are_refused(buffer, out, error, message):
    with pytest.raises(error, match=message):
        PLAN.stream(buffer, out=out, max_bytes=4096)
    assert not isinstance(out, np.ndarray) or not out.any()


def test_a_progress_that_cannot_be_called_is_refused_before_a_byte_is_written():
    out = np.zeros(2800, np.float32)
    with pytest.raises(
        TypeError, match="^progress is a bool: it must be a function of the bytes done and of all bytes$"
    ):
        PLAN.stream(values(), out=out, progress=True)
    assert not out.any()


def test_read_only_and_overlapping_targets_are_refused():
    out = np.zeros(2800, np.float32)
    out.flags.writeable = False
    with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
        PLAN.stream(values(), out=out)
    room = np.zeros(5599, np.float32)
    with pytest.raises(BufferError, match="^buffer and out overlap in memory: out must be separate memory$"):
        PLAN.stream(room[:2800], out=room[2799:])
    assert not room.any()


def test_a_padded_source_needs_its_whole_buffer():
    """The call of the plan reads elements alone; a block may read padding between its runs."""
    plan = gl.plan("f32[2,3]{0,1:PD(3,5)}", "{1,0}")
    buffer = np.arange(15, dtype=np.float32)
    array = gl.view(buffer, plan.source)
    assert (plan.stream(buffer, out=np.zeros(6, "f4")) == plan(array)).all()
    with pytest.raises(BufferError) as error:
        plan.stream(array, out=np.zeros(6, "f4"))
    assert str(error.value) == (
        "buffer has shape (2, 3), without the padding of f32[2,3]{0,1:PD(3,5)}: pass its whole buffer, of 15 elements"
    )


@pytest.mark.parametrize("limit, shown", [(1.5, "1.5"), (True, "True"), ([1], "\\[1\\]")])
def test_limits_are_bytes_or_text(limit, shown):
    with pytest.raises(TypeError, match=f"^max_bytes {shown} is not an integer"):
        PLAN.stream(values(), out=np.zeros(2800, "f4"), max_bytes=limit)


@pytest.mark.parametrize("limit", [0, -1, 7])
def test_a_limit_below_the_smallest_block_is_an_error_before_a_byte_is_written(limit):
    out = np.zeros(2800, "f4")
    with pytest.raises(
        gl.LayoutError, match=rf"^max_bytes {limit} is too small to relayout .*, takes 8 bytes$"
    ) as error:
        PLAN.stream(values(), out=out, max_bytes=limit)
    assert not out.any() and not hasattr(error.value, "__notes__")


def test_an_array_without_elements():
    plan = gl.plan("f32[0,70]", "{0,1}")
    out = np.zeros(0, np.float32)
    assert plan.stream(np.zeros(0, np.float32), out=out) is out


def test_two_arrays_on_a_gpu_are_refused(cp):
    buffer, out = cp.zeros(2800, np.float32), cp.zeros(2800, np.float32)
    with pytest.raises(BufferError) as error:
        PLAN.stream(buffer, out=out)
    assert str(error.value) == (
        "buffer is on cuda:0 and out is on cuda:0: stream is for an array in host memory, and plan(buffer, out=out) "
        "moves one within a device"
    )


@pytest.mark.parametrize("here, there", [("host", "device"), ("device", "host")])
def test_an_array_of_cupy_on_one_side(cp, here, there):
    plan = gl.plan("f32[40,70]", "{0,1:PD(41,70)}")
    buffer, out = values(), np.zeros(plan.target.buffer_length, np.float32)
    if here == "device":
        assert plan.stream(cp.asarray(buffer), out=out, max_bytes=4096) is out
    else:
        held = cp.asarray(out)
        assert plan.stream(buffer, out=held, max_bytes=4096) is held
        out = cp.asnumpy(held)
    assert (out == plan(buffer)).all()


@pytest.mark.parametrize("cp", [pytest.param("imitation", marks=pytest.mark.simt)], indirect=True)
@pytest.mark.parametrize("there", ["device", "host"])
def test_a_run_on_the_device_is_read_and_written_in_place(cp, there):
    """One launch for each block, and no copies within the device."""
    plan = gl.plan("f32[40,70]", "f32[40,70]")
    buffer, out, blocks = values(), np.zeros(2800, np.float32), len(plan.blocks(4096 // 2 - 16))
    device = cp.asarray(buffer if there == "host" else out)
    fake_cuda.calls.clear()
    source, target = (buffer, device) if there == "device" else (device, out)
    plan.stream(source, out=target, max_bytes=4096)
    assert sum(call[0] == "launch" for call in fake_cuda.calls) == blocks > 5
    assert sum(call[1] for call in fake_cuda.calls if call[0] == "copy") == buffer.nbytes
