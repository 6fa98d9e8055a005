r"""The tensors of scales that rules measure: they belong to a model beside those of its files.

    --tensor '(.*)\.weight=scale=absmax/448; block=128; dtype=f8e4m3fn; scale_name=\1.weight_scale_inv'

A model with `up.weight` then has `up.weight_scale_inv` too.  Rules fit it as any other tensor, and say how it is
stored.  What is divided by it, or multiplied, takes the numbers that were measured.

A tensor is read for its scales just before it moves, so that the second time it is in memory still.  The scales lie in
a file without a name beside the new one, of which nothing is left.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from gpulayout.files.checkpoints.header import DTYPES, Contents, StoredTensor, tensor_text
from gpulayout.files.checkpoints.measured import CHUNK, Measured, measured_of, scales_of
from gpulayout.files.checkpoints.model import Found, Model, about_tensor, read_tensor
from gpulayout.files.checkpoints.opening import Shard
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.views import view_of
from gpulayout.files.elements import Bytes, write_at
from gpulayout.files.engine import Report
from gpulayout.files.linux_files import read_ahead
from gpulayout.files.new_file import scratch_file
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

AHEAD = 1 << 24  # bytes that the disk reads while others are looked at


class Measurement(NamedTuple):
    """Scales that are measured.

    found   the tensor whose scales they are
    """

    found: Found
    measured: Measured


@dataclass(frozen=True)
class MeasuredShard(Shard):
    """The tensors of scales of one file, in the file that holds them for a while."""

    scales: Scales = field(repr=False, kw_only=True)

    @property
    def is_measured(self) -> bool:
        """True: no file of the model has these tensors."""
        return True

    def prepare(self, tensor: StoredTensor) -> None:
        """Measure a tensor, once."""
        self.scales.measure(tensor.begin)


class Scales:
    """All scales that are measured for one relayout, which may have several models: each only once.

    nbytes   of the tensors that are read for them
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._waiting: dict[int, Measurement] = {}  # by where their scales begin
        self._begins: dict[tuple[int, str, Measured], int] = {}  # by the file, the tensor and how it is measured
        self._size = 0
        self._stream = _Stream()
        self._most = CHUNK
        self._report: Report = _untold

    @property
    def stream(self) -> BinaryIO:
        """The file, which is there inside the `with` of `opened` only."""
        return cast(BinaryIO, self._stream)

    @property
    def are_any(self) -> bool:
        """True where something is measured."""
        return self._size > 0

    def add(self, name: str, measurement: Measurement) -> StoredTensor:
        """A new tensor of this name for the scales."""
        (shard, old), measured = measurement
        dtype = next(dtype for dtype, kind in DTYPES.items() if kind is measured.measure.dtype)
        size = math.prod(measured.shape) * measured.measure.dtype.itemsize
        begin = self._begins.setdefault((id(shard), old.name, measured), self._size)
        if begin == self._size:
            self._waiting[begin] = measurement
            self._size += max(size, 1)  # each begins at a byte of its own
            self.nbytes += measured.nbytes
        return StoredTensor(name, dtype, measured.shape, begin, begin + size)

    @contextlib.contextmanager
    def opened(self, folder: Path, most: int, report: Report) -> Iterator[None]:
        """Inside the `with` scales are measured when they are read.

        most     bytes of a tensor that are read at a time
        report   gets the bytes that were read
        """
        if not self.are_any:
            yield
            return
        with scratch_file(folder, self._size) as stream:
            self._stream.file, self._most, self._report = stream, min(most, CHUNK), report
            yield

    def measure(self, begin: int) -> None:
        """Measure the scales that begin at a byte of the file, unless they are there."""
        if begin not in self._waiting:
            return
        found, measured = self._waiting[begin]
        (shard, old), ahead = found, 0

        def read(start: int, count: int) -> Bytes:
            nonlocal ahead
            if old.blocks is None and ahead < min(start + AHEAD, old.nbytes):
                read_ahead(shard.stream, shard.begin(old) + ahead, start + AHEAD - ahead)
                ahead = start + AHEAD
            part = read_tensor(found, start, count)
            self._report(count)
            return part

        with about_tensor(old.name, old):
            scales = scales_of(measured, read, self._most)
        write_at(self.stream, memoryview(scales.tobytes()), begin, f"the scales of {tensor_text(old.name)}")
        del self._waiting[begin]

    def finish(self) -> None:
        """Measure those that nothing has needed so far."""
        for begin in [*self._waiting]:
            self.measure(begin)


class _Stream(io.RawIOBase):
    """A file that is opened later."""

    file: BinaryIO | None = None

    def fileno(self) -> int:
        """The descriptor."""
        if self.file is None:
            raise ValueError("scales are measured inside the with of opened only")
        return self.file.fileno()


def _untold(more: int) -> None:
    """A `Report` that nobody hears."""


def with_measured(model: Model, rules: Mapping[str, tuple[Rule, str]], scales: Scales) -> Model:
    """A model with the tensors of all scales that are measured, each behind the one that it is measured from.

    rules   that of each tensor that is measured, by its name, and the name of the tensor that it fits: of the parts of
            a join the first one

    `LayoutError` for a name that is taken, and for a tensor that cannot be measured.
    """
    shards: dict[int, MeasuredShard] = {}
    tensors: dict[str, tuple[Found, ...]] = {}
    measured: dict[str, str] = {}
    input_of = dict(model.input_of)
    for name, found in model.tensors.items():
        tensors[name] = found
        if name not in rules:
            continue
        rule, first = rules[name]
        new = _new_name(name, rule, first, model, measured)
        own: list[Found] = []
        for shard, tensor in found if rule.regroup.along is not None else found[:1]:
            if id(shard) not in shards:
                shards[id(shard)] = MeasuredShard(shard.path, scales.stream, Contents(None, (), 0), scales=scales)
                input_of[id(shards[id(shard)])] = model.input_of[id(shard)]
            own.append((shards[id(shard)], scales.add(new, _measurement(model, (shard, tensor), rule))))
        tensors[new], measured[new] = tuple(own), name
    return replace(model, tensors=tensors, input_of=input_of, measured=measured)


def _new_name(name: str, rule: Rule, first: str, model: Model, measured: Mapping[str, str]) -> str:
    """What the scales of a tensor are called."""
    sibling = rule.siblings["scale"]
    new = sibling.text_for(name, rule.match.fullmatch(first))
    if new in measured:
        raise LayoutError(
            f"{sibling.said} is {value_text(clipped(new, 80))} for {tensor_text(measured[new])} and for "
            f"{tensor_text(name)}: write {{name}}, or a group, so that each has its own"
        )
    if new in model.tensors:
        raise LayoutError(
            f"{sibling.said} is {value_text(clipped(new, 80))} for {tensor_text(name)}, and the file has a tensor of "
            "this name: write another one"
        )
    return new


def _measurement(model: Model, found: Found, rule: Rule) -> Measurement:
    tensor = found[1]
    assert rule.measure is not None
    with about_tensor(tensor.name, tensor):
        view = view_of(tensor, model.notes.get(tensor.name), rule.from_)
        return Measurement(found, measured_of(view, rule.measure, rule.options.get("block")))
