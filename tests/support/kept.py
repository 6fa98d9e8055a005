"""Forgets the plans that the library keeps between calls, for tests that change planning."""

from gpulayout.api import packing, relayout


def forget_transfers():
    """Every later call makes its plan anew."""
    for kept in (relayout.kept_plans, packing.kept_packs, packing.kept_unpacks):
        kept.clear()
