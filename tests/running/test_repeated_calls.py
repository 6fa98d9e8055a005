"""A call that resembles the one before skips the checks; whatever a check would refuse is still refused, or right."""

import contextlib
import sys

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import torch_tensors
from gpulayout.arrays.torch_tensors import plain_memory
from gpulayout.choices.backends import host_backend
from gpulayout.cpu import native
from gpulayout.moves.backend import Make
from tests.support.kept import forget_transfers

SHAPE = (6, 5)
PATTERN = "a b -> b a"

pytestmark = pytest.mark.skipif(bool(native.missing()), reason=native.missing())


def transposed(array, out=None):
    return gl.transpose(array, PATTERN, out=out)


def planned(array, out=None):
    flat = array.reshape(-1) if type(array) is not np.ndarray or array.flags.c_contiguous else array
    return gl.plan(gl.Shape("f32", SHAPE), "{0,1}")(flat, out=None if out is None else out.reshape(-1)).reshape(5, 6)


def relaid(array, out=None):
    return gl.relayout(array.reshape(-1), "f32[6,5]", "{0,1}", out=None if out is None else out.reshape(-1)).reshape(
        5, 6
    )


def reversed_axes(array, out=None):
    return gl.transpose(array, out=out)


def numbered(array, out=None):
    return gl.transpose(array, (1, 0), out=out)


def scaled(array, out=None):
    return gl.transpose(array, PATTERN, scale=1.0, shift=[0.0], out=out)


CALLS = {
    "transpose": transposed,
    "reversed": reversed_axes,
    "numbered": numbered,
    "plan": planned,
    "relayout": relaid,
    "scaled": scaled,
}


@pytest.fixture(params=CALLS)
def call(request):
    """A call that has passed its checks, into new memory and into existing memory."""
    forget_transfers()
    run = CALLS[request.param]
    for _ in range(2):
        run(values(0))
        run(values(0), np.empty((5, 6), np.float32))
    yield run
    forget_transfers()


def values(first):
    return np.arange(first, first + 30, dtype=np.float32).reshape(SHAPE)


def test_every_call_has_its_own_result(call):
    results = [call(values(first)) for first in (0, 100, 200)]
    for result, first in zip(results, (0, 100, 200)):
        assert (result == values(first).T).all()
    assert not np.may_share_memory(results[1], results[2])


def test_new_and_given_memory_take_turns(call):
    out = np.zeros((5, 6), np.float32)
    for first in range(4):
        assert (call(values(first), out) == values(first).T).all()
        assert (out == values(first).T).all()
        assert (call(values(first)) == values(first).T).all()


def test_a_read_only_target_is_refused(call):
    out = np.zeros((5, 6), np.float32)
    out.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        call(values(0), out)
    assert not out.any()


def test_a_read_only_source_is_read(call):
    source = values(3)
    source.flags.writeable = False
    assert (call(source) == source.T).all()


@pytest.mark.parametrize("dtype", ["f8", "i4", ">f4"])
def test_another_type_is_read_anew(call, dtype):
    source = values(0).astype(dtype)
    if dtype == ">f4" and call in (planned, relaid, scaled):
        for _ in range(4):
            assert (call(source) == source.T).all() and call(source).dtype == np.float32
    elif call is scaled:
        if dtype == "f8":
            assert (call(source) == source.T).all() and call(source).dtype == source.dtype
        else:
            with pytest.raises(TypeError, match="dtype"):
                call(source)
    elif call in (transposed, reversed_axes, numbered):
        assert (call(source) == source.T).all() and call(source).dtype == source.dtype
        with pytest.raises(TypeError, match="dtype"):
            call(source, np.zeros((5, 6), np.float32))
    else:
        with pytest.raises(TypeError, match="dtype"):
            call(source)
    if call is not scaled:
        with pytest.raises(TypeError, match="dtype"):
            call(values(0), np.zeros((5, 6), dtype))


def test_targets_that_overlap_the_source_are_refused(call):
    memory = np.zeros(60, np.float32)
    for start in (1, 7, 29):
        source, out = memory[:30].reshape(SHAPE), memory[start : start + 30].reshape(5, 6)
        source[...] = values(0)
        before = memory.copy()
        with pytest.raises(BufferError, match="overlap"):
            call(source, out)
        assert (memory == before).all()
    source, out = memory[:30].reshape(SHAPE), memory[30:].reshape(5, 6)
    source[...] = values(5)
    assert (call(source, out) == values(5).T).all()


