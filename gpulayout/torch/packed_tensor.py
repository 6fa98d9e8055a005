"""The class of packed tensors: it carries their notes along with copies, and guards their bytes.

A packed tensor becomes an object of a subclass of its own class.  Its memory, and what kernels and torch.compile see of
it, stay as they are.  Copies in new memory (`.to(device)`, `clone`, `deepcopy`, pickles) get the note as well.  What
would take packed bytes for plain ones, or plain ones for packed, is an error: see `_check`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.torch.memory import PLAIN, described
from gpulayout.torch.notes import Note, Space, hold, is_whole, lock_of, touched

NOTHING: Mapping[str, Any] = {}


class PackedTensor(torch.Tensor):  # type: ignore[misc]  # torch may be missing
    """A tensor whose memory holds an array in a layout.  Made by `pack_`; `unpack_` makes it a plain tensor again."""

    def __new__(cls) -> Any:
        """TypeError: what is packed says a call of `pack_`."""
        raise TypeError(f"{cls.__name__} is what gl.torch.pack_, empty_packed and mark_packed_ make of tensors")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a function of torch on the packed bytes, and mark results over the same memory as packed too."""
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            with PLAIN():
                return function(*args, **kwargs)
        with PLAIN():
            return _guarded_call(function, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            with PLAIN(), torch.no_grad(), lock_of(self):
                space = _sound(self)
                if space is None or space.note is None or not is_whole(self, space):
                    made = plain(self).clone()
                else:
                    made = as_kind(_copied(plain(self), space, space.note), self)
                memo[id(self)] = made
                kept = dict(vars(self))
            with PLAIN(), torch.no_grad():
                for name, value in kept.items():
                    setattr(made, name, copy.deepcopy(value, memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as its bytes and its note, as plain values; the class that it had by name."""
        with PLAIN(), torch.no_grad(), lock_of(self):
            data, space = plain(self), _sound(self)
            if space is None or not is_whole(self, space):
                return data.clone().__reduce_ex__(protocol)
            data = _in_form(data, space.held)
            if data.untyped_storage().nbytes() > space.held.packed.nbytes:
                data = data.clone()
            return rebuild_packed, _pickled(self, data, space.held)


def _pickled(tensor: Any, data: Any, note: Note) -> tuple[Any, ...]:
    """The arguments of `rebuild_packed`."""
    state = {name: value for name, value in vars(tensor).items() if name != "_is_param"}
    kind = None if type(tensor) is PackedTensor else plain_class(tensor)
    return data, note.facts(), isinstance(tensor, torch.nn.Parameter), tensor.requires_grad, kind, state


def rebuild_packed(data: Any, facts: Any, is_parameter: bool, requires_grad: bool, kind: Any, state: Any) -> Any:
    """The packed tensor of a pickle, which calls this by its name: of its bytes, and of the plain values of its note.

    >>> import pickle
    >>> import torch
    >>> from gpulayout.torch import layout_of, pack_
    >>> print(layout_of(pickle.loads(pickle.dumps(pack_(torch.zeros(2, 3), "{0,1}")))))
    f32[2,3]{0,1}
    """
    _check_pickled(data, requires_grad, kind, state)
    note = Note.of_facts(facts)
    with torch.no_grad():
        if data.untyped_storage().nbytes() > note.packed.nbytes and data.is_contiguous():
            data = data.clone()  # what is beside it may be another tensor of the pickle
        return _rebuilt(packed_from(data, note), is_parameter, requires_grad, kind, state)


def _rebuilt(made: Any, is_parameter: bool, requires_grad: bool, kind: Any, state: Any) -> Any:
    if kind is not None:
        made.__class__ = guarded_class(kind)
    elif is_parameter:
        made._is_param = True
    vars(made).update(state)
    return made.requires_grad_() if requires_grad else made


def _check_pickled(data: Any, requires_grad: Any, kind: Any, state: Any) -> None:
    """LayoutError for parts of a pickle that `__reduce_ex__` does not write: it may come from anywhere."""
    is_plain = isinstance(data, torch.Tensor) and data.layout is torch.strided and not data.is_nested
    if not is_plain or data.is_quantized or data.is_conj() or data.is_neg():
        raise LayoutError(f"a pickle of a packed tensor has no bytes of one, but {type_text(data)}")
    if requires_grad and not (data.is_floating_point() or data.is_complex()):
        raise LayoutError(f"a pickle of a packed tensor {described(data)} says that it requires a gradient")
    if not (kind is None or (isinstance(kind, type) and issubclass(kind, torch.Tensor))):
        raise LayoutError(f"a pickle of a packed tensor has {value_text(kind)}, which is no class of tensors")
    if not isinstance(state, dict):
        raise LayoutError(f"a pickle of a packed tensor has {type_text(state)} for its attributes, not a dict")


rebuild_packed.__module__ = __package__  # what pickles name
torch.serialization.add_safe_globals([rebuild_packed])


def _sent(tensor: Any) -> Any:
    """A packed tensor on its way to another process by torch.multiprocessing, which shares the memory of tensors.

    A copy would not do: it is gone, and with it what the other process opens, before that one has begun.
    """
    with PLAIN(), torch.no_grad(), lock_of(tensor):
        data, space = plain(tensor), _sound(tensor)
        if space is None or (data.dtype, tuple(data.shape)) != space.held.packed[1:3] or not is_whole(tensor, space):
            return reduce_tensor(data)  # a view, whose memory has the note if the whole tensor is sent too
        return _received, (space.capacity, *_pickled(tensor, data, space.held))


def _received(capacity: int, data: Any, facts: Any, *others: Any) -> Any:
    """The packed tensor that another process has sent, in the memory of that one's."""
    with torch.no_grad():
        return _rebuilt(packed_from(data, Note.of_facts(facts), capacity), *others)


ForkingPickler.register(PackedTensor, _sent)


def packed_from(data: Any, note: Note, capacity: int = 0) -> Any:
    """A packed tensor of bytes that lie as the note says; of other memory if theirs is too small to be unpacked in."""
    form = note.packed
    if data.dtype != form.dtype or tuple(data.shape) != form.sizes or not data.is_contiguous():
        raise LayoutError(f"packed bytes {described(data)} are not {note.name}, which is {form.dtype} {form.sizes}")
    capacity = max(note.nbytes, capacity)
    if data.untyped_storage().nbytes() - data.storage_offset() * data.element_size() < capacity:
        room = torch.empty(capacity, dtype=torch.uint8, device=data.device)
        made = form.tensor(room)
        made.copy_(data)
        data = made
    else:
        data = data.detach()
    hold(data, note, capacity)
    data.__class__ = PackedTensor
    return data


def _copied(data: Any, space: Space, note: Note) -> Any:
    """A copy of packed bytes, which may be on another device already, with the note."""
    return packed_from(_in_form(data.clone(), note), note, space.capacity)


def _in_form(data: Any, note: Note) -> Any:
    """All bytes of packed memory in the dtype and the sizes of the packed tensor; they may come in those of a view."""
    return note.packed.tensor(data.view(-1).view(torch.uint8))


# ---- classes ---------------------------------------------------------------------------------------------------------


_guarded: dict[Any, Any] = {}  # no cache of functools, about which torch.compile warns


def guarded_class(kind: Any) -> Any:
    """The subclass of a class of tensors that guards packed memory."""
    if issubclass(kind, PackedTensor):
        return kind
    if kind in (torch.Tensor, torch.nn.Parameter):
        return PackedTensor
    if kind not in _guarded:
        facts = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _guarded[kind] = type(f"Packed{kind.__name__}", (PackedTensor, kind), facts)
        ForkingPickler.register(_guarded[kind], _sent)
    return _guarded[kind]


def plain_class(tensor: Any) -> Any:
    """The class that a tensor has while it is plain."""
    kind = type(tensor)
    if kind is PackedTensor:
        return torch.nn.Parameter if vars(tensor).get("_is_param") else torch.Tensor
    return kind.__bases__[1] if issubclass(kind, PackedTensor) else kind


def guard(tensor: Any) -> None:
    """Make a tensor one that guards its packed memory."""
    kind = type(tensor)
    if not issubclass(kind, PackedTensor):
        if kind is torch.nn.Parameter:
            tensor._is_param = True  # what torch asks of tensors that are parameters
        tensor.__class__ = guarded_class(kind)


def unguard(tensor: Any) -> None:
    """Make a tensor plain again."""
    kind = plain_class(tensor)
    if kind is not type(tensor):
        tensor.__class__ = kind
        vars(tensor).pop("_is_param", None)


def as_kind(made: Any, like: Any) -> Any:
    """A packed tensor of the class of another, a parameter if that is one."""
    made.__class__ = type(like)
    if isinstance(like, torch.nn.Parameter):
        made._is_param = True
    return made.requires_grad_() if like.requires_grad else made


def in_place_of(made: Any, like: Any) -> Any:
    """A tensor over the memory of `made` that takes the place of another: of its class, and with its attributes."""
    new = plain(made)
    new.__class__ = plain_class(like)
    vars(new).update(vars(like))
    if touched(new) is not None:
        guard(new)
    return new.requires_grad_(like.requires_grad)


def plain(tensor: Any) -> Any:
    """The same memory as a plain tensor, without a gradient."""
    with PLAIN():
        return tensor.detach()


# ---- calls of torch's functions --------------------------------------------------------------------------------------

_T = torch.Tensor
_TAKES = {  # functions that take elements as they are to other memory
    _T.copy_, _T.__setitem__, _T.index_copy_, _T.index_put_, _T.scatter_, _T.masked_scatter_, _T.put_, _T.resize_,
    _T.module_load, torch._foreach_copy_, torch.cat, torch.stack, torch.concat, torch.concatenate,
}  # fmt: skip
_COPIES = {
    _T.to, _T.cpu, _T.cuda, _T.clone, _T.contiguous, _T.pin_memory, _T.half, _T.float, _T.double, _T.bfloat16, _T.type,
    _T.int, _T.long, _T.short, _T.char, _T.byte, _T.bool, _T.type_as, torch.clone,
}  # fmt: skip
_NEW_MEMORY = {_T.data.__set__, _T.set_}


# In-place functions that change no element.
_HARMLESS = {"requires_grad_", "detach_", "share_memory_", "set_"}


def _guarded_call(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if function in _TAKES and not kwargs.get("assign"):
        _check(function, args, kwargs)
    elif _changes_elements(getattr(function, "__name__", "").partition(".")[0]):  # "copy_.default" of torch.ops
        _check(function, (args or [*kwargs.values()])[:1])
    elif kwargs.get("out") is not None:
        _check(function, (kwargs["out"],))
    if function in _COPIES:
        given = args[0] if args else kwargs["input"]
        with lock_of(given):
            return _with_note(function, given, function(*args, **kwargs))
    result = function(*args, **kwargs)
    if function in _NEW_MEMORY:
        if touched(args[0]) is None and isinstance(args[0], PackedTensor):
            unguard(args[0])
        return result
    if type(result) is torch.Tensor:
        _mark(result)
    elif isinstance(result, (tuple, list)):
        for each in result:
            if type(each) is torch.Tensor:
                _mark(each)
    return result


def _changes_elements(name: str) -> bool:
    """True for the name of a function in place: codes are no numbers, and padding would change too."""
    if name.endswith("__"):
        return name in (
            "__iadd__",
            "__isub__",
            "__imul__",
            "__itruediv__",
            "__ifloordiv__",
            "__imod__",
            "__ipow__",
            "__iand__",
            "__ior__",
            "__ixor__",
            "__ilshift__",
            "__irshift__",
        )
    return name.endswith("_") and name not in _HARMLESS


def _mark(result: Any) -> None:
    """Guard a result over packed memory: a view of all of it, or of a part."""
    if touched(result) is not None:
        guard(result)


def _with_note(function: Any, given: Any, result: Any) -> Any:
    """A copy of a packed tensor, with the note; LayoutTypeError for another dtype."""
    space = touched(given) if result is given else _sound(given)
    if space is None or result is given:
        return result
    if result.dtype != given.dtype:
        raise LayoutTypeError(
            f"tensor {described(given)} holds {space.held.name}: .{function.__name__}() to {result.dtype} would take "
            "its packed elements for plain ones: gl.torch.unpack_(tensor) before and pack_ after, or "
            "gl.torch.read(tensor) for a plain copy"
        )
    if result.untyped_storage()._cdata == given.untyped_storage()._cdata:
        guard(result)
        return result
    if space.note is None or not is_whole(given, space):
        return result  # raw bytes of a part
    if result.dtype != space.note.packed.dtype:
        result = _in_form(result, space.note)
    elif tuple(result.shape) != space.note.packed.sizes:
        result = result.view(space.note.packed.sizes)
    if result.requires_grad and result.is_contiguous():  # of floats, whose plain form takes no more memory
        hold(result, space.note, space.note.nbytes)
        guard(result)  # the tensor itself, which autograd follows
        return result
    return packed_from(result, space.note, space.capacity)


def _sound(tensor: Any) -> Space | None:
    """The packed space that a tensor lies in; LayoutError if a failed move left it between two layouts."""
    space = touched(tensor)
    if space is not None and space.moving is not None:
        raise LayoutError(f"tensor {described(tensor)} {space.trouble}")
    return space


def _check(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] = NOTHING) -> None:
    """LayoutError for values that do not lie as the memory says that they are written to."""
    if function is torch._foreach_copy_:
        for pair in zip(*args[:2]):
            _check_pair(*pair)
        return
    given = (*args, *kwargs.values())
    listed = [each for part in given for each in (part if isinstance(part, (tuple, list)) else [part])]
    tensors = [each for each in listed if isinstance(each, torch.Tensor)]
    if function in (_T.copy_, _T.module_load) and len(tensors) == 2:
        _check_pair(*tensors)
        return
    for each in tensors:
        space = touched(each)
        if space is not None:
            raise LayoutError(_refused(each, space, f"{function.__name__} takes its packed elements for plain ones"))


def _check_pair(target: Any, value: Any) -> None:
    here, there = touched(target), touched(value)
    if here is None and there is None:
        return
    if here is not None and there is not None and here.note == there.note and here.note is not None:
        if is_whole(target, here) and is_whole(value, there):
            return
    if here is not None:
        raise LayoutError(_refused(target, here, f"copy_ would write {described(value)} over it as it is"))
    assert there is not None
    raise LayoutError(_refused(value, there, f"copy_ would write it as it is to a plain tensor {described(target)}"))


def _refused(tensor: Any, space: Space, problem: str) -> str:
    if space.moving is not None:
        return f"tensor {described(tensor)} {space.trouble}"
    name = space.held.name
    return (
        f"tensor {described(tensor)} holds {name}, and {problem}: write gl.torch.copy_(tensor, value), "
        "gl.torch.load_state_dict(model, state) or gl.torch.read(tensor)"
    )
