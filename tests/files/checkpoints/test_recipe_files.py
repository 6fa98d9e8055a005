"""Recipes: what their files say, the values that fill them, what they want of config.json, and the new one."""

import json
import os
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.config import new_config, read_config
from gpulayout.files.checkpoints.constants import constant_of
from gpulayout.files.checkpoints.recipe_values import RecipeValues, UnknownName, evaluated
from gpulayout.files.checkpoints.recipes import read_recipe, recipes
from tests.support.command_line import failure, refusal, run
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS

RANKS = r"""# A part for each rank.
from = 'a model'
to = 'parts'
notes = ['Keep them together.']
output = 'rank${rank}.safetensors'

[[reader]]
engine = 'Ours'
versions = '1'
function = 'ours.load'

[values]
ranks = 'tp_size'
heads = ['heads', 'hidden_size // head_dim']
head_dim = ['head_dim', '4']

[expects.'quantization_config.bits']
is = [4, 8]
why = 'others cross bytes'

[expects.'model_type']
is = ['llama']
required = true

[config]
remove = ['tp_size']
set = { parts = '${ranks}', 'quantization_config.rows' = 'of ${heads} heads' }

[[tensor]]
match = '.*weight'
shard = '${rank}/${ranks}'
along = 0

[[tensor]]
match = '.*bias'
when = 'rank > 0'
drop = true
"""


@pytest.fixture
def model(tmp_path):
    """A folder as a hub has it, and the recipe above."""
    from safetensors.numpy import save_file

    folder = tmp_path / "hub"
    folder.mkdir()
    tensors = {"a.weight": np.arange(12, dtype=np.float32).reshape(6, 2), "a.bias": np.ones(3, np.float32)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "tp_size": 3, "hidden_size": 8}))
    (folder / "tokenizer.json").write_text("{}")
    (tmp_path / "ranks.toml").write_text(RANKS)
    return tmp_path


def written(path):
    from safetensors.numpy import load_file

    return load_file(path)


def test_a_recipe_makes_a_file_for_each_rank_and_a_new_config(model):
    done = gl.relayout_file(model / "hub", model / "new", recipe=str(model / "ranks.toml"))
    assert sorted(each.name for each in (model / "new").iterdir()) == [
        "config.json", "rank0.safetensors", "rank1.safetensors", "rank2.safetensors", "tokenizer.json",
    ]  # fmt: skip
    for rank in range(3):
        tensors = written(model / "new" / f"rank{rank}.safetensors")
        np.testing.assert_array_equal(tensors["a.weight"], np.arange(4 * rank, 4 * rank + 4).reshape(2, 2))
        assert ("a.bias" in tensors) == (rank == 0)
    config = json.loads((model / "new" / "config.json").read_text())
    assert config == {
        "model_type": "llama",
        "hidden_size": 8,
        "parts": 3,
        "quantization_config": {"rows": "of 2 heads"},
    }
    assert [each.new_name for each in done.tensors] == ["a.bias", "a.weight", None, "a.weight", None, "a.weight"]


def test_a_caller_gives_values_in_brackets_and_rules_that_stand_before(model):
    recipe = f"{model / 'ranks.toml'}(ranks=2)"
    gl.relayout_file(model / "hub", model / "new", recipe=recipe, tensors={".*bias": "scale=2"})
    assert sorted(each.name for each in (model / "new").glob("*.safetensors")) == [
        "rank0.safetensors", "rank1.safetensors",
    ]  # fmt: skip
    assert written(model / "new" / "rank1.safetensors")["a.bias"].tolist() == [2, 2, 2]


def test_a_path_names_a_recipe_too(model):
    done = gl.relayout_file(model / "hub", model / "new", recipe=model / "ranks.toml", dry_run=True)
    assert done.seconds is None and not (model / "new").exists()


