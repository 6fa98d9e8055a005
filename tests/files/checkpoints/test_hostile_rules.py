"""Rules, headers and indices with faults: a result, or one line that says what is wrong, and nothing else."""

import sys

import numpy as np
import pytest

from tests.support.effort import ALL
from tests.support.model_cases import case_of, rule_text
from tests.support.model_files import NEEDS_SAFETENSORS
from tests.support.random_models import random_families

pytestmark = NEEDS_SAFETENSORS
if not sys.platform.startswith("linux"):
    pytest.skip("limits of Linux", allow_module_level=True)

from tests.support.mutated_models import shown, with_wrong_files, with_wrong_rules  # noqa: E402

CASES, EACH = (500, 80) if ALL else (30, 40)
OTHERS = [
    rule_text(rule)
    for seed in range(30)
    for family in random_families(np.random.default_rng([3, seed]))
    for rule in family.rules.values()
]


def check(problems, case):
    found = [shown(problem, what, case) for what, problem in problems]
    assert not found, "\n\n".join([f"{len(found)} problems", *found[:5]])


@pytest.mark.parametrize("seed", range(CASES))
def test_wrong_rules_end_with_one_line_or_with_what_they_say(tmp_path, seed):
    random = np.random.default_rng([13, seed])
    families = [family for family in random_families(random)[:3] if family.rules]
    if families:
        case = case_of(families, seed)
        check(with_wrong_rules(tmp_path, case, OTHERS, random, EACH), case)


@pytest.mark.parametrize("seed", range(CASES // 4))
def test_wrong_files_end_with_one_line_or_with_what_the_rules_say(tmp_path, seed):
    random = np.random.default_rng([17, seed])
    case = case_of(random_families(random)[:3], seed)
    check(with_wrong_files(tmp_path, case, random, EACH), case)
