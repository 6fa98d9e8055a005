"""How a tensor lies in a file: as an array that the format knows, or as bytes with a note.

The format knows arrays in C order, of its own types.  A tensor in another layout, or of another type, is a 1-D array of
U8, its bytes; or an array as its engine has it, where the catalogue or the rule says so.  A note in the metadata then
says what they are:

    "__metadata__": {"gpulayout:up.weight": "f32[200,10]{1,0:T(8,128)}"}
    "__metadata__": {"gpulayout:up.qweight": "marlin:weights[4096,4096]"}     a tensor I32[256,8192]

A tensor with a note is read as what the note says.
"""

from __future__ import annotations

from typing import NamedTuple

from gpulayout.catalogue.names import is_name, name_of, read_name
from gpulayout.catalogue.tensors import tensor_of
from gpulayout.files.checkpoints.header import dtype_of
from gpulayout.files.checkpoints.views import in_c_order
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape

BYTES = "U8"


class Stored(NamedTuple):
    """How a tensor lies in a file: the fields of its header, and its note or None."""

    dtype: str
    dimensions: tuple[int, ...]
    note: str | None

    def __str__(self) -> str:
        """As people read it: F32[2,3]; the text of a shape, for bytes; or both."""
        header = f"{self.dtype}[{','.join(map(str, self.dimensions))}]"
        if self.note is None:
            return header
        return self.note if self.dtype == BYTES and len(self.dimensions) == 1 else f"{header} {self.note}"


def stored_shape(shape: Shape, name: str | None = None) -> Stored:
    """How a buffer of a shape is stored: as an array if the format can say it, else with a note, as bytes or as the
    tensor that the owner of its layout has.

    name   of the layout, which may be an entry of the catalogue

    >>> from gpulayout import parse_shape
    >>> stored_shape(parse_shape("bf16[2,3]{1,0}"))
    Stored(dtype='BF16', dimensions=(2, 3), note=None)
    >>> stored_shape(parse_shape("f32[2,3]{0,1}"))
    Stored(dtype='U8', dimensions=(24,), note='f32[2,3]{0,1}')
    >>> stored_shape(parse_shape("marlin:weights[16,64]"), "marlin:weights")
    Stored(dtype='I32', dimensions=(1, 128), note='marlin:weights[16,64]')
    """
    dtype = dtype_of(shape)
    if dtype is not None:
        packed = dtype == "F4"
        fills_bytes = not packed or shape.element_count % 2 == 0
        if fills_bytes and same_buffer(shape, in_c_order(shape.element_type, shape.dimensions, packed=packed)):
            return Stored(dtype, shape.dimensions, None)
    return _stored_by_owner(shape, name) or Stored(BYTES, (shape.nbytes,), str(shape))


def _stored_by_owner(shape: Shape, name: str | None) -> Stored | None:
    """How the owner of a layout stores it, with the name of the entry as a note; None for other layouts."""
    if name is None or not is_name(name):
        return None
    said = read_name(name)
    others = {key: value for key, value in said.choices.items() if key != "dtype"}  # arithmetic may change the type
    note = name_of(said._replace(choices=others), shape)
    named = read_name(note)
    stored = tensor_of(named.entry, shape, named.choices)
    if stored is not None:
        dtype = dtype_of(in_c_order(*stored, packed=stored.element_type.is_sub_byte))
        if dtype is not None:
            return Stored(dtype, stored.dimensions, note)
    return Stored(BYTES, (shape.nbytes,), note)