@pytest.mark.parametrize(
    "config, problem",
    [
        ({"tp_size": 3}, "has no model_type, and the recipe .* is for \"llama\""),
        ({"model_type": "gpt2", "tp_size": 3}, "model_type is \"gpt2\", and the recipe .* is for \"llama\""),
        (
            {"model_type": "llama", "tp_size": 3, "quantization_config": {"bits": 3}},
            "quantization_config.bits is 3, and the recipe .* is for 4 or 8: others cross bytes",
        ),
        (
            {"model_type": "llama", "tp_size": 3, "quantization_config": {"bits": True}},
            "quantization_config.bits is true",
        ),
        ({"model_type": "llama"}, r"ranks, which is tp_size: .*config.json has none: write .*ranks.toml\(ranks="),
        ({"model_type": "llama", "tp_size": "3"}, "ranks is '3', not a number from 1 to 4096"),
        ({"model_type": "llama", "tp_size": 0}, "ranks is 0, not a number"),
        ({"model_type": "llama", "tp_size": 4}, r"rule 1 of the recipe .*: shard="),
    ],
)  # fmt: skip
def test_what_a_config_makes_wrong_is_said_before_anything_is_written(model, config, problem):
    (model / "hub" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=problem):
        gl.relayout_file(model / "hub", model / "new", recipe=str(model / "ranks.toml"))
    assert not (model / "new").exists()


def test_without_a_config_values_must_be_given(model):
    (model / "hub" / "config.json").unlink()
    with pytest.raises(ValueError, match="there is no config.json: write"):
        gl.relayout_file(model / "hub", model / "new", recipe=str(model / "ranks.toml"))
    gl.relayout_file(model / "hub", model / "new", recipe=f"{model / 'ranks.toml'}(ranks=1)")
    assert sorted(each.name for each in (model / "new").iterdir()) == ["rank0.safetensors", "tokenizer.json"]


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("to = 'parts'", "too = 'parts'", "the key 'too' is none of from, to,"),
        ("notes = ['Keep them together.']", "notes = 'Keep'", "the key 'notes' must be a list"),
        ("versions = '1'", "", "a reader is .* not the texts engine, versions, function"),
        ("ranks = 'tp_size'", "ranks = 3", "the value ranks is 3, not an expression"),
        ("is = ['llama']", "are = ['llama']", "expects.model_type is .* not a table of is, required and why"),
        ("remove = ['tp_size']", "drop = ['tp_size']", "config has more than a list remove and a table set"),
        ("when = 'rank > 0'", "when = 3", "when is 3, not an expression"),
        ("when = 'rank > 0'", "when = 'rank ** 9'", "'rank \\*\\* 9' has no value"),
        ("when = 'rank > 0'", "when = 'size > 0'", "has the name size, which is no value of its own"),
        ("shard = '${rank}/${ranks}'", "shard = '${rank/ranks}'", "'rank/ranks' has no value"),
        ("shard = '${rank}/${ranks}'", "shards = 1", "rule 1 of the recipe .* has the key 'shards'"),
        ("output = 'rank${rank}.safetensors'", "output = 'rank.safetensors'", "one name for several ranks"),
        *(
            ("rank${rank}.safetensors", text, "which is not the name of a .safetensors file")
            for text in ("../${rank}.safetensors", "/${rank}.safetensors", "a/${rank}.safetensors", "${rank}", "", ".",
                         "${rank}.safetensors.index.json", "${rank}.npy", "a\\\\${rank}.safetensors")
        ),
        ("[config]", "[config.set]\nx = nan\n[config.old]", "config has more than|the new config.json"),
        ("remove = ['tp_size']\nset = {", "set = { day = 2020-01-01,", "new config.json cannot be written: Object of"),
        ("remove = ['tp_size']\nset = {", "set = { x = nan,", "the new config.json cannot be written: Out of range"),
        ("to = 'parts'", "to = 'parts'\ntensor = 1", "not rules in TOML"),
        ("head_dim = ['head_dim', '4']", "head_dim = 'heads'", "the value .* is defined by itself"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_recipe_is_named(model, old, new, problem):
    assert old in RANKS
    (model / "ranks.toml").write_text(RANKS.replace(old, new))
    with pytest.raises(ValueError, match=problem):
        gl.relayout_file(model / "hub", model / "new", recipe=str(model / "ranks.toml"))
    assert not (model / "new").exists()


@pytest.mark.parametrize(
    "text, problem",
    [
        ("gptq-to-marlim", "'gptq-to-marlim' is not a recipe: did you mean 'gptq-to-marlin'"),
        ("nothing", "'nothing' is not a recipe: they are "),
        ("gptq-to-marlin(bits=4)", "the recipe gptq-to-marlin has no value bits: its values are group"),
        ("gptq-to-marlin(group)", "'group' gives no value"),
        ("gptq-to-marlin(group=1, group=2)", "gives group twice"),
        ("gptq-to-marlin(group=x y)", "'group=x y' gives no value"),
        ("gptq-to-marlin(group=1", "is not a recipe"),
        ("../gptq-to-marlin", "is not a recipe"),
        ("", "is not a recipe"),
    ],
)
def test_other_texts_are_no_recipes(text, problem):
    with pytest.raises(gl.LayoutError, match=problem):
        read_recipe(text)


def test_every_recipe_says_all_that_a_user_must_know():
    for name, recipe in recipes().items():
        assert recipe.name == name and recipe.summary and recipe.content["from"] and recipe.content["to"], name
        assert recipe.readers or any("gl.torch.load_packed" in each for each in recipe.notes), name
        for each in recipe.expectations:
            assert each.why or each.required, (name, each.field)


@pytest.mark.parametrize(
    "text, value",
    [
        ("7", 7), ("-7", -7), ("a + b * 2", 8), ("(a + b) * 2", 10), ("b // 2", 1), ("min(a, b, 9)", 2),
        ("a == 2", True),
        ("max(a - b, -3)", -1), ("a > b", False), ("c.d.e", 5), ("a == 'b'", False), ("f == 'b'", True),
        ("f != 'b'", False), ("c.d.e >= 5", True), ("a != b", True), ("-(a)", -2),
    ],
)  # fmt: skip
def test_expressions(text, value):
    assert evaluated(text, {"a": 2, "b": 3, "c.d.e": 5, "f": "b"}.__getitem__) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "a +", "a ** 2", "a / 2", "a // 0", "[a]", "a if a else b", "(lambda: 1)()", "__import__('os')", "min()",
        "max(a, key=b)", "a < b < 3", "1.5", "'a' + 'b'", "-'a'", "min('a', 'b')", "a + 'b'",
        "f'{a}'", "a.b()", "a[0]", "9" * 400, "9223372036854775807 * 2 * 2",
        "(" * 150 + "1" + ")" * 150, "not a", "a and b", "~a", "a | b", "True + 1", "...",
    ],
)  # fmt: skip
def test_other_texts_are_no_expressions(text):
    with pytest.raises(gl.LayoutError, match="has no value"):
        evaluated(text, {"a": 1, "b": 2}.__getitem__)


