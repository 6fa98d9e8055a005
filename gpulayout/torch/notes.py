"""Notes: what packed memory holds.  A note belongs to memory, not to a tensor, so every tensor over it finds the note.

torch keeps the Python object of a storage for as long as the storage lives.  Its attribute `gpulayout` has the spaces
in it, each with its first byte: `p`, `p.detach()`, `p.data`, `nn.Parameter(p.data)` and what `state_dict()` holds are
other tensors over one storage, and all of them are packed or none.  `gpulayout_lock` is its lock, see `lock_of`.

    storage of 8192 bytes      space at byte 0, room for 8192: marlin:weights(dtype=u4)[64,128] in its first 4096 bytes
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple

import torch

from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.torch.memory import Call, as_made, bytes_reached, described, first_byte, memory


class Form(NamedTuple):
    """A tensor over the first bytes of a space, and how the logical array lies in them.

    shape            of the logical array
    dtype, sizes     of the tensor; strides in elements
    """

    shape: Shape
    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        return self.shape.nbytes

    def buffer(self, memory: Any) -> Any:
        """The form's bytes as the 1-D buffer that the package's functions take; `memory` is of bytes."""
        return memory[: self.nbytes].view(buffer_type(self.shape))

    def buffer_of(self, tensor: Any) -> Any:
        """The same of a plain tensor that is all of these bytes."""
        flat, dtype = tensor.view(-1), buffer_type(self.shape)
        return flat if flat.dtype is dtype else flat.view(dtype)

    def tensor(self, memory: Any) -> Any:
        """The tensor over the memory."""
        with as_made(memory):
            flat = memory[: self.nbytes].view(self.dtype)
            return flat.as_strided(self.sizes, self.strides)

    def facts(self) -> tuple[str, str, tuple[int, ...], tuple[int, ...]]:
        """The form as plain values."""
        return str(self.shape), str(self.dtype).removeprefix("torch."), self.sizes, self.strides

    def check(self) -> None:
        """ValueError for a tensor that is not all of the memory."""
        count, sides = math.prod(self.sizes), [*zip(self.sizes, self.strides, strict=True)]
        if min((*self.sizes, *self.strides), default=0) < 0 or (count and not _is_dense(sides)):
            raise ValueError(f"sizes {self.sizes} and strides {self.strides} are of no tensor without gaps")
        if count * self.dtype.itemsize != self.nbytes:
            raise ValueError(f"{self.dtype} of {self.sizes} has not the {self.nbytes} bytes of {self.shape}")

    @staticmethod
    def of_facts(facts: Any) -> Form:
        """The form of plain values; LayoutError for what is none."""
        try:
            shape, dtype, sizes, strides = facts
            form = Form(as_shape(shape), torch_type(dtype), tuple(map(int, sizes)), tuple(map(int, strides)))
            form.check()
            return form
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise LayoutError(f"a note of a packed tensor cannot be read: {error}") from None


def _is_dense(sides: Iterable[tuple[int, int]]) -> bool:
    """True for sizes and strides that have an element at every place, and no two at one."""
    place = 1
    for stride, size in sorted((stride, size) for size, stride in sides if size > 1):
        if stride != place:
            return False
        place *= size
    return True


class Note(NamedTuple):
    """What packed memory holds.

    name      of the packed layout, as people read it
    source    how words of a checkpoint hold the logical array, if the plain tensor is not the array itself
    axes      the plain array's axes in the order of the packed one, without those of size 1 that it lacks
    plain     the tensor before it was packed, and after it is unpacked
    packed    the tensor now
    """

    name: str
    source: str | None
    axes: tuple[int, ...]
    plain: Form
    packed: Form

    @property
    def nbytes(self) -> int:
        """Bytes that both forms need."""
        return max(self.plain.nbytes, self.packed.nbytes)

    def facts(self) -> dict[str, Any]:
        """The note as plain values, for pickles and files."""
        return {
            "name": self.name,
            "source": self.source,
            "axes": self.axes,
            "plain": self.plain.facts(),
            "packed": self.packed.facts(),
        }

    @staticmethod
    def of_facts(facts: Any) -> Note:
        """The note of plain values; LayoutError for what is none."""
        try:
            plain, packed = Form.of_facts(facts["plain"]), Form.of_facts(facts["packed"])
            arrays = {(form.shape.element_type, form.shape.dimensions) for form in (plain, packed)}
            if len(arrays) > 1:
                raise TypeError(f"{plain.shape} and {packed.shape} are not one array")
            name, source, axes = facts["name"], facts["source"], tuple(facts["axes"])
            if not isinstance(name, str) or not isinstance(source, (str, NoneType)):
                raise TypeError("name and source must be texts")
            _check_name(name, packed)
            if len({*axes}) != len(axes) or not {*axes} <= {*range(plain.shape.rank)}:
                raise TypeError(f"axes {axes!s:.80} are no order of axes of {plain.shape}")
            return Note(name, source, axes, plain, packed)
        except (KeyError, TypeError) as error:
            problem = f"it has no {error}" if isinstance(error, KeyError) else error
            raise LayoutError(f"a note of a packed tensor cannot be read: {problem}") from None


def _check_name(name: str, packed: Form) -> None:
    """TypeError for a name of other bytes: files say the name."""
    try:
        named = as_shape(name)
    except LayoutError as error:
        raise TypeError(error) from None
    if (named.element_type, named.nbytes) != (packed.shape.element_type, packed.nbytes):
        raise TypeError(f"{value_text(name)} is not {packed.shape}")


@dataclass
class Space:
    """Bytes of a storage, and what they hold.

    first      byte of the storage
    capacity   bytes from there on that the space may use
    plain      bytes of the plain tensor there, which may use all of the capacity if it is packed
    note       what is packed there; None for a plain tensor
    moving     what is being done, while the bytes are between two layouts, and after it failed
    """

    first: int
    capacity: int
    plain: int
    note: Note | None = None
    moving: str | None = None

    @property
    def is_packed(self) -> bool:
        return self.note is not None or self.moving is not None

    @property
    def trouble(self) -> str:
        """What messages say of bytes that a failed move left."""
        return (
            f"is between two layouts: {self.moving}; give it all its elements anew by gl.torch.copy_(tensor, value), "
            "without at="
        )

    @property
    def held(self) -> Note:
        """The note of a packed space."""
        assert self.note is not None
        return self.note

    def buffer(self, tensor: Any) -> Any:
        """The packed buffer; `tensor` is one at the first byte."""
        return self.held.packed.buffer(memory(tensor, self.capacity))

    @property
    def used(self) -> int:
        """Bytes that hold something."""
        if self.moving is not None:
            return self.capacity
        return 0 if self.note is None else self.note.packed.nbytes


LOCK = threading.RLock()  # for the attributes of storages
_process = object()  # a forked child has another one: no thread of it can free a lock that one of the parent's holds


def _forget_locks() -> None:
    """In a forked child: new locks of storages, because the threads stayed with the parent."""
    global _process
    _process = object()
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_forget_locks)


def torch_type(name: str) -> Any:
    """torch's dtype of a name; AttributeError for one that torch lacks."""
    dtype = vars(torch).get(name)  # getattr would import a module of this name
    if not isinstance(dtype, torch.dtype):
        raise AttributeError(f"{value_text(clipped(str(name), 80))} is no dtype of torch")
    return dtype


