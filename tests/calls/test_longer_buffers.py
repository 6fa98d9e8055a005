"""A buffer longer than its shape is an error that says what to write; strict=False takes the first elements of it.

Kept calls must not forget which of both was asked for: strict and other calls take turns with the same arrays.
"""

import contextlib

import numpy as np
import pytest

import gpulayout as gl

SOURCE, TARGET = "f32[2,3]{1,0:T(2,2)}", "f32[2,3]{0,1:PD(3,4)}"  # 8 elements, and 12
VALUES = np.arange(20, dtype=np.float32)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
PLAN = gl.plan(SOURCE, TARGET)
SCALED = gl.plan(SOURCE, TARGET, scale=3)
LONGER = "buffer has 20 elements, but f32[2,3]{1,0:T(2,2)} has 8: pass buffer[:8], or strict=False to take the first 8"
OUT = "out has 20 elements, but f32[2,3]{0,1:PD(3,4)} has 12: pass out[:12], or strict=False to write the first 12"
READS = {
    "unpack": lambda buffer, **options: gl.unpack(buffer, SOURCE, **options),
    "unpack and scale": lambda buffer, **options: gl.unpack(buffer, SOURCE, scale=2, **options),
    "relayout": lambda buffer, **options: gl.relayout(buffer, SOURCE, TARGET, **options),
    "relayout and cast": lambda buffer, **options: gl.relayout(buffer, SOURCE, "{0,1}", dtype="f16", **options),
    "plan": lambda buffer, **options: PLAN(buffer, **options),
    "plan and scale": lambda buffer, **options: SCALED(buffer, **options),
    "relayout_many": lambda buffer, **options: gl.relayout_many([(buffer, SOURCE, TARGET)], **options)[0],
}
VIEWS = {"view": lambda buffer, **options: gl.view(buffer, "f32[2,3]{0,1:PD(2,4)}", **options)}
WRITES = {
    "pack": lambda buffer, out, **options: gl.pack(buffer[:6].reshape(2, 3), TARGET, out=out, **options),
    "relayout": lambda buffer, out, **options: gl.relayout(buffer, SOURCE, TARGET, out=out, **options),
    "plan": lambda buffer, out, **options: PLAN(buffer, out=out, **options),
    "plan and scale": lambda buffer, out, **options: SCALED(buffer, out=out, **options),
    "relayout_many": lambda buffer, out, **options: gl.relayout_many([(buffer, SOURCE, TARGET)], out=[out], **options)[
        0
    ],
}


@contextlib.contextmanager
def refused(message):
    """The call raises a BufferError with this message, after the number of a job if any."""
    with pytest.raises(BufferError) as caught:
        yield
    assert str(caught.value).removeprefix("job 0: ") == message


@pytest.mark.parametrize("name", [*READS, *VIEWS])
def test_a_longer_buffer_is_refused_however_often_others_passed(executor, name):
    call = (READS | VIEWS)[name]
    longer = executor.array(VALUES)
    exact, message = longer[:8], LONGER
    if name in VIEWS:
        message = LONGER.replace("{1,0:T(2,2)}", "{0,1:PD(2,4)}")
    expected = executor.host(call(exact)).tolist()
    for _ in range(3):
        for _ in range(3):
            assert executor.host(call(exact)).tolist() == expected
            assert executor.host(call(longer, strict=False)).tolist() == expected
            with refused(message):
                call(longer)
        assert executor.host(call(exact, strict=False)).tolist() == expected


@pytest.mark.parametrize("name", WRITES)
def test_so_is_a_longer_out_and_nothing_is_written(executor, name):
    call, buffer = WRITES[name], executor.array(VALUES[:8])
    exact, longer = (executor.array(np.full(length, -1, np.float32)) for length in (12, 20))
    for _ in range(3):
        assert call(buffer, exact) is exact
        longer[...] = executor.array(np.full(20, -1, np.float32))
        with refused(OUT):
            call(buffer, longer)
        assert executor.host(longer).tolist() == [-1] * 20
        assert call(buffer, longer, strict=False) is longer
        assert executor.host(longer).tolist() == [*executor.host(exact).tolist(), *[-1] * 8]
        with refused(OUT):
            call(buffer, longer)