def test_two_maps_of_one_file_are_refused(call, tmp_path):
    path = tmp_path / "array"
    path.write_bytes(values(0).tobytes())
    first, second = (np.memmap(path, np.float32, "r+", shape=shape) for shape in (SHAPE, (5, 6)))
    with pytest.raises(BufferError, match="file"):
        call(np.asarray(first), np.asarray(second))
    assert path.read_bytes() == values(0).tobytes()


def test_an_array_that_changed_its_shape_in_place_is_read_anew():
    source = values(0)
    assert transposed(source).shape == (5, 6)
    source.shape = 5, 6
    assert transposed(source).shape == (6, 5)
    assert (transposed(source) == source.T).all()


def test_calls_whose_move_is_the_same_are_other_calls():
    """Two patterns can share a plan, and take arrays of other shapes."""
    flat = np.arange(30, dtype=np.float32)
    for array in (flat, flat[::-1]):
        gl.transpose(array.reshape(6, 5))
        gl.transpose(array, "(a=6 b) -> b a")
        assert gl.transpose(array).shape == (30,)
        cube, square = array.reshape(2, 3, 5), array.reshape(6, 5)
        gl.transpose(cube, "a c b -> b a c")
        gl.transpose(square, "(a=2 c) b -> b a c")
        with pytest.raises(gl.LayoutError, match="3"):
            gl.transpose(square, "a c b -> b a c")


def test_blocks_of_a_stream_are_other_calls():
    """They move bytes; the plan of the same shapes takes elements."""
    forget_transfers()
    plan, array = gl.plan("f32[6,5]", "{0,1}"), np.arange(30, dtype=np.float32)
    plan(array)
    plan.stream(array, out=np.empty(30, np.float32))
    for _ in range(2):
        with pytest.raises(TypeError, match="uint8"):
            plan(np.zeros(120, np.uint8))


def test_strides_count():
    wide = np.arange(60, dtype=np.float32).reshape(6, 10)
    for source in (values(0), wide[:, ::2], wide[::-1, :5], values(0), np.broadcast_to(values(0)[:1], SHAPE)):
        assert (transposed(source) == source.T).all()
        out = np.zeros((5, 12), np.float32)[:, ::2]
        assert (transposed(source, out) == source.T).all()


def test_a_subclass_is_no_array_of_before(call):
    class Own(np.ndarray):
        pass

    assert (call(values(2).view(Own)) == values(2).T).all()


def test_turning_the_engine_off_is_seen_by_new_plans(call):
    with native.chosen(False):
        forget_transfers()
        assert (call(values(2)) == values(2).T).all()
        assert (call(values(3)) == values(3).T).all()


# --------------------------------------------------------------------------------------------------------- arithmetic


def pixels(first):
    return np.arange(first, first + 30, dtype=np.uint8).reshape(2, 5, 3)


