"""Exchanges: what has to go from rank to rank so that an array that is held one way is held another way.

Every target box is made of boxes of the source.  A rank keeps what it holds already.  Of the ranks that hold the same
elements, the one sends them that has sent the least so far.  All of it follows from the two shardings alone, so each
rank finds the same messages without asking another.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.arrays.arrays import check_none_overlap, open_array
from gpulayout.choices.explain import Explanation
from gpulayout.layout.checks import ByteCount, as_integer, byte_count, counted, number_text, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import cached_property
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.listing import Fills
from gpulayout.moves.page_tables import page_tables
from gpulayout.moves.placement import Box, dense_shape
from gpulayout.plans.plan import plan
from gpulayout.plans.plan_runs import Pages
from gpulayout.requests.arithmetic import ElementChange
from gpulayout.shards.buffers import fill_padding, flat, new_buffer, new_memory
from gpulayout.shards.explained import explained
from gpulayout.shards.messages import Message, Sides
from gpulayout.shards.rounds import Round, most_of_a_piece, rounds_of
from gpulayout.shards.senders import Pair, boxes_to_send
from gpulayout.shards.sharding import Sharding


class Exchange:
    """What has to go from rank to rank between two shardings of an array.  Made by `exchange`; frozen.

    Attributes
    ----------
    source, target : Sharding
        The array as it is held before and after.
    ranks : int
        How many ranks take part: those of the larger sharding.
    messages : tuple of Message
        What goes from one rank to another, at most one message for each pair, in the order of source and target.

    Examples
    --------
    >>> import numpy as np, gpulayout as gl
    >>> rows = gl.Sharding("f32[4,6]", [slice(0, 2), slice(2, 4)])
    >>> columns = gl.Sharding("f32[4,6]{0,1}", [(..., slice(0, 3)), (..., slice(3, 6))])
    >>> to_columns = gl.exchange(rows, columns)
    >>> to_columns.messages
    (<Message from rank 0 to rank 1, 24 bytes>, <Message from rank 1 to rank 0, 24 bytes>)
    >>> array = np.arange(24, dtype=np.float32)
    >>> to_columns.move([array[:12], array[12:]])[1]
    array([ 3.,  9., 15., 21.,  4., 10., 16., 22.,  5., 11., 17., 23.],
          dtype=float32)
    """

    source: Sharding
    target: Sharding
    _sides: Sides
    _options: Mapping[str, Any]
    _boxes: dict[Pair, tuple[Box, ...]]  # what the first rank of a pair has to bring to the second

    def __init__(self, source: Sharding, target: Sharding, keywords: Mapping[str, Any]):
        for role, side in (("source", source), ("target", target)):
            if not isinstance(side, Sharding):
                raise TypeError(f"{role} is {value_text(side)}: write a gl.Sharding")
        before, after = (dense_shape(side.shape.element_type, side.shape.dimensions) for side in (source, target))
        planned = plan(before, after, **keywords)
        sides, boxes = Sides(source, target, planned.change), boxes_to_send(source, target)
        self.__dict__.update(source=source, target=target, _sides=sides, _options=keywords, _boxes=boxes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of an exchange cannot be changed: make another one")

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(exchange, **self._options), (self.source, self.target)

    def __repr__(self) -> str:
        form = "" if self._sides.change is None else f" with {self._sides.change.arithmetic.form}"
        return (
            f"<Exchange of {self.source.shape} from {counted(self.source.ranks, 'rank')} to {self.target.ranks}{form}: "
            f"{counted(sum(source != target for source, target in self._pairs), 'message')}>"
        )

    @property
    def ranks(self) -> int:
        """See the class."""
        return max(self.source.ranks, self.target.ranks)

    # ---- what goes where ---------------------------------------------------------------------------------------------

    # A rank makes its own messages only: of 500 ranks with a message for each other, all of them take seconds.

    @cached_property
    def _pairs(self) -> list[Pair]:
        return sorted(self._boxes)

    def _message(self, pair: Pair) -> Message:
        made: dict[Pair, Message] = self.__dict__.setdefault("_made", {})
        message = made.get(pair)
        return message or made.setdefault(pair, Message(self._sides, *pair, self._boxes[pair]))

    @property
    def messages(self) -> tuple[Message, ...]:
        """See the class."""
        return tuple([self._message(pair) for pair in self._pairs if pair[0] != pair[1]])

    @cached_property
    def _by_rank(self) -> tuple[list[list[Pair]], list[list[Pair]]]:
        sends: list[list[Pair]] = [[] for _ in range(self.ranks)]
        receives: list[list[Pair]] = [[] for _ in range(self.ranks)]
        for source, target in self._pairs:
            if source != target:
                sends[source].append((source, target))
                receives[target].append((source, target))
        return sends, receives

    def sends(self, rank: int) -> tuple[Message, ...]:
        """What a rank sends, in the order of the ranks that get it."""
        return tuple(map(self._message, self._by_rank[0][self._rank(rank)]))

    def receives(self, rank: int) -> tuple[Message, ...]:
        """What a rank receives, in the order of the ranks that send it."""
        return tuple(map(self._message, self._by_rank[1][self._rank(rank)]))

    def local(self, rank: int) -> Message | None:
        """What stays on a rank; None for nothing.  `Message.copy` brings it to its place."""
        pair = (self._rank(rank),) * 2
        return self._message(pair) if pair in self._boxes else None

    def _rank(self, rank: int) -> int:
        number = as_integer(rank)
        if number is None:
            raise TypeError(f"rank is {value_text(rank)}: it is a whole number")
        if not 0 <= number < self.ranks:
            raise IndexError(f"rank is {number_text(number)}, but this exchange has the ranks 0 to {self.ranks - 1}")
        return number

    def shard(self, rank: int, side: Sharding) -> Shape | None:
        """The shape of a rank's buffer in one of the two shardings; None for none."""
        return side.shards[rank] if rank < side.ranks else None

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are equal for equal exchanges, in any process: what ranks compare before they send."""
        change = self._sides.change
        parts = [str(side) for side in (self.source, self.target)]
        said = "\n".join(parts if change is None else [*parts, repr(change.arithmetic), repr(change.blocks)])
        values = () if change is None else [values.tobytes() for values in change.values]
        return hashlib.sha256(b"\0".join([said.encode(), *values])).digest()[:16]

    @property
    def change(self) -> ElementChange | None:
        """The arithmetic on the way, for the whole array; an internal, as that of a plan."""
        return self._sides.change

    def explain(self) -> Explanation:
        """Explain in text how many messages and bytes there are, between whom, and whether fewer would do.

        Examples
        --------
        >>> import gpulayout as gl
        >>> rows = gl.Sharding.by_mesh("f32[4,6]", {"x": 2}, ("x",))
        >>> gl.exchange(rows, gl.Sharding.by_mesh("f32[4,6]", {"x": 2}, (None, "x"))).explain()
        exchange of f32[4,6]{1,0} from 2 ranks to 2
          messages 2, of at most 2 pairs of ranks
          bytes    48 bytes travel, the least possible; 48 bytes stay on their rank
          balance  rank 0 sends most, 24 bytes, 1.00 times the mean; rank 0 receives most, 24 bytes, 1.00 times the mean
          staging  0 of 2 are sent from the buffer as it lies, 2 land in the buffer as they travel
          runs     4 runs from buffer to buffer, the shortest 12 bytes, rank 0 to rank 1
          link     rank 0 to rank 1: 24 bytes, 1 box
          link     rank 1 to rank 0: 24 bytes, 1 box
        """
        stays = [self._message(pair) for pair in self._pairs if pair[0] == pair[1]]
        form = None if self.change is None else self.change.arithmetic.form
        return explained(self.source, self.target, form, self.messages, stays)

    # ---- addresses -------------------------------------------------------------------------------------------------

    def runs(
        self, source: int, target: int, *, longest: ByteCount | None = None, align: ByteCount | None = None,
        least: ByteCount | None = None, pages: Pages = None, page_bytes: Pages = None,
    ) -> np.ndarray:  # fmt: skip
        """List what to copy from a rank's buffer to another's, for engines that write to the memory of other ranks.

        Parameters
        ----------
        source, target : int
            The ranks, which may be the same.
        longest, align, least : int or str, optional
            See `Plan.runs`.
        pages : pair of arrays of integers, optional
            Page tables of the source's buffer and of the target's, None for one without: see `Plan.runs`.
        page_bytes : pair of int or str, optional
            The bytes of their pages, which are checked: see `Plan.runs`.

        Returns
        -------
        array
            int64, with a row of source byte, target byte and bytes for each run, in the order of the target; without
            rows where nothing goes from the one to the other.  Bytes count from the first one of each rank's buffer, or
            of its pool of pages.

        Raises
        ------
        LayoutError
            When elements change on the way or shift within bytes, when a run is shorter than `least`, and when a table
            does not fit its buffer or belongs to a rank that holds nothing.
        IndexError
            When a rank does not exist.

        See Also
        --------
        fills : The padding of the target.

        Examples
        --------
        >>> import gpulayout as gl
        >>> rows = gl.Sharding.by_mesh("f32[4,6]", {"x": 2}, ("x",))
        >>> gl.exchange(rows, gl.Sharding.by_mesh("f32[4,6]", {"x": 2}, (None, "x"))).runs(1, 0)
        array([[ 0, 24, 12],
               [24, 36, 12]])
        """
        pair = self._rank(source), self._rank(target)
        if pair not in self._boxes:
            page_tables(pages, self.shard(pair[0], self.source), self.shard(pair[1], self.target), page_bytes)
            return np.empty((0, 3), np.int64)
        message = self._message(pair)
        return message.run_list(longest=longest, align=align, least=least, pages=pages, page_bytes=page_bytes).array()

    def fills(self, rank: int) -> Fills | None:
        """List the padding of a rank's target buffer, as `Plan.fills` does; None for a rank that holds nothing."""
        shard = self.shard(self._rank(rank), self.target)
        return None if shard is None else plan(shard, shard).fills()

    # ---- in one process ----------------------------------------------------------------------------------------------

    def new_buffer(self, rank: int, like: Any) -> Any:
        """Memory for what a rank holds afterwards, whose padding has its value.

        Parameters
        ----------
        rank : int
            The rank.
        like : array
            An array of the library and on the device that it shall have; for one of JAX, whose arrays never change, the
            memory is NumPy's or CuPy's.

        Returns
        -------
        array or None
            1-D; None for a rank that holds nothing afterwards.  Its elements are not set.
        """
        shard = self.shard(self._rank(rank), self.target)
        return None if shard is None else new_buffer(shard, like)

    def fill_padding(self, rank: int, out: Any) -> None:
        """Give the padding in a target buffer its value, before messages arrive: they bring elements only."""
        shard = self.shard(self._rank(rank), self.target)
        if shard is not None:
            fill_padding(shard, flat(out, shard, "out", writing=True))

    def move(self, buffers: Sequence[Any], outs: Sequence[Any] | None = None) -> list[Any]:
        """Carry out the exchange between buffers that this process can all reach, without messages.

        Parameters
        ----------
        buffers : sequence of array
            The buffer of every rank of the source; None for a rank that holds nothing.
        outs : sequence of array, optional
            A buffer for every rank of the target, which shares no memory with the others.

        Returns
        -------
        list
            The buffer of every rank of the target; None for a rank that holds nothing.  New ones are of the library and
            on the device of the buffer that the rank had, or else of the first.

        Raises
        ------
        LayoutError
            For more or fewer buffers than ranks.
        TypeError, BufferError
            For buffers that are not those of the shards; all are checked before a byte is written.
        """
        given = _checked(buffers, self.source, "buffers", writing=False)
        if outs is not None:
            made = _checked(outs, self.target, "outs", writing=True)
            read, written = _opened(given), _opened(made)
            check_none_overlap(read, written, ("buffers[{}]", "outs[{}]"))
            for rank, out in enumerate(made):
                if out is not None:
                    self.fill_padding(rank, out)
            self._copy_all(given, made)
            return list(outs)
        first = next((buffer for buffer in buffers if buffer is not None), np.zeros(0, np.uint8))
        likes = [first if buffer is None else buffer for buffer in buffers] + [first] * (self.ranks - len(buffers))
        memory = [shard and new_memory(shard, like) for shard, like in zip(self.target.shards, likes)]
        self._copy_all(given, [each and each[0] for each in memory])
        return [each and each[1]() for each in memory]

    def _copy_all(self, buffers: Sequence[Any], outs: Sequence[Any]) -> None:
        for source, target in self._pairs:
            self._message((source, target)).copy(buffers[source], outs[target])

    # ---- in a process for each rank ----------------------------------------------------------------------------------

    def rounds(self, rank: int, max_bytes: ByteCount | None) -> list[Round]:
        """What a rank sends and receives at a time, so that little memory holds what is packed or arrives packed.

        Parameters
        ----------
        rank : int
            The rank.
        max_bytes : int, str or None
            The most bytes for two rounds: one that is under way, and the next.  None for all messages in one round.

        Returns
        -------
        list of Round
            Each has `sends` and `receives`, the pieces of messages; round k has the k-th piece of each message.  Both
            ranks of a message cut it in the same places.

        Raises
        ------
        LayoutError
            For a `max_bytes` that is too small, with the least.

        Examples
        --------
        >>> import gpulayout as gl
        >>> rows = gl.Sharding("f32[64,64]", [slice(0, 32), slice(32, 64)])
        >>> columns = gl.Sharding("f32[64,64]", [(..., slice(0, 32)), (..., slice(32, 64))])
        >>> for number, each in enumerate(gl.exchange(rows, columns).rounds(0, 8192)):
        ...     print(number, each.sends, each.receives[0].boxes)
        0 (<Message from rank 0 to rank 1, 2048 bytes>,) (((32, 48), (0, 32)),)
        1 (<Message from rank 0 to rank 1, 2048 bytes>,) (((48, 64), (0, 32)),)
        """
        asked = self._rank(rank), None if max_bytes is None else byte_count("max_bytes", max_bytes)
        kept = self.__dict__.get("_rounds")
        if kept is None or kept[0] != asked:
            counts = [len(sent) + len(received) for sent, received in zip(*self._by_rank)]
            most = most_of_a_piece(counts, asked[1])
            made = rounds_of(asked[0], self.sends(rank), self.receives(rank), most)
            kept = self.__dict__["_rounds"] = asked, made
        rounds: list[Round] = kept[1]
        return rounds

    def run(
        self,
        buffer: Any,
        group: Any = None,
        *,
        out: Any = None,
        max_bytes: ByteCount | None = "64M",
        check: bool = True,
    ) -> Any:
        """Carry out the exchange on torch.distributed.  Every process of the group calls it with its rank's buffer.

        Parameters
        ----------
        buffer : array or None
            The buffer of this rank in the source, of PyTorch or NumPy; None for a rank that holds nothing.
        group : torch.distributed.ProcessGroup, optional
            As many processes as the exchange has ranks; rank k of the group is rank k of both shardings.  By default
            all processes.
        out : array, optional
            The buffer of this rank in the target, in memory apart from `buffer`.
        max_bytes : int or str, optional
            The most bytes that this rank allocates for packed messages, besides the two buffers.  Larger messages are
            sent in pieces.  None sets no limit.
        check : bool, optional
            Whether the ranks first compare what they are about to run.  Without this check, a mistake on one rank makes
            the others wait until the group times out; and NCCL requires every rank of a group to join its first call,
            as this check does.

        Returns
        -------
        array or None
            `out` if given, else a new buffer of the same library as `buffer`, or of PyTorch if `buffer` is None.  None
            for a rank that holds nothing in the target.

        Raises
        ------
        LayoutError, TypeError, BufferError
            When the group has another size, or a buffer does not fit its shard.  Nothing has been sent or written;
            with `check`, every rank gets an error that names the first rank with a problem.
        LayoutError
            With `check`, when ranks run different exchanges.
        ConnectionError
            When another process has ended, or does not answer within the group's timeout.  `out` is incomplete then.

        See Also
        --------
        move : The same in one process.

        Notes
        -----
        Like all of torch.distributed, calls on a group have the same order on every rank, and each thread needs a group
        of its own.  After ConnectionError, and after Ctrl-C, destroy the group.

        Examples
        --------
        A group of one process, which sends nothing:

        >>> import numpy as np, tempfile, gpulayout as gl
        >>> import torch.distributed as dist                                                    # doctest: +SKIP
        >>> dist.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://localhost:29500")  # doctest: +SKIP
        >>> to_tiles = gl.exchange(gl.Sharding("f32[4,6]", [...]), gl.Sharding("f32[4,6]{0,1:T(2)}", [...]))
        >>> to_tiles.run(np.arange(24, dtype=np.float32)).shape                                 # doctest: +SKIP
        (24,)
        """
        from gpulayout.shards.group_run import run

        return run(self, buffer, group, out, max_bytes, check)


