"""Choices in code: as a statement for all threads until the next one, or as a `with` block for one thread."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class Choices(Generic[T]):
    """The choices of one kind that were made."""

    def __init__(self, name: str) -> None:
        self.statements: list[Choice[T]] = []  # the last one counts
        self.scoped: ContextVar[Choice[T] | None] = ContextVar(f"gpulayout_{name}", default=None)  # in a `with`

    def current(self) -> Choice[T] | None:
        """The choice that applies to this thread."""
        return self.scoped.get() or (self.statements[-1] if self.statements else None)


class Choice(Generic[T]):
    """One choice.  A class derived from this one has its `choices`."""

    choices: ClassVar[Choices]  # type: ignore[type-arg]  # a class variable cannot be generic

    def __init__(self, value: T) -> None:
        self.value = value
        self._tokens: list[Token[Choice[T] | None]] = []
        self.choices.statements.append(self)
        del self.choices.statements[:-64]  # only the last statement counts; later ones may turn out to be `with` blocks

    def __enter__(self) -> Choice[T]:
        # This is a `with` block, not a statement: the choice applies to this thread only, so that the blocks of several
        # threads cannot undo each other.
        if self in self.choices.statements:
            self.choices.statements.remove(self)
        self._tokens.append(self.choices.scoped.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        self.choices.scoped.reset(self._tokens.pop())
