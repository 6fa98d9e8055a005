r"""Tensors that must stand beside others, and their sizes, or nothing is written.

    --tensor '(.*)\.qweight=from=gptq:qweight(dtype=u4); beside=\1.scales[rows/128,columns]; marlin:weights'

Scales of another checkpoint, or of other groups, would leave numbers that look right.  The sizes are those that the
header of the other tensor says.  Their names are axes of the rule's pattern, the sizes of an entry of the catalogue, or
else the dimensions of the tensor in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpulayout.catalogue.names import find
from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.model import Model
from gpulayout.files.checkpoints.name_regex import NameRegex, Template, template_of
from gpulayout.files.checkpoints.new_types import HeaderType, header_type
from gpulayout.files.checkpoints.views import View
from gpulayout.layout.checks import shown, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import read_pattern

_TEXT = re.compile(r"\s*(.+?)\s*(\[[^\[\]]*\])\s*", re.DOTALL)


class Beside(NamedTuple):
    """A tensor that must stand beside another.

    name    of it
    sizes   of its dimensions
    text    as a user wrote it
    """

    name: Template
    sizes: HeaderType
    text: str


def read_beside(value: Any, match: NameRegex, origin: str) -> tuple[Beside, ...]:
    """What the key `beside` of a rule says: a text, or several in a list; `LayoutError` for another value."""
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        raise LayoutError(f"{origin}: beside is {value_text(texts)}, not a text or a list of them")
    found = []
    for text in texts:
        parts = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            raise LayoutError(
                rf"{origin}: beside {value_text(text)} is not the name of a tensor and its sizes, such as "
                r"\1.scales[K/128,N]"
            )
        name = template_of(match, parts[1], f"{origin}: beside", ("name",))
        found.append(Beside(name, header_type(f"U8{parts[2]}", origin), text.strip()))
    return tuple(found)


def check_beside(
    model: Model, name: str, match: Any, beside: Sequence[Beside], view: View, pattern: str | None
) -> None:
    """`LayoutError` for a tensor beside which another one is missing, or has other sizes."""
    who = f"{tensor_text(name)} is {view.shape.text_without_layout()}"
    for each in beside:
        other = each.name.expand(match)
        if other not in model.tensors:
            raise LayoutError(f"{who}, and beside it there is no {tensor_text(other)}")
        try:
            wanted = each.sizes.whole_sizes(view.shape.dimensions, _known(view, pattern))
        except LayoutError as error:
            reason = str(error).partition(": ")[2]  # behind the text, which is there already
            raise LayoutError(f"{who}, and beside={each.text} does not suit it: {reason}") from None
        own = model.first(other).dimensions
        if own != wanted:
            raise LayoutError(
                f"{who}, and beside it {tensor_text(other)} has the sizes {shown(own)}, where beside={each.text} wants "
                f"{shown(wanted)}"
            )


def _known(view: View, pattern: str | None) -> Mapping[str, int]:
    """The sizes of a tensor by name."""
    dimensions = view.shape.dimensions
    if pattern is not None:
        return read_pattern(pattern, len(dimensions), "pattern").axis_sizes(dimensions, {})
    if view.name is None:
        return {}
    names = [size.name for size in find(view.name.partition("(")[0]).sizes]
    return dict(zip(names, dimensions[-len(names) :]))
