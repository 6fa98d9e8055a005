"""The libraries this one is measured beside, and in which order their figures are taken.

A peer is a function of a case and its buffers that gives contenders; it gives none where it does not know the work.  Peers that
compile something for every case come in later stages, so that a run that is short of time leaves them out, and no row.
"""
from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases import Case, MoveCase
from benchmarks.contender import Contender, reason_of

WORDS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}       # widths every peer has a type for
OPTIONAL = {"nvmath": "nvmath-python, whose strided copy is of the same kind", "cutensor": "cuTENSOR's permutations"}

Peer = Callable[[Case, list[tuple]], list[Contender]]


class Stage(NamedTuple):
    """Peers that are measured together with ours; `name` names them."""

    name: str
    peers: tuple[Peer, ...] = ()


def words(convert: Callable, array: Any) -> Any:
    """A CuPy array as a peer's, over the same memory, its elements as words of their width."""
    return convert(array.view(np.dtype(WORDS[array.dtype.itemsize])))


def as_matrices(case: Case) -> tuple[int, int, int] | None:
    """(batch, rows, columns) where a relayout transposes the matrices of a batch, else None.

    NCHW to NHWC has the order 0 2 3 1: N matrices of C rows and H * W columns.
    """
    if not isinstance(case, MoveCase) or case.kind != "relayout" or not case.order:
        return None
    rank, order = len(case.order), case.order
    same = next((k for k in range(rank) if order[k] != k), rank)
    if same == rank:
        return None
    middle = order[same]
    if order[same:] != (*range(middle, rank), *range(same, middle)):
        return None
    return tuple(math.prod(case.dimensions[part]) for part in (slice(same), slice(same, middle), slice(middle, rank)))


def load(torch: Any, jax: Any, missing: dict[str, str]) -> list[Stage]:
    """All stages; `missing` gets a line for everything that is not there.

    torch, jax   the modules, or None
    """
    first = _if_it_loads("cupy.cublas", _geam, missing)
    compiled: list[Stage] = []
    if jax is not None:
        from benchmarks.peers_jax import JaxPeer
        compiled.append(Stage("jax", (JaxPeer(jax),)))
    if torch is not None:
        from benchmarks.peers_torch import CompiledTorch, EagerTorch
        first.append(EagerTorch(torch))
        compiled += [Stage("triton", (peer,)) for peer in _if_it_loads("triton", lambda: _triton(torch), missing)]
        compiled.append(Stage("torch.compile", (CompiledTorch(torch),)))
    for name, what in OPTIONAL.items():
        missing[name] = f"{what}: " + ("installed, but no contender is written for it" if importlib.util.find_spec(name) else "not installed")
    return [Stage("cupy and torch eager", tuple(first)), *compiled]


def optional(name: str, missing: dict[str, str]) -> Any:
    """A module, or None with a line in `missing` when it is not installed or finds no GPU."""
    try:
        module = importlib.import_module(name)
        usable = module.cuda.is_available() if name == "torch" else any(d.platform == "gpu" for d in module.devices())
    except Exception as error:       # a peer that cannot start is a peer that is not there
        missing[name] = reason_of(error)
        return None
    if not usable:
        missing[name] = "finds no GPU"
    return module if usable else None


def _if_it_loads(name: str, make: Callable[[], Peer], missing: dict[str, str]) -> list[Peer]:
    try:
        return [make()]
    except Exception as error:       # broken installations fail in any way they like
        missing[name] = reason_of(error)
        return []


def _geam() -> Peer:
    from benchmarks.peers_geam import geam
    return geam


def _triton(torch: Any) -> Peer:
    from benchmarks.peers_triton import TritonPeer
    return TritonPeer(torch)
