"""Names that differ only in their numbers, written as one: layers.{0..31}.up.weight.

A model has thousands of tensors, and most of them stand in layers that are alike.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

MOST_NUMBERS = 8  # in a name that is folded: each one is looked at for every name
MOST_RUNS = 8  # of numbers that are written in one place
MOST_DIGITS = 18  # of a number that is counted on
Places = tuple[tuple[str, ...], ...]  # the numbers in each place of a name

_NUMBER = re.compile("([0-9]+)")


def natural(name: str) -> tuple[str | tuple[int, str], ...]:
    """What sorts names so that layer 10 comes after layer 9.

    >>> sorted(["b10", "b9", "a10", "b"], key=natural)
    ['a10', 'b', 'b9', 'b10']
    """
    return tuple(_size(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(name)))


def _size(digits: str) -> tuple[int, str]:
    """What compares digits as numbers, however many they are."""
    shown = digits.lstrip("0")
    return len(shown), shown


def folded(names: Iterable[tuple[str, Hashable]]) -> list[tuple[str, list[str]]]:
    """Names, each with what must be equal in all that become one: each such name, and those that it stands for.

    One name stands for exactly the names that its numbers make, so a name that is missing in a layer is seen.

    >>> folded([("b.0.w", 1), ("b.1.w", 1), ("b.2.w", 1), ("b.3.w", 2), ("w", 1)])
    [('b.{0..2}.w', ['b.0.w', 'b.1.w', 'b.2.w']), ('b.3.w', ['b.3.w']), ('w', ['w'])]
    >>> names = [f"{layer}.{expert}" for layer in (0, 1, 2) for expert in range(8 - 4 * (layer == 1))]
    >>> [one for one, _ in folded((name, "F32[2]") for name in names)]
    ['{0,2}.{0..7}', '1.{0..3}']
    """
    alike: dict[tuple[Hashable, ...], list[tuple[str, list[str]]]] = {}
    for name, what in names:
        parts = _NUMBER.split(name)
        too_many = len(parts) > 2 * MOST_NUMBERS + 1
        alike.setdefault((name if too_many else tuple(parts[::2]), what), []).append((name, [] if too_many else parts))
    found = []
    for some in alike.values():
        texts = some[0][1][::2]
        for numbers, members in _products(some).items():
            members.sort(key=natural)
            one = "".join(f"{text}{_numbers(each)}" for text, each in zip(texts, [*numbers, ()]))
            found.append((one if len(members) > 1 else members[0], members))
    return sorted(found, key=lambda each: natural(each[1][0]))


def _products(some: Sequence[tuple[str, list[str]]]) -> dict[Places, list[str]]:
    """Names that differ in numbers alone, by the numbers whose combinations they are; the last are joined first."""
    rows: dict[Places, list[str]] = {tuple((digits,) for digits in parts[1::2]): [name] for name, parts in some}
    for place in reversed(range(len(some[0][1]) // 2)):
        joined: dict[Places, list[tuple[str, list[str]]]] = {}
        for numbers, members in rows.items():
            joined.setdefault((*numbers[:place], *numbers[place + 1 :]), []).append((numbers[place][0], members))
        rows = {}
        for others, each in joined.items():
            own = tuple(sorted((digits for digits, _ in each), key=lambda digits: (_size(digits), digits)))
            rows[(*others[:place], own, *others[place:])] = [name for _, members in each for name in members]
    return rows


def _numbers(values: Sequence[str]) -> str:
    """Sorted numbers as a part of a name: 7, or {0..31}, or {0,2,4}; only the first of very many runs.

    >>> _numbers(["7"]), _numbers(["1", "2", "3", "5", "8", "9"]), _numbers(["009", "010", "011"])
    ('7', '{1..3,5,8,9}', '{009..011}')
    """
    if len(values) < 2:
        return "".join(values)
    runs: list[list[str]] = []
    for each in values:
        if runs and _follows(runs[-1][-1], each):
            runs[-1].append(each)
        else:
            runs.append([each])
    texts = [f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs]
    return f"{{{','.join([*texts[:MOST_RUNS], *['...'] * (len(texts) > MOST_RUNS)])}}}"


def _follows(before: str, digits: str) -> bool:
    """True for the number after another one, written in the same way: 10 after 9, and 010 after 009."""
    if max(len(before), len(digits)) > MOST_DIGITS:
        return False
    width = len(before) if before.startswith("0") or len(before) == len(digits) else 0
    return digits == str(int(before) + 1).rjust(width, "0")
