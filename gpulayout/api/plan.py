"""Plans: a relayout that is prepared once, runs many times, and can be cut into blocks.

A block is a smaller plan that takes bounded memory.  Together the blocks write every byte of the target once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, overload

from gpulayout.api.array_types import Array, HostArray, Kind, Out, OwnKind, ShapeLike, TargetLike
from gpulayout.api.explain import Explanation, explain, explain_blocks
from gpulayout.api.host_block import run_on_host
from gpulayout.api.in_place import InPlace, RelayoutTransfer
from gpulayout.api.kept import KEYS, Kept
from gpulayout.api.stream import Progress, stream
from gpulayout.layout import checks
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import Cut, cut, passes
from gpulayout.moves.kinds import AnyMove, Pieces
from gpulayout.moves.pieces import relayout_pieces
from gpulayout.moves.runs import Runs


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
    transfer: RelayoutTransfer  # runs the pieces, and keeps what backends prepared for them

    def __init__(self, source: Shape, target: Shape):
        pieces = relayout_pieces(source, target)
        transfer = RelayoutTransfer(source, target, pieces)
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
    def __call__(self, buffer: Array, out: Out, *, workspace: SupportsIndex | None = None) -> Out: ...
    def __call__(self, buffer: Array, out: Any = None, *, workspace: SupportsIndex | None = None) -> Any:
        """Run the plan: a buffer in the target layout, `out` or a new one where `buffer` lives.

        Parameters
        ----------
        buffer : array
            1-D contiguous array of `source.buffer_length` elements or more; uint8 when elements are packed.  Or an N-d
            array that lies in memory as `source` says.
        out : array, optional
            The same for `target`.  Only its first `target.nbytes` bytes are written.  It may be the memory of `buffer`.
        workspace : int, optional
            The most bytes that a relayout in place allocates; see `in_place`.

        Raises
        ------
        TypeError, BufferError
            As `relayout` raises them.
        """
        return self.transfer(buffer, out) if workspace is None else self.transfer.call_in_place(buffer, out, workspace)

    def in_place(self, workspace: SupportsIndex | None = None) -> InPlace:
        """Plan the relayout within one buffer: a workspace takes the place of the second one.

        Parameters
        ----------
        workspace : int, optional
            The most bytes to allocate; by default 5% of the buffer, and at least 1 MB.

        Returns
        -------
        InPlace
            Call it with a buffer, or print it to see its steps.

        Raises
        ------
        LayoutError
            With the reason why it is impossible, such as padding.
        """
        return self.transfer.in_place(workspace)

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
        return Explanation("\n".join([found, *explain_blocks(self.source, self.target, max_bytes)]))

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
        stream : Between the host and a GPU.
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
            This plan alone if it has runs of 32 KB or more.  Else, if that gives longer runs or smaller blocks, one
            plan to a scratch layout and one from it.  The scratch layout has tiles, each the part that a slab of the
            source and a slab of the target have in common.

        Notes
        -----
        Two passes read and write everything twice, but in runs of megabytes.  This is external transposition as in
        Aggarwal and Vitter, "The input/output complexity of sorting and related problems" (1988).

        Examples
        --------
        >>> for each in plan("f32[39000,39001]", "{0,1}").passes(64 << 20):
        ...     print(each.source, each.target)
        f32[39000,39001]{1,0} f32[39000,39001]{1,0:T(200,201)}
        f32[39000,39001]{1,0:T(200,201)} f32[39000,39001]{0,1}
        """
        pairs = passes(self.source, self.target, checks.whole_number("max_bytes", max_bytes))
        return tuple(plan(*pair) for pair in pairs)

    def stream(
        self, buffer: Array, out: Out, *, max_bytes: SupportsIndex | None = None, progress: Progress | None = None
    ) -> Out:
        """Run the plan between host memory and a GPU's, or between two arrays on the host through a GPU, in blocks.

        Parameters
        ----------
        buffer, out : array
            As in a call of the plan, except that they live in different memories, or both on the host.  Then the GPU of
            the default backend moves the blocks, or NumPy where there is none.
        max_bytes : int, optional
            The most bytes on the GPU for blocks under way; on the host there are at most as many page-locked bytes.  By
            default 64 MiB, or less if the GPU has not so much.  16 bytes per block come on top.
        progress : callable, optional
            Called as ``progress(done, total)`` after every block, with bytes read and bytes written counted together.
            An exception that it raises ends the call.

        Returns
        -------
        array
            `out`, complete: the call returns after the last copy.

        Raises
        ------
        TypeError, BufferError
            As `relayout` raises them; BufferError also if both arrays are on a GPU.
        LayoutError
            When tiles or packed elements allow no block as small as `max_bytes`.
        MemoryError
            When the memory for blocks cannot be had.  All of it is allocated before a byte is written.

        See Also
        --------
        blocks : The blocks, each half of `max_bytes`.

        Notes
        -----
        The host gathers a block while the GPU copies and moves the one before, in two streams that wait for the current
        one.  An error or Ctrl-C in between leaves no copy under way; a note on the exception says which blocks are
        complete.

        Examples
        --------
        >>> import numpy as np
        >>> transpose, buffer = plan("f32[4,6]", "{0,1}"), np.arange(24, dtype=np.float32)
        >>> out = transpose.stream(buffer, np.empty(24, np.float32), max_bytes=128)
        >>> bool((out == transpose(buffer)).all())
        True
        """
        limit = None if max_bytes is None else checks.whole_number("max_bytes", max_bytes)
        return stream(self.transfer, plan, buffer, out, limit, progress)

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


