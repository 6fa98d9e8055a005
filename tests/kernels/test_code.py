"""Generated CUDA code in kernels: NVRTC compiles all of it without a warning, its machine code is short, and kernels
that use it find the elements.
"""

import numpy as np
import pytest

import gpulayout as gl
from tests.support import generated_convert, nvrtc
from tests.support.generated_code import check, random_shapes
from tests.support.simt import host_module, toolchain

needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)
BLOCK = 64


def kernels(name, rank):
    """Two kernels that call the code of a shape for every thread; an index out of `count` does nothing."""
    number = f"{name}::index_t"
    given = ", ".join(f"({number})given[{dim} * count + n]" for dim in range(rank))
    results = "".join(f"{number} i{dim}; " for dim in range(rank))
    pointers = "".join(f", &i{dim}" for dim in range(rank))
    writes = " ".join(f"result[{dim} * count + n] = i{dim};" for dim in range(rank))
    return f"""
extern "C" __global__ void {name}_offsets(const long long* given, long long count, long long* result) {{
  const long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (n < count) result[n] = {name}::offset({given});
}}
extern "C" __global__ void {name}_indices(const long long* linear, long long count, bool* truth, long long* result) {{
  const long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= count) return;
  {results}
  truth[n] = {name}::index(({number})linear[n]{pointers});
  {writes}
}}"""


def with_kernels(shapes, used=None, **options):
    """One text with the code of all shapes, called L0, L1, ..., and kernels of the first `used`, or of all."""
    codes = [gl.code(shape, name=f"L{n}", **options) for n, shape in enumerate(shapes)]
    return "\n".join([*codes, *(kernels(f"L{n}", shape.rank) for n, shape in enumerate(shapes[:used]))])


# ---- NVRTC -------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("bits", [32, 64])
def test_nvrtc_compiles_the_code_of_every_layout_without_a_warning(architecture, bits):
    used = 50 if architecture == "sm_90" else 18
    usage = nvrtc.compiled(with_kernels(random_shapes(), used, bits=bits), architecture, {}).usage
    assert len(usage) == 2 * used
    assert all(each.stack_bytes == each.spill_bytes == 0 for each in usage.values())


@needs_nvrtc
def test_code_that_a_kernel_does_not_use_gives_no_warning():
    nvrtc.compiled(gl.code("f32[2,3]") + gl.code("s4[0]{0:E(4)}", name="b") + "__global__ void k() {}", "sm_90", {})
    with pytest.raises(nvrtc.CompileError, match="never referenced"):
        nvrtc.compiled("static __device__ int unused() { return 0; } __global__ void k() {}", "sm_90", {})


# ---- machine code ------------------------------------------------------------------------------------------------

KERNEL = """
typedef layout::index_t word;
extern "C" __global__ void nothing(const word* in, word* out) { out[threadIdx.x] = in[threadIdx.x]; }
extern "C" __global__ void offset(const word* in, word* out) {
  unsigned %s;
  out[threadIdx.x] = layout::offset(%s);
}
extern "C" __global__ void index(const word* in, word* out) {
  word %s;
  if (layout::index(in[threadIdx.x], %s)) { %s }
}
"""


def instructions(shape):
    """The kinds of instructions of the kernels by name, without those that fill up the code."""
    rank = gl.parse_shape(shape).rank
    names = [f"i{dim}" for dim in range(rank)]
    loads = ", ".join(f"{name} = (unsigned)in[{dim} * 1024 + threadIdx.x]" for dim, name in enumerate(names))
    stores = " ".join(f"out[{dim} * 1024 + threadIdx.x] = {name};" for dim, name in enumerate(names))
    text = gl.code(shape) + KERNEL % (
        loads,
        ", ".join(names),
        ", ".join(names),
        ", ".join(f"&{name}" for name in names),
        stores,
    )
    cubin = nvrtc.compiled(text, "sm_90", {}).cubin
    return {
        kernel: [each.split()[0].split(".")[0] for each in nvrtc.instructions(cubin, kernel)]
        for kernel in ("nothing", "offset", "index")
    }


