"""The first warp's requests, as pictures of plans draw them, are the accesses that the kernels make."""

import pytest

import gpulayout as gl
from gpulayout.gpu.first_warp import first_warp
from gpulayout.gpu.many_axes import plan as many_axes_plan
from tests.kernels.test_trace import aligned_cases, awkward_cases
from tests.support.kernel_cases import WIDTHS, Case, backwards, move_of, transposed
from tests.support.simt import runner, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

PAIRS = [
    ("f32[2,3]", "{0,1:PD(3,5)}"),
    ("f32[64,64]", "{0,1}"),
    ("u8[300,200]", "{1,0:PD(300,256)}"),
    ("f32[40,50]", "{1,0:PD(41,53)}"),
    ("f32[2,100,28]", "{2,0,1}"),
    ("f32[8,3,12,12]", "{1,3,2,0}"),
    ("u8[30,40,3]", "{1,0,2}"),
    ("u8[100,100,3]{2,1,0:PD(100,100,4)}", "{1,0,2}"),
    ("f32[50,100,3]", "{1,0,2:PD(50,100,4)}"),
    ("f32[70,65]", "{0,1}"),
    ("f32[65,70]", "{0,1:PD(65,75)}"),
    ("c128[33,35]", "{0,1}"),
    ("f32[64,1024]", "{1,0:T(8,128)}"),
    ("bf16[128,1024]", "{1,0:T(8,128)(2,1)}"),
    ("f32[48,52]", "{0,1}"),
    ("f32[49,400]", "{1,0}"),
    ("f32[400,48]", "{0,1}"),
    ("f32[60,400]", "{0,1}"),
    ("u8[112,96]", "{0,1}"),
    ("u8[80,112]", "{0,1}"),
    ("c64[36,40]", "{0,1}"),
    ("u8[77,1001]", "{1,0:PD(77,1003)}"),
    ("u8[5,3,7]", "{2,0,1:PD(5,3,9)}"),
    ("bf16[9,33,30]", "{2,0,1}"),
    ("f32[8,8,8,8,8]", "{0,1,2,3,4}"),
    ("f32[6,7,8,9,5]", "{0,1,2,3,4:PD(7,7,8,9,6)}"),
    ("f32[40,5,7,7]", "{0,2,3,1}"),
    ("f64[3,3,3,3,3,3,3,3]", "{0,1,2,3,4,5,6,7}"),
    ("u8[16,16,16,16]", "{0,1,2,3}"),
    ("f32[12,40,12,11,9]", "{1,4,0,2,3}"),
    ("f32[300,9,8,7,20]", "{1,2,0,4,3}"),
    ("f16[7,5,2,7]{3,2,1,0:PD(7,8,2,7)}", "{3,2,0,1}"),
    ("f32[1000,17]", "{0,1}"),
    ("f32[17,1000]", "{0,1}"),
    ("f32[20,3000]", "{0,1}"),
    ("f32[3000,20]", "{0,1:PD(3001,20)}"),
    ("u8[40,3000]", "{0,1}"),
    ("u8[37,2999]", "{0,1}"),
    ("u8[2999,37]", "{0,1}"),
    ("f16[33,777]", "{0,1}"),
    ("f16[24,776]", "{0,1:PD(25,777)}"),
    ("c64[31,90]{1,0:PD(32,91)}", "{0,1}"),
    ("c128[5,300]", "{0,1}"),
    ("f32[40,18,9,5]", "{0,1,3,2}"),
    ("f32[7]", "{0}"),
    ("u8[5000]", "{0}"),
]


def cases(width):
    """The cases between aligned addresses, and pairs of layouts."""
    yield from (
        case for case in (*aligned_cases(width), *awkward_cases(width)) if not case.source_phase | case.target_phase
    )
    yield Case("rows far apart", move_of(width, [(6, 6, 1, 1), (900, 900, 8, 8), (3, 2, 9000, 7200)]))
    yield Case("many places of pad", move_of(width, [(50, 30, 400, 1), (7, 5, 2000, 50)]))


def pair_cases():
    for source, target in PAIRS:
        yield Case(f"{source} to {target}", gl.plan(source, target).move)


def requests(plan, side):
    """The requests in any order; the single elements of cut vectors of rows as one.

    A GPU's compiler writes out the loop over those elements.  The host's may not, and the trace then takes the first
    elements of all lanes for one request, whichever they are.
    """
    found = [sorted(map(tuple, request)) for request in side]
    if plan.kernel != "gpl_rows" or plan.vector_bytes == plan.element_bytes:
        return sorted(found)
    whole = [request for request in found if request[0][2] > plan.element_bytes]
    single = [access for request in found if request[0][2] == plan.element_bytes for access in request]
    return [*sorted(whole), sorted(single)]


def check(chosen):
    """Compare the requests, and count the cases that the model follows."""
    followed = [(case, found) for case in chosen if (found := first_warp(case.plan))]
    results = runner.run([case.record() for case, _ in followed], "trace")
    for (case, found), result in zip(followed, results):
        low = case.move.source_span[0], case.move.target_span[0]
        for name, side, traced, start in zip(found._fields, found, result.traffic["first warp"], low):
            expected = [[(lane, offset + start, nbytes) for lane, offset, nbytes in request] for request in traced]
            assert requests(case.plan, side) == requests(case.plan, expected), (case.name, case.plan.kernel, name)
    return [case.plan.kernel for case, _ in followed]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_requests_of_every_family_are_those_of_the_kernel(width):
    kernels = check(list(cases(width)))
    assert {"gpl_copy", "gpl_rows", "gpl_tile_vector", "gpl_channels", "gpl_gather"} <= set(kernels)


def test_the_requests_of_layouts_are_those_of_the_kernel():
    kernels = check(list(pair_cases()))
    assert len(kernels) == len(PAIRS)
    assert "gpl_tile_any" in kernels


def test_a_block_that_moves_several_boxes(monkeypatch):
    """Real plans need thousands of boxes for that."""
    monkeypatch.setattr(many_axes_plan, "BLOCKS", 2)
    case = Case("boxes", transposed(4, (2,) * 16, backwards(16)), blocks=2)
    (kernel,) = check([case])
    found = first_warp(case.plan)
    assert kernel == "gpl_tile_nd" and len(found.reads) > 64 * 32 // 256
