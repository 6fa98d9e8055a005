"""Packed tensors: a tensor's own memory in a kernel's layout, which is remembered.

    pack_      in place: the same tensor object, storage and address; other sizes and dtype
    unpack_    in place: the plain tensor again

`packed_values.py` has the ways of values into packed memory and out of it.
"""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.calls.packing import pack
from gpulayout.calls.relayout import relayout
from gpulayout.layout.checks import ByteCount
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.running.in_place import deferred_signals
from gpulayout.torch.codes import check_codes, with_signs
from gpulayout.torch.memory import (
    bytes_reached,
    check_changes,
    check_kind,
    check_memory,
    described,
    memory,
    plainly,
    writes,
    written,
)
from gpulayout.torch.notes import (
    LOCK,
    Form,
    Note,
    Space,
    add_space,
    alone,
    array_type,
    check_free,
    drop_space,
    hold,
    space_of,
    spaces,
)
from gpulayout.torch.packed_forms import note_for, note_of_packed, packed_note
from gpulayout.torch.packed_tensor import guard, packed_from, plain, unguard


@plainly
@alone
def layout_of(tensor: Any) -> Shape | None:
    """The shape and layout of a packed tensor; None for a plain one.

    Parameters
    ----------
    tensor : torch.Tensor
        Any tensor over the same memory will do, such as `p.data`, `p.detach()` or an entry of ``model.state_dict()``.

    Returns
    -------
    Shape or None
        The dimensions are those of the plain tensor.

    Raises
    ------
    LayoutError
        For a tensor that is a part of packed memory, such as a row, and for memory that a failed move left between two
        layouts.

    Examples
    --------
    >>> import torch
    >>> weight = pack_(torch.arange(6.0).reshape(2, 3), "{0,1}")
    >>> print(layout_of(weight), layout_of(torch.zeros(2)))
    f32[2,3]{0,1} None
    """
    check_kind(tensor, "tensor")
    space = space_of(tensor)
    return None if space is None else space.held.packed.shape


@plainly
@alone
def pack_(tensor: Any, layout: Shape | Layout | str, *, source: Any = None, max_bytes: ByteCount | None = None) -> Any:
    """Move a tensor into a layout within its own memory, which remembers the layout.

    Parameters
    ----------
    tensor : torch.Tensor
        A plain tensor, such as a model's parameter or buffer, dense in any order, on the CPU or a GPU.  Elements below
        a byte come as codes in uint8.  Pass the parameter itself, not its ``.data``: only the object that is passed
        is guarded against plain writes.
    layout : Shape, Layout or str
        As `gpulayout.pack` takes it: ``"marlin:weights(dtype=u4)"``, ``"{1,0:T(8,128)}"``.  A pattern before it
        reorders the axes first: ``"n k -> k n; marlin:weights(dtype=u4)"``.
    source : Shape, Layout or str, optional
        How words of a checkpoint hold the array, such as ``"gptq:qweight(dtype=u4)"`` for int32; or ``"u4"``, where
        elements follow each other along the last dimension.  Without it, the tensor is the array.
    max_bytes : int or str, optional
        The most bytes of the workspace, such as ``"64M"``; by default 5% of the tensor, or 1 MiB if that is more.

    Returns
    -------
    torch.Tensor
        The same object, over the same storage, at the same address.  It has the dtype and the sizes that the owner of
        the layout gives it, such as int32 of (K / 16, N * 2); or those of the buffer that `gpulayout.pack` makes.

    Raises
    ------
    LayoutError
        For a tensor that is packed already, for codes that do not fit, and where the packed bytes need more memory than
        the tensor has: `empty_packed` makes it.
    TypeError
        For a tensor that requires a gradient and would become one of integers.
    BufferError
        For tensors without plain memory of their own.

    See Also
    --------
    unpack_ : The way back.
    copy_ : New values for packed memory.

    Examples
    --------
    >>> import torch
    >>> from gpulayout.torch import read
    >>> codes = torch.randint(0, 16, (64, 128), dtype=torch.uint8)
    >>> weight = torch.nn.Parameter(codes.clone(), requires_grad=False)
    >>> address = weight.data_ptr()
    >>> pack_(weight, "marlin:weights(dtype=u4)") is weight, weight.dtype, tuple(weight.shape)
    (True, torch.int32, (4, 256))
    >>> weight.data_ptr() == address, torch.equal(read(weight), codes)
    (True, True)
    """
    check_memory(tensor, "tensor")
    space = space_of(tensor)
    if space is not None:
        raise LayoutError(
            f"tensor {described(tensor)} is packed already, as {space.held.name}: gl.torch.copy_(tensor, value) gives "
            "it new values, and gl.torch.unpack_(tensor) makes it plain first"
        )
    return pack_as(tensor, note_for(plain(tensor), layout, source), max_bytes)