# ---- blocks --------------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A part of a relayout: a plan between two smaller buffers, and where their bytes lie in the large ones.

    Attributes
    ----------
    plan : Plan
        From a buffer of `source_runs.nbytes` bytes to one of `target_runs.nbytes`.  Blocks of the same size share it.
    source_runs, target_runs : Runs
        The bytes of these two buffers within the large buffers: run after run.

    See Also
    --------
    Plan.blocks : all blocks of a plan.

    Examples
    --------
    >>> import gpulayout as gl
    >>> block = gl.plan("f32[4,6]", "{0,1}").blocks(64)[0]
    >>> block.plan
    plan('f32[4,2]{1,0}', 'f32[4,2]{0,1}')
    >>> block.source_runs
    Runs(offset=0, length=8, loops=((4, 24),))
    >>> block.target_runs
    Runs(offset=0, length=32, loops=())
    """

    plan: Plan
    source_runs: Runs
    target_runs: Runs

    def __call__(self, buffer: Any, out: Any) -> None:
        """Run the block between the large buffers: it reads its part of `buffer` and writes its part of `out`.

        Parameters
        ----------
        buffer, out : array
            The whole buffers: 1-D contiguous NumPy arrays, such as memory maps, or their bytes as uint8.

        Raises
        ------
        BufferError
            A buffer is not 1-D contiguous, or is too short for this block (later blocks may need a longer one); or
            `out` is read-only, or shares memory with `buffer`.
        TypeError
            A buffer has another dtype.
        """
        run_on_host(self.plan.transfer, self.source_runs, self.target_runs, buffer, out)


class Blocks(Sequence[Block]):
    """The blocks of a plan, in the order in which they continue one another in the target.  Made by `Plan.blocks`.

    Attributes
    ----------
    plan : Plan
        The whole plan.
    max_bytes : int
        The limit: no block's two buffers take more bytes together.

    Examples
    --------
    >>> import gpulayout as gl
    >>> blocks = gl.plan("f32[39000,39001]", "{0,1}").blocks(384 << 20)
    >>> blocks
    <36 blocks of plan('f32[39000,39001]{1,0}', 'f32[39000,39001]{0,1}'), up to 338052000 bytes each>
    >>> blocks.source_run_bytes, blocks.target_run_bytes
    (26004, 26000)
    """

    __slots__ = ("plan", "max_bytes", "_cut")

    def __init__(self, plan: Plan, max_bytes: SupportsIndex):
        self.plan, self.max_bytes = plan, checks.whole_number("max_bytes", max_bytes, "")
        self._cut: Cut = cut(plan.source, plan.target, self.max_bytes)

    def __len__(self) -> int:
        return self._cut.block_count

    @overload
    def __getitem__(self, number: SupportsIndex) -> Block: ...
    @overload
    def __getitem__(self, number: slice) -> list[Block]: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Block | list[Block]:
        found = range(len(self))[number]
        return self._block(found) if isinstance(found, int) else [self._block(each) for each in found]

    def _block(self, number: int) -> Block:
        shapes = self._cut.block(number)
        return Block(plan(shapes.source, shapes.target), shapes.source_runs, shapes.target_runs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Blocks, (self.plan, self.max_bytes)

    def __repr__(self) -> str:
        return f"<{checks.counted(len(self), 'block')} of {self.plan!r}, up to {self.block_bytes} bytes each>"

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block: its source and its target together."""
        return self._cut.block_bytes

    @property
    def source_run_bytes(self) -> int:
        """Bytes of a run in the source.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.source_run_bytes

    @property
    def target_run_bytes(self) -> int:
        """Bytes of a run in the target.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.target_run_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes that all blocks read.  Padding of up to 64 KB between runs is read too, since a seek costs as much."""
        return self._cut.bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes that all blocks write: those of the target, each once."""
        return self.plan.target.nbytes
