"""Machine codes that are disassembled together give the instructions that each gives alone."""

import dataclasses

import numpy as np
import pytest

from tests.support import nvrtc
from tests.support.sass import merge
from tests.support.sass.decode import decoded
from tests.support.sass.launches import sections

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))
# A loop, a call of the routine for divisions, shared memory with a barrier, and two kernels in one text.
BODIES = (
    ("for (int i = 0; i < n; ++i) to[i * n] += i ^ n;",),
    ("to[0] = to[1] / to[n];",),
    ("__shared__ long long part[64]; part[threadIdx.x] = n; __syncthreads(); to[n] = part[n];", "to[n] /= n + 1;"),
)


def machine_code(bodies, architecture):
    text = "".join(
        f'extern "C" __global__ void k{number}(long long* to, int n) {{ {body} }}\n'
        for number, body in enumerate(bodies)
    )
    return nvrtc.compiled(text, architecture, {}).cubin


def instructions(text, cubin, kernel):
    """Without the names of labels, which count through a file."""
    ((_, words),) = sections(cubin, rf"\.text\.{kernel}")
    found = decoded(text, kernel, words.view(np.uint32))
    return [dataclasses.replace(each, text="", operands=() if each.target else each.operands) for each in found]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120"))
def test_the_instructions_are_those_of_each_alone(architecture):
    cubins = [machine_code(bodies, architecture) for bodies in BODIES]
    together = merge.parted(nvrtc._disassembled(merge.joined(cubins)), len(cubins))
    opcodes = set()
    for cubin, part, bodies in zip(cubins, together, BODIES):
        alone = nvrtc.disassembled(cubin)
        for kernel in (f"k{number}" for number in range(len(bodies))):
            found = instructions(part, cubin, kernel)
            assert found == instructions(alone, cubin, kernel) and len(found) > 10
            opcodes |= {each.opcode for each in found if each.target is not None}
    assert {"CALL", "BRA"} <= opcodes
