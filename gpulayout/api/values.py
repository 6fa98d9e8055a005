"""Plain Python numbers and nested lists as arrays, without loss."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from gpulayout.layout.checks import type_text, value_text

if TYPE_CHECKING:
    from gpulayout.api.array_types import HostArray


def array_of_values(given: Any, role: str, dtype: np.dtype[Any] | None) -> HostArray:
    """A NumPy array of nested lists of numbers; TypeError when `dtype` cannot hold them without loss.

    Floats are rounded to the type, as NumPy rounds them.  Nothing else changes.  Without a dtype, NumPy chooses one.
    """
    try:
        found = np.array(given)
        if dtype is None or not found.size:
            return found if dtype is None else found.astype(dtype)
        if dtype.kind in "biu" or _limits(dtype):
            return _whole(given, dtype)
        return _rounded(found, dtype)
    except (ValueError, OverflowError, TypeError) as error:
        raise TypeError(f"{role} cannot be read as an array: {error}") from None


def _whole(given: Any, dtype: np.dtype[Any]) -> HostArray:
    """Integers and booleans, checked as Python's ints, which have no largest value."""
    leaves = np.array(given, object)
    for leaf in leaves.flat:
        if (
            isinstance(leaf, (bool, np.bool_)) != (dtype.kind == "b")
            or not hasattr(leaf, "__index__")
            and dtype.kind != "b"
        ):
            raise TypeError(f"it holds {value_text(leaf)}, {type_text(leaf)}, which {dtype} cannot hold without loss")
    limits = _limits(dtype)
    if limits is not None:
        for leaf in map(operator.index, leaves.flat):
            if not limits.min <= leaf <= limits.max:
                raise TypeError(f"it holds {value_text(leaf)}, and the range of {dtype} is {limits.min}..{limits.max}")
    # NumPy converts objects to its own integers only; int8 holds every value of ml_dtypes' narrow ones
    return leaves.astype(np.int8 if dtype.kind == "V" else dtype).astype(dtype)


def _limits(dtype: np.dtype[Any]) -> ml_dtypes.iinfo | None:
    """The range of an integer type, also one of ml_dtypes; None for other types."""
    try:
        return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # ml_dtypes leaves it untyped
    except ValueError:
        return None


def _rounded(found: HostArray, dtype: np.dtype[Any]) -> HostArray:
    """Floats and complex numbers; finite numbers must stay finite, and infinities and nans must stay as they are."""
    if found.dtype.kind == "O":  # integers of more than 64 bits
        found = np.array([float(operator.index(leaf)) for leaf in found.flat]).reshape(found.shape)
    from_floats = found.dtype.kind == "f" or found.dtype.type.__module__.startswith("ml_dtypes")
    if not (found.dtype.kind in "iu" or from_floats or (found.dtype.kind == "c" and dtype.kind == "c")):
        raise TypeError(f"its values are {found.dtype}, which {dtype} cannot hold without loss")
    with np.errstate(all="ignore"):
        converted = found.astype(dtype)
        return _checked(found, converted, dtype)


def _checked(found: HostArray, converted: HostArray, dtype: np.dtype[Any]) -> HostArray:
    if dtype.kind == "c":
        if (np.isfinite(found) != np.isfinite(converted)).any():
            raise TypeError(f"it holds a number past the range of {dtype}")
        return converted
    wide, narrow = found.astype(np.float64), converted.astype(np.float64)
    # A type without infinities turns numbers that are too large into its largest number or into nan.
    saturates = not np.isinf(np.array(np.inf).astype(dtype).astype(np.float64))
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]  # as above
    too_large = saturates & (np.abs(wide) > largest)
    if ((np.isnan(wide) != np.isnan(narrow)) | (np.isinf(wide) != np.isinf(narrow)) | too_large).any():
        raise TypeError(f"it holds a number past the range of {dtype}")
    return converted
