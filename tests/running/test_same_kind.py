"""Arrays of PyTorch and JAX come back as their own kind, with the values that NumPy gets, from the real libraries."""

import itertools
import math
import os
import subprocess
import sys

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.choices import backends
from tests.support.six_floats import refused, traced
from tests.support.strategies import dimensions, layouts, strided_arrays

MATRIX, LINE, COLUMNS = "f32[2,3]", "f32[2,3]{1,0}", "f32[2,3]{0,1:PD(3,5)PV(lowest)}"
MOVED = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
FLOATS = np.arange(6, dtype=np.float32)
INDICES = np.array([[0, 1, 1], [2, 0, 1]])
CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Torch:
    """How the tests make, read and know tensors."""

    def __init__(self):
        self.module = pytest.importorskip("torch")
        self.array_type = self.module.Tensor
        self.indices = np.int64

    def array(self, array):
        if array.dtype.type.__module__ == "numpy":
            return self.module.tensor(array)
        return self.module.tensor(array.view(CARRIERS[array.itemsize])).view(getattr(self.module, array.dtype.name))

    def host(self, tensor):
        if not hasattr(np, str(tensor.dtype)[6:]):
            name = str(tensor.dtype)[6:]
            carrier = getattr(self.module, f"uint{8 * tensor.element_size()}")
            return tensor.view(carrier).numpy().view(getattr(ml_dtypes, name))
        return tensor.numpy()

    def address(self, tensor):
        return tensor.data_ptr()


class Jax:
    """The same for JAX's arrays."""

    def __init__(self):
        self.module = pytest.importorskip("jax")
        self.array_type = self.module.Array
        self.indices = np.int32  # JAX's, without jax_enable_x64

    def array(self, array):
        return self.module.device_put(array, self.module.devices("cpu")[0])

    def host(self, array):
        return np.asarray(array)

    def address(self, array):
        return array.unsafe_buffer_pointer()


@pytest.fixture(params=[Torch, Jax])
def library(request):
    return request.param()


def same(library, found, expected):
    """Whether a result is an array of the library that holds the same as NumPy's result."""
    host = library.host(found)
    return (
        isinstance(found, library.array_type)
        and host.shape == expected.shape
        and host.dtype == expected.dtype
        and host.tobytes() == expected.tobytes()
    )


CALLS = {
    "pack": lambda array: gl.pack(array(FLOATS.reshape(2, 3)), COLUMNS),
    "pack by a layout": lambda array: gl.pack(array(FLOATS.reshape(2, 3)), "{0,1:PD(3,5)PV(lowest)}"),
    "unpack": lambda array: gl.unpack(array(np.arange(15, dtype=np.float32)), COLUMNS),
    "relayout": lambda array: gl.relayout(array(FLOATS), LINE, COLUMNS),
    "plan": lambda array: gl.plan(LINE, "{1,0:T(2,2)}")(array(FLOATS)),
    "transpose": lambda array: gl.transpose(array(FLOATS.reshape(2, 3))),
    "pattern": lambda array: gl.transpose(array(FLOATS), "(h w) -> w h", h=2),
    "one of relayout_many": lambda array: gl.relayout_many([(array(FLOATS), LINE, COLUMNS)])[0],
    "empty": lambda array: gl.pack(array(FLOATS[:0].reshape(0, 3)), "{0,1}"),
    "scalar": lambda array: gl.pack(array(FLOATS[3:4].reshape(())), "f32[]"),
}
CONVERSIONS = {
    "linearize": lambda array: gl.linearize(array(INDICES), COLUMNS),
    "linearize by dimension": lambda array: gl.linearize((array(INDICES[0]), array(INDICES[1])), COLUMNS),
    "linearize with an int": lambda array: gl.linearize((1, array(INDICES[1])), COLUMNS, mode="wrap"),
    "delinearize": lambda array: gl.delinearize(array(np.arange(15)), COLUMNS, padding="mark"),
    "convert_linear": lambda array: gl.convert_linear(array(np.arange(6)), LINE, COLUMNS),
}


@pytest.mark.parametrize("call", CALLS)
def test_results_are_of_the_kind_and_hold_what_numpy_gets(library, call):
    assert same(library, CALLS[call](library.array), CALLS[call](np.array))


