"""How much the tests try: in a usual run some cases of the long tests, under `ci/test --all` all of them."""

import collections
import os
import zlib

ALL = os.environ.get("GPULAYOUT_TEST_ALL") == "1"


def left_out(items):
    """The items that a usual run leaves out: of a test marked `one_in(n)` all cases but one in n, on every executor.

    Names decide by their checksum, so the choice is the same in every process, and no parameter's values go in step
    with it.  One case at least stays: of the five cases of a test marked one_in(3), two.
    """
    if ALL or os.environ.get("GPULAYOUT_TEST_EVERY_CASE") == "1":
        return []
    tests = collections.defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("one_in"):
            executor = [name for name in ("gpu", "simt", "standin") if item.get_closest_marker(name)]
            tests[item.nodeid.split("[")[0], tuple(executor), marker.args[0]].append(item)
    return [
        item
        for (_, _, every), cases in tests.items()
        for item in sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))[-(-len(cases) // every) :]
    ]
