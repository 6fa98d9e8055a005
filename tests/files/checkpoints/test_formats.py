"""Whose file it is: a map that reads another format than the metadata says would turn every tensor wrongly."""

import os
import re

import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.header import read_contents
from gpulayout.files.checkpoints.kinds import FORMATS
from gpulayout.files.checkpoints.maps import read_map, ready_maps
from tests.support.command_line import failure, run
from tests.support.model_files import model

PAIRS = [(name, format) for name in ready_maps() for format in (*FORMATS, "np", "own", None)]


def given(folder, format):
    metadata = None if format is None else {"format": format}
    (folder / "a.safetensors").write_bytes(model({"bias": ("F32", (4,))}, metadata))
    return folder / "a.safetensors"


def format_of(path):
    with open(path, "rb") as stream:
        return read_contents("m", stream).metadata["format"]


@pytest.mark.parametrize("name, format", PAIRS)
def test_a_map_is_for_files_of_its_own_format(tmp_path, name, format):
    file, out = given(tmp_path, format), tmp_path / "b.safetensors"
    sets = read_map(name)
    if format not in FORMATS or format in sets.reads:
        gl.relayout_file(file, out, tensors=name)
    else:
        with pytest.raises(gl.LayoutError) as caught:
            gl.relayout_file(file, out, tensors=name)
        assert os.listdir(tmp_path) == ["a.safetensors"]
        said = str(caught.value)
        assert said.startswith(f"{file}: its metadata says format {format}, which is {FORMATS[format]}'s, but the map ")
        readers = [each for each in ready_maps() if format in read_map(each).reads]
        assert f"{' or '.join(readers)} reads {format}." in said
        assert said.endswith(f"write assume={{r'format': '{sets.reads[0]}'}}")
        gl.relayout_file(file, out, tensors=name, assume={"format": sets.reads[0]})
    assert format_of(out) == sets.metadata["format"]


@pytest.mark.parametrize("format", FORMATS)
def test_capital_letters_say_the_same_format(tmp_path, format):
    for written in format.upper(), format.capitalize():
        file, out = given(tmp_path, written), tmp_path / "b.safetensors"
        for name in ready_maps():
            if format in read_map(name).reads:
                gl.relayout_file(file, out, tensors=name, overwrite=True)
                gl.relayout_file(file, out, tensors=name, overwrite=True, assume={"format": written})
            else:
                with pytest.raises(
                    gl.LayoutError, match=f"its metadata says format {written}, which is {FORMATS[format]}"
                ):
                    gl.relayout_file(file, out, tensors=name, overwrite=True)


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_that_the_caller_says_is_not_said_to_be_the_metadata(tmp_path, format):
    file = given(tmp_path, None)
    for name in ready_maps():
        reads = read_map(name).reads
        if format not in reads:
            with pytest.raises(gl.LayoutError) as caught:
                gl.relayout_file(file, tmp_path / "b.safetensors", tensors=name, assume={"format": format})
            said = str(caught.value)
            assert said.startswith(f"{file}: assume={{r'format': '{format}'}} says format {format}, which is ")
            assert "metadata" not in said and said.endswith(
                f"If that is wrong, write assume={{r'format': '{reads[0]}'}}"
            )


STRICT = [(first, second) for first in ready_maps() for second in ready_maps()]


@pytest.mark.parametrize("first, second", STRICT)
def test_one_map_is_for_one_file(tmp_path, first, second):
    with pytest.raises(
        gl.LayoutError, match=f"^the map {first} and the map {second} both want a rule for .*: give one$"
    ):
        gl.relayout_file(given(tmp_path, None), tmp_path / "b.safetensors", tensors=[first, {"x": "C"}, second])
    (tmp_path / "my.toml").write_text("[[tensor]]\nmatch = 'bias'\nname = 'b'\n")  # not strict: beside any map
    gl.relayout_file(given(tmp_path, None), tmp_path / "b.safetensors", tensors=[tmp_path / "my.toml", first])


WORDS = ["torch", "flax", "keras", "mlx"]


