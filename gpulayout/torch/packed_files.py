"""Models whose weights are packed, in files: their bytes as they are, so that loading moves no element."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from gpulayout.files.checkpoints.header import is_note_key
from gpulayout.files.checkpoints.new_model import NewTensor, check_new_model, new_model
from gpulayout.files.checkpoints.opening import Checkpoint, open_checkpoint
from gpulayout.layout.checks import either, type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.running.in_place import deferred_signals
from gpulayout.torch.codes import check_codes
from gpulayout.torch.file_tensors import STAGE, Given, given_tensors, host_bytes, is_on_host
from gpulayout.torch.mapped_bytes import mapped
from gpulayout.torch.memory import (
    bytes_reached,
    check_changes,
    check_gradient,
    check_kind,
    check_memory,
    memory,
    plainly,
    written,
)
from gpulayout.torch.misfits import (
    array_text,
    check_fits,
    check_model,
    form_text,
    is_extra_state,
    matched,
    shown_name,
    unfit_dtypes,
    unfit_types,
)
from gpulayout.torch.notes import Note, add_space, lock_of, room_of, space_of
from gpulayout.torch.packed_tensor import in_place_of, plain
from gpulayout.torch.packed_values import copy_
from gpulayout.torch.packed_weights import (
    follow,
    named_error,
    overlaps,
    packed_space,
    places,
    replace,
    space_to_fill,
    tied_key,
)
from gpulayout.torch.stored_notes import plain_text, stored_packed, stored_plain

Name = str | os.PathLike[str]


# ---- to a file -------------------------------------------------------------------------------------------------------


@plainly
def save_packed(model: Any, file: Name, *, overwrite: bool = False) -> None:
    """Write a model to a .safetensors file, with packed weights as they are.

    Parameters
    ----------
    model : torch.nn.Module
        All that ``model.state_dict()`` has.
    file : path
        The new file.  It appears whole or not at all.
    overwrite : bool
        Replace `file` if it exists.

    Raises
    ------
    TypeError
        For extra state that is no tensor, and for elements that such files lack.
    ValueError
        When `file` must not be written; FileExistsError when it exists.  The message begins with its name.

    See Also
    --------
    load_packed : The way back.
    state_dict : Plain tensors, for a file that any library reads.

    Notes
    -----
    Notes in the file's metadata say how packed weights lie, so ``gpulayout show`` lists their layouts, and ``gpulayout
    unpack`` makes plain tensors of them.  Tied tensors are written once.

    Examples
    --------
    >>> import os, tempfile, torch
    >>> import gpulayout as gl
    >>> model = torch.nn.Linear(128, 64, bias=False).requires_grad_(False)
    >>> _ = gl.torch.pack_(model.weight, "{1,0:T(8,128)}")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "model.safetensors")
    ...     gl.torch.save_packed(model, file)
    ...     gl.torch.load_packed(file, model)
    <All keys matched successfully>
    """
    check_model("save_packed", model)
    path = Path(file)
    check_new_model(path, overwrite=overwrite)
    tensors: dict[str, NewTensor] = {}
    state, first, metadata = model.state_dict(), dict[object, str](), {"format": "pt"}
    for name, value in state.items():
        try:
            new = _new_tensor(name, value)
        except (LayoutError, TypeError, BufferError) as error:
            raise named_error([name], error) from None
        key = tied_key(value) or name
        if key in first and name not in metadata and not is_note_key(name):
            metadata[name] = first[key]  # as the format's library notes tied tensors
            continue
        first.setdefault(key, name)
        tensors[name] = new
    with new_model(path, tensors.values(), metadata, overwrite=overwrite) as write:
        for name in tensors:
            for start, part in _parts(state[name]):
                write(name, start, part)


def _new_tensor(name: str, value: Any) -> NewTensor:
    """A tensor as it will be in a file."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"extra state of {type_text(value)} has no place in a safetensors file: torch.save takes it")
    check_memory(value, "tensor")
    space = space_of(value) if packed_space(value) is not None else None
    if space is not None:
        return NewTensor(name, stored_packed(space.held), plain_text(space.held))
    return NewTensor(name, stored_plain(value))


