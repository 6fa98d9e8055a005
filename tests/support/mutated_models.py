"""Rules, headers and indices with faults, from random cases that are right, and what is said about them.

A call ends with a result, or with one line that this library raises itself.  Then no file is left.
"""

import ast
import contextlib
import copy
import functools
import json
import os
import pathlib
import resource
import signal
import traceback

import numpy as np

import gpulayout as gl
from gpulayout.files.errors import FileError
from tests.support.model_cases import INDEX, file_of, models_of, read_result, rule_text, rules_toml, written
from tests.support.model_elements import ELEMENTS, HEADER, Unclear, Wrong, array_of
from tests.support.model_files import judged, mutants
from tests.support.model_oracle import differences, new_model
from tests.support.random_tensors import chance, pick
from tests.support.waiting import HANG

MOST_MEMORY = 1 << 30
ROOT = pathlib.Path(gl.__file__).parent
WORDS = [
    *(
        "=",
        ";",
        ",",
        "/",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "->",
        "*",
        "'",
        '"',
        "\\",
        "\n",
        "\0",
        " ",
        "...",
        "é",
        "\ud800",
    ),
    *("0", "1", "-1", "2/4", "0/0", "4/2", "1/0", "1e9", "nan", "inf", "9" * 25, "9" * 5000, str(2**31), str(2**63)),
    *(r"\1", r"\2", r"\9", r"\g<0>", r"\g<x>", "{name}", "{number}", "*_scale", "{name}_scale", "a b -> b a", "F", "C"),
    *(
        "from=u4",
        "from=s4",
        "from=f32",
        "from=gptq:qweight",
        "from=gptq:qweight(dtype=u4)",
        "from=u4[8,8]",
        "from=u4[8,16]{0,1:E(4)}",
        "from=x:y",
    ),
    *("as=F16", "as=I32[K/16,N*2]", "as=U8[a]", "as=I32[0]", "as=F4", "dtype=bf16", "dtype=u4", "scale=2", "shift=a"),
    *("join=", "split=", "stack=", r"join=\1q,\1k", r"split=\1{number}", r"stack=\1x", "sizes=1,2", "interleave"),
    *("along=0", "along=-1", "along=o", "along=9", "shard=0/2", "shard=1/2 along=0", "block=4", "block=0", "divide"),
    *("zero_point=8", "mean=1", "std=0", "unit", "saturate", "keep", "drop", "name=x", "rank=2", "kind=conv", "flip=a"),
    *("marlin:weights", "awq:qweight", "{0,1}", "{1,0:T(8,128)}", "u8[99999999999]", "{0,1:T(99999999999)}"),
]
VALUES = [None, True, False, 0, -1, 3, 0.5, float("nan"), float("inf"), 10**30, "", "x", b"x", [], {}, [1, 2], [[1.0]]]
VALUES += [np.zeros((2, 2)), np.float32(2), np.array("x"), ["a", 1], ("a",), {"a": 1}, object, "9" * 5000, [None], 1j]


