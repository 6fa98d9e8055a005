"""The conversions of kernels/convert.cuh in machine code: one kernel for each, whose types and steps are constants.

`converted_by_code` executes them on arrays of codes; `instructions_of` counts what one more element takes.
"""

import functools
import math

import numpy as np

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves.arithmetic import steps_number, type_number
from tests.support import nvrtc
from tests.support.cast_kernels import is_wide
from tests.support.sass import launches
from tests.support.sass.machine import Launch, Memory

THREADS = 256
PLACES = 0x10000000000, 0x20000000000, 0x30000000000  # addresses of the codes, the results and the parameters
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}
# Neighbours are read and written as one word, as kernels/convert.cu does.
KERNEL = """
union Given{number} {{ {given_word} word; {given} code[{vector}]; }};
union Found{number} {{ {found_word} word; {found} code[{vector}]; }};
extern "C" __global__ void __launch_bounds__({threads}) convert_{number}(
    const Given{number}* __restrict__ source, Found{number}* __restrict__ target,
    const {real}* __restrict__ parameters) {{
  const unsigned first = (blockIdx.x * {threads} + threadIdx.x) * {chunks};
  const unsigned count = gridDim.x * {threads} * {chunks} * {vector};
  Given{number} given[{chunks}];
#pragma unroll
  for (int k = 0; k < {chunks}; ++k) given[k].word = source[first + k].word;
#pragma unroll
  for (int k = 0; k < {chunks}; ++k) {{
    Found{number} found;
#pragma unroll
    for (int e = 0; e < {vector}; ++e)
      found.code[e] = ({found})gpl_converted<{word}>(
          given[k].code[e], gpl_type({source}), gpl_type({target}), {saturate}, {steps},
          [&](unsigned number) {{ return parameters[{place}]; }});
    target[first + k].word = found.word;
  }}
  (void)count, (void)parameters;
}}
"""
OWN = "number * count + (first + k) * {vector} + e"  # one number for each element; "number": one for all


def _kernel(number, arithmetic, vector=1, chunks=1, place=OWN):
    given, found = arithmetic.source.itemsize, arithmetic.target.itemsize
    return KERNEL.format(
        number=number,
        vector=vector,
        chunks=chunks,
        threads=THREADS,
        given=WORDS[given],
        found=WORDS[found],
        given_word=WORDS[given * vector],
        found_word=WORDS[found * vector],
        word=WORDS[8 if is_wide(arithmetic) else 4],
        real="double" if is_wide(arithmetic) else "float",
        source=type_number(arithmetic.source),
        target=type_number(arithmetic.target),
        saturate=int(arithmetic.saturate),
        steps=steps_number(arithmetic.steps),
        place=place.format(vector=vector),
    )


@functools.cache
def compiled(arithmetics, architecture, text=None):
    """One piece of machine code with a kernel for each conversion."""
    functions = text or kernel_text("convert.cuh")
    kernels = [_kernel(number, arithmetic) for number, arithmetic in enumerate(arithmetics)]
    return nvrtc.compiled(functions + "".join(kernels), architecture, {})


def converted_by_code(arithmetics, number, codes, parameters=(), architecture="sm_90", text=None):
    """The codes after one of the conversions.

    parameters    for each, an array of the type of the steps with a number for each code
    """
    arithmetic, blocks = arithmetics[number], math.ceil(codes.size / THREADS)
    places = np.arange(blocks * THREADS) % codes.size  # the last block has threads to spare
    operands = np.array([np.asarray(array)[places] for array in parameters] or [[0]])
    cubin = compiled(tuple(arithmetics), architecture, text).cubin
    given = codes.astype(arithmetic.source.carrier)[places]
    found, _ = _launched(cubin, f"convert_{number}", architecture, given, arithmetic, operands, blocks)
    return found[: codes.size]


def _launched(cubin, kernel, architecture, given, arithmetic, operands, blocks):
    """(codes, counts)"""
    target = np.zeros(given.size, arithmetic.target.carrier)
    arrays = given, target, operands.astype(np.float64 if is_wide(arithmetic) else np.float32)
    memories = tuple(
        Memory(place, place + array.nbytes, _whole_words(array), array is target)
        for place, array in zip(PLACES, arrays)
    )
    literals = {int(name[1]): data for name, data in launches.sections(cubin, rf"\.nv\.constant([1-9])\.{kernel}")}
    parameters = np.array(PLACES, np.uint64).tobytes()
    launch = Launch(architecture, (blocks, 1, 1), THREADS, parameters, 0, memories, literals)
    counted = launches.executed(launch, launches.code(cubin, kernel))
    return memories[1].data[: target.nbytes].view(target.dtype), counted


def _whole_words(array):
    """The bytes of an array, and zeros up to a multiple of 16."""
    return np.concatenate([array.ravel().view(np.uint8), np.zeros(-array.nbytes % 16, np.uint8)])


def instructions_of(arithmetic, codes, parameters=(), architecture="sm_90", text=None, each_its_own=False):
    """Instructions that one more element of a thread takes, without loads and stores, on average over warps.

    parameters      a number for each parameter, for all elements
    each_its_own    load them for each element anew, as code does that cannot know that they are equal
    """
    vector, taken = 2 if is_wide(arithmetic) else 4, []
    for chunks in (1, 2):
        source = text or kernel_text("convert.cuh")
        source += _kernel(0, arithmetic, vector, chunks, OWN if each_its_own else "number")
        cubin = nvrtc.compiled(source, architecture, {}).cubin
        blocks = math.ceil(codes.size / THREADS)
        given = np.resize(codes.astype(arithmetic.source.carrier), blocks * THREADS * vector * chunks)
        operands = np.array([np.full(given.size if each_its_own else 1, value) for value in parameters] or [[0]])
        _, counted = _launched(cubin, "convert_0", architecture, given, arithmetic, operands, blocks)
        moves = counted.opcodes["LDG"] + counted.opcodes["STG"]
        taken.append((counted.issued - moves) / (blocks * THREADS // 32))
    return (taken[1] - taken[0]) / vector
