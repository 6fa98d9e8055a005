"""The libraries whose arrays come back as their own kind: PyTorch and JAX.  One adapter each, found by an array's type.

The arrays of NumPy and CuPy have no adapter.  Nor have those of other libraries: results for them are NumPy or CuPy
arrays.  Nothing is imported here, because an array exists only once its caller has imported its library.
"""

from __future__ import annotations

from gpulayout.arrays.jax_arrays import JaxArrays
from gpulayout.arrays.library import Library
from gpulayout.arrays.torch_tensors import TORCH
from gpulayout.layout.graph_constants import is_compiling

_JAX: Library = JaxArrays()


def library_of(given: object) -> Library | None:
    """The adapter for an array of PyTorch or JAX, or None."""
    kind = type(given)
    if is_compiling():  # a graph that reads the cache is compiled again after the next change to it
        return _library_of_kind(kind)
    try:
        return _LIBRARIES[kind]
    except KeyError:
        if len(_LIBRARIES) >= 256:  # of types made while a program runs
            _LIBRARIES.clear()
        library = _LIBRARIES[kind] = _library_of_kind(kind)
        return library


# So that each array of a call costs a look-up, not a walk through its base classes.  It is no lru_cache, about which
# torch.compile warns.
_LIBRARIES: dict[type, Library | None] = {}


def _library_of_kind(kind: type) -> Library | None:
    """The adapter for arrays of a type and its subclasses.  It is found by name, so that nothing need be imported."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if (base.__module__, base.__name__) == ("torch", "Tensor"):
            return TORCH
        if package in ("jax", "jaxlib") and base.__name__ in ("Array", "ArrayImpl", "Tracer", "PRNGKeyArray"):
            return _JAX
    return None