@functools.cache
def _raises(file):
    """The lines of a file that belong to a `raise`."""
    tree = ast.parse(pathlib.Path(file).read_text(encoding="utf-8"))
    found = [range(node.lineno, node.end_lineno + 1) for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return {line for lines in found for line in lines}


def about_error(error, allowed):
    """What is wrong with an exception: it is of another class, not raised on purpose, or not one short line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} at {last.filename}:{last.lineno}: {str(error)[:300]!r}"
    if not isinstance(error, allowed):
        return f"an exception of Python's own: {where}"
    if isinstance(error, OSError) and not isinstance(error, FileError):
        return ""
    if ROOT not in pathlib.Path(last.filename).parents or last.lineno not in _raises(last.filename):
        return f"not raised on purpose: {where}"
    text = str(error)
    return "" if text and "\n" not in text and len(text) < 3000 else f"not one line: {where}"


# ---- what is changed -------------------------------------------------------------------------------------------------


def mutated_text(random, text, others):
    """A text with one to three faults."""
    for _ in range(int(random.integers(1, 4))):
        place, end = (int(random.integers(0, len(text) + 1)) for _ in range(2))
        kind = int(random.integers(0, 7))
        if kind == 0:
            text = text[:place] + pick(random, WORDS) + text[place:]
        elif kind == 1:
            text = text[:place] + text[place + int(random.integers(1, 6)) :]
        elif kind == 2:
            text = text[:place] + text[min(place, end) : max(place, end)] + text[place:]
        elif kind == 3:
            text = f"{text}; {pick(random, WORDS)}"
        elif kind == 4:
            parts, more = text.split(";"), pick(random, others).split(";")
            parts[int(random.integers(0, len(parts)))] = pick(random, more)
            text = ";".join(parts)
        elif kind == 5:
            digits = [at for at, each in enumerate(text) if each.isdigit()]
            if digits:
                at = pick(random, digits)
                text = text[:at] + pick(random, ["0", "1", "2", "7", "-1", "64", "10"]) + text[at + 1 :]
        else:
            parts = text.split(";")
            del parts[int(random.integers(0, len(parts)))]
            text = ";".join(parts)
    return text


def mutated_rules(random, rules, others):
    """Rules, as dictionaries, with one to three faults."""
    rules = copy.deepcopy(rules)
    for _ in range(int(random.integers(1, 4))):
        regex = pick(random, [*rules])
        rule, kind = rules[regex], int(random.integers(0, 6))
        if not isinstance(rule, dict) or kind == 0:
            rules[regex] = pick(random, VALUES) if chance(random, 0.3) else rule
        elif kind == 1 and rule:
            key = pick(random, [*rule])
            rule[key] = mutated_text(random, str(rule[key]), others) if chance(random, 0.5) else pick(random, VALUES)
        elif kind == 2 and rule:
            del rule[pick(random, [*rule])]
        elif kind == 3:
            key, _, value = pick(random, WORDS).partition("=")
            rule[key] = value if value else pick(random, VALUES)
        elif kind == 4:
            rules[mutated_text(random, regex, others)] = rules.pop(regex)
        else:
            key, _, value = pick(random, pick(random, others).split("; ")).partition("=")
            rule[key.strip()] = value or True
    return rules


# ---- what is said ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def limits():
    """What takes for ever, or `MOST_MEMORY` more than is taken now, ends with an exception of Python's own."""

    def late(*_):
        raise TimeoutError(f"not done after {HANG} seconds")

    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_MEMORY, before[1]))
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def outcome(folder, source, rules, models):
    """What is wrong with one call: its error, what it leaves behind, or its result.  "" if nothing.

    models    for the independent model; None if it cannot say anything
    """
    out = folder / "out"
    out.mkdir(exist_ok=True)
    target = out / (INDEX if isinstance(source, pathlib.Path) and source.name == INDEX else "out.safetensors")
    try:
        with limits():
            gl.relayout_file(source, target, tensors=rules)
    except Exception as error:
        allowed = (gl.LayoutError, FileError, TypeError, OSError)  # of the system: no such file, its name is too long
        left = os.listdir(out)
        return about_error(error, allowed) or (f"left {left} behind: {error}" if left else "")
    found, notes = read_result(target)
    for each in out.iterdir():
        each.unlink()
    return "" if models is None else _about_result(models, rules, found, notes)


def _about_result(models, rules, found, notes):
    try:
        wanted = new_model(models, rules)
    except Unclear:
        return ""
    except Wrong as error:
        return f"must be an error: {error}"
    except Exception:  # values of the wrong kind are nothing that this model knows
        return ""
    return "; ".join(differences(found, notes, wanted))


