"""The plain tensor of packed bytes, as a file says it for gl.torch: its type, its sizes, and how it holds the elements.

    "gpulayout:up.qweight": "marlin:weights[4096,4096]"
    "gpulayout-plain:up.qweight": '{"dtype":"int32","sizes":[512,4096],"source":"gptq:qweight(dtype=u4)"}'

A rule says it: the plain tensor is what the old tensors are once they are joined, stacked and cut, before a pattern and
a layout turn them.  So q, k and v of GPTQ are the words of all three.  After arithmetic it is the array of the new
elements.  A pattern that does more than reorder the axes leaves no such tensor, and the file says nothing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpulayout.catalogue.names import name_of, read_name, shape_of_tensor
from gpulayout.catalogue.tensors import tensor_of
from gpulayout.files.checkpoints.assembly import TensorBox
from gpulayout.files.checkpoints.header import DTYPES, PLAIN, StoredTensor, parsed_json, tensor_text
from gpulayout.files.checkpoints.members import Member
from gpulayout.files.checkpoints.model import Model
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.views import sizes_of_words
from gpulayout.files.errors import FileError
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.plans.plan import Plan

FIELDS = {"dtype", "sizes", "strides", "axes", "source"}


class PlainSide(NamedTuple):
    """What a file says of a plain tensor.

    dtype    as torch calls it
    sizes    of the tensor
    strides  in elements; None for C order
    axes     of the array in the order of the packed one, without those of size 1 that it lacks; None for all, in order
    source   how the tensor holds the array, if it is not the array itself
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None
    source: str | None = None

    @property
    def text(self) -> str:
        """What stands in the file.

        >>> PlainSide("int32", (8, 64), source="gptq:qweight(dtype=u4)").text
        '{"dtype":"int32","sizes":[8,64],"source":"gptq:qweight(dtype=u4)"}'
        """
        said = {key: value for key, value in self._asdict().items() if value is not None}
        return json.dumps(said, separators=(",", ":"))


def read_plain_side(file: str, text: str) -> PlainSide:
    """What the text of a file says; `FileError` for what is no JSON, ValueError for other fields."""
    said = parsed_json(file, text.encode(), PLAIN)
    if not isinstance(said, dict) or not {"dtype", "sizes"} <= {*said} <= FIELDS:
        raise ValueError(f"{said!r:.80} has not the fields dtype and sizes, and perhaps {', '.join(sorted(FIELDS))}")
    if not isinstance(said["dtype"], str) or not isinstance(said.get("source"), (str, type(None))):
        raise ValueError("dtype and source must be texts")
    numbers = {key: _numbers(said[key]) for key in ("sizes", "strides", "axes") if key in said}
    return PlainSide(**{**said, **numbers})


def _numbers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(each) is int and 0 <= each < 1 << 63 for each in values):
        raise ValueError(f"{values!r:.80} is not a list of numbers")
    return tuple(values)


def plain_side_text(model: Model, member: Member, rule: Rule, move: Plan | None) -> str | None:
    """What the new file says of the plain tensor of what a rule packs; None where there is no such tensor.

    member   the old tensors, joined, stacked and cut
    move     of the bytes; None where they stay
    """
    name, order = member.names[0], _order(member)
    if order is None:
        return None
    if name in model.notes and (name in model.sides or rule.from_ is None):
        has_moved_alone = _is_whole(member) and (move is None or move.change is None)
        side = _packed_before(model, name, order) if has_moved_alone else None
    else:
        side = _plain_before(member, model.first(name), rule, move)
        if side is not None and order != tuple(range(len(member.groups))):
            side = side._replace(axes=order)
    return None if side is None else side.text


def _order(member: Member) -> tuple[int, ...] | None:
    """The dimensions of an array in the order of what a pattern makes of it; None if it splits, joins or adds some."""
    if member.after is None:
        return tuple(range(len(member.groups)))
    numbers = {group[0]: number for number, group in enumerate(member.groups) if len(group) == 1}
    order = [numbers.get(group[0], -1) if len(group) == 1 else -1 for group in member.after]
    return None if -1 in order else tuple(order)


