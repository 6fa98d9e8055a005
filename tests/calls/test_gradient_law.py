"""Gradients of arithmetic on the way, at every number: out of range, infinities, nans, zeros and subnormals among them.

A change of float type passes a gradient on, `scale` multiplies it, `shift` does not change it, and that of padding is
dropped.  NumPy's arithmetic says what that gives, for eager tensors, traced ones, and JAX.
"""

import functools
import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL
from tests.traced.test_traced_arithmetic import host, tensor, torch

# The keywords, and what becomes of a gradient.
FORMS = (
    ({}, None),
    ({"saturate": False}, None),
    ({"scale": 2.0}, lambda g: g * g.dtype.type(2)),
    ({"scale": 0.37, "shift": 1.7}, lambda g: g * g.dtype.type(0.37)),
    ({"shift": 0.0}, lambda g: g),
    ({"shift": -3.0}, lambda g: g),
    ({"mean": 0.45, "std": 0.22}, lambda g: g / g.dtype.type(0.22)),
    ({"scale": 1.3, "divide": True}, lambda g: g / g.dtype.type(1.3)),
    ({"scale": [0.3, 2.0, 4.0], "shift": [1.0, 0.0, -0.0]}, lambda g: g * np.array([0.3, 2, 4], g.dtype)),
)
ROWS, COLUMNS = 24, 3
LAYOUT = f"{{0,1:PD({ROWS + 2},5)}}"  # with padding in both dimensions
KINDS = [kind for kind in gl.ElementType if kind.is_floating]
IN_TORCH = [gl.ElementType.of(name) for name in ("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn", "f8e5m2fnuz")]
IN_JAX = [kind for kind in KINDS if kind.value[:2] != "f6" and kind.value != "f8e8m0fnu"]


def numbers(kind):
    """The numbers at which a choice may go wrong, as one or more arrays of ROWS x COLUMNS; all codes of 8 bits."""
    if kind.bits <= 8:
        found = (np.arange(4 * ROWS * COLUMNS) % (1 << kind.bits)).astype(np.uint8).view(kind.dtype)
    else:
        limits = ml_dtypes.finfo(kind.dtype)
        exact = [math.inf, math.nan, 0, limits.max, limits.tiny, limits.smallest_subnormal]
        near = [1, 2.5, 7.75, 15, 16, 30, 240, 248, 256, 448, 464, 465, 500, 57344, 61440, 65504, 65520, 65536]
        with np.errstate(all="ignore"):
            found = np.array([sign * float(each) for each in exact + near for sign in (1, -1)]).astype(kind.dtype)
    return np.resize(found, (-(-found.size // (ROWS * COLUMNS)), ROWS, COLUMNS))


def weights(kind):
    """What the gradient is, of every place of the result: numbers that each type has."""
    found = np.resize([1.0, -0.5, 2, 0.5, -1], 5 * (ROWS + 2))
    return found.astype(kind.dtype)


def expected_gradient(source, target, rule):
    logical = weights(target).reshape(5, ROWS + 2)[:COLUMNS, :ROWS].T
    return (logical if rule is None else rule(logical.astype(compute(source, target)))).astype(source.dtype)


def expected_tangent(source, target, rule):
    logical = weights(source)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    found = np.zeros((5, ROWS + 2), target.dtype)
    changed = logical if rule is None else rule(logical.astype(compute(source, target)))
    found[:COLUMNS, :ROWS] = changed.T.astype(target.dtype)
    return found.reshape(-1)


def compute(source, target):
    return np.float64 if gl.ElementType.F64 in (source, target) else np.float32


def call(target, options):
    return functools.partial(gl.pack, shape=LAYOUT, dtype=target, **options)


def cases(source, kinds):
    """(target, call, gradient, tangent, about) of every form and target."""
    for target, (options, rule) in itertools.product(kinds, FORMS):
        if not options.get("saturate", True) and not target.holds(math.nan):
            continue
        yield (
            target,
            call(target, options),
            expected_gradient(source, target, rule),
            expected_tangent(source, target, rule),
            f"{source} to {target} {options}",
        )


def assert_equal(found, expected, about):
    """Equal numbers of one type; nans are equal, and so are the two zeros."""
    found = host(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), about
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64), about)


def assert_values(found, array, call, about):
    """Equal to the result on memory bit for bit, the zeros too; all nans are equal."""
    found, expected = host(found), call(array)
    assert_equal(found, expected, about)
    is_zero = expected == 0
    assert (np.signbit(found) == np.signbit(expected))[is_zero].all(), about


SLOW = pytest.mark.skipif(not ALL, reason="compiles C++; GPULAYOUT_TEST_ALL=1 runs it")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # by torch itself, in its jvp
each_source = pytest.mark.parametrize("source", IN_TORCH, ids=str)


@each_source
def test_eager_tensors(source):
    for array, (target, change, gradient, _, about) in itertools.product(numbers(source), cases(source, IN_TORCH)):
        given = tensor(array).requires_grad_()
        found = change(given)
        if not found.requires_grad:  # nothing changes
            continue
        found.backward(tensor(weights(target)))
        assert_equal(given.grad, gradient, about)


@pytest.mark.one_in(3)
@each_source
def test_torch_func(source):
    func, tangents = torch().func, tensor(weights(source)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS))
    for array, (target, change, gradient, tangent, about) in itertools.product(
        numbers(source), cases(source, IN_TORCH)
    ):
        given = tensor(array)
        value, back = func.vjp(change, given)
        assert_values(value, array, change, about)
        assert_equal(back(tensor(weights(target)))[0], gradient, about)
        assert_equal(func.jvp(change, (given,), (tangents,))[1], tangent, about)


