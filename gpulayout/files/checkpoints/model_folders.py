"""Folders of models, as a hub's download is: which file is the model, and what else a new folder gets.

    Llama-GPTQ/config.json  model.safetensors.index.json  model-00001-of-00002.safetensors ...  tokenizer.json

A folder that is read stands for the index in it, or the only .safetensors file, or else the only GGUF file.  A new
folder gets the new model, the config, and copies of all other files but those of models in other formats.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpulayout.files.checkpoints import config
from gpulayout.files.checkpoints.gguf import GGUF_ENDING, is_later_part
from gpulayout.files.errors import FileError
from gpulayout.files.folders import refuse_broken, refuse_folder
from gpulayout.files.new_file import PARTIAL
from gpulayout.files.other_formats import MOST_POINTER, refuse_other_folder, refuse_pointer
from gpulayout.layout.checks import counted

MODEL = "model"
ENDING = ".safetensors"
INDEX_ENDING = ".safetensors.index.json"
# What a new folder does not get: models in other formats, what is unfinished, and configs, which are made anew.
_LEFT_OUT = (
    ENDING, ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".keras", ".msgpack", ".gguf", ".onnx", ".npz", ".ot",
)  # fmt: skip


class OtherFile(NamedTuple):
    """A file of a new folder beside the model.

    content   of it; None for that of the file `source`
    """

    path: Path
    content: bytes | None
    source: Path | None = None


def is_model_folder(path: object) -> bool:
    """True for a folder with a model in it."""
    return isinstance(path, (str, os.PathLike)) and os.path.isdir(path) and bool(_models(Path(os.fspath(path))))


def model_in(folder: Path) -> Path:
    """The model in a folder; `FileError` where there is none, or where it is not clear which."""
    refuse_other_folder(folder)
    found = _models(folder)
    if not found:
        refuse_folder(folder)
    if len(found) == 1 and not _shards_without_index(found):
        return folder / found[0]
    usual = next((f"{MODEL}{ending}" for ending in (INDEX_ENDING, ENDING) if f"{MODEL}{ending}" in found), None)
    if usual is not None:
        return folder / usual
    refuse_broken(folder / f"{MODEL}{INDEX_ENDING}")
    if shards := _shards_without_index(found):
        raise FileError(
            f"{folder}: {shards[0]} is one of several shards, and their index, {MODEL}{INDEX_ENDING}, is missing: is "
            "the download complete?"
        )
    names = ", ".join(str(folder / name) for name in found[:3])
    if all(map(_OF_RANK.fullmatch, found)):
        every = folder / _RANK.sub(r"\g<1>${rank}", found[0])
        raise FileError(
            f"{folder}: this folder has the files of ranks: the recipe llama-from-tp makes one model of them, and "
            f"llama-tp-to-tp those of other ranks; {every} names all of them; or write one of them, such as {names}"
        )
    raise FileError(f"{folder}: this folder has {counted(len(found), 'model')}: write one of them, such as {names}")


_SHARD = re.compile(r".*-[0-9]{5}-of-([0-9]{5})\.safetensors", re.IGNORECASE | re.DOTALL)
_RANK = re.compile(r"(rank[-_]?)[0-9]+", re.IGNORECASE)
_OF_RANK = re.compile(r".*rank[-_]?[0-9]+.*\.safetensors", re.IGNORECASE | re.DOTALL)


def _shards_without_index(names: Sequence[str]) -> list[str]:
    """Those that are a part of a model in several files, by their names."""
    return [name for name in names if (found := _SHARD.fullmatch(name)) and int(found[1]) > 1]


def _models(folder: Path) -> list[str]:
    """The models in a folder: indices if there are any, or else all files of the format, or else those of GGUF."""
    names = _files(folder)
    for ending in (INDEX_ENDING, ENDING, GGUF_ENDING):
        if found := [name for name in names if name.lower().endswith(ending) and not is_later_part(name)]:
            return found
    return []


def _files(folder: Path) -> list[str]:
    with os.scandir(folder) as scanned:
        return sorted(each.name for each in scanned if each.is_file())


def other_files(folder: Path, new: Path) -> list[OtherFile]:
    """The files that a new folder gets from an old one beside the model and the config."""
    with os.scandir(folder) as scanned:
        listed = sorted(each.name for each in scanned if not each.is_dir())
    names = [name for name in listed if not name.startswith(".") and PARTIAL not in name]
    configs = (config.NAME, config.OF_GPTQ, config.OF_AWQ)
    kept = [name for name in names if not name.lower().endswith(_LEFT_OUT) and name not in configs]
    return [copy_of(folder / name, new) for name in kept]


def not_copied(folder: Path, new: Path, read: Collection[str], others: Sequence[OtherFile]) -> list[str]:
    """The files and folders that a new folder does not get from an old one; those with a leading dot come last.

    read     the files of the model, by their names
    others   what the new folder gets
    """
    known = {*read, *(each.path.name for each in others)}
    with os.scandir(folder) as scanned:
        listed = [each for each in scanned if each.name not in known]
    folders = [f"{each.name}/" for each in listed if each.is_dir() and not os.path.samefile(each.path, new)]
    files = [each.name for each in listed if not each.is_dir() and PARTIAL not in each.name]
    return sorted([*files, *folders], key=lambda name: (name.startswith("."), name.endswith("/"), name))


def copy_of(file: Path, new: Path) -> OtherFile:
    """A file of the old folder in the new one; `FileError` for a name without its file, and for a pointer to one."""
    refuse_broken(file)
    if file.stat().st_size <= MOST_POINTER:
        refuse_pointer(str(file), file.read_bytes())
    return OtherFile(new / file.name, None, file)


def write_other(file: OtherFile, stream: BinaryIO) -> None:
    """Write a file of a new folder."""
    if file.content is not None:
        stream.write(file.content)
    elif file.source is not None:
        with open(file.source, "rb") as old:
            shutil.copyfileobj(old, stream)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """A folder that is there inside the `with`; afterwards only if it was there before, or if something is in it."""
    if not folder.parent.is_dir():
        raise FileError(f"{folder}: there is no folder {folder.parent}: make it first")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: this is a file, and the result is a folder")
    try:
        folder.mkdir()
    except FileExistsError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it has files in it
            folder.rmdir()


def check_new_folder(folder: Path, old: Path, files: Sequence[Path]) -> None:
    """`FileError` for the folder of the old model, for one with files of another model, and for links into the old one.

    files   the new ones
    """
    if os.path.samefile(folder, old):
        raise FileError(f"{folder}: input and output are the same folder")
    own = {path.name for path in files}
    of_models = ENDING, INDEX_ENDING, config.OF_GPTQ, config.OF_AWQ
    left = [name for name in _files(folder) if name.lower().endswith(of_models) and name not in own]
    if left:
        raise FileError(
            f"{folder}: it has {left[0]}, a file of another model that a loader would read too: delete it, or name "
            "another folder"
        )
    read = {_identity(old / name): old / name for name in _files(old)}
    for path in files:
        if path.exists() and (same := read.get(_identity(path))) is not None:
            raise FileError(f"{path}: this is {same}, which is read: input and output are the same file")


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
