"""Every command of docs/kernel-weights.md, on small checkpoints, beside the formats' own definitions in NumPy."""

import json
import pathlib
import re
import shlex

import numpy as np
import pytest

from gpulayout.files.checkpoints.header import DTYPES
from tests.support.command_line import run
from tests.support.model_files import entry, judged, raw
from tests.support.recipe_cases import CASES, VARIANTS, fp8_to_plain, gptq_layer

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "kernel-weights.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(re.sub(r"\\\n", " ", text))[1:]
    for text in re.findall(r"^    (gpulayout relayout .+(?:\n    .+)*)", PAGE, flags=re.MULTILINE)
]
WORDS = {each.dtype: word for word, each in DTYPES.items() if each is not None and word not in ("F4", "BOOL")}
INDEX = "model.safetensors.index.json"


def key_of(command):
    """The names of the files of a command, the new one last."""
    return " ".join(word.removesuffix(".safetensors") for word in command if word.endswith(".safetensors"))


def write(path, tensors):
    """A file with arrays."""
    header, data = {}, b""
    for name, array in tensors.items():
        more = array.tobytes()
        header[name] = entry(WORDS[array.dtype], list(array.shape), len(data), len(data) + len(more))
        data += more
    path.write_bytes(raw(header, data))


def check(path, tensors):
    """The file has these arrays, as the format's own library finds them, and no others."""
    found = judged(path.read_bytes())
    right = {name: (WORDS[array.dtype], array.shape, array.tobytes()) for name, array in tensors.items()}
    assert {name: each[:2] for name, each in found.items()} == {name: each[:2] for name, each in right.items()}
    assert [name for name in right if found[name] != right[name]] == []


def relayout(folder, command, old, new):
    """Run a command in a folder, with these old files, and compare the new one."""
    pytest.importorskip("safetensors")
    *inputs, made = [folder / f"{name}.safetensors" for name in key_of(command).split()]
    for path, tensors in zip(inputs, old, strict=True):
        write(path, tensors)
    run(*(str(folder / word) if word.endswith(".safetensors") else word for word in command))
    check(made, new)


def test_every_command_of_the_page_has_a_case():
    assert sorted(map(key_of, COMMANDS)) == sorted(CASES)


@pytest.mark.parametrize("memory", [[], ["--memory", "96K"]], ids=["", "96K"])
@pytest.mark.parametrize("command", COMMANDS, ids=key_of)
def test_the_new_file_is_what_the_formats_say(command, memory, tmp_path):
    relayout(tmp_path, command + memory, *CASES[key_of(command)](np.random.default_rng(7)))


@pytest.mark.parametrize("case", VARIANTS, ids=lambda case: case.__name__)
def test_so_is_that_of_other_rules(case, tmp_path):
    rules = [word for rule in VARIANTS[case] for word in ("--tensor", rule)]
    relayout(tmp_path, ["relayout", "old.safetensors", "new.safetensors", *rules], *case(np.random.default_rng(7)))


def rules_of(key):
    """What the command of the page says behind its files."""
    command = next(each for each in COMMANDS if key_of(each) == key)
    return command[command.index("--tensor") :]


def test_a_factor_may_lie_in_another_shard(tmp_path):
    pytest.importorskip("safetensors")
    (old,), new = fp8_to_plain(np.random.default_rng(7))
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    names = {name: f"{number}.safetensors" for number, name in enumerate(old)}
    for name, shard in names.items():
        write(tmp_path / "old" / shard, {name: old[name]})
    (tmp_path / "old" / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    run("relayout", tmp_path / "old" / INDEX, tmp_path / "new" / INDEX, *rules_of("fp8 plain"))
    places = json.loads((tmp_path / "new" / INDEX).read_text())["weight_map"]
    assert places == {name: names[name] for name in new}
    for name, array in new.items():
        check(tmp_path / "new" / places[name], {name: array})


def test_a_zero_point_beyond_the_codes_is_refused(tmp_path):
    """GPTQ's 15 would be 16; it is what the 0 of a group became when 1 was taken from it."""
    tensors, *_ = gptq_layer(np.random.default_rng(7), "l")
    write(tmp_path / "a.safetensors", tensors | {"l.qzeros": np.full_like(tensors["l.qzeros"], -1)})
    told = run(
        "relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", *rules_of("gptq plain"), code=1
    ).output
    assert "zero_point 16 is outside the range of u4" in told and "l.qweight" in told
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("key", ["gptq marlin", "gptq fused", "gptq rank1", "gptq-experts stacked"])
def test_asymmetric_weights_do_not_become_marlin_s(tmp_path, key):
    (tensors,), _ = CASES[key](np.random.default_rng(7))
    name = [each for each in tensors if each.endswith(".qzeros")][-1]
    tensors[name] = tensors[name].copy()
    tensors[name][1, 3] ^= 0xF000  # 7 becomes 8
    write(tmp_path / "a.safetensors", tensors)
    told = run("relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", *rules_of(key), code=1).output
    assert f"{name}" in told and "the element at (1, 27) is 8, but" in told and "expects 7" in told
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_missing_factor_is_named(tmp_path):
    (old,), _ = fp8_to_plain(np.random.default_rng(7))
    old.pop("kv_a_proj_with_mqa.weight_scale_inv")
    write(tmp_path / "a.safetensors", old)
    told = run(
        "relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", *rules_of("fp8 plain"), code=1
    ).output
    assert "kv_a_proj_with_mqa.weight_scale_inv" in told
