"""`gpulayout catalogue`, and names of the catalogue in other commands."""

import json
import types

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import refusal, run

NAME = "cublas:block_scales"
FP4_SCALES = ["flashinfer:gate_up_scales", "flashinfer:shuffle_matrix_sf_a"]


def test_the_list_has_every_entry_in_a_line():
    lines = run("catalogue").stdout.strip("\n").splitlines()
    assert lines[0].split("  ")[0] == "layout" and len(lines) == 1 + len(gl.catalogue.entries())
    assert [line.split()[0] for line in lines[1:]] == [entry.call for entry in gl.catalogue.entries()]
    found = json.loads(run("catalogue", "--json").stdout)
    assert [entry["name"] for entry in found] == [entry.name for entry in gl.catalogue.entries()]


@pytest.mark.parametrize("entry", gl.catalogue.entries(), ids=lambda entry: entry.name)
def test_an_entry_is_shown_in_full(entry):
    text = " ".join(run("catalogue", entry.name).stdout.split())
    for part in (entry.summary, entry.about, entry.source, entry.judged_by, entry.stored, entry.refuses, *entry.types):
        assert " ".join(part.split()) in text
    assert ("unconfirmed" in text) == (not entry.confirmed)
    assert all(size.meaning in text for size in entry.sizes)


@pytest.mark.parametrize(
    "words, names",
    [
        ("scaled_mm scales", [NAME]),
        ("Tinygemm", ["torchao:int4_tensor_core"]),
        ("trtllm_bf16_moe", ["flashinfer:gate_up", "flashinfer:shuffle_matrix_a"]),
        ("fp4_block_scale_moe to_blocked", FP4_SCALES),
        ("awq_gemm", ["awq:qweight", "awq:qzeros"]),
        ("amx int8", ["onednn:BA16a64b4a"]),
    ],
)
def test_words_list_the_entries_that_have_all_of_them(words, names):
    assert [entry["name"] for entry in json.loads(run("catalogue", words, "--json").stdout)] == names
    lines = run("catalogue", words).stdout.strip("\n").splitlines()
    assert [line.split("[")[0] for line in lines[1:]] == names


def test_a_kernel_s_name_lists_all_its_entries():
    lines = run("catalogue", "marlin").stdout
    assert all(entry.call in lines for entry in gl.catalogue.entries() if entry.name.startswith("marlin:"))


def test_sizes_say_what_they_take():
    said = run("catalogue", f"{NAME}[200,10]").stdout
    assert "shape      f8e8m0fnu[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}\n" in said
    assert "buffer     3072 places, 3072 bytes\npadding    1072 bytes, 34.9%\n" in said
    found = json.loads(run("catalogue", f"{NAME}(dtype=u8)[3,128,4]", "--json").stdout)
    assert (found["buffer_size"], found["padding_nbytes"], found["name"]) == (1536, 0, NAME)


def test_the_owner_s_tensor_is_said():
    name = "marlin:weights(dtype=u8)[4096,4096]"
    assert "\ntensor     s32[rows/16,columns*bits/2]\n" in run("catalogue", "marlin:weights").stdout
    assert "\ntensor     s32[rows/16,columns*bits/2]; here s32[256,16384]\n" in run("catalogue", name).stdout
    found = json.loads(run("catalogue", name, "--json").stdout)
    assert found["owner_tensor"] == {"element_type": "s32", "dimensions": [256, 16384]}
    assert "\ntensor  " not in run("catalogue", f"{NAME}[200,10]").stdout
    assert json.loads(run("catalogue", f"{NAME}[200,10]", "--json").stdout)["owner_tensor"] is None


def test_other_commands_take_names(tmp_path):
    assert run("show", f"{NAME}[200,10]").stdout.startswith("f8e8m0fnu[200,10]{1,0:T(128,4)(32,4)(4,1,1,4)}\n")
    scales = np.arange(2000, dtype=np.uint8).reshape(200, 10)
    np.save(tmp_path / "in.npy", scales)
    run("pack", tmp_path / "in.npy", tmp_path / "packed.npy", "--to", NAME)
    packed = np.load(tmp_path / "packed.npy")
    np.testing.assert_array_equal(packed, gl.pack(scales, f"{NAME}(dtype=u8)[200,10]"), strict=True)
    run("unpack", tmp_path / "packed.npy", tmp_path / "back.npy", "--from", f"{NAME}(dtype=u8)[200,10]")
    np.testing.assert_array_equal(np.load(tmp_path / "back.npy"), scales, strict=True)
    run("relayout", tmp_path / "in.npy", tmp_path / "small.npy", "--to", NAME, "--dtype", "f8e4m3fn")
    assert np.load(tmp_path / "small.npy").nbytes == 3072
    assert json.loads(run("explain", "u8[200,10]", NAME, "--json").stdout)["target"].startswith(
        "u8[200,10]{1,0:T(128,4)"
    )


@pytest.mark.parametrize(
    "name, message",
    [
        ("cublas:block_scalse", "did you mean 'cublas:block_scales'?"),
        ("no_such_kernel", "'no_such_kernel' is not in the catalogue: owners are aiter, "),
        ("marlin:", "'marlin:' names no entry: write one of 'marlin:channel_scales', 'marlin:scales', "),
        ("cublas:block_scales(dtype=f99)[2,3]", "'f99' is neither an XLA name nor the name of a NumPy dtype"),
        ("cublas:block_scales[200]", "takes 2 sizes, rows and columns, but got 1: (200,)"),
        ("\x1b[31m", "is not in the catalogue"),
        ("", "'' is not in the catalogue"),
    ],
)
def test_wrong_names(name, message):
    assert message in refusal("catalogue", name)


def test_a_wrong_name_as_a_target_is_refused_before_a_file_is_opened(tmp_path):
    message = refusal("pack", tmp_path / "none.npy", tmp_path / "out.npy", "--to", "cublas:scales")
    assert "'cublas:scales' is not in the catalogue: did you mean 'cublas:block_scales'?" in message


@pytest.mark.parametrize("width", [20, 60, 100, 300])
def test_a_terminal_of_any_width_gets_no_blank_lines(width, monkeypatch):
    stdout = types.SimpleNamespace(isatty=lambda: True, encoding="utf-8")
    monkeypatch.setattr("gpulayout.cli.output.sys", types.SimpleNamespace(stdout=stdout))
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("catalogue", "marlin").stdout.strip("\n").splitlines()
    assert all(line.strip() for line in lines) and lines[0].startswith("layout")
    found = [entry for entry in gl.catalogue.entries() if entry.name.startswith("marlin:")]
    for entry in found:
        place = next(number for number, line in enumerate(lines) if line.startswith(entry.call))
        assert entry.summary in "".join(lines[place : place + 2])
