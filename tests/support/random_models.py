"""Random tensors with rules for them, of which an independent model says what must become of them.

A family has a few tensors and the rules for them, and no other family has its names.  So a model that fails is made
smaller by leaving families out.
"""

import re

import ml_dtypes
import numpy as np

from tests.support.model_elements import ELEMENTS
from tests.support.random_tensors import (
    FLOATS,
    PLAIN,
    Cut,
    Family,
    chance,
    pick,
    random_array,
    random_words,
    some_shape,
)


def _permuting(random, shape, whole=()):
    """A pattern that permutes, joins and splits axes.

    whole    dimensions that are one axis
    """
    names = list("abcdefg"[: len(shape)])
    before, all_names = [], []
    for dim, (name, size) in enumerate(zip(names, shape)):
        divisors = [each for each in range(2, size) if size % each == 0]
        if divisors and dim not in whole and chance(random, 0.3):
            before.append(f"({name}={pick(random, divisors)} {name}2)")
            all_names += [name, f"{name}2"]
        else:
            before.append(name)
            all_names.append(name)
    after = [str(each) for each in random.permutation(all_names)]
    if len(after) > 1 and chance(random, 0.4):
        place = int(random.integers(0, len(after) - 1))
        after[place : place + 2] = [f"({after[place]} {after[place + 1]})"]
    if chance(random, 0.2):
        after.insert(int(random.integers(0, len(after) + 1)), "1")
    return f"{' '.join(before)} -> {' '.join(after)}"


def _arithmetic(random, dtype, last=None):
    """What changes the elements of a type, with numbers."""
    kind = int(random.integers(0, 5))
    to = pick(random, ["bf16", "f32", "f16"])
    if dtype not in FLOATS or kind == 0:
        return {}
    if kind == 1:
        return {"dtype": to}
    if kind == 2:
        return {"dtype": to, "scale": 0.5, "shift": -1.25}
    if kind == 3 and last:
        return {"scale": [float(each) for each in random.integers(1, 9, last)], "divide": True}
    return {"scale": 0.1, "zero_point": 3, "dtype": "s8"} if kind == 4 else {"scale": 3}


def _after(random, rule, shape, dtype, axis):
    """Where the elements of a result go: nowhere, by a pattern, or to a layout.

    axis    which a number in the rule names, so it is one axis
    """
    kind = int(random.integers(0, 4))
    if kind < 2 and shape:
        rule["to"] = _permuting(random, shape, [axis])
    elif kind == 2 and len(shape) == 2:
        rule["to"] = pick(random, ["F", "{0,1}", "{1,0:T(2,4)}", "{0,1:T(8,128)}"])
    rule.update(_arithmetic(random, dtype))
    return rule


def copies(random, at):
    family = Family()
    for number in range(int(random.integers(1, 4))):
        name = f"{at}c{number}"
        family.tensors[name] = random_array(random, pick(random, PLAIN), some_shape(random, int(random.integers(0, 4))))
        rule = pick(random, [None, None, "drop", "keep", {"name": f"new.{name}"}])
        if rule is not None:
            family.rules[re.escape(name)] = {rule: True} if isinstance(rule, str) else rule
    if chance(random, 0.2):
        family.tensors[f"{at}pairs"] = random_array(random, "F4", (3, 4))
    return family


def patterns(random, at):
    dtype, shape = pick(random, PLAIN), some_shape(random, int(random.integers(1, 5)), 9)
    to = _permuting(random, shape)
    rule = {"to": to, **_arithmetic(random, dtype, shape[-1])}
    family = Family({f"{at}p": random_array(random, dtype, shape)}, {rf"{re.escape(at)}p": rule})
    names = re.findall(r"\w+(?= |\))", to.split("->")[0])  # the innermost axes
    if chance(random, 0.4) and "(" not in to.split("->")[0]:
        rule["along"] = pick(random, [pick(random, names), int(random.integers(-len(shape), len(shape)))])
        family.cuts[f"{at}p"] = Cut(rule["along"], to)
    return family


def flips(random, at):
    shape, dtype = some_shape(random, 4, 5), pick(random, ["F32", "U8", "BF16"])
    to = pick(random, ["h w i o -> o i h w", "i o h w -> h w i o", "h w i o -> h w (i o)"])
    rule = {"to": to, "flip": "h w", **({"dtype": "f16"} if dtype == "F32" and chance(random, 0.5) else {})}
    return Family({f"{at}f": random_array(random, dtype, shape)}, {f"{re.escape(at)}f": rule})


