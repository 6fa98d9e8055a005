"""The benchmarks change settings of the whole process: after a test they are as they were."""

import sys

import pytest


@pytest.fixture(autouse=True)
def jax_as_before():
    """JAX's 64-bit types, which the benchmarks turn on for as long as their process lives."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)