@pytest.mark.parametrize("name", [f"{a}-to-{b}" for a in WORDS for b in WORDS] + ["tf-to-torch", "torch-to-jax", "x"])
def test_a_map_that_is_not_there_is_not_taken_for_another(name):
    if name not in ready_maps():
        with pytest.raises(
            gl.LayoutError, match=f"'{name}' is not a ready map: they are flax-to-torch, .*; a file ends in"
        ):
            read_map(name)


@pytest.mark.parametrize("name", [*ready_maps()])
def test_a_misspelt_map_is_answered_with_the_map(name):
    first, second = name.split("-to-")
    for wrong in f"{first}-{second}", f"{first}_to_{second}", f"{first}2{second}", name[:-1], name.replace("r", "rr"):
        if wrong != name and wrong not in ready_maps():
            with pytest.raises(gl.LayoutError, match=f"'{wrong}' is not a ready map: did you mean '{name}'"):
                read_map(wrong)


@pytest.mark.parametrize("tensor", ["rms.scale_of", "it's.x", "a=b", "(a|b)+", "x" * 300])
@pytest.mark.parametrize("name", [*ready_maps()])
def test_a_tensor_without_a_rule_is_answered_with_a_rule(tmp_path, name, tensor):
    (tmp_path / "a.safetensors").write_bytes(model({tensor: ("F32", (4,)), "other": ("F32", (4,))}, None))
    rules: list = []
    for _ in range(2):
        with pytest.raises(gl.LayoutError, match=f"^the map {name} has no rule for tensor ") as caught:
            gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors=[*rules, name])
        drop, keep = re.findall(r"'([^']*=(?:drop|keep))'", str(caught.value).partition("add one of your own")[2])
        rules.append(drop if rules else keep)
    done = gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors=[*rules, name])
    assert [each.new_name for each in done.tensors][1] is None
    assert not done.tensors[0].moved and done.tensors[0].new_name is not None


@pytest.mark.parametrize("name", [*ready_maps()])
def test_the_result_of_a_map_says_what_the_map_back_reads(tmp_path, name):
    source, target = name.split("-to-")
    gl.relayout_file(given(tmp_path, None), tmp_path / "b.safetensors", tensors=name)
    gl.relayout_file(tmp_path / "b.safetensors", tmp_path / "c.safetensors", tensors=f"{target}-to-{source}")
    with pytest.raises(gl.LayoutError, match="its metadata says format"):
        gl.relayout_file(tmp_path / "b.safetensors", tmp_path / "d.safetensors", tensors=name)


def test_maps_of_ones_own_may_say_what_they_read(tmp_path):
    (tmp_path / "my.toml").write_text("reads = ['mlx', 'pt']")
    file, out = given(tmp_path, "flax"), tmp_path / "b.safetensors"
    with pytest.raises(gl.LayoutError, match="but .*my.toml reads mlx or pt.  flax-to-torch reads flax."):
        gl.relayout_file(file, out, tensors=tmp_path / "my.toml")
    gl.relayout_file(file, out, tensors={})  # rules alone are for every format


def test_every_shard_is_looked_at(tmp_path):
    import json

    for number, format in enumerate(("pt", "mlx")):
        (tmp_path / f"{number}.safetensors").write_bytes(model({f"{number}.bias": ("F32", (4,))}, {"format": format}))
    places = {f"{number}.bias": f"{number}.safetensors" for number in range(2)}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (tmp_path / "new").mkdir()
    with pytest.raises(gl.LayoutError, match=r"1.safetensors: its metadata says format mlx"):
        gl.relayout_file(
            tmp_path / "m.safetensors.index.json", tmp_path / "new" / "m.safetensors.index.json", tensors="torch-to-mlx"
        )


def test_the_command_says_which_map_and_how_to_insist(tmp_path):
    command = ["relayout", given(tmp_path, "mlx"), tmp_path / "b.safetensors", "--map", "torch-to-mlx"]
    said = failure(*command)
    assert "mlx-to-torch reads mlx.  If the metadata is wrong, write --assume 'format=pt'" in said
    run(*command, "--assume", "format=pt")
