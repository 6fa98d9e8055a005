"""A model file that is written from memory, and what becomes of its notes when it is moved on."""

import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.header import notes_of, plain_sides_of, read_contents
from gpulayout.files.checkpoints.new_model import NewTensor, check_new_model, new_model
from gpulayout.files.checkpoints.stored import Stored

TENSORS = [
    NewTensor("packed", Stored("U8", (24,), "f32[2,3]{0,1}"), '{"dtype":"float32","sizes":[2,3]}'),
    NewTensor("plain", Stored("F32", (2, 2), None)),
    NewTensor("none", Stored("I32", (0, 4), None)),
]
CONTENT = {"packed": bytes(range(24)), "plain": bytes(range(100, 116)), "none": b""}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    with new_model(path, TENSORS, {"format": "pt"}, overwrite=False) as write:
        for name, content in CONTENT.items():
            for start in range(0, len(content), 5):  # in any parts
                write(name, start, memoryview(content[start : start + 5]))
    return path


def contents(path):
    with open(path, "rb") as stream:
        read = read_contents(str(path), stream)
        whole = path.read_bytes()[read.start :]
        return read.metadata, {each.name: whole[each.begin : each.end] for each in read.tensors}


def test_a_reader_finds_all_tensors_and_what_they_are(file):
    metadata, found = contents(file)
    assert found == CONTENT
    assert metadata["format"] == "pt" and notes_of(metadata) == {"packed": "f32[2,3]{0,1}"}
    assert plain_sides_of(metadata) == {"packed": '{"dtype":"float32","sizes":[2,3]}'}


# What a rule does to the packed tensor: its name then, and whether what is said of the plain one is still true.
MOVES = {
    "nothing": ({"plain": "{0,1}"}, {}, "packed", True),
    "another layout": ({"packed": "{1,0:T(2,4)}"}, {}, "packed", True),
    "another type": ({"packed": "dtype=f16"}, {}, "packed", False),
    "an array": ({"packed": "{1,0}"}, {}, "packed", False),
    "another name": ({"plain": "{0,1}"}, {"packed": "moved"}, "moved", True),
    "none": ({"packed": "drop"}, {}, None, False),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_is_said_of_the_plain_tensor_stays_while_it_is_true(file, tmp_path, move):
    rules, rename, name, stays = MOVES[move]
    out = tmp_path / "out.safetensors"
    gl.relayout_file(file, out, tensors=rules, rename=rename)
    metadata, found = contents(out)
    sides = {name: '{"dtype":"float32","sizes":[2,3]}'} if stays else {}
    sides |= {"plain": '{"dtype":"float32","sizes":[2,2]}'} if "plain" in rules else {}
    assert plain_sides_of(metadata) == sides and name in (None, *found)
    assert {*plain_sides_of(metadata)} <= {*notes_of(metadata)}
    unpacked = tmp_path / "unpacked.safetensors"
    gl.relayout_file(file, unpacked, unpack=True)
    metadata, _ = contents(unpacked)
    assert metadata == {"format": "pt"}


def test_it_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(RuntimeError, match="stopped"):
        with new_model(path, TENSORS, {}, overwrite=False) as write:
            write("plain", 0, memoryview(CONTENT["plain"]))
            raise RuntimeError("stopped")
    assert not [*tmp_path.iterdir()]


def test_names_that_a_new_model_cannot_have(file, tmp_path):
    check_new_model(file, overwrite=True)
    check_new_model(tmp_path / "other.safetensors", overwrite=False)
    with pytest.raises(FileExistsError, match="the file exists"):
        check_new_model(file, overwrite=False)
    for name, text in (("model.gguf", "a model does not become"), ("no/model.safetensors", "there is no folder")):
        with pytest.raises(ValueError, match=text):
            check_new_model(tmp_path / name, overwrite=False)
    with pytest.raises(ValueError, match="this is a folder"):
        check_new_model(tmp_path, overwrite=False)
