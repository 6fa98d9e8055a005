"""`Array` of PyTorch's tensors and JAX's arrays: in memory, as a pytree, and inside of what these libraries trace."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL
from tests.support.graph_breaks import said

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

LAYOUTS = ("{1,0}", "{0,1}", "{0,1:PD(5,6)}", "{1,0:T(2,2)}", "{0,1:T(2,4)(2,1)}")
KEYS = ((1, -2), (slice(None, None, -1), 2), (slice(2), slice(1, 4, 2)), (..., 0), 2)
LOGICAL = np.arange(20, dtype=np.float32).reshape(4, 5)
KINDS = {"torch": torch.from_numpy, "jax": jnp.asarray}


@pytest.fixture(params=KINDS)
def new(request):
    return KINDS[request.param]


def values(array):
    return np.asarray(array.detach() if isinstance(array, torch.Tensor) else array)


def test_every_law_holds_for_their_arrays(new):
    given = new(LOGICAL)
    for layout in LAYOUTS:
        array = gl.asarray(given, layout)
        kind = type(given)
        assert isinstance(array.buffer, kind) and isinstance(array.logical(), kind)
        assert np.array_equal(values(array.logical()), LOGICAL) and array.dtype == np.float32
        assert array.device == given.device and np.array_equal(np.asarray(array), LOGICAL)
        for key in KEYS:
            found = array[key]
            assert isinstance(found, kind) and np.array_equal(values(found), LOGICAL[key]), (layout, key)
        for target in LAYOUTS:
            moved = array.to(target)
            assert isinstance(moved.buffer, kind) and moved == array
            assert np.array_equal(values(moved.buffer), gl.pack(LOGICAL, target)) or moved is array
        assert array == gl.asarray(LOGICAL)  # of another library, on the same device
        assert pickle.loads(pickle.dumps(array)) == array
        assert array == gl.Array(array.buffer, str(array.layout_shape)) and array != gl.asarray(new(LOGICAL + 1))
        assert type(array.buffer).__name__ in repr(array) and "4." not in repr(array)


def test_elements_of_types_of_every_width(new):
    kinds = ["bfloat16", "float16", "float8_e5m2", "int8", "bool", "complex64"] + ["int4"] * (new is jnp.asarray)
    for kind in kinds:
        numbers = np.arange(20).reshape(4, 5) % 2 if kind == "bool" else np.arange(20).reshape(4, 5) % 7
        given = (
            jnp.asarray(numbers).astype(kind)
            if new is jnp.asarray
            else torch.from_numpy(numbers).to(getattr(torch, kind))
        )
        array = gl.asarray(given, "{1,0:T(2,2)}")
        for key in KEYS:
            found, expected = array[key], gl.unpack(array)
            if new is jnp.asarray:
                assert found.dtype == given.dtype and np.array_equal(np.asarray(found), np.asarray(expected)[key])
            else:
                assert found.dtype == given.dtype
                assert np.array_equal(found.to(torch.complex64).numpy(), expected.to(torch.complex64).numpy()[key])


MORE_KEYS = (
    *KEYS,
    ...,
    (),
    slice(0),
    slice(3, 0, -3),
    (slice(None, None, -2), slice(None, None, -1)),
    (slice(0, 0, -1), 1),
)


def torch_kinds():
    """The names of torch's types that XLA has too."""
    for name in sorted({str(kind)[6:] for kind in vars(torch).values() if isinstance(kind, torch.dtype)}):
        try:
            gl.ElementType.of(getattr(torch, name))
        except TypeError:
            continue
        yield name


def bytes_of(tensor):
    """The bytes of a tensor's elements, in C order, read as torch can read every type."""
    width = tensor.element_size()
    if width == 16:
        return torch.view_as_real(tensor).numpy().tobytes()
    return tensor.view(getattr(torch, f"int{8 * width}")).contiguous().numpy().tobytes()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("how", ["as it is", "compiled", "mapped"])
