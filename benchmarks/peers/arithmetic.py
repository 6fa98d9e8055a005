"""Ways to convert an array with arithmetic on the way: this library, its relayout and NumPy, NumPy, PyTorch, OpenCV.

All do the same steps in f32, in the same order, unless `rounding` says how a way rounds otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import gpulayout as gl
from benchmarks.cases.arithmetic import (
    CAST_ALONE,
    CAST_BEFORE,
    CAST_FIRST,
    CHAIN,
    IN_PLACE,
    OPENCV,
    QUANTIZED,
    RELAYOUT,
    TURN_FIRST,
    Conversion,
)
from benchmarks.peers.contender import OURS

COMPILED = "torch.compile"
LOWEST, HIGHEST = -128, 127  # of s8


class Way(NamedTuple):
    """One way to do a conversion.

    output    "warm" writes memory that was written before, "fresh" allocates its output and what it needs
    call      does it once and returns the output
    rounding  how its rounding differs from the others'; "" if its result is the same bit for bit
    partial   does only a part of the work, so that its result says nothing
    """

    name: str
    output: str
    call: Callable[[], Any]
    rounding: str = ""
    partial: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.output}"


class Work(NamedTuple):
    """The arrays of a conversion.  Parameters have one value for each index of the channel; None in a plain cast.

    offset   the shift or the zero point
    """

    case: Conversion
    given: np.ndarray
    out: np.ndarray
    scale: np.ndarray | None = None
    offset: np.ndarray | None = None

    @property
    def view(self) -> np.ndarray:
        """The given array in the order of the result."""
        return self.given.transpose(self.case.order)

    def beside_source(self, parameter: np.ndarray) -> np.ndarray:
        """The parameter in a shape that broadcasts against the given array."""
        case = self.case
        return parameter.reshape(case.parameter_dimensions(case.dimensions, tuple(range(len(case.dimensions)))))

    def beside_result(self, parameter: np.ndarray) -> np.ndarray:
        """The parameter in a shape that broadcasts against the result."""
        return parameter.reshape(self.case.parameter_dimensions(self.case.result_dimensions, self.case.order))


def prepared(case: Conversion) -> Work:
    """Random pixels, or normally distributed numbers of which a few are out of the range of s8."""
    chance = np.random.default_rng(1)
    out = np.ones(case.result_dimensions, gl.Shape(case.target_type, ()).dtype)
    if case.form == "scale and shift":
        given = chance.integers(0, 256, case.dimensions, np.uint8)
        mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
        return Work(case, given, out, 1 / (255 * deviation), -mean / deviation)
    given = chance.standard_normal(case.dimensions, np.float32).astype(gl.Shape(case.source_type, ()).dtype)
    if case.form == "cast":
        return Work(case, given, out)
    channels = case.dimensions[case.channel]
    scale = chance.uniform(0.02, 0.05, channels).astype(np.float32)
    return Work(case, given, out, scale, chance.integers(-9, 10, channels).astype(np.float32))


def result_of(work: Work) -> np.ndarray:
    """The result, by NumPy step by step in new memory: all other ways are compared with it."""
    return np.ascontiguousarray(_line(work, work.view)).astype(work.out.dtype, copy=False)


def _line(work: Work, values: np.ndarray) -> np.ndarray:
    """NumPy's line for the steps before the cast, in the order of dimensions of the result."""
    if work.case.form == "cast":
        return values.astype(work.out.dtype, order="C")
    scale, offset = work.beside_result(work.scale), work.beside_result(work.offset)
    if work.case.form == "quantise":
        return np.clip(np.rint(values / scale) + offset, LOWEST, HIGHEST)
    return values * scale + offset


