"""The packed weights of a model: where they stand in it, unpacked within their memory and packed again as they were."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gpulayout.layout.checks import ByteCount
from gpulayout.layout.errors import LayoutError
from gpulayout.running.in_place import deferred_signals
from gpulayout.torch.memory import bytes_reached, check_changes, described, first_byte, memory, plainly
from gpulayout.torch.misfits import form_text, shown_name
from gpulayout.torch.notes import Form, Note, Space, add_space, is_whole, space_of, touched
from gpulayout.torch.packed_tensor import guard, unguard
from gpulayout.torch.packed_values import copy_
from gpulayout.torch.packing import no_room, pack_as, unpack_


class Place(NamedTuple):
    """Where a tensor stands: in a model, or in a list.

    now   the tensor that stands there at the time of the call; None if there is none
    """

    name: str
    tensor: Any
    now: Callable[[], Any]


@plainly
def packed_space(tensor: Any) -> Space | None:
    """The packed space that a tensor lies in, as a whole or in part; None for a plain tensor and for other values."""
    if not isinstance(tensor, torch.Tensor) or torch.nn.parameter.is_lazy(tensor):
        return None
    return touched(tensor)


@plainly
def space_to_fill(tensor: Any) -> Space | None:
    """The packed space of a tensor that gets all its values anew, so that it may be between two layouts; or None."""
    space = packed_space(tensor)
    if space is not None and space.moving is not None and space.first == first_byte(tensor):
        return space if space.note is not None else None
    return None if space is None else space_of(tensor)


@plainly
def memory_of(tensor: Any) -> tuple[int, int]:
    """The memory of a tensor, as a key: its storage, and its first byte there."""
    return tensor.untyped_storage()._cdata, first_byte(tensor)


@plainly
def tied_key(tensor: Any) -> object:
    """What tied tensors have in common; None for those without elements or memory, and for other values."""
    if not isinstance(tensor, torch.Tensor) or torch.nn.parameter.is_lazy(tensor) or not tensor.numel():
        return None
    try:
        memory = memory_of(tensor)
    except RuntimeError:
        return None
    return memory, tensor.dtype, tensor.shape, tensor.stride()


@plainly
def overlaps(tensors: Mapping[str, Any], packing: Collection[str]) -> list[str]:
    """Why some of these names cannot be packed: others have a part of the memory, or see all of it in another shape."""
    taken, problems = dict[object, list[tuple[int, int, str]]](), []
    for name, tensor in tensors.items():
        if tied_key(tensor) is not None:
            storage, first = memory_of(tensor)
            taken.setdefault(storage, []).append((first, first + bytes_reached(tensor), name))
    for each in map(sorted, taken.values()):
        for number, (_, last, name) in enumerate(each):
            for first, _, other in each[number + 1 :]:
                if first >= last:
                    break
                if {name, other}.intersection(packing) and tied_key(tensors[name]) != tied_key(tensors[other]):
                    names = f"{shown_name(name)} and {shown_name(other)}"
                    problems.append(f"{names} share memory, and one of them becomes packed")
    return problems


def named_error(names: Sequence[str], error: Exception) -> Exception:
    """The same error with the names of a tensor before it."""
    who = " and ".join(map(shown_name, names))
    if isinstance(error, (TypeError, ValueError, BufferError, RuntimeError)):
        with contextlib.suppress(TypeError):  # of classes that take more than a message
            return type(error)(f"{who}: {error}")
    error.add_note(f"with the tensor {who}")
    return error


def packed_weights(given: Any) -> list[Weight]:
    """The packed weights of a model or of tensors, each memory once; LayoutError for a part of one, and one between two
    layouts."""
    stand = places(given) if isinstance(given, torch.nn.Module) else _listed(given)
    weights: dict[tuple[int, int], Weight] = {}
    for place in stand:
        if packed_space(place.tensor) is None:
            continue
        try:
            space = space_of(place.tensor)
        except LayoutError as error:
            raise named_error([place.name], error) from None
        assert space is not None and space.note is not None
        if space.capacity < space.note.plain.nbytes:
            raise named_error([place.name], LayoutError(no_room(place.tensor, space)))
        weights.setdefault(memory_of(place.tensor), Weight(space, space.note)).places.append(place)
    return [*weights.values()]


def places(model: Any) -> Iterator[Place]:
    """All parameters and buffers, also tied ones and those that are not persistent."""
    for path, module in model.named_modules():
        for key, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is not None:
                name = f"{path}.{key}" if path else key
                yield Place(name, tensor, functools.partial(_found, model, path, key))


def replace(model: Any, new: Mapping[int, Any]) -> None:
    """Put new tensors in the place of a model's, by the ids of those: all of them, or none."""
    old = [
        (module, key, tensor)
        for _, module in model.named_modules()
        for kept in (module._parameters, module._buffers)
        for key, tensor in kept.items()
        if id(tensor) in new
    ]
    with deferred_signals():
        try:
            for module, key, tensor in old:
                _put(module, key, new[id(tensor)])
        except BaseException:  # of a hook, or of a module's own __setattr__
            for module, key, tensor in old:
                _put(module, key, tensor)
            raise


def _put(module: Any, key: str, tensor: Any) -> None:
    """Put a tensor in a place of a module; a parameter that is a buffer stays a buffer."""
    kept = module._parameters if key in module._parameters else module._buffers
    if isinstance(tensor, torch.nn.Parameter) == (kept is module._parameters):
        setattr(module, key, tensor)  # some modules, such as an LSTM, keep a list beside it
    else:
        kept[key] = tensor


