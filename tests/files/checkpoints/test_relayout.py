"""Whole models by rules: every tensor as a model in NumPy says, all else untouched, for every limit of memory."""

import json
import os
import re

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import route
from gpulayout.files.checkpoints.header import DTYPES, header_text, is_note_key, notes_of, plain_sides_of, read_contents
from gpulayout.files.errors import FileError
from tests.reference import tiled_numbers
from tests.support.effort import ALL
from tests.support.model_files import contents, entry, judged, model, raw

PLAIN = [name for name, each in DTYPES.items() if each is not None and name != "F4"]


def metadata_of(path):
    with open(path, "rb") as stream:
        return read_contents(str(path), stream).metadata


def relayout(folder, data, rules, **options):
    """The tensors of the new file, which the format's own library must read in the same way."""
    (folder / "a.safetensors").write_bytes(data)
    done = gl.relayout_file(
        folder / "a.safetensors", folder / "b.safetensors", tensors=rules, overwrite=True, **options
    )
    found = contents(folder / "b.safetensors")
    try:
        import safetensors  # noqa: F401
    except ImportError:
        return found, done
    assert judged((folder / "b.safetensors").read_bytes()) == found
    return found, done


def plain_side(metadata, name):
    """What a file says of a plain tensor, whose type has the format's name."""
    said = json.loads(plain_sides_of(metadata)[name])
    names = {each.dtype.name: name for name, each in DTYPES.items() if each is not None}
    return said | {"dtype": names[said["dtype"]]}


# ---- the model: what each kind of rule does, in NumPy ---------------------------------------------------------


def permuted(random, array):
    order = random.permutation(array.ndim)
    names = "abcdefg"[: array.ndim]
    text = f"{' '.join(names)} -> {' '.join(names[axis] for axis in order)}"
    return text, array.transpose(order), None


def joined(random, array):
    order = random.permutation(array.ndim)
    names = "abcdefg"[: array.ndim]
    cut = int(random.integers(0, array.ndim + 1))
    new = [names[axis] for axis in order]
    after = f"({' '.join(new[:cut])}) 1 {' '.join(new[cut:])}" if cut else f"1 {' '.join(new)}"
    sizes = [array.shape[axis] for axis in order]
    shape = (int(np.prod(sizes[:cut], dtype=int)), 1, *sizes[cut:]) if cut else (1, *sizes)
    return f"{' '.join(names)} -> {after}", array.transpose(order).reshape(shape), None


def tiled(random, array):
    order = tuple(int(dim) for dim in random.permutation(array.ndim))
    tile = tuple(int(size) for size in random.integers(1, 5, min(array.ndim, 2)))
    text = "{" + ",".join(map(str, order)) + (f":T({','.join(map(str, tile))})" if tile else "") + "}"
    numbers = np.array(tiled_numbers(array.shape, order, tiles=(tile,) if tile else ()), dtype=np.int64)
    flat = np.append(array.reshape(-1), np.zeros(1, array.dtype))
    return text, flat[numbers], "layout"


def what_becomes(random, name, dtype, array):
    """A rule and what it makes of a tensor: (rule or None, dtype, array)."""
    kind = int(random.integers(0, 7))
    if kind == 0:
        return None, array
    if kind == 1:
        return {"name": f"new.{name}"}, array
    if kind == 2 and dtype in ("F32", "BF16", "F16", "F64"):
        to, numpy_type = [("bf16", ml_dtypes.bfloat16), ("f32", np.float32), ("f16", np.float16)][random.integers(0, 3)]
        with np.errstate(all="ignore"):
            text, after, _ = permuted(random, array)
            return {"to": text, "dtype": to, "name": f"new.{name}"}, after.astype(numpy_type)
    text, after, how = (permuted, joined, tiled)[kind % 3](random, array)
    return {"to": text} | ({"how": how} if how else {}), after


