"""Calls with arithmetic and what they give: the exact model says what becomes of each element, the reference where it
lies.

Elements are codes here, as in the model: integers of the type's width; complex numbers are themselves.  Padding of a
source is garbage, which must not reach a target.
"""

import dataclasses
import functools
import math
import random
from fractions import Fraction

import numpy as np

import gpulayout as gl
from gpulayout import ElementType
from tests import reference_arithmetic as model
from tests.support import packed_reference
from tests.support.tiled_cases import numbers

PARAMETERS = ("scale", "shift", "mean", "std", "zero_point")


# ---- elements --------------------------------------------------------------------------------------------------------


def steps_of(source, target, options):
    """(operation, name of its operand or None) for each step that the options ask for."""
    if "zero_point" in options:
        if not model.is_float(source):
            return [("subtract", "zero_point"), ("multiply", "scale")]
        return [("divide", "scale"), ("round", None), ("add", "zero_point")]
    scale = ("divide" if options.get("divide") else "multiply", "scale")
    whole = [scale, ("add", "shift"), ("divide", "unit"), ("subtract", "mean"), ("divide", "std")]
    return [step for step in whole if options.get(step[1]) is not None]


@functools.lru_cache(maxsize=1 << 18)
def converted(code, source, target, saturate, steps, operands):
    """The code of one element, by the exact model; the operands are plain numbers."""
    kind = model.compute_type(source, target)
    return model.converted(code, source, target, saturate, steps, [rounded(number, kind) for number in operands])


@functools.lru_cache(maxsize=1 << 12)
def rounded(number, kind):
    """A number of Python as a value of the model, in a type."""
    is_special = isinstance(number, float) and (not math.isfinite(number) or not number)
    return model.rounded(number if is_special else Fraction(number), kind)


def in_every_place(parameter, dimensions, block=None):
    """A parameter with a value for each element: it broadcasts, or each of its values is for a block."""
    array = np.asarray(parameter)
    blocks = block if isinstance(block, (list, tuple)) else (block,) * len(dimensions)
    array = array.reshape((1,) * (len(dimensions) - array.ndim) + array.shape)
    for dim, (size, own) in enumerate(zip(dimensions, blocks)):
        count = array.shape[dim]
        times = size if count == 1 else own if own and count != size else size // max(count, 1)
        array = np.repeat(array, times, dim)[(slice(None),) * dim + (slice(size),)]
    return array


def expected_codes(codes, source, target, options):
    """The codes of the target, in the order of the logical array; types are ElementTypes."""
    if source.is_complex:
        with np.errstate(all="ignore"):
            return codes.astype(target.dtype)
    steps = steps_of(source.value, target.value, options)
    names = [name for _, name in steps if name is not None]
    numbered = tuple((operation, None if name is None else names.index(name)) for operation, name in steps)
    values = {name: options.get(name) for name in names} | ({"unit": 255} if "unit" in names else {})
    block = options.get("block")
    operands = [in_every_place(values[name], codes.shape, block).reshape(-1).tolist() for name in names]
    found = [
        converted(code, source.value, target.value, options.get("saturate", True), numbered, numbers)
        for code, numbers in zip(codes.reshape(-1).tolist(), zip(*operands) if operands else [()] * codes.size)
    ]
    return np.array(found, target.carrier).reshape(codes.shape)


def are_same(found, expected, target):
    """Whether an array holds these codes.  A nan may have any bits; a carrier may stand for the type."""
    if found.shape != expected.shape or found.dtype.itemsize != expected.dtype.itemsize:
        return False
    if target.is_complex:
        parts = target.component
        found, expected = (np.ascontiguousarray(each).reshape(-1).view(parts.carrier) for each in (found, expected))
        return found.size == expected.size and are_same(found, expected, parts)
    codes = np.ascontiguousarray(found).view(target.carrier).reshape(found.shape)
    both_nan = model.is_nan(codes, target.value) & model.is_nan(expected, target.value)
    return bool(((codes == expected) | both_nan).all())


# ---- buffers ---------------------------------------------------------------------------------------------------------


def pad_code(shape):
    """The code of a padding value."""
    value, name = shape.layout.padding_value, shape.element_type.value
    named = {None: 0, gl.PaddingValue.ZERO: 0, gl.PaddingValue.ONE: 1}
    value = value if isinstance(value, (int, float)) and not isinstance(value, gl.PaddingValue) else named[value]
    return value if shape.element_type.is_complex else model.encode(Fraction(value), name)


