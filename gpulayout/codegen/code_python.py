"""Generated code in Python, for ints and for NumPy arrays: where elements lie, and `convert`, what becomes of each.

It needs NumPy alone.  ml_dtypes would round f64 twice on the way to f8 and bf16.  So elements of types that NumPy lacks
are codes, and go through f64, which has all their numbers, and from which they are rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpulayout.codegen.code_parts import (
    WIDTH,
    ConvertFunction,
    Dialect,
    bodies,
    comment_of,
    coordinates,
    heading,
    limit,
    load,
    wrapped,
)
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.float_formats import FORMATS
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import range_of

_POWER = ElementType.F8E8M0FNU
_VALUES = frozenset(
    kind for kind in ElementType if not kind.is_extended and not kind.is_complex and (kind.bits >= 8 or kind == "pred")
)
_DIALECT = Dialect("#", "//", None)


def python_text(shape: Shape, name: str) -> str:
    """Functions and constants whose names begin with `name`."""
    indices = coordinates(shape)
    offset, index = bodies(shape, _DIALECT)
    returned = ", ".join(["is_element", *indices])
    truth = ["(0 <= linear)", f"(linear < {limit(shape)})", *(f"({number} < {size})" for number, size in index.bounds)]
    lines = [
        f"{name}_rank = {shape.rank}",
        f"{name}_dimensions = {shape.dimensions}",
        f"{name}_element_count = {shape.element_count}",
        f"{name}_buffer_size = {shape.buffer_size}",
        *function(
            f"{name}_offset({', '.join(indices)})",
            "The linear index of an element; nothing is checked.",
            [*offset.assignments, ("return", _like(indices[0] if indices else "", offset.total))],
        ),
        *function(
            f"{name}_index(linear)",
            f"Return {returned}; for padding and past the end of the buffer, is_element is False.",
            [
                *((assigned, _like("linear", value)) for assigned, value in index.assignments),
                ("is_element", " & ".join(truth)),
                ("return", returned if indices else f"({returned},)"),
            ],
        ),
    ]
    if loading := load(shape, _DIALECT):
        comment, value = loading
        lines += function(f"{name}_load(buffer, linear)", comment, [("return", value)])
    example = f"{name}_index({{linear}}) is (True,{' {index}' if indices else ''})"
    return heading(shape, _DIALECT, f"{name}_offset", example) + "".join(f"{line}\n" for line in lines)


def _like(array: str, value: str) -> str:
    """The value; a constant 0 gets the shape of the array, if there is one."""
    return f"0 * {array}" if value == "0" and array else value


def function(signature: str, comment: str, lines: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A function whose lines assign a value to a name, or return it."""
    yield from ("", "", *wrapped(f"def {signature}:"))
    yield from (f"    {part}" for part in wrapped(f'"""{comment}"""', ""))
    for name, value in lines:
        start = "return " if name == "return" else f"{name} = "
        if len(start + value) <= WIDTH:
            yield f"    {start}{value}"
        else:
            yield from (f"    {start}(", *(f"        {part}" for part in wrapped(value, "")), "    )")


# ---- `convert` -----------------------------------------------------------------------------------------------------


def python_convert(conversion: ConvertFunction, name: str) -> Iterator[str]:
    """The lines of the function."""
    arithmetic = conversion.arithmetic
    source, target, compute = arithmetic.source, arithmetic.target, arithmetic.compute.dtype.name
    arguments = "".join(f", {operand.name}" for operand in conversion.arguments)
    first, *others = comment_of(conversion, _VALUES)
    yield from ("", "", *wrapped(f"def {name}(x{arguments}):"))
    yield from (f"    {line}" for line in wrapped(f'"""{first}', ""))
    yield ""
    for paragraph in [*others, "Takes numbers and NumPy arrays, which broadcast."]:
        yield from (f"    {line}" for line in wrapped(paragraph, ""))
    yield '    """'
    body = [*_reading(source)]
    if arithmetic.steps:
        constants = {operand: f"np.{compute}({number!r})" for operand, number in conversion.constants}
        body.append(f"y = y.astype(np.{compute})")
        for symbol, operand in conversion.steps:
            value = constants.get(operand, f"np.asarray({operand}, np.{compute})")
            body.append(f"y = y {symbol} {value}" if operand else "y = np.rint(y)")
    elif source.is_integral and source.itemsize == 8 and target.is_floating and target is not ElementType.F64:
        body += _odd(source)
    yield '    with np.errstate(all="ignore"):'
    whole = None if arithmetic.steps or source.is_floating else source
    for line in [*body, *_writing(target, arithmetic.saturate, whole)]:
        assert len(line) <= WIDTH, line
        yield f"        {line}"