def test_quantize_config_counts_where_config_has_no_quantisation(tmp_path):
    (tmp_path / "quantize_config.json").write_text('{"bits": 4}')
    assert read_config(tmp_path).fields == {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    (tmp_path / "config.json").write_text('{"quantization_config": {"bits": 8}, "x": 1.5}')
    config = read_config(tmp_path)
    assert config.fields == {"quantization_config": {"bits": 8}, "x": 1.5} and config.names[0] == "config.json"


@pytest.mark.parametrize(
    "text, problem",
    [("[]", "not a JSON object"), ("{", "not JSON"), ('{"a": 1, "a": 2}', "twice"), ("\xff", "not JSON")],
)
def test_a_config_that_is_no_json_is_an_error(tmp_path, text, problem):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "config.json")) + f".*{problem}"):
        read_config(tmp_path)


def test_a_new_config_keeps_the_order_and_all_else(tmp_path):
    (tmp_path / "config.json").write_text('{"z": 1e-05, "q": {"a": 1, "b": null}, "ü": [true, {"n": -1}]}')
    new = new_config(read_config(tmp_path), ["q.a", "nothing.at.all"], {"q.c.d": 3, "n": [1]})
    assert json.loads(new) == {"z": 1e-05, "q": {"b": None, "c": {"d": 3}}, "ü": [True, {"n": -1}], "n": [1]}
    assert [*json.loads(new)] == ["z", "q", "ü", "n"] and "ü".encode() in new


