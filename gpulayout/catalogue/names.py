"""Entries by name, and the shapes and layouts that text with a name means.

    text    := name ["(" choice ("," choice)* ")"] ["[" size ("," size)* "]"]
    name    := owner ":" entry              choice := word "=" value

`cublas:block_scales[200,10]` is a shape.  `cublas:block_scales`, without sizes, is a layout for an array that has them.
`cublas:block_scales(dtype=f8e4m3fn)[200,10]` chooses.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.catalogue import not_here
from gpulayout.catalogue.entry import Entry
from gpulayout.catalogue.tensors import OwnerTensor, check_is_of, shape_in
from gpulayout.layout.checks import check_length, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

# Each owner has a module, which is imported when one of its entries is used.
OWNERS = {
    owner: f"{__package__}.{owner}"
    for owner in (
        "aiter awq cublas cublaslt cudnn cutlass deepgemm flashinfer gguf gptq marlin mma onednn torchao transformers "
        "triton vllm xla_tpu"
    ).split()
}
_TEXT = re.compile(r"\s*(\w+):(\w+)(?:\s*\(([^()\[\]]*)\))?(?:\s*\[([^()\[\]]*)\])?\s*")
_CHOICE = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SIZE = re.compile(r"\s*([0-9]{1,19})\s*")


class Named(NamedTuple):
    """What a text with a name says: the entry, its choices, and the sizes if there are any."""

    entry: Entry
    choices: dict[str, int | str]
    sizes: tuple[int, ...] | None


def entries() -> tuple[Entry, ...]:
    """All entries of the catalogue, sorted by name.

    See Also
    --------
    find : one of them.

    Examples
    --------
    >>> [entry.name for entry in entries() if entry.owner == "NVIDIA cuBLAS"]
    ['cublas:block_scales']
    """
    values = (value for module in OWNERS.values() for value in vars(importlib.import_module(module)).values())
    return tuple(sorted((value for value in values if isinstance(value, Entry)), key=lambda entry: entry.name))


def find(name: str) -> Entry:
    """The entry with a name.

    Parameters
    ----------
    name : str
        Such as ``cublas:block_scales``.

    Raises
    ------
    ShapeTextError
        The catalogue has no such name; the message has the nearest one, or why there is none.

    See Also
    --------
    entries : all of them.

    Examples
    --------
    >>> find("cublas:block_scales").sizes[1].name
    'columns'
    """
    owner, _, own_name = name.partition(":") if isinstance(name, str) else ("", "", "")
    entry = getattr(importlib.import_module(OWNERS[owner]), own_name, None) if owner in OWNERS else None
    if isinstance(entry, Entry) and entry.name == name:
        return entry
    if isinstance(name, str) and (why := not_here.why_not_here(name)):
        raise ShapeTextError(f"{value_text(name)} is not in the catalogue: {why}", 0)
    known = [entry.name for entry in entries()]
    if owner.strip() in OWNERS and not own_name:
        own = ", ".join(repr(each) for each in known if each.startswith(f"{owner.strip()}:"))
        raise ShapeTextError(f"{value_text(name)} names no entry: write one of {own}", 0)
    near = difflib.get_close_matches(value_text(name), known, 1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"owners are {', '.join(OWNERS)}"
    raise ShapeTextError(f"{value_text(name)} is not in the catalogue: {hint}", 0)


def is_name(text: str) -> bool:
    """True for text that names an entry, or was meant to: the catalogue knows its owner."""
    owner = text.partition(":")[0].strip()
    return owner in OWNERS or (":" in text and owner in not_here.OWNERS)


def shape_of_name(text: str) -> Shape:
    """The shape of a text with a name and sizes; LayoutError for other text.

    >>> str(shape_of_name("cublas:block_scales[200,10]"))
    'f8e8m0fnu[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}'
    """
    named = read_name(text)
    if named.sizes is None:
        raise ShapeTextError(
            f"{value_text(text)} is a layout: write its sizes for the whole shape, {named.entry.call}", len(text)
        )
    return named.entry(*named.sizes, **named.choices)  # type: ignore[arg-type]  # dtype is one of the choices


def layout_of_name(text: str, dimensions: Sequence[int], element_type: ElementType | str | None = None) -> Layout:
    """The layout that a text with a name, but without sizes, means for an array.

    >>> str(layout_of_name("cublas:block_scales", (200, 10)))
    '{1,0:T(128,4)(32,4)(4,1,1,4)}'
    """
    named = read_name(text)
    if named.sizes is not None and named.sizes != tuple(dimensions):
        raise LayoutError(f"{text} has sizes {shown(named.sizes)}, but the array has {shown(dimensions)}")
    choices = {"dtype": element_type} | named.choices
    return named.entry(*dimensions, **choices).layout  # type: ignore[arg-type]


def shape_of_tensor(text: str | Named, stored_type: ElementType, dimensions: Sequence[int]) -> Shape:
    """The shape that a text with a name, but without sizes, means for a tensor of its owner; `shape_in` has the rule.

    >>> shape_of_tensor("gptq:qweight(dtype=u4)", ElementType.S32, (512, 4096)).dimensions
    (4096, 4096)
    >>> shape_of_tensor("gptq:qweight(dtype=u8)", ElementType.S32, (64, 512, 4096)).dimensions
    (64, 2048, 4096)
    """
    named = read_name(text) if isinstance(text, str) else text
    tensor = OwnerTensor(stored_type, tuple(dimensions))
    if named.sizes is not None:
        raise LayoutError(
            f"{named.entry.name} has sizes {shown(named.sizes)} already, so tensor {tensor} does not give them: "
            f"leave the sizes out"
        )
    return shape_in(named.entry, tensor, named.choices)


def name_of(text: str | Named, shape: Shape) -> str:
    """The name of a shape: the text that `shape_of_name` reads as this shape.

    `text` says the entry and the choices; the name has those that are not the first of their values, and the sizes.

    >>> name_of("marlin:weights(dtype=u8)", shape_of_name("marlin:weights(dtype=u8)[8,4096,64]"))
    'marlin:weights(dtype=u8)[8,4096,64]'
    >>> name_of("flashinfer:gate_up(block_k=0)", shape_of_name("flashinfer:gate_up[64,128]"))
    'flashinfer:gate_up[64,128]'
    """
    named = read_name(text) if isinstance(text, str) else text
    entry = named.entry
    check_is_of(entry, shape, named.choices)
    chosen = {"dtype": shape.element_type.value} | entry.chosen(named.choices)
    usual = {"dtype": entry.types[0]} | entry.chosen({})
    choices = ",".join(f"{name}={value}" for name, value in chosen.items() if value != usual[name])
    return f"{entry.name}{choices and f'({choices})'}[{','.join(map(str, shape.dimensions))}]"


def read_name(text: str) -> Named:
    """The entry, the choices and the sizes of a text; ShapeTextError where it does not fit."""
    check_length("the text of a shape", text)
    match = _TEXT.fullmatch(text)
    if match is None:
        owned = [entry.name for entry in entries() if entry.name.partition(":")[0] == text.strip()]
        hint = f"; those of {text.strip()} are {', '.join(owned)}" if owned else ""
        raise ShapeTextError(
            f"{value_text(text)} is not a name of the catalogue and sizes, such as 'cublas:block_scales[200,10]' or "
            f"'cublas:block_scales(dtype=f8e4m3fn)[200,10]'{hint}",
            0,
        )
    owner, name, choices, sizes = match.groups()
    entry = find(f"{owner}:{name}")
    chosen: dict[str, int | str] = {}
    for part in choices.split(",") if choices is not None else ():
        choice = _CHOICE.fullmatch(part)
        if choice is None or choice[1] in chosen:
            raise ShapeTextError(f"choice {value_text(part)} of {entry.name} is not one word=value", match.start(3))
        chosen[choice[1]] = int(choice[2]) if _NUMBER.fullmatch(choice[2]) else choice[2]
    if sizes is None:
        return Named(entry, chosen, None)
    numbers = [_SIZE.fullmatch(part) for part in sizes.split(",")] if sizes.strip() else []
    if None in numbers:
        wrong = sizes.split(",")[numbers.index(None)]
        raise ShapeTextError(f"size {value_text(wrong)} of {entry.call} is not a number", match.start(4))
    return Named(entry, chosen, tuple(int(number[1]) for number in numbers if number))
