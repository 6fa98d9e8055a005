"""Random texts of shapes, layouts and patterns, targets in every form, and the keywords of arithmetic.

For `random_calls`: everything comes from the generator that is given.
"""

import math

import numpy as np
import torch

import gpulayout as gl
from tests.support.random_arrays import OFTEN, PACKED, RARELY, dtype_of, pick

NAMES = ["F", "C", "F", "C", "F", "C", "F", "C", "torch:channels_last", "torch:contiguous_format"]
CATALOGUED = ["cublas:block_scales", "cublaslt:col32", "marlin:scales", "xla_tpu:matrix", "cublaslt:col4_4r2_8c"]
TARGETS = {"layout": 38, "whole": 22, "Shape": 8, "Layout": 7, "name": 8, "pattern": 7, "catalogue": 2, "wrong": 1}
WRONG = [None, 5, (1, 0), np.zeros(3), "", "->", "f32[2", "Q", gl.ElementType("f32")]


def edited(rng, text):
    """The text with one character left out, added, doubled or replaced."""
    at = rng.randrange(len(text) + 1)
    way = rng.randrange(4)
    new = rng.choice("{}[](),:0123a bTPED>-=.*")
    return text[:at] + ("", new, text[at : at + 1] * 2, new)[way] + text[at + (way != 1) :]


def shape_text(element_type, dims):
    """The text of a shape without its layout."""
    return f"{element_type}[{','.join(map(str, dims))}]"


def layout_text(rng, element_type, dims, is_packed=False, plain=False):
    """A layout: an order, perhaps with padding and tiles; nothing for a single element."""
    if not dims:
        return ""
    order = rng.sample(range(len(dims)), len(dims))
    fields = ""
    if not plain and dims and rng.random() < 0.25:
        fields += f"PD({','.join(str(size + rng.choice((0, 0, 1, 3))) for size in dims)})"
    if not plain and rng.random() < 0.15:
        fields += f"PV({rng.choice(['zero', 'one', 'lowest', 'highest', '7', '-1', '2.5', 'nan'])})"
    if not plain and dims and rng.random() < 0.3:
        rank = rng.randint(1, min(2, len(dims)))
        fields += f"T({','.join(str(rng.choice((1, 2, 3, 4, 8))) for _ in range(rank))})"
        if rng.random() < 0.3:
            fields += f"({','.join(str(rng.choice((1, 2, 4))) for _ in range(rng.randint(1, rank)))})"
    if is_packed:
        fields += f"E({PACKED[element_type]}{rng.choice(('', '', ',big')) if PACKED[element_type] != 2 else ''})"
    return "{" + ",".join(map(str, order)) + (f":{fields}" if fields else "") + "}"


def target(rng, element_type, dims, kinds=TARGETS):
    """A target for an array of these dimensions, in any form; now and then with a wrong character."""
    is_packed = element_type in PACKED and rng.random() < 0.6
    layout = layout_text(rng, element_type, dims, is_packed, rng.random() < 0.3)
    whole = shape_text(element_type, dims) + layout
    kind = pick(rng, kinds)
    if kind in ("layout", "whole"):
        text = (layout or "{}") if kind == "layout" else whole
        return edited(rng, text) if rng.random() < 0.07 else text
    if kind == "pattern":
        names = "abcdefg"[: len(dims)]
        text = f"{' '.join(names)} -> {' '.join(rng.sample(names, len(names)))}"
        return edited(rng, text) if rng.random() < 0.1 else text
    if kind == "name":
        return rng.choice(NAMES if len(dims) == 4 or rng.random() < 0.2 else NAMES[:2])
    if kind == "catalogue":
        return rng.choice(CATALOGUED) + rng.choice(("", f"[{','.join(map(str, dims))}]"))
    if kind == "wrong":
        return rng.choice(WRONG)
    try:
        return gl.parse_shape(whole) if kind == "Shape" else gl.parse_layout(layout or "{}")
    except gl.LayoutError:
        return whole


def pattern(rng, dims):
    """(pattern, sizes, dimensions of the result): axes are split, joined and left in dots."""
    names = [chr(97 + number) for number in range(len(dims))]
    after, before, sizes, extents = [], [], {}, dict(zip(names, dims))
    dots = rng.randrange(1, len(dims) + 1) if dims and rng.random() < 0.15 else len(dims)
    for name, size in zip(names[:dots], dims):
        factors = [each for each in range(1, size + 1) if size % each == 0]
        if rng.random() > 0.25 or not factors:
            before.append(name)
            after.append(name)
            continue
        inner = name + "i"
        extents[name] = rng.choice(factors)
        extents[inner] = size // extents[name]
        given, way = rng.choice((name, inner)), rng.randrange(3)
        sizes |= {given: extents[given]} if way else {}
        before.append("(" + " ".join(f"{n}={extents[n]}" if not way and n == given else n for n in (name, inner)) + ")")
        after += [name, inner]
    rng.shuffle(after)
    groups = [[name] for name in after]
    while len(groups) > 1 and rng.random() < 0.25:
        at = rng.randrange(len(groups) - 1)
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    texts = ["(" + " ".join(group) + ")" if len(group) > 1 else group[0] for group in groups]
    result = [math.prod(extents[name] for name in group) for group in groups]
    if dots < len(dims):
        at = rng.randrange(len(texts) + 1)
        before.append("...")
        texts.insert(at, "...")
        result[at:at] = dims[dots:]
    return f"{' '.join(before)} -> {' '.join(texts)}", sizes, tuple(result)