def _parts(tensor: Any) -> Iterator[tuple[int, memoryview]]:
    """The bytes of a tensor in C order, in memory of the host."""
    tensor = plain(tensor).contiguous()
    whole = memory(tensor, bytes_reached(tensor))
    step = max(len(whole), 1) if is_on_host(whole) else STAGE
    for start in range(0, len(whole), step):
        yield start, host_bytes(whole[start : start + step].cpu())


# ---- from a file -----------------------------------------------------------------------------------------------------


@plainly
def load_packed(file: Name, model: Any, strict: bool = True, assign: bool = False) -> Any:
    """Load a file of packed tensors: their bytes go straight into the model's memory, or are mapped.

    Parameters
    ----------
    file : path
        A .safetensors file, an index of several, or a folder with one of these, which `save_packed` or
        `gpulayout.relayout_file` has written.
    model : torch.nn.Module
        Every tensor keeps its object and its address.  A packed tensor of the same layout gets the bytes; of another
        layout or float type, the same array in its own.  A plain tensor becomes packed, if it has the dtype and the
        sizes of the file's plain tensor, such as GPTQ's words, of the array in these, or of the packed tensor.  Plain
        tensors of the file go into plain and into packed ones.
    strict : bool
        Whether missing and unexpected names are errors.  Without it, what is missing stays as it is.
    assign : bool
        For a start: new tensors over the mapped file take the place of the model's, which may be on the meta device.
        See the notes.

    Returns
    -------
    NamedTuple
        ``missing_keys`` and ``unexpected_keys``, as ``model.load_state_dict`` returns them.

    Raises
    ------
    LayoutError
        For names that are missing or unexpected, and for tensors that do not fit: all of them in one message, before a
        byte is written or a tensor replaced.
    ValueError
        When `file` is no such file, or its notes are not true.  The message begins with its name.

    See Also
    --------
    save_packed : The way there, with an example.
    load_state_dict : Of tensors in memory.

    Notes
    -----
    The file is read into the memory of the tensors.  Only a tensor in another layout than the model's, and a plain one
    for a packed one, take memory of their own while they move.  Plain codes below a byte are read twice: all of them
    are looked at before anything is written.

    With `assign` no byte is read before it is used, and processes share the pages.  What is written to a tensor stays
    in the process; it never reaches the file.  All tensors are replaced or, after an error or Ctrl-C, none:

    - New objects, on the CPU, so make optimizers after the call; ``model.to(device)`` keeps the notes.  Their classes,
      their ``requires_grad`` and attributes such as ``weight_loader`` are those of the old ones.
    - Nothing is converted.  The file has the dtype and the sizes of the model's plain tensor, and of a packed one the
      layout.  Where the model's is plain, the file's may be packed.  All else is an error, also another dtype, which
      torch's ``assign`` takes: ``model.to(dtype)`` before costs nothing on the meta device.  Plain tensors get the
      order of the file, which is C order.
    - Tied tensors stay tied.  If the file has several for one, the last one in the model's order counts.
    - Buffers are replaced as parameters are.  Those that ``state_dict()`` leaves out stay as they are, on the meta
      device without values.  Extra state is set last.
    - A few tensors are read into memory of their own: those without elements, those that begin in the file where their
      dtype may not, and those whose plain form is larger and would end behind the file.

    Each map keeps its file open while a tensor is left, and a file has one map or a few: see ``ulimit -n``.

    The maps hold the file as it was: `save_packed` and a rename may put another one in its place, though not on Windows
    while a tensor is left.  Do not change or shorten the file itself: the system ends a process that reads what is gone
    (SIGBUS).

    Examples
    --------
    >>> import os, tempfile, torch
    >>> import gpulayout as gl
    >>> file = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> gl.torch.save_packed(torch.nn.Linear(128, 64), file)
    >>> model = torch.nn.Linear(128, 64, device="meta")
    >>> gl.torch.load_packed(file, model, assign=True)
    <All keys matched successfully>
    >>> model.weight.device
    device(type='cpu')
    """
    check_model("load_packed", model)
    own = model.state_dict(keep_vars=True)
    with open_checkpoint([Path(file)]) as checkpoint:
        given = given_tensors(checkpoint)
        _fill_tied(given, _tied(checkpoint), own)
        missing = [name for name in own if name not in given]
        unexpected = [name for name in given if name not in own]
        both = [name for name in own if name in given]
        extra = [name for name in both if is_extra_state(name)]
        held = {name: own[name] for name in both if not is_extra_state(name)}
        for name in held:
            if packed_space(own[name]) is None and not torch.nn.parameter.is_lazy(own[name]):
                given[name] = given[name].for_plain(own[name])
        unfit = [problem for name in held for problem in _misfit(name, own[name], given[name], assign=assign)]
        if not assign:
            packs = {name for name in held if given[name].note is not None and packed_space(own[name]) is None}
            unfit += overlaps(held, packs)
        else:
            stand = {id(place.tensor) for place in places(model)}
            made = [name for name, tensor in held.items() if id(tensor) not in stand]
            unfit += [f"{shown_name(name)} is no parameter or buffer, but made by state_dict()" for name in made]
        check_fits(str(file), model, missing if strict else (), unexpected if strict else (), unfit)
        if assign:
            replace(model, _over_maps(given, _ties(held)))
        else:
            for tied in _ties(held):
                for name, tensor in tied.items():
                    with lock_of(tensor):
                        _fill(tensor, given[name], tied.values())
        for name in extra:
            module = model.get_submodule(name.rpartition(".")[0])
            module.set_extra_state(given[name].tensor(torch.device("cpu")))
    return matched(missing, unexpected)


