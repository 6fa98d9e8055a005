"""The benchmark of files measures what it says, with a small array and without a limit."""

import os
import pathlib

import pytest

from benchmarks import files_side

CACHES = pathlib.Path("/proc/sys/vm/drop_caches")


@pytest.mark.skipif(not os.access(CACHES, os.W_OK), reason="needs root, to empty the page cache")
def test_every_contender_is_timed_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(files_side.os, "sync", lambda: None)  # other programs may have much to write
    found = files_side.measured(tmp_path, 300, [0], 1)
    assert [each["name"] for each in found["results"]] == ["cp", "gpulayout", "gpulayout --scratch"]
    assert all(each["seconds"] > 0 and each["rounds"][0]["peak_resident"] > 0 for each in found["results"])
    assert len(files_side.table(found)) == 5 and os.listdir(tmp_path) == []