def with_wrong_rules(folder, case, others, random, count):
    """Faults in the rules of a case: each time the rules, and what is wrong with what came of them."""
    paths = [written(folder, number, model) for number, model in enumerate(case.inputs)]
    source = paths[0] if len(paths) == 1 else paths
    for _ in range(count):
        way, rules = int(random.integers(0, 3)), case.rules
        if way == 0:
            rules = mutated_rules(random, case.rules, others)
        elif way == 1:
            texts = {regex: rule_text(rule) for regex, rule in case.rules.items()}
            regex = pick(random, [*texts])
            rules = {**texts, regex: mutated_text(random, texts[regex], others)}
        else:
            text = mutated_text(random, rules_toml(case.rules), others)
            (folder / "rules.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
            if problem := outcome(folder, source, folder / "rules.toml", None):
                yield text, problem
            continue
        if problem := outcome(folder, source, rules, models_of(case)):
            yield rules, problem


def with_wrong_files(folder, case, random, count):
    """Faults in the header of an input, or in its index."""
    paths = [written(folder, number, model) for number, model in enumerate(case.inputs)]
    source, number = (paths[0] if len(paths) == 1 else paths), int(random.integers(0, len(paths)))
    model, path = case.inputs[number], paths[number]
    if path.name == INDEX:
        valid = path.read_bytes()
        for _ in range(count):
            text = mutated_text(random, valid.decode(), ["{", '"model-00001-of-00001.safetensors"'])
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            if problem := outcome(folder, source, case.rules, models_of(case)):
                yield text, problem
        return
    broken = mutants(file_of(model), count, int(random.integers(0, 2**31)))
    for data in broken if chance(random, 0.5) else (other_model(random, model) for _ in range(count)):
        path.write_bytes(data)
        if problem := outcome(folder, source, case.rules, _models_with(case, number, data)):
            yield data, problem


def other_model(random, model):
    """A file that is right, but has other tensors than the rules are for, or notes that may be wrong."""
    tensors, notes = dict(model), {}
    for _ in range(int(random.integers(1, 4)) if tensors else 0):
        name, kind = pick(random, [*tensors]), int(random.integers(0, 6))
        array = tensors[name]
        if kind == 0:
            del tensors[name]
            if not tensors:
                break
        elif kind == 1 and array.ndim:
            at = int(random.integers(0, array.ndim))
            tensors[name] = np.moveaxis(array, at, int(random.integers(0, array.ndim)))
        elif kind == 2:
            shapes = [(-1,), (1, -1), (-1, 1), (*array.shape, 1), (array.size,)] if array.size else [(0, 3), (0,)]
            tensors[name] = array.reshape(pick(random, shapes))
        elif kind == 3:
            widths = [each for each in map(ELEMENTS.get, HEADER.values()) if each.itemsize == array.itemsize]
            tensors[name] = np.ascontiguousarray(array).view(pick(random, widths))
        elif kind == 4:
            tensors[pick(random, ["", "x", name + "2", name[:-1], name + "_scale"])] = tensors.pop(name)
        else:
            text = pick(
                random, [f"u8[{array.nbytes}]{{0}}", "u4[2,8]{0,1:E(4)}", "marlin:weights[16,64]", "", "x", "u8[]"]
            )
            notes[f"gpulayout:{name}"] = text
    return file_of({name: np.ascontiguousarray(each) for name, each in tensors.items()}, notes or None)


def _models_with(case, number, data):
    """The inputs, one of them as the format's library reads it; None if that has elements that NumPy lacks."""
    import safetensors

    try:
        found = judged(data)
    except safetensors.SafetensorError:
        return None
    if any(dtype not in HEADER for dtype, _, _ in found.values()) or b"gpulayout:" in data:
        return None
    models = models_of(case)
    models[number] = {name: array_of(*each) for name, each in found.items()}
    return models


def shown(problem, what, case):
    """A failure, as a test prints it."""
    text = what if isinstance(what, (str, bytes)) else json.dumps(what, default=repr, indent=1)
    return f"{problem}\n{text!r}\n{case}"
