"""What layouts and shapes share: frozen dataclasses that keep values computed from their fields, some on first use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from gpulayout.layout.graph_constants import is_compiling

T = TypeVar("T")


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
