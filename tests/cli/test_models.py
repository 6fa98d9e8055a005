"""`gpulayout relayout` and `gpulayout unpack` of safetensors."""

import json
import os
import re

import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.failures import with_options
from gpulayout.cli.main import commands
from tests.support.command_line import failure, refusal, run
from tests.support.model_files import contents, model


@pytest.fixture
def folder(tmp_path):
    tensors = {"d.kernel": ("F32", (3, 4)), "d.bias": ("F32", (4,)), "n": ("I64", ())}
    (tmp_path / "a.safetensors").write_bytes(model(tensors, {"format": "np"}))
    return tmp_path


def relayout(folder, *options, **how):
    return run("relayout", folder / "a.safetensors", folder / "b.safetensors", *options, **how).stdout


def test_a_dry_run_is_a_table_of_all_tensors_and_writes_nothing(folder):
    said = relayout(folder, "--tensor", "(d)[.]kernel=i o -> o i; name=\\1.weight", "--tensor", "n=drop", "--dry-run")
    rows = [line.split() for line in said.strip("\n").splitlines()]
    assert rows[0] == ["tensor", "before", "after", "new", "name", "taken", "as", "what", "happens"]
    assert ["d.kernel", "F32[3,4]", "F32[4,3]", "d.weight", "-", "moved"] in rows
    assert ["d.bias", "F32[4]", "-", "-", "-", "copied"] in rows
    assert ["n", "I64[]", "-", "-", "-", "left", "out"] in rows
    assert rows[-1] == "dry run: nothing was written".split() and os.listdir(folder) == ["a.safetensors"]
    assert "3 tensors: 1 moved, 1 copied, 1 left out; 64 bytes of elements" in said


def test_maps_rules_renames_and_types_together(folder):
    said = relayout(
        folder, "--map", "flax-to-torch", "--tensor", "n=keep", "--rename", "^d=first", "--dtype", "bf16", "--json"
    )
    found = json.loads(said)
    assert found["tensors"][0] == {
        "name": "d.kernel",
        "new_name": "first.weight",
        "before": "F32[3,4]",
        "after": "BF16[4,3]",
        "moved": True,
        "kind": None,
        "known_by": None,
        "parts": ["d.kernel"],
        "file": str(folder / "b.safetensors"),
        "measured": False,
    }
    assert found["bytes_written"] == 40 and not found["dry_run"] and found["unmatched_rules"] == []
    assert {name: each[:2] for name, each in contents(folder / "b.safetensors").items()} == {
        "first.weight": ("BF16", (4, 3)),
        "first.bias": ("BF16", (4,)),
        "n": ("I64", ()),
    }


def test_unpack_brings_every_tensor_back_without_rules(folder):
    relayout(folder, "--tensor", r"d\..*={0:T(8)}; rank=1", "--tensor", r"d\..*={0,1}; rank=2")
    assert contents(folder / "b.safetensors")["d.bias"][:2] == ("U8", (32,))
    run("unpack", folder / "b.safetensors", folder / "c.safetensors")
    assert contents(folder / "c.safetensors") == contents(folder / "a.safetensors")
    assert "no tensor has a note about its layout" in failure(
        "unpack", folder / "c.safetensors", folder / "d.safetensors"
    )


def test_a_map_of_ones_own_is_a_file(folder):
    (folder / "my.toml").write_text("[[tensor]]\nmatch = 'd.kernel'\nto = 'F'\n")
    relayout(folder, "--map", folder / "my.toml")
    assert contents(folder / "b.safetensors")["d.kernel"][:2] == ("U8", (48,))