@functools.cache  # NumPy takes longer to name a dtype than a small copy takes
def torch_type_of(element_type: ElementType) -> Any:
    """torch's dtype of an element type; None if it has none that takes whole bytes."""
    return None if element_type.is_sub_byte else getattr(torch, element_type.dtype.name, None)


def array_type(element_type: ElementType) -> Any:
    """torch's dtype of a plain tensor: unsigned integers for what torch lacks, and for codes below a byte."""
    return torch_type_of(element_type) or torch_type(element_type.carrier.name)


def buffer_type(shape: Shape) -> Any:
    """torch's dtype of a buffer: bytes, if elements share them."""
    return torch.uint8 if shape.is_packed else array_type(shape.element_type)


def spaces(tensor: Any) -> Sequence[Space]:
    """The spaces of a tensor's storage; none in tensors without one, such as sparse ones and those of torch.func."""
    try:
        kept: Sequence[Space] = getattr(tensor.untyped_storage(), "gpulayout", ())
    except RuntimeError:
        return ()
    return kept  # another tuple is kept when a space is added


def lock_of(tensor: Any) -> Any:
    """The lock of a tensor's storage: who holds it alone moves its bytes and changes its notes."""
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, AttributeError):
        return contextlib.nullcontext()
    kept = getattr(storage, "gpulayout_lock", None)
    if kept is None or kept[0] is not _process:
        with LOCK:
            kept = getattr(storage, "gpulayout_lock", None)
            if kept is None or kept[0] is not _process:
                kept = storage.gpulayout_lock = _process, threading.RLock()
    return kept[1]


