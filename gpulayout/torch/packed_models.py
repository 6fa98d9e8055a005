"""A model whose weights are packed, as others see it: with plain weights for a block of code, and as a checkpoint.

with unpacked(model): load(model)          every packed weight is plain inside, and packed again after
state_dict(model)                          the checkpoint, read tensor by tensor
load_state_dict(model, state)              the way back, into the packed memory
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from gpulayout.layout.checks import ByteCount, type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.torch.codes import check_codes
from gpulayout.torch.memory import check_memory, plainly
from gpulayout.torch.misfits import (
    ARE_PACKED,
    array_text,
    check_fits,
    check_model,
    form_text,
    is_extra_state,
    shown_name,
    unfit_dtypes,
    unfit_types,
)
from gpulayout.torch.notes import Note, Space
from gpulayout.torch.packed_values import copy_, read
from gpulayout.torch.packed_weights import Weight, memory_of, named_error, packed_space, packed_weights, space_to_fill

# ---- plain for a while -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def unpacked(model_or_tensors: Any, *, max_bytes: ByteCount | None = None) -> Iterator[Any]:
    """Make all packed weights of a model plain inside of a ``with``: for a loader that knows plain tensors alone.

    Parameters
    ----------
    model_or_tensors : torch.nn.Module or iterable of torch.Tensor
        All packed parameters and buffers of the model, also those that ``state_dict()`` leaves out; or these tensors.
        What is plain stays plain.
    max_bytes : int or str, optional
        The workspace of each move, as `pack_` takes it.

    Yields
    ------
    torch.nn.Module or list of torch.Tensor
        The model, or the tensors.

    Raises
    ------
    LayoutError
        Before anything moves: for a weight that cannot be unpacked.  After the block: for a weight that has other sizes
        or another dtype then, that is gone, or that has no memory.  All others are packed all the same.

    See Also
    --------
    load_state_dict : Into packed memory at once, without a way there and back.

    Notes
    -----
    After the block each weight is packed as it was before, at the same address, also after an exception or Ctrl-C.  An
    exception of the block goes on, with what is wrong beside it as notes.

    A loader may have put another tensor in a weight's place, as ``module.weight = torch.nn.Parameter(...)`` does.  One
    of the same dtype and sizes gets the weight's old memory: its values go there and are packed, so that graphs which
    CUDA recorded read them.  If it is on another device, it gets memory there.  A weight that was packed by hand inside
    of the block stays as it is.

    Examples
    --------
    >>> import torch
    >>> import gpulayout as gl
    >>> model = torch.nn.Linear(3, 2).requires_grad_(False)
    >>> checkpoint = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    >>> address = gl.torch.pack_(model.weight, "{0,1}").data_ptr()
    >>> with gl.torch.unpacked(model):
    ...     model.load_state_dict(checkpoint)
    <All keys matched successfully>
    >>> print(gl.torch.layout_of(model.weight), model.weight.data_ptr() == address)
    f32[2,3]{0,1} True
    """
    given = model_or_tensors if isinstance(model_or_tensors, torch.nn.Module) else _tensors(model_or_tensors)
    opened: list[Weight] = []
    try:
        for weight in packed_weights(given):
            opened.append(weight)  # first, so that Ctrl-C during the move finds it
            weight.unpack(max_bytes)
        yield given
    except BaseException as error:
        for problem in _pack_again(opened, max_bytes):
            error.add_note(f"gl.torch.unpacked: {_text(problem)}")
        raise
    problems = sorted(_pack_again(opened, max_bytes), key=lambda problem: isinstance(problem, Exception))
    if problems:
        for other in problems[1:]:
            problems[0].add_note(_text(other))
        raise problems[0]


def _tensors(given: Any) -> list[Any]:
    """The tensors of an iterable; TypeError for other values, such as a dict."""
    if isinstance(given, (torch.Tensor, str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(
            f"unpacked takes a model or several tensors, not {type_text(given)}: write unpacked(model), "
            "unpacked([tensor]) or unpacked(model.parameters())"
        )
    tensors = [*given]
    for number, each in enumerate(tensors):
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"tensor {number} that unpacked gets is {type_text(each)}, not a tensor")
    return tensors


def _pack_again(weights: Iterable[Weight], max_bytes: ByteCount | None) -> list[BaseException]:
    """Pack all weights as they were.  Returns what is wrong with some."""
    problems: list[BaseException] = []
    for weight in weights:
        while True:
            try:
                problems += weight.pack(max_bytes)
            except Exception as error:
                problems.append(named_error(weight.names, error))
            except BaseException as error:  # Ctrl-C: what it stopped is done once more, and then it goes on
                problems.append(error)
                continue
            break
    return problems


def _text(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__


# ---- the checkpoint of a packed model --------------------------------------------------------------------------------


class PlainState(Mapping[str, Any]):
    """What `state_dict` returns: a mapping that reads a packed tensor when it is asked for it.

    A packed tensor is read anew each time, into new memory on its device.  So at most one is in memory beside the model
    if each is let go before the next: ``for name, tensor in state.items()`` does.  Pickled and saved by ``torch.save``
    it is an OrderedDict of plain tensors, which loads without this package.

    Examples
    --------
    >>> import torch
    >>> import gpulayout as gl
    >>> model = torch.nn.Linear(3, 2, bias=False).requires_grad_(False)
    >>> _ = gl.torch.pack_(model.weight, "{0,1}")
    >>> gl.torch.state_dict(model)
    PlainState of 1 tensor
    """

    def __init__(self, state: Mapping[str, Any]):
        self._state = state
        self._metadata = getattr(state, "_metadata", None)  # torch's: the versions of modules

    def __getitem__(self, name: str) -> Any:
        value = self._state[name]
        if packed_space(value) is None:
            return value
        try:
            return read(value)
        except Exception as error:
            raise named_error([name], error) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)

    def __contains__(self, name: object) -> bool:
        return name in self._state

    def __repr__(self) -> str:
        return f"PlainState of {len(self)} tensor{'s' * (len(self) != 1)}"

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter(self.to_dict().items())

    def to_dict(self) -> OrderedDict[str, Any]:
        """All tensors, as ``model.state_dict()`` gives those of a plain model.  Tied ones stay one."""
        read_before: dict[object, Any] = {}
        plain: OrderedDict[str, Any] = OrderedDict()
        for name, value in self._state.items():
            if packed_space(value) is None:
                plain[name] = value
                continue
            key = memory_of(value)
            if key not in read_before:
                read_before[key] = self[name]
            plain[name] = read_before[key]
        plain._metadata = self._metadata  # type: ignore[attr-defined]  # as torch keeps it
        return plain


def state_dict(model: Any) -> PlainState:
    """The checkpoint of a model whose weights are packed: all names, with plain tensors.

    Parameters
    ----------
    model : torch.nn.Module
        Any model.  Hooks of its ``state_dict()`` run as usual.

    Returns
    -------
    PlainState
        A mapping from the names of ``model.state_dict()``.  Packed tensors are read when asked for, one by one, in the
        form that they had before `pack_`: words, if they were packed with ``source=``.  Everything else is as
        ``model.state_dict()`` gives it.  ``.to_dict()`` reads all.

    See Also
    --------
    load_state_dict : The way back.
    save_packed : The packed bytes as they are.

    Examples
    --------
    >>> import torch
    >>> import gpulayout as gl
    >>> model = torch.nn.Linear(3, 2, bias=False).requires_grad_(False)
    >>> before = model.weight.clone()
    >>> _ = gl.torch.pack_(model.weight, "{0,1}")
    >>> state = gl.torch.state_dict(model)
    >>> [*state], torch.equal(state["weight"], before)
    (['weight'], True)
    """
    check_model("state_dict", model)
    return PlainState(model.state_dict())


def load_state_dict(model: Any, state: Mapping[str, Any], strict: bool = True) -> Any:
    """Load a checkpoint into a model whose weights are packed: each tensor goes into its packed memory in one pass.

    Parameters
    ----------
    model : torch.nn.Module
        Packed tensors keep their layouts and addresses.  Everything else is loaded by ``model.load_state_dict``, with
        its hooks, extra state and buffers.
    state : mapping
        Names to plain tensors, of the sizes and the dtype before `pack_`; floats may be of another float type.  Packed
        tensors of the same array in any layout will do too; plain tensors of the model stay plain.
    strict : bool
        Whether missing and unexpected names are errors.

    Returns
    -------
    NamedTuple
        ``missing_keys`` and ``unexpected_keys``, as ``model.load_state_dict`` returns them.

    Raises
    ------
    LayoutError
        For names that are missing or unexpected, and for tensors that do not fit: all of them in one message, before a
        byte is written.

    See Also
    --------
    state_dict : The way back.
    load_packed : Of packed bytes in a file.

    Examples
    --------
    >>> import torch
    >>> import gpulayout as gl
    >>> model = torch.nn.Linear(3, 2, bias=False).requires_grad_(False)
    >>> _ = gl.torch.pack_(model.weight, "{0,1}")
    >>> gl.torch.load_state_dict(model, {"weight": torch.ones(2, 3)})
    <All keys matched successfully>
    >>> gl.torch.load_state_dict(model, {"weight": torch.ones(3, 3), "wieght": torch.ones(2, 3)})
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: state does not fit Linear, and nothing was loaded: unexpected is 'wieght'; 'weight' is \
float32[3,3] and must be float32[2,3]
    """
    check_model("load_state_dict", model)
    if not isinstance(state, Mapping):
        raise TypeError(f"state is {type_text(state)}, not a mapping of names to tensors")
    own = model.state_dict(keep_vars=True)
    ours = [name for name in own if name in state and _is_ours(own[name], state[name])]
    missing, unexpected = ([name for name in a if name not in b] for a, b in ((own, state), (state, own)))
    unfit = [problem for name in own if name in state for problem in _misfit(name, own[name], state[name])]
    check_fits("state", model, missing if strict else (), unexpected if strict else (), unfit)
    rest = OrderedDict((name, state[name]) for name in state if name not in {*ours})
    rest._metadata = getattr(state, "_metadata", None)  # type: ignore[attr-defined]  # the versions of modules
    result = model.load_state_dict(rest, strict=False)
    for name in ours:
        copy_(own[name], state[name])
    return result._replace(missing_keys=[name for name in result.missing_keys if name not in {*ours}])


def _is_ours(own: Any, value: Any) -> bool:
    """True for a tensor that `copy_` loads, because one side is packed."""
    return packed_space(own) is not None or packed_space(value) is not None


def _misfit(name: str, own: Any, value: Any) -> Iterator[str]:
    """Why a value cannot become a tensor of the model; nothing if it can, or if torch says it."""
    if is_extra_state(name) or torch.nn.parameter.is_lazy(own):
        return
    if not isinstance(value, torch.Tensor):
        yield f"{shown_name(name)} is {type_text(value)} and not a tensor"
        return
    try:
        note, given = _note(space_to_fill(own)), _note(space_to_fill(value))
    except LayoutError as error:
        yield f"{shown_name(name)}: {error}"
        return
    dtype, sizes = _plain_facts(own, note)
    has = _plain_facts(value, given)
    if note is not None and given is not None:
        one, other = note.packed.shape, given.packed.shape
        if one.dimensions != other.dimensions or unfit_types(one, other):
            yield f"{shown_name(name)} is {given.name} of {array_text(other)} and must be of {array_text(one)}"
    elif has[1] != sizes and not (own.dim() == 0 and value.dim() == 1 and value.numel() == 1):  # as torch takes it
        hint = ARE_PACKED if note is not None and has == (note.packed.dtype, note.packed.sizes) else ""
        yield f"{shown_name(name)} is {form_text(*has)} and must be {form_text(dtype, sizes)}{hint}"
    elif (note is not None or given is not None) and unfit_dtypes(dtype, has[0]):
        yield f"{shown_name(name)} is of {has[0]} and must be of {dtype}"
    elif problem := _unfit_memory(own, value, note, given):
        yield f"{shown_name(name)}: {problem}"


@plainly
def _unfit_memory(own: Any, value: Any, note: Note | None, given: Note | None) -> str | None:
    """Why values cannot be moved, where a side is packed: there are none in memory, or codes that lose bits."""
    if note is None and given is None:
        return None
    try:
        check_memory(own, "the model's tensor")
        check_memory(value, "value")
        if note is not None and note.source is None and note.plain.shape.element_type.is_sub_byte:
            check_codes(value, note.plain.shape, "value")
    except (LayoutError, TypeError, BufferError) as error:
        return str(error)
    return None


def _note(space: Space | None) -> Note | None:
    return None if space is None else space.held


def _plain_facts(tensor: Any, note: Note | None) -> tuple[Any, tuple[int, ...]]:
    """The dtype and the sizes of a plain tensor, or of a packed one as it would be plain."""
    return (tensor.dtype, tuple(tensor.shape)) if note is None else (note.plain.dtype, note.plain.sizes)
