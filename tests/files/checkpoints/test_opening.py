"""Checkpoints of one input and of several, opened."""

import json

import pytest

from gpulayout.files.checkpoints.opening import open_checkpoint
from gpulayout.files.errors import FileError
from tests.support.model_files import model


@pytest.fixture
def folder(tmp_path):
    """Two files, and an index of three shards, whose first one in the order of names is named last."""
    for name in ("b.safetensors", "a.safetensors", "2.safetensors", "1.safetensors", "3.safetensors"):
        (tmp_path / name).write_bytes(model({f"w{name[0]}": ("U8", (int(name[0], 16),))}, None))
    files = {f"w{number}": f"{number}.safetensors" for number in (3, 2, 1)}
    index = {"metadata": {"total_size": 6}, "weight_map": files, "more": True}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


INDEX = "m.safetensors.index.json"


@pytest.mark.parametrize(
    "names, files",
    [
        (["b.safetensors"], [["b"]]),
        ([INDEX], [["1", "2", "3"]]),
        (["b.safetensors", "a.safetensors"], [["b"], ["a"]]),
        (["b.safetensors", INDEX, "a.safetensors"], [["b"], ["1", "2", "3"], ["a"]]),
        ([INDEX, INDEX], [["1", "2", "3"]] * 2),
        (["a.safetensors", "a.safetensors"], [["a"], ["a"]]),
    ],
)
def test_the_files_of_every_input_in_the_order_of_the_inputs(folder, names, files):
    told = []
    with open_checkpoint([folder / name for name in names], lambda *stage: told.append(stage)) as opened:
        assert opened.paths == tuple(folder / name for name in names) and opened.path == opened.paths[0]
        assert [[shard.path.stem for shard in shards] for shards in opened.inputs] == files
        flat = [name for each in files for name in each]
        assert [[each.name for each in shard.contents.tensors] for shard in opened.shards] == [[f"w{n}"] for n in flat]
        assert (opened.index is None) == (names != [INDEX])
        streams = [shard.stream for shard in opened.shards]
        assert not any(stream.closed for stream in streams)
    assert all(stream.closed for stream in streams)
    assert told == [("headers read", number, len(flat)) for number in range(1, len(flat) + 1)]


def test_the_index_of_an_only_input_keeps_what_else_it_says(folder):
    with open_checkpoint([folder / INDEX]) as opened:
        assert opened.index == {"metadata": {"total_size": 6}, "more": True}


def test_messages_call_several_inputs_by_the_first(folder):
    for names, name in [(["a"], "a.safetensors"), (["b", "a"], "b.safetensors and 1 other input")]:
        with open_checkpoint([folder / f"{each}.safetensors" for each in names]) as opened:
            assert opened.name == f"{folder / name}"


def test_every_input_is_checked(folder):
    (folder / "bad.safetensors").write_bytes(b"\xff" * 100)
    (folder / "no.safetensors.index.json").write_text('{"weight_map": {"v": "1.safetensors"}}')
    (folder / "x.gguf").write_bytes(b"GGUF" + bytes(60))
    for name, problem in [
        ("bad.safetensors", "not a safetensors file"),
        ("x.gguf", "version 0 of GGUF"),
        ("no.safetensors.index.json", "tensor 'w1' is in 1.safetensors, but not in the index"),
    ]:
        for names in (["a.safetensors", name], [name, "a.safetensors"], [INDEX, name]):
            with pytest.raises(FileError, match=problem), open_checkpoint([folder / each for each in names]):
                raise AssertionError("opened")
    with pytest.raises(FileNotFoundError), open_checkpoint([folder / INDEX, folder / "none.safetensors"]):
        raise AssertionError("opened")