@pytest.mark.parametrize(
    "options, message",
    [
        (["--scale", "2"], "--scale is for one array, not for a model: write --tensor"),
        (["--zero-point", "0"], "--zero-point is for one array, not for a model: write --tensor"),
        (["--no-saturate"], "--no-saturate is for one array, not for a model: write --tensor"),
        (["--unit"], "--unit is for one array, not for a model: write --tensor '.*weight=unit'"),
        (["--raw"], "--raw is for one array"),
        (["--tensor", "kernel"], "'kernel' is not REGEX=WHAT"),
        (
            ["--tensor", ".*(kernel=F"],
            "is not REGEX=WHAT: '.*(kernel' is not a regular expression: missing ), unter",
        ),
        (["--tensor", "[a=F"], "is not REGEX=WHAT: '[a' is not a regular expression: unterminated character set at"),
        (["--rename", "(a=b"], "is not REGEX=TEXT: '(a' is not a regular expression: missing ), unterminated"),
        (["--rename", "kernel"], "'kernel' is not REGEX=TEXT"),
        (["--tensor", "*=C"], "is not a regular expression"),
        (["--tensor", "w=z y"], "the rule"),
        (["--map", "torch-flax"], "'torch-flax' is not a ready map: did you mean 'torch-to-flax'?"),
        (["--quiet", "--json"], "give either --quiet or --json"),
    ],
)
def test_wrong_options_are_usage_errors(folder, options, message):
    assert message in refusal("relayout", folder / "a.safetensors", folder / "b.safetensors", *options)
    assert os.listdir(folder) == ["a.safetensors"]


@pytest.mark.parametrize("option", ["--tensor", "--map", "--rename"])
def test_options_of_models_are_refused_for_one_array(folder, option):
    said = refusal("relayout", folder / "a.npy", folder / "b.npy", option, "a=b", "--to", "F")
    assert said.startswith(f"{option} is for a model, whose name ends in .safetensors")


def test_failures_are_one_line(folder):
    said = failure("relayout", folder / "a.safetensors", folder / "b.safetensors", "--tensor", "kernel=C")
    assert "fits a part of 'd.kernel', but must fit the whole name: begin with .*" in said
    (folder / "bad.safetensors").write_bytes(b"\xff" * 100)
    assert "not a safetensors file" in failure("relayout", folder / "bad.safetensors", folder / "b.safetensors")
    (folder / "b.safetensors").write_bytes(b"")
    assert failure("relayout", folder / "a.safetensors", folder / "b.safetensors").endswith("--overwrite replaces it")
    assert refusal("unpack", folder / "a.npy", folder / "b.npy") == "Missing option '--from'."
    assert "this is safetensors: gpulayout relayout" in failure(
        "relayout", folder / "a.safetensors", "b.npy", "--to", "F"
    )


def test_a_model_does_not_come_from_a_pipe(folder):
    assert "not to a standard stream" in refusal("relayout", folder / "a.safetensors", "-")


BOTH = [  # options of the command, and the same keywords
    ([], {}),
    (["--dtype", "bf16"], {"dtype": "bf16"}),
    (["--rename", "^d=e"], {"rename": {"^d": "e"}}),
    (["--allow-unmatched"], {"allow_unmatched": True}),
    (["--tensor", "n=drop"], {"tensors": {"n": "drop"}}),
    (["--map", "flax-to-torch", "--tensor", "n=keep"], {"tensors": ["flax-to-torch", {"n": "keep"}]}),
    (["--overwrite"], {"overwrite": True}),
    (["--raw"], {"raw": True}),
    (["--scale", "2"], {"scale": 2}),
    (["--scratch", "."], {"scratch": "."}),
    (["--assume", ".*=conv"], {"assume": {".*": "conv"}}),
    (["--map", "torch-to-flax"], {"tensors": "torch-to-flax"}),
    (["--to", "F"], {"target": "F"}),
    (["--from", "f32[2]", "--to", "F"], {"source": "f32[2]", "target": "F"}),
]


@pytest.mark.parametrize(
    "rule, written",
    [
        ("n=shift=1", "write dtype, such as dtype=f32, or dtype=s64 if you mean that"),
        ("words=from=gptq:qweight; marlin:weights", "write gptq:qweight(dtype=u4), gptq:qweight(dtype=u2) or"),
        ("d.kernel=scale=d.bias2; dtype=bf16", "say how many share one, such as block=2"),
    ],
)
def test_errors_about_rules_say_what_to_write_in_rules(tmp_path, rule, written):
    tensors = {"d.kernel": ("F32", (3, 4)), "d.bias2": ("F32", (2,)), "n": ("I64", ()), "words": ("I32", (16, 64))}
    (tmp_path / "a.safetensors").write_bytes(model(tensors, None))
    assert written in failure("relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--tensor", rule)