def order(rng, dims):
    """(numbers of axes in any form, dimensions of the result)."""
    rank = len(dims)
    numbers = rng.sample(range(rank), rank)
    result = tuple(dims[number] for number in numbers)
    if rng.random() < 0.15:
        return None, dims[::-1]
    if rng.random() < 0.1 and numbers:
        numbers[rng.randrange(rank)] = rng.choice((0, rank, -rank - 1, 1.0, True, "a"))
    shown = [number - rank if rng.random() < 0.2 and type(number) is int else number for number in numbers]
    return rng.choice((tuple, tuple, list, np.array))(shown), result


def arithmetic(rng, element_type, dims):
    """The keywords of arithmetic for an array; mostly such that go together."""
    form = pick(rng, {"cast": 30, "scale": 30, "normalise": 15, "quantise": 12, "wrong": 5})
    wide = rng.choice(["f32", "f32", "bf16", "f16", "f64", "f8e4m3fn"])
    if element_type[0] == "c" and rng.random() < 0.8:  # complex numbers become only such
        return {"dtype": rng.choice(("c64", "c128"))}
    if form == "cast":
        found = {"dtype": rng.choice([*OFTEN, *OFTEN, *RARELY, "s4", "u4"])}
    elif form == "scale":
        found = {"dtype": wide, "scale": parameter(rng, dims)}
        found |= {"shift": parameter(rng, dims)} if rng.random() < 0.4 else {}
        found |= {"divide": True} if rng.random() < 0.15 else {}
    elif form == "normalise":
        found = {"dtype": wide, "mean": parameter(rng, dims), "std": parameter(rng, dims)}
        found |= {"unit": True} if element_type == "u8" and rng.random() < 0.5 else {}
    elif form == "quantise":
        is_float = element_type[0] in "bf"
        found = {"dtype": rng.choice(("s8", "u8", "s4")) if is_float else wide, "scale": parameter(rng, dims)}
        found["zero_point"] = rng.choice((0, 3, -2, [1] * max(dims[-1:], default=1)))
    else:
        return _wrong_arithmetic(rng, dims)
    if rng.random() < 0.06:
        found["saturate"] = rng.random() < 0.5
    if dims and "scale" in found and rng.random() < 0.25:
        blocks = [rng.choice((1, 2, 3, 4)) for _ in dims]
        found["scale"] = np.arange(1, 1 + math.prod(counts := [-(-n // b) for n, b in zip(dims, blocks)])).reshape(
            counts
        )
        found["scale"] = found["scale"].astype(np.float32) / 4
        found["block"] = rng.choice((blocks, blocks, blocks[0]))
    return found


def _wrong_arithmetic(rng, dims):
    """Any keywords, with any values."""
    values = {
        "dtype": rng.choice(
            ["i8", "float32", np.float32, torch.float16, np.dtype("u1"), 5, "f33", gl.ElementType("f32")]
        ),
        "scale": rng.choice([parameter(rng, dims), "x", [[1], [2, 3]], None]),
        "shift": parameter(rng, dims),
        "mean": parameter(rng, dims),
        "std": 0,
        "unit": rng.choice([True, False, 1]),
        "zero_point": rng.choice([1, 1.5, 300]),
        "divide": rng.choice([True, False, "yes"]),
        "block": rng.choice([2, 0, -1, [2], (1, 2), "2"]),
        "saturate": rng.choice([True, False]),
        "sclae": 2,
    }
    return {name: values[name] for name in sorted(rng.sample(list(values), rng.randint(1, 3)))}


def parameter(rng, dims):
    """A number, or an array with one for each place along some dimensions."""
    kind = rng.random()
    if kind < 0.6 or not dims:
        return rng.choice([2, 0.5, 1 / 255, -1.25, 3, 1e-3, 0.1, 1.5, np.float32(0.25), np.array(2.0)])
    shape = [size if rng.random() < 0.4 else 1 for size in dims]
    if kind < 0.8:
        shape = list(dims[-1:])
    if kind > 0.97:
        shape[-1] += 1
    values = np.array([rng.choice((0.5, 1, 2, -3, 0.1)) for _ in range(math.prod(shape))]).reshape(shape)
    way = rng.randrange(4)
    return values.tolist() if way == 0 else torch.tensor(values) if way == 1 and kind > 0.9 else values.astype("f4")


def result_dtype(options, element_type):
    """The dtype of a result of these options, as far as it is known."""
    try:
        return dtype_of(options.get("dtype", element_type))
    except (TypeError, AttributeError, KeyError, IndexError):
        return np.dtype("f4")
