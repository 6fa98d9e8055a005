"""What Linux says of the caches of a machine."""

import pytest

from gpulayout.cpu.caches import DEFAULT, Cache, Caches, described_caches, machine_caches
from tests.support.processors import describe_caches

SERVER = Caches(Cache(64, 12), Cache(2048, 16), Cache(65536, 16))  # 48 KB, 2 MB, 64 MB
CONTROLLER = Caches(Cache(64, 4), Cache(512, 8), Cache(512, 8))  # 16 KB, 256 KB, no third level


def test_caches_are_read_from_the_description_of_the_system(tmp_path):
    entries = [(1, "Data", "48K", 12), (1, "Instruction", "32K", 8), (2, "Unified", "2048K", 16)]
    assert described_caches(describe_caches(tmp_path, [*entries, (3, "Unified", "64M", 16)])) == SERVER
    assert SERVER.first.nbytes == 48 << 10 and SERVER.third.nbytes == 64 << 20


def test_a_machine_without_a_third_level_copies_from_memory_what_the_second_does_not_hold(tmp_path):
    assert described_caches(describe_caches(tmp_path, [(1, "Data", "16K", 4), (2, "Unified", "256K", 8)])) == CONTROLLER


def test_a_fully_associative_cache_is_one_set(tmp_path):
    assert described_caches(describe_caches(tmp_path, [(1, "Data", "32K", 0)])).first == Cache(1, 512)


@pytest.mark.parametrize(
    "entry",
    [
        (1, "Data", "", 8),
        (1, "Data", "many", 8),
        (1, "Data", "32K", "none"),
        ("one", "Data", "32K", 8),
        (1, "Data", "0K", 8),
        (1, "Data", "32K", -8),
        (1, "Data", "1K", 64),
        (4, "Unified", "1G", 16),
    ],
)
def test_what_the_system_does_not_say_is_that_of_a_common_server(tmp_path, entry):
    assert described_caches(tmp_path) == DEFAULT == described_caches(tmp_path / "absent")
    assert described_caches(describe_caches(tmp_path, [entry])) == DEFAULT


def test_half_a_description_is_no_error(tmp_path):
    (tmp_path / "index0").mkdir()
    (tmp_path / "index0" / "level").write_text("1")
    assert described_caches(tmp_path) == DEFAULT


@pytest.mark.machine
def test_this_machine_has_caches():
    assert all(cache.sets > 0 and cache.ways > 0 for cache in machine_caches())
