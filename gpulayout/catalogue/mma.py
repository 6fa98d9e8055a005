"""Fragments of NVIDIA's `mma` instructions, in the order of registers: the example for writing an entry.

A warp's 32 threads hold a 16 x 16 block of A, 8 elements each.  Which one is element v of thread t is a table in the
PTX manual.  As a layout of CuTe it is one line, in `mma_traits_sm80.hpp`:

    ((4,8),(2,2,2)):((32,1),(16,8,128))        (t, v) -> m + 16 * k

Read them part by part: t % 4 counts steps of 32, which is k by twos; t // 4 steps of 1, m; v % 2 steps of 16, k;
v // 2 % 2 steps of 8, m by eights; v // 4 steps of 128, k by eights.  A kernel that loads its fragment with one
instruction wants the 8 elements of a thread side by side, at t * 8 + v.  So these are the digits of memory:

    k % 2        k + 1 is v + 1       stride 1
    m // 8       m + 8 is v + 2       stride 2
    k // 8       k + 8 is v + 4       stride 4
    k % 8 // 2   k + 2 is t + 1       stride 8
    m % 8        m + 1 is t + 4       stride 32

CuTe's text again, from (m, k) to memory, is what `gl.interop.from_cute` turns into tiles:

    from_cute("((8,2),(2,4,2)):((32,2),(1,8,4))", "f16")
    f16[16,16]{1,0:T(8,16)(2,1,1,16)(2,1,1,8)(2,2,1,1,2)}

A first tile of (16,16) cuts a matrix into blocks, and pads it.
"""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.layout import Layout

_entry = partial(  # what all entries of the owner share
    entry,
    owner="NVIDIA PTX",
    version="PTX ISA 7.0 and later; CUTLASS 4",
    source="https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-16816-float",
    judged_by="NVIDIA's mma_traits_sm80.hpp, evaluated by its pycute",
)
_STORED = (
    "Blocks of {block}, 32 threads one after the other, each with its {count} elements in the order of its "
    "registers. {order} NVIDIA fixes the order inside of a block; that of the blocks is this catalogue's. "
    "Sizes are padded to whole blocks with zeros, which add nothing to a product."
)


@_entry(
    summary="A of mma.m16n8k16: the 8 elements of each thread side by side",
    about=(
        "The left factor of the 16-bit tensor-core product mma.sync.m16n8k16, stored as the threads of a warp hold "
        "it: a thread loads its fragment with one access of 16 bytes, without ldmatrix and without shared memory. "
        "Weights that are packed once for such a kernel, as Marlin's are, lie like this."
    ),
    sizes=(Size("rows", "rows of A: M"), Size("columns", "columns of A: K")),
    types=("f16", "bf16"),
    stored=_STORED.format(block="16 x 16", count=8, order="Blocks follow each other along K, then along M."),
)
def m16n8k16_a() -> Layout:
    """Blocks of 16 x 16, and the digits above."""
    return Layout((1, 0), tiles=((16, 16), (8, 16), (2, 1, 1, 16), (2, 1, 1, 8), (2, 2, 1, 1, 2)))


@_entry(
    summary="B of mma.m16n8k16: the 4 elements of each thread side by side",
    about=(
        "The right factor of the 16-bit tensor-core product mma.sync.m16n8k16, stored as the threads of a warp hold "
        "it: a thread loads its fragment with one access of 8 bytes. Element v of thread t is k = t % 4 * 2 + v "
        "% 2 + v // 2 * 8 and n = t // 4 of the block."
    ),
    sizes=(Size("rows", "rows of B: K"), Size("columns", "columns of B: N")),
    types=("f16", "bf16"),
    stored=_STORED.format(block="16 x 8", count=4, order="Blocks follow each other along K, then along N."),
)
def m16n8k16_b() -> Layout:
    """Blocks of 16 x 8 down the columns: k % 2, k // 8, k % 8 // 2 and n % 8 have the strides 1, 2, 4 and 16."""
    return Layout((0, 1), tiles=((8, 16), (8,), (2, 2)))


@_entry(
    summary="C and D of mma.m16n8k16: the 4 elements of each thread side by side",
    about=(
        "The sum and the result of mma.sync.m16n8k16, stored as the threads of a warp hold them, such as for partial "
        "sums that another kernel of the same shape adds up. Element v of thread t is m = t // 4 + v // 2 * 8 "
        "and n = t % 4 * 2 + v % 2 of the block."
    ),
    sizes=(Size("rows", "rows of C: M"), Size("columns", "columns of C: N")),
    types=("f32", "f16"),
    stored=_STORED.format(block="16 x 8", count=4, order="Blocks follow each other along N, then along M."),
)
def m16n8k16_c() -> Layout:
    """Blocks of 16 x 8: n % 2, m // 8, n // 2 and m % 8 have the strides 1, 2, 4 and 16."""
    return Layout((1, 0), tiles=((16, 8), (8, 8), (2, 1, 1, 2)))