@pytest.mark.parametrize("name", list(torch_kinds()))
def test_every_index_of_every_type_of_torch(name, how):
    kind, own = getattr(torch, name), gl.ElementType.of(getattr(torch, name))
    if how == "compiled" and own.is_sub_byte:
        pytest.skip("torch.compile has no names for types below a byte")
    logical = np.arange(20 * own.itemsize, dtype=np.uint8) & (1 if own == "pred" else 255)
    logical = logical.view(own.dtype).reshape(4, 5)
    given = torch.from_numpy(logical.view(np.uint8).reshape(-1).copy()).view(kind).reshape(4, 5)
    elements = eval(f"lambda a: [{', '.join(f'a[{key}]' for key in MORE_KEYS)}]")
    for layout in (None, *LAYOUTS) if how == "as it is" else (None, "{1,0:T(2,2)}"):
        array = gl.asarray(given, layout)
        if how == "compiled":
            results = torch.compile(elements, fullgraph=True, backend="eager")(array)
        elif how == "mapped":
            shape = array.layout_shape
            results = torch.func.vmap(lambda row, shape=shape: elements(gl.Array(row, shape)))(array.buffer[None])
            results = [result[0] for result in results]
        else:
            results = elements(array)
        for key, found in zip(MORE_KEYS, results, strict=True):
            expected = logical[key]
            assert found.dtype == kind and tuple(found.shape) == np.shape(expected), (array, key)
            assert bytes_of(found) == np.ascontiguousarray(expected).tobytes(), (array, key)


def test_gradients_follow_elements_that_are_turned():
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for layout in LAYOUTS:
            given = torch.arange(20.0).reshape(4, 5).to(kind).requires_grad_()
            (gl.asarray(given, layout)[::-1, ::2] * torch.arange(12).reshape(4, 3)).sum().backward()
            expected = np.zeros((4, 5))
            expected[::-1, ::2] = np.arange(12).reshape(4, 3)
            assert np.array_equal(given.grad.to(torch.float64), expected), (kind, layout)


def test_packed_elements_of_their_arrays(new):
    array = gl.Array(new(gl.pack(np.arange(20).reshape(4, 5).astype("u1") % 16, "u4[4,5]{0,1:E(4)}", dtype="u4")),
                     "u4[4,5]{0,1:E(4)}")  # fmt: skip
    expected = np.arange(20).reshape(4, 5) % 16
    for key in KEYS:
        assert np.array_equal(values(array[key]).astype(int), expected[key])


def test_nd_arrays_of_torch_keep_their_memory_format():
    images = torch.arange(48.0).reshape(2, 3, 2, 4).contiguous(memory_format=torch.channels_last)
    array = gl.asarray(images)
    assert array.buffer is images and str(array.layout_shape) == "f32[2,3,2,4]{1,3,2,0}" and array.logical() is images
    assert torch.equal(array.to("{3,2,1,0}").buffer, images.contiguous().reshape(-1))
    back = pickle.loads(pickle.dumps(array))
    assert back == array and back.buffer.stride() == images.stride()
    assert torch.equal(array[1, ::-1, 0], images[1].flip(0)[:, 0]) and torch.equal(torch.from_dlpack(array), images)


def test_buffers_that_a_gradient_follows():
    weight = torch.randn(4, 5, requires_grad=True)
    for layout in (None, *LAYOUTS):
        array = gl.asarray(weight, layout)
        moved = array.to("{1,0:T(2,4)}")
        result = (moved.logical() ** 2).sum() + 3 * moved[1, 2] + moved[2:, ::-2].sum()
        (grad,) = torch.autograd.grad(result, weight)
        expected = 2 * weight.detach().clone()
        expected[1, 2] += 3
        expected[2:, [4, 2, 0]] += 1
        assert torch.allclose(grad, expected), layout
    assert gl.asarray(weight) == gl.asarray(weight.detach())


# ---- pytrees -------------------------------------------------------------------------------------------------------


def test_it_is_a_pytree_with_one_leaf(new):
    array = gl.asarray(new(LOGICAL), "{1,0:T(2,2)}")
    pytree = torch.utils._pytree
    for map_, flatten, unflatten in (
        (jax.tree.map, jax.tree.flatten, jax.tree.unflatten),
        (pytree.tree_map, pytree.tree_flatten, lambda form, leaves: pytree.tree_unflatten(leaves, form)),
    ):
        twice = map_(lambda leaf: leaf * 2, {"w": array})["w"]
        assert twice.layout_shape is array.layout_shape and np.array_equal(values(twice.logical()), LOGICAL * 2)
        leaves, form = flatten(array)
        assert len(leaves) == 1 and leaves[0] is array.buffer
        for leaf in (object(), None, 0):  # libraries put anything there
            assert unflatten(form, [leaf]).buffer is leaf and "f32[4,5]" in repr(unflatten(form, [leaf]))
        assert form == flatten(gl.asarray(new(LOGICAL + 1), "{1,0:T(2,2)}"))[1]
        assert form != flatten(gl.asarray(new(LOGICAL), "{0,1}"))[1]
    assert "buffer" in str(jax.tree_util.tree_flatten_with_path(array)[0][0][0])