def _tied(checkpoint: Checkpoint) -> dict[str, str]:
    """What files say of names that they lack because their tensors are tied to others, among all other metadata."""
    return {name: kept for shard in checkpoint.shards for name, kept in (shard.contents.metadata or {}).items()}


def _fill_tied(given: dict[str, Given], tied: Mapping[str, str], own: Mapping[str, Any]) -> None:
    """Give a name that a file lacks what its tensor is tied to, in the file or in the model."""
    names = {tied_key(tensor): name for name, tensor in own.items() if name in given}
    for name, tensor in own.items():
        key = tied_key(tensor)
        kept = tied.get(name) or (key and names.get(key))
        if name not in given and kept in given:
            given[name] = given[kept]


def _ties(own: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """A model's tensors, those together that are tied."""
    ties: dict[object, dict[str, Any]] = {}
    for name, tensor in own.items():
        ties.setdefault(tied_key(tensor) or name, {})[name] = tensor
    return ties.values()


def _misfit(name: str, own: Any, given: Given, *, assign: bool) -> Iterator[str]:
    """Why a tensor of a file cannot become one of the model; nothing if it can."""
    who, is_meta = shown_name(name), isinstance(own, torch.Tensor) and own.is_meta
    if is_meta and not assign:
        yield f"{who} is on the meta device: pass assign=True, or give it memory by model.to_empty(device=...) first"
        return
    try:
        if not is_meta or torch.nn.parameter.is_lazy(own):
            check_memory(own, "the model's tensor")
        check_kind(own, "the model's tensor")
        space = space_to_fill(own)
        if space is None:
            yield from (f"{who} {problem}" for problem in _misfit_of_plain(own, given, assign=assign))
        else:
            yield from (f"{who} {problem}" for problem in _misfit_of_packed(space.held, given, assign=assign))
    except (LayoutError, TypeError, BufferError) as error:
        yield f"{who}: {error}"


def _misfit_of_packed(own: Note, given: Given, *, assign: bool) -> Iterator[str]:
    if given.is_like(own):
        return
    if assign:
        text = given.text or form_text(*given.facts())
        yield f"is {text} in the file, and the model has {own.name}: leave out assign=True, which moves no element"
        return
    dtype, sizes = given.facts()
    one, other = own.plain.shape, None if given.note is None else given.note.plain.shape
    if other is not None and (one.dimensions != other.dimensions or unfit_types(one, other)):
        yield (f"is {given.text} of {array_text(other)} in the file, and the model has {own.name} of {array_text(one)}")
    elif other is None and (sizes != own.plain.sizes or unfit_dtypes(own.plain.dtype, dtype)):
        fits = form_text(own.plain.dtype, own.plain.sizes)
        yield f"is {form_text(dtype, sizes)} in the file, and the model has {own.name}, whose plain tensor is {fits}"
    elif other is None and own.source is None and one.element_type.is_sub_byte:  # read once more, before any is written
        check_codes(given.tensor(torch.device("cpu")), one, "its tensor in the file")


def _misfit_of_plain(own: Any, given: Given, *, assign: bool) -> Iterator[str]:
    has, note = (own.dtype, tuple(own.shape)), given.note
    if note is None:
        dtype, sizes = given.facts()
        if sizes != has[1] or (assign and dtype != has[0]):
            yield f"is {form_text(dtype, sizes)} in the file, and the model has {form_text(*has)}"
        elif not assign and any(size > 1 and not stride for size, stride in zip(own.shape, own.stride())):
            yield f"is {form_text(*has)} of strides {own.stride()} in the model, so its elements share memory"
        return
    room = room_of(own)
    if has not in given.forms()[:2]:
        texts = either([*dict.fromkeys(form_text(*each) for each in given.forms())])
        way = _way_for_plain(own, given, note)
        yield f"is {given.text} in the file, which goes into {texts}, and the model has {form_text(*has)}{way}"
    elif assign:
        check_gradient(own, note.packed.dtype, note.name)
    elif own.numel() * own.element_size() != bytes_reached(own):
        yield f"is {given.text} in the file, and the model's tensor has gaps between its elements"
    elif room < note.packed.nbytes:
        yield (
            f"is {given.text} in the file, of {note.packed.nbytes} bytes, and the model's tensor has {room}: put "
            f"gl.torch.empty_packed({given.text!r}, like=tensor) in its place"
        )
    else:
        check_changes(own, note.packed.dtype, note.name)


def _way_for_plain(own: Any, given: Given, note: Note) -> str:
    """The advice for a plain tensor of the model that the file cannot make packed."""
    with contextlib.suppress(TypeError):
        if own.numel() * own.element_size() == note.packed.nbytes:
            as_own = stored_plain(own)
            return f": if that is how the kernel takes it, say so in the rule that makes the file, by as={as_own}"
    if given.is_sure or own.is_meta:
        return ""
    return (
        ": the file does not say from which tensor it is made, so pack the model's first, by gl.torch.pack_(tensor, "
        f"{given.text!r}, source=...)"
    )


def _fill(tensor: Any, given: Given, tied: Iterable[Any]) -> None:
    """Load a tensor that fits, and is one of those that are tied."""
    note, space = given.note, space_to_fill(tensor)
    if space is not None and given.is_like(space.held):
        space.moving = f"loading {given.file} failed"
        given.read_into(memory(tensor, given.stored.nbytes))
        space.moving = None
    elif space is None and note is not None:
        space = add_space(tensor, room_of(tensor))
        room, space.moving = memory(tensor, space.capacity), f"loading {given.file} failed"
        given.read_into(room[: given.stored.nbytes])
        with deferred_signals():
            space.note, space.moving = note, None
            follow(tied, note.packed, room)
    elif space is None and given.facts() == (tensor.dtype, tuple(tensor.shape)) and tensor.is_contiguous():
        given.read_into(memory(tensor, given.stored.nbytes))
    elif space is None:
        plain(tensor).copy_(given.tensor(tensor.device))
    else:
        copy_(tensor, given.tensor(tensor.device))
    written(tensor)


def _over_maps(given: Mapping[str, Given], ties: Iterable[Mapping[str, Any]]) -> dict[int, Any]:
    """New tensors for those of a model, by the ids of those.  Tied ones get one memory."""
    last = [[*tied.items()][-1] for tied in ties]
    spaces = [space_to_fill(tensor) for _, tensor in last]  # their notes know the plain tensor, where the file does not
    values = [
        given[name] if space is None else given[name]._replace(note=space.held)
        for (name, _), space in zip(last, spaces)
    ]
    spans = [value.span() for value in values]
    rooms = iter(mapped([span for span in spans if span is not None]))
    new: dict[int, Any] = {}
    for tied, value, span in zip(ties, values, spans):
        made = value.tensor(torch.device("cpu")) if span is None else value.over(next(rooms))
        for tensor in tied.values():
            if id(tensor) not in new:
                new[id(tensor)] = in_place_of(made, tensor)
    return new