def buffer_of(shape, codes, pad):
    """The whole buffer: codes in their places, `pad` in all others."""
    values = np.append(codes.reshape(-1), np.array([pad]).astype(codes.dtype))[numbers(shape)]
    if not shape.is_packed:
        return values
    return packed_reference.packed(values, shape.element_type.bits, shape.layout.bit_order)


def kept_dtype(shape):
    """The dtype of buffers: a carrier for the types that NumPy lacks."""
    if shape.is_packed:
        return np.dtype(np.uint8)
    return shape.element_type.carrier if shape.element_type.is_extended else shape.dtype


@dataclasses.dataclass(frozen=True)
class Case:
    """A call: a source with these codes, a target, and the keywords but for `dtype`."""

    source: gl.Shape
    target: gl.Shape
    options: dict
    codes: np.ndarray

    @property
    def keywords(self):
        return {"dtype": self.target.element_type, **self.options}

    @functools.cached_property
    def wanted(self):
        """The codes of the result, as a logical array."""
        return expected_codes(self.codes, self.source.element_type, self.target.element_type, self.options)

    @functools.cached_property
    def buffer(self):
        """The source's buffer, with garbage in its padding."""
        bits = model.width_of(self.source.element_type.component.value)
        garbage = 3 if self.source.element_type.is_complex else (1 << bits) - 1
        return buffer_of(self.source, self.codes, garbage).view(kept_dtype(self.source))

    @functools.cached_property
    def array(self):
        """The logical array, in C order."""
        return self.codes.view(self.source.dtype)

    @functools.cached_property
    def result(self):
        """The target's buffer."""
        return buffer_of(self.target, self.wanted, pad_code(self.target))

    def is_result(self, found):
        """Whether an array is the target's buffer."""
        if self.target.is_packed:
            return found.dtype == np.uint8 and found.tolist() == self.result.tolist()
        return are_same(found, self.result, self.target.element_type)

    def __str__(self):
        shown = {name: np.asarray(value).tolist() for name, value in self.options.items()}
        return f"{self.source} to {self.target}, {shown}, of {self.array.tolist()}"


# ---- made at random --------------------------------------------------------------------------------------------------

POOL = 61  # different codes of a type: the model is asked once for each, with the same operands
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 127.5, 1e-3, 300.0, 3e9, -7e18, math.inf, -math.inf, math.nan)


@functools.cache
def pool_of(element_type):
    """Some codes of a type, with special values among them."""
    rng = np.random.default_rng(7)
    if element_type.is_complex:
        parts = [*SPECIAL, *rng.standard_normal(POOL)]
        return np.array([complex(a, b) for a, b in zip(parts, reversed(parts))], element_type.dtype)
    name, width = element_type.value, model.width_of(element_type.value)
    special = [
        model.encode(value if not math.isfinite(value) or not value else Fraction(value), name) for value in SPECIAL
    ]
    if element_type.is_floating and width > 8:  # of middling size, which steps neither lose nor overflow
        others = [model.encode(Fraction(float(value)), name) for value in rng.standard_normal(POOL) * 40]
    else:
        others = [int(code) for code in rng.integers(0, min(1 << width, 1 << 63), POOL)]
    return np.array([*special, *others], np.uint64).astype(element_type.carrier)


def drawn_codes(rng, element_type, dimensions):
    pool = pool_of(element_type)
    chosen = [rng.randrange(len(pool)) for _ in range(math.prod(dimensions))]
    return pool[np.array(chosen, np.intp)].reshape(dimensions)