@alone
def pack_as(tensor: Any, note: Note, max_bytes: ByteCount | None = None) -> Any:
    """Pack a plain tensor as a note says, with every check of memory."""
    form = note.packed
    check_changes(tensor, form.dtype, note.name)
    space = add_space(tensor, bytes_reached(tensor))
    if space.capacity < form.nbytes:
        raise LayoutError(
            f"tensor {described(tensor)} has {space.capacity} bytes, but {note.name} takes {form.nbytes}: make the "
            f"memory by gl.torch.empty_packed({note.name!r}, like=tensor) and fill it by gl.torch.copy_"
        )
    check_codes(tensor, note.plain.shape, "tensor")
    _move(tensor, space, note, note.plain, form, max_bytes)
    return tensor


@plainly
@alone
def unpack_(tensor: Any, *, max_bytes: ByteCount | None = None) -> Any:
    """Move a packed tensor back into its plain form, within its own memory.

    Parameters
    ----------
    tensor : torch.Tensor
        A packed tensor.
    max_bytes : int or str, optional
        As `pack_` takes it.

    Returns
    -------
    torch.Tensor
        The same object, at the same address, with the dtype, the sizes and the strides that it had before `pack_`.

    Raises
    ------
    LayoutError
        For a plain tensor.

    See Also
    --------
    read : A new plain tensor; the packed one stays.

    Examples
    --------
    >>> import torch
    >>> unpack_(pack_(torch.arange(6.0).reshape(2, 3), "{0,1}"))
    tensor([[0., 1., 2.],
            [3., 4., 5.]])
    """
    check_memory(tensor, "tensor")
    space = space_of(tensor)
    if space is None:
        raise LayoutError(f"tensor {described(tensor)} is plain: it has no layout to unpack")
    note = space.held
    check_changes(tensor, note.plain.dtype, "its plain form")
    if space.capacity < note.plain.nbytes:
        raise LayoutError(no_room(tensor, space))
    _move(tensor, space, None, note.packed, note.plain, max_bytes)
    return tensor


def no_room(tensor: Any, space: Space) -> str:
    """Why a packed tensor cannot be unpacked in place."""
    note = space.held
    is_codes = note.source is None and note.packed.shape.element_type.is_sub_byte
    hint = "; words fit, of the source= with which it is packed or marked" if is_codes else ""
    return (
        f"tensor {described(tensor)} holds {note.name} in {space.capacity} bytes, but its plain form takes "
        f"{note.plain.nbytes}: gl.torch.read(tensor) makes a new tensor{hint}"
    )


