"""`expect=`: every element of a tensor is one of the numbers of its rule, or nothing is written."""

import itertools
import pathlib
import re
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints import expected
from tests.support.command_line import failure, run
from tests.support.effort import ALL
from tests.support.model_cases import case_of, file_of, models_of, problems
from tests.support.model_elements import ELEMENTS, HEADER, NAMES, Unclear, taken
from tests.support.model_files import NEEDS_SAFETENSORS, contents, entry, raw
from tests.support.random_models import random_families

GPTQ_ZEROS = r".*\.qzeros=from=gptq:qzeros(dtype=u4); expect=7; drop"

pytestmark = NEEDS_SAFETENSORS


def words(codes):
    """Eight codes of 4 bits in a word, the first in its lowest bits."""
    eights = codes.astype(np.uint32).reshape(codes.shape[0], -1, 8)
    return (eights << np.arange(0, 32, 4, dtype=np.uint32)).sum(-1, dtype=np.uint32).view(np.int32)


def looked_at(folder, tensors, rule, **options):
    """What a relayout by one rule for all tensors says: None, or the text of its error."""
    path, out = folder / "a.safetensors", folder / "b.safetensors"
    path.write_bytes(file_of(tensors))
    out.unlink(missing_ok=True)
    try:
        gl.relayout_file(path, out, tensors={".*": rule}, **options)
    except gl.LayoutError as error:
        assert [each.name for each in folder.iterdir()] == ["a.safetensors"]
        return str(error)
    return None


def first_other(array, numbers):
    """The index of the first element that equals none of the numbers, in the order of the dimensions; or None."""
    for index in np.ndindex(array.shape):
        if not any(exactly(array[index]) == each for each in numbers):
            return index
    return None


def index_in(told):
    """The index that an error names."""
    return tuple(
        int(each) for each in re.search(r"the element at \(([\d, ]*)\) is ", told)[1].replace(",", " ").split()
    )


def exactly(element):
    """The number that an element is."""
    return int(element) if NAMES[element.dtype][0] in "us" else float(complex(element).real)


def some_of(dtype):
    """A few numbers of a type that differ."""
    if dtype == np.bool_:
        return [0, 1]
    values = {float(complex(each).real) for each in np.arange(-2, 4).astype(dtype)}
    return sorted(each for each in values if each == each)[:3]


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(HEADER.values()))
def test_elements_of_every_type_are_compared_by_value(tmp_path, dtype):
    """All arrays of two elements that hold two of the type's numbers, and every choice of numbers that are right."""
    dtype = ELEMENTS[dtype]
    some = some_of(dtype)
    for values, count in itertools.product(itertools.product(some[:2], repeat=2), (1, 2)):
        array = np.array(values).astype(dtype).reshape(1, 2)
        for numbers in itertools.combinations(some, count):
            told, place = looked_at(tmp_path, {"w": array}, {"expect": [*numbers], "keep": True}), None
            place = first_other(array, numbers)
            assert (told and index_in(told)) == place
            if told:
                assert "tensor 'w' of " in told and f"{NAMES[dtype]}[1,2]" in told and "the rule '.*' expects" in told


# The type and the shape in the file, and what `from=` says.
LAYOUTS = [
    ("F32", (6, 5), None),
    ("F32", (), None),
    ("F32", (6, 5), "f32[6,5]{0,1}"),
    ("I64", (3, 2, 4), "s64[2,4,3]{0,2,1}"),
    ("I32", (3, 4), "u4"),
    ("U8", (4, 6), "s2"),
    ("I32", (4, 16), "gptq:qweight(dtype=u4)"),
    ("I32", (3, 4), "gptq:qzeros(dtype=u4)"),
    ("I32", (6, 4), "awq:qweight"),
    ("I32", (1, 128), "marlin:weights(dtype=u4)"),
    ("F16", (4, 64), "marlin:scales[4,64]"),
    ("U8", (1024,), "f8e4m3fn[5,9]{1,0:T(8,128)}"),
]


