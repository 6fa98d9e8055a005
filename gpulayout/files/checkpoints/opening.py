"""A checkpoint that is open for reading: safetensors files, the shards that an index names, or GGUF files.

It has one input or several.  An input is a file, the index of its shards, or the first part of a GGUF model.

The index, model.safetensors.index.json, says in which file each tensor is:

    {"metadata": {"total_size": 24}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors", ...}}

It and the headers must agree, or a tensor would be lost.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from gpulayout.files.checkpoints.gguf import GGUF_ENDING, check_parts, gguf_files, is_gguf, read_gguf
from gpulayout.files.checkpoints.header import Contents, StoredTensor, parsed_json, read_contents, tensor_text
from gpulayout.files.checkpoints.model_folders import ENDING, INDEX_ENDING, is_model_folder, model_in
from gpulayout.files.checkpoints.rank_files import RANK, rank_files
from gpulayout.files.errors import FileError
from gpulayout.files.folders import refuse_broken, refuse_folder, refuse_folder_as_output
from gpulayout.files.other_formats import POINTER, other_model, refuse_pointer
from gpulayout.files.standard_streams import opened
from gpulayout.layout.checks import clipped, counted, value_text

Stage = Callable[[str, int, int], None]  # gets what is done, such as "headers read", how much of it, and of how much
Item = TypeVar("Item")

MOST_INDEX = 100_000_000  # bytes
CHUNK = 1 << 20  # bytes that are read at a time


def is_about_model(files: Iterable[object], *one_array: object) -> bool:
    """True for a move of a model: one of its files has the name of one, and it says nothing that is for one array.

    one_array   the layouts or shapes of an array's two files, as the caller gives them
    """
    named = (each for each in files if isinstance(each, (str, os.PathLike)))
    return all(each is None or each is False for each in one_array) and any(map(is_checkpoint, named))


def are_models(files: Iterable[object]) -> bool:
    """True for files that all have the names of models, so that no array is meant."""
    return all(isinstance(each, (str, os.PathLike)) and is_checkpoint(each) for each in files)


def is_checkpoint(name: str | os.PathLike[str]) -> bool:
    """True for the name of a safetensors file, of an index of such, or of a GGUF file, and for a folder with one."""
    return os.fspath(name).lower().endswith((ENDING, INDEX_ENDING, GGUF_ENDING)) or is_model_folder(name)


def is_index(path: Path) -> bool:
    """True for the name of an index."""
    return path.name.lower().endswith(INDEX_ENDING)


@dataclass(frozen=True)
class Shard:
    """One file of a checkpoint, open."""

    path: Path
    stream: BinaryIO = field(repr=False)
    contents: Contents

    def begin(self, tensor: StoredTensor) -> int:
        """Where a tensor begins in the file."""
        return self.contents.start + tensor.begin

    @property
    def is_measured(self) -> bool:
        """True for tensors of scales that are measured from others."""
        return False

    def prepare(self, tensor: StoredTensor) -> None:
        """Make the bytes of a tensor, where they are not in the file from the beginning."""


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint.

    paths    of its inputs, as the caller names them: of files and of indices
    inputs   the files of each one: itself, or the shards of an index in the order of their names
    index    the parsed index without its weight_map, where the only input is an index; otherwise None
    same     the names of tensors that were compared, and are the same in all inputs that have them
    """

    paths: tuple[Path, ...]
    inputs: tuple[tuple[Shard, ...], ...]
    index: Mapping[str, Any] | None = None
    same: set[str] = field(default_factory=set)

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All files, in the order of the inputs."""
        return tuple(itertools.chain.from_iterable(self.inputs))

    @property
    def path(self) -> Path:
        """The first input."""
        return self.paths[0]

    @property
    def name(self) -> str:
        """What messages call it."""
        others = len(self.paths) - 1
        return f"{self.path} and {counted(others, 'other input')}" if others else str(self.path)


def untold(what: str, done: int, total: int) -> None:
    """The `Stage` of callers who want to hear nothing."""


def staged(items: Collection[Item], what: str, stage: Stage) -> Iterator[Item]:
    """The items, each reported when the next one is asked for."""
    for done, item in enumerate(items, 1):
        yield item
        stage(what, done, len(items))


@contextlib.contextmanager
def open_checkpoint(paths: Sequence[Path], stage: Stage = untold, ranks: str | None = None) -> Iterator[Checkpoint]:
    """A checkpoint of one input or several, open inside the `with`; `FileError` for other files, and OSError.

    paths   of files, of indices, and of folders with a model; or one with ${rank} in its name, for those of all ranks
    ranks   the names of the files of each rank, see `rank_files`: a folder alone has an input for each rank
    """
    of_ranks = _of_ranks(paths, ranks)
    if of_ranks is not None:
        paths = [files[0] for files in of_ranks]
    paths = [model_in(path) if is_model_folder(path) else path for path in paths]
    for path in paths:
        check_is_checkpoint(path)
    indices = {path: read_index(path) for path in paths if is_index(path)}
    files = [_files_of(path, indices[path][1]) if path in indices else gguf_files(path) for path in paths]
    if of_ranks is not None and any(len(parts) > 1 for parts in of_ranks):
        files = of_ranks
    with contextlib.ExitStack() as stack:
        wanted = [*itertools.chain.from_iterable(files)]
        streams = ((path, stack.enter_context(opened(path))) for path in staged(wanted, "headers read", stage))
        shards = iter([Shard(path, stream, _contents(path, stream)) for path, stream in streams])
        inputs = tuple(tuple(itertools.islice(shards, len(each))) for each in files)
        for path, each in zip(paths, inputs):
            if path in indices:
                _check_index(path, indices[path][1], each)
            check_parts([(shard.path, shard.contents) for shard in each])
            _check_once(each)
        yield Checkpoint(tuple(paths), inputs, indices[paths[0]][0] if len(paths) == len(indices) == 1 else None)


def _of_ranks(paths: Sequence[Path], names: str | None) -> list[list[Path]] | None:
    """The files of each rank where one path stands for all of them; None where each path is an input."""
    named = next((path for path in paths if RANK in path.name), None)
    if named is not None and len(paths) > 1:
        raise FileError(f"{named}: this name stands for the files of all ranks, so it is the only input")
    if named is not None:
        return rank_files(named.parent, named.name)
    return rank_files(paths[0], names) if names is not None and len(paths) == 1 and paths[0].is_dir() else None


def _contents(path: Path, stream: BinaryIO) -> Contents:
    refuse_pointer(str(path), stream.read(len(POINTER)))
    stream.seek(0)
    return (read_gguf if is_gguf(path) else read_contents)(str(path), stream)


def _check_once(shards: Sequence[Shard]) -> None:
    """`FileError` for a tensor that two files of one input have."""
    shard_of: dict[str, Shard] = {}
    for shard in shards:
        for each in shard.contents.tensors:
            first = shard_of.setdefault(each.name, shard)
            if first is not shard:
                raise FileError(f"{shard.path}: {tensor_text(each.name)} is in {first.path.name} too")


def _files_of(path: Path, files: Mapping[str, str]) -> list[Path]:
    """The shards of an index, in the order of their names; `FileError` if one is missing."""
    shards = [path.parent / name for name in sorted({*files.values()})]
    missing = [shard.name for shard in shards if not shard.exists()]
    if missing:
        refuse_broken(path.parent / missing[0])
        more = f": {len(missing)} of its {len(shards)} shards are missing" if len(missing) > 1 else ""
        raise FileError(f"{path}: the index names {value_text(missing[0])}, which is not beside it{more}")
    return shards


def check_is_checkpoint(path: Path) -> None:
    """`FileError` for what is no model, with the way to one from another format."""
    if is_checkpoint(path.name):
        return
    refuse_folder(path)
    other = other_model(path.name)
    if other is not None:
        raise FileError(f"{path}: this is {other.name}: {other.read} makes a model of it that can be read")
    if not os.path.lexists(path):
        raise FileError(f"{path}: there is no such file or folder{_how_to_download(path)}")
    raise FileError(f"{path}: the name of a model ends in {ENDING}, {INDEX_ENDING} or {GGUF_ENDING}")


_ON_A_HUB = re.compile(r"(https?:/+(?:huggingface\.co|hf\.co)/)?(\w[\w.-]*/\w[\w.-]*)(?(1)(?:/.*)?)")


def _how_to_download(path: Path) -> str:
    """What to run first where a name may be that of a model on a hub, A/B; nothing for others."""
    with contextlib.suppress(ValueError, OSError):  # Python's callers are told whole paths
        path = path.relative_to(Path.cwd())
    found = _ON_A_HUB.fullmatch(path.as_posix())
    if found is None or (found[1] is None and path.parent.exists()):
        return ""
    folder = found[2].rpartition("/")[2]
    return f"; a model of the hub is downloaded first: hf download {found[2]} --local-dir {folder}"


def check_is_new_checkpoint(path: Path, source: Path) -> None:
    """`FileError` for a folder, and for the name of another format, in place of the new file of a model `source`."""
    refuse_folder_as_output(path, source)
    other = other_model(path.name)
    if other is not None:
        raise FileError(
            f"{path}: a model does not become {other.name}: write model.safetensors; {other.write} makes one of it"
        )


def read_index(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """An index without its weight_map, and the weight_map: the file of every tensor."""
    with opened(path) as stream:
        chunks = iter(lambda: stream.read(CHUNK), b"")  # read(MOST_INDEX) would take all of these bytes at once
        text = b"".join(itertools.islice(chunks, MOST_INDEX // CHUNK + 1))
    if len(text) > MOST_INDEX:
        raise FileError(f"{path}: the index has more than {MOST_INDEX} bytes")
    refuse_pointer(str(path), text)
    index = parsed_json(str(path), text, "the index")
    files = index.pop("weight_map", None) if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise FileError(f"{path}: the index has no weight_map from the names of tensors to those of files")
    if not isinstance(index.get("metadata", {}), dict):
        raise FileError(f"{path}: the metadata of the index is {value_text(index['metadata'])}, not an object")
    for name in {*files.values()}:
        if name != os.path.basename(name) or not name.lower().endswith(ENDING) or "\0" in name or "\\" in name:
            raise FileError(
                f"{path}: {value_text(clipped(name, 80))} is not the name of a {ENDING} file beside the index"
            )
    return index, files


def _check_index(path: Path, files: Mapping[str, str], shards: tuple[Shard, ...]) -> None:
    """Check that every tensor is where the index says, and nowhere else."""
    shard_of: dict[str, str] = {}
    for shard in shards:
        for each in shard.contents.tensors:
            who = f"{path}: {tensor_text(each.name)}"
            if each.name in shard_of:
                raise FileError(f"{who} is in two shards, {shard_of[each.name]} and {shard.path.name}")
            if each.name not in files:
                raise FileError(f"{who} is in {shard.path.name}, but not in the index")
            if files[each.name] != shard.path.name:
                raise FileError(f"{who} is in {shard.path.name}, but the index says {files[each.name]}")
            shard_of[each.name] = shard.path.name
    for name, file in files.items():
        if name not in shard_of:
            raise FileError(f"{path}: the index says that {tensor_text(name)} is in {file}, but it is not")
