"""Generated code in kernels of CuPy: as part of a RawKernel's text, and as the preamble of an ElementwiseKernel."""

import pathlib
import re

import numpy as np
import pytest

import gpulayout as gl
from tests.support.device_arrays import on_gpu_alone

LAYOUTS = ("{1,0:T(8,128)}", "{0,1:PD(31,300)PV(7)}", "{1,0:T(5,3)(2)}", "{1,0:T(*,128)}")

# One thread for each place of the target: where its element lies in the source, or the pad value.
RELAYOUT = """
extern "C" __global__ void relayout(const float* in, float* out, float pad) {
  const unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place >= target::buffer_size) return;
  target::index_t y, x;
  out[place] = target::index(place, &y, &x) ? in[source::offset(y, x)] : pad;
}
"""


def case(layout):
    shape = gl.Shape("f32", (30, 300), layout)
    return shape, np.random.default_rng(0).random(shape.dimensions, np.float32)


@on_gpu_alone
@pytest.mark.parametrize("bits", [None, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_raw_kernel_with_the_code_of_two_layouts_is_a_relayout(cp, layout, bits):
    shape, values = case(layout)
    source = shape.with_layout("{0,1}")
    text = gl.code(source, name="source", bits=bits) + gl.code(shape, name="target", bits=bits) + RELAYOUT
    out = cp.zeros(shape.buffer_size, cp.float32)
    pad = np.frombuffer(shape.padding_bytes, np.float32)[0]
    kernel = cp.RawKernel(text, "relayout")
    kernel((-(-shape.buffer_size // 128),), (128,), (cp.asarray(gl.pack(values, source)), out, pad))
    assert np.array_equal(cp.asnumpy(out), gl.pack(values, shape))


@on_gpu_alone
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_code_is_the_preamble_of_an_elementwise_kernel(cp, layout):
    shape, values = case(layout)
    scaled = cp.ElementwiseKernel(
        "raw T buffer, T factor",
        "T result",
        "result = factor * buffer[layout::offset(i / layout::size1, i % layout::size1)]",
        "scaled",
        preamble=gl.code(shape),
    )
    buffer = cp.asarray(gl.pack(values, shape))
    result = scaled(buffer, np.float32(2), cp.empty(shape.dimensions, cp.float32))
    assert np.array_equal(cp.asnumpy(result), 2 * values)


@on_gpu_alone
def test_a_layout_can_be_an_argument_of_a_template(cp):
    shape, values = case(LAYOUTS[0])
    text = (
        gl.code(shape, name="tiles")
        + gl.code(shape.with_layout(None), name="rows")
        + """
template <class From, class To> __device__ void copy_element(const float* in, float* out, unsigned place) {
  typename To::index_t i0, i1;
  if (To::index(place, &i0, &i1)) out[place] = in[From::offset(i0, i1)];
}
extern "C" __global__ void untile(const float* in, float* out) {
  copy_element<tiles, rows>(in, out, blockIdx.x * blockDim.x + threadIdx.x);
}
"""
    )
    out = cp.zeros(shape.dimensions, cp.float32)
    cp.RawKernel(text, "untile")((71,), (128,), (cp.asarray(gl.pack(values, shape)), out))
    assert np.array_equal(cp.asnumpy(out), values)


@on_gpu_alone
def test_the_kernels_of_the_documentation_run(cp):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "code.md").read_text(encoding="utf-8")
    examples = [each for each in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if ">>>" not in each]
    names = {}
    for example in examples:
        exec(example, names)
    values = np.arange(9000, dtype=np.float32).reshape(30, 300) % 7
    assert np.array_equal(cp.asnumpy(names["sums"]), values.sum(1))
    assert np.array_equal(cp.asnumpy(names["doubled"]), 2 * values)
    assert np.array_equal(cp.asnumpy(names["converted"]), gl.pack(values, names["between"]))
    whole = names["pixels"](cp.asnumpy(names["image"]).reshape(-1)).reshape(3, 1080, 1920)
    assert np.array_equal(cp.asnumpy(names["planes"]), whole[:, 428:652, 848:1072])


# One thread for each place of the target.
QUANTISE = """
extern "C" __global__ void quantise(const float* in, const float* scale, signed char* out) {
  const rows::target::index_t place = blockIdx.x * blockDim.x + threadIdx.x;
  rows::target::index_t y, x;
  if (rows::target::index(place, &y, &x)) out[place] = rows::convert(in[rows::source::offset(y, x)], scale[y]);
}
"""


@on_gpu_alone
def test_a_raw_kernel_with_the_code_of_a_plan_converts_as_the_plan_does(cp):
    scale = np.linspace(0.01, 0.09, 30, dtype=np.float32)
    plan = gl.plan("f32[30,300]", "{0,1:T(8,128)}", dtype="s8", scale=scale.reshape(30, 1), zero_point=5)
    values = np.random.default_rng(0).standard_normal((30, 300), np.float32)
    values[0, :4] = np.nan, np.inf, -np.inf, 1e-40
    out = cp.zeros(plan.target.buffer_size, cp.int8)
    kernel = cp.RawKernel(gl.code(plan, name="rows") + QUANTISE, "quantise")
    kernel((-(-out.size // 128),), (128,), (cp.asarray(values), cp.asarray(scale), out))
    assert np.array_equal(cp.asnumpy(out), plan(values.reshape(-1)))


@on_gpu_alone
def test_subnormal_numbers_are_kept_in_kernels_that_flush_them(cp):
    plan = gl.plan("f32[256]", "{0}", scale=2.0, shift=0)
    values = np.arange(256, dtype=np.uint32).view(np.float32)
    scaled = cp.ElementwiseKernel("T x", "T y", "y = it::convert(x)", "scaled", preamble=gl.code(plan, name="it"))
    assert cp.asnumpy(scaled(cp.asarray(values))).tobytes() == plan(values).tobytes()
