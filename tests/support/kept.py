"""Forgets the plans that the library keeps between calls, for tests that change planning."""

from gpulayout.api import convert_transfer, copies, packing, plan, transpose


def forget_transfers():
    """Every later call makes its plan anew."""
    kept_moves = plan.kept_plans, packing.kept_packs, packing.kept_unpacks, copies.kept_copies
    for kept in (*kept_moves, convert_transfer.kept_conversions):
        kept.clear()
    transpose.rearranged.cache_clear()
    transpose.latest.clear()
