"""What does not fit between a model and the tensors that it is to get: all in one error, before a byte is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch

from gpulayout.layout.checks import clipped, type_text, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

MOST = 5  # names and problems of a kind that an error lists
ARE_PACKED = "; these are the sizes of its packed bytes: gl.torch.load_packed takes converted weights"


def check_model(call: str, model: Any) -> None:
    """TypeError for what is no model."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{call} takes a model, a torch.nn.Module, not {type_text(model)}")


def check_fits(
    what: str, model: Any, missing: Collection[str], unexpected: Collection[str], unfit: Iterable[str]
) -> None:
    """LayoutError for names without a partner, and for tensors that do not fit, each a sentence."""
    problems = [
        f"{word} {'is' if len(names) == 1 else 'are'} {_listed([*names])}"
        for word, names in (("missing", missing), ("unexpected", unexpected))
        if names
    ]
    unfit = [*unfit]
    problems += unfit[:MOST]
    if len(unfit) > MOST:
        problems.append(f"and {len(unfit) - MOST} more do not fit")
    if problems:
        raise LayoutError(f"{what} does not fit {type(model).__name__}, and nothing was loaded: {'; '.join(problems)}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(shown_name(name) for name in names[:MOST]) + more


def shown_name(name: object) -> str:
    """The name of a tensor in messages."""
    return value_text(clipped(str(name), 80))


def form_text(dtype: Any, sizes: Iterable[int]) -> str:
    """A dtype and sizes in messages.

    >>> form_text(torch.int32, (4, 256))
    'int32[4,256]'
    """
    return f"{str(dtype).removeprefix('torch.')}[{','.join(map(str, sizes))}]"


def array_text(shape: Shape) -> str:
    """The elements of a shape in messages, without its layout."""
    return f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]"


def is_extra_state(name: str) -> bool:
    """True for the name that a state has for what a module's `get_extra_state` returns."""
    return name.rpartition(".")[2] == "_extra_state"


def holds_floats(element_type: ElementType) -> bool:
    """True for types that floats of another type become as they are.

    Not for codes below a byte, and not for f8e8m0fnu, whose powers of two are of scales alone: 0 is none of them.
    """
    return element_type.is_floating and not element_type.is_sub_byte and element_type is not ElementType.F8E8M0FNU


def unfit_dtypes(dtype: Any, given: Any) -> bool:
    """True where `copy_` cannot make elements of one type from those of another without arithmetic."""
    return given != dtype and not (given.is_floating_point and holds_floats(ElementType.of(dtype)))


def unfit_types(one: Shape, other: Shape) -> bool:
    """True where `copy_` cannot make elements of one packed array from those of another without arithmetic."""
    own, given = one.element_type, other.element_type
    return own is not given and not (given.is_floating and holds_floats(own))


def matched(missing: list[str], unexpected: list[str]) -> Any:
    """What torch's `load_state_dict` returns."""
    return torch.nn.Module().load_state_dict({})._replace(missing_keys=missing, unexpected_keys=unexpected)