@pytest.mark.parametrize("out", ["b.safetensors", "b.npy", "b.safetensors.index.json"])
@pytest.mark.parametrize("options, keywords", BOTH)
def test_the_command_and_the_function_do_and_refuse_the_same(folder, monkeypatch, options, keywords, out):
    command = ["relayout", folder / "a.safetensors", folder / out, *options]
    by_command = CliRunner().invoke(commands, list(map(str, command)), prog_name="gpulayout")
    written = (folder / out).read_bytes() if by_command.exit_code == 0 else None
    (folder / out).unlink(missing_ok=True)
    monkeypatch.chdir(folder)
    try:
        gl.relayout_file(folder / "a.safetensors", folder / out, **keywords)
    except (ValueError, TypeError) as error:
        assert written is None, error
        said = with_options(str(error)).partition(": ")[0]
        said = re.sub("^target is", "--to is", re.sub("^source is", "--from is", said))
        assert said in by_command.stderr, (said, by_command.stderr)
    else:
        assert (folder / out).read_bytes() == written
    assert (written is None) == (sorted(os.listdir(folder)) == ["a.safetensors"])


@pytest.mark.parametrize("out", ["b.safetensors", "b.safetensors.index.json"])
@pytest.mark.parametrize(
    "options, keywords, command, function",
    [
        (["--to", "F"], {"target": "F"}, "--to IS: write --tensor '.*=F'", "target IS: write tensors={'.*': 'F'}"),
        (
            ["--to", "a b -> b a", "--tensor", "d=C"],
            {"target": "a b -> b a"},
            "--to IS: write --tensor '.*=a b -> b a'",
            "target IS: write tensors={'.*': 'a b -> b a'}",
        ),
        (["--from", "f32[2]", "--to", "F"], {"source": "f32[2]"}, "--from IS: its ", "source IS: its tensors have sha"),
        (["--from", "f32[2]"], {"source": "f32[2]"}, "--from IS: its tensors have shapes", "source IS: its tensors"),
        (["--unpack", "--from", "f32[2]"], {"source": "f32[2]"}, "--from IS: its tensors", "source IS: its tensors"),
    ],
)
def test_what_is_for_one_array_is_answered_with_what_models_have(folder, options, keywords, command, function, out):
    said = "is for one array, not for a model"
    assert refusal("relayout", folder / "a.safetensors", folder / out, *options).startswith(command.replace("IS", said))
    with pytest.raises(TypeError) as caught:
        gl.relayout_file(folder / "a.safetensors", folder / out, **keywords)
    assert str(caught.value).startswith(function.replace("IS", said))
    assert os.listdir(folder) == ["a.safetensors"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("memory", ["8", " 8 ", "0.01K"])
@pytest.mark.parametrize(
    "command",
    [
        ["relayout", "a.safetensors", "b.safetensors", "--tensor", "d.kernel=a b -> b a"],
        ["relayout", "a.npy", "b.npy", "--to", "F"],
        ["relayout", "a.npy", "b.npy", "--to", "F", "--dry-run"],
        ["pack", "a.npy", "b.npy", "--to", "F"],
        ["explain", "f32[300,500]", "{0,1}"],
        ["explain", "f32[300,500]", "{0,1}", "--json"],
    ],
)
def test_errors_about_memory_name_the_option_and_what_was_written(folder, monkeypatch, command, memory):
    (folder / "a.safetensors").write_bytes(model({"d.kernel": ("F32", (300, 500))}, None))
    monkeypatch.chdir(folder)
    np.save("a.npy", np.zeros((300, 500), np.float32))
    said = CliRunner().invoke(commands, [*command, "--memory", memory], prog_name="gpulayout").stderr
    assert f"--memory {memory.strip()} leaves 2 bytes for a block, too few to relayout f32[300,500]" in said
    assert "max_bytes" not in said and "takes 8 bytes" in said


@pytest.mark.parametrize("command", ["relayout", "explain"])
@pytest.mark.parametrize("memory", ["8x", "", "-1", "0", "1.5"])
def test_sizes_that_are_none_are_usage_errors(command, memory):
    said = refusal(command, "a.npy" if command == "relayout" else "f32[2]", "b.npy", "--memory", memory)
    assert said.startswith(f"Invalid value for '--memory': '{memory}' is not a number of bytes such as 128M")


USAGE = [  # wrong whatever the files hold
    ["--tensor", "kernel"],
    ["--tensor", "=C"],
    ["--tensor", "*=C"],
    ["--tensor", ".*=moe"],
    ["--tensor", ".*=dtype=f33"],
    ["--tensor", ".*=keep; drop"],
    ["--tensor", ".*=name=\\2"],
    ["--tensor", ".*=kind=conf; C"],
    ["--tensor", ".*=a b -> b a; flip=c"],
    ["--tensor", ".*=C; rank=x"],
    ["--map", "torch-to-nothing"],
    ["--map", "torch-to-flax", "--map", "torch-to-mlx"],
    ["--rename", "kernel"],
    ["--rename", "(=x"],
    ["--rename", "x=\\1"],
    ["--assume", "x"],
    ["--assume", "x=conf", "--map", "flax-to-torch"],
    ["--assume", "(=conv", "--map", "flax-to-torch"],
    ["--assume", "format=torch", "--map", "flax-to-torch"],
    ["--assume", ".*=conv"],
    ["--dtype", "f33"],
    ["--dtype", "s8"],
    ["--memory", "x"],
    ["--scale", "2"],
    ["--raw"],
    ["--quiet", "--json"],
]
FAILURES = [  # wrong with this model, or with a file of rules
    ["--tensor", "nothing=C"],
    ["--tensor", "d.kernel=C", "--tensor", ".*=F"],
    ["--tensor", "d.kernel=a b c -> c b a"],
    ["--tensor", "d.kernel=f32[3,5]"],
    ["--tensor", "d.kernel=name=d.bias"],
    ["--tensor", "n=scale=2"],
    ["--tensor", ".*=scale=x"],
    ["--map", "torch-to-flax"],
    ["--map", "flax-to-torch"],
    ["--map", "mlx-to-torch", "--tensor", "n=keep"],
    ["--map", "flax-to-torch", "--tensor", "n=keep", "--tensor", "d.kernel=scale=2"],
    ["--map", "flax-to-torch", "--tensor", "n=keep", "--assume", ".*=conv"],
    ["--map", "flax-to-torch", "--tensor", "n=keep", "--assume", "nothing=conv"],
    ["--rename", "kernel|bias=x"],
    ["--rename", "nothing=x"],
    ["--memory", "1", "--tensor", "d.kernel=F"],
    *(
        ["--map", f"{name}.toml"]
        for name in ("none", "no_toml", "key", "rule", "type", "target", "rename", "note", "reads")
    ),
]
FILES = {
    "no_toml": "[[tensor]\n",
    "key": "other = 1",
    "rule": "[[tensor]]\nmatch = '('\nto = 'C'",
    "type": "[[tensor]]\nmatch = '.*'\nto = 5",
    "target": "[[tensor]]\nmatch = '.*'\nto = 'moe'",
    "rename": "rename = [['x', '\\1']]",
    "note": "metadata = { 'gpulayout:a' = 'u8[2]' }",
    "reads": "reads = ['torch']",
}


@pytest.mark.parametrize("options, code", [*((each, 2) for each in USAGE), *((each, 1) for each in FAILURES)])
def test_errors_of_one_kind_have_one_exit_code(folder, monkeypatch, options, code):
    """2 for a command that is wrong whatever the files hold, and 1 for one that these files make fail."""
    for name, text in FILES.items():
        (folder / f"{name}.toml").write_text(text)
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())
    said = (refusal if code == 2 else failure)("relayout", "a.safetensors", "b.safetensors", *options)
    assert said and sorted(os.listdir()) == before
    assert (refusal if code == 2 else failure)("relayout", "none.safetensors", "b.safetensors", *options)


