"""Tensors of a file for a model: what each of them is, and its bytes in new memory, in the model's or over a map."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from gpulayout.arrays.arrays import open_array
from gpulayout.files.checkpoints.gguf import is_gguf
from gpulayout.files.checkpoints.header import StoredTensor, notes_of, plain_sides_of, tensor_text
from gpulayout.files.checkpoints.opening import Checkpoint, Shard
from gpulayout.files.elements import became_shorter, read_at
from gpulayout.files.errors import FileError
from gpulayout.torch.mapped_bytes import FileSpan, map_end
from gpulayout.torch.misfits import shown_name
from gpulayout.torch.notes import Note
from gpulayout.torch.packed_forms import plain_form
from gpulayout.torch.packed_tensor import packed_from
from gpulayout.torch.stored_notes import note_in_file, stored_type

STAGE = 1 << 26  # bytes between a file and another device


def is_on_host(room: Any) -> bool:
    """True for memory that a file can be read into, and written from."""
    return bool(room.is_cpu)


def host_bytes(tensor: Any, *, writing: bool = False) -> memoryview:
    """The memory of a tensor of bytes on the host."""
    view: memoryview = open_array(tensor, "tensor", writing=writing)[1].data
    return view


class Given(NamedTuple):
    """A tensor of a file.

    note   of a packed one; None for a plain one
    text   of its layout, as the file has it
    is_sure   False where the file does not say what the plain tensor is
    """

    shard: Shard
    stored: StoredTensor
    note: Note | None
    text: str | None
    is_sure: bool

    def for_plain(self, tensor: Any) -> Given:
        """The same for a plain tensor of a model, which may hold the array itself where the file has it in words."""
        has, forms = (tensor.dtype, tuple(tensor.shape)), self.forms()
        if self.note is None or has not in forms[2:] or has in forms[:2]:
            return self
        return self._replace(note=self.note._replace(source=None, plain=plain_form(self.note.packed.shape, None)))

    def forms(self) -> list[tuple[Any, tuple[int, ...]]]:
        """The dtypes and the sizes that a plain tensor of a model may have for a packed one: its plain form, its packed
        one, and the array in place of words."""
        if self.note is None:
            return []
        forms = [self.note.plain, self.note.packed]
        if self.note.source is not None:
            forms.append(plain_form(self.note.packed.shape, None))
        return [(each.dtype, each.sizes) for each in forms]

    @property
    def file(self) -> str:
        """The name of its file."""
        return str(self.shard.path)

    def is_like(self, note: Note) -> bool:
        """True for bytes that lie as those of a packed tensor."""
        if self.note is None:
            return False
        is_named = not self.is_sure and self.note.name == note.name
        return self.note.packed.shape == note.packed.shape or (
            is_named and self.note.packed.nbytes == note.packed.nbytes
        )

    def facts(self) -> tuple[Any, tuple[int, ...]]:
        """The dtype and the sizes of its plain tensor."""
        if self.note is not None:
            return self.note.plain.dtype, self.note.plain.sizes
        return stored_type(self.stored), self.stored.dimensions

    def read_into(self, room: Any) -> None:
        """Fill memory of as many bytes, on any device."""
        size = self.stored.nbytes
        stage = room if is_on_host(room) else torch.empty(min(size, STAGE), dtype=torch.uint8, pin_memory=room.is_cuda)
        for start in range(0, size, max(len(stage), 1)):
            part = stage[: min(len(stage), size - start)]
            view = host_bytes(part, writing=True)
            if read_at(self.shard.stream, view, self.shard.begin(self.stored) + start, self.file) < len(view):
                who = tensor_text(self.stored.name)
                raise became_shorter(self.shard.stream, self.file, f"and {who} is not whole")
            if stage is not room:
                room[start : start + len(part)].copy_(part)

    @property
    def room(self) -> int:
        """Bytes of its memory."""
        return self.stored.nbytes if self.note is None else self.note.nbytes

    def span(self) -> FileSpan | None:
        """Where it lies in its file; None if its elements cannot be used there, or nothing is there."""
        begin = self.shard.begin(self.stored)
        types = [self.facts()[0]] + ([] if self.note is None else [self.note.packed.dtype])
        is_there = not any(begin % each.itemsize for each in types) and begin + self.room <= map_end(self.shard)
        return FileSpan(self.shard, begin, begin + self.room) if self.room and is_there else None

    def tensor(self, device: Any) -> Any:
        """The tensor in new memory, packed if it is packed in the file."""
        room = torch.empty(self.room, dtype=torch.uint8, device=device)
        self.read_into(room[: self.stored.nbytes])
        return self.over(room)

    def over(self, room: Any) -> Any:
        """The tensor over memory that has its bytes."""
        if self.note is not None:
            return packed_from(self.note.packed.tensor(room), self.note)
        dtype, sizes = self.facts()
        return room.view(dtype).view(sizes) if len(room) else torch.empty(sizes, dtype=dtype, device=room.device)


def given_tensors(checkpoint: Checkpoint) -> dict[str, Given]:
    """All tensors of a file; `FileError` for notes that are not true, and for GGUF, whose blocks no tensor has."""
    given: dict[str, Given] = {}
    known: dict[object, Note] = {}  # layers of a model have the same ones, and to read one takes long
    for shard in checkpoint.shards:
        if is_gguf(shard.path):
            raise FileError(f"{shard.path}: gpulayout relayout makes a safetensors file of GGUF, which can be loaded")
        file, tensors = str(shard.path), {each.name: each for each in shard.contents.tensors}
        notes, sides = notes_of(shard.contents.metadata), plain_sides_of(shard.contents.metadata)
        for name in (*notes, *sides):
            if name not in tensors or name not in notes:
                what = "a plain tensor, but no note, for" if name in tensors else "a note about a tensor that it lacks,"
                raise FileError(f"{file}: its metadata has {what} {shown_name(name)}")
        for name, tensor in tensors.items():
            text, side = notes.get(name), sides.get(name)
            key = tensor.dtype, tensor.dimensions, text, side
            if text is not None and key not in known:
                known[key] = note_in_file(file, tensor, text, side)
            given[name] = Given(shard, tensor, known.get(key), text, side is not None)
    return given
