"""Relayouts of whole models: how random tensors lie in files, how rules are written, and what is wrong with a result.

Results are read by the format's own library.
"""

import json
import re
from dataclasses import dataclass

import numpy as np

import gpulayout as gl
from tests.support.model_elements import header_name, stored_bytes
from tests.support.model_files import entry, judged, raw
from tests.support.model_oracle import differences, new_model
from tests.support.random_tensors import chance, pick

NOTE = "gpulayout:"
INDEX = "model.safetensors.index.json"


@dataclass
class Case:
    """A relayout.

    inputs    for each input a list of shards; one that is no list is one file
    way       how rules are written: "mapping", "text" or "map"
    """

    inputs: list
    rules: dict
    way: str
    to_index: bool
    dtype: str | None
    memory: object

    def __str__(self):
        def shown(array):
            return f"{header_name(array.dtype)}{list(array.shape)}"

        lines = [f"way={self.way} to_index={self.to_index} dtype={self.dtype} memory={self.memory}"]
        for number, shards in enumerate(self.inputs):
            for shard in shards if isinstance(shards, list) else [shards]:
                lines.append(f"input {number}: " + ", ".join(f"{name} {shown(each)}" for name, each in shard.items()))
        return "\n".join(lines + [f"rule {regex!r}: {rule!r}" for regex, rule in self.rules.items()])


def case_of(families, seed):
    """The case of some families: how they lie in files, and how their rules are written."""
    random = np.random.default_rng([7, seed])
    count = pick(random, [1, 1, 2, 3])
    placed = [_placed(random, family, count) for family in families]
    kept = [each for family, each in zip(families, placed) if _is_whole(family, *each)]
    if not kept:
        count, kept = 1, [_placed(random, families[0], 1)]
    inputs = [dict(pair for tensors, _ in kept for pair in tensors[number].items()) for number in range(count)]
    sensible = {regex: _sensible(rule, count) for _, own in kept for regex, rule in own.items()}
    rules = {regex: rule for regex, rule in sensible.items() if rule}
    shared = [_in_shards(random, model) if chance(random, 0.4) else model for model in inputs]
    to_index = count == 1 and isinstance(shared[0], list) and chance(random, 0.6)
    dtype, memory = pick(random, [None, None, None, "bf16"]), pick(random, [None, "96M", 16384])
    return Case(shared, rules, pick(random, ["mapping", "text", "map"]), to_index, dtype, memory)


def _sensible(rule, count):
    """A rule without an axis that it goes nowhere along: of one input, only joins, pieces and shards do."""
    if count > 1 or {"join", "split", "shard"} & rule.keys():
        return rule
    return {key: value for key, value in rule.items() if key != "along"}


def _is_whole(family, inputs, rules):
    """False where a rule with along is for a tensor that only some of the inputs have."""
    matched = ((name, rule) for name in family.tensors for regex, rule in rules.items() if re.fullmatch(regex, name))
    names = {name for name, rule in matched if "along" in rule or "along" in str(rule.get("shard"))}
    for rule in rules.values():
        names |= {name for name in family.tensors if "join" in rule and "along" in rule}
    return all(name in each for name in names for each in inputs)


