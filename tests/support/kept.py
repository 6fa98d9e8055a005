"""Forgets what the library keeps between calls, for tests that change planning."""

from gpulayout.plans import plan
from gpulayout.running import array_calls, request, running


def forget_transfers():
    """Every later call is read and planned anew."""
    for kept in (plan.kept_plans, request.kept_requests, running.kept_calls, array_calls.kept_targets):
        kept.clear()
    running.latest.clear()