@pytest.mark.parametrize("seed", range(400 if ALL else 60))
def test_every_tensor_becomes_what_its_rule_says(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(route, "LEAST_RUN", 0)  # short runs are accepted: this is about many small blocks
    random = np.random.default_rng([11, seed])
    given, arrays, elements = {}, {}, []
    for number in range(int(random.integers(1, 8))):
        dtype = PLAIN[int(random.integers(0, len(PLAIN)))]
        shape = tuple(int(size) for size in random.integers(0 if number == 3 else 1, 9, int(random.integers(0, 5))))
        values = random.integers(0, 2 if dtype == "BOOL" else 100, shape).astype(DTYPES[dtype].dtype)
        given[f"layer.{number}"] = dtype, shape
        arrays[f"layer.{number}"] = values
        elements.append(values.tobytes())
    data = model(given, {"format": "np", "other": "kept"})
    data = data[: -sum(map(len, elements)) or None] + b"".join(elements)

    rules, expected, noted = {}, {}, set()
    for name, array in arrays.items():
        rule, after = what_becomes(random, name, given[name][0], array)
        if rule is not None:
            how = rule.pop("how", None)
            rules[re.escape(name)] = rule
            new = rule.get("name", name)
            expected[new] = after.tobytes()
            noted |= {new} if how else set()
        else:
            expected[name] = after.tobytes()
    memory = (None, "96M", 4096)[seed % 3]
    found, done = relayout(tmp_path, data, rules, max_bytes=memory)
    assert found.keys() == expected.keys()
    for name, (_, _, stored) in found.items():
        assert stored == expected[name], (seed, name, rules)
    assert {*notes_of(metadata_of(tmp_path / "b.safetensors"))} <= noted
    assert done.bytes_written == sum(map(len, expected.values()))

    # other metadata is kept, the header is as the library writes it, and every note leads back to the array
    kept = metadata_of(tmp_path / "b.safetensors")
    assert {key: text for key, text in kept.items() if not is_note_key(key)} == {"format": "np", "other": "kept"}
    with open(tmp_path / "b.safetensors", "rb") as stream:
        read = read_contents("b", stream)
    assert (tmp_path / "b.safetensors").read_bytes()[: read.start] == header_text(kept, read.tensors)
    for name, note in notes_of(kept).items():
        shape = gl.parse_shape(note)
        buffer = np.frombuffer(found[name][2], shape.buffer_dtype)
        old = name.removeprefix("new.")
        assert gl.unpack(buffer, shape).tobytes() == arrays[old].tobytes()
        said = {"dtype": given[old][0], "sizes": [*given[old][1]]}
        assert plain_side(kept, name) == said
    assert plain_sides_of(kept).keys() == notes_of(kept).keys()


def test_a_pattern_gives_the_header_the_shape_of_the_result(tmp_path):
    data = model({"q": ("F32", (6, 4, 5)), "k": ("BF16", (2, 3, 1, 7))}, None)
    found, done = relayout(tmp_path, data, {"q": "i h d -> (h d) i", "k": "h w 1 o -> o 1 h w; dtype=f32"})
    assert [found[name][:2] for name in "qk"] == [("F32", (20, 6)), ("F32", (7, 1, 2, 3))]
    assert [each[2:5] for each in done.tensors] == [
        ("F32[6,4,5]", "F32[20,6]", True),
        ("BF16[2,3,1,7]", "F32[7,1,2,3]", True),
    ]


def test_a_split_axis_takes_its_size_from_the_pattern(tmp_path):
    data = model({"dense": ("F32", (2 * 3 * 5, 4))}, None)
    found, _ = relayout(tmp_path, data, {"dense": "(h=2 w=3 c) o -> o (c h w)"})
    given = np.frombuffer(data[-480:], np.float32).reshape(2, 3, 5, 4)
    assert found["dense"] == ("F32", (4, 30), given.transpose(3, 2, 0, 1).tobytes())


def test_notes_are_followed_read_again_and_dropped(tmp_path):
    """Tiles, then other tiles, then an array: with no word about the layout before."""
    data = model({"w": ("F32", (20, 30)), "b": ("F32", (3,))}, {"a": "b"})
    first, _ = relayout(tmp_path, data, {"w": "{1,0:T(8,128)}"})
    assert first["w"][:2] == ("U8", (24 * 128 * 4,))
    side = '{"dtype":"float32","sizes":[20,30]}'
    notes = {"gpulayout:w": "f32[20,30]{1,0:T(8,128)}", "gpulayout-plain:w": side}
    assert metadata_of(tmp_path / "b.safetensors") == {"a": "b"} | notes
    second, _ = relayout(tmp_path, (tmp_path / "b.safetensors").read_bytes(), {"w": "{0,1}; name=v"})
    notes = {"gpulayout:v": "f32[20,30]{0,1}", "gpulayout-plain:v": side}
    assert metadata_of(tmp_path / "b.safetensors") == {"a": "b"} | notes
    third, _ = relayout(tmp_path, (tmp_path / "b.safetensors").read_bytes(), {"v": "C; name=w"})
    assert third["w"] == ("F32", (20, 30), data[-2412:-12]) and metadata_of(tmp_path / "b.safetensors") == {"a": "b"}


def test_rules_for_a_rank_know_the_rank_in_a_note(tmp_path):
    relayout(tmp_path, model({"w": ("F32", (20, 30))}, None), {"w": "{0,1}"})
    again, _ = relayout(tmp_path, (tmp_path / "b.safetensors").read_bytes(), {"w": "a b -> b a; rank=2"})
    assert again["w"][:2] == ("F32", (30, 20))


def test_a_note_goes_with_a_tensor_that_is_only_renamed_and_away_with_one_that_is_left_out(tmp_path):
    data = model({"w": ("F32", (20, 30)), "x": ("F32", (20, 30))}, None)
    relayout(tmp_path, data, {".": "{0,1}"})
    noted = (tmp_path / "b.safetensors").read_bytes()
    relayout(tmp_path, noted, {"w": "name=new", "x": "drop"})
    assert metadata_of(tmp_path / "b.safetensors") == {
        "gpulayout:new": "f32[20,30]{0,1}",
        "gpulayout-plain:new": '{"dtype":"float32","sizes":[20,30]}',
    }


@pytest.mark.parametrize(
    "note", ["f32[20,30", "f32[20,31]{0,1}", "f32[9223372036854775807]", "(f32[2])", "\x00", "x" * 9999]
)
def test_a_note_that_does_not_fit_is_refused_before_a_byte_is_written(tmp_path, note):
    data = model({"w": ("U8", (2400,))}, {"gpulayout:w": note})
    with pytest.raises(FileError, match="the note about tensor 'w'"):
        relayout(tmp_path, data, {"w": "C"})
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors"]


@pytest.mark.parametrize("rules", [{}, {"w": "keep"}, {"w": r"name=\g<0>2"}, {"w": "drop"}, {"w": "C"}, {"v": "C"}])
def test_a_note_that_lies_is_not_carried_on(tmp_path, rules):
    data = model({"w": ("U8", (25,)), "v": ("F32", (2, 3))}, {"gpulayout:w": "u8[24]{0}"})
    with pytest.raises(
        FileError, match="the note about tensor 'w' is 'u8.24..0.', a buffer of 24 bytes, but the tensor"
    ):
        relayout(tmp_path, data, rules)
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors"]


@pytest.mark.parametrize("note", ["u8[24]", "u8[25]{0}", ""])
@pytest.mark.parametrize("name", ["w", "other", ""])
def test_a_map_writes_no_notes(tmp_path, note, name):
    (tmp_path / "my.toml").write_text(f"metadata = {{ 'gpulayout:{name}' = '{note}', format = 'pt' }}")
    with pytest.raises(
        FileError, match=f"my.toml: metadata has 'gpulayout:{name}': notes about layouts follow from rules"
    ):
        relayout(tmp_path, model({"w": ("U8", (25,))}, None), tmp_path / "my.toml")
    assert not (tmp_path / "b.safetensors").exists()


def test_every_note_of_a_new_file_is_one_that_is_read_again(tmp_path, monkeypatch):
    """Whatever makes the notes: each is checked as a reader checks it, before a byte is written."""
    from gpulayout.files.checkpoints import changes

    stored = changes.stored_shape
    monkeypatch.setattr(changes, "stored_shape", lambda *shape: stored(*shape)._replace(note="f32[9]"))
    with pytest.raises(
        FileError, match="the note about tensor 'v' is 'f32.9.', a buffer of 36 bytes, but the tensor is"
    ):
        relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), {"w": "{0,1}; name=v"})
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors"]


