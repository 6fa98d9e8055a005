"""The errors for layouts and shapes that cannot exist."""

from collections.abc import Callable
from typing import Any, TypeVar

_BEGINNING, _END = 1000, 400  # characters kept of a longer message, as of a shape with hundreds of dimensions


class LayoutError(ValueError):
    """A layout, a shape or a plan that cannot exist.

    The message is one line, in this order: the field, its value, the rule it breaks, the whole shape, the first
    offender.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.Layout((0, 0))
    Traceback (most recent call last):
        ...
    gpulayout.LayoutError: minor_to_major (0, 0) is not an ordering of dimensions 0..1: dimension 0 appears twice
    """

    def __init__(self, message: str):
        is_short = len(message) <= _BEGINNING + _END
        super().__init__(message if is_short else f"{message[:_BEGINNING]} ... {message[-_END:]}")


class LayoutTypeError(LayoutError, TypeError):
    """A field of a layout or shape with a value of the wrong Python type, such as a float dimension.

    It is both a `LayoutError` and a `TypeError`, so either `except` clause catches it.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.Shape("f32", (2, 3.0))
    Traceback (most recent call last):
        ...
    gpulayout.LayoutTypeError: dimensions (2, 3.0) is not all integers: entry 1 is 3.0, a float
    """


class ShapeTextError(LayoutError):
    """Text that is not a shape or a layout.

    Attributes
    ----------
    position : int
        Index of the first character that does not fit, from 0.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.parse_shape("f32[2,3}")
    Traceback (most recent call last):
        ...
    gpulayout.ShapeTextError: expected ']', at character 7 ('}') of 'f32[2,3}'
    """

    def __init__(self, message: str, position: int = 0):
        super().__init__(message)
        self.position = position


Internal = TypeVar("Internal", bound=type[Exception])


def shown_as(public: type[Exception]) -> Callable[[Internal], Internal]:
    """A decorator for internal errors: users see them, and pickles restore them, as instances of a public class.

    >>> @shown_as(ValueError)
    ... class Unfit(ValueError):
    ...     pass
    >>> Unfit("too long")
    ValueError('too long')
    """

    def decorate(error: Internal) -> Internal:
        error.__module__ = "gpulayout" if public.__module__.startswith("gpulayout") else public.__module__
        error.__name__, error.__qualname__ = public.__name__, public.__qualname__
        error.__reduce__ = _as_public(public)  # type: ignore[method-assign, assignment]
        return error

    return decorate


def _as_public(public: type[Exception]) -> Callable[[Any], Any]:
    return lambda error: (public, (str(error),))