def _into(work: Work, values: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """NumPy's steps into existing memory; `scratch` is f32 and of the result's shape, or the output itself."""
    if work.case.form == "cast":
        scratch = values
    else:
        scale, offset = work.beside_result(work.scale), work.beside_result(work.offset)
        if work.case.form == "quantise":
            np.rint(np.divide(values, scale, out=scratch), out=scratch)
        else:
            np.multiply(values, scale, out=scratch, dtype=np.float32)
        np.add(scratch, offset, out=scratch)
        if work.case.form == "quantise":
            np.clip(scratch, LOWEST, HIGHEST, out=scratch)
    if scratch is not work.out:
        np.copyto(work.out, scratch, casting="unsafe")
    return work.out


def _scratch(work: Work) -> np.ndarray:
    """Existing memory for the steps: the output if it is f32."""
    is_output = work.out.dtype == np.float32 or work.case.form == "cast"
    return work.out if is_output else np.ones(work.out.shape, np.float32)


def ours(work: Work) -> Iterator[Way]:
    """This library in one call."""
    case = work.case
    arguments: dict[str, Any] = {"dtype": case.target_type}
    if work.scale is not None and work.offset is not None:
        offset = work.beside_source(work.offset)
        second = {"zero_point": offset.astype(np.int8)} if case.form == "quantise" else {"shift": offset}
        arguments |= {"scale": work.beside_source(work.scale), **second}
    yield Way(OURS, "warm", lambda: gl.transpose(work.given, case.order, out=work.out, **arguments))
    yield Way(OURS, "fresh", lambda: gl.transpose(work.given, case.order, **arguments))


def two_passes(work: Work) -> Iterator[Way]:
    """This library's relayout, of the narrower side, and NumPy's arithmetic."""
    case, scratch = work.case, _scratch(work)
    if not case.is_turned:
        return
    if work.given.itemsize <= work.out.itemsize:
        moved = np.ones(case.result_dimensions, work.given.dtype)

        def warm() -> np.ndarray:
            return _into(work, gl.transpose(work.given, case.order, out=moved), scratch)

        def fresh() -> np.ndarray:
            return _line(work, gl.transpose(work.given, case.order)).astype(work.out.dtype, copy=False)
    else:
        same = work._replace(
            case=case._replace(order=tuple(range(len(case.order)))), out=np.ones(case.dimensions, work.out.dtype)
        )
        held = _scratch(same)

        def warm() -> np.ndarray:
            return gl.transpose(_into(same, same.given, held), case.order, out=work.out)

        def fresh() -> np.ndarray:
            return gl.transpose(_line(same, same.given).astype(work.out.dtype, copy=False), case.order)

    yield Way(RELAYOUT, "warm", warm)
    yield Way(RELAYOUT, "fresh", fresh)


def numpy_ways(work: Work) -> Iterator[Way]:
    """NumPy's line on a view, and the cast alone where a goal names it."""
    case, scratch = work.case, _scratch(work)
    name = "NumPy" if case.is_turned else RELAYOUT  # without a relayout, nothing is left but NumPy
    yield Way(name, "warm", lambda: _into(work, work.view, scratch))
    yield Way(name, "fresh", lambda: result_of(work))
    if any(goal.bound == CAST_ALONE for goal in case.goals):
        yield Way(CAST_ALONE, "fresh", lambda: work.given.astype(work.out.dtype), partial=True)


# ---- PyTorch ---------------------------------------------------------------------------------------------------


def torch_ways(torch: Any, work: Work) -> Iterator[Way]:
    """PyTorch's usual lines, into new memory and into existing memory."""
    case, given, out = work.case, _tensor(torch, work.given), _tensor(torch, work.out)
    scale, offset = _parameters(torch, work)
    usual = _usual(torch, case, out.dtype)
    yield Way(CHAIN, "fresh", lambda: usual(given, scale, offset))
    values = _tensor(torch, _scratch(work)) if case.form != "quantise" else torch.ones(case.dimensions)
    view = given.permute(case.order)
    if case.form == "cast":
        yield Way(IN_PLACE, "warm", lambda: out.copy_(view))
        if case.is_turned:
            yield from _two_steps(torch, work)
    elif case.form == "quantise":
        yield from _quantisation(torch, work, values)
    elif values is out or values.data_ptr() == out.data_ptr():
        yield Way(IN_PLACE, "warm", lambda: out.copy_(view).mul_(scale).add_(offset))
    else:
        narrow = scale.to(out.dtype), offset.to(out.dtype)
        yield Way(IN_PLACE, "warm", lambda: out.copy_(values.copy_(view).mul_(scale).add_(offset)))
        yield Way(
            f"{IN_PLACE}, in {case.target_type}",
            "warm",
            lambda: out.copy_(view).mul_(narrow[0]).add_(narrow[1]),
            f"parameters and every step in {case.target_type}",
        )


def _two_steps(torch: Any, work: Work) -> Iterator[Way]:
    """A cast and a turn, in both orders, and the cast before this library's turn."""
    case, given, out = work.case, _tensor(torch, work.given), _tensor(torch, work.out)
    narrow = torch.ones(case.dimensions, dtype=out.dtype)
    turned = torch.ones(case.result_dimensions, dtype=given.dtype)
    yield Way(CAST_FIRST, "warm", lambda: out.copy_(narrow.copy_(given).permute(case.order)))
    yield Way(TURN_FIRST, "warm", lambda: out.copy_(turned.copy_(given.permute(case.order))))
    yield Way(CAST_BEFORE, "warm", lambda: gl.transpose(narrow.copy_(given), case.order, out=out))


def compiled_ways(torch: Any, work: Work) -> Iterator[Way]:
    """The usual line compiled for the case's own sizes and for as many threads as torch has now."""
    torch._dynamo.reset()  # else it would run the line eagerly after a few recompilations
    given, out = _tensor(torch, work.given), _tensor(torch, work.out)
    scale, offset = _parameters(torch, work)
    usual = _usual(torch, work.case, out.dtype)
    fresh = torch.compile(usual, dynamic=False)
    warm = torch.compile(lambda out, given, scale, offset: out.copy_(usual(given, scale, offset)), dynamic=False)
    rounding = "may fuse steps"
    yield Way(COMPILED, "fresh", lambda: fresh(given, scale, offset), rounding)
    yield Way(COMPILED, "warm", lambda: warm(out, given, scale, offset), rounding)


def _usual(torch: Any, case: Conversion, dtype: Any) -> Callable[[Any, Any, Any], Any]:
    """What people write: a chain of calls, each into new memory."""
    order = case.order
    if case.form == "cast":
        return lambda given, scale, offset: given.permute(order).to(dtype).contiguous()
    if case.form == "scale and shift":
        return lambda given, scale, offset: given.permute(order).contiguous().float().mul(scale).add(offset).to(dtype)

    def quantise(given: Any, scale: Any, offset: Any) -> Any:
        return given.div(scale).round().add(offset).clamp(LOWEST, HIGHEST).to(dtype).permute(order).contiguous()

    return quantise


def _quantisation(torch: Any, work: Work, values: Any) -> Iterator[Way]:
    """Into existing memory, and by the function that is made for it."""
    case, given, out = work.case, _tensor(torch, work.given), _tensor(torch, work.out)
    scale, offset = _parameters(torch, work)

    def in_place() -> Any:
        torch.div(given, scale, out=values).round_().add_(offset).clamp_(LOWEST, HIGHEST)
        return out.copy_(values.permute(case.order))

    yield Way(IN_PLACE, "warm", in_place)
    scales, points = scale.double().reshape(-1), offset.long().reshape(-1)
    axis = case.order.index(case.channel)
    yield Way(
        QUANTIZED,
        "fresh",
        lambda: torch.quantize_per_channel(given.permute(case.order).contiguous(), scales, points, axis, torch.qint8),
        "multiplies by the reciprocal of the scale",
    )


def _tensor(torch: Any, array: np.ndarray) -> Any:
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))


