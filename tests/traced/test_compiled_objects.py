"""Shapes, layouts and plans inside functions that torch.compile compiles: plain values, made there or before."""

import subprocess
import sys

import pytest

import gpulayout as gl
from tests.support.waiting import HANG

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo.testing")

X = torch.arange(6.0).reshape(2, 3)
PADDED = gl.Shape("f32", (2, 3), "{0,1:PD(2,4)PV(2.5)T(2,2)}")
NAN = gl.Shape("f32", (2, 3), "{0,1:PD(2,4)PV(nan)}")
COMPLEX = gl.Shape("c64", (2, 3), "{0,1:PD(2,4)PV(1.5-0j)}")
TAIL = gl.Shape("f32", (2, 3), gl.Layout((0, 1), tail_padding_alignment=16))
LAYOUT = gl.Layout((0, 1))
PLAN = gl.plan("f32[2,3]", PADDED)
LOWERED = PLAN.lower()
CLOSED_OVER = {
    "a shape": lambda x: gl.pack(x, PADDED),
    "padding of nan": lambda x: gl.pack(x, NAN),
    "complex padding": lambda x: gl.pack(x.to(torch.complex64), COMPLEX),
    "a tail": lambda x: gl.pack(x, TAIL),
    "a layout": lambda x: gl.pack(x, LAYOUT),
    "a plan": lambda x: PLAN(x.reshape(-1)),
    "steps": lambda x: LOWERED(x.reshape(-1)),
    "its attributes": lambda x: gl.pack(x, PADDED)[: PADDED.element_count] * PADDED.rank + PADDED.nbytes,
    "a plan's attributes": lambda x: PLAN(x.reshape(-1))[: PLAN.target.dimensions[0]],
    "in a list": lambda x: [gl.unpack(gl.pack(x, shape), shape) for shape in (PADDED, NAN)][0],
    "in a dictionary": lambda x: gl.relayout(gl.pack(x, PADDED), {"from": PADDED}["from"], LAYOUT),
}
MADE = {
    "a shape": lambda x: gl.pack(x, gl.Shape("f32", (2, 3), "{0,1:T(2,2)}")),
    "named padding": lambda x: gl.pack(x, gl.Shape("f32", (2, 3), "{0,1:PD(2,4)PV(lowest)}")),
    "a number as padding": lambda x: gl.pack(x, gl.Shape("f32", (2, 3), "{0,1:PD(2,4)PV(2.5)}")),
    "from a tensor": lambda x: gl.pack(x, gl.Shape(x.dtype, x.shape, gl.Layout((0, 1)))),
    "a layout": lambda x: gl.pack(x, gl.Layout((0, 1), tiles=[(2, 2)])),
    "a tile": lambda x: gl.pack(x, gl.Layout((0, 1), tiles=[gl.Tile((2, gl.COMBINE, 2))])),
    "a named layout": lambda x: gl.pack(x.reshape(1, 2, 3, 1), gl.Layout.named("NHWC", logical="NCHW")),
    "row-major": lambda x: gl.pack(x, gl.Layout.descending(2)),
    "parse_shape": lambda x: gl.pack(x, gl.parse_shape("f32[2,3]{0,1:T(2,2)}")),
    "parse_layout": lambda x: gl.pack(x, gl.parse_layout("{0,1}")),
    "an edit": lambda x: gl.pack(x, PADDED.with_layout("{1,0}")),
    "a pitch": lambda x: gl.pack(x, PADDED.with_layout("{1,0}").with_pitch(16)),
    "a plan": lambda x: gl.plan("f32[2,3]", "{0,1:PD(2,5)}")(x.reshape(-1)),
    "a plan of shapes": lambda x: gl.plan(PADDED, "{1,0:PD(3,5)}")(gl.pack(x, PADDED)),
    "a plan of a pattern": lambda x: gl.plan("f32[2,3]", "a b -> b a")(x.reshape(-1)),
    "steps": lambda x: PLAN.lower()(x.reshape(-1)),
}


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "call", [*CLOSED_OVER.values(), *MADE.values()], ids=[*CLOSED_OVER, *(f"made: {n}" for n in MADE)]
)
def test_objects_work_in_one_graph(call):
    """Made before anything else has met them, so nothing is kept of an eager call."""
    found = torch.compile(call, backend="eager", fullgraph=True)(X)
    torch.testing.assert_close(found, call(X), rtol=0, atol=0, equal_nan=True)


