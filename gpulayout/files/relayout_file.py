"""`relayout_file`: from file to file, for arrays larger than memory and for whole models."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias, Unpack, overload

from gpulayout.arrays.array_types import ArithmeticOptions, ShapeLike, TargetLike
from gpulayout.arrays.shaped_buffer import ShapedBuffer
from gpulayout.files.array_move import ArrayMove
from gpulayout.files.checkpoints.model_move import NOT_FOR_MODELS, ModelMove
from gpulayout.files.checkpoints.opening import are_models, is_about_model
from gpulayout.files.checkpoints.planner import planner_of
from gpulayout.files.checkpoints.planning import CheckpointPlan, plan_restore
from gpulayout.files.checkpoints.rank_files import Ranks, read_ranks
from gpulayout.files.checkpoints.recipes import Recipe, move_options, read_recipe
from gpulayout.files.engine import Progress
from gpulayout.files.errors import FileError, advice_in_python
from gpulayout.files.plain_bytes import PlainBytes
from gpulayout.files.results import CheckpointRelayout, FileRelayout, checkpoint_relayout, file_relayout
from gpulayout.layout.checks import clipped, type_text, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.requests.arithmetic import OPTIONS, meant
from gpulayout.requests.shape_arguments import own_shape

OneSet = str | os.PathLike[str] | Mapping[str, Any]
Rules = OneSet | Sequence[OneSet]

FilePath: TypeAlias = str | os.PathLike[str]
Counts: TypeAlias = int | tuple[int, int]  # of new ranks, or of old and new ones
Pairs: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]  # of names


@overload
def relayout_file(
    file: FilePath | ShapedBuffer[Any], out: FilePath, *, source: ShapeLike | None = None,
    target: TargetLike | None = None, unpack: bool = False, raw: bool = False, offset: SupportsIndex = 0,
    byte_order: str | None = None, strict: bool = True, overwrite: bool = False, dry_run: bool = False,
    max_bytes: SupportsIndex | str | None = None, scratch: FilePath | None = None,
    progress: Callable[[int, int], None] | None = None, **options: Unpack[ArithmeticOptions],
) -> FileRelayout: ...  # fmt: skip
@overload
def relayout_file(
    file: FilePath | Sequence[FilePath], out: FilePath, *, tensors: Rules, recipe: FilePath | None = None,
    ranks: Counts | None = None, unpack: bool = False, rename: Pairs = (), assume: Pairs = (), overwrite: bool = False,
    allow_unmatched: bool = False, dry_run: bool = False, max_bytes: SupportsIndex | str | None = None,
    progress: Callable[[int, int], None] | None = None, **options: Unpack[ArithmeticOptions],
) -> CheckpointRelayout: ...  # fmt: skip
@overload
def relayout_file(
    file: FilePath | Sequence[FilePath], out: FilePath, *, recipe: FilePath, tensors: Rules | None = None,
    unpack: bool = False, rename: Pairs = (), assume: Pairs = (), allow_unmatched: bool = False,
    overwrite: bool = False, dry_run: bool = False, max_bytes: SupportsIndex | str | None = None,
    progress: Callable[[int, int], None] | None = None, **options: Unpack[ArithmeticOptions],
) -> CheckpointRelayout: ...  # fmt: skip
def relayout_file(
    file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ShapedBuffer[Any],
    out: str | os.PathLike[str],
    *,
    tensors: Rules | None = None,
    recipe: str | os.PathLike[str] | None = None,
    ranks: Counts | None = None,
    rename: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    assume: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    allow_unmatched: bool = False,
    source: ShapeLike | None = None,
    target: TargetLike | None = None,
    unpack: bool = False,
    raw: bool = False,
    offset: SupportsIndex = 0,
    byte_order: str | None = None,
    strict: bool = True,
    overwrite: bool = False,
    dry_run: bool = False,
    max_bytes: SupportsIndex | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[ArithmeticOptions],
) -> FileRelayout | CheckpointRelayout:
    r"""Copy the elements of a file into a new file in another layout.  The array may be larger than memory.

    A safetensors file, the index of its shards, or a folder with either is a model; a GGUF file can be read as one.
    Rules say what becomes of which tensors; all others are copied.  Several models become one.

    Parameters
    ----------
    file : path, Array, or list of paths
        A .npy file, or a file of plain bytes for a buffer of `source`.  Or an `Array` in the memory of the host, which
        needs no source.  Or a model: ``model.safetensors``, ``model.safetensors.index.json``, or a folder with one, as
        a hub's download is; or a list of models, whose tensors are put into one file.
    out : path
        The new file.  It gets a .npy header if its name ends in ``.npy``.  It appears complete or not at all, in the
        folder that was named when the call began, also if that folder is renamed meanwhile (Linux), or if the process
        changes its own.  Of a model in a folder, a folder too, which gets the config and all other small files.
    tensors : mapping, str, path or list of these, optional
        Rules by regular expressions, which fit whole names: ``{r"(.*)\.kernel": r"i o -> o i; name=\1.weight"}``.
        A rule is text, a Layout, or a mapping with the keys ``to`` (a pattern, a layout, its name, or several patterns
        of different ranks), ``dtype``, ``scale``, ``scale_name``, ``shift``, ``divide``, ``block``, ``name``, ``rank``,
        ``kind``, ``flip``, ``keep`` and ``drop``.  Or a map: ``"flax-to-torch"``, ``"torch-to-flax"``,
        ``"keras-to-torch"``, ``"torch-to-keras"``, ``"mlx-to-torch"``, ``"torch-to-mlx"``, or a file of rules that ends
        in ``.toml``.  Of a list, the first rules that fit a tensor count.  Without rules all tensors are copied; type
        checkers know the result by ``tensors={}``.
    recipe : str or path, optional
        Rules for a whole checkpoint, by name, ``"gptq-to-marlin"`` or ``"llama-tp(ranks=2)"``, or a file of your own
        that ends in ``.toml``.  The rules of `tensors` stand before its own.  It checks ``config.json``, if there is
        one, and changes it in a new folder.  ``gpulayout recipes`` lists them.
    ranks : int or pair of int, optional
        The number of new files, one for each rank, instead of one new model; or a pair such as ``(4, 2)``: how many
        old files, and how many new ones.  `out` is then a name with ``${rank}``, such as
        ``"rank${rank}.safetensors"``; as `file`, such a name stands for the files of all old ranks.  In rules,
        ``${rank}`` is the number of the new file, counted from 0, and ``${ranks}`` is how many there are.
    rename : mapping or pairs, optional
        Regular expressions, and the texts that take the place of what they find in the names of all new tensors.
    assume : mapping or pairs, optional
        Regular expressions, and what the layers of the tensors are whose whole names they fit: ``"conv"``,
        ``"conv_transpose"``, ``"depthwise"``, ``"linear"`` or ``"embedding"``.  Of several, the first counts.  Maps ask
        for it where neither a bias nor a name tells.  ``{".*": "conv"}`` says that no convolution is transposed, and
        ``{"format": "pt"}`` that the file is PyTorch's, whatever its metadata says.
    allow_unmatched : bool
        Allow rules that fit no tensor, assumptions that decide nothing and renamings that change no name; and in maps
        that want a rule for every tensor, tensors without one.
    source : Shape or str, optional
        The shape of the buffer in `file`.  By default `file` holds an N-d array, which its header describes; then
        name the target: ``relayout_file(file, out, target="{0,1}")``.
    target : Shape, Layout or str, optional
        The shape of the result, or only its layout: ``"{0,1}"``, a name such as ``"F"``, or a pattern such as ``"h w c
        -> c h w"``, for the memory of the array after it.  By default the result is an N-d array in C order.  A .npy
        file keeps the dimensions where its header can say the layout; else the buffer is 1-D.
    unpack : bool
        Make arrays again of all tensors of a model that a relayout has stored in other layouts; notes in the file say
        which.  Of one array, make an N-d array of a buffer of `source`, which is the default.
    raw : bool
        Buffers are plain bytes, whatever the names of the files are.
    offset : int
        Bytes at the beginning of `file` that are skipped: the header of another format before a buffer of `source`,
        such as the 352 bytes of NIfTI.  The buffer has to end where the file ends, unless `strict` is False.
    byte_order : str, optional
        ``"big"`` or ``"little"``: how a raw `file` stores the bytes of each number; by default as this machine does.
        The header of a .npy file says it.  The new file has the order of the machine.
    strict : bool, optional
        False ignores what follows the buffer in a raw `file`, such as a trailer or another array, and takes the first
        elements of a 1-D .npy file that has more than `source`.
    overwrite : bool
        Replace `out` if it exists.
    dry_run : bool
        Check all, and write nothing: the result says what would be done.
    max_bytes : int or str, optional
        Bytes to use, or text such as ``"512M"`` or ``"0.5G"``; by default a quarter of what is free.  Buffers take at
        most three quarters of it, and at most 1 GiB; what Python itself needs, about 50 MB, is not counted below
        ``"96M"``.
        Refused is what makes runs of less than 512 bytes or more than 100,000 blocks.
    scratch : path, optional
        A folder for a scratch file of about the size of the array, on a fast disk.  With it, two passes are made where
        runs would be short.  The file has no name, so nothing is left of it.
    progress : callable, optional
        Called as ``progress(done, total)``, several times a second.  Both numbers count bytes that are read and
        bytes that are written, in all passes.  An exception that it raises ends the call, and nothing is left.
    **options
        ``dtype=``, ``scale=``, ``zero_point=``, ``mean=`` and others change the elements on the way: see
        `ArithmeticOptions`.  Arrays of parameters are in memory, beside `max_bytes`.  A .npy file names a type
        that NumPy lacks by its width alone.
        For a model, ``dtype=`` is for all tensors of f16, bf16, f32 and f64 whose rule names no type.

    Returns
    -------
    FileRelayout
        The two shapes, the dimensions of the new file, blocks, bytes and seconds.
    CheckpointRelayout
        For a model: what became of each tensor, bytes and seconds.

    Raises
    ------
    TypeError
        For element types that do not suit `options`, and for keywords that do not go together.
    ValueError
        When a file is not what the shape or its header says, becomes shorter while it is read, or must not be written.
        The message begins with its name.  FileExistsError when `out` exists.
    LayoutError
        When the two shapes are not the same array, or when `max_bytes` is too little.  The message names the least
        limit that is accepted, and says if a scratch folder lets less do.  When a rule does not fit a tensor, or fits
        in several ways; when rules fit no tensor; when two tensors would have one name; when a map cannot tell what a
        tensor is.
    OSError
        When a file cannot be read or written, as on a full disk.

    See Also
    --------
    relayout : The same in memory.
    Plan.blocks : How it is cut.
    Plan.passes : When two passes are made.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import gpulayout as gl
    >>> folder = tempfile.TemporaryDirectory()
    >>> before, after = (os.path.join(folder.name, name) for name in ("before.npy", "after.npy"))
    >>> np.save(before, np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> done = gl.relayout_file(before, after, target="{0,1}", max_bytes="512M")
    >>> np.load(after, mmap_mode="r").flags.f_contiguous, done.dimensions, done.bytes_written
    (True, (2, 3), 24)
    >>> done = gl.relayout_file(before, after, dtype="u8", scale=[10, 20, 30], overwrite=True)
    >>> np.load(after)
    array([[  0,  20,  60],
           [ 30,  80, 150]], dtype=uint8)

    A model, here of one tensor, as one framework wants it after another:

    >>> import json
    >>> flax, torch = (os.path.join(folder.name, f"{name}.safetensors") for name in ("flax", "torch"))
    >>> header = json.dumps({"Dense_0.kernel": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    >>> with open(flax, "wb") as stream:  # safetensors.flax.save_file writes such files
    ...     _ = stream.write(len(header).to_bytes(8, "little") + header + bytes(24))
    >>> gl.relayout_file(flax, torch, tensors="flax-to-torch", dtype="bf16").tensors[0][1:4]
    ('Dense_0.weight', 'F32[2,3]', 'BF16[3,2]')
    >>> folder.cleanup()
    """
    _check_keywords(options)
    plain = PlainBytes.of(offset, byte_order, raw, strict)
    files: list[Any] = [*file] if isinstance(file, (list, tuple)) else [file]
    named = *files, out
    is_named = is_about_model(named, target, source) or (are_models(named) and not raw)
    of_models: dict[str, Any] = {"rename": rename, "assume": assume, "allow_unmatched": allow_unmatched}
    run = None if dry_run else (lambda done, total: None) if progress is None else progress
    with _advice_in_python():
        if is_named or tensors is not None or recipe is not None:
            _check_says_nothing_of_arrays(options, source=source, target=target, scratch=scratch, **plain.said)
            made_by = None if recipe is None else read_recipe(recipe)
            files_of, counts = move_options(made_by), read_ranks(ranks)
            move = ModelMove(_model_paths(files), _path("out", out), max_bytes, overwrite, ranks=counts, **files_of)
            planner = _planner(tensors, made_by, unpack, counts, dtype=options.get("dtype"), **of_models)
            return _moved_models(move, planner, run)
        _check_is_array(file, {**of_models, "ranks": ranks})
        _check_unpack(file, unpack, source, target)
        folder = None if scratch is None else _path("scratch", scratch)
        origin = file if isinstance(file, ShapedBuffer) else _path("file", file)
        array_move = ArrayMove(origin, _path("out", out), plain, max_bytes, folder, overwrite)
        return _moved_array(array_move, source, target, run, options)


@contextlib.contextmanager
def _advice_in_python() -> Iterator[None]:
    """The advice of `FileError` is options of the command line: inside the `with` it becomes keywords."""
    try:
        yield
    except FileError as error:
        raise type(error)(f"{error}{advice_in_python(error.advice)}") from None


_OTHER_WORDS = {
    "map": "tensors",
    "maps": "tensors",
    "memory": "max_bytes",
    "to": "target",
    "layout": "target",
    "shape": "target",
    "from_": "source",
    "skip": "offset",
    "header": "offset",
    "endian": "byte_order",
    "byteorder": "byte_order",
    "trailer": "strict=False, which ignores what follows the buffer",
}
_FOR_MODELS = {  # what to write instead of a keyword for one array
    "target": "write tensors={{'.*': {0}}}",
    "strict": "allow_unmatched=True allows rules that fit no tensor",
    **NOT_FOR_MODELS,
    **{name: f"write tensors={{{{'.*weight': {{{{'{name}': {{0}}}}}}}}}}" for name in OPTIONS},
}


def _check_keywords(options: Mapping[str, Any]) -> None:
    """TypeError for keywords that no call here has, with what is meant; those of other calls are checked later."""
    for name, value in options.items():
        if name in _OTHER_WORDS:
            word = _OTHER_WORDS[name]
            instead = f"write {word}" if "=" in word else f"write {word}={clipped(value_text(value), 60)}"
            raise TypeError(f"{value_text(name)} is not a keyword of this call: {instead}")
        if name not in OPTIONS:
            own = [*inspect.signature(relayout_file).parameters][2:]
            raise TypeError(f"{value_text(name)} is not a keyword of this call{meant(name, own)}")


# ---- one array -------------------------------------------------------------------------------------------------------


def _check_is_array(file: Any, of_models: Mapping[str, Any]) -> None:
    """TypeError for several files, and for keywords that are for models."""
    for name, value in of_models.items():
        if value:
            raise TypeError(f"{name} is for a model, whose name ends in .safetensors or .safetensors.index.json")
    if not isinstance(file, (list, tuple)):
        return
    if len(file) == 1:
        raise TypeError(f"file is a list of one path, and an array is no model: write {value_text(file[0])}")
    raise TypeError(
        f"file is {f'a list of {len(file)} paths' if file else 'an empty list'}: several files are models, whose names "
        "end in .safetensors or .safetensors.index.json, and an array is one file"
    )


def _check_unpack(file: Any, unpack: bool, source: ShapeLike | None, target: TargetLike | None) -> None:
    """TypeError for `unpack` beside a target, and for a file that does not say which array its buffer is."""
    if unpack and target is not None:
        raise TypeError("unpack=True makes an N-d array in C order: leave out target, or unpack")
    if unpack and source is None and not isinstance(file, ShapedBuffer):
        raise TypeError("unpack=True needs source=SHAPE: a file with a buffer stores no dimensions")


def _moved_array(
    move: ArrayMove,
    source: ShapeLike | None,
    target: TargetLike | None,
    run: Progress | None,
    options: ArithmeticOptions,
) -> FileRelayout:
    """The move of an array, done unless `run` is None."""
    if isinstance(move.source, ShapedBuffer):
        for name in ("offset", "byte_order"):
            if name in move.plain.said:
                said = f"{name} {value_text(move.plain.said[name])}"
                raise TypeError(f"{said} is for a file of plain bytes, and file is a gl.Array")
        shape: Shape | None = own_shape(move.source.layout_shape, source, "source")
    else:
        shape = None if source is None else as_shape(source, "source")
    with move.planned(shape, target, **options) as (plan, route):
        return file_relayout(plan, route, None if run is None else move.run(plan, route, run))


def _path(role: str, path: Any) -> Path:
    """A path that stays the same when the process changes its folder during the call."""
    if not isinstance(path, (str, os.PathLike)):
        others = ", or a gl.Array, or a list of models" if role == "file" else ""
        raise TypeError(f"{role} is {type_text(path)}: it must be a path, as text or pathlib.Path{others}")
    return Path(os.path.abspath(path))


# ---- models ----------------------------------------------------------------------------------------------------------


def _check_says_nothing_of_arrays(options: Mapping[str, Any], **others: Any) -> None:
    """TypeError for keywords that are for one array."""
    for name, value in {**others, **options}.items():
        if value is not None and name != "dtype":
            instead = f": {_FOR_MODELS[name].format(clipped(value_text(value), 60))}" if name in _FOR_MODELS else ""
            raise TypeError(f"{name} is for one array, not for a model{instead}")


def _model_paths(files: Sequence[Any]) -> list[Path]:
    """The paths of models; TypeError for other values, and for none."""
    if any(isinstance(file, ShapedBuffer) for file in files):
        raise TypeError("file is a gl.Array, and a model is moved from a file to a file")
    if not files:
        raise TypeError("file is an empty list: name one model or several")
    several = len(files) > 1
    return [_path(f"file[{number}]" if several else "file", file) for number, file in enumerate(files)]


def _planner(
    tensors: Rules | None,
    recipe: Recipe | None,
    unpack: bool,
    ranks: Ranks | None,
    rename: Pairs,
    assume: Pairs,
    allow_unmatched: bool,
    dtype: Any,
) -> Callable[..., CheckpointPlan]:
    """What plans the move of models: by rules, or by the notes in their files."""
    if unpack:
        said = {
            "tensors": tensors,
            "recipe": recipe,
            "ranks": ranks,
            "rename": rename,
            "assume": assume,
            "allow_unmatched": allow_unmatched,
        }
        for name, value in (said | {"dtype": dtype}).items():
            if value:
                raise TypeError(f"unpack=True makes arrays of tensors by their notes alone: leave out {name}")
        return plan_restore
    return planner_of(
        tensors,
        _pairs("rename", rename, "texts"),
        _pairs("assume", assume, "kinds"),
        recipe=recipe,
        ranks=ranks,
        dtype=None if dtype is None else ElementType.of(dtype),
        allow_unmatched=allow_unmatched,
    )


def _moved_models(move: ModelMove, planner: Callable[..., CheckpointPlan], run: Progress | None) -> CheckpointRelayout:
    """The move of models, done unless `run` is None."""
    with move.planned(planner) as work:
        return checkpoint_relayout(work, None if run is None else move.run(work, run))


def _pairs(name: str, value: Any, what: str) -> list[tuple[str, str]]:
    """The pairs of a mapping, or of a list of pairs; TypeError for other values."""
    pairs = list(value.items() if isinstance(value, Mapping) else value) if isinstance(value, Iterable) else [value]
    if isinstance(value, str) or not all(isinstance(each, (tuple, list)) and len(each) == 2 for each in pairs):
        raise TypeError(f"{name} is {value_text(value)}: it takes a mapping from regular expressions to {what}")
    return [(regex, text) for regex, text in pairs]
