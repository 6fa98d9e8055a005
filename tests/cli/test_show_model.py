"""`gpulayout show model.safetensors`: what is in a model, for people and for programs."""

import json
import os

import numpy as np
import pytest

from gpulayout.cli.show_model import MOST_ROWS, MOST_TEXT
from tests.support.command_line import failure, refusal, run
from tests.support.model_files import contents, model

TENSORS = {
    **{f"layers.{layer}.up.weight": ("BF16", (16, 8)) for layer in range(12)},
    **{f"layers.{layer}.norm": ("F32", (8,)) for layer in range(12)},
    "head": ("U8", (4096,)),
    "step": ("I64", ()),
}
METADATA = {"format": "pt", "gpulayout:head": "f32[8,100]{1,0:T(8,128)}", "gpulayout:gone": "old"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A file, and an index of three shards with the same tensors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.safetensors").write_bytes(model(TENSORS, METADATA))
    files = {}
    for part in range(3):
        some = {name: TENSORS[name] for name in [*TENSORS][part::3]}
        file = f"part-{part}.safetensors"
        (tmp_path / file).write_bytes(model(some, {"format": "pt"} | ({"seed": "7"} if part else {})))
        files |= dict.fromkeys(some, file)
    index = {"metadata": {"total_size": 7576}, "weight_map": files}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_a_row_for_all_tensors_that_differ_only_in_numbers(folder):
    text = run("show", "m.safetensors").stdout
    assert text.splitlines()[:6] == [
        "m.safetensors",
        "26 tensors, 7560 bytes",
        "U8: 1 tensor, 4096 elements, 4096 bytes",
        "BF16: 12 tensors, 1536 elements, 3072 bytes",
        "F32: 12 tensors, 96 elements, 384 bytes",
        "I64: 1 tensor, 1 element, 8 bytes",
    ]
    assert rows(text)[6:] == [
        [],
        ["tensor", "stored", "times", "bytes", "layout", "file"],
        ["head", "U8[4096]", "1", "4096", "f32[8,100]{1,0:T(8,128)}", "-"],
        ["layers.{0..11}.norm", "F32[8]", "12", "384", "-", "-"],
        ["layers.{0..11}.up.weight", "BF16[16,8]", "12", "3072", "-", "-"],
        ["step", "I64[]", "1", "8", "-", "-"],
        [],
        ["metadata", "format:", "pt"],
        ["metadata", "gpulayout:gone:", "old"],
    ]


def test_shards_say_in_which_files_tensors_are(folder):
    text = run("show", "m.safetensors.index.json").stdout
    said = rows(text)
    assert said[1] == "26 tensors in 3 files, 7560 bytes".split()
    assert ["layers.{0..11}.norm", "F32[8]", "12", "384", "-", "part-{0..2}.safetensors"] in said
    assert ["step", "I64[]", "1", "8", "-", "part-1.safetensors"] in said
    assert ["metadata", "format:", "pt"] in said
    assert "metadata  seed: 7  (in part-{1,2}.safetensors)" in text
    assert "note: the index says total_size 7576, and the tensors have 7560 bytes" in text


@pytest.mark.parametrize("sort", ["name", "bytes"])
def test_rows_are_sorted_and_limited(folder, sort):
    text = run("show", "m.safetensors", "--sort", sort, "--top", "2").stdout
    names = ["head", "layers.{0..11}.norm"] if sort == "name" else ["head", "layers.{0..11}.up.weight"]
    assert [row[0] for row in rows(text)[8:10]] == names
    assert "and 2 more; --top 4 lists all" in text
    assert run("show", "m.safetensors").stdout == run("show", "m.safetensors", "--sort", "name").stdout
    both = [run("show", "m.safetensors", "--sort", each).stdout.splitlines() for each in ("name", "bytes")]
    assert both[0] != both[1] and sorted(both[0]) == sorted(both[1])


@pytest.mark.parametrize("name", ["m.safetensors", "m.safetensors.index.json"])
def test_programs_get_every_tensor_and_find_its_bytes(folder, name):
    found = json.loads(run("show", name, "--json").stdout)
    assert (found["file"], found["count"], found["nbytes"]) == (name, 26, 7560)
    first = [f"layers.{layer}.{last}" for layer in range(12) for last in ("norm", "up.weight")]
    assert [each["name"] for each in found["tensors"]] == ["head", *first, "step"]
    for each in found["tensors"]:
        dtype, dimensions, elements = contents(folder / each["file"])[each["name"]]
        assert (each["dtype"], tuple(each["dimensions"]), each["nbytes"]) == (dtype, dimensions, len(elements))
        assert (folder / each["file"]).read_bytes()[each["offset"] :][: each["nbytes"]] == elements
    assert {type: tuple(numbers.values()) for type, numbers in found["types"].items()} == {
        "U8": (1, 4096, 4096),
        "BF16": (12, 1536, 3072),
        "F32": (12, 96, 384),
        "I64": (1, 1, 8),
    }
    if "index" in name:
        assert found["index"] == {"metadata": {"total_size": 7576}}
        assert [each["file"] for each in found["files"]] == [f"part-{n}.safetensors" for n in range(3)]
        assert found["files"][1]["metadata"] == {"format": "pt", "seed": "7"}
        assert sum(each["tensors"] for each in found["files"]) == 26
    else:
        assert found["index"] is None and found["files"][0]["metadata"] == METADATA
        assert found["tensors"][0]["layout"] == "f32[8,100]{1,0:T(8,128)}"
    by_size = [each["nbytes"] for each in json.loads(run("show", name, "--json", "--sort", "bytes").stdout)["tensors"]]
    assert by_size == sorted(by_size, reverse=True)


def test_hostile_text_stays_short_and_in_its_line(folder):
    long = "n" * 5000
    tensors = {"a\x1b[31m\nb": ("U8", (1,)), long: ("U8", (1,) * 64), "[red]x": ("U8", (0,))}
    metadata = {"k\ne\x07y": "v\n" * 500, **{f"key {number}": "" for number in range(500)}, "gpulayout:[red]x": long}
    (folder / "evil.safetensors").write_bytes(model(tensors, metadata))
    text = run("show", "evil.safetensors").stdout
    assert r"a\x1b[31m\nb" in text and "[red]x" in text and "\x1b" not in text and "\x07" not in text
    lines = text.splitlines()
    assert len(lines) < 20 + MOST_ROWS and max(map(len, lines)) < 6 * MOST_TEXT
    assert "and 401 more; --json has all" in lines
    assert r"metadata  k\ne\x07y: v\nv\n" in text
    assert {each["name"] for each in json.loads(run("show", "evil.safetensors", "--json").stdout)["tensors"]} == {
        *tensors
    }


def test_a_model_without_tensors(folder):
    (folder / "none.safetensors").write_bytes(model({}, None))
    assert run("show", "none.safetensors").stdout == "none.safetensors\n0 tensors, 0 bytes\n"
    assert json.loads(run("show", "none.safetensors", "--json").stdout)["tensors"] == []


def test_many_tensors_are_a_few_rows(folder):
    tensors = {f"layers.{n}.experts.{m}.w{k}": ("U8", (k,)) for n in range(20) for m in range(30) for k in (1, 2, 3)}
    tensors |= {f"odd{'ab'[n % 2] * n}": ("U8", (n,)) for n in range(150)}
    (folder / "many.safetensors").write_bytes(model(tensors, None))
    said = run("show", "many.safetensors").stdout
    assert ["layers.{0..19}.experts.{0..29}.w2", "U8[2]", "600", "1200", "-", "-"] in rows(said)
    assert f"and {153 - MOST_ROWS} more; --top 153 lists all" in said and len(said.splitlines()) < MOST_ROWS + 10


@pytest.mark.parametrize(
    "options, said",
    [
        (["--sort", "waste"], "--sort waste does not suit a model, which is sorted by name or bytes"),
        (["--copies"], "--copies needs --hlo FILE"),
        (["--code", "c"], "--code needs a SHAPE or a FILE.npy"),
        (["--html", "x.html"], "--html needs a SHAPE or a FILE.npy"),
        (["--names", "ab"], "--names needs a SHAPE or a FILE.npy"),
        (["--overwrite"], "--overwrite needs --html FILE"),
        (["--hlo", "x.txt"], "give either a SHAPE, a FILE.npy, a model or --hlo FILE"),
    ],
)
def test_options_that_do_not_suit_a_model(folder, options, said):
    assert refusal("show", "m.safetensors", *options) == said


def test_a_program_is_not_sorted_by_name():
    said = "--sort name does not suit --hlo FILE, which is sorted by bytes, waste, saving, times or line"
    assert refusal("show", "--hlo", "x.txt", "--sort", "name") == said


def test_what_is_no_model_is_refused(folder):
    (folder / "bad.safetensors").write_bytes(b"\xff" * 100)
    assert "bad.safetensors: not a safetensors file" in failure("show", "bad.safetensors")
    os.unlink("part-1.safetensors")
    said = "m.safetensors.index.json: the index names 'part-1.safetensors', which is not beside it"
    assert failure("show", "m.safetensors.index.json") == said
    np.save("a.npy", np.zeros(2))
    os.rename("a.npy", "c.safetensors")
    assert "not a safetensors file" in failure("show", "c.safetensors")
