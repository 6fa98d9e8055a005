"""cuBLAS's geam through CuPy: a sum of two transposed matrices, the second times zero, is a transpose of 2-D f32 or
f64.
"""

from __future__ import annotations

import cupy
import cupy.cublas

from benchmarks.cases.case import Case
from benchmarks.peers.contender import Contender, in_turn


def geam(case: Case, pairs: list[tuple]) -> list[Contender]:
    """Warm by geam itself, fresh by `asfortranarray`, which calls geam for these two types."""
    if not (case.kind == "relayout" and case.order == (1, 0) and case.element_type in ("f32", "f64")):
        return []
    shaped = [(given, out.reshape(case.dimensions[::-1])) for given, out in pairs]
    return [
        Contender(
            "cupy.cublas.geam",
            "warm",
            in_turn(shaped, lambda given, out: cupy.cublas.geam("T", "T", 1.0, given, 0.0, given, out=out)),
        ),
        Contender("cupy.asfortranarray", "fresh", in_turn(shaped, lambda given, _: cupy.asfortranarray(given).T)),
    ]
