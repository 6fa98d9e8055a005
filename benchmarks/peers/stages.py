"""The libraries that this one is compared with, and the order in which their figures are taken.

Peers that compile something for every case come in later stages, so that a run short of time leaves them out and keeps
its rows.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

from benchmarks.peers.contender import Peer, reason_of

OPTIONAL = {"nvmath": "nvmath-python, whose strided copy is of the same kind", "cutensor": "cuTENSOR's permutations"}


class Stage(NamedTuple):
    """Peers that are measured together with ours; `name` names them.

    converters   the peers of conversions
    """

    name: str
    peers: tuple[Peer, ...] = ()
    converters: tuple[Peer, ...] = ()


def load(torch: Any, jax: Any, missing: dict[str, str]) -> list[Stage]:
    """All stages; `missing` gets a line for every library that is missing.

    torch, jax   the modules, or None
    """
    first: list[Peer] = []
    converters: list[Peer] = []
    compiled: list[Stage] = []
    try:
        from benchmarks.peers.geam import geam

        first.append(geam)
    except Exception as error:  # broken installations fail in many ways
        missing["cupy.cublas"] = reason_of(error)
    if jax is not None:
        from benchmarks.peers.jax_peer import JaxPeer

        compiled.append(Stage("jax", (JaxPeer(jax),)))
    if torch is not None:
        from benchmarks.peers.convert_torch import CompiledConversion, EagerConversion
        from benchmarks.peers.torch_peer import CompiledTorch, EagerTorch

        first.append(EagerTorch(torch))
        converters.append(EagerConversion(torch))
        try:
            from benchmarks.peers.triton_peer import TritonPeer

            compiled.append(Stage("triton", (TritonPeer(torch),)))
        except Exception as error:
            missing["triton"] = reason_of(error)
        compiled.append(Stage("torch.compile", (CompiledTorch(torch),), (CompiledConversion(torch),)))
    for name, what in OPTIONAL.items():
        missing[name] = f"{what}: " + (
            "installed, but no contender is written for it" if importlib.util.find_spec(name) else "not installed"
        )
    converters += images(missing)
    return [Stage("cupy and torch eager", tuple(first), tuple(converters)), *compiled]


def images(missing: dict[str, str]) -> list[Peer]:
    """CV-CUDA and DALI, which convert images."""
    cvcuda = optional("cvcuda", missing)
    dali = optional("nvidia.dali.fn", missing) and optional("nvidia.dali", missing)
    if cvcuda is None and dali is None:
        return []
    import cupy

    from benchmarks.peers.convert_images import CvCuda, Dali

    return [peer(module, cupy) for peer, module in ((CvCuda, cvcuda), (Dali, dali)) if module is not None]


def optional(name: str, missing: dict[str, str]) -> Any:
    """A module, or None and a line in `missing`."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing[name] = reason_of(error)
        return None


def on_gpu(name: str, missing: dict[str, str]) -> Any:
    """PyTorch or JAX if it finds a GPU, or None and a line in `missing`."""
    module = optional(name, missing)
    try:
        usable = module and (
            module.cuda.is_available() if name == "torch" else any(d.platform == "gpu" for d in module.devices())
        )
    except Exception as error:  # a peer that cannot start counts as missing
        missing[name] = reason_of(error)
        return None
    if module and not usable:
        missing[name] = "finds no GPU"
    return module if usable else None
