"""Faults that the stand-in must catch, beside their correct forms; without its check, the stand-in must miss them."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.standin import faults, libraries
from tests.support.standin.twins import EAGER, TWINS
from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.standin


def outcomes(*arguments):
    """What `python -m tests.support.standin.faults` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.standin.faults", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_fault_is_caught_and_its_correct_form_is_right():
    assert outcomes() == {name: ["right", twin.outcome] for name, twin in TWINS.items()}


@pytest.mark.parametrize("name", TWINS)
def test_a_fault_is_missed_without_its_check(name):
    assert outcomes(name) == TWINS[name].outcome_on_twin != TWINS[name].outcome


def test_every_program_has_a_twin():
    assert set(faults.PROGRAMS) == set(TWINS)


def test_every_replacement_has_its_line():
    """Otherwise the twin without its check, which `ci/real_cupy` builds, but not with --quick, would be refused."""
    for name, twin in TWINS.items():
        file, line, _ = twin.replacement
        assert (libraries.DRIVER / file).read_text().count(line) == 1, name


def test_a_replacement_whose_line_is_gone_is_refused():
    file, line, other = EAGER
    with pytest.raises(ValueError, match=r"^work.cpp has .* 0 times$"):
        libraries.build((), [(file, line + "gone", other)])
