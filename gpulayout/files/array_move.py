"""The move of one array as a caller asks for it: from Python or from the command line, from a file or from memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex, Unpack

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.arrays.shaped_buffer import ShapedBuffer
from gpulayout.calls.array_elements import host_bytes
from gpulayout.files.elements import Elements, buffer_header, open_source
from gpulayout.files.engine import Progress
from gpulayout.files.errors import Note, warn
from gpulayout.files.move import FilePlan, file_plan, move
from gpulayout.files.new_file import check_output
from gpulayout.files.plain_bytes import PlainBytes
from gpulayout.files.route import Route, sensible_route
from gpulayout.files.standard_streams import File
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


@dataclass(frozen=True)
class ArrayMove:
    """Where an array comes from, where it goes, and what it may take.

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
        return move(plan, self.target, route, progress, overwrite=self.overwrite, note=note)
