"""What Linux says of the caches of a machine."""

import pytest

from gpulayout.cpu.caches import DEFAULT, Caches, described_caches, machine_caches
from tests.support.processors import describe_caches

SERVER = Caches(48 << 10, 2 << 20, 64 << 20)
CONTROLLER = Caches(16 << 10, 256 << 10, 256 << 10)  # no third level


def test_caches_are_read_from_the_description_of_the_system(tmp_path):
    entries = [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "64M")]
    assert described_caches(describe_caches(tmp_path, entries)) == SERVER


def test_a_machine_without_a_third_level_copies_from_memory_what_the_second_does_not_hold(tmp_path):
    assert described_caches(describe_caches(tmp_path, [(1, "Data", "16K"), (2, "Unified", "256K")])) == CONTROLLER


@pytest.mark.parametrize(
    "entry",
    [
        (1, "Data", ""),
        (1, "Data", "many"),
        (1, "Instruction", "32K"),
        ("one", "Data", "32K"),
        (1, "Data", "0K"),
        (1, "Data", "-32K"),
        (4, "Unified", "1G"),
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
    assert all(size >= 1 << 10 for size in machine_caches())
