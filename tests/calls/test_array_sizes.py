"""An `Array` says its sizes as other arrays do, `layout_shape` says the rest, and a cast needs no target."""

import inspect

import numpy as np
import pytest

import gpulayout as gl

LAYOUTS = (
    "{1,0}",
    "{0,1}",
    "{0,1:PD(3,5)}",
    "{1,0:PD(4,3)PV(one)}",
    "{1,0:T(2,2)}",
    "{0,1:T(2,4)(2,1)}",
    "{1,0:T(*,4)}",
)
LOGICAL = np.arange(6, dtype=np.float32).reshape(2, 3)


def of_torch(values):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(values.copy())


def of_jax(values):
    return pytest.importorskip("jax.numpy", reason="JAX is not installed").asarray(values)


KINDS = {"numpy": np.array, "torch": of_torch, "jax": of_jax}


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("sizes", [(), (1,), (7,), (0, 3), (2, 3, 4), (1, 1, 1, 1, 1)], ids=str)
def test_sizes_are_those_of_the_logical_array(sizes, library):
    logical = np.zeros(sizes, np.float32)
    order = ",".join(map(str, range(len(sizes))))
    for layout in (f"{{{order}}}", f"{{{order}:T({','.join('2' for _ in sizes)})}}" if sizes else "{}"):
        array = gl.asarray(KINDS[library](logical), layout)
        assert type(array.shape) is tuple and array.shape == sizes == tuple(array.logical().shape)
        assert (array.ndim, array.size) == (logical.ndim, logical.size)
        assert (np.shape(array), np.ndim(array), np.size(array)) == (sizes, logical.ndim, logical.size)
        assert array.layout_shape == gl.Shape("f32", sizes, layout) and array.dtype == logical.dtype


def test_sizes_of_dynamic_dimensions_and_of_packed_elements():
    assert gl.Array(np.zeros(15), "f64[<=5,3]{0,1}").shape == (5, 3)
    packed = gl.Array(np.zeros(8, np.uint8), "u4[3,5]{1,0:E(4)}")
    assert (packed.shape, packed.ndim, packed.size, packed.nbytes) == ((3, 5), 2, 15, 8)


def test_sizes_inside_of_traced_functions_are_constants():
    jax = pytest.importorskip("jax")
    array = gl.asarray(of_jax(LOGICAL), "{1,0:T(2,2)}")
    found = jax.jit(lambda a: (a.logical() * a.shape[0] + a.ndim - a.size).reshape(a.shape[::-1]))(array)
    assert np.array_equal(found, (LOGICAL * 2 + 2 - 6).reshape(3, 2))
    assert jax.eval_shape(lambda a: a.to("C"), array).shape == (2, 3)


