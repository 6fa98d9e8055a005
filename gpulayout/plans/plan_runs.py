"""What a plan copies, as addresses: runs of bytes for whatever else carries bytes, such as an RDMA engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from gpulayout.layout.checks import ByteCount
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.listing import Fills, fill_list, run_list
from gpulayout.moves.pieces import Pieces
from gpulayout.moves.run_list import RunList, RunRows
from gpulayout.plans.plan_value import PlanValue

Pages = Sequence[Any] | None  # (source_table, target_table), and their (source_bytes, target_bytes)


class PlanRuns(PlanValue):
    """See `Plan`, the only class derived from it."""

    __slots__ = ()

    pieces: Pieces

    @overload
    def runs(
        self, *, longest: ByteCount | None = None, align: ByteCount | None = None, least: ByteCount | None = None,
        pages: Pages = None, page_bytes: Pages = None,
    ) -> RunRows: ...  # fmt: skip
    @overload
    def runs(
        self, *, longest: ByteCount | None = None, align: ByteCount | None = None, least: ByteCount | None = None,
        max_runs: int, pages: Pages = None, page_bytes: Pages = None,
    ) -> Iterator[RunRows]: ...  # fmt: skip
    def runs(
        self,
        *,
        longest: ByteCount | None = None,
        align: ByteCount | None = None,
        least: ByteCount | None = None,
        max_runs: int | None = None,
        pages: Pages = None,
        page_bytes: Pages = None,
    ) -> RunRows | Iterator[RunRows]:
        """List what to copy: source byte, target byte and bytes of every run.

        Parameters
        ----------
        longest : int or str, optional
            The most bytes of a run, such as ``"64K"``; longer ones are cut.
        align : int or str, optional
            Such cuts fall on bytes of the target that are multiples of it.  Needs `longest`.
        least : int or str, optional
            The fewest bytes that a run may have.
        max_runs : int, optional
            The most runs of an array.  Then there are several, one after the other.
        pages : pair of arrays of integers, optional
            The page tables of the source and of the target, None for a side without one.  Page k of a side, of as many
            pages of equal size as its table has entries, lies at ``table[k]`` times that size; runs have these
            addresses.  So blocks of a KV cache are pages.
        page_bytes : pair of int or str, optional
            The bytes of a page of the source and of the target, None for a side without pages.  They are checked: a
            table with an entry too many, or without those of all layers, is an error and no other size of pages.

        Returns
        -------
        array, or iterator of arrays
            int64, with 3 columns, in the order of the target.  No two neighbours could be one run.  Together with
            `fills` the runs write every byte of the target once.

        Raises
        ------
        LayoutError
            For arithmetic, and for packed elements that shift within bytes; for tables that do not suit the buffers,
            or have a page of the target twice; when a run is shorter than `least`, with the shortest: its bytes, and
            where it lies.  Nothing is listed before.

        See Also
        --------
        run_list : The number of runs, before they are listed.
        fills : The padding.

        Examples
        --------
        >>> from gpulayout import plan
        >>> plan("f32[2,3]", "{1,0:PD(2,4)}").runs()
        array([[ 0,  0, 12],
               [12, 16, 12]])

        Two blocks of 2 tokens become one of 4, page 5 of its own pool:

        >>> plan("u8[4,8]", "{1,0}").runs(pages=([7, 3], [5]))
        array([[112, 160,  16],
               [ 48, 176,  16]])
        """
        listed = self.run_list(longest=longest, align=align, least=least, pages=pages, page_bytes=page_bytes)
        return listed.array() if max_runs is None else listed.parts(max_runs)

    def run_list(
        self,
        *,
        longest: ByteCount | None = None,
        align: ByteCount | None = None,
        least: ByteCount | None = None,
        pages: Pages = None,
        page_bytes: Pages = None,
    ) -> RunList:
        """Plan a list of runs: how many there are, and the shortest, before any are listed.

        Parameters
        ----------
        longest, align, least, pages, page_bytes
            See `runs`.

        Returns
        -------
        RunList
            Its `array` and `parts` list the runs.

        Raises
        ------
        LayoutError
            As `runs` raises it.

        Examples
        --------
        >>> from gpulayout import plan
        >>> plan("f32[39000,39001]", "{0,1}").run_list()
        <1521039000 runs, 6084156000 bytes, the shortest 4>
        """
        self._check_copies()
        return run_list(
            self.pieces, self.source, self.target,
            longest=longest, align=align, least=least, pages=pages, page_bytes=page_bytes,
        )  # fmt: skip

    def fills(
        self,
        *,
        longest: ByteCount | None = None,
        align: ByteCount | None = None,
        least: ByteCount | None = None,
        pages: Pages = None,
        page_bytes: Pages = None,
    ) -> Fills:
        """List the padding of the target: target byte and bytes of every run, and what to write there.

        Parameters
        ----------
        longest, align, least, pages, page_bytes
            See `runs`.  No cut falls inside a padding element.

        Returns
        -------
        Fills
            `runs`, an array of 2 columns, and `value`, the bytes of one padding element.

        Raises
        ------
        LayoutError
            As `runs` raises it.

        Examples
        --------
        >>> from gpulayout import plan
        >>> plan("f32[2,3]", "{1,0:PD(2,4)}").fills()
        Fills(runs=array([[12,  4],
               [28,  4]]), value=b'\\x00\\x00\\x00\\x00')
        """
        self._check_copies()
        return fill_list(
            self.pieces, self.source, self.target,
            longest=longest, align=align, least=least, pages=pages, page_bytes=page_bytes,
        )  # fmt: skip

    def _check_copies(self) -> None:
        """LayoutError for arithmetic, also on an array without elements."""
        if self.change is not None:
            raise LayoutError(
                f"{self.source} to {self.target} has no list of runs: {self.change.arithmetic.form} changes elements "
                "on the way; list the runs of a plan without it, and change elements before or after"
            )