def test_dtype_is_for_wide_floats_without_a_rule_of_their_own(tmp_path):
    names = ("F16", "BF16", "F32", "F64", "I32", "BOOL", "F8_E4M3", "F8_E8M0", "C64", "F4", "F6_E2M3")
    data = model(
        {name: (name, (8,)) for name in (*names, "own", "kept")[:11]} | {"own": ("F32", (4,)), "kept": ("F32", (4,))},
        None,
    )
    found, _ = relayout(tmp_path, data, {"own": {"dtype": "f16"}, "kept": "keep"}, dtype="bf16")
    expected = {name: "BF16" if name in ("F16", "F32", "F64") else name for name in names} | {
        "own": "F16",
        "kept": "F32",
    }
    assert {name: dtype for name, (dtype, _, _) in found.items()} == expected


def test_packed_elements_and_catalogue_names(tmp_path):
    data = model({"q": ("U8", (64, 128)), "s": ("U8", (200, 10)), "f": ("F4", (6, 4))}, None)
    codes = np.random.default_rng(1).integers(0, 16, (64, 128), np.uint8)
    data = data[: -(64 * 128 + 2000 + 12)] + codes.tobytes() + data[-2012:]
    rules = {"q": "marlin:weights; dtype=u4", "s": "cublas:block_scales", "f": "a b -> b a"}
    found, _ = relayout(tmp_path, data, rules)
    layout = gl.catalogue.find("marlin:weights")(64, 128)
    assert found["q"][2] == gl.pack(codes.astype(ml_dtypes.uint4), layout).tobytes()
    assert (
        found["q"][:2] == ("I32", (4, 256)) and found["s"][:2] == ("U8", (3072,)) and found["f"][:2] == ("F4", (4, 6))
    )
    unpacked = np.unpackbits(np.frombuffer(data[-12:], np.uint8), bitorder="little").reshape(6, 4, 4)
    turned = np.packbits(unpacked.transpose(1, 0, 2).reshape(-1), bitorder="little").tobytes()
    assert found["f"][2] == turned
    gl.relayout_file(tmp_path / "b.safetensors", tmp_path / "c.safetensors", unpack=True)
    back = contents(tmp_path / "c.safetensors")
    assert back["q"] == ("U8", (64, 128), codes.tobytes()) and back["s"] == contents(tmp_path / "a.safetensors")["s"]


def test_a_tensor_without_elements_may_become_padding(tmp_path):
    found, _ = relayout(tmp_path, model({"w": ("F32", (0, 3))}, None), {"w": "{1,0:PD(4,3)PV(one)}"})
    assert found["w"] == ("U8", (48,), np.ones(12, np.float32).tobytes())


def test_an_odd_number_of_packed_floats_is_bytes_with_a_note(tmp_path):
    """The format's F4 fills whole bytes."""
    rule = {"w": "{1,0:E(4)}; dtype=f4e2m1fn"}
    odd, _ = relayout(tmp_path, model({"w": ("F32", (3, 5))}, None), rule)
    assert odd["w"][:2] == ("U8", (8,)) and metadata_of(tmp_path / "b.safetensors") == {
        "gpulayout:w": "f4e2m1fn[3,5]{1,0:E(4)}",
        "gpulayout-plain:w": '{"dtype":"uint8","sizes":[3,5]}',
    }
    even, _ = relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), rule)
    assert even["w"][:2] == ("F4", (3, 4)) and metadata_of(tmp_path / "b.safetensors") is None


@pytest.mark.parametrize("rule, note", [("a b -> b a", "u4[6,4]{1,0:E(4,big)}"), ("{0,1:E(4)}", "u4[4,6]{0,1:E(4)}")])
def test_a_note_says_the_bit_order(tmp_path, rule, note):
    """A pattern keeps it; a layout says its own."""
    before = "u4[4,6]{1,0:E(4,big)}"
    data = model({"w": ("U8", (12,))}, {"gpulayout:w": before})
    found, _ = relayout(tmp_path, data, {"w": rule})
    assert metadata_of(tmp_path / "b.safetensors") == {"gpulayout:w": note}
    source, result = (np.frombuffer(each, np.uint8) for each in (data[-12:], found["w"][2]))
    turned = gl.unpack(result, note).view(np.uint8)
    elements = np.stack([source >> 4, source & 15], 1).reshape(4, 6)  # the first in the high bits
    assert turned.tolist() == (elements.T if "->" in rule else elements).tolist()


