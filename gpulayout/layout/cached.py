"""Properties that are computed once for each object, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


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
