"""The table of all figures."""
from benchmarks.contender import OURS
from benchmarks.report import table


def record_of(name, family):
    run = {"contender": OURS, "output": "warm", "gb_per_s": 12.34, "fraction_of_copy": 0.5}
    return {"case": name, "family": family, "bytes_moved": 10**6, "runs": [run]}


def test_columns_are_as_wide_as_what_they_hold():
    """Also where a name is longer than any case has today."""
    small = [{"case": "f32 16x16", "bytes_moved": 1024,
              "runs": [{"contender": name, "best_us": 1.5, "over_peer_us": 0.25} for name in ("np.copyto", "a peer " * 12)]}]
    lines = table([record_of("f32", "copy"), record_of("f32 " + "4096x" * 20, "channels")], small, quick=True).split("\n")
    header, *rows = lines[:3]
    assert all([k for k, c in enumerate(row) if c == "|"] == [k for k, c in enumerate(header) if c == "|"] for row in rows)
    assert all(row.index("12.34") + 5 == header.index("warm GB/s") + 9 for row in rows)
    head, _, *calls = lines[4:]
    assert {call.index(" 1.50") + 5 for call in calls} == {head.index("best") + 4} and {*map(len, calls)} == {len(head)}