def test_six_bit_elements_are_copied_and_nothing_else(tmp_path):
    data = model({"w": ("F6_E2M3", (4, 4))}, None)
    found, _ = relayout(tmp_path, data, {"w": "name=v"})
    assert found["v"] == ("F6_E2M3", (4, 4), data[-12:])
    with pytest.raises(gl.LayoutError, match="elements of 6 bits can only be copied"):
        relayout(tmp_path, data, {"w": "a b -> b a"})


@pytest.mark.parametrize(
    "rules, options, message",
    [
        ({"w": "a b -> b a", ".": "C"}, {}, "tensor 'w' fits 2 rules: the rule 'w' and the rule '.'"),
        ({"w": {"to": ["a b -> b a", "x y -> (x y)"]}}, {}, "the rule 'w' fits in 2 ways: tensor 'w' is F32[3,4]"),
        ({"w": {"to": ["a -> a", "x y z -> (x y z)"]}}, {}, "none of the patterns"),
        (
            {"w": "a b c -> c b a"},
            {},
            "does not fit: tensor 'w' is F32[3,4], but pattern 'a b c -> c b a' names 3 axes",
        ),
        ({"w": "(a=5 b) c -> a b c"}, {}, "tensor 'w', F32[3,4]: "),
        ({"w": "{0,1,2}"}, {}, "tensor 'w', F32[3,4]: "),
        ({"w": "f32[3,5]"}, {}, "tensor 'w', F32[3,4]: "),
        ({"w": "name=v"}, {}, "tensors 'v' and 'w' would both be called 'v'"),
        ({}, {"rename": {"[vw]": "x"}}, "tensors 'v' and 'w' would both be called 'x'"),
        ({"w": "name=\ud800"}, {}, "tensor 'w' cannot be called '\\ud800': it has half a character"),
        (
            {"w": "name=__metadata__"},
            {},
            "tensor 'w' cannot be called '__metadata__': the format keeps",
        ),
        ({"nothing": "C"}, {}, "the rule 'nothing' fits no tensor of "),
        (
            {"w": "C; rank=3"},
            {},
            "tensors of these names have another type or rank, belong to another rule, or are of another kind",
        ),
        ({"(": "C"}, {}, "is not a regular expression"),
        ({"w": r"name=\2"}, {}, "does not fit the regular expression"),
        ({"w": ""}, {}, "does not say what becomes of its tensors"),
        ({"w": "keep; drop"}, {}, "says keep, and something else"),
        ({"w": {"two": "C"}}, {}, "has the key 'two': did you mean 'to'?"),
        ({"w": "x y z"}, {}, "the rule 'w': "),
        ({"w": "C; F"}, {}, "has 2 layouts, 'C' and 'F': only patterns"),
        ({"w": "dtyp=bf16"}, {}, "has the part 'dtyp=bf16', which is no key of a rule: did you mean 'dtype'?"),
        ({"w": "C; Keep"}, {}, "has the part 'Keep', which is no key of a rule: did you mean 'keep'?"),
        ({"w": "C; size = 2"}, {}, "which is no key of a rule: did you mean 'sizes'?"),
        ({"w": "C; qqq = 2"}, {}, "which is no key of a rule: the keys are to, from, as, dtype, "),
        ({"w": "shard=0/2; dim=0"}, {}, "has the part 'dim=0', which is no key of a rule: did you mean 'along'?"),
        ({"w": {"scale": 2, "zeros": 8}}, {}, "has the key 'zeros': did you mean 'zero_point'?"),
        ({"w": "only=F32"}, {}, "without quotes, the shell ends a rule at its first ';'"),
        ({"w": "from=f4e2m1"}, {}, "is not what a tensor is: did you mean 'f4e2m1fn'?"),
        ({"w": {"to": "a b -> b a; dtype=f16"}}, {}, "has several parts: each is a key of its own"),
        ({"w": "C; scale=1,x"}, {}, "scale '1,x' is not a number"),
        ({"w": "dtype=f33"}, {}, "element type 'f33'"),
        ("flax-to-torch", {}, "the map flax-to-torch has no rule for tensor 'v'"),
        ("torch-to-nothing", {}, "'torch-to-nothing' is not a ready map"),
        (["w"], {}, "'w' is not a ready map"),
        (["=C"], {}, "is not REGEX=WHAT"),
    ],
)
def test_what_cannot_be_done_is_said_before_a_byte_is_written(tmp_path, rules, options, message):
    data = model({"v": ("U8", (2,)), "w": ("F32", (3, 4))}, None)
    with pytest.raises((gl.LayoutError, FileError)) as caught:
        relayout(tmp_path, data, rules, **options)
    assert message in str(caught.value), str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors"]


WORDS = ["moe", "x y z", "nchw", "torch:channels", "i o > o i", "machete", "u8", "name"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("way", ["text", "mapping", "list", "TOML"])
def test_a_word_that_is_no_target_is_not_called_an_element_type(tmp_path, word, way):
    rules = {"text": {"w": word}, "mapping": {"w": {"to": word}}, "list": [f"w={word}"], "TOML": tmp_path / "my.toml"}
    (tmp_path / "my.toml").write_text(f"[[tensor]]\nmatch = 'w'\nto = '{word}'\n")
    with pytest.raises((gl.LayoutError, FileError)) as caught:
        relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), rules[way])
    said = str(caught.value)
    assert f"'{word}' is neither a layout, such as " in said and "nor a pattern, such as" in said
    assert "nor the name of one" in said and "XLA" not in said and not (tmp_path / "b.safetensors").exists()


