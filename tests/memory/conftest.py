"""Tests that collect garbage visit only what they made."""

import gc

import pytest


@pytest.fixture(autouse=True)
def quick_collections():
    """What was there before is not visited: with PyTorch and JAX that takes a second."""
    gc.freeze()
