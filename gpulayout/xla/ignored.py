"""What a comparison leaves out: the names that `ignore` takes, and the flags that it replaces."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError

LayoutPart = Literal[
    "layout_except_minor_to_major",
    "padded_dimensions",
    "padding_value",
    "tiles",
    "tail_padding_alignment",
    "element_size_in_bits",
    "memory_space",
    "split_configs",
    "dynamic_shape_metadata_prefix_bytes",
    "index_type",
    "pointer_type",
]
ShapePart = Literal[
    "layout", "element_type", "float_precision", "dynamic_dimensions", "dimensions", "buffer", LayoutPart
]

TypePart = Literal["element_type"]
PrecisionPart = Literal["float_precision"]

# Flags that became names; `ignore_layout_fields` already held names of fields.
_NAMES = {
    "ignore_layout": "layout",
    "minor_to_major_only": "layout_except_minor_to_major",
    "ignore_element_type": "element_type",
    "ignore_float_precision": "float_precision",
    "ignore_dynamic_dimensions": "dynamic_dimensions",
    "ignore_dimensions": "dimensions",
    "ignore_buffer": "buffer",
}
_FIELDS = "ignore_layout_fields"
_NOTHING: frozenset[str] = frozenset()


class Ignorable(NamedTuple):
    """What one public function can ignore.

    parts    the names that its `ignore` takes
    flags    the keywords that it took before it had `ignore`
    """

    function: str
    parts: tuple[str, ...]
    flags: tuple[str, ...]

    def read(self, ignore: str | Iterable[str], deprecated: Mapping[str, object]) -> frozenset[str]:
        """The names to ignore.  Call it from the public function itself: the warning names that function's caller."""
        if not (ignore or deprecated) and isinstance(ignore, (tuple, str)):
            return _NOTHING
        if not isinstance(ignore, Iterable):
            raise LayoutTypeError(
                f"ignore {value_text(ignore)} is neither a name nor an iterable of names: it is {type_text(ignore)}"
            )
        found = [ignore] if isinstance(ignore, str) else list(ignore)
        if deprecated:
            found += self._names_of(deprecated)
            new = repr(found[0]) if len(found) == 1 else repr(tuple(found))
            old = ", ".join(f"{flag}=..." for flag in deprecated)
            warnings.warn(f"{self.function}({old}) is deprecated: write ignore={new}", DeprecationWarning, stacklevel=3)
        for name in found:
            if name not in self.parts:
                known = ", ".join(map(repr, self.parts))
                raise LayoutError(f"ignore {value_text(name)} of {self.function} is not one of {known}")
        return frozenset(found)

    def _names_of(self, deprecated: Mapping[str, object]) -> list[str]:
        """The names that old flags stand for."""
        found: list[str] = []
        for flag, value in deprecated.items():
            if flag not in self.flags:
                raise TypeError(f"{self.function}() got an unexpected keyword argument {flag!r}")
            if flag == _FIELDS:
                if not isinstance(value, Iterable):
                    raise LayoutTypeError(
                        f"{_FIELDS} {value_text(value)} is not an iterable of names: it is {type_text(value)}"
                    )
                found += [value] if isinstance(value, str) else list(value)
            elif value:
                found.append(_NAMES[flag])
        return found