@pytest.mark.parametrize("block", [1, 64, expected.BLOCK])
@pytest.mark.parametrize("word, sizes, from_", LAYOUTS)
def test_the_first_other_element_of_any_layout_is_named(tmp_path, monkeypatch, word, sizes, from_, block):
    """Padding is not looked at, nor is the first one in memory the first of the dimensions."""
    monkeypatch.setattr(expected, "BLOCK", block)
    random = np.random.default_rng(1)
    rule = {"keep": True} | ({} if from_ is None else {"from": from_})
    for number in range(2):
        data = random.integers(0, 256, int(np.prod(sizes)) * ELEMENTS[HEADER[word]].itemsize, np.uint8)
        array = data.view(ELEMENTS[HEADER[word]]).reshape(sizes)
        elements = array if from_ is None else taken(array, from_)
        numbers = sorted({exactly(each) for each in elements.reshape(-1)})
        numbers = [each for each in numbers if each == each]
        for right in ([*numbers[: (number + 1) * len(numbers) // 3]] or numbers[:1], numbers):
            told = looked_at(tmp_path, {"w": array}, rule | {"expect": [*right]})
            assert (told and index_in(told)) == first_other(elements, right)
            assert not told or f" is {elements[index_in(told)]!s}, but the rule '.*' expects" in told


@pytest.mark.parametrize("seed", range(200 if ALL else 12))
def test_random_models_become_the_same_or_nothing(tmp_path, seed):
    """With all numbers of its tensors, a rule makes what it makes without; with one less, nothing."""
    case = case_of(random_families(np.random.default_rng([9, seed])), seed)
    case.way = "mapping" if case.way == "map" else case.way
    lost = False
    for number, (regex, rule) in enumerate(case.rules.items()):
        try:
            found = numbers_of_rule(models_of(case), regex, rule)
        except Unclear:
            continue
        if not 1 < len(found) <= 16:
            continue
        less = sorted(found)[:: -1 if number % 2 else 1][: len(found) - (seed % 2)]
        case.rules[regex], lost = rule | {"expect": less}, lost or len(less) < len(found)
    told = problems(tmp_path, case)
    assert not lost or len(told) == 1 and re.search(r"LayoutError: tensor .* is .*, but the rule .* expects", told[0])
    assert lost or not told, str(case)


def numbers_of_rule(inputs, regex, rule):
    """The numbers of all tensors of a rule, of the parts of its join too, as its `from` reads them; none for nan."""
    names = {name for model in inputs for name in model if re.fullmatch(regex, name)}
    joined = rule.get("join", [])
    for template in joined.split(",") if isinstance(joined, str) else joined:
        names |= {re.fullmatch(regex, name).expand(template) for name in [*names] if re.fullmatch(regex, name)}
    arrays = [model[name] for name in names for model in inputs if name in model]
    arrays = [each if "from" not in rule else taken(each, rule["from"]) for each in arrays]
    found = {complex(each).real for array in arrays for each in array.reshape(-1)}
    return set() if any(each != each or np.iscomplexobj(array) for array in arrays for each in found) else found


# ---- numbers that compare otherwise than they look -------------------------------------------------------------------


@pytest.mark.parametrize(
    "array, expect, told",
    [
        (np.float32([0.0, -0.0]), "0", None),
        (np.float16([0.0, -0.0]), "0", None),
        (np.array([0.0, -0.0], ml_dtypes.float8_e5m2), "-0", None),
        (np.float32([0.1]), "0.1", None),
        (np.float64([0.1]), "0.1", None),
        (np.array([0.1], ml_dtypes.bfloat16), "0.1", "expects 0.1, but no bf16 is that: the nearest is 0.100098"),
        (np.array([0.1], ml_dtypes.bfloat16), "0.100098", None),
        (np.float32([np.inf]), "inf", None),
        (np.float32([-np.inf]), "inf", r"the element at (0,) is -inf, but"),
        (np.float32([1, np.nan]), "1", r"the element at (1,) is nan, but"),
        (np.array([1, np.nan], ml_dtypes.bfloat16), "1", r"the element at (1,) is nan, but"),
        (np.int64([2**53]), str(2**53 + 1), f"is {2**53}, but"),
        (np.uint64([2**64 - 1]), str(2**64 - 1), None),
        (np.uint8([7]), "7.0", None),
        (np.uint8([7]), "7,256", "expects 256, but no u8 is that"),
        (np.uint8([7]), "7,-1", "expects -1, but no u8 is that"),
        (np.uint8([7]), "7.5", "expects 7.5, but no u8 is that"),
        (np.int8([7]), "1e300", "but no s8 is that"),
        (np.int8([7]), "inf", "expects inf, but no s8 is that"),
        (np.float16([7]), "1e300", "but no f16 is that: the nearest is inf"),
        (np.bool_([True]), "1", None),
        (np.bool_([True]), "2", "expects 2, but no pred is that"),
        (np.complex64([1j]), "0", "is 1j, but"),
        (np.empty((0, 3), np.float32), "1", None),
    ],
)
def test_numbers_at_their_limits(tmp_path, array, expect, told):
    found = looked_at(tmp_path, {"w": array}, f"expect={expect}; drop")
    assert found == told if told is None else told in found


def test_a_file_may_hold_booleans_that_are_neither(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(raw({"w": entry("BOOL", [3], 0, 3)}, b"\1\0\2"))
    with pytest.raises(gl.LayoutError, match=r"the element at \(2,\) is 2, but .* expects 0 or 1"):
        gl.relayout_file(path, tmp_path / "b.safetensors", tensors=["w=expect=0,1; keep"])


def test_elements_of_six_bits_cannot_be_looked_at(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(raw({"w": entry("F6_E2M3", [4], 0, 3)}, b"\0\0\0"))
    with pytest.raises(gl.LayoutError, match="elements of 6 bits can only be copied"):
        gl.relayout_file(path, tmp_path / "b.safetensors", tensors=["w=expect=0; keep"])


# ---- what a rule does beside -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, names",
    [
        ({"drop": True}, ["w"]),
        ({"keep": True}, ["w", "z"]),
        ({"name": "new"}, ["new", "w"]),
        ({"to": "a b -> b a"}, ["w", "z"]),
        ({"scale": "w", "dtype": "f32"}, ["w", "z"]),
        ({"split": ["x", "y"], "along": 0}, ["w", "x", "y"]),
        ({"shard": "0/2", "along": 0}, ["w", "z"]),
    ],
)
def test_all_of_a_tensor_is_looked_at_whatever_becomes_of_it(tmp_path, rule, names):
    """Also the half that a shard leaves out."""
    tensors, path = {"z": np.full((2, 4), 7, np.uint8), "w": np.ones((1, 1), np.float32)}, tmp_path / "a.safetensors"
    path.write_bytes(file_of(tensors))
    for dry_run in (True, False):
        gl.relayout_file(path, tmp_path / "b.safetensors", tensors={"z": rule | {"expect": [7, 8]}}, dry_run=dry_run)
    assert sorted(contents(tmp_path / "b.safetensors")) == sorted(names)
    tensors["z"][1, 2] = 9
    for dry_run in (True, False):
        told = looked_at(tmp_path, tensors, rule | {"expect": [7, 8], "only": "U8"}, dry_run=dry_run)
        assert "tensor 'z' of " in told and "the element at (1, 2) is 9, but" in told and "expects 7 or 8" in told


def test_arithmetic_comes_later(tmp_path):
    assert looked_at(tmp_path, {"w": np.full(3, 7, np.uint8)}, "expect=7; shift=1; dtype=u8") is None
    assert contents(tmp_path / "b.safetensors")["w"][2] == b"\x08" * 3


def test_the_tensors_of_all_inputs_and_all_parts_of_a_join(tmp_path):
    good, bad = {"w": np.full((2, 2), 7, np.uint8)}, {"w": np.full((2, 2), 8, np.uint8)}
    paths = [tmp_path / f"{name}.safetensors" for name in ("a", "b")]
    for rule in ("expect=7; drop", "expect=7; along=0"):
        for number, tensors in enumerate((bad, good)):
            for path, each in zip(paths, (good, tensors)):
                path.write_bytes(file_of(each))
            out = tmp_path / f"{number}.safetensors"
            if tensors is bad:
                with pytest.raises(gl.LayoutError, match=r"tensor 'w' of .*b\.safetensors, u8\[2,2\]: "):
                    gl.relayout_file(paths, out, tensors={"w": rule})
            else:
                gl.relayout_file(paths, out, tensors={"w": rule}, overwrite=True)
    paths[0].write_bytes(file_of({"q": good["w"], "k": bad["w"]}))
    with pytest.raises(gl.LayoutError, match="tensor 'k' of "):
        gl.relayout_file(paths[0], paths[1], tensors={"q": "join=q,k; along=0; name=qk; expect=7"}, overwrite=True)


def test_a_note_says_what_the_elements_are(tmp_path):
    codes = np.full((16, 64), 7, np.uint8)
    codes[3, 5] = 9
    path, packed = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    path.write_bytes(file_of({"w": words(codes.T).T.copy()}))
    gl.relayout_file(path, packed, tensors={"w": "from=u4[64,16]{0,1:E(4)}; o i -> i o; marlin:weights"})
    with pytest.raises(gl.LayoutError, match=r"the element at \(\d+, \d+\) is 9, but .* expects 7"):
        gl.relayout_file(packed, tmp_path / "c.safetensors", tensors={"w": "expect=7; keep"})


def test_memory_does_not_grow_with_the_tensor(tmp_path):
    path, nbytes = tmp_path / "a.safetensors", 64 << 20
    with open(path, "wb") as stream:
        stream.write(raw({"w": entry("I32", [1024, nbytes >> 12], 0, nbytes)}))
        stream.truncate(stream.tell() + nbytes)  # zeros that the disk need not hold
    tracemalloc.start()
    gl.relayout_file(path, tmp_path / "b.safetensors", tensors={"w": "expect=0; drop"}, max_bytes="64M")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 24 << 20


# ---- how rules and errors are written --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, message",
    [
        ("expect=; drop", "expect '' is not a number, or several such as 7,8"),
        ("expect=seven; drop", "expect 'seven' is not a number"),
        ("expect=7,; drop", "expect '7,' is not a number"),
        ("expect=1e400; drop", "expect '1e400' is not a number"),
        ("expect=nan; drop", "expect 'nan': no number equals nan"),
        ({"expect": [], "drop": True}, r"expect \[\] is not a number"),
        ({"expect": True, "drop": True}, "expect True is not a number"),
        ({"expect": [7, None], "drop": True}, r"expect \[7, None\] is not a number"),
        ({"expect": float("nan"), "drop": True}, "expect nan: no number equals nan"),
        ("expect=7", "looks at its tensors with expect: add keep, drop, or what else becomes of them"),
        ("from=u4; expect=7", "looks at its tensors with expect: add keep"),
        ("expect=7; keep; dtype=f32", "says keep, and something else as well"),
        ("from=u4; keep", "says keep, and something else as well"),
        ("why=because; drop", "why says what other numbers mean than those of expect=, which is missing"),
        ("check=7; drop", "did you mean 'expect'"),
        ("expects=7; drop", "did you mean 'expect'"),
    ],
)
def test_rules_that_are_refused(tmp_path, rule, message):
    assert re.search(message, looked_at(tmp_path, {"w": np.full((1, 8), 7, np.uint8)}, rule))


def test_why_is_text(tmp_path):
    with pytest.raises(TypeError, match="why is 7, not text"):
        looked_at(tmp_path, {"w": np.zeros(3, np.uint8)}, {"expect": 0, "why": 7, "drop": True})


def test_numbers_are_written_in_three_ways(tmp_path):
    array, rules = np.uint8([7, 8]), tmp_path / "rules.toml"
    for numbers in ("7, 8", [7, 8], [7.0, np.int8(8)], ("7", 8)):
        assert looked_at(tmp_path, {"w": array}, {"expect": numbers, "drop": True}) is None
    assert looked_at(tmp_path, {"w": array[:1]}, {"expect": 7, "drop": True}) is None
    for text in ("'7,8'", "[7, 8]", "[7, 9]"):
        rules.write_text(f"[[tensor]]\nmatch = 'w'\nexpect = {text}\nwhy = 'it is so'\ndrop = true\n")
        (tmp_path / "a.safetensors").write_bytes(file_of({"w": array}))
        told = run_or_told(tmp_path, rules)
        assert (told is None) == ("9" not in text)
        assert told is None or re.search(r"is 8, but rule 1 of .*rules\.toml expects 7 or 9: it is so$", told)


def run_or_told(folder, rules):
    try:
        gl.relayout_file(
            folder / "a.safetensors", folder / "b.safetensors", tensors=pathlib.Path(rules), overwrite=True
        )
    except gl.LayoutError as error:
        return str(error)
    return None


def test_the_command_line(tmp_path):
    zeros = np.full((4, 32), 7, np.uint8)
    path, out = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    for wrong in (False, True):
        zeros[2, 9] = 8 if wrong else 7
        path.write_bytes(file_of({"l.qzeros": words(zeros), "norm": np.ones(3, np.float32)}))
        rule = f"{GPTQ_ZEROS}; why='asymmetric; Marlin has no zero points'"
        for more in ([], ["--dry-run"]):
            if not wrong:
                run("relayout", path, out, "--overwrite", "--tensor", rule, *more)
                continue
            out.unlink(missing_ok=True)
            told = failure("relayout", path, out, "--tensor", rule, *more)
            assert told.endswith(" expects 7: asymmetric; Marlin has no zero points")
            assert "l.qzeros" in told and "u4[4,32] as gptq:qzeros: the element at (2, 9) is 8" in told
            assert not out.exists()
