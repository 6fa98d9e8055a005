"""Tensors that a recipe adds, values that must go together, and folders with the files of all ranks."""

import json
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.rank_files import rank_files
from tests.support.command_line import run
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS

MADE = r"""# Ones beside each weight.
from = 'a model'
to = 'the model and more'
notes = ['Of 2 layers.']

[[reader]]
engine = 'Ours'
versions = '1'
function = 'ours.load'

[values]
layers = 'num_layers'
kind = '1'

[[requires]]
that = 'layers >= 2'
why = '${layers} layers (num_layers) are too few'

[[tensor]]
match = '(.*)\.weight'
name = '\1.w'

[[constant]]
match = '(.*\d)\.weight'
when = 'kind == 1'
names = ['\1.one', '{name}.other']
dtype = 'F32'
shape = []
value = 1

[[constant]]
match = '(.*)0\.weight'
names = ['\g<1>half']
dtype = 'bf16'
shape = [2, '${layers}']
value = 0.5
"""


@pytest.fixture
def model(tmp_path):
    from safetensors.numpy import save_file

    folder = tmp_path / "hub"
    folder.mkdir()
    tensors = {f"layer.{number}.weight": np.arange(6, dtype=np.float32) + number for number in range(2)}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_layers": 3}))
    (tmp_path / "made.toml").write_text(MADE)
    return tmp_path


def stored(path):
    """Type, shape and bytes of each tensor, as the format's library reads them."""
    import safetensors

    found = safetensors.deserialize(path.read_bytes())
    return {name: (each["dtype"], tuple(each["shape"]), bytes(each["data"])) for name, each in found}


def weights(**more):
    own = {f"layer.{number}.w": np.arange(6, dtype=np.float32) + number for number in range(2)}
    return {name: ("F32", (6,), array.tobytes()) for name, array in own.items()} | more


ONES = {
    f"layer.{number}.{last}": ("F32", (), np.float32(1).tobytes())
    for number in range(2)
    for last in ("one", "weight.other")
}
HALF = {"layer.half": ("BF16", (2, 3), b"\x00\x3f" * 6)}


def test_new_tensors_stand_beside_the_old_ones(model):
    done = gl.relayout_file(model / "hub", model / "new", recipe=model / "made.toml")
    assert stored(model / "new" / "model.safetensors") == weights(**ONES, **HALF)
    assert {each.new_name for each in done.tensors} == {*weights(), *ONES, *HALF}


def test_only_those_whose_condition_holds(model):
    gl.relayout_file(model / "hub", model / "new", recipe=f"{model / 'made.toml'}(kind=2)")
    assert stored(model / "new" / "model.safetensors") == weights(**HALF)


