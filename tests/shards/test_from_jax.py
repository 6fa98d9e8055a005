"""Boxes by JAX's shardings: the shards of real arrays on eight devices are the judge."""

import os
import re
import subprocess
import sys

import pytest

import gpulayout as gl
from tests.support import effort

pytest.importorskip("jax")

REFUSED = [
    r"sharding P('x',) cuts dimension 0 of f32[7,4]{1,0} into 2 equal parts, which do not divide 7: JAX has no uneven",
    r"sharding P(('x', 'y'),) cuts dimension 0 of f32[12,4]{1,0} into 8 equal parts, which do not divide 12: JAX",
    r"sharding P(None, 'x') has 2 entries, one for each dimension: f32[4]{0} has 1",
    r"sharding P(unreduced={'y'}) of f32[4]{0} is unreduced along ('y',), whose numbers are still to be summed",
    r"sharding P('x',) has an abstract mesh: ranks are devices, take a jax.sharding.Mesh",
    r"sharding is an ArrayImpl, not a jax.sharding.Sharding: pass its .sharding",
    r"sharding is a P, not a jax.sharding.Sharding: gl.Sharding.by_mesh takes a mesh and a spec",
]


def test_shardings_of_arrays_on_eight_devices():
    command = [sys.executable, "-m", "tests.support.jax_shards", str(effort.examples(250))]
    found = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert len(lines) == len(REFUSED)
    for line, beginning in zip(lines, REFUSED):
        assert line.replace(" PartitionSpec", " P").startswith(beginning)  # which releases before 0.9 print


class Device:
    """A sharding of a release to come."""

    def devices_indices_map(self, sizes):
        raise AssertionError("the tiles\ndo not fit")


def test_what_jax_refuses_is_one_line():
    with pytest.raises(gl.LayoutError, match=re.escape("does not fit f32[4]{0}, JAX says: the tiles do not fit")):
        gl.Sharding.from_jax_sharding(Device(), "f32[4]")
