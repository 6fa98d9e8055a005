"""Relayout: a buffer in one layout becomes a buffer in another, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from gpulayout.api.array_types import Array, HostArray, Kind, Out, OwnKind, ShapeLike, TargetLike
from gpulayout.api.explain import Explanation, explain
from gpulayout.api.kept import KEYS, Kept
from gpulayout.api.sides import BufferSide
from gpulayout.api.transfer import Transfer
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.moves.kinds import AnyMove, Pieces
from gpulayout.moves.pieces import relayout_pieces

if TYPE_CHECKING:
    from gpulayout.api.blocks import Blocks


class Plan:
    """A relayout that is prepared once and can be run many times.  Made by `plan`; frozen and thread-safe.

    Attributes
    ----------
    source, target : Shape
        The two shapes.
    bytes_read, bytes_written : int
        Bytes of the elements that are read, and of all places that are written, padding included.
    pieces : tuple of Piece
        Moves between parts of both buffers, the largest copy first.  There is one unless tiles are cut.
    move : Move, LookupMove or PackedMove
        The coalesced loops of the first piece.

    Examples
    --------
    >>> import numpy as np
    >>> p = plan("s32[2,3]{1,0}", "s32[2,3]{0,1:PD(3,5)}")
    >>> p(np.arange(1, 7, dtype=np.int32))
    array([1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0], dtype=int32)
    >>> p.bytes_read, p.bytes_written
    (24, 60)
    """

    __slots__ = ("source", "target", "pieces", "bytes_read", "bytes_written", "transfer")

    source: Shape
    target: Shape
    pieces: Pieces
    bytes_read: int
    bytes_written: int
    transfer: Transfer  # runs the pieces, and keeps what backends prepared for them

    def __init__(self, source: Shape, target: Shape):
        pieces = relayout_pieces(source, target)
        transfer = Transfer(BufferSide(source), BufferSide(target), pieces)
        read, written = (sum(getattr(piece.move, name) for piece in pieces) for name in ("bytes_read", "bytes_written"))
        for name, value in zip(self.__slots__, (source, target, pieces, read, written, transfer)):
            object.__setattr__(self, name, value)

    @property
    def move(self) -> AnyMove:
        """The coalesced loops of the first piece."""
        return self.pieces[0].move

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a plan cannot be changed: plans are shared and frozen")

    @overload
    def __call__(self, buffer: HostArray, out: None = None) -> HostArray: ...
    @overload
    def __call__(self, buffer: OwnKind[Kind], out: None = None) -> Kind: ...
    @overload
    def __call__(self, buffer: Array, out: None = None) -> Any: ...
    @overload
    def __call__(self, buffer: Array, out: Out) -> Out: ...
    def __call__(self, buffer: Array, out: Any = None) -> Any:
        """Run the plan: a buffer in the target layout, `out` or a new one where `buffer` lives.

        Parameters
        ----------
        buffer : array
            1-D contiguous array of `source.buffer_length` elements or more; uint8 when elements are packed.  Or an N-d
            array that lies in memory as `source` says.
        out : array, optional
            The same for `target`.  Only its first `target.nbytes` bytes are written.

        Raises
        ------
        TypeError, BufferError
            As `relayout` raises them.
        """
        return self.transfer(buffer, out)

    def explain(self, *, max_bytes: SupportsIndex | None = None) -> Explanation:
        """Explain in text what was merged, which kernel was chosen and why not a faster one, and how many bytes move.

        The GPU part assumes buffers aligned to 16 bytes, as allocators return them.

        Parameters
        ----------
        max_bytes : int, optional
            Also explain how `blocks` cuts the plan for this limit, and whether two passes have longer runs.
        """
        found = explain(self.pieces, self.source, self.target)
        if max_bytes is None:
            return found
        from gpulayout.api.blocks import explained

        return Explanation("\n".join([found, *explained(self, max_bytes)]))

    def blocks(self, max_bytes: SupportsIndex) -> Blocks:
        """Cut the plan into blocks that take bounded memory, for arrays larger than memory.

        Parameters
        ----------
        max_bytes : int
            The most bytes that the two buffers of a block take together.

        Returns
        -------
        Blocks
            A sequence, made as it is read.  Every block is a smaller plan, with the runs of bytes of the large buffers
            that it reads and writes.  Together the blocks write every byte of the target once.  Runs are as long on
            both sides as the limit allows.

        Raises
        ------
        LayoutError
            When tiles or packed elements allow no block that small, with the bytes of the smallest.

        See Also
        --------
        passes : Longer runs for twice the traffic.
        relayout_file : The same between files.

        Notes
        -----
        A block of M bytes of a 2-D transpose has runs of the square root of M * itemsize / 2 bytes: 27.7 KB in 384 MB
        for f32.

        Examples
        --------
        >>> import numpy as np
        >>> transpose = plan("f32[4,6]", "{0,1}")
        >>> buffer, out = np.arange(24, dtype=np.float32), np.empty(24, np.float32)
        >>> for block in transpose.blocks(64):
        ...     block(buffer, out)
        >>> bool((out == transpose(buffer)).all())
        True
        """
        from gpulayout.api.blocks import Blocks

        return Blocks(self, max_bytes)

    def passes(self, max_bytes: SupportsIndex) -> tuple[Plan, ...]:
        """Plan one pass or two, whichever suits files: cut each of them with `blocks(max_bytes)`.

        Parameters
        ----------
        max_bytes : int
            The most bytes that the two buffers of a block take together.

        Returns
        -------
        tuple of Plan
            This plan alone if it has runs of 16 KB or more.  Else, if that gives longer runs, one plan to a scratch
            layout and one from it.  The scratch layout has tiles, each the part that a slab of the source and a slab of
            the target have in common.

        Notes
        -----
        Two passes read and write everything twice, but in runs of megabytes.  This is external transposition as in
        Aggarwal and Vitter, "The input/output complexity of sorting and related problems" (1988).

        Examples
        --------
        >>> for each in plan("f32[39000,39001]", "{0,1}").passes(64 << 20):
        ...     print(each.source, each.target)
        f32[39000,39001]{1,0} f32[39000,39001]{1,0:T(201,202)}
        f32[39000,39001]{1,0:T(201,202)} f32[39000,39001]{0,1}
        """
        from gpulayout.api.blocks import passes

        return passes(self, max_bytes)

    def draw(self) -> Picture:
        """Draw where the elements go, and what the first warp of a GPU's launch reads and writes.

        Returns
        -------
        Picture
            A notebook shows it, `print` draws it with characters, `.svg` is its SVG, and `.save(path)` writes that.

        See Also
        --------
        explain : the same launch in words, with its expected speed.
        Shape.draw : a picture of one layout.

        Notes
        -----
        Small buffers are drawn whole, with an arrow for every element.  Of larger ones, the picture shows the first
        places of the target, the ends of its rows and tiles, and where those elements come from.

        Memory moves in sectors of 32 bytes.  A request is one instruction of a warp: one access of each of its lanes.
        Where the picture shows lanes, they are those of the kernel's own accesses, which tests compare.  For the other
        kernels it says only how many sectors an average request touches, as `explain` does.

        Examples
        --------
        >>> picture = plan("f32[2,3]", "{0,1}").draw()
        >>> picture.save("transpose.svg")                # doctest: +SKIP
        >>> print(picture)
        f32[2,3]{1,0} -> f32[2,3]{0,1}
        reads 24 bytes, writes 24 bytes
        gather (gpl_gather in gather.cu), for buffers aligned to 16 bytes
        elements of 4 bytes, accesses of 4 bytes, 32-bit offsets, 1 block of 256 threads
        sectors of 32 bytes that a warp's request touches: read 1 (at least 1), written 1 (at
        least 1)
        the first warp reads in 1 request, which touches 1 sector
        the first warp writes in 1 request, which touches 1 sector
        <BLANKLINE>
        source:
        place   0   1   2   3   4   5
             ┌───┬───┬───┬───┬───┬───┐
             │0,0│0,1│0,2│1,0│1,1│1,2│
             └───┴───┴───┴───┴───┴───┘
        <BLANKLINE>
        target, with places of the source:
        place 0 1 2 3 4 5
             ┌─┬─┬─┬─┬─┬─┐
             │0│3│1│4│2│5│
             └─┴─┴─┴─┴─┴─┘
        """
        from gpulayout.pictures.plan_picture import PlanPicture

        return PlanPicture(self.pieces, self.source, self.target)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.draw().svg

    def __eq__(self, other: object) -> bool:
        return (self.source, self.target) == (other.source, other.target) if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.source, self.target))

    def __repr__(self) -> str:
        return f"plan({str(self.source)!r}, {str(self.target)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return plan, (self.source, self.target)


kept_plans: Kept[Plan] = Kept()  # by pairs of shapes, and by the texts and layouts that stand for them


def plan(source: ShapeLike, target: TargetLike) -> Plan:
    """Plan the relayout of a buffer from `source` to `target`.

    Parameters
    ----------
    source : Shape or str
        The buffer's shape, or its text.
    target : Shape, Layout or str
        The shape of the result, with the same element type and dimensions; or only its layout, such as ``"{0,1}"``.

    Returns
    -------
    Plan
        Call it with a buffer.  Plans are cached: planning again costs a dictionary look-up.

    Raises
    ------
    LayoutError
        When element types or dimensions differ, and for a shape that no buffer can hold.

    See Also
    --------
    relayout : Plan and run in one call.

    Examples
    --------
    >>> to_tiles = plan("f32[16,256]", "{1,0:T(8,128)}")
    >>> to_tiles.bytes_written, len(to_tiles.pieces)
    (16384, 1)
    """
    if type(source) in KEYS and type(target) in KEYS and (found := kept_plans.get((source, target))):
        return found
    asked, source = (source, target), as_shape(source, "source")
    target = as_shape(target, "target", like=source)
    found = kept_plans.get((source, target))
    if found is None:
        found = Plan(source, target)
        kept_plans.keep((source, target), found, len(found.pieces))
    if asked != (source, target):
        kept_plans.keep(asked, found)
    return found


@overload
def relayout(
    buffer: HostArray | np.generic, source: ShapeLike, target: TargetLike, *, out: None = None
) -> HostArray: ...
@overload
def relayout(buffer: OwnKind[Kind], source: ShapeLike, target: TargetLike, *, out: None = None) -> Kind: ...
@overload
def relayout(buffer: Array, source: ShapeLike, target: TargetLike, *, out: None = None) -> Any: ...
@overload
def relayout(buffer: Array, source: ShapeLike, target: TargetLike, *, out: Out) -> Out: ...
def relayout(buffer: Array, source: ShapeLike, target: TargetLike, *, out: Any = None) -> Any:
    """Copy a buffer of `source` into a buffer of `target`, in one pass.  Padding is filled.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `source.buffer_length` elements or more; or an N-d array that lies in memory as `source`
        says, such as a Fortran-ordered one for ``{0,1}``.  It is of NumPy, CuPy, PyTorch or JAX, or offers DLPack or
        ``__cuda_array_interface__``.  For packed elements, such as ``E(4)``, it is uint8.
    source : Shape or str
        The buffer's shape, or its text.  The library cannot detect a wrong layout.
    target : Shape, Layout or str
        The shape of the result, with the same element type and dimensions; or only its layout, such as ``"{0,1}"``.
    out : array, optional
        1-D contiguous array to write to, on the same device, of `target.buffer_length` elements or more.

    Returns
    -------
    array
        1-D array of `target.buffer_length` elements, of the library of `buffer` and where it lives; or `out`.

    Raises
    ------
    TypeError
        For a buffer of another element type, and for objects that are not arrays.
    BufferError
        For a buffer or `out` that is too small or not contiguous; for an `out` that is read-only, on another device, or
        shares memory with `buffer`.
    LayoutError
        When the two shapes are not the same logical array, and for a shape that no buffer can hold.

    See Also
    --------
    pack : From an N-d array to a buffer.
    plan : The same, prepared once for many calls.
    relayout_many : Many buffers in few launches.

    Notes
    -----
    The layouts are those of XLA's *Shapes and Layout*.

    Examples
    --------
    >>> import numpy as np
    >>> relayout(np.arange(6, dtype=np.float32), "f32[2,3]{1,0}", "f32[2,3]{0,1}")
    array([0., 3., 1., 4., 2., 5.], dtype=float32)
    """
    return plan(source, target)(buffer, out)
