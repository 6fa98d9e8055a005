"""What layouts and shapes share: frozen dataclasses that keep values computed from their fields, some on first use,
and signs among numbers.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from gpulayout.layout.graph_constants import is_compiling

T = TypeVar("T")


class Sign(enum.Enum):
    """The base of a class whose one member stands among numbers: a public name of the package, and its sign in text."""

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return self.name

    def __reduce_ex__(self, protocol: object) -> str:  # type: ignore[override]  # typeshed leaves out str
        """Pickled as the name, such as `gpulayout.COMBINE`."""
        return self.name


class Frozen:
    """The base of a frozen dataclass that sets attributes of its own in `__post_init__`."""

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {field.name: getattr(self, field.name) for field in fields}

    # Pickle and copy store only the fields and compute the rest again: a hash differs from process to process.

    def __getstate__(self) -> dict[str, Any]:
        return self._fields()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # an instance that has no attributes yet


class Keyed(Frozen):
    """The base of a frozen dataclass whose `__init__` computes the attributes, and what is compared as a key."""

    _key: tuple[object, ...]
    _hash: int  # of the key; a value that a compiled function made has none

    def _fill(self, values: dict[str, Any], key: tuple[object, ...]) -> None:
        """Set all attributes at once, what is compared, and its hash.

        Not all releases of torch.compile can trace that: where one makes the value, it has no hash yet.
        """
        if is_compiling():
            for name, value in {**values, "_key": key}.items():
                self._set(name, value)
        else:
            self.__dict__.update(values, _key=key, _hash=hash(key))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            return hash(self._key)


class cached_property(Generic[T]):  # noqa: N801 - named as in functools
    """`functools.cached_property` as in Python 3.12 and later.

    Earlier versions hold a lock while computing: a process forked while another thread holds it would wait forever.

    A class shows it as a `property`, which the completion of an interpreter does not compute: it may raise an error.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> property: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> T | property:
        if instance is None:
            return property(self.compute)
        value = self.compute(instance)
        object.__setattr__(instance, self.name, value)  # in its __dict__, where the next look-up finds it first
        return value
