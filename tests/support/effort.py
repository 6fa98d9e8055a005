"""How much the tests try: in a usual run some cases of the long tests, under `ci/test --all` all of them."""

import collections
import os
import zlib

import pytest


def asked(variable):
    """Whether this variable of the environment is 1.  Anything but 1, 0 and nothing is a mistake."""
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise pytest.UsageError(f"{variable} is {value!r}: it must be 1 or 0")
    return value == "1"


ALL = asked("GPULAYOUT_TEST_ALL")


def takes_all():
    """Whether this run takes all cases: under `ci/test --all`, and in every run that asks for every case."""
    return ALL or asked("GPULAYOUT_TEST_EVERY_CASE")


def examples(count):
    """How many random examples a test takes of so many: in a usual run two of five, the same in every run."""
    return count if takes_all() else -(-count * 2 // 5)


def left_out(items):
    """The items that a usual run leaves out: of a test marked `one_in(n)` all cases but one in n, on every executor.

    One case at least stays: of the five cases of a test marked one_in(3), two.
    """
    if takes_all():
        return []
    tests = collections.defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("one_in"):
            executor = [name for name in ("gpu", "simt", "standin") if item.get_closest_marker(name)]
            tests[item.nodeid.split("[")[0], tuple(executor), _share(item, marker)].append(item)
    return [item for (_, _, every), cases in tests.items() for item in _most_alike(cases, -(-len(cases) // every))]


def _most_alike(cases, count):
    """The cases less `count`, each of which has the most values of parameters that none before it has.

    Where several have as many, names decide by their checksum: the choice is the same in every process.
    """
    left = [(item, _values(item)) for item in sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))]
    seen = set()
    for _ in range(count):
        found = max(left, key=lambda pair: len(pair[1] - seen))
        left.remove(found)
        seen |= found[1]
    return [item for item, _ in left]


def _values(item):
    """The values of its parameters: words and numbers as they are, others by their place in the test's list."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return set()
    plain = {name: value for name, value in spec.params.items() if isinstance(value, (str, int))}
    return {*(spec.indices | plain).items()}


def _share(item, marker):
    """The n of one_in(n)."""
    if marker.kwargs or len(marker.args) != 1 or type(marker.args[0]) is not int or marker.args[0] < 2:
        given = ", ".join([*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())])
        raise pytest.UsageError(f"{item.nodeid} is marked one_in({given}): it takes one whole number, at least 2")
    return marker.args[0]