@pytest.mark.parametrize(
    "files, options, message",
    [
        ([], [], "give IN and OUT"),
        (["a.npy"], ["--to", "F"], "give IN and OUT, and there is only 'a.npy'"),
        (["a.npy", "b.npy", "c.npy"], ["--to", "F"], "an array has one IN, not 2: several are for models"),
        (["a.npy", "b.npy", "c.npy"], ["--to", "F", "--raw"], "an array has one IN, not 2: several are for models"),
        (["a.npy", "b.safetensors", "c.npy"], ["--to", "F"], "an array has one IN, not 2: several are for models"),
        (["a.safetensors", "b.safetensors", "c.safetensors"], ["--to", "F"], "--to is for one array, not for a model"),
        (["a.safetensors", "-", "c.safetensors"], [], "a model is read from a file and written to one"),
    ],
)
def test_how_many_files_there_may_be(files, options, message):
    assert refusal("relayout", *files, *options).startswith(message)


def test_a_list_of_files_is_of_models(folder):
    array, one, out = folder / "a.npy", folder / "a.safetensors", folder / "b.safetensors"
    for files, to, message in [
        ([array], folder / "b.npy", f"file is a list of one path, and an array is no model: write .*{array}"),
        ([array, array], folder / "b.npy", "file is a list of 2 paths: several files are models, whose names end in"),
        ([], folder / "b.npy", "file is an empty list: several files are models"),
        (
            5,
            folder / "b.npy",
            "file is an int: it must be a path, as text or pathlib.Path, or a gl.Array, or a list of",
        ),
        ([], out, "file is an empty list: name one model"),
        ([one, 5], out, r"file\[1\] is an int: it must be a path, as text or pathlib.Path$"),
        ([gl.asarray(np.zeros(2)), one], out, "file is a gl.Array, and a model is moved from a file"),
    ]:
        with pytest.raises(TypeError, match=message):
            gl.relayout_file(files, to)
    gl.relayout_file([one], out)
    assert contents(out) == contents(one)


