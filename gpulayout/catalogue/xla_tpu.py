"""XLA on a TPU: the tiles of arrays, which depend on the type and on the last two sizes."""

from functools import partial

from gpulayout.catalogue.entry import Size, entry
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout

_entry = partial(
    entry,
    owner="XLA for TPU",
    version="libtpu 0.0.52: v4, v5e, v5p and v6e",
    source="https://openxla.org/xla/tiled_layout",
    judged_by="libtpu 0.0.52: the layouts of parameters that it compiles for v4, v5e, v5p and v6e",
    types=("f32", "bf16", "f16", "s32", "s16", "s8", "u8", "s4", "u4", "f8e4m3fn", "f8e5m2", "pred"),
)
_LANES, _SUBLANES = 128, 8  # of a vector register


@_entry(
    summary="An array on a TPU, in row-major order: tiles by type and rows",
    about=(
        "A TPU's vector register holds 8 rows of 128 elements of 32 bits, and narrower types share a word: 2 of 16 "
        "bits, 4 of 8, 8 of 4, from neighbouring rows. XLA tiles the last two dimensions to match: T(8,128), "
        "T(8,128)(2,1), T(8,128)(4,1), T(8,128)(8,1). Few rows take smaller tiles. Types of 8 bits take "
        "T(32,128)(4,1) where 32 divides the rows, those of 4 bits T(64,128)(8,1) where 64 does. These are the tiles "
        "of the default, descending order; where nobody asks for an order, XLA chooses the one with the least "
        "padding."
    ),
    sizes=(Size("rows", "the size before the last"), Size("columns", "the last size")),
    stored=(
        "One element in each place, packed in bytes if it has 4 bits. Columns are padded to a multiple of 128, rows "
        "to one of the tile's. XLA promises nothing about the padding; here it is zero."
    ),
)
def matrix(rows: int, dtype: ElementType) -> Layout:
    """8 rows, or the power of two that holds fewer; a whole register for narrow types where that pads nothing."""
    shared = 4 // dtype.itemsize if not dtype.is_sub_byte else 32 // dtype.bits
    high = shared
    while high < min(rows, _SUBLANES):
        high *= 2
    if shared >= 4 and rows % (_SUBLANES * shared) == 0:
        high = _SUBLANES * shared
    return Layout((1, 0), tiles=((high, _LANES), (shared, 1)) if shared > 1 else ((high, _LANES),))


@_entry(
    summary="A one-dimensional array on a TPU: tiles of up to 1024 elements",
    about=(
        "XLA stores a vector on a TPU as registers of 8 x 128: tiles of 1024 elements, or of the power of two that "
        "holds a shorter vector, at least 128 words of 32 bits. Narrower types share words as in a matrix: element i "
        "and element i + 128 of a bf16 vector lie side by side."
    ),
    sizes=(Size("elements", "the size of the array"),),
    stored=(
        "One element in each place, packed in bytes if it has 4 bits. The size is padded to whole tiles. XLA "
        "promises nothing about the padding; here it is zero."
    ),
)
def vector(elements: int, dtype: ElementType) -> Layout:
    """1024 elements, or the power of two that holds them."""
    shared = 4 // dtype.itemsize if not dtype.is_sub_byte else 32 // dtype.bits
    size = _LANES * shared
    while size < min(elements, _LANES * _SUBLANES):
        size *= 2
    return Layout((0,), tiles=((size,), (_LANES,), (shared, 1)) if shared > 1 else ((size,),))