def test_they_are_renamed_and_stay_in_the_shard_of_their_tensor(model):
    from safetensors.numpy import load_file, save_file

    old = model / "hub" / "model.safetensors"
    tensors = load_file(old)
    old.unlink()
    places = {name: f"model-{number}.safetensors" for number, name in enumerate(sorted(tensors))}
    for name, file in places.items():
        save_file({name: tensors[name]}, model / "hub" / file)
    (model / "hub" / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    rename = {r"^layer\.": "l"}
    gl.relayout_file(model / "hub", model / "new", recipe=model / "made.toml", rename=rename)
    index = json.loads((model / "new" / "model.safetensors.index.json").read_text())
    for number in range(2):
        found = stored(model / "new" / f"model-{number}.safetensors")
        assert {name for name, file in index["weight_map"].items() if file == f"model-{number}.safetensors"} == {*found}
        assert found[f"l{number}.one"] == ("F32", (), np.float32(1).tobytes())
    assert index["metadata"]["total_size"] == 2 * 24 + 4 * 4 + 12


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("value = 1\n", "values = 1\n", "constant 1 of the recipe .* has .*: the keys are match, names, dtype"),
        ("value = 1\n", "value = true\n", "dtype F32 and value True are not a floating-point type and a number"),
        ("dtype = 'F32'", "dtype = 'I32'", "dtype I32 and value 1 are not a floating-point type"),
        ("dtype = 'F32'", "dtype = 'F99'", "dtype: 'F99' is not one of BOOL"),
        ("shape = []", "shape = [0]", r"shape \[0\] is not a list of sizes"),
        ("shape = []", "shape = [1048576]", "has 4194304 bytes, and 1048576 is the limit"),
        ("match = '(.*\\d)\\.weight'", "match = 'x(.*)'", "constant 1 .* fits no tensor: the first one is 'layer.0"),
        ("'{name}.other'", "'layer.w'", "two pieces of tensor|would both be called"),
        ("'{name}.other'", "'{number}'", "names"),
        ("names = ['\\1.one', '{name}.other']", "names = 'a'", "names 'a' is not a list of names"),
        ("when = 'kind == 1'", "when = 1", "when is 1, not an expression"),
        ("that = 'layers >= 2'", "that = 'layers > 3'", r"the recipe .*: 3 layers \(num_layers\) are too few"),
        ("that = 'layers >= 2'", "that = 2", "requires has .*, not the texts that and why"),
        ("[[requires]]", "[[check]]", "a check is .*, not a table with match and why"),
        (
            "[[requires]]\nthat",
            "[[check]]\nmatch='.'\nrow",
            r"a check has 'row' .*: its keys are match, when, rows, only",
        ),
        ("[[requires]]\nthat = 'layers >= 2'", "[[check]]\nmatch='.'\nrows=2", "a check has 'rows' 2: its keys are"),
        (
            "[[requires]]\nthat = 'layers >= 2'",
            "[[check]]\nmatch='.'\nonly=[2]",
            r"only \[2\], which is not a list of t",
        ),
        (
            "[[requires]]\nthat = 'layers >= 2'",
            "[[check]]\nmatch='('",
            "check 1 of the recipe .* is not a regular expression",
        ),
        ("[[requires]]\nthat", "[[check]]\nmatch='.'\nrows", "check 1 of the recipe .*: rows is .*, not a whole num"),
        (
            "[[requires]]\nthat",
            "[[check]]\nmatch='.*'\nsame_as",
            r"model.safetensors: .*, and there is no tensor 'layers >",
        ),
        (
            "[[requires]]\nthat = 'layers >= 2'",
            "[[check]]\nmatch='.*'\nonly=[]",
            r"tensor 'layer.* is F32\[.*\]: 3 layers",
        ),
        (
            "[[requires]]\nthat = 'layers >= 2'",
            "[[check]]\nmatch='x'\nrequired=true",
            "no tensor has the name x: 3 layers",
        ),
        ("[[requires]]", "[[constant]]", "constant 1 of the recipe .* has that, why"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_written(model, old, new, problem):
    assert old in MADE
    (model / "made.toml").write_text(MADE.replace(old, new))
    with pytest.raises(ValueError, match=problem):
        gl.relayout_file(model / "hub", model / "new", recipe=model / "made.toml")
    assert not (model / "new").exists()


def test_the_command_shows_what_is_added_and_refused(model):
    shown = run("recipes", str(model / "made.toml")).output
    assert re.search(r"^refused +LAYERS layers \(num_layers\) are too few$", shown, re.MULTILINE)
    assert "value=0.5" in shown
    assert "new tensors, for each one whose whole name fits:" in shown


def test_files_of_ranks_come_in_the_order_of_their_numbers(tmp_path):
    names = [f"r{rank}p{part}.safetensors" for rank in range(11) for part in range(11)]
    for name in (*names, "r0p0.safetensors.x", "r1.safetensors"):
        (tmp_path / name).write_bytes(b"")
    found = rank_files(tmp_path, "r${rank}p${part}.safetensors")
    assert [[each.name for each in parts] for parts in found] == [
        names[11 * rank : 11 * rank + 11] for rank in range(11)
    ]