def test_several_models_become_one_file_in_the_shell_and_in_python(folder):
    shared = {"shared": ("U8", (3,))}
    for name in ("p", "q"):
        (folder / f"{name}.safetensors").write_bytes(model({**shared, name: ("F32", (2,))}, None))
    inputs = [folder / "p.safetensors", folder / "q.safetensors"]
    said = json.loads(run("relayout", *inputs, folder / "r.safetensors", "--json").stdout)
    assert said["inputs"] == [*map(str, inputs)] and len(said["tensors"]) >= 3
    gl.relayout_file(inputs, folder / "s.safetensors", tensors={})
    assert (folder / "r.safetensors").read_bytes() == (folder / "s.safetensors").read_bytes()
    both = {name: each for path in inputs for name, each in contents(path).items()}
    assert contents(folder / "r.safetensors") == both and sorted(both) == ["p", "q", "shared"]
    inputs[1].write_bytes(model({"shared": ("U8", (3,)), "q": ("F32", (2,))}, None, seed=5))
    message = failure("relayout", *inputs, folder / "t.safetensors")
    with pytest.raises(ValueError) as caught:
        gl.relayout_file(inputs, folder / "t.safetensors")
    assert str(caught.value) == message and "shared" in message and "along" in message


@pytest.mark.parametrize(
    "rule, words",
    [
        ("block=2; scale=1,2,3; dtype=f32", "4 elements, 2 blocks of 2"),
        ("zero_point=8; scale=2", "write dtype, such as dtype=s8"),
        ("block=2; dtype=bf16", "block=2 says how many elements share a number"),
    ],
)
def test_errors_about_tensors_have_the_words_of_rules(folder, rule, words):
    said = failure("relayout", folder / "a.safetensors", folder / "b.safetensors", "--tensor", f"d.kernel={rule}")
    assert said.startswith("tensor 'd.kernel', F32[3,4]: ") and "--" not in said and words in said


def test_an_output_that_exists_may_be_a_forgotten_one(folder):
    copy = folder / "b.safetensors"
    copy.write_bytes((folder / "a.safetensors").read_bytes())
    assert failure("relayout", folder / "a.safetensors", copy) == (
        f"{copy}: the file exists; it is the last name, OUT: --overwrite replaces it"
    )