@each_source
def test_torch_func_in_a_map(source):
    func, arrays = torch().func, tensor(numbers(source))
    for target, change, gradient, _, about in cases(source, IN_TORCH):

        def derivative(given):
            return func.vjp(change, given)[1](tensor(weights(target)))[0]  # noqa: B023

        found = func.vmap(derivative)(arrays)
        assert_equal(found, np.stack([gradient] * len(arrays)), about)


class AllForms:
    """One function with the results of all cases, each of an argument of its own, and what is expected of it.

    The usual run takes few types, beginning with the one behind `source`: to trace all of them takes long.
    """

    def __init__(self, source, kinds):
        place = kinds.index(source) + 1
        self.cases = list(cases(source, kinds if ALL else [*kinds[place:], *kinds[:place]][:2]))
        arrays = itertools.cycle(numbers(source))
        self.arrays = [next(arrays) for _ in self.cases]

    def __call__(self, *given):
        return tuple([change(each) for (_, change, _, _, _), each in zip(self.cases, given)])

    def check(self, found, gradients):
        for (_, change, gradient, _, about), array, value, own in zip(self.cases, self.arrays, found, gradients):
            assert_values(value, array, change, about)
            if own is not None:
                assert_equal(own, gradient, about)


def check_in_torch(forms, function):
    given = [tensor(array).requires_grad_() for array in forms.arrays]
    found = function(*given)
    forms.check(found, torch().autograd.grad(found, given, [tensor(weights(case[0])) for case in forms.cases]))


@pytest.mark.one_in(14)
@pytest.mark.filterwarnings("ignore:bf16 and fp16 are mixed:UserWarning")  # of Inductor, where a processor has bf16
@each_source
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=SLOW)])
def test_torch_compile(source, backend):
    torch().compiler.reset()
    forms = AllForms(source, IN_TORCH)
    check_in_torch(forms, torch().compile(forms, fullgraph=True, backend=backend))


@pytest.mark.one_in(14)
@each_source
@pytest.mark.parametrize("strict", [False, True])
def test_torch_export(source, strict):
    forms = AllForms(source, IN_TORCH)

    class Model(torch().nn.Module):
        def forward(self, *given):
            return forms(*given)

    program = torch().export.export(Model(), tuple(map(tensor, forms.arrays)), strict=strict)
    check_in_torch(forms, program.module())