def test_packed_elements_are_counted_in_bytes(executor):
    longer = executor.array(np.arange(9, dtype=np.uint8))
    with refused("buffer has 9 bytes, but u4[4]{0:E(4)} has 2: pass buffer[:2], or strict=False to take the first 2"):
        gl.unpack(longer, "u4[4]{0:E(4)}")
    found = gl.unpack(longer, "u4[4]{0:E(4)}", strict=False)
    assert executor.host(found).tolist() == executor.host(gl.unpack(longer[:2], "u4[4]{0:E(4)}")).tolist()
    with refused("out has 9 bytes, but u4[4]{0:E(4)} has 2: pass out[:2], or strict=False to write the first 2"):
        gl.pack(found, "u4[4]{0:E(4)}", out=longer)
    assert gl.pack(found, "u4[4]{0:E(4)}", out=longer, strict=False) is longer


def test_arrays_of_many_dimensions_and_short_buffers_keep_their_rules(executor):
    whole = executor.array(MATRIX)
    for strict in (True, False):
        assert executor.host(gl.relayout(whole, "f32[2,3]", "{0,1}", strict=strict)).tolist() == [0, 3, 1, 4, 2, 5]
        with pytest.raises(BufferError, match="^buffer has 5 elements, but f32.* needs 6$"):
            gl.unpack(executor.array(VALUES[:5]), "f32[2,3]", strict=strict)
        with pytest.raises(BufferError, match="not 20: write the shape that it has"):
            gl.unpack(executor.array(VALUES.reshape(4, 5)), "f32[2,3]", strict=strict)


@pytest.mark.parametrize("strict", [None, 0, 1, "no", []])
def test_strict_is_true_or_false(strict):
    calls = [lambda call=call: call(VALUES[:8], strict=strict) for call in (READS | VIEWS).values()]
    calls += [lambda: gl.pack(MATRIX, "F", strict=strict), lambda: gl.asarray(MATRIX).to("{0,1}", strict=strict)]
    calls += [lambda: gl.plan("f32[2,3]", "F").in_place()(MATRIX.reshape(-1).copy(), strict=strict)]
    for call in calls:
        with pytest.raises(TypeError, match="^(job 0: )?strict is .*: it must be True or False$"):
            call()


def test_strict_is_nothing_beside_a_pattern():
    with pytest.raises(
        TypeError, match="^strict is about buffers that are longer than their shape: leave it out beside"
    ):
        gl.view(MATRIX, "a b -> b a", strict=False)


def test_an_array_has_no_longer_buffer_and_may_be_written_to_one():
    with refused("buffer has 20 elements, but f32[2,3]{1,0:T(2,2)} has 8: pass buffer[:8]"):
        gl.Array(VALUES, SOURCE)
    array, out = gl.Array(VALUES[:8], SOURCE), np.full(20, -1, np.float32)
    for call in (array.to, lambda *args, **options: gl.relayout(array, *args, **options)):
        with refused(OUT):
            call(TARGET, out=out)
        assert out.tolist() == [-1] * 20
        assert call(TARGET, out=out.copy(), strict=False).buffer[:12].tolist() == array.to(TARGET).buffer.tolist()
    assert PLAN(array, out=out, strict=False).buffer is out and out[12:].tolist() == [-1] * 8


# ---- other libraries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", [*READS, *VIEWS])
def test_tensors(name, gradient):
    torch = pytest.importorskip("torch")
    call = (READS | VIEWS)[name]
    values = torch.from_numpy(VALUES.copy()).requires_grad_(gradient)
    expected = call(VALUES[:8]).tolist()
    message = LONGER if name in READS else LONGER.replace("{1,0:T(2,2)}", "{0,1:PD(2,4)}")
    for _ in range(3):
        assert call(values[:8]).tolist() == call(values, strict=False).tolist() == expected
        with refused(message):
            call(values)
    if gradient and name in READS:
        both = [torch.from_numpy(VALUES.copy()).requires_grad_() for _ in range(2)]
        for result in (call(both[0][:8]), call(both[1], strict=False)):
            (result * torch.arange(result.numel()).reshape(result.shape)).sum().backward()
        assert both[0].grad.equal(both[1].grad) and both[0].grad.any()


