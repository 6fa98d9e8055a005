"""torchao and PyTorch: weights of 4 bits for tinygemm on NVIDIA GPUs, and for CPUs."""

from functools import partial

from gpulayout.catalogue.entry import Option, Size, check_multiple, entry
from gpulayout.layout.layout import Layout

_entry = partial(entry, owner="PyTorch", types=("u4", "s4"))
_ROWS = Size("rows", "rows of the weight: N, the outputs")


@_entry(
    summary="tinygemm's int4 weights, as the tensor cores take them",
    about=(
        "What torch.ops.aten._convert_weight_to_int4pack makes on an NVIDIA GPU, for _weight_int4pack_mm and "
        "torchao's int4 weights (tensor_core_tiled): for 8 rows and 16 * inner_k_tiles columns, each of 32 lanes has "
        "its elements of mma.m16n8k16 next to each other, even columns before odd ones in each int32."
    ),
    version="torch 2.13; pytorch 05f814fecfca",
    source=(
        "https://github.com/pytorch/pytorch/blob/05f814fecfca7d2a17f28cbe7e1cb2d8d4c13230/"
        "aten/src/ATen/native/cuda/int4mm.cu"
    ),
    judged_by="matrix_to_m16n8k16_Bint4_layout, compiled for a CPU, a lane at a time",
    sizes=(_ROWS, Size("columns", "elements of a row: K, the inputs", 32)),
    choices=(Option("inner_k_tiles", "pieces of 16 columns that lie together: innerKTiles", (8, 4, 2)),),
    stored=(
        "Elements of 4 bits; read as little-endian int32 it is the tensor (N / 8, K / (16 * inner_k_tiles), 32, "
        "inner_k_tiles / 2). Rows are padded to a multiple of 8, with zeros."
    ),
    refuses="columns must be a multiple of 16 * inner_k_tiles",
    kernels=("_weight_int4pack_mm",),
    tensor="s32[ceil(rows,8)/8,columns/16/inner_k_tiles,32,inner_k_tiles/2]",
)
def int4_tensor_core(columns: int, inner_k_tiles: int) -> Layout:
    """Digits of a tile, most major first: row, column % 8 // 2, column // 32, column % 2, column % 32 // 8."""
    check_multiple("columns", columns, 16 * inner_k_tiles)
    pairs = ((2 * inner_k_tiles, 2),) if inner_k_tiles > 2 else ()
    return Layout((1, 0), tiles=((8, 16 * inner_k_tiles), (8,), *pairs, (4, 1)))


@_entry(
    summary="int4 weights of PyTorch's CPU kernels, by instruction set",
    about=(
        "What torch.ops.aten._convert_weight_to_int4pack_for_cpu makes: blocks of 64 rows for AVX-512, of 32 "
        "otherwise. In a block the columns follow each other, and a byte holds two rows: 32 or 16 apart with AVX-512 "
        "or AVX2, neighbours without. torch.backends.cpu.get_cpu_capability() says which of them a machine has."
    ),
    version="torch 2.13",
    source="https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cpu/int4mm_kernel.cpp",
    judged_by="_convert_weight_to_int4pack_for_cpu of torch 2.13, with ATEN_CPU_CAPABILITY of each",
    sizes=(Size("rows", _ROWS.meaning, 32), Size("columns", "elements of a row: K, the inputs", 2)),
    choices=(Option("isa", "instruction set: avx512, avx2, or default for neither", ("avx512", "avx2", "default")),),
    stored="Elements of 4 bits, two in a byte, the lower half first. No padding.",
    refuses="rows must be a multiple of 64 with avx512, else of 32; the last rows of others lie in yet another order",
    kernels=("_weight_int4pack_mm_for_cpu",),
    tensor="u8[rows,columns/2]",
)
def int4_cpu(rows: int, isa: str) -> Layout:
    """A block's rows below its columns; of the rows the upper half is the low digit."""
    block = 64 if isa == "avx512" else 32
    check_multiple("rows", rows, block)
    halves = () if isa == "default" else ((block // 2, 1), (2, 1, 1, 1))
    return Layout((1, 0), tiles=((block, 1), *halves))
