"""What goes wrong when a layout or a shape cannot be.

One line each, in this order: the field, its value, the rule it breaks, the whole shape, the first offender.  Of a shape
with hundreds of dimensions a line leaves out the middle.
"""

_BEGINNING, _END = 1000, 400  # characters that are kept of a message that is longer


class LayoutError(ValueError):
    """A layout, a shape or a plan that cannot exist.

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
    """A field of a layout or shape that has the wrong Python type (a float or bool dimension, say).

    It is both a `LayoutError` and a `TypeError`, so either `except` clause finds it.
    """


class ShapeTextError(LayoutError):
    """Text that is not a shape.  `position` is the number of the first character that does not fit, from 0."""

    def __init__(self, message: str, position: int = 0):
        super().__init__(message)
        self.position = position