GRAPHS = {
    "sizes": lambda a: (a.logical() * a.shape[0] + a.ndim - a.size).reshape(a.shape[::-1]),
    "a cast": lambda a: a.to(dtype="f16"),
    "a cast of torch's": lambda a: a.to(dtype=a.logical().double().dtype),
    "a scale": lambda a: a.to(scale=2.0).to(dtype="s8", scale=3),
    "relayout": lambda a: gl.relayout(a, dtype="bf16"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_torch_compiles_them_whole(name, is_flat):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch._dynamo").reset()
    array = gl.asarray(of_torch(LOGICAL), "{0,1:T(2,4)(2,1)}") if is_flat else gl.asarray(of_torch(LOGICAL).t())
    found = torch.compile(GRAPHS[name], backend="eager", fullgraph=True)(array)
    expected = GRAPHS[name](array)
    if isinstance(expected, gl.Array):
        assert found.layout_shape == expected.layout_shape and torch.equal(found.buffer, expected.buffer)
    else:
        assert torch.equal(found, expected)
    torch._dynamo.reset()


@pytest.mark.parametrize("options", [{"scale": 2}, {"scale": 2, "zero_point": 1}, {}, {"dtype": None}], ids=str)
def test_graphs_refuse_what_is_refused_outside(options):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch._dynamo").reset()
    array = gl.asarray(of_torch(LOGICAL.astype(np.uint8)))
    for function in (lambda a: a.to(**options).buffer, lambda a: a.to("{0,1}", **options).buffer):
        said = []
        for call in (function, torch.compile(function, backend="eager")):
            try:
                said.append(call(array).tolist())
            except TypeError as error:
                said.append(str(error))
        assert said[0] == said[1]
    torch._dynamo.reset()


# ---- a cast that keeps the layout --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cast_keeps_the_layout(layout, executor):
    source = gl.Shape("f32", (2, 3), layout)
    array = gl.Array(executor.array(gl.pack(LOGICAL, source)), source)
    for options in ({"dtype": "f16"}, {"dtype": "s8", "scale": 3}, {"scale": 0.5}, {"dtype": np.float64, "shift": 1}):
        numbers = LOGICAL * options.get("scale", 1) + options.get("shift", 0)
        target = gl.Shape(options.get("dtype", "f32"), (2, 3), layout)
        for _ in range(3):  # the third call runs without checks
            for moved in (array.to(**options), gl.relayout(array, **options), array.to(None, **options)):
                assert type(moved) is gl.Array and moved.layout_shape == target
                assert np.array_equal(executor.host(moved.buffer), gl.pack(numbers.astype(target.dtype), target))
    assert array.to(dtype="f32") is array


def test_a_cast_packs_elements_only_where_both_types_can_be_packed():
    numbers = np.arange(12).reshape(3, 4)
    packed = gl.Array(gl.pack(numbers.astype(np.uint8), "u4[3,4]{0,1:E(4)}", dtype="u4"), "u4[3,4]{0,1:E(4)}")
    wide = packed.to(dtype="f16", scale=0.5)
    assert str(wide.layout_shape) == "f16[3,4]{0,1}" and np.array_equal(wide.logical(), numbers / 2)
    assert str(packed.to(dtype="s4").layout_shape) == "s4[3,4]{0,1:E(4)}"
    assert np.array_equal(packed.to(dtype="s4").logical().astype(int), np.minimum(numbers, 7))
    assert str(wide.to(dtype="u4").layout_shape) == "u4[3,4]{0,1}"


def test_a_cast_may_write_to_an_output():
    array, out = gl.asarray(LOGICAL), gl.asarray(np.zeros((2, 3), np.int16))
    assert array.to(dtype="s16", out=out) is out and np.array_equal(out.logical(), LOGICAL)
    with pytest.raises(gl.LayoutError, match=r"out is a gl.Array of s16\[2,3\].*, but the result is s32\[2,3\]"):
        array.to(dtype="s32", out=out)


def test_a_cast_in_dask():
    array = gl.asarray(LOGICAL, "{0,1:T(2,2)}")
    pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
    assert np.array_equal(gl.dask.relayout(array, dtype="f16").compute(), array.to(dtype="f16").buffer)


def test_without_a_target_something_has_to_change():
    array = gl.asarray(LOGICAL)
    for options in ({}, {"dtype": None}, {"scale": None, "unit": False}, {"out": gl.asarray(LOGICAL.copy())}):
        with pytest.raises(TypeError, match="target is missing: .* or dtype= to keep its own"):
            array.to(**options)
    with pytest.raises(TypeError, match="'dtyp' is not a keyword of this call: did you mean dtype"):
        array.to(dtyp="f16")
    with pytest.raises(TypeError, match=r"write dtype, such as dtype='f32'"):
        array.to(dtype="u8").to(scale=2)
    for target in ("f16", np.float16, np.dtype("f2")):
        with pytest.raises(TypeError, match=r"an element type, and .* write to\(dtype='f16'\)$"):
            array.to(target)
    assert inspect.signature(array.to).parameters["target"].default is None


# ---- sizes where a shape is meant ----------------------------------------------------------------------------------

SHAPES = {
    "relayout": lambda a: gl.relayout(a.buffer, a.shape, "{0,1}"),
    "relayout to": lambda a: gl.relayout(a.buffer, a.layout_shape, a.shape),
    "of an Array": lambda a: a.to(a.shape),
    "unpack": lambda a: gl.unpack(a.buffer, a.shape),
    "pack": lambda a: gl.pack(a.logical(), a.shape),
    "view": lambda a: gl.view(a.buffer, a.shape),
    "Array": lambda a: gl.Array(a.buffer, a.shape),
    "asarray": lambda a: gl.asarray(a.logical(), a.shape),
    "plan": lambda a: gl.plan(a.shape, "{0,1}"),
    "zeros": lambda a: gl.zeros(a.shape),
    "linearize": lambda a: gl.linearize((0, 0), a.shape),
    "delinearize": lambda a: gl.delinearize(0, a.shape),
    "convert_linear": lambda a: gl.convert_linear(0, a.layout_shape, a.shape),
    "relayout_many": lambda a: gl.relayout_many([(a.buffer, a.shape, "{0,1}")]),
    "relayout_file": lambda a: gl.relayout_file(a, "never.npy", target=a.shape),
    "code": lambda a: gl.code(a.shape, "c"),
    "stride_table": lambda a: gl.stride_table(a.shape),
    "xla": lambda a: gl.xla.is_bitcast(a.shape, a.layout_shape),
    "xla of any kind": lambda a: list(gl.xla.subshapes(a.shape)),
    "torch module": lambda a: gl.torch.Relayout(a.shape, "{0,1}"),
    "dask": lambda a: gl.dask.unpack(a, a.shape),
}


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_in_place_of_a_shape_are_an_error_that_names_layout_shape(name):
    if name in ("torch module", "dask"):
        pytest.importorskip({"dask": "dask.array"}.get(name, "torch"))
    with pytest.raises(TypeError, match=r"layout_shape"):
        SHAPES[name](gl.asarray(LOGICAL, "{1,0:T(2,2)}"))