@plainly
@alone
def mark_packed_(tensor: Any, layout: Shape | Layout | str, *, source: Any = None) -> Any:
    """Say how the bytes of a tensor lie, which something else has packed, such as an engine's own kernels.

    Parameters
    ----------
    tensor : torch.Tensor
        A tensor as the owner of the layout has it, or a flat buffer: of bytes, or as `gpulayout.pack` makes it.  No
        byte moves.
    layout : Shape, Layout or str
        The whole shape, such as ``"marlin:weights(dtype=u4)[4096,4096]"``; or an entry of the catalogue without sizes,
        if the tensor's own give them.  No pattern stands before it.
    source : Shape, Layout or str, optional
        As `pack_` takes it.

    Returns
    -------
    torch.Tensor
        `tensor`, which is packed now.

    Raises
    ------
    LayoutError
        For a tensor that is marked already, and for one that is not what the layout says.

    Notes
    -----
    A wrong layout cannot be detected.  The tensor can be unpacked in place if its plain form takes no more bytes.

    Examples
    --------
    >>> import torch
    >>> from gpulayout.torch import read
    >>> words = torch.zeros(4, 256, dtype=torch.int32)
    >>> mark_packed_(words, "marlin:weights(dtype=u4)") is words, read(words).shape
    (True, torch.Size([64, 128]))
    """
    check_memory(tensor, "tensor")
    space = space_of(tensor)
    if space is not None:
        raise LayoutError(f"tensor {described(tensor)} is packed already, as {space.held.name}")
    note = note_of_packed(plain(tensor), layout, source)
    check_changes(tensor, note.packed.dtype, note.name)
    hold(tensor, note, bytes_reached(tensor))
    tensor.data = note.packed.tensor(memory(tensor, bytes_reached(tensor)))
    guard(tensor)
    return tensor


@plainly
def empty_packed(shape: Shape | str, *, like: Any = None, source: Any = None) -> Any:
    """Make new packed memory, large enough to be unpacked in place too.

    Parameters
    ----------
    shape : Shape or str
        The packed shape, such as ``"cublas:block_scales[200,10]"``.
    like : torch.Tensor, optional
        A tensor whose device it gets.  If that is a parameter, the result is one too, without a gradient.
    source : Shape, Layout or str, optional
        As `pack_` takes it.

    Returns
    -------
    torch.Tensor
        Elements are zeros, and padding is filled.

    Raises
    ------
    LayoutError
        For text that is no shape, and for a shape that no buffer can hold.

    Examples
    --------
    >>> import torch
    >>> from gpulayout.torch import copy_, read
    >>> scales = empty_packed("cublas:block_scales(dtype=u8)[200,10]")
    >>> tuple(scales.shape), read(copy_(scales, torch.ones(200, 10, dtype=torch.uint8))).sum()
    ((3072,), tensor(2000))
    """
    if like is not None:
        check_kind(like, "like")
    note = packed_note(shape, source)
    device = torch.device("cpu") if like is None else like.device
    room, shape = torch.zeros(note.nbytes, dtype=torch.uint8, device=device), note.packed.shape
    zero = torch.zeros((), dtype=array_type(shape.element_type), device=device)
    pack(zero.expand(shape.dimensions), shape, out=note.packed.buffer(room))
    made = packed_from(note.packed.tensor(room), note)
    if isinstance(like, torch.nn.Parameter):
        made._is_param = True
    return made


def _move(tensor: Any, space: Space, note: Note | None, before: Form, after: Form, max_bytes: Any) -> None:
    """Move a tensor's bytes from one form to another, and the tensor with them; the space holds `note` then.

    The caller has the storage's lock.  Handlers of signals, and with them Ctrl-C, wait until all of these agree.
    """
    room = memory(tensor, space.capacity)
    text = f"the move from {before.shape} to {after.shape} failed"
    with deferred_signals():
        with LOCK:
            is_kept = any(each is space for each in spaces(tensor))
            if not is_kept or space.moving is not None or (space.note is None) is (note is None):
                raise LayoutError(f"tensor {described(tensor)} was packed or unpacked meanwhile")
            check_free(tensor, space, after)
            space.moving = text
        begun = writes(room)
        try:
            relayout(before.buffer(room), before.shape, after.shape, out=after.buffer(room), max_bytes=max_bytes)
        except BaseException as error:
            refused = isinstance(error, (LayoutError, TypeError, BufferError))
            if refused or (begun is not None and writes(room) == begun):  # no byte was written
                space.moving = None
            else:
                guard(tensor)
            raise
        if note is None:
            with_signs(after.tensor(room), after.shape, before.shape)
        space.note, space.moving = note, None
        tensor.data = after.tensor(room)
        written(tensor)
        if note is None:
            unguard(tensor)
            drop_space(tensor, space)
        else:
            guard(tensor)
