"""Whose file it is: a map that reads another format than the metadata says would turn every tensor wrongly."""

import os

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