def test_a_library_that_is_loaded_later_gets_to_know_it():
    code = """
import numpy as np, gpulayout as gl
early = gl.asarray(np.eye(2))
import sys; assert "jax" not in sys.modules and "torch" not in sys.modules
import LIBRARY
gl.asarray(np.eye(2))
leaves = sys.modules["jax.tree_util" if "LIBRARY" == "jax" else "torch.utils._pytree"].tree_leaves(early)
assert len(leaves) == 1 and leaves[0] is early.buffer
"""
    for library in ("jax", "torch") if ALL else ("jax",):  # importing torch takes seconds
        subprocess.run([sys.executable, "-c", code.replace("LIBRARY", library)], check=True)


# ---- traced --------------------------------------------------------------------------------------------------------


def test_functions_of_jax_take_and_return_one():
    for layout in LAYOUTS:
        array = gl.asarray(jnp.asarray(LOGICAL), layout)
        moved = jax.jit(lambda a: a.to("{0,1:T(4,2)}"))(array)
        assert type(moved) is gl.Array and moved == array and str(moved.layout_shape) == "f32[4,5]{0,1:T(4,2)}"
        assert np.array_equal(jax.jit(lambda a: a.logical() * 2)(array), LOGICAL * 2)
        for key in KEYS:
            assert np.array_equal(jax.jit(lambda a: a[key])(array), LOGICAL[key])  # noqa: B023
        made = jax.jit(lambda a: gl.asarray(a.logical() + 1, "{1,0:T(2,2)}"))(array)
        assert made == gl.asarray(LOGICAL + 1)
        grad = jax.grad(lambda a: (a.logical() ** 2).sum() + a[1, 1])(array)
        expected = 2 * LOGICAL
        expected[1, 1] += 1
        assert type(grad) is gl.Array and np.array_equal(grad.logical(), expected)
        many = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), array)
        assert np.array_equal(jax.vmap(lambda a: a.logical())(many), [LOGICAL, LOGICAL + 1])
        assert jax.eval_shape(lambda a: a.to("C"), array).layout_shape == gl.Shape("f32", (4, 5))
    with pytest.raises(TypeError, match="tracer"):
        jax.jit(lambda a: jnp.asarray(a == a))(array)
    with pytest.raises(TypeError, match="tracer"):
        jax.jit(lambda a: np.asarray(a))(array)


COMPILED = {
    "logical": lambda a: a.logical() * 2,
    "to": lambda a: a.to("{0,1:T(4,2)}"),
    "to twice": lambda a: a.to("{0,1:T(4,2)}").to("{1,0:PD(4,8)}").logical(),
    "to another type": lambda a: a.to("{0,1:PD(4,8)}", dtype="bf16", scale=[1, 2, 3, 4, 5]),
    "to the same": lambda a: a.to("{1,0}").to("{1,0}"),
    "elements": lambda a: a[1, 2] + a[::-1, ::2] * a[0, ...][::2],
    "relayout": lambda a: gl.relayout(a, "{0,1}"),
    "unpack": lambda a: gl.unpack(a),
    "a plan": lambda a: TO_TILES(a.to("{1,0}")),
    "a new one": lambda a: gl.Array(a.to("{1,0}").buffer + 1, "f32[4,5]"),
    "a new one of a shape": lambda a: gl.Array(a.to("{1,0}").buffer + 1, SHAPE).to("{0,1}"),
    "asarray": lambda a: gl.asarray(a.logical() + 1),
    "asarray, packed": lambda a: gl.asarray(a.logical() + 1, "{0,1:T(2,2)}"),
    "the shape": lambda a: a.logical() * a.layout_shape.rank + a.nbytes,
    "a plan with arithmetic": lambda a: SCALED(a.to("{1,0}")),
    "a plan with arithmetic, as it lies": lambda a: SCALED(gl.asarray(a.logical().contiguous() + 1)),
    "many": lambda a: gl.relayout_many([(a, "{0,1}"), (a, a.layout_shape, "{1,0:T(2,4)}")], scale=2)[1],
    "length": lambda a: a.logical() * len(a),
    "rows": lambda a: sum(row * number for number, row in enumerate(a)),
    "out": lambda a: a.to("{0,1}", out=gl.Array(torch.zeros(20), "f32[4,5]{0,1}")),
}
TO_TILES = gl.plan("f32[4,5]", "{1,0:T(2,2)}")
SCALED = gl.plan("f32[4,5]", "{0,1}", dtype="bf16", scale=2)
SHAPE = gl.parse_shape("f32[4,5]")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", COMPILED)
def test_torch_compiles_functions_of_one_whole(name):
    function = COMPILED[name]
    for array in (
        gl.asarray(torch.from_numpy(LOGICAL), "{1,0:T(2,2)}"),
        gl.asarray(torch.from_numpy(LOGICAL).t().contiguous().t()),  # an N-d one
    ):
        torch._dynamo.reset()
        found, expected = torch.compile(function, backend="eager", fullgraph=True)(array), function(array)
        assert type(found) is type(expected)
        if isinstance(found, gl.Array):
            assert (
                found == expected
                and found.layout_shape == expected.layout_shape
                and pickle.loads(pickle.dumps(found)) == found
            )
        else:
            assert torch.equal(found, expected)


