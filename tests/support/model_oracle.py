"""The independent model of rules about a model's tensors: what the new file must hold, in NumPy.

Slow and obvious, and written from the description of the rules.  Of the library it uses `gl.pack` and `gl.unpack`, for
layouts and for entries of the catalogue, which other tests prove.

A model is a dictionary of NumPy arrays, also of types of ml_dtypes.  Rules are dictionaries by regular expressions.

    from -> scales are measured -> split along an axis -> shard -> join -> stack -> arithmetic -> pattern or layout
         -> the header

Every move is done to the elements and, at the same time, to the numbers that belong to each of them.  So an array of
scales that lies beside a tensor needs no rule for blocks: it is spread over all elements before anything moves.
"""

import re
from dataclasses import dataclass

import numpy as np

import gpulayout as gl
from tests.support.model_arithmetic import SIBLINGS, calculated, spread
from tests.support.model_elements import (
    ELEMENTS,
    HEADER,
    Unclear,
    Wrong,
    bits_of,
    header_name,
    stored_bytes,
    taken,
    unpacked,
)
from tests.support.model_measured import measured_scales, measuring
from tests.support.model_pattern import Along, Pattern, is_pattern

LISTS = ("scale", "shift", "zero_point", "mean", "std")  # which may be numbers along the last dimension
WIDE = ("float16", "bfloat16", "float32", "float64")
# What the owners of a few entries call their tensors: the type and the shape, by sizes of the entry.
OWN_TENSORS = {
    "gptq:qweight": lambda rows, columns: ("I32", (rows // 8, columns)),
    "gptq:qzeros": lambda groups, columns: ("I32", (groups, columns // 8)),
    "awq:qweight": lambda rows, columns: ("I32", (rows, columns // 8)),
    "awq:qzeros": lambda groups, columns: ("I32", (groups, columns // 8)),
    "marlin:weights": lambda rows, columns: ("I32", (rows // 16, columns * 2)),
}


@dataclass
class Wanted:
    """What the new file must hold of a tensor.

    array    its elements, as a reader that knows the layout has them
    data     its bytes
    header   the type and the shape; None where the description leaves them open
    layout   the layout that a note names; None for C order
    """

    array: np.ndarray
    data: bytes
    header: tuple[str, tuple[int, ...]] | None
    layout: str | None


def new_model(inputs, rules, dtype=None):
    """What a new model holds, by name; `Wrong` for what must be an error, `Unclear` for what no one says.

    inputs    the models, in the order of the files
    dtype     the type that floats of 16 to 64 bits get where their rule names none
    """
    return _Conversion(inputs, rules, dtype).result()


def differences(found, notes, wanted):
    """What is wrong with a new file, a line each.

    found    (dtype, shape, bytes) by name, as the format's library reads them
    notes    texts by name
    """
    lines = [f"{name!r} is missing" for name in wanted.keys() - found.keys()]
    lines += [f"{name!r} should not be there" for name in found.keys() - wanted.keys()]
    lines += [f"a note about {name!r}, which is not there" for name in notes.keys() - found.keys()]
    for name in sorted(wanted.keys() & found.keys()):
        each, (dtype, shape, data) = wanted[name], found[name]
        if each.header is not None and each.header != (dtype, tuple(shape)):
            lines.append(f"{name!r} is {dtype}{list(shape)}, and should be {each.header}")
        if data != each.data:
            lines.append(f"{name!r} has other bytes: {_first_difference(data, each.data)}")
        elif problem := _about_note(each, notes.get(name), data, dtype):
            lines.append(f"{name!r}: {problem}")
    return lines


def _first_difference(found, wanted):
    if len(found) != len(wanted):
        return f"{len(found)}, and should have {len(wanted)}"
    places = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(wanted, np.uint8))
    return f"{len(places)} of {len(wanted)}, the first at {places[0]}"


def _about_note(wanted, note, data, dtype):
    """What is wrong with a note, or that there is none."""
    if note is None:
        needed = wanted.layout is not None and data != stored_bytes(wanted.array)
        return f"it has no note, and lies as {wanted.layout}" if needed else ""
    if wanted.layout and ":" in wanted.layout.split("{")[0]:
        name = re.split(r"[\[{(]", wanted.layout)[0]
        if not note.startswith(name) or "{" in note:
            return f"the note {note!r} does not name {name}"
    array = unpacked(data, note)
    same = array.shape == wanted.array.shape and array.dtype == wanted.array.dtype
    return "" if same and array.tobytes() == wanted.array.tobytes() else f"the note {note!r} does not describe it"


class _Conversion:
    def __init__(self, inputs, rules, dtype):
        self.inputs, self.dtype = [dict(each) for each in inputs], dtype
        self.rules = [(re.compile(regex, re.DOTALL), _read(rule)) for regex, rule in rules.items()]
        self.joined = {}  # for each part of a join but the first: the name of the first
        self.measured, self.kept = set(), {}  # scales, and their rules, which keep their type
        self.find_names()
        for name in self.names:
            self.measure(name)
        self.find_names()

    def find_names(self):
        self.names = [*dict.fromkeys(name for each in self.inputs for name in each)]
        for name in self.names:
            rule, match = self.own_rule(name)
            for part in self.parts(name, rule, match)[1:]:
                if self.joined.get(part, name) != name:
                    raise Unclear(f"{part} is a part of two joins")
                self.joined[part] = name

    def measure(self, name):
        """Add the tensor of scales of a tensor."""
        rule, match = self.own_rule(self.joined.get(name, name))
        if "measure" in rule:
            new = match.expand(rule["scale"].replace("{name}", "\0")).replace("\0", name)
            if new in self.names or new in self.measured:
                raise Wrong(f"there is a tensor {new}")
            self.measured.add(new)
            for each in self.inputs:
                if name in each:
                    elements = each[name] if "from" not in rule else taken(each[name], rule["from"])
                    each[new] = measured_scales(elements, rule)

    # ---- which rule --------------------------------------------------------------------------------------------

    def own_rule(self, name):
        """The rule whose expression fits a name, and the match."""
        rank = next(each[name].ndim for each in self.inputs if name in each)
        fitting = [(rule, match) for regex, rule in self.rules if (match := regex.fullmatch(name))]
        fitting = [(rule, match) for rule, match in fitting if rule.get("rank", rank) == rank]
        if name in self.measured:
            fitting = [self.keeping(rule, match) for rule, match in fitting if "measure" not in rule]
        if len(fitting) > 1:
            raise Wrong(f"{name} fits {len(fitting)} rules")
        return fitting[0] if fitting else ({"keep": True} if name in self.measured else {}, None)

    def keeping(self, rule, match):
        if {"dtype", *SIBLINGS} & rule.keys():
            raise Wrong("scales that change")
        return self.kept.setdefault(id(rule), {**rule, "keep": True}), match

    def rule_of(self, name):
        return self.own_rule(self.joined.get(name, name))[0]

    def parts(self, name, rule, match):
        """The names of the tensors that are joined; of one tensor, its own."""
        if "join" not in rule:
            return [name]
        parts = [match.expand(template) for template in rule["join"]]
        if parts[0] != name or len({*parts}) < len(parts):
            raise Wrong(f"{name} is not the first part of {parts}")
        if missing := {*parts} - {*self.names}:
            raise Wrong(f"there is no {missing}")
        return parts

    # ---- one tensor before anything moves ----------------------------------------------------------------------

    def pieces(self, name):
        """The arrays of a tensor that are put together, as `from` takes them, by the number of their input.

        None is the number of a tensor that is one array, and the same in all inputs that have it.
        """
        rule = self.rule_of(name)
        arrays = {number: each[name] for number, each in enumerate(self.inputs) if name in each}
        first = next(iter(arrays.values()))
        if len(self.inputs) > 1 and "along" in rule:
            if len(arrays) < len(self.inputs):
                raise Wrong(f"{name} is in {len(arrays)} of {len(self.inputs)} inputs")
        elif any((each.dtype, each.shape, each.tobytes()) != _facts(first) for each in arrays.values()):
            raise Wrong(f"{name} is not the same in all inputs")
        else:
            arrays = {None: first}
        return {number: each if "from" not in rule else taken(each, rule["from"]) for number, each in arrays.items()}

    def along(self, rule, rank):
        if "along" not in rule:
            raise Wrong(f"{rule} has no along")
        to = rule.get("to")
        if "stack" in rule and is_pattern(to) and len(Pattern(to, None).before) == rank:
            raise Unclear("a pattern of the members of a stack")
        return Along(rule["along"], rank, to, stacked="stack" in rule)

    def bundles(self, name, rule, match):
        """The elements of a tensor, and for each element the numbers of its siblings: for each piece by itself."""
        found = []
        for number, elements in self.pieces(name).items():
            found.append({"": elements})
            for key in SIBLINGS:
                if isinstance(rule.get(key), str):
                    numbers = self.value(self.sibling(rule[key], name, match), number)
                    found[-1][key] = spread(numbers, elements.shape, rule.get("block"), key)
        return found

    def bundle(self, name, rule, match):
        """The same with all pieces put together."""
        bundles = self.bundles(name, rule, match)
        return bundles[0] if len(bundles) == 1 else self.joined_bundle(bundles, rule)

    def joined_bundle(self, bundles, rule, interleave=False):
        along = self.along(rule, bundles[0][""].ndim)
        return {key: along.joined([each[key] for each in bundles], interleave) for key in bundles[0]}

    def sibling(self, text, name, match):
        """The name of the tensor that a parameter names."""
        if text.startswith("*"):
            for length in range(len(name), -1, -1):
                if name[:length] + text[1:] in self.names:
                    return name[:length] + text[1:]
            raise Wrong(f"no tensor is called {text} beside {name}")
        found = text.replace("{name}", "\0")
        found = match.expand(found).replace("\0", name)
        if found not in self.names:
            raise Wrong(f"there is no {found}")
        return found

    def value(self, name, number):
        """What the own rule of a sibling makes of its elements, wherever it puts them.

        number    of the input whose piece of a tensor needs it; None for a whole tensor
        """
        rule, match = self.own_rule(self.joined.get(name, name))
        if name in self.measured:
            return next(each[name] for each in self.inputs[number or 0 :] if name in each)
        if number is None and "along" in rule and sum(name in each for each in self.inputs) > 1:
            raise Wrong(f"{name} is in pieces")
        if number is not None and name in self.inputs[number]:
            alone = _Conversion([self.inputs[number]], {}, None)
            alone.rules = self.rules
            return alone.moved(alone.bundle(name, rule, match), rule)
        return self.moved(self.bundle(name, rule, match), rule)

    # ---- moves -------------------------------------------------------------------------------------------------

    def members(self):
        """The tensors of each result, or of each split: a list of names with one rule."""
        stacks = {}
        for name in self.names:
            rule, match = self.own_rule(name)
            if name in self.joined or rule.get("drop"):
                continue
            if "stack" in rule:
                stacks.setdefault((id(rule), match.expand(rule["stack"])), []).append((name, rule, match))
            else:
                yield [(name, rule, match)], None
        for (_, new), some in stacks.items():
            yield _in_order(some), new

    def result(self):
        new = {}
        for members, name in self.members():
            for each, wanted in self.results_of(members, name):
                if each in new:
                    raise Wrong(f"two tensors are called {each}")
                new[each] = wanted
        return new

    def results_of(self, members, stacked):
        """The new tensors of some old ones, each with its name."""
        name, rule, match = members[0]
        if "along" in rule and {"split", "sizes"} & rule.keys():
            return self.cut(name, rule, match)
        whole = [self.member(*each) for each in members]
        if stacked is not None:
            if len({(each[""].shape, each[""].dtype) for each in whole}) > 1:
                raise Wrong(f"{stacked} would be of different tensors")
            whole = [{key: np.stack([each[key] for each in whole]) for key in whole[0]}]
            if is_pattern(rule.get("to")) and len(Pattern(rule["to"], None).before) < whole[0][""].ndim:
                raise Unclear("a pattern of the members of a stack")
        if "split" in rule:
            array = self.moved(whole[0], rule)
            names = _split_names(rule["split"], match, array.shape[0] if array.ndim else 0)
            if len(names) != array.shape[0]:
                raise Wrong(f"{array.shape[0]} parts for {len(names)} names")
            return [(new, self.stored(part, rule)) for new, part in zip(names, array)]
        new = stacked if stacked is not None else match.expand(rule["name"]) if "name" in rule else name
        return [(new, self.finished(whole[0], rule))]

    def cut(self, name, rule, match):
        """The parts of a split along an axis, or of what is fused again.  Each input has a share of every part."""
        bundles, parts = self.bundles(name, rule, match), []
        inputs, count = len(bundles), len(rule["split"] if "split" in rule else rule["sizes"])
        for bundle in bundles:
            along = self.along(rule, bundle[""].ndim)
            if "{number}" in rule.get("split", [""])[0]:
                if inputs > 1:
                    raise Wrong("how many parts")
                count = along.size(bundle[""])
            sizes = rule.get("sizes")
            if sizes is not None and any(each % inputs for each in sizes):
                raise Wrong(f"{sizes} in {inputs} inputs")
            sizes = sizes and [each // inputs for each in sizes]
            cuts = along.cuts(bundle[""], count, sizes, rule.get("interleave"))
            parts.append([{key: along.taken(array, cut) for key, array in bundle.items()} for cut in cuts])
        if len({each[""].shape for each in bundles}) > 1:
            raise Unclear("shares of different sizes")
        whole = [each[0] if inputs == 1 else self.joined_bundle(each, rule) for each in zip(*parts)]
        shards = [self.sharded(part, rule) for part in whole]
        if "split" not in rule:
            fused = shards[0] if count == 1 else self.joined_bundle(shards, rule)
            return [(match.expand(rule["name"]) if "name" in rule else name, self.finished(fused, rule))]
        names = _split_names(rule["split"], match, count)
        return [(new, self.finished(part, rule)) for new, part in zip(names, shards)]

    def member(self, name, rule, match):
        """One tensor, or a join of several."""
        bundles = [self.sharded(self.bundle(each, rule, match), rule) for each in self.parts(name, rule, match)]
        return self.joined_bundle(bundles, rule, rule.get("interleave")) if "join" in rule else bundles[0]

    def sharded(self, bundle, rule):
        if "shard" not in rule:
            return bundle
        number, count = rule["shard"]
        along = self.along(rule, bundle[""].ndim)
        cut = along.cuts(bundle[""], count)[number]
        return {key: along.taken(array, cut) for key, array in bundle.items()}

    def finished(self, bundle, rule):
        return self.stored(self.moved(bundle, rule), rule)

    def moved(self, bundle, rule):
        array = self.calculated(bundle, rule)
        to = rule.get("to")
        return Pattern(to, array.ndim).applied(array, rule.get("flip", ())) if is_pattern(to) else array

    def calculated(self, bundle, rule):
        dtype = rule.get("dtype")
        if dtype in ELEMENTS and bits_of(ELEMENTS[dtype]) < 8 and ELEMENTS[dtype] != bundle[""].dtype:
            raise Unclear("whether the result is packed")
        if dtype is None and self.dtype is not None and not rule.get("keep") and bundle[""].dtype.name in WIDE:
            dtype = self.dtype
        return calculated(bundle, rule, dtype)

    def stored(self, array, rule):
        """How a result lies in the new file."""
        to = rule.get("to")
        if to is None or is_pattern(to):
            name = header_name(array.dtype)
            header = (name, array.shape) if name is not None else None
            layout, data = None if name is not None else "C", stored_bytes(array)
        else:
            if bits_of(array.dtype) < 8 and "E(" not in to and ":" not in to.split("{")[0]:
                raise Unclear("whether the result is packed")
            try:
                data = gl.pack(array, to).tobytes()
            except (gl.LayoutError, TypeError) as error:
                raise Wrong(str(error)) from None
            own = OWN_TENSORS.get(to)
            header = own(*array.shape) if own and array.dtype.name == "uint4" and array.ndim == 2 else None
            layout = to
        if "as" in rule:
            header = _as(rule["as"], array, rule, (header_name(array.dtype), array.shape))
        return Wanted(np.ascontiguousarray(array), data, header, layout)


def _facts(array):
    return array.dtype, array.shape, array.tobytes()


def _in_order(some):
    """The members of a stack in the order of the numbers in the one group that their new name does not use."""
    rule, match = some[0][1:]
    used = {int(each) for each in re.findall(r"\\(?:g<)?(\d+)", rule["stack"])}
    used |= {match.re.groupindex[each] for each in re.findall(r"\\g<([a-zA-Z]\w*)>", rule["stack"])}
    free = {*range(1, match.re.groups + 1)} - used
    if len(free) != 1:
        raise Wrong(f"{len(free)} groups could be the numbers of a stack")
    numbers = {}
    for name, rule, match in some:
        text = match[free.copy().pop()]
        if not text or not text.isdecimal() or int(text) in numbers:
            raise Wrong(f"{text} is no number of its own")
        numbers[int(text)] = (name, rule, match)
    if sorted(numbers) != [*range(len(numbers))]:
        raise Wrong(f"numbers {sorted(numbers)} of a stack")
    return [numbers[each] for each in range(len(numbers))]


def _split_names(templates, match, count):
    if "{number}" in templates[0]:
        if len(templates) > 1:
            raise Unclear("numbers beside other names")
        return [match.expand(templates[0]).replace("{number}", str(number)) for number in range(count)]
    return [match.expand(each) for each in templates]


def _as(text, array, rule, usual):
    """The type and the shape that `as` names."""
    dtype, _, sizes = text.partition("[")
    if not sizes:
        if not (rule.get("to") is None or is_pattern(rule["to"])):
            raise Unclear("the shape of a layout")
        if dtype not in HEADER or bits_of(ELEMENTS[HEADER[dtype]]) != bits_of(array.dtype):
            raise Unclear(f"the shape of {text}")
        return dtype, usual[1]
    bound, to = {}, rule.get("to")
    if is_pattern(to):
        pattern = Pattern(to, array.ndim if "split" not in rule else None)
        bound = pattern.result_sizes(array.shape)
    elif to and ":" in to and "{" not in to:
        names = [each.name for each in gl.catalogue.find(re.split(r"[\[(]", to)[0]).sizes]
        bound = dict(zip(names, array.shape))
    dimensions, free = [], iter(array.shape)
    for each in sizes.rstrip("]").split(","):
        first, *steps = re.split(r"([*/])", each.strip())
        if not first.isdecimal() and first not in bound:
            bound[first] = next(free)
        size = int(first) if first.isdecimal() else bound[first]
        for operation, number in zip(steps[::2], steps[1::2]):
            if operation == "/" and size % int(number):
                raise Wrong(f"{each} is no whole number")
            size = size * int(number) if operation == "*" else size // int(number)
        dimensions.append(size)
    return dtype, tuple(dimensions)


def _read(rule):
    """A rule with its lists, numbers and axes read from text."""
    if isinstance(rule, str):
        rule = _parts(rule)
    rule = measuring(dict(rule))
    for key in ("join", "split"):
        if isinstance(rule.get(key), str):
            rule[key] = [each.strip() for each in rule[key].split(",")]
    if isinstance(rule.get("sizes"), str):
        rule["sizes"] = [int(each) for each in rule["sizes"].split(",")]
    if isinstance(rule.get("flip"), str):
        rule["flip"] = rule["flip"].split()
    if any("{" in re.sub(r"(?<!\\)\{number\}", "", str(rule.get(key))) for key in ("name", "join", "stack", "split")):
        raise Unclear("braces in a name")
    if isinstance(rule.get("to"), (list, tuple)):
        raise Unclear("several patterns")
    if rule.get("drop") and ("along" in rule or "along" in str(rule.get("shard"))):
        raise Unclear("pieces that are left out")
    if {"join", "split", "stack", "shard"} & rule.keys() and any(isinstance(rule.get(key), list) for key in LISTS):
        raise Unclear("numbers of a rule for a tensor that is cut or joined")
    if "rank" in rule:
        rule["rank"] = int(rule["rank"])
    if "shard" in rule:
        words = re.fullmatch(r"(\d+)/(\d+)(?:\s+along=(\S+))?", rule["shard"])
        if not words:
            raise Unclear(f"shard {rule['shard']}")
        number, count = int(words[1]), int(words[2])
        if number >= count:
            raise Wrong(f"shard {rule['shard']}")
        rule["shard"] = number, count
        if words[3]:
            rule["along"] = words[3]
    return rule


def _parts(text):
    """The keys that a text means, where it is plain."""
    rule = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        key, equals, value = (each.strip() for each in part.partition("="))
        if "->" in part or not equals:
            key, value = (part, True) if part in ("keep", "drop", "divide", "interleave", "unit") else ("to", part)
        if key in rule:
            raise Unclear(f"{key} twice")
        rule[key] = value[1:-1] if isinstance(value, str) and re.fullmatch(r"'.*'|\".*\"", value) else value
        if key in (*SIBLINGS, "block") and re.fullmatch(r"[-+.,\de ]+", value):
            numbers = [float(each) if key in SIBLINGS else int(each) for each in value.split(",")]
            rule[key] = numbers if len(numbers) > 1 else numbers[0]
    return rule