def test_types_that_torch_lacks_come_as_unsigned_integers():
    torch = Torch().module
    packed = torch.tensor([0x21, 0x43], dtype=torch.uint8)
    found = gl.unpack(packed, "u4[4]{0:E(4)}")
    assert found.dtype is torch.uint8 and found.tolist() == [1, 2, 3, 4]
    assert gl.pack(found, "u4[4]{0:E(4)}").equal(packed)
    assert gl.transpose(torch.zeros(2, 3, dtype=torch.int4)).dtype is torch.int4


def test_indices_have_64_bits_whatever_goes_in():
    torch = Torch().module
    for kind in (torch.int32, torch.uint8):
        assert gl.linearize(torch.tensor(INDICES).to(kind), COLUMNS).dtype is torch.int64


@pytest.mark.parametrize("call", CONVERSIONS)
def test_index_conversions_too(library, call):
    expected = CONVERSIONS[call](np.array)
    assert same(library, CONVERSIONS[call](library.array), expected.astype(library.indices))


def test_torch_views_its_own_memory():
    torch = Torch()
    buffer = torch.array(np.arange(20, dtype=np.float32))[3:]
    view = gl.view(buffer, COLUMNS, strict=False)
    assert same(torch, view, gl.view(np.arange(3, 18, dtype=np.float32), COLUMNS))
    with pytest.raises(BufferError, match="^buffer has 17 elements"):
        gl.view(buffer, COLUMNS)
    assert view.data_ptr() == buffer.data_ptr() and view.stride() == (1, 3)
    view[1, 2] = -1
    assert buffer[7] == -1
    assert gl.view(buffer.bfloat16()[:6], "bf16[2,3]").dtype is torch.module.bfloat16


def test_jax_views_memory_without_gaps_in_any_order():
    jax = Jax()
    for name in ("float32", "bfloat16", "float8_e5m2", "bool", "int64", "complex128"):
        for sizes in ((2, 3, 4), (1, 3, 1), (4, 1, 2), (2, 0, 3), ()):
            for order in itertools.permutations(range(len(sizes))):
                dtype = np.dtype(getattr(ml_dtypes, name, name))
                with jax.module.enable_x64(True):
                    buffer = jax.array((np.arange(math.prod(sizes)) % 2).astype(dtype))
                shape = gl.Shape(dtype, sizes, gl.Layout(order))
                view = gl.view(buffer, shape)
                assert same(jax, view, gl.view(jax.host(buffer), shape)), shape
                assert not shape.element_count or jax.address(view) == jax.address(buffer)
                if shape.element_count and 1 not in sizes:
                    assert gl.shape_of(view) == shape
    del buffer
    assert same(jax, view, gl.view(np.zeros(1, dtype), shape))  # the view keeps the memory
    with pytest.raises(gl.LayoutError, match=r"^array of shape \(2, 3\) with strides \(4, 12\) has gaps, .* gl.unpack"):
        gl.view(jax.array(np.arange(15, dtype=np.float32)), COLUMNS)


# ---- element types -------------------------------------------------------------------------------------------------

NAMES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"),
    *("float64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"),
    *("float8_e5m2fnuz", "float8_e8m0fnu"),
]
ONLY_JAX = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"]