def _packed_before(model: Model, name: str, order: Sequence[int]) -> PlainSide | None:
    """The plain tensor of one that is packed in the old file too; `FileError` for what nobody can read."""
    if name not in model.sides:
        return None
    file = str(model.tensors[name][0][0].path)
    try:
        side = read_plain_side(file, model.sides[name])
    except ValueError as error:
        what = str(error).removeprefix(f"{file}: ")
        raise FileError(
            f"{file}: {tensor_text(name)}: what the file says of its plain tensor is wrong: {what}"
        ) from None
    if side.axes is None:
        return side if [*order] == [*range(len(order))] else side._replace(axes=tuple(order))
    if any(number >= len(side.axes) for number in order):
        return None
    return side._replace(axes=tuple(side.axes[number] for number in order))


def _plain_before(member: Member, tensor: StoredTensor, rule: Rule, move: Plan | None) -> PlainSide | None:
    """The plain tensor of one that is not packed in the old file, before a pattern; None for elements that torch lacks.

    tensor   the first one, as its file has it
    """
    if move is not None and move.change is not None:
        return _array(move.target.element_type, member.dimensions)
    from_ = "f4e2m1fn" if rule.from_ is None and tensor.dtype == "F4" else rule.from_
    if from_ is None:
        return _array(member.shape.element_type, member.dimensions)
    own, sizes = DTYPES[tensor.dtype], tensor.dimensions
    if tensor.dtype == "F4":  # in torch these are bytes of two
        own, sizes = ElementType.U8, (tensor.nbytes,) if sizes[-1] % 2 else (*sizes[:-1], sizes[-1] // 2)
    if own is None:
        return None
    if isinstance(from_, str) and from_ in set(ElementType):
        return _words(own, member.dimensions, ElementType(from_))
    name = member.view.name
    owned = None if name is None else _owned(name, member.shape)
    if not _is_whole(member) or (owned is not None and (owned.dtype, owned.sizes) == (own.dtype.name, sizes)):
        return owned
    text = str(member.shape) if name is None else name_of(name, member.shape)
    return PlainSide(own.dtype.name, sizes, source=text)


def _array(element_type: ElementType, sizes: Sequence[int]) -> PlainSide | None:
    """An array of such elements, codes of those below a byte; None for elements that torch lacks."""
    if element_type.is_sub_byte:
        return PlainSide(element_type.carrier.name, tuple(sizes))
    return PlainSide(element_type.dtype.name, tuple(sizes)) if element_type in DTYPES.values() else None


def _words(word: ElementType, dimensions: Sequence[int], element_type: ElementType) -> PlainSide | None:
    """Words of elements that follow each other along the last dimension; None where it ends within a word."""
    try:
        sizes = sizes_of_words(word, dimensions, element_type)
    except LayoutError:
        return None
    return PlainSide(word.dtype.name, sizes, source=element_type.value)


@functools.lru_cache(maxsize=256)  # models have thousands of tensors of a few shapes
def _owned(name: str, shape: Shape) -> PlainSide | None:
    """The tensor in which the owner of an entry keeps an array; None if it does not give the sizes of the array."""
    named = read_name(name)
    choices = {"dtype": shape.element_type.value, **named.choices}
    tensor = tensor_of(named.entry, shape, choices)
    if tensor is None:
        return None
    source = f"{named.entry.name}({','.join(f'{key}={value}' for key, value in choices.items())})"
    try:
        is_same = shape_of_tensor(source, *tensor) == shape
    except LayoutError:
        is_same = False
    return PlainSide(tensor.element_type.dtype.name, tensor.dimensions, source=source) if is_same else None


def _is_whole(member: Member) -> bool:
    """True for all of one old tensor."""
    array = member.array
    return isinstance(array, TensorBox) and array.box == tuple((0, size) for size in array.sizes)
