"""A model file that is written from memory, tensor by tensor, with notes about those that are packed.

A note gives the layout of a tensor's bytes, as in every file of the package.  A second entry describes the plain tensor
that they can be unpacked to: the order of its axes, and the words that hold its elements.

    "__metadata__": {"gpulayout:up.weight": "marlin:weights[4096,4096]",
                     "gpulayout-plain:up.weight": "..."}
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gpulayout.files.checkpoints.header import arranged, header_text, metadata_with, why_no_name
from gpulayout.files.checkpoints.model_folders import ENDING
from gpulayout.files.checkpoints.opening import check_is_new_checkpoint
from gpulayout.files.checkpoints.stored import Stored
from gpulayout.files.elements import write_at
from gpulayout.files.errors import FileError
from gpulayout.files.new_file import check_new_file, new_file_of_size

Write = Callable[[str, int, memoryview], None]  # of a tensor, from a byte of it on, these bytes


class NewTensor(NamedTuple):
    """One tensor of a new file.

    stored   the fields of its header, and its note
    plain    the plain side of a packed tensor, as text
    """

    name: str
    stored: Stored
    plain: str | None = None


def check_new_model(path: Path, *, overwrite: bool) -> None:
    """`FileError` for a name under which no reader finds such a model, and for one that is taken."""
    check_is_new_checkpoint(path, path)
    if not path.name.lower().endswith(ENDING):
        raise FileError(f"{path}: the name of a model in one file ends in {ENDING}")
    check_new_file(path, None, overwrite=overwrite)


@contextlib.contextmanager
def new_model(
    path: Path, tensors: Iterable[NewTensor], metadata: Mapping[str, str], *, overwrite: bool
) -> Iterator[Write]:
    """A new file of these tensors, whose bytes are written inside the `with`.  It appears whole or not at all."""
    tensors = [*tensors]
    for each in tensors:
        if problem := why_no_name(each.name):
            raise FileError(f"{path}: no tensor of such a file can be called {ascii(each.name)}: {problem}")
    placed = {
        each.name: each for each in arranged((each.name, each.stored.dtype, each.stored.dimensions) for each in tensors)
    }
    notes = {each.name: each.stored.note for each in tensors if each.stored.note is not None}
    sides = {each.name: each.plain for each in tensors if each.plain is not None}
    header = header_text(metadata_with(None, metadata, notes, sides), placed.values())
    size = len(header) + max((each.end for each in placed.values()), default=0)
    with new_file_of_size(path, header, size, overwrite=overwrite) as stream:
        yield lambda name, start, part: write_at(stream, part, len(header) + placed[name].begin + start, str(path))