def _parameters(torch: Any, work: Work) -> tuple[Any, Any]:
    """In the shapes that the usual line needs: it quantises before it turns."""
    if work.scale is None or work.offset is None:
        return None, None
    beside = work.beside_source if work.case.form == "quantise" else work.beside_result
    return torch.from_numpy(beside(work.scale)), torch.from_numpy(beside(work.offset))


def array_of(output: Any, dtype: np.dtype) -> np.ndarray:
    """Any way's output as a NumPy array of the dtype of the result."""
    if isinstance(output, np.ndarray):
        return output
    import torch

    plain = output.int_repr() if output.is_quantized else output
    return plain.view(torch.uint8).numpy().view(dtype)


# ---- OpenCV ----------------------------------------------------------------------------------------------------


def opencv_ways(cv2: Any, work: Work) -> Iterator[Way]:
    """`blobFromImages` with a factor for each channel."""
    case = work.case
    if case.form != "scale and shift" or case.target_type != "f32":
        return
    settings = cv2.dnn.Image2BlobParams()
    settings.scalefactor = tuple(map(float, work.scale))
    settings.mean = tuple(map(float, -work.offset / work.scale))
    settings.size = case.dimensions[2], case.dimensions[1]
    settings.swapRB, settings.ddepth = False, cv2.CV_32F
    images = [*work.given]
    yield Way(
        OPENCV,
        "fresh",
        lambda: cv2.dnn.blobFromImagesWithParams(images, settings),
        "subtracts the mean, then multiplies",
    )