def drawn_sizes(rng, dimensions, block, may_divide):
    """The sizes of a parameter: some dimensions have one value, a value for each coordinate, or one for each block.

    Leading ones may be left out, if `block` says how large blocks are or there are none.

    may_divide   blocks may be those that the sizes say
    """
    blocks = block if isinstance(block, tuple) else (block,) * len(dimensions)
    is_short = rng.random() < 0.3
    sizes = []
    for size, own in zip(dimensions, blocks):
        more = (
            [-(-size // own)] if own else [n for n in range(2, size) if may_divide and size % n == 0 and not is_short]
        )
        sizes.append(rng.choice((1, size, *more)))
    return sizes[rng.randint(0, len(sizes)) :] if is_short else sizes


def drawn_block(rng, dimensions):
    """How many elements share a value: one number, one for each dimension, or None."""
    if rng.random() < 0.6:
        return None
    return rng.randint(1, 5) if rng.random() < 0.5 else tuple(rng.randint(1, 5) for _ in dimensions)


NUMBERS = {
    "scale": (0.5, 2.0, -1.25, 0.1, 3.0),
    "shift": (1.0, -0.75, 0.1, 100.0),
    "mean": (0.5, 127.0, -3.0, 0.1),
    "std": (0.25, 3.0, 57.375),
    "zero_point": (0, 1),
}


def drawn_options(rng, form, source, target, dimensions):
    """Keywords of a form that suits both types, with parameters of any shape that fits."""
    block = drawn_block(rng, dimensions)
    options = {} if block is None or form == "cast" else {"block": block}
    for name in {"cast": (), "scale": ("scale", "shift"), "normalise": ("mean", "std"), "quantise": ("scale",)}[form]:
        if name != "shift" or rng.random() < 0.7:
            options[name] = _drawn_parameter(rng, NUMBERS[name], dimensions, block, form != "normalise")
    if form == "scale" and rng.random() < 0.3:
        options["divide"] = rng.random() < 0.8
    if form == "quantise":
        low, high = model.range_of((target if source.is_floating else source).value)
        options["zero_point"] = _drawn_parameter(rng, sorted({low, 0, min(high, 100)}), dimensions, block)
    if form == "normalise" and source is ElementType.U8 and rng.random() < 0.5:
        options["unit"] = True
    if target.is_floating and target.bits == 8 and rng.random() < 0.3 and target.value[:2] == "f8":
        options["saturate"] = False
    return options


def _drawn_parameter(rng, values, dimensions, block, may_divide=True):
    sizes = drawn_sizes(rng, dimensions, block, may_divide)
    found = np.array([rng.choice(values) for _ in range(math.prod(sizes))], type(values[0])).reshape(sizes)
    return found.item() if found.ndim == 0 else found


PADS = {ElementType.S1: -1, ElementType.F32: 2.5, ElementType.S32: -77, ElementType.F8E8M0FNU: 4.0}


def forms_of(source, target):
    """The forms that suit two types."""
    if source.is_complex or target.is_complex:
        return ("cast",)
    quantises = {source.is_floating, target.is_floating} == {source.is_integral, target.is_integral} == {True, False}
    return ("cast", "scale", *["normalise"] * target.is_floating, *["quantise"] * quantises)


def drawn_layout(rng, element_type, order, dimensions, packed):
    """A layout with this order: padded or not, with tiles or without."""
    widths = tuple(size + rng.choice((0, 0, 1, 2)) for size in dimensions) if rng.random() < 0.4 else None
    tiles = [(rng.choice((1, 2, 3, 4)), rng.choice((2, 3, 4)))] if dimensions and rng.random() < 0.35 else []
    if tiles and rng.random() < 0.4:
        tiles.append((rng.choice((1, 2)), rng.choice((1, 2))))
    return gl.Layout(
        order,
        padded_dimensions=widths,
        padding_value=rng.choice((None, PADS.get(element_type, gl.PaddingValue.ONE))),
        tiles=tiles,
        element_size_in_bits=packed,
        tail_padding_alignment=rng.choice((1, 1, 1, 5)),
    )


def drawn_case(rng, kinds, dimensions, orders, form=None):
    """A case of any layouts in these orders.

    kinds   of the source and the target: a type, or (a type, its packed bits)
    """
    sides = []
    for kind, order in zip(kinds, orders):
        element_type, packed = kind if isinstance(kind, tuple) else (kind, 0)
        layout = drawn_layout(rng, element_type, order, dimensions, packed)
        sides.append(gl.Shape(element_type, dimensions, layout))
    source, target = (side.element_type for side in sides)
    options = drawn_options(rng, form or rng.choice(forms_of(source, target)), source, target, dimensions)
    return Case(*sides, options, drawn_codes(rng, source, dimensions))


def generator(*seed):
    """Random numbers that depend on nothing else."""
    return random.Random(repr(seed))
