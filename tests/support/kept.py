"""Forgets the plans that the library keeps between calls, for tests that change planning."""

from gpulayout.api import copies, packing, plan, transpose


def forget_transfers():
    """Every later call makes its plan anew."""
    for kept in (plan.kept_plans, packing.kept_packs, packing.kept_unpacks, copies.kept_copies):
        kept.clear()
    transpose.rearranged.cache_clear()
