"""The machine code of every kernel, executed on the CPU, writes the right bytes and stays inside its buffers.

`tests/support/sass` executes it, as NVRTC makes it for a device.  So what the compiler made of the text is tested too:
vector accesses and their alignment, divisions by multiplication, and loads that it moved or joined.
"""

import itertools

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from tests.support import bits_cases, lookup_cases, nvrtc
from tests.support.effort import ALL
from tests.support.index_cases import index_cases, tiled_index_cases
from tests.support.kernel_cases import FAMILIES, WIDTHS, cases
from tests.support.sass.launches import prepare, run, taken
from tests.support.sass.operands import Fault

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))
ARCHITECTURES = ("sm_90", *("sm_80", "sm_100") * ALL)


def some(found, architecture, number):
    """Up to three cases for sm_90 and one for the others, other ones for each number: each is a kernel to compile."""
    step = -(-len(found) // (3 if architecture == "sm_90" else 1))
    return found[(7 * number + len(architecture)) % step :: step]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("family", FAMILIES)
def test_moves_are_right(family, architecture):
    chosen = []
    for number, width in enumerate(WIDTHS):
        bits = 64 if (number + len(family)) % 3 == 0 else 32
        chosen += some(cases(width, (family,), bits), architecture, number)
    prepare([case.record() for case in chosen], architecture)
    for case in chosen:
        taken(case, architecture)  # compares the bytes


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_moves_are_right(architecture):
    found = [*itertools.chain(*(bits_cases.packed_cases(pair, 3) for pair in ((4, 4), (1, 8), (8, 2))))]
    found += [*bits_cases.turns(2), *bits_cases.odd_turns(4), *bits_cases.rows((4, 4))]
    for case in some(found, architecture, 0):
        assert run(case.record(), architecture).buffers[1] == case.expected.tobytes(), case


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_groups_and_runs_are_right(architecture):
    found = itertools.chain(*([*bits_cases.groups(pair)][::7] for pair in ((8, 4), (1, 8), (2, 2))))
    for case in [*found, *[*bits_cases.runs(4)][::5]]:
        assert run(case.record(), architecture).buffers[1] == case.expected.tobytes(), case


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_look_ups_are_right(architecture):
    for case in some([*lookup_cases.cases(lookup_cases.UNPACKED)], architecture, 1):
        assert run(case.record(), architecture).buffers[1] == case.expected.tobytes(), case


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_index_conversions_are_right(architecture):
    for case in some([*index_cases(), *tiled_index_cases()], architecture, 2):
        assert case.is_right(run(case.record(), architecture).buffers), case.direction


@pytest.mark.parametrize(
    "family, right, wrong, finding",
    [
        (
            "tile",
            "GPL_TURNS; ++k) {",
            "GPL_TURNS - 1; ++k) {",
            "wrong bytes",
        ),
        ("copy", "if (tail < move.total)", "if (tail <= move.total)", "outside the buffers"),
    ],
)
def test_a_broken_twin_is_caught(family, right, wrong, finding):
    found = cases(4, (family,))
    text = kernel_text(found[0].plan.file)
    assert right in text
    with pytest.raises((AssertionError, Fault), match=finding):
        for case in found:
            taken(case, text=text.replace(right, wrong))
