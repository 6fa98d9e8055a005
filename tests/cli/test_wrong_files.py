"""What users write by mistake about files, in the shell and in Python: one line that says what to write."""

import json
import os

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, refusal
from tests.support.model_files import contents, model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model, its shards in a folder, an array, more in a folder, an empty folder, and an index without its shards."""
    monkeypatch.chdir(tmp_path)
    for name in ("shards", "arrays", "empty"):
        os.mkdir(name)
    (tmp_path / "a.safetensors").write_bytes(model({"d.kernel": ("F32", (3, 4)), "n": ("I64", ())}, None))
    np.save("a.npy", np.zeros((2, 3), np.float32))
    for number in range(5):
        np.save(f"arrays/{number}.npy", np.zeros(2))
    for number in (1, 2):
        (tmp_path / f"shards/m-{number}.safetensors").write_bytes(model({f"w{number}": ("U8", (number,))}, None))
    for index, files in (("shards/m", {"w1": "m-1", "w2": "m-2"}), ("gone", {"a": "gone-1", "b": "gone-2", "n": "a"})):
        names = {name: f"{file}.safetensors" for name, file in files.items()}
        (tmp_path / f"{index}.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(60))
    return tmp_path


def in_python(*files, **keywords):
    with pytest.raises((ValueError, OSError)) as caught:
        gl.relayout_file(*files, **keywords)
    return str(caught.value).replace(os.getcwd() + os.sep, "")


BOTH = [  # the files, whether --to F says more, and the message of both
    (["shards", "b.npy"], 1, "shards: this is a folder: write the file in it, shards/m.safetensors.index.json"),
    (
        ["arrays", "b.npy"],
        1,
        "arrays: this is a folder: write one of its files, arrays/0.npy, arrays/1.npy, arrays/2.npy and 2 more",
    ),
    (["empty", "b.safetensors"], 0, "empty: this is a folder, and none of its files ends in .safetensors or .npy"),
    (["a.npy", "empty"], 1, "empty: this is a folder: write the name of a file in it, such as empty/a.npy"),
    *(
        (["a.safetensors", f"b{ending}"], 0, f"b{ending}: a model does not become {what}: write model.safetensors; ")
        for ending, what in [
            (".gguf", "GGUF, whose blocks hold scales beside codes"),
            (".bin", "a pickle of PyTorch, which may run code"),
            (".npz", "a zip of arrays"),
            (".NPY", "one array"),
            (".h5", "a model of Keras"),
            (".msgpack", "a tree of Flax"),
        ]
    ),
    *(
        (["a.npy", f"b{ending}"], 1, f"b{ending}: gpulayout does not write {what}: write ")
        for ending, what in [
            (".gguf", "GGUF"),
            (".pt", "a pickle of PyTorch, which may run code"),
            (".npz", ".npz, a zip of .npy files"),
            (".keras", "a model of Keras"),
        ]
    ),
    (["x.gguf", "b.npy"], 1, "x.gguf: this is GGUF: gpulayout relayout FILE OUT.safetensors moves its tensors"),
    (["x.gguf", "b.safetensors"], 0, "x.gguf: version 0 of GGUF: gpulayout reads 2 and 3"),
    (["none.npz", "b.safetensors"], 0, "none.npz: this is a zip of arrays: safetensors.numpy.save_file("),
    (
        ["gone.safetensors.index.json", "c.safetensors.index.json"],
        0,
        "gone.safetensors.index.json: the index names 'gone-1.safetensors', which is not beside it: 2 of its 3",
    ),
    (["a.safetensors", "a.safetensors"], 0, "a.safetensors: input and output are the same file"),
    (["a.safetensors", "no/b.safetensors"], 0, "no/b.safetensors: there is no folder no"),
]


@pytest.mark.parametrize("files, is_array, message", BOTH)
def test_wrong_files_are_answered_alike_by_the_shell_and_by_python(folder, files, is_array, message):
    before = sorted(folder.rglob("*"))
    keywords, options = ({"target": "F"}, ["--to", "F"]) if is_array else ({}, [])
    assert failure("relayout", *files, *options).startswith(message)
    assert failure("relayout", *files, *options, "--dry-run").startswith(message)
    assert in_python(*files, **keywords).startswith(message)
    assert sorted(folder.rglob("*")) == before


def test_a_folder_is_answered_before_questions_about_options(folder):
    assert failure("relayout", "arrays", "out").startswith("arrays: this is a folder: write one of its files, ")
    assert "arrays: this is a folder: write one of its files, arrays/0.npy" in refusal("show", "arrays")


def test_show_says_how_another_format_becomes_a_model(folder):
    assert failure("show", "x.gguf").startswith("x.gguf: version 0 of GGUF")
    assert "save_file(torch.load(FILE, weights_only=True), 'model.safetensors') makes" in refusal("show", "none.pt")


@pytest.mark.parametrize("name", ["A-1/B.c", "https://huggingface.co/A-1/B.c", "https://hf.co/A-1/B.c/tree/main"])
def test_a_model_that_is_on_the_hub_only_is_downloaded_first(folder, name):
    said = (
        "there is no such file or folder; a model of the hub is downloaded first: hf download A-1/B.c --local-dir B.c"
    )
    message = f"{name.replace('//', '/')}: {said}"
    assert failure("relayout", name, "new", "--recipe", "mxfp4-to-bf16") == message
    assert in_python(name, "new", recipe="mxfp4-to-bf16") == message


@pytest.mark.parametrize("name", ["B.c", "~/B.c", "A-1/B.c/d", "../A-1", "shards/B.c"])
def test_a_name_that_is_not_there_is_no_model_of_the_hub(folder, name):
    said = "there is no such file or folder"
    assert failure("relayout", name, "new", "--recipe", "mxfp4-to-bf16") == f"{name}: {said}"
    assert in_python(name, "new", recipe="mxfp4-to-bf16").endswith(f": {said}")


def test_a_memory_of_a_few_bytes_is_asked_about(folder):
    for options, keywords in [
        (["--to", "F"], {"target": "F"}),
        (["--tensor", ".*kernel=F"], {"tensors": {".*kernel": "F"}}),
    ]:
        files = ["a.npy", "b.npy"] if "target" in keywords else ["a.safetensors", "b.safetensors"]
        assert failure("relayout", *files, *options, "--memory", "8").endswith(
            "; the least limit is 1K; did you mean 8G?"
        )
        for limit in (8, "8"):
            assert in_python(*files, **keywords, max_bytes=limit).endswith("; did you mean 8G?")
        assert "did you mean" not in failure("relayout", *files, *options, "--memory", "0.01K")


@pytest.mark.parametrize(
    "options, said",
    [
        (["--tensor", "foo"], "'foo' is not REGEX=WHAT, such as '(.*)\\.kernel=i o -> o i; name=\\1.weight'"),
        (["--tensor", ""], "'' is not REGEX=WHAT, such as '"),
        (["--rename", "foo"], "'foo' is not REGEX=TEXT, such as '^params\\.='"),
        (["--assume", "foo"], "'foo' is not REGEX=KIND, such as 'up.*=conv_transpose'"),
        (
            ["--tensor", "'.*kernel=F'"],
            "''.*kernel=F'' begins with a quote that the shell has left; cmd.exe knows only",
        ),
        (["--rename", '"a=b"'], "'\"a=b\"' begins with a quote that the shell has left"),
    ],
)
def test_texts_of_options_without_an_equals_sign_or_with_a_quote(folder, options, said):
    message = refusal("relayout", "a.safetensors", "b.safetensors", *options)
    assert message.startswith(f"Invalid value for '{options[0]}': {said}")


@pytest.mark.parametrize(
    "options, keywords, said, in_words",
    [
        (
            ["--scale", "2"],
            {"scale": 2},
            "write --tensor '.*weight=scale=2'",
            "write tensors={'.*weight': {'scale': 2}}",
        ),
        (
            ["--shift", "0.5,1"],
            {"shift": [0.5, 1]},
            "write --tensor '.*weight=shift=0.5,1'",
            "write tensors={'.*weight': {'shift': [0.5, 1]}}",
        ),
        (
            ["--divide"],
            {"divide": True},
            "write --tensor '.*weight=divide'",
            "write tensors={'.*weight': {'divide': True}}",
        ),
        (["--offset", "8"], {"offset": 8}, "its header says where its tensors begin", ""),
        (["--byte-order", "big"], {"byte_order": "big"}, "its numbers are little-endian", ""),
        (["--raw"], {"raw": True}, "its header says what its tensors are", ""),
        (["--scratch", "."], {"scratch": "."}, "its tensors are moved one by one, each in one pass", ""),
        (
            ["--no-strict"],
            {"strict": False},
            "--allow-unmatched allows rules that fit no tensor",
            "allow_unmatched=True allows rules that fit no tensor",
        ),
    ],
)
def test_what_is_for_one_array_says_why_or_what_models_have(folder, options, keywords, said, in_words):
    files = "a.safetensors", "b.safetensors"
    (name,) = keywords
    message = refusal("relayout", *files, *options)
    assert message == f"{options[0]} is for one array, not for a model: {said}"
    with pytest.raises(TypeError) as caught:
        gl.relayout_file(*files, **keywords)
    assert str(caught.value) == f"{name} is for one array, not for a model: {in_words or said}"


def test_a_rule_that_the_shell_has_taken_apart(folder):
    said = refusal("relayout", "a.safetensors", "b.safetensors", "--tensor", ".*=i", "o", "-", "i")
    assert said.endswith("if `-` is a part of `->`, quote the rule: --tensor '.*=i o -> o i'")


# ---- unpack, from both -----------------------------------------------------------------------------------------------


def test_unpack_makes_arrays_again_from_python_too(folder):
    gl.relayout_file("a.safetensors", "b.safetensors", tensors={"d.kernel": "{0,1:T(8)}"})
    assert contents(folder / "b.safetensors")["d.kernel"][0] == "U8"
    done = gl.relayout_file("b.safetensors", "c.safetensors", unpack=True)
    assert contents(folder / "c.safetensors") == contents(folder / "a.safetensors")
    assert [each.moved for each in done.tensors if each.name == "d.kernel"] == [True]
    failure("relayout", "c.safetensors", "d.safetensors", "--unpack")
    assert "no tensor has a note" in in_python("c.safetensors", "d.safetensors", tensors={}, unpack=True)


@pytest.mark.parametrize(
    "keywords, option",
    [
        ({"tensors": {"n": "drop"}}, ["--tensor", "n=drop"]),
        ({"rename": {"n": "m"}}, ["--rename", "n=m"]),
        ({"assume": {".*": "conv"}}, ["--assume", ".*=conv"]),
        ({"dtype": "bf16"}, ["--dtype", "bf16"]),
        ({"allow_unmatched": True}, ["--allow-unmatched"]),
    ],
)
def test_unpack_of_a_model_takes_no_rules(folder, keywords, option):
    (name,) = keywords
    said = refusal("relayout", "a.safetensors", "b.safetensors", "--unpack", *option)
    assert said == f"--unpack makes arrays of tensors by their notes alone: leave out {option[0]}"
    with pytest.raises(
        TypeError, match=f"^unpack=True makes arrays of tensors by their notes alone: leave out {name}$"
    ):
        gl.relayout_file("a.safetensors", "b.safetensors", unpack=True, **keywords)


def test_unpack_of_an_array_is_what_no_target_means(folder):
    np.save("flat.npy", np.arange(6, dtype=np.float32))
    gl.relayout_file("flat.npy", "b.npy", source="f32[2,3]{0,1}", unpack=True)
    np.testing.assert_array_equal(np.load("b.npy"), np.arange(6, dtype=np.float32).reshape(3, 2).T)
    with pytest.raises(TypeError, match="leave out target, or unpack"):
        gl.relayout_file("flat.npy", "c.npy", source="f32[2,3]{0,1}", target="F", unpack=True)
    with pytest.raises(TypeError, match="unpack=True needs source=SHAPE"):
        gl.relayout_file("flat.npy", "c.npy", unpack=True)
    array = gl.asarray(np.arange(6).reshape(2, 3))
    gl.relayout_file(array, "c.npy", unpack=True)
    np.testing.assert_array_equal(np.load("c.npy"), np.arange(6).reshape(2, 3))