each_jax_source = pytest.mark.parametrize("source", IN_JAX, ids=str)


@pytest.fixture
def jax():
    found = pytest.importorskip("jax")
    with found.enable_x64(True):
        yield found


def in_jax(kind, array):
    """The array, without subnormal numbers of 16 bits and more, which XLA takes as zeros on CPUs."""
    if kind.bits <= 8:
        return array
    least = 4 * float(ml_dtypes.finfo(kind.dtype).tiny)
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.where((wide != 0) & (abs(wide) < least), least, wide).astype(kind.dtype)


@pytest.mark.one_in(16)
@each_jax_source
@pytest.mark.parametrize("jit", [True, False])
def test_jax(jax, source, jit):
    forms = AllForms(source, IN_JAX)
    forms.arrays = [in_jax(source, array) for array in forms.arrays]
    gradients = [weights(case[0]) for case in forms.cases]

    def derivatives(given, gradients):
        found, back = jax.vjp(forms, *given)
        return found, back(gradients)

    found = (jax.jit(derivatives) if jit else derivatives)(tuple(map(jax.device_put, forms.arrays)), tuple(gradients))
    forms.check(*found)


@pytest.mark.one_in(8)
@each_jax_source
def test_jax_forward_and_mapped(jax, source):
    tangents = weights(source)[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    forms = AllForms(source, IN_JAX)
    function = jax.jit(lambda given: jax.jvp(forms, given, (tangents,) * len(given))[1])
    for own, (_, _, _, tangent, about) in zip(function(tuple(map(jax.device_put, forms.arrays))), forms.cases):
        assert_equal(own, tangent, about)
    mapped = jax.jit(jax.vmap(lambda given: jax.vjp(forms, *given)[1](tuple(weights(case[0]) for case in forms.cases))))
    stacked = tuple([np.stack([array, array]) for array in forms.arrays])
    for own, (_, _, gradient, _, about) in zip(mapped(stacked), forms.cases):
        assert_equal(own, np.stack([gradient, gradient]), about)


SATURATING = ("f8e4m3fn", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3b11fnuz", "f4e2m1fn")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", [*SATURATING, "f8e5m2", "bf16", "f32"])
def test_jax_of_second_order(jax, target):
    """The square of x has the second derivative 2, whatever x becomes on the way."""
    numpy, x = jax.numpy, np.array([1.0, -2.0, 0.5, 1e9], np.float32)

    def move(x):
        return gl.pack(x, "C", dtype=target, scale=2.0, shift=-1.0).astype("float32")

    hessian = jax.hessian(lambda x: (move(x) ** 2).sum())
    assert_equal(numpy.diagonal(hessian(x)), np.full(4, 8, np.float32), target)
    assert_equal(numpy.diagonal(jax.jit(hessian)(x)), np.full(4, 8, np.float32), target)
    through = jax.grad(lambda x: jax.jvp(move, (x,), (x,))[0].sum())
    assert_equal(through(x), np.full(4, 2, np.float32), target)


def test_jax_debugs_no_nans_where_none_are(jax):
    with jax.debug_nans(True):
        found = jax.grad(lambda x: gl.pack(x, "C", dtype="f8e4m3fn", saturate=False).astype("f4").sum())(
            jax.numpy.ones(3)
        )
    assert found.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "options", [{"scale": 2.0, "shift": 1.0}, {"dtype": "f8e5m2"}, {"dtype": "f8e4m3fn", "saturate": False}]
)
@pytest.mark.filterwarnings("ignore:`isinstance.treespec:FutureWarning")  # of torch's own
def test_gradients_of_decomposed_programs(options):
    class Model(torch().nn.Module):
        def forward(self, x):
            return gl.pack(x, "C", **options).float()

    given = tensor(np.array([1.25, 500, -3, math.inf, -math.inf, math.nan, 2.0**-30], np.float32)).requires_grad_()
    program = torch().export.export(Model(), (given.detach(),)).run_decompositions()
    program.module()(given).sum().backward()
    assert_equal(given.grad, np.full(7, options.get("scale", 1), np.float32), options)