NUMBERS = [0.5, -2.0, 3.0]
SCALES = {
    "float": (0.5, 0.5),
    "integer": (3, 3),
    "large integer": (10**20, 1e20),
    "integers of a list": ([1, 2, 3], np.float32([1, 2, 3])),
    "list": (NUMBERS, np.float32(NUMBERS)),
    "tuple": ((1, 0.25, 4), np.float32([1, 0.25, 4])),
    "array": (np.float32(NUMBERS), np.float32(NUMBERS)),
    "array of f64": (np.array(NUMBERS), np.float32(NUMBERS)),
    "integers": (np.array([1, 2, 3]), np.float32([1, 2, 3])),
    "scalar": (np.float32(0.5), 0.5),
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("as_tensors", [False, True])
def test_calls_with_arithmetic_are_run_again(name, as_tensors):
    forget_transfers()
    given, meant = SCALES[name]
    kept = pytest.importorskip("torch").from_numpy if as_tensors else np.asarray
    plan = gl.plan("u8[2,5,3]", "{2,1,0}", dtype="f32", scale=given, shift=1)
    for first in (0, 1, 7, 100, 3):
        wanted = pixels(first).astype(np.float32) * np.float32(meant) + np.float32(1)
        for out in (None, kept(np.zeros((3, 2, 5), np.float32))):
            found = gl.transpose(kept(pixels(first)), "h w c -> c h w", dtype="f32", scale=given, shift=1, out=out)
            assert out is None or found is out
            assert (np.asarray(found) == wanted.transpose(2, 0, 1)).all()
        for out in (None, kept(np.zeros(30, np.float32))):
            assert (np.asarray(plan(kept(pixels(first).reshape(-1)), out=out)) == wanted.reshape(-1)).all()


def test_arguments_that_change_are_read_anew():
    """An array or a list may have other numbers at the next call; values that compare equal may mean others."""
    for scale in (np.float32([1, 2, 3]), np.array([1, 2, 3]), [1.0, 2.0, 3.0]):
        for first in (1, 5, 9):
            scale[0] = first
            found = gl.transpose(pixels(1), "h w c -> c h w", dtype="f32", scale=scale)
            assert (found == (pixels(1) * np.float32(scale)).transpose(2, 0, 1)).all()
    zeros = np.zeros((2, 3), np.float32)
    for shift in (0.0, -0.0, 0.0, [0.0], [-0.0], np.float32(-0.0), np.float32(0.0)):
        found = gl.transpose(-zeros, "a b -> b a", scale=1.0, shift=shift)
        assert (np.signbit(found) == np.signbit(np.float32(shift))).all()
    types = {"f32": "f4", np.float32: "f4", "f64": "f8", np.dtype("f8"): "f8", gl.ElementType.S8: "i1", "bool": "?"}
    for dtype, wanted in types.items():
        assert gl.transpose(pixels(0), "h w c -> c h w", dtype=dtype).dtype == wanted
    for scale in (1, 1.0, [1], [1.0], np.float32([1])):
        gl.transpose(pixels(0), "h w c -> c h w", dtype="f32", scale=scale, divide=True)
    with pytest.raises(TypeError, match="scale"):
        gl.transpose(pixels(0), "h w c -> c h w", dtype="f32", scale=True, divide=True)
    with pytest.raises(TypeError, match="divide"):
        gl.transpose(pixels(0), "h w c -> c h w", dtype="f32", scale=1, divide=1)


def test_axes_that_equal_those_of_the_call_before_are_read_anew():
    for axes in ((1, 0), (-1, 0), [1, 0], np.array([1, 0])):
        assert (gl.transpose(values(0), axes) == values(0).T).all()
    assert (gl.transpose(values(0), (0, 1)) == values(0)).all()
    for axes in ((True, False), (1.0, 0.0), (1, False), [1.0, 0]):
        with pytest.raises((TypeError, gl.LayoutError), match="axes"):
            gl.transpose(values(0), axes)


def test_a_cast_into_odd_strides_says_nothing_of_the_shape_of_others():
    """An axis of one place may have any stride: (1, 3) and (3, 1) then have the same ones."""
    forget_transfers()
    row = pixels(0).reshape(-1)[:3].reshape(1, 3)
    out = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (1, 3), (4, 4))
    assert gl.transpose(row, [0, 1], dtype="f32", out=out).shape == (1, 3)
    assert gl.transpose(row, [1, 0], dtype="f32").shape == (3, 1)


def test_parameters_of_a_plan_stay_as_they_were():
    """Those of a call that is run again are the plan's own."""
    scale = np.float32([1, 2, 3])
    plan = gl.plan("u8[2,5,3]", "{2,1,0}", dtype="f32", scale=scale)
    wanted = (pixels(1) * np.float32([1, 2, 3])).reshape(-1)
    for number in range(5):
        assert (plan(pixels(1).reshape(-1)) == wanted).all()
        scale[:] = number


