"""The operation of the elementwise kernel, inside a text like CuPy's: it compiles and matches the reference."""

import numpy as np
import pytest

from gpulayout.gpu.index_launch import MAX_OPERANDS, linearize_text
from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc
from tests.support.simt import host_module, toolchain

C_TYPES = {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
MODES = {"raise": 0, "wrap": 1, "clip": 2}
NO_OFFENDER = 2**64 - 1
needs_compiler = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))


def text_for(dtypes):
    """A kernel over flat arrays: in a loop over i, references to the operands of element i, then the operation."""
    inputs, outputs, operation = linearize_text(len(dtypes))
    kinds = dict(part.split()[::-1] for part in inputs.split(", ") if part.split()[1].startswith("i"))
    numbers = [part.split()[1] for part in inputs.split(", ")[len(dtypes) :]]
    assert outputs == "L linear, raw uint64 offender" and len(numbers) == 2 * len(dtypes) + 1
    typedefs = "".join(f"typedef {C_TYPES[dtype]} {kinds[f'i{d}']};\n" for d, dtype in enumerate(dtypes))
    parameters = [f"const {kinds[f'i{d}']}* _raw_i{d}" for d in range(len(dtypes))]
    parameters += [f"const unsigned long long {number}" for number in numbers]
    parameters += ["L* _raw_linear", "unsigned long long* offender", "const long long _size"]
    elements = "".join(f"const {kinds[f'i{d}']} &i{d} = _raw_i{d}[i];\n" for d in range(len(dtypes)))
    return (
        f"{typedefs}typedef long long L;\n{kernel_text('coordinate.cuh')}\n"
        f'extern "C" __global__ void linearize({", ".join(parameters)}) {{\n'
        "const long long _step = (long long)blockDim.x * gridDim.x;\n"
        "for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < _size; i += _step) {\n"
        f"{elements}L &linear = _raw_linear[i];\n{operation};\n}}\n}}\n"
    )


@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("rank", (1, 8, MAX_OPERANDS))
def test_the_operation_compiles_without_a_warning(rank, architecture):
    dtypes = [list(C_TYPES)[d % len(C_TYPES)] for d in range(rank)]
    usage = nvrtc.compiled(text_for(dtypes), architecture, {}).usage["linearize"]
    assert usage.spill_bytes == usage.stack_bytes == 0 and usage.registers <= 64


@needs_compiler
@pytest.mark.simt
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "dtypes", [("int8", "uint64", "int32"), ("uint8", "int16", "int64"), ("uint32", "uint16", "int8")]
)
def test_the_operation_gives_the_reference(dtypes, mode):
    rng = np.random.default_rng(3)
    bounds, strides = (5, 7, 11), (1, 2**33, 5)
    low = 0 if mode == "raise" else -20
    operands = [
        rng.integers(max(low, np.iinfo(dtype).min), bound if mode == "raise" else 40, 700).astype(dtype)
        for dtype, bound in zip(dtypes, bounds)
    ]
    if mode == "raise":
        operands[1][[300, 200]] = 7
    result, offender = np.full(700, -5, np.int64), np.array([NO_OFFENDER], np.uint64)
    kernel = host_module.load(text_for(dtypes), ("linearize",), {}).kernel("linearize")
    kernel(
        2,
        128,
        (
            *(operand.ctypes.data for operand in operands),
            *np.ravel(list(zip(bounds, strides))).tolist(),
            MODES[mode],
            result.ctypes.data,
            offender.ctypes.data,
            700,
        ),
    )
    wanted = [operand.astype(object) for operand in operands]
    if mode == "wrap":
        wanted = [operand % bound for operand, bound in zip(wanted, bounds)]
    elif mode == "clip":
        wanted = [np.clip(operand, 0, bound - 1) for operand, bound in zip(wanted, bounds)]
    expected = sum(operand * stride for operand, stride in zip(wanted, strides))
    if mode == "raise":
        expected[[300, 200]] = -5
    assert result.tolist() == expected.tolist()
    assert offender[0] == (200 if mode == "raise" else NO_OFFENDER)