@pytest.mark.parametrize(
    "rules, options, message",
    [
        (5, {}, "tensors is 5: it takes a mapping"),
        (gl.Layout((0, 1)), {}, "tensors is Layout"),
        ([5], {}, "tensors has 5: it takes maps, mappings and texts"),
        ({"w": 5}, {}, "the rule 'w' is 5, not text"),
        ({"w": {"to": 5}}, {}, "the rule 'w': to is 5, not text"),
        ({}, {"rename": "w=z"}, "rename is 'w=z': it takes a mapping"),
        ({}, {"dtype": "s8"}, "dtype s8 for all floating-point tensors"),
        ({}, {"dtype": 5}, "element type 5"),
    ],
)
def test_values_of_other_types_are_named(tmp_path, rules, options, message):
    with pytest.raises(TypeError, match=message):
        relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), rules, **options)
    assert os.listdir(tmp_path) == ["a.safetensors"]


@pytest.mark.parametrize("to", [gl.Layout((0, 1)), gl.Shape("f32", (3, 4), gl.Layout((0, 1))), "f32[3,4]{0,1}", "F"])
def test_layouts_and_shapes_are_targets_as_everywhere(tmp_path, to):
    relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), {"w": to})
    assert notes_of(metadata_of(tmp_path / "b.safetensors")) == {"w": "f32[3,4]{0,1}"}


def test_arguments_of_one_array_are_refused_with_tensors(tmp_path):
    data = model({"w": ("F32", (3, 4))}, None)
    for options in ({"scale": 2}, {"target": "F"}, {"source": "f32[2]"}, {"raw": True}, {"scratch": tmp_path}):
        with pytest.raises(TypeError, match=f"{next(iter(options))} is for one array"):
            relayout(tmp_path, data, {}, **options)
    for options in ({"allow_unmatched": True}, {"rename": {"a": "b"}}, {"assume": {"a": "conv"}}):
        with pytest.raises(TypeError, match=f"{next(iter(options))} is for a model, whose name ends in .safetensors"):
            gl.relayout_file(tmp_path / "a.npy", tmp_path / "b.npy", **options)


def test_rules_may_fit_nothing_if_that_is_allowed(tmp_path):
    data = model({"w": ("F32", (3, 4))}, None)
    found, _ = relayout(tmp_path, data, [{"nothing": "C"}, "flax-to-torch"], allow_unmatched=True)
    assert found == contents(tmp_path / "a.safetensors")


def test_a_rule_fits_whole_names_only(tmp_path):
    data = model({"w": ("F32", (3, 4)), "w2": ("F32", (3, 4)), "2w": ("F32", (3, 4))}, None)
    found, _ = relayout(tmp_path, data, {"w": "a b -> b a"})
    assert {name: each[1] for name, each in found.items()} == {"w": (4, 3), "w2": (3, 4), "2w": (3, 4)}


def test_the_first_set_with_a_rule_counts(tmp_path):
    data = model({"d.kernel": ("F32", (3, 4)), "e.kernel": ("F32", (3, 4)), "d.bias": ("F32", (4,))}, None)
    found, _ = relayout(
        tmp_path, data, [{r"e\.kernel": "keep; name=as_it_is"}, "flax-to-torch"], rename={"^d": "first"}
    )
    assert {name: each[1] for name, each in found.items()} == {
        "first.weight": (4, 3),
        "as_it_is": (3, 4),
        "first.bias": (4,),
    }


def test_maps_say_whose_file_it_is(tmp_path):
    """Libraries ask for it: transformers loads no file whose metadata has no format."""
    data = model({"d.kernel": ("F32", (3, 4))}, {"format": "flax", "other": "kept"})
    relayout(tmp_path, data, "flax-to-torch")
    assert metadata_of(tmp_path / "b.safetensors") == {"format": "pt", "other": "kept"}
    (tmp_path / "my.toml").write_text("metadata = { format = 'own' }")
    relayout(tmp_path, data, [tmp_path / "my.toml", "flax-to-torch"])
    assert metadata_of(tmp_path / "b.safetensors") == {"format": "own", "other": "kept"}


def test_maps_are_read_from_files(tmp_path):
    (tmp_path / "my.toml").write_text(
        "strict = true\n[[tensor]]\nmatch = '(.)'\nto = ['a b -> b a', 'a -> a']\nname = '\\1\\1'\n"
    )
    data = model({"w": ("F32", (3, 4)), "v": ("U8", (2,))}, None)
    found, _ = relayout(tmp_path, data, tmp_path / "my.toml")
    assert {name: each[1] for name, each in found.items()} == {"ww": (4, 3), "vv": (2,)}


