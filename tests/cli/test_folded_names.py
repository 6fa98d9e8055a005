"""Names that differ only in their numbers, folded: a law against the names that a folded one means."""

import itertools
import re

import hypothesis
import hypothesis.strategies as st
import pytest

from gpulayout.cli.folded_names import MOST_NUMBERS, MOST_RUNS, folded, natural


def meant(name):
    """The names that a folded one means."""
    parts = re.split(r"\{([^{}]*)\}", name)
    sets = []
    for text in parts[1::2]:
        numbers = []
        for run in text.split(","):
            first, dots, last = run.partition("..")
            width = len(first) if first.startswith("0") else 0
            numbers += [str(each).zfill(width) for each in range(int(first), int(last) + 1)] if dots else [first]
        sets.append(numbers)
    texts = parts[::2]
    return ["".join(sum(zip(texts, (*chosen, "")), ())) for chosen in itertools.product(*sets)]


NUMBERS = st.sampled_from(["0", "1", "2", "3", "9", "10", "11", "007", "008", "00"])
NAMES = st.lists(
    st.tuples(st.sampled_from(["a", "b."]), NUMBERS, st.sampled_from(["", ".w", "x"]), NUMBERS), unique=True
)


@hypothesis.given(NAMES, st.sampled_from([1, 2]))
def test_folded_names_mean_every_name_once_and_are_of_one_kind(parts, kinds):
    names = {"".join(each): number % kinds for number, each in enumerate(parts)}
    found = folded(names.items())
    assert sorted(name for _, members in found for name in members) == sorted(names)
    for one, members in found:
        assert len({names[name] for name in members}) == 1
        if "..." not in one:
            assert sorted(meant(one)) == sorted(members)
        assert members == sorted(members, key=natural)


@pytest.mark.parametrize(
    "names, ones",
    [
        ([], []),
        (["w"], ["w"]),
        (["a.1", "b.1"], ["a.1", "b.1"]),
        ([f"l.{n}.w" for n in range(100)], ["l.{0..99}.w"]),
        ([f"l.{n}.e.{m}.w" for n in range(4) for m in range(8)], ["l.{0..3}.e.{0..7}.w"]),
        ([f"l.{n}.w" for n in (0, 1, 3)], ["l.{0,1,3}.w"]),
        ([f"m-{n:05}-of-00120" for n in range(1, 121)], ["m-{00001..00120}-of-00120"]),
        (["x9", "x10", "x11"], ["x{9..11}"]),
        (["x09", "x10", "x11"], ["x{09..11}"]),
        (["x9", "x010", "x11"], ["x{9,010,11}"]),
        ([f"x{2 * n}" for n in range(40)], [f"x{{{','.join(str(2 * n) for n in range(MOST_RUNS))},...}}"]),
        (["１", "２"], ["１", "２"]),  # digits, but not those that count layers
        ([f"x{'9' * 5000}", f"x1{'0' * 5000}"], [f"x{{{'9' * 5000},1{'0' * 5000}}}"]),
    ],
)
def test_what_is_folded(names, ones):
    assert [one for one, _ in folded((name, 0) for name in reversed(names))] == ones


def test_names_of_one_text_are_told_apart_by_what_else_they_are():
    names = [(f"x{2 * n}", n % 2) for n in range(40)] + [("{0,1}", 0), ("0", 5), ("1", 5)]
    found = folded(names)
    assert sum(len(members) for _, members in found) == len(names)
    assert [one for one, _ in found].count("{0,1}") == 2


def test_names_of_very_many_numbers_are_not_folded():
    long = ["1." * MOST_NUMBERS, "2." * MOST_NUMBERS]
    assert len(folded((f"{name}{last}", 0) for name in long for last in (1, 2))) == 4
    assert len(folded((name, 0) for name in ("1." * MOST_NUMBERS, "1." * (MOST_NUMBERS - 1) + "2."))) == 1


@hypothesis.given(st.lists(st.from_regex("[ab]{1,2}[0-9]{1,3}[ab]?", fullmatch=True)))
def test_layer_10_comes_after_layer_9(names):
    numbers = [
        [each if place % 2 == 0 else int(each) for place, each in enumerate(re.split("([0-9]+)", name))]
        for name in names
    ]
    assert [[*map(str, each)] for each in sorted(numbers)] == [
        [str(int(part)) if part.isdecimal() else part for part in re.split("([0-9]+)", name)]
        for name in sorted(names, key=natural)
    ]
