"""Files that other libraries read and write: found by their name or their first bytes, and what to do with them.

A .npz file is a zip of .npy files, and its arrays are compressed or lie anywhere in it.  HDF5, Zarr and safetensors
hold many arrays under names.  None is one array or one buffer.  `checkpoints` reads and writes safetensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gpulayout.files.errors import FileError


class OtherFormat(NamedTuple):
    """A format, how its files are known, and how to move their arrays.

    endings      of file names, lower case
    read, write  what to do instead
    beginnings   the first bytes of its files
    """

    name: str
    endings: tuple[str, ...]
    read: str
    write: str
    beginnings: tuple[bytes, ...] = ()


OTHER_FORMATS = (  # those that are zips before .npz, which is known by that
    OtherFormat(
        "a pickle of PyTorch, which may run code",
        (".pt", ".pth"),
        "numpy.save(FILE, torch.load(FILE, weights_only=True)[NAME].numpy()) makes a .npy file of an array",
        "write a .npy file, and torch.from_numpy(numpy.load(FILE)) reads it",
    ),
    OtherFormat(
        "a model of Keras",
        (".keras",),
        "numpy.save(FILE, weight.numpy()) makes a .npy file of a weight",
        "write a .npy file, and weight.assign(numpy.load(FILE)) reads it",
    ),
    OtherFormat(
        "GGUF",
        (".gguf",),
        "gpulayout relayout FILE OUT.safetensors moves its tensors, and gl.relayout_file too",
        "write a .npy file, and gguf.GGUFWriter takes numpy.load(FILE)",
        (b"GGUF",),
    ),
    OtherFormat(
        ".npz, a zip of .npy files",
        (".npz",),
        "unpack it with unzip, or pipe one of its arrays with unzip -p FILE NAME.npy",
        "write .npy files and put them together with numpy.savez, or with zip -0",
        (b"PK\x03\x04", b"PK\x05\x06"),
    ),
    OtherFormat(
        "HDF5",
        (".h5", ".hdf5"),
        "gpulayout.dask moves its arrays, from dask.array.from_array(h5py.File(FILE)[NAME])",
        "gpulayout.dask moves arrays, and dask.array.to_hdf5 writes them",
        (b"\x89HDF\r\n\x1a\n",),
    ),
    OtherFormat(
        "Zarr",
        (".zarr",),
        "gpulayout.dask moves its arrays, from dask.array.from_zarr(FILE)",
        "gpulayout.dask moves arrays, and dask.array.to_zarr writes them",
    ),
    OtherFormat(
        "safetensors",
        (".safetensors",),
        "gpulayout relayout FILE OUT.safetensors --tensor 'REGEX=WHAT' moves its tensors, and gl.relayout_file too",
        "gpulayout relayout, or gl.relayout_file with tensors=, makes a safetensors file from one; "
        "safetensors.numpy.save_file writes arrays",
    ),
)


def _saved(library: str, tensors: str) -> str:
    return f"safetensors.{library}.save_file({tensors}, 'model.safetensors')"


OTHER_MODELS = (  # where a model is meant: Python that makes safetensors of one, and one of safetensors
    OtherFormat(
        "a pickle of PyTorch, which may run code",
        (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"),
        _saved("torch", "torch.load(FILE, weights_only=True)"),
        "torch.save(safetensors.torch.load_file('model.safetensors'), FILE)",
    ),
    OtherFormat(
        "a model of Keras",
        (".h5", ".hdf5", ".keras"),
        _saved("numpy", "{w.path: w.numpy() for w in model.weights}"),
        "model.save(FILE), after w.assign(tensors[w.path]) for its weights,",
    ),
    OtherFormat(
        "GGUF, whose blocks hold scales beside codes",
        (".gguf",),
        "gpulayout relayout FILE model.safetensors",
        "convert_hf_to_gguf.py of llama.cpp",
    ),
    OtherFormat(
        "a tree of Flax",
        (".msgpack",),
        _saved("flax", "flax.traverse_util.flatten_dict(params, sep='.')"),
        "flax.serialization.msgpack_serialize(safetensors.flax.load_file('model.safetensors'))",
    ),
    OtherFormat(
        "one array",
        (".npy",),
        _saved("numpy", "{'NAME': numpy.load(FILE)}"),
        "numpy.save(FILE, safetensors.numpy.load_file('model.safetensors')['NAME'])",
    ),
    OtherFormat(
        "a zip of arrays",
        (".npz",),
        _saved("numpy", "dict(numpy.load(FILE))"),
        "numpy.savez(FILE, **safetensors.numpy.load_file('model.safetensors'))",
    ),
)
ZARR = next(each for each in OTHER_FORMATS if each.name == "Zarr")
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")  # one of them is in every folder of Zarr


POINTER = b"version https://git-lfs.github.com/spec/"  # begins what git has in place of a big file
MOST_POINTER = 1024  # bytes


def refuse_pointer(name: str, beginning: bytes) -> None:
    """`FileError` for a pointer of git-lfs, known by its first bytes."""
    if beginning.startswith(POINTER):
        raise FileError(f"{name}: this is a pointer of git-lfs, not the file itself: git lfs pull downloads it")


def refuse_other_format(name: str, beginning: bytes) -> None:
    """`FileError` for the file of another library, known by its name or its first bytes."""
    for other in OTHER_FORMATS:
        if name.lower().endswith(other.endings) or beginning.startswith(other.beginnings):
            raise FileError(f"{name}: this is {other.name}: {other.read}")


def refuse_other_folder(path: Path) -> None:
    """`FileError` for a folder of Zarr."""
    if path.name.lower().endswith(ZARR.endings) or any((path / name).is_file() for name in ZARR_FILES):
        raise FileError(f"{path}: this is {ZARR.name}: {ZARR.read}")


def refuse_other_output(path: Path) -> None:
    """`FileError` for a new file with the name of another format."""
    for other in OTHER_FORMATS:
        if path.name.lower().endswith(other.endings):
            raise FileError(f"{path}: gpulayout does not write {other.name}: {other.write}")


def other_model(name: str) -> OtherFormat | None:
    """The other format that a file of this name has, where a model is meant; None for other names."""
    return next((each for each in OTHER_MODELS if name.lower().endswith(each.endings)), None)