def _found(model: Any, path: str, key: str) -> Any:
    """What has a name in a model now, whatever a loader has made of it; None if no tensor has it."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return None
    kept = (module._parameters, module._buffers, vars(module))
    return next((each[key] for each in kept if isinstance(each.get(key), torch.Tensor)), None)


def _listed(tensors: Iterable[Any]) -> Iterator[Place]:
    for number, tensor in enumerate(tensors):
        yield Place(f"tensor {number}", tensor, functools.partial(_itself, tensor))


def _itself(tensor: Any) -> Any:
    return tensor


class Weight:
    """One packed memory, and the tensors over it: one, or several that are tied."""

    def __init__(self, space: Space, note: Note):
        self.space, self.note = space, note
        self.places: list[Place] = []
        self.room: Any = None  # the bytes of the memory, once it is unpacked
        self.views: dict[int, Form] = {}  # by `id`: tensors over the packed bytes in a form of their own

    @property
    def names(self) -> list[str]:
        """What its tensors are called."""
        return [place.name for place in self.places]

    @plainly
    def unpack(self, max_bytes: ByteCount | None) -> None:
        """Make all its tensors plain."""
        first = self.places[0].tensor
        try:
            self.room = memory(first, self.space.capacity)
            self.views = {id(place.tensor): view for place in self.places if (view := self._view(place.tensor))}
            unpack_(first, max_bytes=max_bytes)
        except Exception as error:
            raise named_error(self.names, error) from None
        for place in self.places[1:]:
            place.tensor.data = self.note.plain.tensor(self.room)
            unguard(place.tensor)

    def _view(self, tensor: Any) -> Form | None:
        """The form of a tensor over packed bytes, such as a buffer of bytes; None for that of the note."""
        own = tensor.dtype, tuple(tensor.shape), tensor.stride()
        if any(own == (form.dtype, form.sizes, form.strides) for form in (self.note.packed, self.note.plain)):
            return None
        return Form(self.note.packed.shape, *own)

    @plainly
    def _view_again(self, tensors: list[Any]) -> None:
        """Give tensors over the packed bytes their forms again."""
        for tensor in tensors:
            view, space = self.views.get(id(tensor)), packed_space(tensor)
            if view is not None and space is not None and space.note == self.note:
                follow([tensor], view, memory(tensor, view.nbytes))

    def pack(self, max_bytes: ByteCount | None) -> list[Exception]:
        """Pack what stands in its places now, as it was.  Returns what is wrong with some.

        Called again, it goes on where an interrupted call ended.
        """
        if self.room is None:
            return []
        home, problems = memory_of(self.room), []
        groups: dict[tuple[int, int], list[tuple[str, Any]]] = {}
        for place in self.places:
            tensor = place.now()
            if tensor is None:
                problems.append(named_error([place.name], LayoutError(_gone(self.note))))
            else:
                groups.setdefault(memory_of(tensor), []).append((place.name, tensor))
        is_free = home not in groups
        for key, group in groups.items():
            names, tensors = [name for name, _ in group], [tensor for _, tensor in group]
            try:
                is_free = self._pack_tensors(tensors, max_bytes, at_home=key == home, is_free=is_free)
                self._view_again(tensors)
            except Exception as error:
                problems.append(named_error(names, error))
        return problems

    @plainly
    def _pack_tensors(self, tensors: list[Any], max_bytes: ByteCount | None, *, at_home: bool, is_free: bool) -> bool:
        """Pack tensors of one memory.  Returns whether the weight's own memory is still free after that."""
        first, note = tensors[0], self.note
        space = packed_space(first)
        if space is not None:  # packed by hand, or before an interrupt
            whole = next((each for each in tensors if is_whole(each, space)), first)
            _ = space_of(whole)  # LayoutError for a part, and between two layouts
            follow(tensors, space.held.packed, memory(whole, space.capacity))
            return is_free
        self._check(first)
        if at_home and first.stride() == note.plain.strides:
            pack_as(first, note, max_bytes)
            follow(tensors, note.packed, self.room)
            return is_free
        if at_home or (is_free and first.device == self.room.device):
            room, is_free = self.room, False
        else:
            room = torch.empty(max(note.nbytes, self.space.capacity), dtype=torch.uint8, device=first.device)
        _filled(room, first, note, max_bytes)
        follow(tensors, note.packed, room)
        return is_free

    def _check(self, tensor: Any) -> None:
        """LayoutError for a tensor that cannot take the place of the weight."""
        plain = self.note.plain
        if tensor.dtype != plain.dtype or tuple(tensor.shape) != plain.sizes:
            raise LayoutError(
                f"it is {described(tensor)} after the block and stays plain: it was {self.note.name}, whose plain "
                f"tensor is {form_text(plain.dtype, plain.sizes)}"
            )
        if tensor.is_meta:
            raise LayoutError("it is on the meta device after the block, without values to pack")
        check_changes(tensor, self.note.packed.dtype, self.note.name)


def _gone(note: Note) -> str:
    return f"no tensor has this name after the block, which was {note.name}"


def _filled(room: Any, value: Any, note: Note, max_bytes: ByteCount | None) -> None:
    """Pack a plain tensor's values in memory of bytes."""
    if packed_space(room) is not None:  # a call before was interrupted after it had packed
        own = note.packed.tensor(room)
        copy_(own, value)
        return
    own = note.plain.tensor(room)
    add_space(own, len(room))  # room for padding
    own.copy_(value.clone() if memory_of(value)[0] == memory_of(room)[0] else value)
    pack_as(own, note, max_bytes)


def follow(tensors: Iterable[Any], form: Form, room: Any) -> None:
    """Set tensors over packed memory."""
    for tensor in tensors:
        has = tensor.dtype, tuple(tensor.shape), tensor.stride()
        if has != (form.dtype, form.sizes, form.strides) or memory_of(tensor) != memory_of(room):
            tensor.data = form.tensor(room)
        guard(tensor)
