"""Options that change the elements on the way: --dtype, --scale, --shift."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import gpulayout as gl
from gpulayout.cli.main import commands


def run(*args, code=0):
    result = CliRunner().invoke(commands, list(map(str, args)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def picture(tmp_path):
    array = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    np.save(tmp_path / "in.npy", array)
    return array, tmp_path / "in.npy", tmp_path / "out.npy"


OPTIONS = ["--dtype", "f32", "--scale", "0.5,1,2", "--shift", "-1"]
KEYWORDS = {"dtype": "f32", "scale": [0.5, 1, 2], "shift": -1}


@pytest.mark.parametrize("command", ["pack", "relayout"])
def test_a_file_is_what_the_library_makes(picture, command):
    array, before, after = picture
    run(command, before, after, "--to", "h w c -> c h w", *OPTIONS)
    assert np.load(after).tobytes() == gl.pack(array, "h w c -> c h w", **KEYWORDS).tobytes()


def test_blocks_and_a_divisor(picture):
    array, before, after = picture
    run("pack", before, after, "--to", "F", "--dtype", "f16", "--scale", "3,7", "--divide", "--block", "2")
    assert np.load(after).tobytes() == gl.pack(array, "F", dtype="f16", scale=[3, 7], divide=True, block=2).tobytes()
    wide = ["explain", "f32[4,12]", "F", "--scale", "1,2,3"]
    assert "multiply by 3 numbers" in run(*wide, "--block", "4").output
    assert "say how many share one, such as --block 4, and give it 2 dimensions\n" in run(*wide, code=1).output
    said = run("explain", "f32[4,12]", "F", "--scale", "1,2,3,4", code=1).output
    assert said.endswith("; for a number for each index of dimension 0, call gl.relayout_file with an array\n")
    assert "error: --divide is about scale" in run("explain", "f32[4,12]", "F", "--divide", code=1).output


@pytest.mark.parametrize(
    "dtype, options, keywords",
    [
        (
            "u1",
            ["--dtype", "f16", "--unit", "--mean", "0.4,0.5,0.6", "--std", "0.2"],
            {"dtype": "f16", "unit": True, "mean": [0.4, 0.5, 0.6], "std": 0.2},
        ),
        ("f4", ["--dtype", "u4", "--scale", "9", "--zero-point", "8"], {"dtype": "u4", "scale": 9, "zero_point": 8}),
        (
            "u1",
            ["--dtype", "bf16", "--scale", "9", "--zero-point", "1,2,3"],
            {"dtype": "bf16", "scale": 9, "zero_point": [1, 2, 3]},
        ),
        (
            "f4",
            ["--dtype", "f8e4m3fn", "--scale", "9", "--no-saturate"],
            {"dtype": "f8e4m3fn", "scale": 9, "saturate": False},
        ),
    ],
)
def test_every_form_of_arithmetic(picture, dtype, options, keywords):
    array, before, after = picture[0].astype(dtype), *picture[1:]
    np.save(before, array)
    run("relayout", before, after, "--to", "F", *options)
    assert np.load(after).tobytes(order="A") == gl.pack(array, "F", **keywords).tobytes()
    shape = gl.Shape(array.dtype, array.shape)
    changed = next(line for line in gl.plan(shape, "F", **keywords).explain().splitlines() if "changed" in line)
    assert changed in run("explain", str(shape), "F", *options).output


def test_unpack(picture):
    array, before, after = picture
    np.save(before, gl.pack(array, "F"))
    run("unpack", before, after, "--from", "u8[4,6,3]{0,1,2}", *OPTIONS)
    assert np.array_equal(np.load(after), gl.transpose(array, (0, 1, 2), **KEYWORDS))


def test_a_dry_run_and_json_name_the_arithmetic(picture):
    _, before, after = picture
    said = "scale and shift from u8 in f32: multiply by 3 numbers, add 1 number; to f32"
    assert f"  changed  {said}\n" in run("pack", before, after, "--to", "F", *OPTIONS, "--dry-run").output
    assert json.loads(run("pack", before, after, "--to", "F", *OPTIONS, "--json").output)["plan"]["arithmetic"] == said
    assert f"  changed  {said}\n" in run("explain", "u8[4,6,3]", "F", *OPTIONS, "--memory", "1M").output
    assert json.loads(run("explain", "u8[4,6,3]", "F", *OPTIONS, "--json").output)["arithmetic"] == said
    assert json.loads(run("explain", "u8[4,6,3]", "F", "--json").output)["arithmetic"] is None
    assert said in run("explain", "u8[4,6,3]", "F", *OPTIONS, "--html", "-").output


@pytest.mark.parametrize(
    "options, code, message",
    [
        (["--dtype", "f33"], 2, "Invalid value for '--dtype': "),
        (["--scale", "1,x"], 2, "Invalid value for '--scale': '1,x' is not a number, or several such as 0.5,1,2"),
        (["--zero-point", "1.5"], 2, "'1.5' is not a whole number, or several such as 8,7,8"),
        (["--dtype", "f32", "--zero-point", "3"], 1, "zero_point is part of a quantisation, which needs scale too"),
        (["--dtype", "f32", "--mean", "3", "--shift", "1"], 1, "shift and mean do not go together"),
        (["--dtype", "s8", "--no-saturate"], 1, "error: --no-saturate for s8: s8 has no nan"),
        (["--scale", "2"], 1, "write dtype, such as --dtype f32, or --dtype u8 if you mean that"),
        (["--dtype", "c64"], 1, "gpulayout: error: no cast from u8 to c64"),
        (["--dtype", "f32", "--scale", "1,2"], 1, "its size 2 is not the size 3 of dimension 2"),
    ],
)
def test_errors(picture, options, code, message):
    _, before, after = picture
    for args in (["relayout", before, after, "--to", "F"], ["explain", "u8[4,6,3]", "F"]):
        assert message in run(*args, *options, code=code).output
    assert not after.exists()


def test_a_change_of_type_says_the_option():
    assert "; --dtype f32 converts the elements on the way" in run("explain", "u8[3]", "f32[3]", code=1).output


@pytest.mark.parametrize("what", ["dtype=i8", "flip=a", "dtype=s8; scale=0.1; blok=2", "name=\\0; dtype=f16"])
def test_what_the_user_wrote_is_quoted_as_it_is(tmp_path, what):
    (tmp_path / "a.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    result = run("relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--tensor", f"up.*={what}", code=2)
    assert f"the rule 'up.*={what}'" in result.output and "--dtype" not in result.output, result.output