def alone(function: Call) -> Call:
    """A decorator: calls on one tensor, the first argument, wait for each other."""

    @functools.wraps(function)
    def called(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with lock_of(tensor):
            return function(tensor, *args, **kwargs)

    return called  # type: ignore[return-value]


def known_space(tensor: Any) -> Space | None:
    """The space that a plain tensor was packed in before: of its size, at its first byte."""
    place = first_byte(tensor), bytes_reached(tensor)
    return next((space for space in spaces(tensor) if (space.first, space.plain) == place), None)


def room_of(tensor: Any) -> int:
    """Bytes that a plain tensor may use: its own, or all those of the space that it was packed in before."""
    space = known_space(tensor)
    return bytes_reached(tensor) if space is None else space.capacity


def add_space(tensor: Any, capacity: int) -> Space:
    """The space of a plain tensor, a new one if there is none."""
    with LOCK:
        space = known_space(tensor)
        if space is None:
            storage, first = tensor.untyped_storage(), first_byte(tensor)
            space = Space(first, capacity, bytes_reached(tensor))
            storage.gpulayout = (*(each for each in spaces(tensor) if each.first != first), space)
    return space


def hold(data: Any, note: Note, capacity: int) -> None:
    """Remember that memory holds packed bytes, of which `data` is the first."""
    storage, first = data.untyped_storage(), first_byte(data)
    with LOCK:
        kept = [space for space in getattr(storage, "gpulayout", ()) if space.first != first]
        storage.gpulayout = (*kept, Space(first, capacity, note.plain.nbytes, note))


def drop_space(tensor: Any, space: Space) -> None:
    """Forget a plain space that has no more room than its tensor."""
    storage = tensor.untyped_storage()
    with LOCK:
        if space.capacity == space.plain:
            storage.gpulayout = tuple([other for other in storage.gpulayout if other is not space])


def touched(tensor: Any) -> Space | None:
    """The packed space that a tensor's bytes lie in, all or some of them; None for plain memory."""
    kept = spaces(tensor)
    if not kept:
        return None
    first = first_byte(tensor)
    last = first + bytes_reached(tensor)
    for space in kept:
        if not space.is_packed:
            continue
        if (first < space.first + space.used and space.first < last) or (first == last == space.first):
            return space
    return None


def check_free(tensor: Any, space: Space, form: Form) -> None:
    """LayoutError where another packed tensor lies in the bytes of a space that a form takes."""
    for other in spaces(tensor):
        ends = space.first + form.nbytes, other.first + other.used
        if other is not space and space.first < ends[1] and other.first < ends[0]:
            raise LayoutError(
                f"tensor {described(tensor)} would take {form.nbytes} bytes, as {form.shape}, and in them lies another "
                f"packed tensor, {other.note.name if other.note else other.moving}: unpack that one first"
            )


def is_whole(tensor: Any, space: Space) -> bool:
    """True if a tensor is all of what a space holds, in any dtype and sizes."""
    note = space.note
    return (
        note is not None
        and first_byte(tensor) == space.first
        and bytes_reached(tensor) == note.packed.nbytes
        and tensor.is_contiguous()
    )


def space_of(tensor: Any, role: str = "tensor") -> Space | None:
    """The packed space that a tensor is; None for a plain tensor.

    LayoutError for a tensor that is a part of packed memory, and for memory between two layouts.
    """
    space = touched(tensor)
    return None if space is None else whole_space(tensor, space, role)


def whole_space(tensor: Any, space: Space, role: str = "tensor") -> Space:
    """The space that a tensor touches, if it is all of that: see `space_of`."""
    if space.moving is not None:
        raise LayoutError(f"{role} {described(tensor)} {space.trouble}")
    if not is_whole(tensor, space):
        raise LayoutError(
            f"{role} {described(tensor)} is a part of the memory of {space.held.name}: pass the whole tensor, and "
            "at= for a box of it"
        )
    return space