@pytest.mark.parametrize(
    "text, message",
    [
        ("tensor = 1", "the key 'tensor' must be a list"),
        ("other = 1", "the key 'other' is none of strict, optional, rename, metadata, reads, tensor"),
        ("[[tensor]]\nto = 'C'", "tensor 1 has no text called match"),
        ("[[tensor]]\nmatch = 'a'\nto = 'C'\nwhat = 1", "rule 1 of .* has the key 'what'"),
        ("reads = ['torch']", "reads is .'torch'., not a list of pt, flax, mlx, keras, tf"),
        ("reads = 'pt'", "the key 'reads' must be a list"),
        ("metadata = { a = 1 }", "metadata is {'a': 1}, not a table of texts"),
        ("rename = [['a']]", "rename is not a list of pairs"),
        ("[[tensor]\n", "not rules in TOML: "),
        ("[[tensor]]\nmatch = '(.*)'\nname = \"\\.w\"", "write expressions and names in single quotes"),
        ("\x00", "not rules in TOML: "),
        ("a = " + "[" * 5000, "not rules in TOML: "),
    ],
)
def test_maps_that_are_none_are_refused(tmp_path, text, message):
    (tmp_path / "my.toml").write_text(text)
    with pytest.raises((FileError, gl.LayoutError), match=message):
        relayout(tmp_path, model({"w": ("F32", (3, 4))}, None), tmp_path / "my.toml")


# ---- new names -----------------------------------------------------------------------------------------------

WAYS = ["name", "rename", "map", "rename of a map"]


@pytest.mark.parametrize(
    "regex, template, new",
    [
        (r"(l)\.(.*)", r"\2.\1", "weight.l"),
        (r"(?P<layer>l)\.(.*)", r"\g<layer>\g<2>", "lweight"),
        (r"l\.weight", r"\g<0>.new", "l.weight.new"),
        (r"(x)?l\.weight", r"a\1b", "ab"),
        (r"l\.weight", r"a\\1", r"a\1"),
        ("()" * 11 + r"(l).*", r"\g<12>\g<1>0", "l0"),
        (r"l\.weight", "g<0> {x} $1 é", "g<0> {x} $1 é"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_templates_of_names_have_groups_and_else_stand_for_themselves(tmp_path, regex, template, new, way):
    assert renamed(tmp_path, way, regex, template) == [new]


def renamed(folder, way, regex, template):
    """The names of the new file, by one of the ways to write a template."""
    rules, options = {}, {}
    if way == "name":
        rules = {regex: {"name": template}}
    elif way == "rename":
        options = {"rename": {regex: template}}
    else:
        pair = f"match = {json.dumps(regex)}\nname = {json.dumps(template)}"
        text = f"[[tensor]]\n{pair}" if way == "map" else f"rename = [[{json.dumps(regex)}, {json.dumps(template)}]]"
        (folder / "my.toml").write_text(text)
        rules = folder / "my.toml"
    found, _ = relayout(folder, model({"l.weight": ("U8", (3,))}, None), rules, **options)
    return [*found]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "template, said",
    [
        (r"\0", r"\g<0> for all that was found"),
        (r"a\00", r"\g<0> for all that was found"),
        (r"\101", r"write \g<101>, or \g<1> and then the rest"),
        (r"\10", r"write \g<10>, or \g<1> and then the rest"),
        (r"\n", r"\n, which means nothing: write \1 or \g<name> for a group, \\ for a backslash"),
        (r"\t", "means nothing"),
        (r"\x41", "means nothing"),
        (r"\.", "means nothing"),
        ("\\", "means nothing"),
        (r"\g", r"\g without the name of a group"),
        (r"\g<1", r"\g without the name of a group"),
        (r"\2", "there is no group '2'"),
        (r"\g<2>", "there is no group '2'"),
        (r"\g<>", "there is no group ''"),
        (r"\g<-1>", "there is no group '-1'"),
        (r"\g<01>", "there is no group '01'"),
        (r"\g<name>", "which has group 1 and the names all: there is no group 'name'"),
        ("a\0b", "has the control character '\\x00'"),
        ("a\nb", "has the control character '\\n'"),
        ("a\x9bb", "has the control character '\\x9b'"),
    ],
)
def test_other_templates_are_refused_with_what_to_write(tmp_path, way, template, said):
    with pytest.raises((gl.LayoutError, FileError)) as caught:
        renamed(tmp_path, way, "(?P<all>.*)", template)
    text = str(caught.value)
    assert said in text and "a.safetensors" not in text, text
    assert not (tmp_path / "b.safetensors").exists()


def test_names_that_were_there_before_may_have_control_characters(tmp_path):
    found, _ = relayout(tmp_path, model({"a\nb": ("U8", (3,))}, None), {"(?s)(.*)": r"name=new.\1"})
    assert [*found] == ["new.a\nb"]


# ---- shards --------------------------------------------------------------------------------------------------


def sharded(folder, parts, **extra):
    """Shards, and their index."""
    folder.mkdir(exist_ok=True)
    places = {}
    for number, tensors in enumerate(parts, 1):
        name = f"model-{number:05}-of-{len(parts):05}.safetensors"
        (folder / name).write_bytes(model(tensors, {"format": "pt"}, seed=number))
        places |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 1, "more": "kept"}, "weight_map": places, **extra}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder / "model.safetensors.index.json"


PARTS = [{"a": ("F32", (3, 4)), "b": ("BF16", (5,))}, {"c": ("F32", (6, 2))}, {"d": ("U8", (0,))}]