def _opened(buffers: Sequence[Any]) -> list[tuple[Backend, AnyArray, int]]:
    """The buffers of ranks that have one, each with its rank."""
    return [(*open_array(buffer, "buffer"), rank) for rank, buffer in enumerate(buffers) if buffer is not None]


def _checked(buffers: Sequence[Any], side: Sharding, role: str, *, writing: bool) -> list[Any]:
    """The buffers of all ranks, flat; LayoutError, TypeError or BufferError for others."""
    if isinstance(buffers, (str, bytes)) or not isinstance(buffers, Sequence):
        raise TypeError(f"{role} is {value_text(type(buffers).__name__)}: write a list with a buffer for each rank")
    if len(buffers) != side.ranks:
        raise LayoutError(f"{role} has {counted(len(buffers), 'entry')}, but {side!r} has {side.ranks}")
    checked: list[Any] = []
    for rank, (buffer, shard) in enumerate(zip(buffers, side.shards)):
        if shard is None and buffer is not None:
            raise LayoutError(f"{role}[{rank}] is an array, but rank {rank} of {side!r} holds nothing: write None")
        if buffer is None and shard is not None and shard.element_count:
            raise LayoutError(f"{role}[{rank}] is None, but rank {rank} of {side!r} holds {shard}")
        if shard is None or buffer is None:
            checked.append(None)
        else:
            checked.append(flat(buffer, shard, f"{role}[{rank}]", writing=writing))
    return checked