def test_a_value_may_fail_to_find_another_one_twice(tmp_path):
    """Alternatives that are not known are no circle."""
    values = {"x": ["y", "w"], "w": ["y", "5"], "y": ["nope"], "z": ["z", "a"], "a": ["z", "7"]}

    def field(name):
        raise UnknownName(name)

    known = RecipeValues({}, values, field, lambda name: f"{name} is missing")
    assert known["x"] == 5
    with pytest.raises(gl.LayoutError, match="y is missing"):
        known["y"]
    with pytest.raises(gl.LayoutError, match="the value z is defined by itself: z > a > z|a > z > a"):
        known["z"]


@pytest.mark.parametrize("name", ["config.json", "quantize_config.json", "ranks.toml"])
def test_what_is_no_file_is_no_config_and_no_recipe(model, name):
    """To open a pipe would wait for ever."""
    path = model / name if name.endswith("toml") else model / "hub" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        gl.relayout_file(model / "hub", model / "new", recipe=model / "ranks.toml")


@pytest.mark.parametrize("names", ["m.safetensors", "${rank}-${rank}.safetensors", "${rank}${part}${part}.safetensors"])
def test_names_of_files_of_ranks_must_count(model, names):
    (model / "ranks.toml").write_text(f"from = 'a'\nto = 'b'\ninput = '{names}'\n")
    with pytest.raises(ValueError, match="once in|have ..rank. once"):
        gl.relayout_file(model / "hub", model / "new", recipe=model / "ranks.toml")


@pytest.mark.parametrize(
    "dtype, value", [("F32", 1e300), ("F16", 70000), ("F8_E4M3", 1000), ("BF16", 16777217), ("F8_E8M0", -3)]
)
def test_a_constant_that_its_type_has_not_is_an_error(dtype, value):
    said = {"match": ".*", "names": ["a"], "dtype": dtype, "shape": [], "value": value}
    with pytest.raises(gl.LayoutError, match=f"is no number of {dtype}, which has"):
        constant_of(said, "a constant")
    assert constant_of({**said, "value": 2}, "a constant").dtype == dtype
    with pytest.raises(gl.LayoutError, match="is no number of"):
        constant_of({**said, "value": 10**400}, "a constant")


def test_half_a_character_of_a_config_stays(tmp_path):
    (tmp_path / "config.json").write_text('{"a": "\\ud800", "b": 1}')
    assert json.loads(new_config(read_config(tmp_path), ["b"], {})) == {"a": "\ud800"}
    (tmp_path / "config.json").write_text('{"a": 1e400, "b": 1}')
    with pytest.raises(ValueError, match="the new config.json cannot be written: Out of range"):
        new_config(read_config(tmp_path), ["b"], {})


def test_two_recipes_are_an_error_and_none_is_left_out(model):
    recipe = str(model / "ranks.toml")
    said = refusal("relayout", model / "hub", model / "new", "--recipe", recipe, "--recipe", recipe)
    assert said == "--recipe is given 2 times: run one recipe after the other"
    assert not (model / "new").exists()


@pytest.mark.parametrize("options", [["--dry-run"], ["-q"], ["--json"], []])
def test_that_there_is_no_config_is_said_on_stderr_also_to_those_who_want_to_hear_nothing(model, options):
    os.unlink(model / "hub" / "config.json")
    recipe = f"{model / 'ranks.toml'}(ranks=2,heads=2)"
    done = run("relayout", model / "hub", model / "new", "--recipe", recipe, *options)
    said = f"{model / 'hub'}: there is no config.json, so the checks that need it were skipped"
    assert done.stderr == f"gpulayout: note: {said}\n"
    if "--json" in options:
        assert json.loads(done.stdout)["remarks"][0] == said
    again = gl.relayout_file(model / "hub", model / "again", recipe=recipe)
    assert again.remarks[0] == said


def test_a_folder_does_not_get_the_name_of_a_file_of_another_format(model):
    for name in ("new.gguf", "new.bin"):
        said = failure("relayout", model / "hub", model / name, "--recipe", str(model / "ranks.toml"))
        assert said.startswith(f"{model / name}: a model does not become ") and not (model / name).exists()
