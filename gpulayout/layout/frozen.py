"""What layouts and shapes share: frozen dataclasses that also keep values computed from their fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayout.layout.graph_constants import is_compiling


class Frozen:
    """The base of a frozen dataclass that sets attributes of its own in `__post_init__`."""

    _key: tuple[object, ...]  # of a class that compares by it
    _hash: int  # of a class that keeps it, but for values that a compiled function made

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fill(self, values: dict[str, Any], key: tuple[object, ...]) -> None:
        """Set all attributes at once, and the hash of what is compared.

        Not all releases of torch.compile can trace that: where one makes the value, it has the attributes alone.
        """
        if is_compiling():
            for name, value in values.items():
                self._set(name, value)
        else:
            self.__dict__.update(values, _hash=hash(key))

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {field.name: getattr(self, field.name) for field in fields}

    # Pickle and copy store only the fields and compute the rest again: a hash differs from process to process.

    def __getstate__(self) -> dict[str, Any]:
        return self._fields()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # an instance that has no attributes yet
