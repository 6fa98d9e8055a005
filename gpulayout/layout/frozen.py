"""What layouts and shapes share as frozen dataclasses that also keep values worked out from their fields."""

from __future__ import annotations

import dataclasses
from typing import Any


class Frozen:
    """The base of a frozen dataclass that sets attributes of its own while it is made."""

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    # Pickle and copy keep the fields alone: everything else is worked out anew, as a hash differs from process to
    # process.

    def __getstate__(self) -> dict[str, Any]:
        return self._fields()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
