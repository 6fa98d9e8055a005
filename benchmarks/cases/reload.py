"""Weights that a served model keeps in the layout of their owner, and what a checkpoint brings for them.

About 1 GB together: stacks of 16 experts, layers, scales and pages of a cache.
"""

from __future__ import annotations

from typing import NamedTuple


class ReloadCase(NamedTuple):
    """One packed tensor.

    entry    the layout, as `gl.torch.pack_` takes it
    sizes    those of the plain array
    dtype    the type of a checkpoint's element, where no `source` says it
    by_hand  the function of benchmarks/peers/owners_by_hand.py, and what it takes beside the tensor
    source   the layout of the checkpoint's words, if it has words
    cut      the axis that gate and up, or ranks, share; -1: none
    """

    name: str
    entry: str
    sizes: tuple[int, ...]
    dtype: str
    by_hand: tuple[str, *tuple[int, ...]]
    source: str = ""
    cut: int = -1

    @property
    def layout(self) -> str:
        """The layout with its sizes."""
        return f"{self.entry}[{','.join(map(str, self.sizes))}]"

    @property
    def words(self) -> str:
        """The layout of a checkpoint's words with their sizes."""
        return f"{self.source}[{','.join(map(str, self.sizes))}]"


MARLIN, GPTQ, AWQ = "marlin:weights(dtype=u4)", "gptq:qweight(dtype=u4)", "awq:qweight"
RELOAD_CASES = (
    ReloadCase("GPTQ to Marlin, experts", MARLIN, (16, 4096, 4096), "s32", ("gptq_to_marlin",), GPTQ, 2),
    ReloadCase("GPTQ to Marlin, a layer", MARLIN, (8192, 14336), "s32", ("gptq_to_marlin",), GPTQ, 1),
    ReloadCase("AWQ to Marlin, a layer", MARLIN, (8192, 14336), "s32", ("awq_to_marlin",), AWQ, 1),
    ReloadCase("Marlin scales, experts", "marlin:scales", (16, 128, 8192), "f16", ("marlin_scales",), "", 2),
    ReloadCase("FlashInfer shuffled, experts", "flashinfer:shuffle_matrix_a", (16, 4096, 2048), "u8",
               ("shuffle_matrix_a",), "", 2),
    ReloadCase("FlashInfer gate and up, experts", "flashinfer:gate_up(dtype=bf16,block_k=64)", (16, 2048, 2048), "bf16",
               ("gate_up", 64), "", 1),
    ReloadCase("cuBLAS block scales, experts", "cublas:block_scales(dtype=u8)", (16, 16384, 256), "u8",
               ("block_scales",), "", 1),
    ReloadCase("DeepGEMM scales, experts", "deepgemm:scales", (16, 16384, 56), "f32", ("deepgemm_scales",), "", 1),
    ReloadCase("vLLM pages of keys", "vllm:key_cache", (4096, 16, 8, 128), "bf16", ("key_pages",)),
    ReloadCase("vLLM pages of values", "vllm:value_cache", (4096, 16, 8, 128), "bf16", ("value_pages",)),
)  # fmt: skip
SMALL = {16: 2, 4096: 256, 8192: 512, 14336: 640, 2048: 128, 16384: 256}


def quick(case: ReloadCase) -> ReloadCase:
    """The same with small sizes that the owner takes too."""
    return case._replace(sizes=tuple([SMALL.get(size, size) for size in case.sizes]))
