"""PyTorch as a peer of conversions: eager, and compiled by torch.compile for the case's own sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases.convert import DEQUANTISE, NORMALISE, QUANTISE, SCALE, ConvertCase
from benchmarks.peers.contender import Contender, in_turn
from benchmarks.peers.convert import HIGHEST, LOWEST, MAY_FUSE, operands, split
from benchmarks.peers.words import WORDS

TORCH_NAMES = {"u8": "uint8", "s8": "int8", "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
TORCH_NAMES["f8e4m3fn"] = "float8_e4m3fn"


class EagerConversion:
    """What people write: a chain of calls, and the same in place where the output is f32."""

    def __init__(self, torch: Any):
        self.torch = torch

    def __call__(self, case: ConvertCase, pairs: list[tuple]) -> list[Contender]:
        chain = _chain(self.torch, case)
        name, work = _in_place(case, chain)
        return [
            self._contender(case, pairs, f"torch {name}", "warm", work),
            self._contender(case, pairs, "torch chain", "fresh", lambda given, out, more: chain(given, *more)),
        ]

    def _contender(
        self,
        case: ConvertCase,
        pairs: list[tuple],
        name: str,
        output: str,
        work: Callable[..., Any],
        rounding: str = "",
    ) -> Contender:
        """A way by a function of the source, the target and the operands, which returns the result."""
        call = in_turn(_tensors(self.torch, case, pairs), lambda *given: _words(self.torch, work(*given)))
        return Contender(name, output, call, rounding=rounding)


class CompiledConversion(EagerConversion):
    """The chain compiled, into existing memory and into new memory."""

    def __call__(self, case: ConvertCase, pairs: list[tuple]) -> list[Contender]:
        self.torch._dynamo.reset()  # else it would run the chain eagerly after a few recompilations
        chain = _chain(self.torch, case)
        fresh = self.torch.compile(chain, dynamic=False)
        warm = self.torch.compile(lambda out, given, *more: out.copy_(chain(given, *more)), dynamic=False)
        works = {
            "warm": lambda given, out, more: warm(out, given, *more),
            "fresh": lambda given, out, more: fresh(given, *more),
        }
        return [self._contender(case, pairs, "torch.compile", output, work, MAY_FUSE) for output, work in works.items()]


def _tensors(torch: Any, case: ConvertCase, pairs: list[tuple]) -> list[tuple]:
    """For each pair the source and the target's logical array as tensors, and the operands."""
    sizes, _ = split(case)
    result = [case.dimensions[dim] for dim in case.order]
    tensors = [
        (
            _tensor(torch, given, case.source_type).view(sizes),
            _tensor(torch, out, case.target_type).view(result),
        )
        for given, out in pairs
    ]
    more = [torch.from_numpy(values).to(tensors[0][0].device) for values in operands(case)]
    return [(given, out, more) for given, out in tensors]


def _tensor(torch: Any, array: Any, element_type: str) -> Any:
    plain = torch.from_dlpack(array.reshape(-1).view(np.dtype(WORDS[array.dtype.itemsize])))
    return plain.view(getattr(torch, TORCH_NAMES[element_type]))


def _words(torch: Any, tensor: Any) -> Any:
    """A contiguous tensor with elements as integers, which every library takes."""
    return tensor.view(getattr(torch, WORDS[tensor.element_size()]))


def _chain(torch: Any, case: ConvertCase) -> Callable[..., Any]:
    order, dtype = case.order, getattr(torch, TORCH_NAMES[case.target_type])
    result = [case.dimensions[dim] for dim in order]

    def numbers(given: Any) -> Any:
        return (given.permute(order).contiguous() if case.is_turned else given).float()

    chains: dict[str, Callable[..., Any]] = {
        SCALE: lambda given, scale, shift: numbers(given).mul(scale).add(shift),
        NORMALISE: lambda given, unit, mean, std: numbers(given).div(unit).sub(mean).div(std),
        QUANTISE: lambda given, scale, point: numbers(given).div(scale).round().add(point).clamp(LOWEST, HIGHEST),
        DEQUANTISE: lambda given, scale, point: numbers(given).sub(point).mul(scale),
        "cast": lambda given: given.permute(order),
    }
    chain = chains[case.form]
    return lambda given, *more: chain(given, *more).to(dtype).contiguous().view(result)


def _in_place(case: ConvertCase, chain: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """What it calls, and a function of the source, the target and the operands."""

    def copied(given: Any, out: Any) -> Any:
        return out.copy_(given.permute(case.order))

    return {
        "cast": ("copy_", lambda given, out, more: copied(given, out)),
        SCALE: ("copy_, mul_, add_", lambda given, out, more: copied(given, out).mul_(more[0]).add_(more[1])),
        NORMALISE: (
            "copy_, div_, sub_, div_",
            lambda given, out, more: copied(given, out).div_(more[0]).sub_(more[1]).div_(more[2]),
        ),
    }.get(case.form, ("chain and copy_", lambda given, out, more: out.copy_(chain(given, *more))))