def _reading(source: ElementType) -> list[str]:
    """`y`: the number of `x`, of NumPy's type for the source, or of int64 or float64."""
    if source in _VALUES:
        return [f"y = np.asarray(x, np.{source.dtype.name})" + (".astype(np.uint8)" if source == "pred" else "")]
    word = source.carrier.name  # the code as unsigned integers, whatever dtype of the right width `x` has
    lines = [
        "x = np.asarray(x)",
        f"x = x.view(np.{word}) if x.dtype.itemsize == {source.itemsize} else x.astype(np.{word})",
    ]
    if source.is_integral:
        mask, sign = (1 << source.bits) - 1, 1 << source.bits - 1
        low = f"(x & {mask}).astype(np.int64)"
        return [*lines, f"y = ({low} ^ {sign}) - {sign}" if source.is_signed else f"y = {low}"]
    if source is _POWER:
        return [*lines, "y = np.where(x == 255, np.nan, np.ldexp(1.0, x.astype(np.int64) - 127))"]
    form = FORMATS[source]
    implicit, shift = 1 << form.mantissa_bits, form.bias + form.mantissa_bits
    lines += [
        f"magnitude = (x & {form.sign - 1}).astype(np.int64)",
        f"field = magnitude >> {form.mantissa_bits}",
        f"significand = (magnitude & {implicit - 1}) + np.where(field > 0, {implicit}.0, 0.0)",
        f"y = np.ldexp(significand, np.maximum(field, 1) - {shift})",
    ]
    if form.infinity is not None:
        lines.append(f"y = np.where(magnitude == {form.infinity}, np.inf, y)")
        lines.append(f"y = np.where(magnitude > {form.infinity}, np.nan, y)")
    elif form.nan is not None:
        lines.append(f"y = np.where({'x' if form.nan == form.sign else 'magnitude'} == {form.nan}, np.nan, y)")
    return [*lines, f"y = np.where(x & {form.sign}, -y, y)"]


def _odd(source: ElementType) -> list[str]:
    """For floats to which f64 would round an integer of 64 bits a second time."""
    small = f"(y < {2**53})" + (f" & (y > -{2**53})" if source.is_signed else "")
    return [
        "low = y & 0x7FF  # a large integer becomes the odd one of the f64 beside it, which is rounded as it would be",
        f"odd = (y - low) | np.where(low > 0, 0x800, 0).astype(np.{source.dtype.name})",
        f"y = np.where({small}, y, odd)",
    ]


def _writing(target: ElementType, saturate: bool, whole: ElementType | None) -> list[str]:
    """Return `y` as an element of the target.

    whole   the type of the source if `y` is its integer; None if `y` is a float
    """
    if target is ElementType.PRED:
        return ["return (y != 0)[()]"]
    if target.is_integral:
        return [*(_nearest_whole(target) if whole is None else [_clipped(whole, target)]), "return y[()]"]
    if target in (ElementType.F32, ElementType.F64):
        return [f"return y.astype(np.{target.dtype.name})[()]"]
    lines = ["y = y.astype(np.float64)"]
    if target is ElementType.F16:
        return [*lines, "return y.astype(np.float16)[()]"]
    if target is _POWER:
        return [
            *lines,
            "bits = np.abs(y).view(np.uint64) + np.uint64(1 << 51)  # half a unit of the exponent",
            "code = np.maximum((bits >> np.uint64(52)).astype(np.int64) - 896, 0)",
            f"code = np.where(code > 254, {254 if saturate else 255}, code)",
            "return np.where((y < 0) | (y != y), 255, code).astype(np.uint8)[()]",
        ]
    form = FORMATS[target]
    least, unit = 1 - form.bias, form.mantissa_bits
    lines += [
        "magnitude = np.minimum(np.abs(np.where(y == y, y, 0.0)), 2.0**200)",
        f"exponent = np.where(magnitude > 0, np.frexp(magnitude)[1] - 1, {least})",
        f"field = np.maximum(exponent, {least})  # subnormal numbers share the least",
        f"code = np.rint(np.ldexp(magnitude, {unit} - field)).astype(np.int64) + (field - {least} << {unit})",
        f"code = np.where(code > {form.largest}, {form.too_large(saturate)}, code)",
    ]
    minus = "np.signbit(y) & (code > 0)" if form.nan == form.sign else "np.signbit(y)"
    return [
        *lines,
        f"code = np.where({minus}, code | {form.sign}, code)",
        f"return np.where(y == y, code, {form.nan or 0}).astype(np.{target.carrier.name})[()]",
    ]


def _element(value: str, target: ElementType) -> str:
    """Integers in range as elements: fewer than 8 bits with zeros above."""
    if target.bits < 8:
        return f"({value}.astype(np.int64) & {(1 << target.bits) - 1}).astype(np.uint8)"
    return f"{value}.astype(np.{target.dtype.name})"


def _clipped(source: ElementType, target: ElementType) -> str:
    """A cast between integers: the nearest number in range."""
    (lowest, highest), (low, high) = range_of(source), range_of(target)
    bounds = max(lowest, low), min(highest, high)
    value = "y" if bounds == (lowest, highest) else f"np.clip(y, {bounds[0]}, {bounds[1]})"
    return f"y = {_element(value, target)}"


def _nearest_whole(target: ElementType) -> list[str]:
    """The nearest integers, half to even; out of range the nearest one in range, and 0 for a nan."""
    low, high = range_of(target)
    lines = ["y = np.rint(np.where(y == y, y, 0.0).astype(np.float64))"]
    if target.bits < 64:
        return [*lines, f"y = {_element(f'np.clip(y, {float(low)!r}, {float(high)!r})', target)}"]
    below = float(np.nextafter(float(high), 0.0))
    return [
        *lines,
        f"whole = np.clip(y, {float(low)!r}, {below!r}).astype(np.{target.dtype.name})",
        f"y = np.where(y > {below!r}, np.{target.dtype.name}({high}), whole)",
    ]
