"""The move of one array as Python and the command line ask for it: its plan, and its passes in blocks.

It goes from a file or from memory into a new file.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex, Unpack

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.arrays.shaped_buffer import ShapedBuffer
from gpulayout.calls.array_elements import host_bytes
from gpulayout.files.elements import Elements, buffer_header, new_target, open_source
from gpulayout.files.engine import Progress, jobs_of, move_jobs, report_of
from gpulayout.files.errors import Note, warn
from gpulayout.files.new_file import check_output, scratch_file, scratch_name
from gpulayout.files.npy import Header, array_shape, buffer_shape, changing_shape, is_npy_name, npy_order
from gpulayout.files.plain_bytes import PlainBytes
from gpulayout.files.route import Route, sensible_route
from gpulayout.files.standard_streams import File, output_name
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.plans.plan import Plan, plan
from gpulayout.requests.arithmetic import Asked, swapped
from gpulayout.requests.shape_arguments import axis_names, layout_for


@dataclass(frozen=True)
class ArrayMove:
    """Where an array comes from, where it goes, and how much memory the move may take.

    source      a file, or an `Array`
    max_bytes   as text or a number; None for a part of what is free
    scratch     the folder of a scratch file; None for one pass
    """

    source: File | ShapedBuffer[Any]
    target: File
    plain: PlainBytes
    max_bytes: SupportsIndex | str | None = None
    scratch: Path | None = None
    overwrite: bool = False

    @contextlib.contextmanager
    def planned(
        self,
        from_: Shape | None,
        to: Shape | Layout | str | None,
        *,
        flat: bool = False,
        **options: Unpack[ArithmeticOptions],
    ) -> Iterator[tuple[FilePlan, Route]]:
        """What will be done, after every check and with the source open inside the `with`; arguments of `file_plan`."""
        source = None if isinstance(self.source, ShapedBuffer) else self.source
        check_output(self.target, source, overwrite=self.overwrite)
        with self._elements(from_) as elements:
            plan = file_plan(elements, self.target, from_, to, self.plain, flat=flat, **options)
            yield plan, sensible_route(plan.relayout, self.max_bytes, self.scratch)

    def _elements(self, from_: Shape | None) -> AbstractContextManager[Elements]:
        if not isinstance(self.source, ShapedBuffer):
            return open_source(self.source, from_, self.plain)
        header = buffer_header("the gl.Array", self.source.layout_shape)
        return nullcontext(Elements(header, 0, None, host_bytes(self.source)))

    def run(self, plan: FilePlan, route: Route, progress: Progress, note: Note = warn) -> float:
        """Write the new file as planned.  Returns seconds, with the time to write it to the disk."""
        start, target = time.perf_counter(), self.target
        report = report_of(progress, route.bytes_read + route.bytes_written)
        with contextlib.ExitStack() as stack:
            new = new_target(target, plan.header, plain=plan.is_plain, overwrite=self.overwrite, note=note)
            files = [plan.source, stack.enter_context(new)]
            if route.scratch is not None:
                files.insert(1, stack.enter_context(_scratch_file(route.scratch, route.passes[0].plan.target)))
            for blocks, source, written in zip(route.passes, files, files[1:]):
                move_jobs(jobs_of(blocks, source, written), report, pairs=route.pairs(blocks))
        return time.perf_counter() - start


@dataclass(frozen=True)
class FilePlan:
    """A move from an open file to a new one.

    relayout   the plan between the shapes of the two files; a buffer's bytes are those of a file's elements
    header     of the new file
    is_plain   True when the new file is its elements alone, without a header
    is_array   True when its header says all about it: an N-d array; False for a buffer, which is 1-D
    """

    source: Elements
    relayout: Plan
    header: Header
    is_plain: bool
    is_array: bool


def file_plan(
    source: Elements,
    target: File,
    from_: Shape | None,
    to: Shape | Layout | str | None,
    plain: PlainBytes,
    *,
    flat: bool = False,
    **options: Unpack[ArithmeticOptions],
) -> FilePlan:
    """The move of a buffer of the shape `from_`, or else of the N-d array that the file describes.

    to     what the new file gets, as `requests.shape_arguments` reads it; None for an N-d array in C order
    plain  if it is `raw`, a buffer gets no header, whatever the name of the new file is; if it is not `strict`, the
           first elements are taken of a 1-D file that is longer than `from_`
    flat   a buffer is 1-D, also where a .npy file could keep the dimensions
    **options change the elements on the way
    """
    names = axis_names(to, len((from_ or source.header).dimensions))
    if isinstance(to, str):
        known = from_ or source.header
        if is_only_layout(to):
            kind = _type_of_result(source.header, from_, Asked(options))
            to = layout_for(to, known.dimensions, element_type=kind, packed_as=None if from_ is None else from_.layout)
        else:
            to = as_shape(to, "target")
    if from_ is not None:
        shape = buffer_shape(source.header, from_, strict=plain.strict)
    else:
        shape = changing_shape(source.header, to) if Asked(options) else array_shape(source.header, to)
    relayout = plan(shape, Layout.descending(shape.rank) if to is None else to, names=names, **options)
    is_plain = (plain.raw and to is not None) or not is_npy_name(target)
    if source.header.swapped:
        change = swapped(relayout.change, relayout.source.element_type)
        relayout = Plan(relayout.source, relayout.target, relayout.names, change)
    order = None if is_plain or flat else npy_order(relayout.target)
    dimensions = (relayout.target.buffer_length,) if order is None else relayout.target.dimensions
    keeps = (relayout.change is None or relayout.change.arithmetic.keeps_numbers) and not relayout.target.is_packed
    dtype = source.header.dtype if keeps else relayout.target.buffer_dtype
    header = Header(output_name(target), dtype, dimensions, order == "F")
    return FilePlan(source, relayout, header, is_plain, order is not None)


def _type_of_result(header: Header, from_: Shape | None, asked: Asked) -> ElementType | None:
    """The element type of the new file, on which a layout by name may depend; None if its elements are opaque."""
    if asked.dtype is not None:
        return asked.dtype
    if from_ is not None:
        return from_.element_type
    return None if header.dtype.kind == "V" else array_shape(header, None).element_type


@contextlib.contextmanager
def _scratch_file(folder: Path, shape: Shape) -> Iterator[Elements]:
    """A file without a name for a buffer of a shape, to be written and then read.  Its space is reserved at once.

    Nothing is left of it.
    """
    with scratch_file(folder, shape.nbytes) as stream:
        yield Elements(buffer_header(scratch_name(folder), shape), 0, stream)
