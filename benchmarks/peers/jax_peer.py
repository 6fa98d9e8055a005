"""JAX as a peer: XLA's compiled function.  It allocates its output, so it is compared with fresh contenders."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.cases.case import Case, MoveCase
from benchmarks.peers.contender import Contender, in_turn
from benchmarks.peers.words import pad_word, words


class JaxPeer:
    """`jax.jit` of a transpose, a slice or a pad.  XLA takes only dense inputs, so JAX sits out strided cases.

    Packed elements are XLA's own int4 between two bitcasts, so that bytes go in and bytes come out.
    """

    def __init__(self, jax: Any):
        self.jax = jax

    def __call__(self, case: Case, pairs: list[tuple]) -> list[Contender]:
        if not isinstance(case, MoveCase) or case.kind == "strided":
            return []
        items = [(words(self.jax.dlpack.from_dlpack, given),) for given, _ in pairs]
        work = self.jax.jit(
            lambda given: _packed(self.jax, case, given) if case.packed else _work(self.jax.numpy, case, given)
        )
        # JAX returns arrays that are still being computed, in order, on streams that it does not expose.
        return [Contender("jax.jit", "fresh", in_turn(items, work), wait=lambda output: output.block_until_ready())]


def _work(jnp: Any, case: MoveCase, given: Any) -> Any:
    if case.kind == "relayout":
        return jnp.transpose(given, case.order)
    if case.kind == "unpack":
        return given.reshape(case.widths)[tuple(slice(size) for size in case.dimensions)]
    margins = [(0, width - size) for size, width in zip(case.dimensions, case.widths)]
    return jnp.pad(given, margins, constant_values=pad_word(case))


def _packed(jax: Any, case: MoveCase, given: Any) -> Any:
    """XLA packs u4 with element 0 in the low bits, as E(4) does; bits have their own functions."""
    jnp, bitcast = jax.numpy, jax.lax.bitcast_convert_type
    if case.bits == 1:
        return (jnp.packbits if case.packed == "target" else jnp.unpackbits)(given, bitorder="little")
    if case.packed != "target":
        given = bitcast(given, jnp.uint4).reshape(-1)[: math.prod(case.dimensions)]
    if case.order:
        given = given.reshape(case.dimensions).transpose(case.order).reshape(-1)
    if case.packed == "source":
        return given.astype(jnp.uint8)
    given = jnp.pad(given.astype(jnp.uint4), (0, math.prod(case.dimensions) % 2))
    return bitcast(given.reshape(-1, 2), jnp.uint8)
