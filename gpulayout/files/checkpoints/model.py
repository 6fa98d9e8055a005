"""The tensors of all inputs of a relayout, by name."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpulayout.files.checkpoints.header import StoredTensor, notes_of, plain_sides_of, tensor_text
from gpulayout.files.checkpoints.opening import Checkpoint, Shard
from gpulayout.files.checkpoints.views import noted_shape
from gpulayout.files.elements import Bytes, Elements, became_shorter, read_at
from gpulayout.files.npy import Header
from gpulayout.files.pieces import FilePiece, Pieces
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.runs import Runs

COMPARED = 1 << 20  # bytes of two tensors that are read at a time
Found = tuple[Shard, StoredTensor]


@contextlib.contextmanager
def about_tensor(name: str, lies: object) -> Iterator[None]:
    """Errors inside the `with` name the tensor, and say how it lies."""
    origin = f"tensor {value_text(name)}, {lies}"
    try:
        yield
    except LayoutError as error:
        if str(error).startswith(origin):  # it was named where the tensor was read
            raise
        raise LayoutError(f"{origin}: {error}") from None
    except TypeError as error:
        raise TypeError(f"{origin}: {error}") from None


@dataclass(frozen=True)
class Model:
    """All tensors of the inputs.

    tensors  by name: one for each input that has it
    notes    about them
    sides    what the files say of the plain tensors of those with a note
    inputs   how many there are
    input_of the number of the input of a file, by the `id` of the file
    measured the tensors of scales that are measured, each with the name of the tensor that it is measured from
    same     the names of tensors that were compared, and are the same in all inputs that have them
    """

    tensors: Mapping[str, tuple[Found, ...]]
    notes: Mapping[str, str]
    sides: Mapping[str, str]
    inputs: int
    input_of: Mapping[int, int]
    measured: Mapping[str, str] = field(default_factory=dict)
    same: set[str] = field(default_factory=set)

    def first(self, name: str) -> StoredTensor:
        """A tensor as the first input with it has it."""
        return self.tensors[name][0][1]

    def dimensions(self, name: str) -> tuple[int, ...]:
        """Those of a tensor in the first input; with a note, of what it describes."""
        tensor, note = self.first(name), self.notes.get(name)
        return tensor.dimensions if note is None else noted_shape(tensor, note).dimensions


def model_of(source: Checkpoint) -> Model:
    """All tensors of a checkpoint; `LayoutError` for a file that is given twice, and for inputs whose notes differ."""
    tensors: dict[str, list[Found]] = {}
    notes: dict[str, str] = {}
    sides: dict[str, str] = {}
    _check_each_once(source)
    for shard in source.shards:
        own, plain = notes_of(shard.contents.metadata), plain_sides_of(shard.contents.metadata)
        for tensor in shard.contents.tensors:
            found = tensors.setdefault(tensor.name, [])
            found.append((shard, tensor))
            if found[1:] and own.get(tensor.name) != notes.get(tensor.name):
                raise LayoutError(_about_notes(tensor, notes, found[0][0], own, shard))
            if found[1:] and plain.get(tensor.name) != sides.get(tensor.name):
                sides.pop(tensor.name, None)  # files that do not agree say nothing
            elif tensor.name in own and tensor.name in plain:
                sides[tensor.name] = plain[tensor.name]
            if tensor.name in own:
                notes[tensor.name] = own[tensor.name]
    input_of = {id(shard): number for number, shards in enumerate(source.inputs) for shard in shards}
    by_name = {name: tuple(found) for name, found in tensors.items()}
    return Model(by_name, notes, sides, len(source.inputs), input_of, same=source.same)


def _about_notes(
    tensor: StoredTensor, first: Mapping[str, str], one: Shard, second: Mapping[str, str], other: Shard
) -> str:
    """What to write where two inputs have different notes about a tensor, as for pieces of different sizes."""
    said = [
        f"{value_text(clipped(notes[tensor.name], 80)) if tensor.name in notes else 'none'} in {shard.path}"
        for notes, shard in ((first, one), (second, other))
    ]
    return (
        f"the notes about {tensor_text(tensor.name)} differ, {' and '.join(said)}: gpulayout unpack makes arrays of "
        "both, which can be put together"
    )


def _check_each_once(source: Checkpoint) -> None:
    """`LayoutError` for a file that is given twice, also under two names."""
    paths: dict[tuple[int, int], Path] = {}
    for shard in source.shards if len(source.inputs) > 1 else ():
        status = os.fstat(shard.stream.fileno())
        first = paths.setdefault((status.st_dev, status.st_ino), shard.path)
        if first is not shard.path:
            what = "is given twice" if first == shard.path else f"and {shard.path} are the same file"
            raise LayoutError(f"{first} {what}: several inputs are put together")


def check_order(paths: Sequence[Path]) -> None:
    """`LayoutError` for files that hold pieces, whose names differ in one number alone, in another order than its own.

    A shell sorts rank10 before rank2.
    """
    split = [re.split(r"(\d+)", str(path)) for path in paths]
    if len({(len(each), *each[::2]) for each in split}) > 1:
        return
    columns = [*zip(*(map(int, each[1::2]) for each in split))]
    varying = [column for column in columns if len({*column}) > 1]
    if len(varying) == 1 and [*varying[0]] != sorted(varying[0]):
        by_number = [path.name for _, path in sorted(zip(varying[0], paths))]
        raise LayoutError(
            f"the inputs are numbered {', '.join(map(str, varying[0]))}, and pieces are put together in the order in "
            f"which they are named: write {' '.join(by_number)}"
        )


def same_in_all(model: Model, name: str) -> Found:
    """The one tensor of a name; `LayoutError` where only some of the inputs have it, or where they differ."""
    found = model.tensors[name]
    first = found[0]
    if len(found) == 1 or name in model.same:
        return first
    if name in model.measured:
        raise LayoutError(
            f"{tensor_text(name)} is measured from each of {len(found)} pieces of {tensor_text(model.measured[name])}, "
            f"one of each input: a rule must say along which axis they are to be joined, such as "
            f"'{re.escape(name)}=along=0', or that it is left out, '...=drop'"
        )
    for each in found[1:]:
        if str(each[1]) != str(first[1]) or not equal_bytes(first, each):
            raise LayoutError(
                f"{tensor_text(name)} is {first[1]} in {first[0].path} and {each[1]} in {each[0].path}, and not the "
                "same there: a rule must say along which axis they are to be joined, such as "
                f"'{re.escape(name)}=along=0', or that it is left out, '...=drop'"
            )
    model.same.add(name)
    return first


def equal_bytes(one: Found, other: Found) -> bool:
    """True for two tensors of the same bytes, which are read."""
    starts = range(0, one[1].nbytes, COMPARED)
    return all(
        np.array_equal(read_tensor(one, start, COMPARED), read_tensor(other, start, COMPARED)) for start in starts
    )


def read_tensor(found: Found, start: int = 0, most: int = sys.maxsize) -> Bytes:
    """Bytes of a tensor from one on, as many as there are, or as are asked for."""
    shard, tensor = found
    shard.prepare(tensor)
    read: Bytes = np.empty(min(most, tensor.nbytes - start), np.uint8)
    if tensor.blocks is not None:
        elements_of(found).read_runs(read.data, np.array([start]), read.size)
    elif read_at(shard.stream, read.data, shard.begin(tensor) + start, str(shard.path)) < read.size:
        raise became_shorter(shard.stream, str(shard.path), f"and {tensor_text(tensor.name)} is not whole")
    return read


def elements_of(found: Found) -> Elements | Pieces:
    """The bytes of a tensor as a move reads them, where it is consecutive and where it lies in blocks."""
    shard, tensor = found
    name = f"{tensor_text(tensor.name)} of {shard.path}"
    header = Header(name, np.dtype(np.uint8), (tensor.nbytes,), False, "it")
    if tensor.blocks is None:
        return Elements(header, shard.begin(tensor), shard.stream)
    taken, step = tensor.blocks
    runs = Runs(shard.begin(tensor), taken, ((tensor.nbytes // taken, step),))
    return Pieces(header, ((FilePiece(shard.stream, name, runs),),))
