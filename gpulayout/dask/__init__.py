"""The package's functions for Dask arrays: in chunks, larger than memory, on threads, processes or several machines.

    pack, unpack, relayout                        lazily, for buffers that are 1-D Dask arrays
    transpose                                     lazily, for Dask arrays, with the patterns of gpulayout.transpose
    linearize, delinearize, convert_linear        lazily, for Dask arrays of indices

It needs the extra `dask`.  `docs/dask.md` explains chunks, memory and traffic, and has recipes for Zarr and HDF5.
"""

import typing as _typing

from gpulayout.layout.public_names import Needs as _Needs
from gpulayout.layout.public_names import publish as _publish

if _typing.TYPE_CHECKING:
    from gpulayout.dask.indexing import convert_linear, delinearize, linearize
    from gpulayout.dask.moving import pack, relayout, unpack
    from gpulayout.dask.transposing import transpose

__all__ = ["convert_linear", "delinearize", "linearize", "pack", "relayout", "transpose", "unpack"]

_LATE = {
    "convert_linear": "gpulayout.dask.indexing:convert_linear",
    "delinearize": "gpulayout.dask.indexing:delinearize",
    "linearize": "gpulayout.dask.indexing:linearize",
    "pack": "gpulayout.dask.moving:pack",
    "relayout": "gpulayout.dask.moving:relayout",
    "transpose": "gpulayout.dask.transposing:transpose",
    "unpack": "gpulayout.dask.moving:unpack",
}
_publish(globals(), (), late=_LATE, needs=_Needs("dask.array", "Dask", "dask"))