EQUAL = {
    "shape": lambda: gl.Shape("f32", (2, 3), "{0,1:PD(2,4)PV(2.5)T(2,2)}"),
    "layout": lambda: gl.Layout((0, 1), tiles=[(2, 2)], tail_padding_alignment=8),
    "plan": lambda: gl.Plan(gl.Shape("f32", (2, 3)), gl.Shape("f32", (2, 3), "{0,1}")),
    "lowered": lambda: gl.plan("f32[2,3]", "{0,1:PD(2,4)}").lower(),
}


@pytest.mark.parametrize("make", EQUAL.values(), ids=EQUAL)
def test_equal_objects_share_a_graph(make):
    count = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(used, backend=count, fullgraph=True)
    objects = [make() for _ in range(4)]
    assert len({*map(id, objects)}) == 4
    for value in objects:
        assert compiled(X, value).equal(used(X, value))
    assert count.frame_count == 1


def used(x, value):
    return gl.pack(x, value) if isinstance(value, gl.Shape | gl.Layout) else value(x.reshape(-1))


def test_other_objects_get_graphs_of_their_own():
    """Also at the address of a plan that is gone, and where torch.compile would like to make numbers variable."""
    count = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(used, backend=count, fullgraph=True)
    for size in (3, 4, 5, 3, 4):
        x = torch.arange(2.0 * size).reshape(2, size)
        shape = gl.Shape("f32", (2, size), f"{{0,1:PD(2,{size + 1})PV({size}.5)}}")
        assert compiled(x, shape).equal(gl.pack(x, shape))
    assert count.frame_count < 5
    torch._dynamo.reset()  # it compiles a function eight times at most
    line = torch.arange(6.0)
    for layout in ("{0,1}", "{1,0}", "{0,1:PD(2,4)}") * 2:
        plan = gl.Plan(gl.Shape("f32", (2, 3)), gl.Shape("f32", (2, 3), layout))
        assert compiled(line, plan).equal(plan(line))
        steps = plan.lower()
        assert compiled(line, steps).equal(plan(line))
        del plan, steps


def test_a_plan_that_a_graph_made_is_whole_outside():
    """A graph needs the shapes of a plan alone; the rest is made when memory needs it."""
    made = []

    def call(x):
        plan = gl.plan("f32[2,3]", "{0,1}")
        made.append(plan)
        return plan(x.reshape(-1))

    result = torch.compile(call, backend="eager")(X)
    (plan,), known = made, gl.plan("f32[2,3]", "{0,1}")
    assert plan == known and torch.equal(result, known(X.reshape(-1)))
    assert torch.equal(plan(X.reshape(-1)), result) and plan.bytes_read == known.bytes_read
    assert str(plan.explain()) == str(known.explain()) and plan.pieces == known.pieces
    with pytest.raises(AttributeError, match="'Plan' object has no attribute 'no_such'"):
        plan.no_such  # noqa: B018


FIRST = """
import torch, gpulayout as gl
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "s8": "int8", "u8": "uint8", "s32": "int32"}
for name, theirs in TYPES.items():
    dtype = getattr(torch, theirs)
    x = torch.arange(6).to(dtype)
    calls = (
        lambda x: gl.plan(gl.Shape(name, (2, 3)), "{0,1}")(x),
        lambda x: gl.pack(x.reshape(2, 3), gl.Shape(dtype, (2, 3), gl.Layout((0, 1)))),
    )
    for call in calls[:: 1 if name in ("f32", "s8") else -1]:
        torch._dynamo.reset()
        assert torch.compile(call, fullgraph=True, backend="eager")(x).tolist() == [0, 3, 1, 4, 2, 5]
"""


def test_the_first_call_of_a_process_may_be_a_compiled_one():
    """An object that gets an attribute while it is traced for the first time would end the compiler."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-2000:]
