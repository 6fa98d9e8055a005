"""The conversions of kernels/convert.cuh on arrays of codes: types and steps are numbers at run time, so one compiled
text serves all pairs.  The branches of a kernel, where they are constants, are the same.
"""

import functools
import itertools

import numpy as np

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step, steps_number, type_number
from tests.support.simt import host_module

TYPES = tuple(element_type for element_type in ElementType if not element_type.is_complex)
KERNELS = ("convert_narrow", "convert_wide")
LOOPS = """
template <class W> __device__ void convert_all(const W* given, W* found, const W* parameters, unsigned long long count,
                                               unsigned source, unsigned target, unsigned saturate, unsigned steps) {
  const GplType from = gpl_type(source), to = gpl_type(target);
  for (unsigned long long i = 0; i < count; ++i)
    found[i] = gpl_converted<W>(given[i], from, to, saturate, steps, [&](unsigned number) {
      GplRealCode<W> parameter;
      parameter.code = parameters[number * count + i];
      return parameter.real;
    });
}
#define CONVERT_ALL(name, W)                                                                                   \\
  extern "C" __global__ void name(const W* given, W* found, const W* parameters, unsigned long long count,     \\
                                  unsigned source, unsigned target, unsigned saturate, unsigned steps) {       \\
    convert_all(given, found, parameters, count, source, target, saturate, steps);                             \\
  }
CONVERT_ALL(convert_narrow, unsigned)
CONVERT_ALL(convert_wide, unsigned long long)
"""


def text_of(*changes):
    """The functions with some parts of their text replaced, and the kernels that loop over arrays."""
    text = kernel_text("convert.cuh")
    for right, wrong in changes:
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    return text + LOOPS


@functools.cache
def _kernel(text, name):
    return host_module.load(text, KERNELS, {}, "2").kernel(name)


def is_wide(arithmetic):
    """Whether a side or the steps have 64 bits."""
    sides = max(arithmetic.source.itemsize, arithmetic.target.itemsize)
    return sides == 8 or bool(arithmetic.steps) and arithmetic.compute is ElementType.F64


def converted(codes, arithmetic, parameters=(), text=None):
    """The codes after a conversion.

    parameters    for each, an array of the type of the steps with a number for each code
    """
    word = np.dtype(np.uint64 if is_wide(arithmetic) else np.uint32)
    given = np.ascontiguousarray(codes).astype(word)
    found, operands = np.zeros_like(given), np.array([array.view(word) for array in parameters] or [[]], word)
    _kernel(text or text_of(), KERNELS[is_wide(arithmetic)])(
        1,
        1,
        (
            *(array.ctypes.data for array in (given, found, operands)),
            given.size,
            type_number(arithmetic.source),
            type_number(arithmetic.target),
            int(arithmetic.saturate),
            steps_number(arithmetic.steps),
        ),
    )
    return found.astype(arithmetic.target.carrier)


SCALE_AND_SHIFT = (Step("multiply", 0), Step("add", 1))
NORMALISE_BYTES = (Step("divide", 0), Step("subtract", 1), Step("divide", 2))
QUANTISE = (Step("divide", 0), Step("round"), Step("add", 1))
DEQUANTISE = (Step("subtract", 0), Step("multiply", 1))
FORMS = {
    "scale and shift": SCALE_AND_SHIFT,
    "normalise": NORMALISE_BYTES,
    "quantise": QUANTISE,
    "dequantise": DEQUANTISE,
}


def pairs_of(form):
    """The pairs of types that a form takes: each type of a side with a few of the other."""
    few = [ElementType(name) for name in ("u8", "s4", "s32", "u64", "f16", "f8e4m3fn", "f32", "f64")]
    sources, targets = TYPES, TYPES
    if form == "quantise":
        sources, targets = ([each for each in TYPES if each.is_floating], [each for each in TYPES if each.is_integral])
    if form == "dequantise":
        sources, targets = ([each for each in TYPES if each.is_integral], [each for each in TYPES if each.is_floating])
    if form == "normalise":
        sources = [ElementType.U8]
    return [
        (source, target) for source, target in itertools.product(sources, targets) if source in few or target in few
    ]


def arithmetic_of(form, source, target, saturate=True):
    return Arithmetic(source, target, saturate, FORMS[form], form)
