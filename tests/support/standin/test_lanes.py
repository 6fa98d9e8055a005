"""Streams with a wait left out: each is wrong in some order of work, as tests/gpu/test_lanes.py finds."""

import contextlib

import pytest

from gpulayout.choices import backends
from tests.gpu.test_lanes import DIRECTIONS, unfinished, wrong_results
from tests.support.device_arrays import on_gpu_alone

pytestmark = pytest.mark.standin
SEEDS = range(1, 41)
ALL, ON_DEVICE = DIRECTIONS, ("up", "down")


def no_wait_for_a_lane(lane, patch):
    """Page-locked memory is used again, results are read, and the call returns before copies and launches are done."""
    patch(lane, "wait", lambda self: None)


def no_wait_for_the_callers_stream(lane, patch):
    """The source on the device is not yet written, and the target is still read."""
    patch(lane, "__enter__", lambda self: self)


def launches_in_the_callers_stream(lane, patch):
    """Kernels do not wait for copies, nor copies for kernels."""
    patch(lane, "running", lambda self: contextlib.nullcontext())


def uploads_in_the_callers_stream(lane, patch):
    """Kernels do not wait for copies, and page-locked memory is used again before it is copied."""
    upload = lane.upload

    def elsewhere(self, places):
        own, self._stream = self._stream, backends.gpu_module().current_stream()
        upload(self, places)
        self._stream = own

    patch(lane, "upload", elsewhere)


def downloads_in_the_callers_stream(lane, patch):
    """Copies do not wait for kernels, and results are read before they have come down."""
    download = lane.download

    def elsewhere(self, places):
        own, self._stream = self._stream, backends.gpu_module().current_stream()
        download(self, places)
        self._stream = own

    patch(lane, "download", elsewhere)


def no_wait_at_the_end(lane, patch):
    patch(lane, "__exit__", lambda self, *error: None)


def any_order(found):
    """Whether there is one; the first is enough."""
    with contextlib.closing(found):
        return next(found, None) is not None


TWINS = [
    *[(no_wait_for_a_lane, direction) for direction in ALL],
    *[(no_wait_for_the_callers_stream, direction) for direction in ON_DEVICE],
    *[(launches_in_the_callers_stream, direction) for direction in ALL],
    *[(uploads_in_the_callers_stream, direction) for direction in ("up", "through")],
    *[(downloads_in_the_callers_stream, direction) for direction in ("down", "through")],
]


@on_gpu_alone
@pytest.mark.parametrize("twin, direction", TWINS)
def test_a_stream_without_a_wait_is_wrong_in_some_order(cp, twin, direction, monkeypatch):
    twin(backends.gpu_module().CupyLane, monkeypatch.setattr)
    assert any_order(wrong_results(cp, direction, SEEDS))


@on_gpu_alone
def test_without_the_wait_at_the_end_an_error_leaves_launches_under_way(cp, monkeypatch):
    no_wait_at_the_end(backends.gpu_module().CupyLane, monkeypatch.setattr)
    assert any_order(unfinished(cp, "up", random=SEEDS))