def arithmetic(shape):
    """How many more instructions `offset` and `index` take than a copy, loads and stores aside."""
    found = {
        kernel: [kind for kind in kinds if kind not in ("NOP", "LDG", "STG", "LDC", "ULDC", "S2R", "BRA", "EXIT")]
        for kernel, kinds in instructions(shape).items()
    }
    return tuple(len(found[kernel]) - len(found["nothing"]) for kernel in ("offset", "index"))


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize(
    "shape, offset, index",
    [
        ("u8[7,5,9,11]", 3, 12),
        ("u8[7,5,9,11]{0,1,2,3:PD(8,6,10,12)}", 3, 15),
        ("f32[8,128,16,256]", 3, 9),
        ("f32[16,256]{1,0:T(8,128)}", 5, 11),
        ("bf16[16,256]{1,0:T(8,128)(2,1)}", 8, 14),
        ("f32[30,300]{1,0:T(8,128)}", 6, 14),
        ("u8[20000,9,50000,7]", 8, 40),
    ],
)
def test_finding_an_element_takes_few_instructions_and_no_division(shape, offset, index):
    found = instructions(shape)
    assert not {"CALL", "MUFU", "I2F", "F2I", "LDL", "STL"} & {kind for kinds in found.values() for kind in kinds}
    assert all(count <= most for count, most in zip(arithmetic(shape), (offset, index)))


@needs_disassembler
def test_strides_of_powers_of_two_take_no_multiplication_by_a_reciprocal():
    text = gl.code("bf16[16,256]{1,0:T(8,128)(2,1)}") + KERNEL % (
        "i0 = (unsigned)in[threadIdx.x], i1 = (unsigned)in[1024 + threadIdx.x]",
        "i0, i1",
        "i0, i1",
        "&i0, &i1",
        "out[threadIdx.x] = i0; out[1024 + threadIdx.x] = i1;",
    )
    cubin = nvrtc.compiled(text, "sm_90", {}).cubin
    assert not [each for each in nvrtc.instructions(cubin, "index") if each.startswith("IMAD.HI")]


@needs_disassembler
def test_remainders_of_shared_quotients_would_take_more_instructions():
    """The reason for writing x % n as x - x / n * n."""
    shape = "u8[7,5,9,11]"
    digits = gl.code(shape)
    for line in ("linear / 11 % 9", "linear / 99 % 5", "linear % 11"):
        assert line not in digits
    naive = "*out0 = linear / 495; *out1 = linear / 99 % 5; *out2 = linear / 11 % 9; *out3 = linear % 11; return"
    head, tail = digits.split("index_t* out3) {")
    both = [head + "index_t* out3) {" + body for body in (tail, f" {naive} linear < 3465; }}\n}};\n")]
    kernel = """extern "C" __global__ void index(const unsigned* in, unsigned* out) {
      unsigned i0, i1, i2, i3;
      if (layout::index(in[threadIdx.x], &i0, &i1, &i2, &i3)) {
        out[threadIdx.x] = i0; out[threadIdx.x + 99] = i1; out[threadIdx.x + 999] = i2; out[threadIdx.x + 9999] = i3;
      }
    }"""
    ours, other = (
        [
            each
            for each in nvrtc.instructions(nvrtc.compiled(text + kernel, "sm_90", {}).cubin, "index")
            if each != "NOP"
        ]
        for text in both
    )
    assert len(ours) < len(other)


# ---- in kernels that run on the CPU ------------------------------------------------------------------------------