def _scales(random, family, name, shape, axis=0, unit=1):
    """A scale beside a tensor: one for each `unit` places along an axis; along others for each, for two, or for all.

    All tensors of a family have scales of one kind, and nearly all of one type.
    """
    if not family.scale:
        family.scale = ELEMENTS[pick(random, ["f32", "bf16", "f8e8m0fnu"])], pick(random, ["each", "two", "all", "one"])
    dtype, kind = family.scale
    dtype = ELEMENTS[pick(random, ["f32", "f16"])] if chance(random, 0.1) else dtype
    sizes = [size if kind == "each" else size // 2 if kind == "two" and size % 2 == 0 else 1 for size in shape]
    sizes[axis] = shape[axis] // unit
    if kind == "one":
        sizes = pick(random, [[], [1]])
    family.follows[f"{name}_scale"] = name
    family.tensors[f"{name}_scale"] = (2.0 ** random.integers(-2, 3, sizes)).astype(dtype)


def joins(random, at):
    rank, count, dtype = int(random.integers(1, 4)), int(random.integers(2, 5)), pick(random, PLAIN)
    axis, turns, shards = int(random.integers(0, rank)), chance(random, 0.3), pick(random, [1, 1, 2, 3])
    names = [f"{at}{each}.weight" for each in "qkvo"[:count]]
    shape, family, whole = list(some_shape(random, rank)), Family(), 0
    unit = 1 if turns else pick(random, [1, 1, 2])
    for name in names:
        if name == names[0] or not turns:
            shape[axis] = shards * unit * int(random.integers(1, 4))
        family.tensors[name] = random_array(random, dtype, shape)
        whole += shape[axis] // shards
    shape[axis] = whole
    rule = {"join": [rf"\1{each}.weight" for each in "qkvo"[:count]], "along": axis - rank * chance(random, 0.3)}
    rule |= {"name": r"\1joined"} | ({"interleave": True} if turns else {})
    rule |= {"shard": f"{int(random.integers(0, shards))}/{shards}"} if shards > 1 else {}
    _after(random, rule, shape, dtype, axis)
    if dtype in FLOATS and not {"scale", "zero_point"} & {*rule} and chance(random, 0.6):
        rule["scale"], parts = "{name}_scale", family.tensors.copy()
        for name, array in parts.items():
            _scales(random, family, name, array.shape, axis, unit)
    family.rules[rf"({re.escape(at)})q\.weight"] = rule
    for name in names:
        family.cuts[name] = Cut(rule["along"], unit=unit)
    return family


def joins_inside(random, at):
    """A join, a shard and pieces along an axis inside of a dimension."""
    heads, columns = int(random.integers(2, 4)), int(random.integers(1, 5))
    first = chance(random, 0.5)
    group = f"(n d={heads})" if first else f"(d={heads} n)"
    to = f"{group} i -> {pick(random, ['d n i', 'i (n d)', '(d n) i', 'n i d'])}"
    shards, dtype = pick(random, [1, 2]), pick(random, ["F32", "I16", "F8_E4M3"])
    rule = {"join": r"\1x,\1y", "along": "n", "name": r"\1z", "to": to}
    rule |= {"shard": f"{int(random.integers(0, 2))}/2"} if shards > 1 else {}
    family = Family({}, {f"({re.escape(at)})x": rule})
    for name in "xy":
        family.tensors[at + name] = random_array(random, dtype, (heads * shards * int(random.integers(1, 5)), columns))
        family.cuts[at + name] = Cut("n", to)
    return family


def splits(random, at):
    """Pieces along an axis, or the parts of a tensor that stays fused."""
    rank, count, dtype = int(random.integers(1, 4)), int(random.integers(1, 5)), pick(random, PLAIN)
    axis, shards, how = (
        int(random.integers(0, rank)),
        pick(random, [1, 1, 2]),
        pick(random, ["equal", "sizes", "turns"]),
    )
    sizes = [shards * int(each) for each in random.integers(1, 4, count)]
    shape = list(some_shape(random, rank))
    shape[axis] = sum(sizes) if how == "sizes" else count * sizes[0]
    rule = {"split": [rf"\1{each}" for each in "qkvo"[:count]], "along": axis}
    rule |= {"sizes": sizes} if how == "sizes" else {"interleave": True} if how == "turns" else {}
    if how != "sizes" and count == shape[axis] and shards == 1 and chance(random, 0.5):
        rule["split"] = r"\1{number}.w"
    rule |= {"shard": f"{int(random.integers(0, shards))}/{shards}"} if shards > 1 else {}
    small = [*shape]
    small[axis] = sizes[0] // shards
    _after(random, rule, small if how != "sizes" else [], dtype, axis)
    name, family = f"{at}fused.w", Family()
    family.tensors[name] = random_array(random, dtype, shape)
    if dtype in FLOATS and not {"scale", "zero_point"} & {*rule} and chance(random, 0.5):
        rule["scale"] = "{name}_scale"
        _scales(random, family, name, shape, axis)
    family.rules[rf"({re.escape(at)})fused\.w"] = rule
    if isinstance(rule["split"], list):
        family.cuts[name] = Cut(axis, parts=tuple(sizes if how == "sizes" else [sizes[0]] * count))
    if how == "sizes" and chance(random, 0.4):
        del rule["split"]
        rule.setdefault("shard", "0/1")
    return family


def splits_of_results(random, at):
    """One tensor for each index of the first axis of the result."""
    count, rows, columns = (int(each) for each in random.integers(1, 5, 3))
    to, shape = pick(
        random,
        [
            ("a b -> a b", (count, rows)),
            (f"(n={count} o) i -> n o i", (count * rows, columns)),
            (f"(o n={count}) i -> n i o", (count * rows, columns)),
            ("a b c -> b c a", (rows, count, columns)),
            (None, (count, rows, columns)),
            (f"b (n={count} o) i -> n (b o) i", (2, rows * count, columns)),
        ],
    )
    dtype = pick(random, PLAIN)
    rule = {"split": [rf"\1part{number}" for number in range(count)]}
    if chance(random, 0.4):
        rule["split"] = r"\1part{number}"
    rule |= {} if to is None else {"to": to}
    rule |= _arithmetic(random, dtype)
    return Family({f"{at}fused": random_array(random, dtype, shape)}, {f"({re.escape(at)})fused": rule})


def stacks(random, at):
    """Experts, each a tensor or a join, in any order of their names."""
    count, rows, columns = int(random.integers(1, 12)), 2 * int(random.integers(1, 5)), int(random.integers(1, 6))
    dtype, twice, shards = pick(random, ["F32", "BF16", "U8", "F8_E4M3"]), chance(random, 0.5), pick(random, [1, 2])
    family, rule = Family(), {"stack": r"\1w13"}
    for number in random.permutation(count):
        for what in ("w1", "w3") if twice else ("w1",):
            family.tensors[f"{at}{number}.{what}"] = random_array(random, dtype, (rows, columns))
    rule |= {"join": r"\1\2.w1,\1\2.w3"} if twice else {}
    rule |= {"shard": f"{int(random.integers(0, 2))}/2"} if shards > 1 else {}
    to = pick(random, [None, "e o i -> e i o", "e o i -> o (e i)", "F"])
    rule |= {"to": to} if to else {}
    if twice or shards > 1:
        rule["along"] = "o" if to and "->" in to and chance(random, 0.5) else pick(random, [0, -2])
        family.cuts = dict.fromkeys(family.tensors, Cut(rule["along"], to, stacked=True))
    if dtype in ("F32", "BF16") and chance(random, 0.6):
        rule |= {"scale": "{name}_scale", "dtype": pick(random, ["f32", "bf16"])}
        for name, array in family.tensors.copy().items():
            _scales(random, family, name, array.shape)
    family.rules[rf"({re.escape(at)})(\d+)\.w1"] = rule
    return family


def packed(random, at):
    """Elements of 4 bits in words, with scales and zero points beside them."""
    word, rows, words = (
        pick(random, ["I32", "U8", "I64", "U16"]),
        int(random.integers(1, 6)),
        2 * int(random.integers(1, 5)),
    )
    name, array = f"{at}qweight", random_words(random, word, (rows, words))
    columns = words * array.itemsize * 2
    family, rule = Family({name: array}), {"from": pick(random, ["u4", "u4", "s4"]), "name": f"{at}w"}
    kind = int(random.integers(0, 3))
    if kind == 0:
        rule["to"] = "a b -> b a"
    elif kind == 1:
        rule["as"] = pick(random, ["I8[K,N/2]", "I8[K*2,N/4]", f"U8[{rows * columns // 2}]"])
    else:
        block, to = pick(random, [2, 4, 8, 24]), pick(random, ["bf16", "f16", "f32"])
        groups = -(-columns // block)  # the last block may be cut
        family.tensors[f"{at}scales"] = (random.integers(1, 9, (rows, groups)) / 8).astype(np.float16)
        family.follows[f"{at}scales"] = name
        zero = pick(random, [8, 0] if rule["from"] == "u4" else [-3, 0])
        rule |= {"scale": r"*scales", "zero_point": zero, "block": [1, block], "dtype": to}
        if rule["from"] == "u4" and groups % 2 == 0 and chance(random, 0.6):
            family.tensors[f"{at}zeros"] = random_words(random, "U8", (rows, groups // 2))
            family.rules[rf"{re.escape(at)}zeros"] = {"from": "u4", "drop": True}
            family.follows[f"{at}zeros"] = name
            rule["zero_point"] = f"{at}zeros"
        rule |= {"to": "a b -> b a"} if chance(random, 0.5) else {}
    if chance(random, 0.4):
        rule |= {"along": 0, "shard": "0/1"}
        family.cuts[name] = Cut(0)
    family.rules[rf"{re.escape(at)}qweight"] = rule
    return family


def packed_together(random, at):
    """Joins, stacks and shards of elements of 4 bits in words, each with scales and zero points of its own."""
    rows, words, axis = 2 * int(random.integers(1, 4)), 2 * int(random.integers(1, 4)), int(random.integers(0, 2))
    stacked, shards, block = chance(random, 0.4), pick(random, [1, 2]), pick(random, [4, 8])
    family, rule = Family(), {"from": "u4", "scale": "*.scales", "zero_point": "*.qzeros", "dtype": "bf16"}
    names = [f"{at}{number}.qweight" for number in range(int(random.integers(2, 4)))]
    for name in names:
        shape = [rows, words]
        if not stacked:
            shape[axis] = 2 * int(random.integers(1, 4))
        groups, begin = shape[1] * 8 // block, name.removesuffix("qweight")
        family.tensors[name] = random_words(random, "I32", shape)
        family.tensors[f"{begin}scales"] = (random.integers(1, 9, (shape[0], groups)) / 8).astype(np.float16)
        family.tensors[f"{begin}qzeros"] = random_words(random, "U8", (shape[0], groups // 2))
        family.follows |= {f"{begin}scales": name, f"{begin}qzeros": name}
    family.rules[rf"{re.escape(at)}\d+\.qzeros"] = {"from": "u4", "drop": True}
    family.rules[rf"{re.escape(at)}\d+\.scales"] = {"drop": True}
    rule |= {"shard": f"{int(random.integers(0, 2))}/2"} if shards > 1 else {}
    if stacked:
        rule |= {"stack": r"\1all"} | ({"along": axis} if shards > 1 else {})
        family.rules[rf"({re.escape(at)})(\d+)\.qweight"] = rule
        rule |= {"to": "e o i -> e i o"} if chance(random, 0.5) else {}
    else:
        rule |= {"join": [rf"\g<1>{number}.qweight" for number in range(len(names))], "name": r"\1all", "along": axis}
        rule |= {"to": "o i -> i o"} if chance(random, 0.5) else {}
        family.rules[rf"({re.escape(at)})0\.qweight"] = rule
        family.cuts = dict.fromkeys(names, Cut(axis, unit=2 * axis or 1))
    return family


def entries(random, at):
    """Weights of GPTQ and AWQ, which become others: one, a join, or a stack."""
    entry_name, together = (
        pick(random, ["gptq:qweight(dtype=u4)", "awq:qweight"]),
        pick(random, ["", "", "join", "stack"]),
    )
    rows, columns = 32 * int(random.integers(1, 3)), 64 * int(random.integers(1, 3))
    shape = (rows // 8, columns) if entry_name[0] == "g" else (rows, columns // 8)
    rule, axis = {"from": entry_name}, int(random.integers(0, 2))
    count = 2 if together else 1
    family = Family({f"{at}{number}.qweight": random_words(random, "I32", shape) for number in range(count)})
    regex = rf"({re.escape(at)})(\d)\.qweight"
    if together == "stack":
        rule |= {"stack": r"\1new", "to": pick(random, ["marlin:weights", "awq:qweight", "e k n -> e n k"])}
        if "->" in rule["to"]:
            rule |= {"dtype": "bf16", "scale": 0.25, "zero_point": 8}
        if chance(random, 0.4):
            rule |= {"shard": f"{int(random.integers(0, 2))}/2", "along": 0 if rows == 64 else 1}
            rule |= {"to": "e k n -> e n k", "dtype": "u8"}
            rule.pop("scale", None), rule.pop("zero_point", None)
        return Family(family.tensors, {regex: rule})
    rule["name"] = r"\1new"
    if together == "join":
        rule |= {"join": r"\g<1>0.qweight,\g<1>1.qweight", "along": axis}
        regex = rf"({re.escape(at)})(0)\.qweight"
        rows, columns = (rows * 2, columns) if axis == 0 else (rows, columns * 2)
    kind = int(random.integers(0, 4))
    if kind == 0:
        rule["to"] = pick(random, ["marlin:weights", "awq:qweight", "gptq:qweight"])
    elif kind == 1:
        rule |= {"to": "K N -> N K", "dtype": "bf16", "scale": 0.25, "zero_point": 8}
    elif kind == 2:
        rule |= {"to": "K N -> N K", "as": "I32[N,K/8]"}
    else:
        shapes = ["I32[K/16,N*2]", "I32[rows/16,columns*2]", f"U8[{rows * columns // 2}]"]
        rule |= {"to": "marlin:weights", "as": pick(random, shapes)}
    return Family(family.tensors, {regex: rule})


def dequantised(random, at):
    """Weights of GPTQ or AWQ with zero points and scales beside them, which have rules of their own; one, or a join."""
    kind, count = pick(random, ["gptq", "awq"]), pick(random, [1, 1, 2])
    groups, rows, columns = pick(random, [1, 2, 4]), 32 * pick(random, [1, 2]), 64
    family, words = Family(), (rows // 8, columns) if kind == "gptq" else (rows, columns // 8)
    says = "(dtype=u4)" if kind == "gptq" else ""
    turned, twice = chance(random, 0.4), chance(random, 0.4)
    for number in range(count):
        begin = f"{at}{number}."
        scales = (2.0 ** random.integers(-2, 3, (columns, groups) if turned else (groups, columns))).astype(np.float16)
        family.tensors |= {f"{begin}qweight": random_words(random, "I32", words), f"{begin}scales": scales}
        family.tensors[f"{begin}qzeros"] = random_words(random, "I32", (groups, columns // 8))
        family.tensors[f"{begin}scales_again"] = np.float32([random.integers(1, 5)])
    own = {"dtype": "f32", "drop": True} | ({"to": "n g -> g n"} if turned else {})
    own |= {"scale": "{name}_again"} if twice else {}
    family.rules[rf"{re.escape(at)}\d\.scales"] = own
    family.rules[rf"{re.escape(at)}\d\.qzeros"] = {"from": f"{kind}:qzeros{says}", "drop": True}
    rule = {"from": f"{kind}:qweight{says}", "scale": "*.scales", "zero_point": "*.qzeros", "dtype": "bf16"}
    rule |= {"block": [rows // groups, 1]} if chance(random, 0.5) else {}
    rule |= {"to": "k n -> n k"} if chance(random, 0.6) else {}
    rule |= {"name": r"\1w"}
    if count > 1:
        rule |= {"join": r"\g<1>0.qweight,\g<1>1.qweight", "along": 1}
    family.rules[rf"({re.escape(at)})0\.qweight"] = rule
    return family


def other_views(random, at):
    """Bytes that are read as another type, or as a whole shape."""
    kind, name = int(random.integers(0, 3)), f"{at}bytes"
    rule, family = {}, Family()
    if kind == 0:
        values = random_array(random, "F8_E4M3", (4, 6))
        family.tensors[name] = values.view(np.uint8)
        rule |= {"from": "f8e4m3fn", "dtype": "bf16", "scale": "{name}_scale", "block": 4}
        numbers = random.integers(1, 9, (1, 2)) / 4
        family.tensors[f"{name}_scale"] = numbers.astype(ml_dtypes.bfloat16).view(np.uint16)
        family.rules[rf"{re.escape(at)}bytes_scale"] = {"from": "bf16", "drop": True}
    elif kind == 1:
        family.tensors[name] = random_words(random, "U8", (64,))
        rule |= {
            "from": pick(random, ["u4[8,16]{0,1:E(4)}", "u16[4,8]{0,1}", "u8[8,8]{1,0:T(2,4)}"]),
            "to": "a b -> b a",
        }
    else:
        family.tensors[name] = random_array(random, "F16", (3, 4))
        rule |= {"from": "u16", "to": "a b -> b a"}
    family.rules[rf"{re.escape(at)}bytes"] = rule
    return family


def shards(random, at):
    rank, count, dtype = int(random.integers(1, 4)), int(random.integers(1, 5)), pick(random, PLAIN)
    axis, shape = int(random.integers(0, rank)), list(some_shape(random, rank))
    shape[axis] *= count
    where = pick(random, [{"shard": f"{int(random.integers(0, count))}/{count} along={axis}"}, {"along": axis}])
    rule = {"shard": f"{int(random.integers(0, count))}/{count}", **where}
    shape[axis] //= count
    _after(random, rule, shape, dtype, axis)
    shape[axis] *= count
    name, family = f"{at}s.w", Family()
    family.tensors[name] = random_array(random, dtype, shape)
    if dtype in FLOATS and not {"scale", "zero_point"} & {*rule} and chance(random, 0.5):
        rule["scale"] = r"\1scale"
        _scales(random, family, name, shape, axis)
        family.tensors[f"{at}scale"] = family.tensors.pop(f"{name}_scale")
        family.follows = {f"{at}scale": name}
    family.rules[rf"({re.escape(at)})s\.w"] = rule
    family.cuts[name] = Cut(axis)
    return family


def measured(random, at):
    """Weights whose scales are measured: one, a part of one, several joined or stacked, or one that is split."""
    kind, rank = pick(random, ["one", "one", "shard", "join", "stack", "split"]), int(random.integers(1, 5))
    dtype, axis, count = pick(random, FLOATS), int(random.integers(0, rank)), pick(random, [1, 2, 3])
    block, shape = [int(each) for each in random.integers(1, 5, rank)], list(some_shape(random, rank))
    unit = block[axis]
    rule = {"scale": pick(random, ["absmax/448", "absmax/7.5", "absmax"]), "block": block, "scale_name": "{name}_s"}
    rule |= pick(random, [{"dtype": "f8e4m3fn"}, {"dtype": "s8", "zero_point": 3}, {"dtype": "bf16"}, {}])
    rule |= pick(
        random,
        [{}, {"scale_dtype": "f16"}, {"scale_dtype": "bf16"}, {"scale_dtype": "F64"}, {"scale_dtype": "f8e8m0fnu"}],
    )
    names, family, of_scales = (
        [f"{at}{number}.w" for number in range(count if kind in ("join", "stack") else 1)],
        Family(),
        {},
    )
    first = rf"({re.escape(at)})(0)\.w"
    if kind == "one" and chance(random, 0.3):
        del rule["block"]
    elif kind != "one":
        shape[axis] = unit * count * (6 if kind == "split" else int(random.integers(1, 3)))
        rule["along"] = of_scales["along"] = axis
    if kind == "join":
        each = {"join": [rf"\g<1>{number}.w" for number in range(count)] * (count > 1)}
        rule |= each | {"name": r"\1all"} if count > 1 else {}
        of_scales |= {"join": [f"{name}_s" for name in each["join"]], "name": r"\1all_s"} if count > 1 else {}
    elif kind == "shard":
        number = int(random.integers(0, count))
        rule["shard"], of_scales["shard"] = f"{number}/{count}", f"{number}/{count}"
    elif kind == "split":
        rule["split"], of_scales["split"] = ([rf"\1{each}{end}" for each in "qkv"[:count]] for end in ("", "_s"))
    elif kind == "stack":
        rule["stack"], of_scales["stack"], first = r"\1all", r"\1all_s", rf"({re.escape(at)})(\d)\.w"
    for name in names:
        family.tensors[name] = random_array(random, dtype, shape)
        if kind != "one":
            family.cuts[name] = Cut(axis, parts=(shape[axis] // count,) * count if kind == "split" else (), unit=unit)
    family.rules[first] = rule
    names = " ".join("abcde"[: rank + (kind == "stack")])
    own = pick(random, [{}, {"to": f"{names} -> {' '.join(reversed(names.split()))}"}, {"to": f"{names} -> 1 {names}"}])
    of_scales |= {} if "block" not in rule else own
    if chance(random, 0.2):
        first, of_scales = rf"{re.escape(at)}\d\.w", {"drop": True}
    if of_scales:
        family.rules[f"{first}_s"] = of_scales
    if kind != "stack":
        rule |= {"to": own["to"]} if own and chance(random, 0.5) else {}
    return family


FAMILIES = (copies, patterns, flips, joins, joins_inside, splits, splits_of_results, stacks)
FAMILIES += (packed, packed_together, entries, dequantised, other_views, shards, measured)


def random_families(random):
    """A few families, each with names of its own."""
    return [pick(random, FAMILIES)(random, f"m.{number}.") for number in range(int(random.integers(1, 8)))]