def test_many_numbers_are_not_kept_by_a_call():
    rows, weights = np.arange(40_000, dtype=np.float32)[:, None], np.ones((40_000, 2), np.int8)
    plan = gl.plan("s8[40000,2]", "{1,0}", dtype="f32", scale=rows)
    moves = plan.request.prepared_by(host_backend())
    for _ in range(3):
        found = plan(weights.reshape(-1))
        assert (found.reshape(40_000, 2) == rows).all()
    assert moves.known_call(weights.reshape(-1), found, None) is None
    few = gl.plan("s8[400,2]", "{1,0}", dtype="f32", scale=rows[:400]).request.prepared_by(host_backend())
    source, out = weights[:400].reshape(-1), found[:800]
    assert few.known_call(source, out, None)(source.copy(), out) is out


# ------------------------------------------------------------------------------------------------------------ tensors


@pytest.fixture
def torch():
    torch_tensors.plain_memory.cache_clear()  # another test may have come first with the engine turned off
    return pytest.importorskip("torch")


@pytest.fixture
def tensor_call(call, torch):
    for _ in range(2):
        call(torch.arange(30.0).reshape(SHAPE))
        call(torch.arange(30.0).reshape(SHAPE), torch.empty(5, 6))
    return call


def test_tensors_have_their_own_results(tensor_call, torch):
    for first in range(3):
        source, out = torch.arange(first, first + 30.0).reshape(SHAPE), torch.zeros(5, 6)
        made = tensor_call(source)
        assert type(made) is torch.Tensor and torch.equal(made, source.T)
        version = out._version
        assert torch.equal(tensor_call(source, out), source.T) and torch.equal(out, source.T)
        assert out._version > version  # autograd knows that it was written


def test_tensors_of_other_types_and_strides_are_read_anew(torch):
    for source in (
        torch.arange(30.0).reshape(SHAPE),
        torch.arange(30.0).reshape(SHAPE),
        torch.arange(30, dtype=torch.int32).reshape(SHAPE),
        torch.arange(60.0).reshape(6, 10)[:, ::2],
        torch.arange(30.0).reshape(5, 6).T,
        torch.arange(30.0).reshape(SHAPE),
    ):
        assert torch.equal(transposed(source), source.T)


def test_tensors_that_share_memory_are_refused(tensor_call, torch):
    memory = np.zeros(60, np.float32)
    whole = torch.from_numpy(memory)
    again = torch.from_numpy(memory[7:])  # another storage of the same memory
    with pytest.raises(BufferError, match="overlap"):
        tensor_call(whole[:30].reshape(SHAPE), again[:30].reshape(5, 6))
    assert not memory.any()


def test_gradients_follow_tensors_that_require_them(tensor_call, torch):
    source = torch.arange(30.0).reshape(SHAPE).requires_grad_()
    tensor_call(source).sum().backward()
    assert torch.equal(source.grad, torch.ones(SHAPE))


def test_tensors_without_memory_of_their_own_are_traced(tensor_call, torch):
    batch = torch.arange(60.0).reshape(2, *SHAPE)
    assert torch.equal(torch.func.vmap(tensor_call)(batch), batch.transpose(1, 2))
    negative = torch.arange(30.0).to(torch.complex64).conj().imag.reshape(SHAPE)  # its neg bit is set
    assert negative.is_neg()
    with pytest.raises(BufferError, match="neg"):
        tensor_call(negative)


@pytest.mark.parametrize("nbytes", [8, 119])
def test_a_resized_storage_is_refused(tensor_call, torch, nbytes):
    source = torch.arange(30.0).reshape(SHAPE)
    source.untyped_storage().resize_(nbytes)
    with pytest.raises(BufferError, match=f"has a storage of {nbytes} bytes, but its shape and strides need 120"):
        tensor_call(source)


@pytest.mark.parametrize("nbytes", [8, 119])
def test_a_resized_storage_of_a_strided_tensor_is_refused(nbytes):
    torch = pytest.importorskip("torch")
    source = torch.arange(30.0).reshape(SHAPE[::-1]).t()
    for _ in range(3):
        assert transposed(source).equal(source.t())
    source.untyped_storage().resize_(nbytes)
    for call in (transposed, lambda tensor: gl.pack(tensor, "{1,0}")):
        with pytest.raises(BufferError, match=f"has a storage of {nbytes} bytes, but its shape and strides need 120"):
            call(source)