def test_shards_keep_their_tensors_and_the_index_is_made_anew(tmp_path):
    index = sharded(tmp_path / "old", PARTS)
    (tmp_path / "new").mkdir()
    out = tmp_path / "new" / "model.safetensors.index.json"
    done = gl.relayout_file(index, out, tensors={"[ac]": r"x y -> y x; dtype=bf16; name=\g<0>.w"})
    found = json.loads(out.read_text())
    assert found["metadata"] == {"total_size": 24 + 10 + 24, "more": "kept"}
    assert found["weight_map"] == {
        "a.w": "model-00001-of-00003.safetensors",
        "b": "model-00001-of-00003.safetensors",
        "c.w": "model-00002-of-00003.safetensors",
        "d": "model-00003-of-00003.safetensors",
    }
    assert sorted(os.listdir(tmp_path / "new")) == sorted({*found["weight_map"].values(), out.name})
    assert contents(tmp_path / "new" / "model-00001-of-00003.safetensors")["a.w"][:2] == ("BF16", (4, 3))
    assert len(done.tensors) == 4 and done.bytes_written == 58
    with pytest.raises(FileExistsError):
        gl.relayout_file(index, out, tensors={})
    gl.relayout_file(index, out, tensors={}, overwrite=True)
    assert json.loads(out.read_text())["weight_map"] == json.loads(index.read_text())["weight_map"]


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_index_never_stands_beside_shards_of_another_model(tmp_path, monkeypatch, overwrite):
    """If the last step fails, all is as it was, and meanwhile no index names shards of another model."""
    index = sharded(tmp_path / "old", PARTS)
    (tmp_path / "new").mkdir()
    out = sharded(tmp_path / "new", PARTS) if overwrite else tmp_path / "new" / index.name
    before = {each.name: each.read_bytes() for each in (tmp_path / "new").iterdir()}
    name = "replace" if overwrite else "link"
    place, names = getattr(os, name), []

    def failing(source, target, **options):
        names.append(str(target))
        assert not out.exists()
        if len(names) == 2:
            raise FileExistsError(17, "a file is there")
        place(source, target, **options)

    monkeypatch.setattr(os, name, failing)
    with pytest.raises(OSError, match="a file is there|the file exists"):
        gl.relayout_file(index, out, tensors={}, overwrite=overwrite)
    assert {each.name: each.read_bytes() for each in (tmp_path / "new").iterdir()} == before
    assert out.exists() == overwrite and len(names) >= 2


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda found: found.pop("weight_map"), "the index has no weight_map"),
        (
            lambda found: found["weight_map"].pop("a"),
            "tensor 'a' is in model-00001-of-00003.safetensors, but not in the index",
        ),
        (
            lambda found: found["weight_map"].update(e="model-00001-of-00003.safetensors"),
            "the index says that tensor 'e' is in",
        ),
        (lambda found: found["weight_map"].update(a="model-00002-of-00003.safetensors"), "but the index says"),
        (
            lambda found: found["weight_map"].update(a="../x.safetensors"),
            "is not the name of a .safetensors file beside",
        ),
        (lambda found: found["weight_map"].update(a="/etc/passwd"), "is not the name of a .safetensors file beside"),
        (lambda found: found["weight_map"].update(a=5), "the index has no weight_map"),
        (lambda found: found.update(metadata=[]), "the metadata of the index is"),
        (lambda found: found["weight_map"].update(a="x.safetensors"), "x.safetensors"),
    ],
)
def test_an_index_that_does_not_fit_its_shards_is_refused(tmp_path, change, message):
    index = sharded(tmp_path / "old", PARTS)
    found = json.loads(index.read_text())
    change(found)
    index.write_text(json.dumps(found))
    (tmp_path / "new").mkdir()
    with pytest.raises((FileError, OSError)) as caught:
        gl.relayout_file(index, tmp_path / "new" / index.name, tensors={})
    assert message in str(caught.value) and os.listdir(tmp_path / "new") == []


def test_outputs_are_of_the_same_kind_and_never_the_input(tmp_path):
    index = sharded(tmp_path / "old", PARTS)
    shard = tmp_path / "old" / "model-00001-of-00003.safetensors"
    for source, out, message in (
        (index, tmp_path / "b.other", "has shards, and the result has shards or is one file"),
        (shard, tmp_path / "b.safetensors.index.json", "one file, and so is the result"),
        (shard, tmp_path / "b.npy", "a model does not become one array: write model.safetensors"),
        (shard, shard, "input and output are the same file"),
        (index, index, "input and output are the same file"),
        (index, tmp_path / "none" / index.name, "there is no folder"),
        (index, tmp_path / "old" / "other.safetensors.index.json", "input and output are the same file"),
    ):
        with pytest.raises(FileError, match=message):
            gl.relayout_file(source, out, tensors={}, overwrite=True)


@pytest.mark.parametrize("name", ["m.bin", "m.pt", "m.pth", "m.ckpt", "m.h5", "m.keras", "m.msgpack", "m.npz", "m.npy"])
def test_other_formats_get_the_way_there(tmp_path, name):
    (tmp_path / name).write_bytes(b"0" * 100)
    with pytest.raises(FileError, match="this is .*safetensors"):
        gl.relayout_file(tmp_path / name, tmp_path / "b.safetensors", tensors={})


def test_models_without_tensors_and_unusual_names(tmp_path):
    found, done = relayout(tmp_path, raw({}), {})
    assert found == {} and done.tensors == ()
    names = {
        "": ("U8", (1,)),
        "a\nb": ("U8", (1,)),
        "é/ü": ("U8", (1,)),
        "x" * 5000: ("U8", (1,)),
        "__metadata": ("U8", (1,)),
    }
    found, _ = relayout(tmp_path, model(names, {}), {})
    assert found.keys() == names.keys() and metadata_of(tmp_path / "b.safetensors") == {}
    assert raw({"a": entry("U8", [1], 0, 1)}, b"1")


