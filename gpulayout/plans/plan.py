"""Plans: a relayout that is prepared once, runs many times, and can be cut into blocks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Unpack, overload

from gpulayout.arrays import array_types as types
from gpulayout.arrays.array_types import AnyArray, ArithmeticOptions, Out, ShapeLike, TargetLike
from gpulayout.arrays.library import FollowedParameter
from gpulayout.arrays.shaped_buffer import Pair, ShapedBuffer
from gpulayout.choices.explain import Explanation, explain, explain_blocks, moved_bytes, picture_facts
from gpulayout.layout.checks import ByteCount, byte_count
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.picture import Picture
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import BlockShapes, passes
from gpulayout.moves.boxes import part_shape
from gpulayout.moves.lowered import Lowered
from gpulayout.moves.lowering import lowered_relayout
from gpulayout.moves.move import check_same_dimensions
from gpulayout.moves.pieces import AnyMove, Pieces
from gpulayout.moves.placement import Placement
from gpulayout.plans.plan_blocks import Blocks
from gpulayout.plans.plan_runs import PlanRuns
from gpulayout.plans.stream import Progress, stream
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.requests.index_keys import box_of
from gpulayout.requests.reading import Call, check_strict, read_plan
from gpulayout.running.array_calls import run_plan_on_array
from gpulayout.running.in_place import InPlace
from gpulayout.running.kept import KEY_TYPES, Kept
from gpulayout.running.request import Request, request
from gpulayout.running.running import run_request
from gpulayout.running.same_kind import with_followed
from gpulayout.traced.traced import traced, traced_plan

_FIELDS = "source", "target", "names", "own_change", "pieces", "bytes_read", "bytes_written", "request"


class Plan(PlanRuns):
    """A relayout that is prepared once and can be run many times.  Made by `plan`; frozen and thread-safe.

    Attributes
    ----------
    source, target : Shape
        The two shapes.
    names : tuple of str or None
        What `explain` and `draw` call the dimensions; None for z, y and x, the letters of XLA's document.
    change : ElementChange or None
        The arithmetic on the way, and its parameters; an internal, as `pieces` are.
    bytes_read, bytes_written : int
        Bytes of the elements that are read, and of all places that are written, padding included.
    pieces : tuple of Piece
        Moves between parts of both buffers, the largest copy first.  There is one unless tiles are cut.  They and
        `move` are internals, for a look at what happens: any release may change them.
    move : Move, LookupMove, PackedMove or ConvertMove
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

    __slots__ = (*_FIELDS, "__weakref__")  # jax.jit refers weakly to what it calls

    pieces: Pieces
    bytes_read: int
    bytes_written: int
    request: Request  # runs the pieces, and keeps what backends prepared for them

    def __init__(
        self,
        source: Shape,
        target: Shape,
        names: tuple[str, ...] | None = None,
        change: ElementChange | None = None,
    ):
        if change is not None:
            check_same_dimensions(source, target)
            for numbers in change.values:
                numbers.setflags(write=False)  # which a pickle forgets
        made = request(Placement.buffer(source), Placement.buffer(target), change)
        values = source, target, names, change, made.pieces, *moved_bytes(made.pieces, made.stages), made
        for name, value in zip(_FIELDS, values):
            object.__setattr__(self, name, value)

    @property
    def move(self) -> AnyMove:
        """The coalesced loops of the first piece."""
        return self.pieces[0].move

    @overload
    def __call__(
        self, buffer: Pair, *, out: Any = None, max_bytes: ByteCount | None = None, strict: bool = True
    ) -> Pair: ...
    @overload
    def __call__(self, buffer: types.HostArray, *, out: None = None, strict: bool = True) -> types.HostArray: ...
    @overload
    def __call__(self, buffer: types.OwnKind[types.Kind], *, out: None = None, strict: bool = True) -> types.Kind: ...
    @overload
    def __call__(self, buffer: AnyArray, *, out: None = None, strict: bool = True) -> Any: ...
    @overload
    def __call__(
        self, buffer: AnyArray, *, out: Out, max_bytes: ByteCount | None = None, strict: bool = True
    ) -> Out: ...
    def __call__(self, buffer: Any, *, out: Any = None, max_bytes: ByteCount | None = None, strict: bool = True) -> Any:
        """Run the plan: a buffer in the target layout, `out` or a new one where `buffer` lives.

        Parameters
        ----------
        buffer : array
            1-D contiguous array of `source.buffer_length` elements; uint8 when elements are packed.  Or an N-d array
            that lies in memory as `source` says.  An `Array` of `source` gives an `Array` of `target`.
        out : array, optional
            The same for `target`.  It may begin at the same byte as `buffer`: see `in_place`.
        max_bytes : int or str, optional
            The most bytes that a relayout in place allocates, such as ``"64M"``; see `in_place`.
        strict : bool, optional
            False takes longer buffers too, as `relayout` does.

        Raises
        ------
        TypeError, BufferError
            As `relayout` raises them.
        """
        if strict is not True:
            check_strict(strict)
        if isinstance(buffer, ShapedBuffer):
            return run_plan_on_array(self, buffer, out, max_bytes, strict)
        if is_compiling():
            anew = functools.partial(self, buffer, out=out, max_bytes=max_bytes, strict=strict)
            return traced(Call("plan", self, max_bytes=max_bytes, strict=strict), buffer, out, anew)
        try:
            return run_request(self.request if strict else self.request.lenient, buffer, out, max_bytes)
        except FollowedParameter as error:  # of a plan that a traced function made
            followed = error
        return with_followed(followed, Call("plan", self, max_bytes=max_bytes, strict=strict), buffer, out)

    def in_place(self, max_bytes: ByteCount | None = None) -> InPlace:
        """Plan the relayout within one buffer: a workspace takes the place of the second one.  Nothing is moved.

        Parameters
        ----------
        max_bytes : int or str, optional
            The most bytes to allocate, such as ``"64M"``; by default 5% of the larger side, or 1 MiB if that is more.

        Returns
        -------
        InPlace
            Call it with a buffer, or print it to see its steps.

        Raises
        ------
        LayoutError
            When the limit is too small: with the reason, and the least limit that is enough.
        """
        return self.request.in_place(max_bytes)

    def lower(self) -> Lowered:
        """Write the plan as steps that every array library has: reshape, permute, pad and slice.

        Calls on traced arrays, as inside ``jax.jit`` and ``torch.compile``, run these steps by themselves.

        Returns
        -------
        Lowered
            Call it with a buffer of any library, or print it.

        Raises
        ------
        LayoutError
            For packed elements, such as ``E(4)``, and for arithmetic on the way.

        Examples
        --------
        >>> print(plan("f32[16,256]{1,0:T(8,128)}", "{0,1}").lower())
        f32[4096]: reshape to (2, 2, 8, 128), permute (1, 3, 0, 2), reshape to (4096,)
        """
        if self.change is not None:
            raise LayoutError(f"{self.change.arithmetic.form} of {self.source} is arithmetic, which has no such steps")
        return lowered_relayout(self.source, self.target)

    def explain(self, *, max_bytes: ByteCount | None = None) -> Explanation:
        """Explain in text what was merged, which kernel was chosen and why not a faster one, and how many bytes move.

        The GPU part assumes buffers aligned to 16 bytes, as allocators return them.

        Parameters
        ----------
        max_bytes : int or str, optional
            Also explain how `blocks` cuts the plan for this limit, and whether two passes have longer runs.
        """
        text = explain(self.pieces, self.source, self.target, names=self.names, stages=self.request.stages)
        if max_bytes is None:
            return text
        return Explanation("\n".join([text, *explain_blocks(self.source, self.target, max_bytes)]))

    def blocks(self, max_bytes: ByteCount) -> Blocks:
        """Cut the plan into blocks that take bounded memory, for arrays larger than memory.

        Parameters
        ----------
        max_bytes : int or str
            The most bytes that the two buffers of a block take together, such as ``"512M"``.

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
        In a 2-D transpose, runs of a block of M bytes have sqrt(M * itemsize / 2) bytes: 27.7 KB in 384 MB for f32.

        Examples
        --------
        >>> import numpy as np
        >>> transpose = plan("f32[4,6]", "{0,1}")
        >>> buffer, out = np.arange(24, dtype=np.float32), np.empty(24, np.float32)
        >>> for block in transpose.blocks(64):
        ...     _ = block(buffer, out=out)
        >>> bool((out == transpose(buffer)).all())
        True
        """
        return Blocks(self, max_bytes)

    def passes(self, max_bytes: ByteCount) -> tuple[Plan, ...]:
        """Plan one pass or two, whichever suits files: cut each of them with `blocks(max_bytes)`.

        Parameters
        ----------
        max_bytes : int or str
            The most bytes that the two buffers of a block take together.

        Returns
        -------
        tuple of Plan
            This plan alone if it has runs of 32 KB or more.  Else, if that gives longer runs or smaller blocks, one
            plan to a scratch layout and one from it.  The scratch layout has tiles, each the part that a slab of the
            source and a slab of the target have in common.  Elements that change on the way do so in one of the two
            plans, and the scratch layout has the narrower type.

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
        pairs = passes(self.source, self.target, byte_count("max_bytes", max_bytes))
        changes = [self.change]
        if len(pairs) == 2:  # the scratch layout has the element type of one side
            is_late = pairs[1][0].element_type is self.source.element_type
            changes = [None, self.change] if is_late else [self.change, None]
        return tuple(_plan(*pair, self.names, change) for pair, change in zip(pairs, changes))

    def stream(
        self, buffer: AnyArray, *, out: Out,
        max_bytes: ByteCount | None = None, progress: Progress | None = None, strict: bool = True,
    ) -> Out:  # fmt: skip
        """Run the plan between host memory and a GPU's, or between two arrays on the host through a GPU, in blocks.

        Parameters
        ----------
        buffer, out : array
            As in a call of the plan, except that one is on the host and the other on a GPU, or both on the host.  If
            both are, the GPU of the default backend moves the blocks, or NumPy where there is none.
        max_bytes : int or str, optional
            The most bytes on the GPU for blocks under way; on the host there are at most as many page-locked bytes.  By
            default 64 MiB, or less if the GPU does not have so much.  If only one block fits, 16 bytes come on top.
        progress : callable, optional
            Called as ``progress(done, total)`` after every block, with bytes read and bytes written counted together.
            An exception that it raises ends the call.
        strict : bool, optional
            As a call of the plan takes it.

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
        The host gathers a block while the GPU copies and moves the one before, in two CUDA streams.  They wait for the
        current stream.  An error or Ctrl-C in between leaves no copy under way; a note on the exception says which
        blocks are complete.

        Examples
        --------
        >>> import numpy as np
        >>> transpose, buffer = plan("f32[4,6]", "{0,1}"), np.arange(24, dtype=np.float32)
        >>> out = transpose.stream(buffer, out=np.empty(24, np.float32), max_bytes=128)
        >>> bool((out == transpose(buffer)).all())
        True
        """
        limit = None if max_bytes is None else byte_count("max_bytes", max_bytes)
        check_strict(strict)
        return stream(self.request if strict else self.request.lenient, self.of_block, buffer, out, limit, progress)

    def draw(self) -> Picture:
        """Draw where the elements go, with facts about a GPU's launch.

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

        Examples
        --------
        >>> picture = plan("f32[2,3]", "{0,1}").draw()
        >>> picture.save("transpose.svg")                # doctest: +SKIP
        >>> print("\\n".join(str(picture).splitlines()[-4:]))
        place 0 1 2 3 4 5
             ┌─┬─┬─┬─┬─┬─┐
             │0│3│1│4│2│5│
             └─┴─┴─┴─┴─┴─┘
        """
        from gpulayout.pictures.plan_picture import plan_picture

        return plan_picture(self.source, self.target, picture_facts(self.pieces, self.request.stages), self.names)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.draw().svg

    def part(self, box: Any) -> Plan:
        """The plan for a box of the logical array, in buffers of its own: what one rank moves, or one expert.

        Parameters
        ----------
        box : slice, Ellipsis, or a tuple of them
            The box, as it would index the array: ``(slice(0, 512), ...)`` are the first 512 rows.

        Returns
        -------
        Plan
            From a buffer of the box in the source's layout to one in the target's.  Padding at the end of a dimension
            belongs to the boxes that reach it.  Parameters, such as a scale for each channel, have the numbers of the
            box's elements.

        Raises
        ------
        LayoutError
            For numbers and for steps: a box keeps every dimension.
        IndexError
            For more slices than dimensions.

        See Also
        --------
        blocks : Parts that also know where their bytes lie in the large buffers.

        Examples
        --------
        >>> whole = plan("f32[8,6]", "{0,1:T(4)}")
        >>> whole.part((slice(0, 4), slice(2, None)))
        plan('f32[4,4]{1,0}', 'f32[4,4]{0,1:T(4)}')
        """
        intervals = box_of(box, self.source)
        change = None if self.change is None else self.change.part(self.source.dimensions, intervals)
        return _plan(part_shape(self.source, intervals), part_shape(self.target, intervals), self.names, change)

    def of_block(self, block: BlockShapes) -> Plan:
        """The plan of a block, with the same names where it has the same dimensions.  Internals, as `pieces`."""
        names = self.names if block.source.rank == self.source.rank else None
        change = None if self.change is None else self.change.part(self.source.dimensions, block.box)
        return _plan(block.source, block.target, names, change)

    def __reduce__(self) -> tuple[Any, ...]:
        options = ({} if self.change is None else self.change.options) | ({"names": self.names} if self.names else {})
        return (functools.partial(plan, **options) if options else plan), (self.source, self.target)


kept_plans: Kept[Plan] = Kept()  # by pairs of shapes, and by the texts and layouts that stand for them


def plan(
    source: ShapeLike,
    target: TargetLike,
    *,
    names: str | Sequence[str] | None = None,
    **options: Unpack[ArithmeticOptions],
) -> Plan:
    """Plan the relayout of a buffer from `source` to `target`.

    Parameters
    ----------
    source : Shape or str
        The buffer's shape, or its text.
    target : Shape, Layout or str
        The shape of the result, with the same dimensions; or only its layout: ``"{0,1}"``, a name such
        as ``"F"`` or ``"torch:channels_last"``, or a pattern such as ``"n h w c -> n c h w"``, which means the memory
        of the array after it.
    names : str or sequence of str, optional
        What `explain` and `draw` call the dimensions, dimension 0 first: ``"nhwc"``, or ``"batch,channel"``, or a list.
        By default the names in a pattern.  They also say what letters mean as a target: ``"NCHW"``, for `names="NHWC"`.
    **options
        ``dtype=``, ``scale=``, ``shift=`` and more change the elements on the way: see `ArithmeticOptions`.

    Returns
    -------
    Plan
        Call it with a buffer.  Plans without arithmetic are cached: planning again costs a dictionary look-up.

    Raises
    ------
    LayoutError
        When dimensions differ, or element types without `dtype`; for a shape that no buffer can hold, and for `names`
        that are not one for each dimension.

    See Also
    --------
    relayout : Plan and run in one call.

    Examples
    --------
    >>> to_tiles = plan("f32[16,256]", "{1,0:T(8,128)}")
    >>> to_tiles.bytes_written, len(to_tiles.pieces)
    (16384, 1)
    >>> to_planes = plan("u8[8,224,224,3]", "n h w c -> n c h w")
    >>> str(to_planes.target), to_planes.names
    ('u8[8,224,224,3]{2,1,3,0}', ('n', 'h', 'w', 'c'))
    >>> plan("f32[16,256]", "{0,1}", dtype="bf16")
    plan('f32[16,256]{1,0}', 'bf16[16,256]{0,1}') with cast
    """
    if is_compiling():
        anew = functools.partial(plan, source, target, names=names, **options)
        return traced_plan(Plan.__new__(Plan), source, target, names, options, anew)
    is_plain = names is None and not options and type(source) in KEY_TYPES and type(target) in KEY_TYPES
    if is_plain and (kept := kept_plans.get((source, target))):
        return kept
    try:
        made = _plan(*read_plan(source, target, names, options))
    except FollowedParameter as error:
        if not error.is_traced:
            raise
        return traced_plan(Plan.__new__(Plan), source, target, names, options, None)
    if is_plain:
        kept_plans.keep((source, target), made)
    return made


def _plan(source: Shape, target: Shape, names: tuple[str, ...] | None, change: ElementChange | None = None) -> Plan:
    """The plan between two shapes, a kept one if there is one.  Those with arithmetic share what is kept of them."""
    if change is not None:
        return Plan(source, target, names, change)
    key = (source, target) if names is None else (source, target, names)
    kept = kept_plans.get(key)
    if kept is None:
        kept = Plan(source, target, names)
        kept_plans.keep(key, kept, len(kept.pieces))
    return kept
