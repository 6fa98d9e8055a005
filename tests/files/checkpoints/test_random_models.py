"""Random models by random rules, against an independent model in NumPy, read by the format's own library."""

import numpy as np
import pytest

from gpulayout.files import route
from tests.support.effort import ALL
from tests.support.model_cases import case_of, problems
from tests.support.model_files import NEEDS_SAFETENSORS
from tests.support.random_models import random_families

pytestmark = NEEDS_SAFETENSORS


def smallest(folder, families, seed):
    """The fewest families that fail, and what is wrong with them."""
    found = _problems(folder, families, seed)
    for family in [*families]:
        fewer = [each for each in families if each is not family]
        if fewer and (still := _problems(folder, fewer, seed)):
            families, found = fewer, still
    return families, found


def _problems(folder, families, seed):
    place = folder / str(len([*folder.iterdir()]))
    place.mkdir()
    return problems(place, case_of(families, seed))


@pytest.mark.parametrize("seed", range(400 if ALL else 30))
def test_random_models_become_what_the_rules_say(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(route, "LEAST_RUN", 0)  # short runs are accepted: small blocks are part of the test
    families = random_families(np.random.default_rng([3, seed]))
    if _problems(tmp_path, families, seed):
        families, found = smallest(tmp_path, families, seed)
        pytest.fail("\n".join([f"seed {seed}", str(case_of(families, seed)), *found]))
