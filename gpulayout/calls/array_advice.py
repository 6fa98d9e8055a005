"""What an `Array` says where it has no operator or attribute, and the array of a library would have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpulayout.layout.graph_constants import is_compiling

Kind = TypeVar("Kind", bound=type)

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
# Where the N-d array is not what was meant.
_INSTEAD = {
    "astype": "array.to(dtype=...)",
    "layout": "array.layout_shape.layout",
    "strides": "array.layout_shape.strides, of elements in its buffer",
    "view": "gl.view(array)",
    "numpy": "numpy.asarray(array)",
    "cpu": "gl.Array(array.buffer.cpu(), array.layout_shape)",
    "cuda": "gl.Array(array.buffer.cuda(), array.layout_shape)",
}


def advises(kind: Kind) -> Kind:
    """Give a class the operators that raise the error; type checkers refuse them without it."""
    for name, symbol in (_BINARY | _COMPARED).items():
        setattr(kind, f"__{name}__", _refusing(f"array.logical() {symbol} other"))
        if name in _BINARY:
            setattr(kind, f"__r{name}__", _refusing(f"other {symbol} array.logical()"))
    for name, symbol in _UNARY.items():
        setattr(kind, f"__{name}__", _refusing(f"{symbol}array.logical()"))
    kind.__abs__ = _refusing("abs(array.logical())")  # type: ignore[attr-defined]
    return kind


def _refusing(instead: str) -> Callable[..., Any]:
    """An operator.  Arrays of NumPy and CuPy compute themselves: an `Array` is an operand of their ufuncs."""

    def refused(array: Any, other: Any = None) -> Any:
        if hasattr(type(other), "__array_ufunc__") and not isinstance(other, type(array)):
            return NotImplemented
        raise TypeError(f"a gl.Array has no arithmetic: write {instead}; gl.unpack(array) is a copy")

    return refused


def no_attribute(array: Any, name: str) -> AttributeError:
    """The error for an attribute that the class lacks."""
    error = f"'Array' object has no attribute {name!r}"
    if name.startswith("_") or name in ("buffer", "shape_or_text") or is_compiling():
        return AttributeError(error, name=name, obj=array)
    if name in _INSTEAD:
        instead = _INSTEAD[name]
    elif hasattr(type(array.buffer), name):
        instead = f"array.logical().{name}, of the N-d array"
    elif hasattr(array.layout_shape, name):
        instead = f"array.layout_shape.{name}"
    else:
        return AttributeError(error, name=name, obj=array)
    return AttributeError(f"{error}: write {instead}")
