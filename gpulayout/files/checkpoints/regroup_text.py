"""What rules say of how tensors are cut and put together, as people write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpulayout.files.checkpoints.name_regex import NameRegex, template_of
from gpulayout.files.checkpoints.rules import Regroup
from gpulayout.layout.checks import value_text
from gpulayout.layout.cuts import Cut, read_axis, read_cut
from gpulayout.layout.errors import LayoutError

REGROUPS = ("join", "stack", "split", "sizes", "along", "shard", "resize", "interleave")
_RESIZE = re.compile(r"\s*([0-9]{1,18})\s*->\s*([0-9]{1,18})\s*")


def regroup_of(parts: Mapping[str, Any], match: NameRegex, origin: str) -> Regroup:
    """How the tensors are cut and put together; `LayoutError` for parts that do not go together."""
    join, split = (
        _names(parts.get(key), match, f"{origin}: {key}", words)
        for key, words in (("join", ("name",)), ("split", ("name", "number")))
    )
    stack = parts.get("stack")
    shard, along = _shard(parts.get("shard"), parts.get("along"), origin)
    resize = _resize(parts.get("resize"), origin)
    interleave = bool(parts.get("interleave"))
    sizes = tuple(_sizes(parts.get("sizes"), origin))
    problem = ""
    if split and (join or stack is not None):
        problem = f"split and {'join' if join else 'stack'} are for two relayouts, one after the other"
    elif join and along is None:
        problem = "join needs the axis along which the parts come one after the other: add along=0, or another axis"
    elif join and len(join) < 2:
        problem = "join needs the names of all parts, with commas between them"
    elif sizes and (join or along is None or interleave):
        problem = "sizes are those of the parts of one tensor along=AXIS, which neither join nor interleave"
    elif split and sizes and len(sizes) != len(split):
        problem = f"sizes has {len(sizes)} numbers, and split has {len(split)} names"
    elif interleave and (not (join or split) or along is None):
        problem = "interleave is for join and split along=AXIS"
    elif shard and along is None:
        problem = "shard needs the axis that is cut: write shard=2/4 along=0"
    elif len(shard) > 1 and (split or len(shard) != len(join or sizes)):
        others = f"sizes has {len(sizes)} numbers" if sizes and not split else f"join has {len(join)} names"
        problem = f"shard has {len(shard)} parts, and {others}"
    elif resize and (along is None or join or split or sizes or stack is not None):
        problem = "resize is for a tensor by itself, along an axis: write resize=100->128; along=0"
    if problem:
        raise LayoutError(f"{origin}: {problem}")
    template = None if stack is None else template_of(match, stack, f"{origin}: stack", ("name",))
    return Regroup(join, template, split, sizes, interleave, shard, resize, along)


def _names(value: Any, match: NameRegex, what: str, words: tuple[str, ...]) -> tuple[Any, ...]:
    """The templates of a list of names, or of a text with commas between them."""
    names = [each.strip() for each in value.split(",")] if isinstance(value, str) else listed(value)
    if any(isinstance(each, str) and not each for each in names):
        raise LayoutError(f"{what} {value_text(value)} has an empty name")
    return tuple(template_of(match, each, what, words) for each in names)


def _shard(value: Any, along: Any, origin: str) -> tuple[tuple[Cut, ...], int | str | None]:
    """The shard, or those of the parts of a join, and the axis, which may stand behind the last one."""
    try:
        shard = tuple(map(read_cut, value.split(",") if isinstance(value, str) else listed(value)))
    except LayoutError as error:
        raise LayoutError(f"{origin}: shard {error}") from None
    said = [axis for axis in (*(each.along for each in shard), along) if axis is not None]
    if len(said) > 1:
        raise LayoutError(f"{origin} says along twice")
    along = said[0] if said else None
    try:
        return shard, None if along is None else read_axis(along)
    except LayoutError as error:
        raise LayoutError(f"{origin}: {error}") from None


def _resize(value: Any, origin: str) -> tuple[int, int] | None:
    """The size that an axis has, and that it gets."""
    if value is None:
        return None
    match = _RESIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise LayoutError(
            f"{origin}: resize {value_text(value)} is not the size that there is and the new one, such as 100->128"
        )
    return int(match[1]), int(match[2])


def _sizes(value: Any, origin: str) -> list[int]:
    said = value.split(",") if isinstance(value, str) else listed(value)
    sizes: list[Any] = [
        int(each) if isinstance(each, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", each) else each for each in said
    ]
    if not all(type(each) is int and each >= 0 for each in sizes):
        raise LayoutError(f"{origin}: sizes {value_text(value)} are not numbers of elements, such as 4096,1024,1024")
    return sizes


def listed(value: Any) -> list[Any]:
    """The values of a list, or the one value; none for None."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