# What torch.compile cannot trace runs between graphs; with fullgraph=True the error has this text.
BETWEEN = {
    "packed elements": (
        lambda a: gl.Array(a.logical().reshape(-1).byte(), "u4[40]{0:E(4)}").to("{0}").buffer,
        "2 elements share a byte",
    ),
    "a packed job": (
        lambda a: (
            gl.relayout_many([(a, "C"), (gl.Array(a.logical().reshape(-1).byte(), "u4[40]{0:E(4)}"), "{0}")])[1].buffer
        ),
        "job 1: element_size_in_bits 4",
    ),
    "a view": (lambda a: gl.view(a.to("{0,1}")), "call gl.unpack or gl.transpose"),
    "in place": (lambda a: a.to("{0,1}", out=a.to("{1,0}").buffer, max_bytes=99).buffer, "leave max_bytes out"),
    "equality": (lambda a: a.logical() * (a.to("{0,1}") == a), "compare what .logical() gives"),
    "text": (lambda a: a.logical() * len(repr(a)), "outside of graphs"),
    "another length": (lambda a: gl.Array(a.logical().reshape(-1), "f32[4,6]").buffer, "f32[4,6]{1,0} needs 24"),
    "another rank": (lambda a: a.to("{0,1,2}").buffer, "minor_to_major (0, 1, 2) has 3 entries"),
    "another shape": (lambda a: gl.relayout(a, "{0,1:T(3,3)}", "C").buffer, "is not the shape of the gl.Array"),
    "another shape, unpacked": (lambda a: gl.unpack(a, "{0,1:T(3,3)}"), "is not the shape of the gl.Array"),
    "another plan": (lambda a: gl.plan("f32[4,5]{0,1:T(3,3)}", "C")(a).buffer, "but the plan moves f32[4,5]{0,1:T"),
    "another out": (lambda a: a.to("C", out=gl.Array(torch.zeros(20), "f32[4,5]{0,1}")), "out is a gl.Array of f32"),
    "asarray": (lambda a: gl.asarray(a.logical(), "{0,1,2}").buffer, "minor_to_major (0, 1, 2) has 3 entries"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", BETWEEN)
def test_what_torch_cannot_trace_runs_between_graphs(name):
    function, reason = BETWEEN[name]
    array = gl.asarray(torch.from_numpy(LOGICAL), "{1,0:T(2,2)}")
    torch._dynamo.reset()
    results = [_outcome(run, array) for run in (function, torch.compile(lambda a: function(a), backend="eager"))]
    assert results[0] == results[1]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda a: function(a), backend="eager", fullgraph=True)(array)
    assert reason in said(caught.value)


def _outcome(function, array):
    """The values of the result, or the error."""
    try:
        found = function(array)
    except (gl.LayoutError, BufferError) as error:
        return type(error), str(error)
    return found.dtype, found.tolist()


def test_torch_compiles_again_only_for_another_shape():
    compiled = []

    def count(graph, example):
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    function = torch.compile(lambda a: (a.to("{0,1}"), a[1:, 2], a.logical()), backend=count, fullgraph=True)
    matrix = torch.arange(16.0).reshape(4, 4)
    for expected, layout in ((1, "{1,0:T(2,2)}"), (1, "{1,0:T(2,2)}"), (2, "{0,1:T(2,2)}"), (2, "{1,0:T(2,2)}")):
        shape = gl.Shape("f32", (4, 4), gl.parse_layout(layout))  # a new one each time
        moved, part, logical = function(gl.Array(gl.pack(matrix, shape), shape))
        assert torch.equal(logical, matrix) and torch.equal(part, matrix[1:, 2])
        assert torch.equal(moved.buffer, matrix.t().reshape(-1)) and len(compiled) == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layout", [None, "{1,0:T(2,2)}"])
def test_arrays_of_several_sizes_are_made_in_whole_graphs(layout, dynamic):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()

    def function(x):
        return (gl.asarray(x, layout) if layout else gl.Array(x, "{1,0}")).to("{0,1}").buffer

    compiled = torch.compile(function, backend="eager", fullgraph=True, dynamic=dynamic)
    for rows in (4, 4, 6, 7):  # torch leaves the size open from the second one on, or at once
        matrix = torch.arange(rows * 6.0).reshape(rows, 6)
        assert torch.equal(compiled(matrix), matrix.t().reshape(-1))
    torch._dynamo.reset()


def test_torch_exports_functions_of_one():
    class Head(torch.nn.Module):
        def forward(self, array):
            return array.to("{0,1}"), array.logical() + 1

    array = gl.asarray(torch.from_numpy(LOGICAL), "{1,0:T(2,2)}")
    stored = io.BytesIO()
    torch.export.save(torch.export.export(Head(), (array,)), stored)
    stored.seek(0)
    with torch.serialization.safe_globals([gl.Array]):  # the stored program holds the example, too
        moved, more = torch.export.load(stored).module()(array)
    assert (
        moved == array and moved.layout_shape == gl.parse_shape("f32[4,5]{0,1}") and np.array_equal(more, LOGICAL + 1)
    )


def test_torch_func_and_fake_tensors():
    array = gl.asarray(torch.from_numpy(LOGICAL), "{0,1:T(2,2)}")
    many = torch.utils._pytree.tree_map(lambda leaf: torch.stack([leaf, leaf + 1]), array)
    found = torch.func.vmap(lambda buffer: gl.Array(buffer, array.layout_shape).logical())(many.buffer)
    assert np.array_equal(found, [LOGICAL, LOGICAL + 1])
    grad = torch.func.grad(lambda buffer: (gl.Array(buffer, array.layout_shape).to("{1,0}").logical() ** 2).sum())(
        array.buffer
    )
    assert torch.equal(gl.Array(grad, array.layout_shape).logical(), 2 * torch.from_numpy(LOGICAL))
    with torch._subclasses.FakeTensorMode():
        fake = gl.Array(torch.zeros(array.layout_shape.buffer_length), array.layout_shape)
        assert fake.logical().shape == (4, 5) and fake.to("C").buffer.shape == (20,) and fake[1:, 0].shape == (3,)
        with pytest.raises(TypeError):
            bool(fake == fake)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", [None, "{1,0}", "{0,1}", "{1,0:PD(4,6)}", "{1,0:T(2,2)}"])
def test_what_lies_as_asked_is_not_packed_in_a_graph_either(layout):
    for given in (torch.from_numpy(LOGICAL), torch.from_numpy(LOGICAL.T.copy()).T):
        call = lambda x: gl.asarray(x, layout).buffer + 0  # noqa: E731
        torch._dynamo.reset()
        found, expected = torch.compile(call, fullgraph=True, backend="eager")(given), call(given)
        assert found.equal(expected) and found.shape == expected.shape


@pytest.mark.parametrize("axis", [0, 1])
def test_an_array_of_a_mapped_tensor_lies_as_it_does(axis):
    stack = torch.arange(24.0).reshape(2, 3, 4)
    call = lambda x: gl.asarray(x).to("{0,1}").buffer  # noqa: E731
    found = torch.func.vmap(call, in_dims=axis)(stack)
    assert found.equal(torch.stack([call(each) for each in stack.unbind(axis)]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["cuda", torch.device("cpu"), torch.float16, np.float16], ids=str)
def test_devices_and_types_are_no_layouts_in_a_graph_either(target):
    call = lambda x: gl.asarray(x).to(target).buffer  # noqa: E731
    texts = []
    for run in (call, torch.compile(call, backend="eager")):
        with pytest.raises(TypeError, match="and to.. changes the layout of f32.4,5..1,0.: write") as caught:
            run(torch.from_numpy(LOGICAL))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(call, fullgraph=True, backend="eager")(torch.from_numpy(LOGICAL))
    assert texts[0] in said(caught.value)


def test_numpy_does_not_read_what_a_gradient_follows():
    torch = pytest.importorskip("torch")
    array = gl.Array(torch.arange(6.0, requires_grad=True), "f32[2,3]{0,1}")
    with pytest.raises(BufferError, match=r"requires a gradient, .*: pass array\.logical\(\)\.detach\(\)"):
        np.asarray(array)
    assert np.asarray(array.logical().detach()).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_torch_fx_is_told_what_to_call():
    fx = pytest.importorskip("torch.fx")
    with pytest.raises(BufferError, match="torch.export and torch.compile run such calls"):
        fx.symbolic_trace(lambda x: gl.transpose(x, "a b -> b a"))
