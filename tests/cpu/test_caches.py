"""The planner follows the caches of the machine: what Linux says of them, and plans on three made-up machines."""

import pytest

import gpulayout as gl
from gpulayout.cpu import cache_blocks
from gpulayout.cpu.caches import DEFAULT, Cache, Caches, described_caches, machine_caches
from gpulayout.cpu.strided_plan import strided_plan_of
from tests.support.processors import describe_caches

LAPTOP = Caches(Cache(64, 8), Cache(512, 8), Cache(4096, 12))  # 32 KB, 256 KB, 3 MB
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


def plan_on(caches, monkeypatch, text, order):
    monkeypatch.setattr(cache_blocks, "machine_caches", lambda: caches)
    source = gl.parse_shape(text)
    move = gl.plan(source, source.with_layout(gl.Layout.from_major_to_minor(order))).move
    plan = strided_plan_of(move)
    return "scratch" if plan.scratch else "blocks" if plan.cache_block else "whole"


@pytest.mark.parametrize(
    ("text", "order", "laptop", "server", "controller"),
    [
        # the same on all: rows a power of two apart, contiguous rows, a few channels
        ("f32[4096,4096]", (1, 0), "scratch", "scratch", "scratch"),
        ("f32[1000,2000,300]", (1, 0, 2), "whole", "whole", "whole"),
        ("f32[3,1000000]", (1, 0), "blocks", "blocks", "blocks"),
        # 256 rows 1024 bytes apart fall into 4 sets: of 8, 12 and 4 ways
        ("f32[256,256]", (1, 0), "scratch", "blocks", "scratch"),
        # 300 lines fit 32 KB, and 400 KB fit a cache of 2 MB alone
        ("f32[300,400]", (1, 0), "whole", "whole", "blocks"),
        ("f32[700,700]", (1, 0), "scratch", "whole", "scratch"),
        # images of 320 KB, transposed one by one
        ("u8[20,640,500]", (0, 2, 1), "scratch", "whole", "scratch"),
    ],
)
def test_plans_follow_the_caches_of_three_machines(text, order, laptop, server, controller, monkeypatch):
    found = [plan_on(caches, monkeypatch, text, order) for caches in (LAPTOP, SERVER, CONTROLLER)]
    assert found == [laptop, server, controller]