def exchange(source: Sharding, target: Sharding, **options: Unpack[ArithmeticOptions]) -> Exchange:
    """Plan what has to go from rank to rank so that an array that is held one way is held another way.

    Parameters
    ----------
    source, target : Sharding
        The array as it is held before and after, by as many ranks as each of them says.
    **options
        ``dtype=``, ``scale=`` and more change the elements on the way, as `plan` takes them: see `ArithmeticOptions`.
        Parameters are those of the whole array.

    Returns
    -------
    Exchange
        The messages, and ways to carry them out.  It is the same on every rank.

    Raises
    ------
    LayoutError
        For shardings of arrays of other dimensions, or of other element types without arithmetic; and where an element
        of the target is held by no rank of the source, with its index.

    See Also
    --------
    Exchange.run : Carries it out on torch.distributed.
    Exchange.move : Carries it out in one process.

    Notes
    -----
    What a rank holds already stays there, so no fewer bytes could travel.

    Examples
    --------
    >>> import gpulayout as gl
    >>> four = gl.Sharding.by_mesh("bf16[1024,512]", {"tp": 4}, ("tp",))
    >>> two = gl.Sharding.by_mesh("bf16[1024,512]", {"tp": 2}, (None, "tp"))
    >>> gl.exchange(four, two)
    <Exchange of bf16[1024,512]{1,0} from 4 ranks to 2: 6 messages>
    """
    return Exchange(source, target, options)