def test_new_tensors_are_memory_whatever_a_mode_makes_of_them(tensor_call, torch):
    """`with torch.device("meta")` puts new tensors where there is no memory, and a mode may do anything."""
    given = torch.arange(30.0).reshape(SHAPE)

    class Elsewhere(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            if function in (torch.empty, torch.empty_strided, torch.Tensor.new_empty):
                options = {**(options or {}), "device": options.get("device") or "meta"}
            return function(*arguments, **(options or {}))

    for mode in (torch.device("meta"), Elsewhere()):
        with mode:
            result = tensor_call(given)
        assert result.device.type == "cpu" and result.tolist() == given.T.tolist()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["functionalize", "grad", "jvp", "vmap"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_tensor_from_outside_of_a_transform_is_read(tensor_call, torch, name, is_first):
    """New tensors may be no memory there, though the given one is."""
    source, weights, factors = torch.arange(30.0).reshape(SHAPE), torch.ones(3), torch.arange(30.0).reshape(5, 6)
    runs = {
        "functionalize": lambda f: torch.func.functionalize(f)(weights),
        "grad": lambda f: torch.func.grad(lambda weights: f(weights).sum())(weights),
        "jvp": lambda f: torch.func.jvp(f, (weights,), (weights,))[1],
        "vmap": lambda f: torch.func.vmap(f)(weights),
    }

    def weighted(transpose):
        return runs[name](lambda weights: weights * (transpose(source) * factors).sum())

    if is_first:
        forget_transfers()
    assert torch.equal(weighted(tensor_call), weighted(torch.t))


def emptied(shape):
    return np.empty(shape, np.float32)


def test_targets_say_nothing_of_new_results(torch):
    """One may be longer than a new result, or have other strides."""
    plan = gl.plan("f32[6,5]", "{0,1}")
    for made, empty in ((values(3), emptied), (torch.from_numpy(values(3)), torch.empty)):
        forget_transfers()
        for _ in range(3):
            plan(made.reshape(-1), out=empty(37), strict=False)
            with pytest.raises(BufferError, match="^out has 37 elements"):
                plan(made.reshape(-1), out=empty(37))
            assert plan(made.reshape(-1)).shape == (30,)
            gl.transpose(made, out=empty((6, 5)).T)
            result = np.asarray(gl.transpose(made))
            assert result.flags.c_contiguous and (result == values(3).T).all()


def tensors_of_all_kinds(torch):
    """(name, tensor, the state of the thread in which it is asked about)."""
    plain = torch.arange(30.0).reshape(SHAPE)
    own = type("Own", (torch.Tensor,), {})
    kinds = {
        "plain": plain,
        "turned": plain.T,
        "parameter": torch.nn.Parameter(plain),
        "followed": plain.clone().requires_grad_(),
        "conjugate": torch.ones(SHAPE, dtype=torch.complex64).conj(),
        "negative": torch.ones(SHAPE, dtype=torch.complex64).conj().imag,
        "sparse": plain.to_sparse(),
        "meta": plain.to("meta"),
        "functional": torch._to_functional_tensor(plain),
        "own": plain.as_subclass(own),
        "empty": torch.empty(0),
        "bf16": plain.bfloat16(),
    }
    for name, tensor in kinds.items():
        yield name, tensor, contextlib.nullcontext()
    for name, state in {
        "inference": torch.inference_mode(),
        "no gradients": torch.no_grad(),
        "forward": torch.autograd.forward_ad.dual_level(),
        "elsewhere": torch.device("meta"),
        "fake": torch._subclasses.FakeTensorMode(),
    }.items():
        yield name, plain, state


def test_the_engine_asks_tensors_as_python_does(torch):
    asked = torch_tensors.plain_memory(torch)
    assert asked.tensors is not None
    plain = set()
    for name, tensor, state in tensors_of_all_kinds(torch):
        with state:
            answer = asked.asks(tensor)
            assert answer is asked._replace(tensors=None).asks(tensor), name
            if answer and type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.numel():
                torch_tensors.check_tensor(tensor, "array")
                plain.add(name)
    assert plain == {"plain", "turned", "bf16", "inference", "no gradients"}


def test_a_release_of_torch_without_the_table_of_dlpack_is_asked_in_python(torch, monkeypatch):
    without = torch_tensors.plain_memory(torch)._replace(tensors=None)
    monkeypatch.setattr(torch_tensors, "plain_memory", lambda torch: without)
    forget_transfers()
    for first in range(3):
        source = torch.from_numpy(values(first))
        assert torch.equal(gl.transpose(source), source.T)
        assert torch.equal(gl.transpose(source, out=torch.empty(5, 6)), source.T)
    with pytest.raises(BufferError, match="neg"):
        gl.transpose(torch.ones(SHAPE, dtype=torch.complex64).conj().imag)
    forget_transfers()


def test_a_clone_that_copies_when_written_keeps_its_source(tensor_call, torch):
    source, kept = torch.arange(30.0).reshape(SHAPE), torch.zeros(5, 6)
    target = torch._lazy_clone(kept)
    assert torch.equal(tensor_call(source, target), source.T) and torch.equal(target, source.T)
    assert not kept.any()


def test_the_questions_are_checked_by_the_engine(torch):
    engine, capsule = native.module(), torch.Tensor.__dlpack_c_exchange_api__
    for wrong in [(capsule,), (capsule, [(len, (), 0)]), (capsule, ((len, ()),)), (capsule, (5,)), (object(), ())]:
        with pytest.raises((TypeError, ValueError)):
            engine.Tensors(*wrong)
    with pytest.raises(ValueError, match="16 questions"):
        engine.Tensors(capsule, ((len, (), 0),) * 17)
    with pytest.raises(KeyboardInterrupt):
        engine.Tensors(capsule, ((interrupted, None, 0),)).are_plain(None)
    assert not engine.Tensors(capsule, ((len, None, 0),)).are_plain(None)  # it has no length
    assert engine.Tensors(capsule, ()).are_plain(None)


def interrupted(_):
    raise KeyboardInterrupt


def test_sizes_and_rank_count_where_strides_are_the_same(torch):
    wide = np.arange(80, dtype=np.float32).reshape(8, 10)
    for array in (wide, torch.from_numpy(wide)):
        parts = [array[:rows, :columns] for rows in (6, 5) for columns in (5, 4)]
        for part in [*parts, *(part[..., None] for part in parts), array[:6, 0], *parts]:
            for _ in range(2):
                assert np.array_equal(np.asarray(gl.transpose(part)), np.asarray(part).T)
    nine = np.arange(256 * 3, dtype=np.float32).reshape(*(2,) * 8, 3)
    for part in (nine[..., :2], nine, nine[..., :2]):
        assert np.array_equal(gl.transpose(part), part.T)


def test_overlap_below_the_first_element_is_refused():
    memory = np.arange(90, dtype=np.float32)
    source, apart = memory[30:60].reshape(SHAPE)[::-1, ::-1], np.empty((5, 6), np.float32)
    for _ in range(2):
        gl.transpose(source, out=apart)
    before = memory.copy()
    for start in (1, 15, 30, 45, 59):
        with pytest.raises(BufferError, match="overlap"):
            gl.transpose(source, out=memory[start : start + 30].reshape(5, 6))
    assert (memory == before).all() and (apart == source.T).all()
    for start in (0, 60):
        assert (gl.transpose(source, out=memory[start : start + 30].reshape(5, 6)) == source.T).all()


def test_targets_are_asked_as_sources_are(tensor_call, torch):
    source = torch.arange(30.0).reshape(SHAPE)
    short = torch.zeros(5, 6)
    short.untyped_storage().resize_(8)
    negative = torch.zeros(5, 6, dtype=torch.complex64).conj().imag
    leaf = torch.zeros(5, 6, requires_grad=True)
    for out, words in ((short, "storage"), (negative, "neg"), (leaf, "gradient|leaf")):
        with pytest.raises((BufferError, TypeError, RuntimeError), match=words):
            tensor_call(source, out)
    assert not leaf.any()


def test_a_call_with_a_target_makes_none():
    plan = gl.plan("f32[6,5]", "{0,1}")
    flat, out = values(0).reshape(-1), np.empty(30, np.float32)
    plan(flat, out=out)
    moves = plan.request.prepared_by(host_backend())
    given, new = moves.known_call(flat, out, None), moves.known_call(flat, out, Make(np.empty, (30, "f4")))
    assert given(flat, None) is None and new(flat, out) is None
    assert given(flat, out) is out and (new(flat, None) == out).all()
    assert moves.known_call(flat, out, Make(len, (3,)))(flat, None) is None  # which raises


@pytest.mark.parametrize("when", ["make", "writes"])
def test_a_tensor_that_gets_other_memory_during_a_call_is_asked_again(torch, when):
    """Making and announcing a target runs code of Python's, and other threads meanwhile."""
    plan = gl.plan("f32[6,5]", "{0,1}")
    source, out = torch.arange(30.0), torch.empty(30)
    plan(source, out=out)
    moves, tensors = plan.request.prepared_by(host_backend()), plain_memory(torch).tensors
    events = []

    def changed(*_):
        if events:
            source.set_(torch.full((30,), 7.0))
        return torch.empty(30)

    make = Make(changed, ()) if when == "make" else None
    again = moves.known_call(source, out, make, tensors, None if make else changed)
    target = None if make else torch.empty(30)
    assert torch.equal(again(source, target), out)
    events.append(when)
    assert again(source, target) is None
    events.clear()
    assert torch.equal(again(source, target), torch.full((30,), 7.0))


def test_a_tensor_keeps_its_memory_while_it_moves(torch):
    """Another thread may give it other memory meanwhile."""
    plan = gl.plan("f32[6,5]", "{0,1}")
    source, out = torch.arange(30.0), torch.empty(30)
    plan(source, out=out)
    moves, tensors = plan.request.prepared_by(host_backend()), plain_memory(torch).tensors
    held = []

    def count(_):
        held.append([sys.getrefcount(each.untyped_storage()) for each in (source, out)])

    assert moves.known_call(source, out, None, tensors, count)(source, out) is out
    count(out)
    assert held[0] == [uses + 1 for uses in held[1]]


def test_a_call_that_is_not_recognised_keeps_the_memory_too(torch):
    library, given = torch_tensors.TorchTensors(), torch.arange(30.0)
    storage = given.untyped_storage()
    before = sys.getrefcount(storage)
    array = library.exported(given, "array", False)
    assert sys.getrefcount(storage) == before + 1
    given.set_(torch.zeros(30))
    assert array.tolist() == [float(k) for k in range(30)]


def test_a_tensor_that_is_outside_of_the_storage_that_keeps_it_is_refused(torch, monkeypatch):
    """As when another thread gave it other memory between the two questions."""
    other = torch.empty(60).untyped_storage()
    monkeypatch.setattr(torch.Tensor, "untyped_storage", lambda self: other)
    with pytest.raises(BufferError, match="other memory by another thread"):
        torch_tensors.TorchTensors().exported(torch.arange(30.0), "array", False)


def test_objects_that_are_no_arrays_are_refused_as_at_first():
    class Out:
        @property
        def base(self):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(TypeError):
            gl.transpose(values(0), PATTERN, out=Out())
        gl.transpose(values(0), PATTERN, out=np.empty((5, 6), np.float32))


def test_a_bad_number_of_threads_hides_no_other_error(monkeypatch):
    large, out = np.ones((1500, 1400), np.float32), np.zeros((1400, 1500), np.float32)
    for _ in range(2):
        gl.transpose(large, PATTERN, out=out)
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "0")
    with pytest.raises(TypeError, match="dtype"):
        gl.transpose(large, PATTERN, out=out.view(np.int32))
    with pytest.raises(ValueError, match="GPULAYOUT_NUM_THREADS"):
        gl.transpose(large, PATTERN, out=out)


def test_an_interrupt_while_a_target_is_asked_is_raised():
    class Out(np.ndarray):
        @property
        def base(self):
            raise KeyboardInterrupt

    out = np.empty((5, 6), np.float32)
    plan = gl.plan("f32[6,5]", "{0,1}")
    plan(values(0).reshape(-1), out=out.reshape(-1))
    moves = plan.request.prepared_by(host_backend())
    again = moves.known_call(values(0).reshape(-1), np.empty(30, np.float32).view(Out), None)
    with pytest.raises(KeyboardInterrupt):
        again(values(0).reshape(-1), np.empty(30, np.float32).view(Out))
