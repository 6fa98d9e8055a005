"""Amounts of memory: as text, and what is free by the system and by control groups."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files import memory

M = 1 << 20


@pytest.mark.parametrize(
    "text, nbytes",
    [("1", 1), ("512M", 512 * M), ("512MiB", 512 * M), ("512 mb", 512 * M), ("2G", 2 << 30), ("3k", 3072), (7, 7)]
    + [("0.5G", 512 * M), ("1.5GiB", 1536 * M), (".25 M", M // 4), ("1.000M", M), ("0.001K", 1), ("0.3K", 307)]
    + [("16777216.000000000000000001T", 1 << 64), ("9" * 18 + "T", (10**18 - 1) << 40)],
)
def test_units_are_powers_of_1024(text, nbytes):
    assert memory.as_bytes(text) == nbytes


NO_SIZES = "M 0 -1M +1M 1.5 512X 1e9 nan infG 1e400 1e400G 0.0000001K 0.0G 1. 1.M . .G 1.5.5G 1,5G 1_000M 0x10M 1/2G M1"
OTHER_DIGITS = ["\uff15\uff11\uff12M", "\u0661M", "\u00bdG"]
LONG = ["1" * 19, "9" * 100_000 + "M", "0." + "0" * 100_000 + "1G", " " * 100_000 + "x", "1" + " " * 100_000 + "x"]


@pytest.mark.parametrize(
    "text", [*NO_SIZES.split(), *OTHER_DIGITS, *LONG, "", "1M\0", "1 M B", "1\n\n.5M", 0, -1], ids=range(37)
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match=r"(?s)^max_bytes .* is not a number of bytes such as 128M or 1.5G$"):
        memory.as_bytes(text)
    try:
        memory.as_bytes(text)
    except ValueError as error:
        assert len(str(error)) < 200


@pytest.mark.parametrize("number", [1e9, math.nan, math.inf, Fraction(3, 2), None, b"1M", [1]])
def test_what_is_neither_a_whole_number_nor_text_is_not_a_number_of_bytes(number):
    with pytest.raises(gl.LayoutTypeError, match="max_bytes"):
        memory.as_bytes(number)


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1), st.sampled_from("KMGT"))
def test_a_decimal_fraction_is_exact_and_parts_of_a_byte_are_left_off(whole, parts, unit):
    found = whole * memory.UNITS[unit] + parts * memory.UNITS[unit] // 10**18
    if found:
        assert memory.as_bytes(f"{whole}.{parts:018}{unit}iB") == found


def test_blocks_leave_memory_for_the_rest_and_get_at_most_a_gigabyte(monkeypatch):
    assert memory.block_limit("512M") == 384 * M
    assert memory.block_limit("64G") == 1 << 30
    assert [memory.block_limit(f"{given}M") // M for given in (32, 80, 96, 128, 256)] == [8, 20, 32, 64, 192]
    monkeypatch.setattr(memory, "free_memory", lambda: 800 * M)
    assert memory.block_limit(None) == 136 * M


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Files like those of a system with 1000 MB available, to which a test adds control groups."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {1000 * 1024} kB\n")
    for name, file in (("MEMINFO", "meminfo"), ("OWN_GROUPS", "own"), ("GROUPS", "groups")):
        monkeypatch.setattr(memory, name, tmp_path / file)

    def group(path, files):
        folder = tmp_path / "groups" / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")

    group.own = lambda text: (tmp_path / "own").write_text(text)
    return group


def test_without_control_groups_all_that_is_available_counts(system):
    assert memory.free_memory() == 1000 * M


def test_the_limit_of_a_group_of_version_2_counts_and_its_page_cache_does_not(system):
    system.own("0::/a/b\n")
    system("a/b", {"memory.max": "max", "memory.current": 5, "memory.stat": "inactive_file 1"})
    system("a", {"memory.max": 300 * M, "memory.current": 120 * M, "memory.stat": f"file 1\ninactive_file {20 * M}"})
    assert memory.free_memory() == 200 * M


def test_the_limit_of_a_group_of_version_1(system):
    system.own("5:cpu:/x\n4:memory:/a\n")
    used = {"memory.usage_in_bytes": 200 * M, "memory.stat": f"total_inactive_file {150 * M}"}
    system("memory/a", {"memory.limit_in_bytes": 512 * M, **used})
    assert memory.free_memory() == 462 * M


def test_a_system_that_says_nothing_has_a_gigabyte(tmp_path, monkeypatch):
    for name in ("MEMINFO", "OWN_GROUPS", "GROUPS"):
        monkeypatch.setattr(memory, name, tmp_path / "none")
    assert memory.free_memory() == 1 << 30