RENAMES = [  # of d.kernel, d.bias and e, with a rule that names e "f"; of several, the last changes nothing
    [("^x", "y")],
    [("d", "e"), ("d", "f")],
    [("kernel", "kernel")],
    [("(.*)", r"\1")],
    [("^e$", "g")],
    [(r"\bbias", "other"), ("bias", "b")],
]


@pytest.mark.parametrize("rules", [[{"e": "name=f; keep"}], [{"e": "name=f; keep"}, "flax-to-torch"]])
@pytest.mark.parametrize("rename", RENAMES)
def test_a_renaming_that_changes_no_name_is_an_error(tmp_path, rename, rules):
    data = model({"d.kernel": ("F32", (3, 4)), "d.bias": ("F32", (4,)), "e": ("F32", (4,))}, None)
    if rules[1:] and rename[0][0] in ("^x", "kernel"):  # names by the map, which renames too
        rename = [(rename[0][0].replace("kernel", "weight"), rename[0][1].replace("kernel", "weight"))]
    with pytest.raises(gl.LayoutError, match="^rename of .* changes no name of .*a.safetensors: ") as caught:
        relayout(tmp_path, data, rules, rename=rename)
    assert repr(rename[-1][0]) in str(caught.value) and not (tmp_path / "b.safetensors").exists()
    relayout(tmp_path, data, rules, rename=rename, allow_unmatched=True)
    relayout(tmp_path, data, rules, rename=rename[:-1])


def test_renamings_of_a_map_may_change_nothing(tmp_path):
    (tmp_path / "my.toml").write_text("rename = [['x', 'y']]")
    relayout(tmp_path, model({"d": ("F32", (3, 4))}, None), [tmp_path / "my.toml"])


@pytest.mark.parametrize("pattern", ["h w -> w h", "(h h2=1) w -> w (h h2)"])
@pytest.mark.parametrize("name, numbers", [("scale", [[1.0], [10.0]]), ("shift", [[1.0], [10.0]])])
def test_numbers_along_an_axis_that_is_read_in_reverse_order_are_refused(tmp_path, pattern, name, numbers):
    """They would meet the elements of other rows."""
    given = model({"w": ("F32", (2, 3))}, None)
    rule = {"to": pattern, "flip": "h", name: numbers}
    with pytest.raises(
        gl.LayoutError, match=f"{name} has several numbers along an axis of flip 'h': change the elements"
    ):
        relayout(tmp_path, given, {"w": rule})
    assert not (tmp_path / "b.safetensors").exists()


@pytest.mark.parametrize("pattern", ["h w -> w h", "h w -> h w"])
@pytest.mark.parametrize("options", [{"scale": [1.0, 10.0, 100.0]}, {"scale": 3, "shift": -1}, {"dtype": "f16"}])
def test_a_flip_beside_arithmetic_is_the_arithmetic_and_then_the_flip(tmp_path, pattern, options):
    from safetensors.numpy import load_file, save_file

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_file({"w": values}, tmp_path / "a.safetensors")
    rule = {"to": pattern, "flip": "h", **options}
    gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={"w": rule})
    wanted = gl.transpose(gl.transpose(values, (0, 1), **options)[::-1], pattern)
    assert (load_file(tmp_path / "b.safetensors")["w"] == wanted).all()


def test_a_flip_that_is_written_in_reverse_order_keeps_the_numbers_of_its_rows(tmp_path):
    from safetensors.numpy import load_file, save_file

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_file({"w": values}, tmp_path / "a.safetensors")
    rule = {"to": "h w -> h w", "flip": "h", "scale": [[1.0], [10.0]]}
    gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={"w": rule})
    assert (load_file(tmp_path / "b.safetensors")["w"] == (values * [[1], [10]])[::-1]).all()


@pytest.mark.parametrize("key", ["drop", "keep", "divide", "optional"])
@pytest.mark.parametrize("value", ["no", "false", 0.5, 2, []], ids=str)
def test_switches_are_true_or_false(tmp_path, key, value):
    """`drop = "no"` left the tensor out."""
    given = model({"w": ("F32", (2, 3))}, None)
    text = repr(value).replace("'", '"')
    (tmp_path / "my.toml").write_text(f"[[tensor]]\nmatch = 'w'\nscale = 2\n{key} = {text}\n")
    ways = [tmp_path / "my.toml"] if key == "optional" else [tmp_path / "my.toml", {"w": {"scale": 2, key: value}}]
    for rules in ways:
        with pytest.raises((gl.LayoutError, FileError), match=f"{key} is .*: it must be true or false"):
            relayout(tmp_path, given, rules)
        assert not (tmp_path / "b.safetensors").exists()


@pytest.mark.parametrize("map", ["torch-to-flax", "torch-to-keras", "torch-to-mlx", "mlx-to-torch", "flax-to-torch"])
@pytest.mark.parametrize(
    "name", [".weight", "a..weight", ".0.weight", "/0/weight", "....", "", ".", "/kernel", "a.//kernel"]
)
@pytest.mark.parametrize("dimensions", [(3,), (2, 3), (2, 2, 2), (2, 2, 2, 2)], ids=len)
def test_names_with_empty_layers_are_answered(tmp_path, map, name, dimensions):
    try:
        relayout(tmp_path, model({name: ("F32", dimensions)}, None), map)
    except (gl.LayoutError, FileError):
        pass


def test_new_names_have_a_limit(tmp_path):
    given = model({"w": ("F32", (2, 3))}, None)
    with pytest.raises(gl.LayoutError, match=r"would be called 'ww.*a name of \d+ characters: 65536 is the limit"):
        relayout(tmp_path, given, {}, rename=[(".+", r"\g<0>\g<0>")] * 60)
