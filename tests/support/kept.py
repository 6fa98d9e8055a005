"""What the library keeps between calls, for tests that change what plans are made of."""

from gpulayout.api import packing, relayout


def forget_transfers():
    """Every plan is made anew from here on."""
    for kept in (relayout.kept_plans, packing.kept_packs, packing.kept_unpacks):
        kept.clear()