def _placed(random, family, count):
    """The tensors of a family in so many inputs, in pieces or whole; and its rules with those for the pieces."""
    inputs, rules = [{} for _ in range(count)], dict(family.rules)
    for name, array in family.tensors.items():
        if name in family.follows:
            continue
        cut, followers = family.cuts.get(name), [each for each, other in family.follows.items() if other == name]
        edges = cut.edges(random, array, len(inputs)) if cut is not None and chance(random, 0.7) else None
        if edges is None:
            for each in [name, *followers]:
                _whole(random, inputs, each, family.tensors[each], may_be_twice=not family.has_along)
            continue
        axis = cut.axis(array)
        for each in [name, *followers]:
            own = family.tensors[each]
            count = axis.size(own) if own.ndim == array.ndim else 1
            if each != name and count == 1:
                _whole(random, inputs, each, own, may_be_twice=True)
                continue
            places = [edge * count // axis.size(array) for edge in edges]
            for model, low, high in zip(inputs, places, places[1:]):
                model[each] = axis.taken(own, np.arange(low, high))
            if each != name and not any(re.fullmatch(regex, each) for regex in rules):
                rules[re.escape(each)] = pick(random, [{"drop": True}, {"along": axis.dim}])
    return inputs, rules


def _whole(random, inputs, name, array, *, may_be_twice):
    """A tensor that is in one input, or the same in all."""
    only = None if may_be_twice and chance(random, 0.4) else int(random.integers(0, len(inputs)))
    for number, model in enumerate(inputs):
        if only in (None, number):
            model[name] = array


def _in_shards(random, model):
    parts = [{} for _ in range(int(random.integers(1, 4)))]
    for name, array in model.items():
        pick(random, parts)[name] = array
    return parts


def file_of(model, metadata=None):
    """The bytes of a safetensors file."""
    header, data = {} if metadata is None else {"__metadata__": metadata}, []
    place = 0
    for name, array in model.items():
        data.append(stored_bytes(array))
        header[name] = entry(header_name(array.dtype), list(array.shape), place, place + len(data[-1]))
        place += len(data[-1])
    return raw(header, b"".join(data))


def written(folder, number, model):
    """The path of an input: one file, or the index of shards."""
    if isinstance(model, dict):
        path = folder / f"in{number}.safetensors"
        path.write_bytes(file_of(model))
        return path
    (folder / f"in{number}").mkdir()
    names = {}
    for shard, part in enumerate(model, 1):
        name = f"model-{shard:05}-of-{len(model):05}.safetensors"
        (folder / f"in{number}" / name).write_bytes(file_of(part))
        names |= dict.fromkeys(part, name)
    index = folder / f"in{number}" / INDEX
    index.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": names}))
    return index


def rule_text(rule):
    """A rule as the command line has it."""
    parts = []
    for key, value in rule.items():
        if value is True:
            parts.append(key)
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            quoted = f"'{text}'" if key in ("scale", "zero_point") and isinstance(value, str) else text
            parts.append(text if key == "to" else f"{key}={quoted}")
    return "; ".join(parts)


def rules_toml(rules):
    """Rules as a map has them."""
    lines = []
    for regex, rule in rules.items():
        lines.append(f"[[tensor]]\nmatch = {json.dumps(regex)}")
        lines += [f"{key} = {json.dumps(value)}" for key, value in rule.items()]
    return "\n".join(lines) + "\n"


def written_rules(folder, case):
    """The argument `tensors` of a case."""
    if case.way == "mapping":
        return case.rules
    if case.way == "text":
        return {regex: rule_text(rule) for regex, rule in case.rules.items()}
    (folder / "rules.toml").write_text(rules_toml(case.rules), encoding="utf-8")
    return folder / "rules.toml"


def models_of(case):
    """The inputs, each as one dictionary."""
    return [
        each if isinstance(each, dict) else {k: v for part in each for k, v in part.items()} for each in case.inputs
    ]


def relayout(folder, case):
    """Run a case.  Returns the path of the result."""
    paths = [written(folder, number, model) for number, model in enumerate(case.inputs)]
    (folder / "out").mkdir()
    out = folder / "out" / (INDEX if case.to_index else "out.safetensors")
    source = paths[0] if len(paths) == 1 else paths
    options = {} if case.dtype is None else {"dtype": case.dtype}
    gl.relayout_file(source, out, tensors=written_rules(folder, case), max_bytes=case.memory, **options)
    return out


def read_result(path):
    """All tensors of a result by the format's library, and the notes."""
    files = [path]
    if path.name == INDEX:
        places = json.loads(path.read_text())["weight_map"]
        files = [path.parent / name for name in sorted({*places.values()})]
    found, notes, where = {}, {}, {}
    for file in files:
        tensors = judged(file.read_bytes())
        assert not tensors.keys() & found.keys()
        found |= tensors
        where |= dict.fromkeys(tensors, file.name)
        notes |= notes_in(file)
    if path.name == INDEX:
        assert where == places
    return found, notes


def notes_in(file):
    """The notes about tensors in the metadata of a file, by name."""
    with open(file, "rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    metadata = header.get("__metadata__") or {}
    return {key.removeprefix(NOTE): text for key, text in metadata.items() if key.startswith(NOTE)}


def problems(folder, case):
    """What is wrong with the result of a case: lines, and an exception is one of them."""
    wanted = new_model(models_of(case), case.rules, case.dtype)
    try:
        found, notes = read_result(relayout(folder, case))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return differences(found, notes, wanted)