class InKernels:
    """`offset` and `index` of one shape, as `generated_code.compiled` gives them, by launches of kernels."""

    def __init__(self, module, name, rank):
        self.module, self.name, self.rank = module, name, rank

    def _run(self, kernel, count, *arguments):
        self.module.kernel(f"{self.name}_{kernel}")(-(-count // BLOCK) or 1, BLOCK, arguments)

    def offset(self, index):
        given, result = np.ascontiguousarray(index, np.int64), np.zeros(index.shape[1], np.int64)
        self._run("offsets", result.size, given, result.size, result)
        return result

    def index(self, linear):
        given, truth = np.ascontiguousarray(linear, np.int64), np.zeros(len(linear), np.bool_)
        result = np.zeros((self.rank, len(linear)), np.int64)
        self._run("indices", given.size, given, given.size, truth, result)
        return truth, result


@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
@pytest.mark.parametrize("bits", [32, 64])
def test_kernels_with_the_code_of_several_layouts_find_every_element(bits):
    shapes = [shape for shape in random_shapes() if shape.buffer_size < 3000][:24]
    names = [f"L{n}_{kernel}" for n in range(len(shapes)) for kernel in ("offsets", "indices")]
    module = host_module.load(with_kernels(shapes, bits=bits), names, {})
    found = [check(shape, InKernels(module, f"L{n}", shape.rank), [0, 1, 2**31]) for n, shape in enumerate(shapes)]
    assert sum(found) > 1000


# ---- plans -------------------------------------------------------------------------------------------------------

# One thread for each place of the target.  The parameters are those of the columns.
PIXELS = """
extern "C" __global__ void planes(const unsigned char* in, const float* scale, const float* shift,
                                  unsigned short* out) {
  const hwc::target::index_t place = blockIdx.x * blockDim.x + threadIdx.x;
  hwc::target::index_t y, x, c;
  if (hwc::target::index(place, &y, &x, &c))
    out[place] = hwc::convert(in[hwc::source::offset(y, x, c)], scale[c], shift[c]);
  else if (place < hwc::target::buffer_size) out[place] = 0;
}
"""


def pixel_plan():
    """u8 H W C to f16 C H W in rows with padding."""
    scale, shift = np.array([0.017, 0.018, 0.019]), np.array([-2.1, -2.0, -1.8])
    return gl.plan("u8[5,7,3]", "{1,0,2:PD(5,8,3)}", dtype="f16", scale=scale, shift=shift)


def every_seventh(cases):
    return cases()[:: 7 if cases is generated_convert.casts else 5]


@pytest.mark.one_in(2)
@needs_nvrtc
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90"))
def test_nvrtc_compiles_the_code_of_plans_without_a_warning_and_without_local_memory(architecture):
    cases = every_seventh(generated_convert.casts) + every_seventh(generated_convert.with_steps)
    text = generated_convert.with_kernels(cases) + gl.code(pixel_plan(), name="hwc") + PIXELS
    usage = nvrtc.compiled(text, architecture, {}).usage
    assert len(usage) == len(cases) + 1
    assert all(each.stack_bytes == each.spill_bytes == 0 for each in usage.values())


@needs_nvrtc
def test_a_conversion_that_a_kernel_does_not_use_gives_no_warning():
    nvrtc.compiled(gl.code(pixel_plan()) + gl.code(pixel_plan(), name="b") + "__global__ void k() {}", "sm_90", {})


@needs_disassembler
def test_steps_keep_subnormal_numbers_and_are_never_fused():
    """CuPy's options flush subnormal numbers in what the compiler writes for operators."""
    case = generated_convert.Case(gl.ElementType.F32, gl.ElementType.F32, {"scale": np.ones(3), "shift": np.ones(3)})
    cubin = nvrtc.compiled(generated_convert.with_kernels([case]), "sm_90", {}).cubin
    found = [each.split()[0] for each in nvrtc.instructions(cubin, "convert0")]
    assert {each for each in found if each.startswith(("FADD", "FMUL", "FFMA"))} == {"FADD", "FMUL"}


@pytest.mark.one_in(3)
@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
@pytest.mark.parametrize("cases", [generated_convert.casts, generated_convert.with_steps])
def test_kernels_convert_as_the_model_does(cases):
    listed = every_seventh(cases)
    names = [f"convert{n}" for n in range(len(listed))]
    module = host_module.load(generated_convert.with_kernels(listed), names, {})
    found = [case.check(generated_convert.in_kernel(module, case, n)) for n, case in enumerate(listed)]
    assert sum(found) > 2000


@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
def test_a_kernel_with_the_code_of_a_plan_does_what_the_plan_does():
    plan = pixel_plan()
    pixels = np.random.default_rng(0).integers(0, 256, 105, np.uint8)
    out = np.full(plan.target.buffer_size, 77, np.uint16)
    module = host_module.load(gl.code(plan, name="hwc") + PIXELS, ["planes"], {})
    scale, shift = (np.float32(plan.change.options[name]) for name in ("scale", "shift"))
    module.kernel("planes")(-(-out.size // BLOCK), BLOCK, (pixels, scale, shift, out))
    assert np.array_equal(out.view(np.float16), plan(pixels))
