"""A folder in which permissions also bind tests that root runs."""

import contextlib
import os
import tempfile
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def unprivileged():
    """A new folder; inside the `with` block root becomes a user who owns nothing else."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        if root:
            os.chown(folder, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)
            os.chmod(folder, 0o700)
