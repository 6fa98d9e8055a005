"""The orders in which a GPU may do the work of several streams."""

import sys

RANDOM = range(1, 13)  # seeds


def orders(random=RANDOM):
    """For a loop: on the stand-in of ci/real_cupy the latest order, the earliest and random ones; on a GPU its own."""
    if "tests.support.standin.plugin" not in sys.modules:
        yield "the GPU's own"
        return
    from tests.support.standin import device

    try:
        for order in (0, -1, *random):
            device.set_order(order)
            yield order
    finally:
        device.set_order(0)
