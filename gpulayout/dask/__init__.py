"""The package's functions for Dask arrays: in chunks, larger than memory, on threads, processes or several machines.

    pack, unpack, relayout                        lazily, for buffers that are 1-D Dask arrays
    transpose                                     lazily, for Dask arrays, with the patterns of gpulayout.transpose
    linearize, delinearize, convert_linear        lazily, for Dask arrays of indices

It needs the extra `dask`.  `docs/dask.md` explains chunks, memory and traffic, and has recipes for Zarr and HDF5.
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"gpulayout.dask needs Dask, which cannot be imported ({error}): pip install 'gpulayout[dask]'"
    ) from error

from gpulayout.dask.indexing import convert_linear, delinearize, linearize
from gpulayout.dask.moving import pack, relayout, unpack
from gpulayout.dask.transposing import transpose
from gpulayout.layout.public_names import publish as _publish

__all__ = ["convert_linear", "delinearize", "linearize", "pack", "relayout", "transpose", "unpack"]

_publish(globals(), __all__)


def __dir__() -> list[str]:
    return list(__all__)