@pytest.mark.parametrize("name", WRITES)
def test_tensors_to_write(name):
    torch = pytest.importorskip("torch")
    values, out = torch.from_numpy(VALUES[:8].copy()), torch.full((20,), -1.0)
    for _ in range(3):
        WRITES[name](values, out[:12])
        with refused(OUT):
            WRITES[name](values, out)
        kept = WRITES[name](values, torch.full((20,), -1.0), strict=False)
        assert kept[12:].tolist() == [-1] * 8 and kept[:12].tolist() == out[:12].tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["unpack and scale", "relayout", "plan", "relayout_many"])
def test_in_graphs_of_torch_compile(name):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    values = torch.from_numpy(VALUES.copy())
    with refused(LONGER):
        torch.compile(lambda x: READS[name](x), backend="eager")(values)
    lenient = torch.compile(lambda x: READS[name](x, strict=False), backend="eager", fullgraph=True)
    assert lenient(values).tolist() == READS[name](VALUES[:8]).tolist()
    torch._dynamo.reset()


def test_an_out_and_an_array_in_graphs_of_torch_compile():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    matrix, out = torch.from_numpy(MATRIX.copy()), torch.full((20,), -1.0)
    with refused(OUT):
        torch.compile(lambda x, out: gl.pack(x, TARGET, out=out), backend="eager")(matrix, out)
    assert out.tolist() == [-1] * 20
    lenient = torch.compile(lambda x, out: gl.pack(x, TARGET, out=out, strict=False), backend="eager", fullgraph=True)
    assert lenient(matrix, out)[:12].tolist() == gl.pack(MATRIX, TARGET).tolist() and out[12:].tolist() == [-1] * 8
    with pytest.raises(BufferError, match=r"^buffer has 20 elements, .* has 8: pass buffer\[:8\]$"):
        torch.compile(lambda x: gl.Array(x, SOURCE).logical(), backend="eager")(out)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["unpack and scale", "relayout", "plan", "relayout_many"])
def test_arrays_of_jax_in_memory_and_traced(name):
    jax = pytest.importorskip("jax", exc_type=ImportError)
    values, call = jax.numpy.asarray(VALUES), READS[name]
    for strict_call in (call, jax.jit(call)):
        with refused(LONGER):
            strict_call(values)
    for lenient in (call, jax.jit(call, static_argnames="strict")):
        assert lenient(values, strict=False).tolist() == call(VALUES[:8]).tolist()


def test_functions_of_torch_transform_no_longer_buffers_either():
    torch = pytest.importorskip("torch")
    rows, out = torch.from_numpy(VALUES.copy())[None], torch.zeros(1, 20)
    with refused(LONGER):
        torch.func.vmap(lambda x: gl.unpack(x, SOURCE))(rows)
    found = torch.func.vmap(lambda x: gl.unpack(x, SOURCE, strict=False))(rows)
    assert found[0].tolist() == gl.unpack(VALUES[:8], SOURCE).tolist()
    with refused("out has 20 elements, but the result has 12: pass out[:12], or strict=False to write the first 12"):
        torch.func.vmap(lambda x, out: gl.relayout(x[:8], SOURCE, TARGET, out=out))(rows, out)


def test_modules():
    torch = pytest.importorskip("torch")
    values = torch.from_numpy(VALUES.copy())
    strict = gl.torch.Relayout(SOURCE, TARGET), gl.torch.Unpack(SOURCE)
    lenient = gl.torch.Relayout(SOURCE, TARGET, strict=False), gl.torch.Unpack(SOURCE, strict=False)
    for one, other in zip(strict, lenient):
        with refused(LONGER):
            one(values)
        assert other(values).equal(one(values[:8])) and "strict=False" in repr(other) and "strict" not in repr(one)


def test_dask():
    pytest.importorskip("dask.array", reason="Dask is not installed")
    import dask.array as da

    longer = da.from_array(VALUES)
    for call in (lambda x: gl.dask.unpack(x, SOURCE), lambda x: gl.dask.relayout(x, SOURCE, TARGET)):
        with refused("buffer has 20 elements, but f32[2,3]{1,0:T(2,2)} has 8: pass buffer[:8]"):
            call(longer)
        call(longer[:8]).compute()