def values(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    with np.errstate(all="ignore"):
        return (np.arange(24) % 2 if name == "bool" else np.arange(24) % 4).astype(dtype).reshape(2, 3, 4)


def every_type(library):
    return NAMES + ONLY_JAX * isinstance(library, Jax)


def test_every_element_type_goes_in_and_out_as_itself(library):
    for name in every_type(library):
        array = values(name)
        with library.module.enable_x64(True) if isinstance(library, Jax) else np.errstate():
            given = library.array(array)
            element_type = gl.shape_of(array).element_type
            assert gl.shape_of(given) == gl.Shape(given.dtype, (2, 3, 4)) == gl.Shape(element_type, (2, 3, 4)), name
            assert gl.ElementType.of(given.dtype) is element_type
            layout = "{0,2,1:PD(2,5,4)PV(lowest)T(2)}" if name.startswith(("b", "float8_e4")) else "{0,2,1:T(2)}"
            assert same(library, gl.pack(given, layout), gl.pack(array, layout)), name
            assert same(library, gl.transpose(given), gl.transpose(array)), name


def test_64_bits_stay_64_bits_without_the_setting_of_jax():
    jax = Jax()
    with jax.module.enable_x64(True):
        given = jax.array(np.array([2.0**40 + 1, 3.0]))
    assert not jax.module.config.jax_enable_x64
    assert same(jax, gl.pack(given, "f64[2]{0:PD(3)}"), np.array([2.0**40 + 1, 3, 0]))


def test_indices_that_need_64_bits_are_refused_without_the_setting_of_jax():
    jax = Jax()
    wide = "u8[2,3000000000]"
    given = jax.array(np.array([[0], [5]], np.int32))
    with pytest.raises(TypeError, match="^the result has dtype int32, which cannot hold 5999999999"):
        gl.linearize(given, wide)
    with jax.module.enable_x64(True):
        assert same(jax, gl.linearize(jax.array(np.array([[1], [5]])), wide), np.array([3000000005]))


@pytest.mark.parametrize(
    "name, reason",
    [
        ("complex32", "XLA has no complex numbers of two 16-bit floats; torch.view_as_real gives them as f16"),
        ("quint8", "element type torch.quint8 has no XLA counterpart that holds one element in whole bytes"),
        ("float4_e2m1fn_x2", "element type torch.float4_e2m1fn_x2 is two elements of f4e2m1fn in a byte"),
    ],
)
def test_torch_types_without_a_counterpart_are_refused(name, reason):
    dtype = getattr(Torch().module, name)
    for call in (lambda: gl.Shape(dtype, (2,)), lambda: gl.ElementType.of(dtype)):
        with pytest.raises(TypeError, match="^element type torch") as caught:
            call()
        assert reason in str(caught.value)


def test_a_torch_tensor_of_complex32_is_refused():
    torch = Torch().module
    given = torch.zeros(4, dtype=torch.int32).view(torch.complex32)
    for call in (lambda: gl.pack(given, "{0}"), lambda: gl.shape_of(given), lambda: gl.transpose(given)):
        with pytest.raises(TypeError, match="^element type torch.complex32 has no XLA counterpart: "):
            call()


# ---- memory --------------------------------------------------------------------------------------------------------


def test_arrays_are_read_where_they_are(library):
    for name in (*NAMES[:7], "float32", "bfloat16", "float8_e5m2"):
        given = library.array(values(name))
        opened = arrays.open_array(given, "array")[1]
        assert opened.__array_interface__["data"][0] == library.address(given)


def test_jax_takes_results_without_a_copy(monkeypatch):
    jax, put = Jax(), []
    device_put = jax.module.device_put

    def watched(made, *rest, **options):
        given = device_put(made, *rest, **options)
        put.append((made.__array_interface__["data"][0], given.unsafe_buffer_pointer()))
        return given

    givens = [jax.array(values(name)) for name in ("float32", "bfloat16", "float8_e4m3fn", "uint16", "bool")]
    monkeypatch.setattr(jax.module, "device_put", watched)
    for given in givens:
        for _ in range(10):
            gl.transpose(given)
    assert len(put) == 50 and all(made == taken for made, taken in put)


def test_torch_results_are_torch_memory():
    torch = Torch().module
    found = gl.pack(torch.arange(6.0).reshape(2, 3), "{0,1}")
    found.resize_(1000)  # torch refuses to resize memory that it did not allocate
    assert found[:6].tolist() == MOVED


def test_out_comes_back_and_libraries_can_be_mixed(library):
    torch = Torch()
    given = library.array(FLOATS.astype(ml_dtypes.bfloat16))
    out = torch.module.empty(6, dtype=torch.module.bfloat16)
    assert gl.relayout(given, "bf16[2,3]", "{0,1}", out=out) is out and out.tolist() == MOVED
    floats, host = library.array(FLOATS), np.empty(6, np.float32)
    assert gl.relayout(floats, LINE, "{0,1}", out=host) is host and host.tolist() == MOVED
    tensor = torch.module.empty(6)
    assert gl.relayout(FLOATS, LINE, "{0,1}", out=tensor) is tensor and tensor.tolist() == MOVED
    places = torch.module.empty(3, dtype=torch.module.uint8)
    assert gl.linearize(library.array(INDICES), COLUMNS, out=places) is places
    assert places.tolist() == gl.linearize(INDICES, COLUMNS).tolist()
    assert gl.transpose(library.array(FLOATS.reshape(2, 3)), out=tensor.view(3, 2)) is not None
    assert tensor.tolist() == MOVED


def test_the_first_array_decides_what_indices_come_back(library):
    other = library.array(INDICES[1])
    assert type(gl.linearize((INDICES[0], other), COLUMNS)) is np.ndarray
    assert isinstance(gl.linearize((library.array(INDICES[0]), INDICES[1]), COLUMNS), library.array_type)


def test_each_of_many_jobs_gets_its_own_kind():
    torch, jax = Torch(), Jax()
    jobs = [(array(FLOATS), LINE, "{0,1}") for array in (np.array, torch.array, jax.array, torch.array)]
    out = torch.module.empty(6)
    found = gl.relayout_many(jobs, out=[None, None, None, out])
    assert type(found[0]) is np.ndarray and same(torch, found[1], found[0]) and same(jax, found[2], found[0])
    assert found[3] is out and out.tolist() == MOVED
    assert gl.relayout_many([]) == []


@hypothesis.given(st.data())
def test_tensors_with_any_strides(data):
    torch = Torch()
    sizes = data.draw(dimensions(max_rank=5, max_elements=500))
    shape = gl.Shape("s32", sizes, data.draw(layouts(sizes)))
    payload = np.arange(shape.element_count, dtype=np.int32)
    array = np.abs(data.draw(strided_arrays(shape, payload)))  # torch has no negative strides
    order = data.draw(st.permutations(range(len(sizes))))
    tensor = (
        torch.array(array.transpose(order).copy()).permute(*np.argsort(order).tolist()) if sizes else torch.array(array)
    )
    assert same(torch, gl.pack(tensor, shape), gl.pack(array, shape))
    assert same(torch, gl.unpack(gl.pack(tensor, shape), shape), array)
    out = torch.module.empty_like(tensor)
    assert gl.unpack(gl.pack(tensor, shape), shape, out=out) is out and out.equal(tensor)
    assert gl.shape_of(tensor) == gl.shape_of(tensor.numpy())


def test_the_shape_of_a_type_of_each_library():
    torch, jax = Torch().module, Jax().module
    for name in NAMES:
        element_type = gl.ElementType.of(getattr(ml_dtypes, name, name))
        assert gl.Shape(getattr(torch, name), (2,)) == gl.Shape(element_type, (2,)), name
        assert name == "bool" or gl.Shape(getattr(jax.numpy, name), (2,)) == gl.Shape(element_type, (2,)), name
    for name in ("int4", "uint4", "int2", "uint2"):
        assert gl.ElementType.of(getattr(jax.numpy, name)) == gl.ElementType.of(getattr(ml_dtypes, name))


def test_a_subclass_of_a_tensor_is_a_tensor():
    torch = Torch().module
    given = torch.nn.Parameter(torch.arange(6.0), requires_grad=False)
    assert type(gl.relayout(given, LINE, "{0,1}")) is torch.Tensor


@pytest.mark.gpu
def test_torch_tensors_on_the_gpu():
    if backends.gpu_problem():
        pytest.skip(backends.gpu_problem())
    torch = Torch().module
    source, out = torch.arange(6.0, device="cuda"), torch.zeros(6, device="cuda")
    assert gl.relayout(source, LINE, "{0,1}", out=out) is out
    found = gl.relayout(source, LINE, "{0,1}")
    assert found.device == source.device and found.tolist() == out.tolist() == MOVED


# ---- arrays that are refused ---------------------------------------------------------------------------------------


def test_tensors_that_need_a_step_first():
    torch = Torch().module
    refused(
        torch.tensor([1 + 2j]).conj(), BufferError, "has its conj bit set: its memory does not hold its values, pass"
    )
    refused(torch.tensor([1 + 2j]).conj().imag, BufferError, "has its neg bit set: ")
    traced(torch.zeros(6, device="meta"), "is on torch's meta device: it has a shape, but no memory")
    refused(
        torch.zeros(6).to_sparse(), BufferError, "(Tensor) is a sparse_coo tensor, which is not one array in memory"
    )
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    refused(
        nested, (TypeError, BufferError), "is a nested tensor, which is not one array: pass each of .unbind(), or .to"
    )
    with pytest.raises(BufferError, match=r"^out \(Tensor\) requires a gradient, .*: pass .detach\(\), or"):
        gl.relayout(FLOATS, LINE, "{0,1}", out=torch.zeros(6, requires_grad=True))
    weight = torch.nn.Conv2d(4, 6, 3).half().to(memory_format=torch.channels_last).weight  # no value is read
    assert str(gl.shape_of(weight)) == "f16[6,4,3,3]{1,3,2,0}"


def test_torch_transforms_trace_what_needs_no_memory():
    torch = Torch().module

    def inside(tensor):
        traced(tensor, "is a tensor without memory of its own (Tensor), as inside torch.compile, torch.export and ")
        return tensor.sum()

    with pytest.importorskip("torch._subclasses").FakeTensorMode():
        traced(torch.zeros(6), "or makes no memory, as in FakeTensorMode")
    torch.func.vmap(inside)(torch.zeros(2, 6))
    torch.func.grad(inside)(torch.zeros(6))


def test_jax_transforms_trace_what_needs_no_memory():
    jax = Jax().module

    def inside(array):
        traced(array, "Tracer), as inside jax.jit, jax.vmap and jax.grad, and has no memory: ")
        return array.sum()

    jax.jit(inside)(FLOATS)
    jax.vmap(inside)(FLOATS.reshape(1, 6))
    jax.grad(inside)(FLOATS)


def test_jax_arrays_that_are_no_memory():
    jax = Jax()
    refused(jax.module.random.key(0), TypeError, "holds JAX's random keys: pass jax.random.key_data(")
    gone = jax.array(FLOATS)
    gone.delete()
    refused(gone, BufferError, "is a JAX array that was deleted or donated")


SHARDED = """
import jax, numpy as np, gpulayout as gl
whole = jax.device_put(np.arange(6, dtype=np.float32), jax.devices()[1])
found = gl.pack(whole, "{0}")
assert found.devices() == {jax.devices()[1]} and found.tolist() == whole.tolist()
mesh = jax.sharding.Mesh(jax.devices(), "x")
for spec in (("x",), ()):
    split = jax.device_put(whole, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
    for call in (lambda: gl.pack(split, "{0}"), lambda: gl.shape_of(split)):
        try:
            call()
        except BufferError as error:
            print(error)
    parts = [gl.pack(shard.data, "{0}") for shard in split.addressable_shards]
    assert [part.devices() for part in parts] == [{device} for device in jax.devices()]
    assert parts[0].tolist() == whole.tolist()[:len(parts[0])]
"""


def test_jax_arrays_on_several_devices_are_refused_and_each_shard_is_taken():
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env=dict(os.environ, XLA_FLAGS="--xla_force_host_platform_device_count=2", JAX_PLATFORMS="cpu"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.splitlines()) == {
        "array is a JAX array on 2 devices: pass each shard, such as array.addressable_shards[0].data, or the whole "
        "array on one device, jax.device_put(array, jax.local_devices()[0])"
    }
    assert len(done.stdout.splitlines()) == 4


def test_jax_arrays_are_never_written():
    given = Jax().array(FLOATS)
    with pytest.raises(BufferError, match="^out is read-only: JAX arrays never change$"):
        gl.relayout(FLOATS, LINE, "{0,1}", out=given)
    assert given.tolist() == FLOATS.tolist()


def test_torch_knows_that_many_outputs_change():
    """A gradient that needs the old values must not be computed from the new ones."""
    torch = pytest.importorskip("torch")
    given, out = torch.arange(6.0), torch.ones(6)
    weights = torch.ones(6, requires_grad=True)
    product = (weights * out).sum()  # whose gradient is `out`
    gl.relayout_many([(given, "f32[2,3]", "{0,1}"), (given, "f32[2,3]", "{0,1}")], out=[out, None])
    assert out.tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
