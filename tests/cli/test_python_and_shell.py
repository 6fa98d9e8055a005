"""`gl.relayout_file` and `gpulayout relayout` take the same, and a dry run of both says what the other does."""

import inspect
import json
import os

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cli.relayout import relayout
from gpulayout.requests.arithmetic import OPTIONS
from tests.support.command_line import run
from tests.support.model_files import model

CALLED = {  # keywords, and the options that say the same
    "file": ["files"],
    "out": ["files"],
    "tensors": ["tensor", "map"],
    "source": ["from_"],
    "target": ["to"],
    "max_bytes": ["memory"],
    "strict": ["no_strict"],
    "progress": ["quiet", "as_json"],
    "options": list(OPTIONS),
}


def test_every_keyword_has_an_option_and_every_option_a_keyword():
    keywords = [CALLED.get(name, [name]) for name in inspect.signature(gl.relayout_file).parameters]
    assert {name for names in keywords for name in names} == {each.name for each in relayout.params}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(2000, dtype=np.float32).reshape(40, 50))
    (tmp_path / "a.bin").write_bytes(bytes(24))
    (tmp_path / "a.safetensors").write_bytes(model({"d.kernel": ("F32", (3, 4)), "n": ("I64", ())}, None))
    return tmp_path


CALLS = [  # files, keywords, and the same as options
    (["a.npy", "b.npy"], {"target": "F"}, ["--to", "F"]),
    (["a.npy", "b.npy"], {"target": "F", "dtype": "f16", "scale": 2}, ["--to", "F", "--dtype", "f16", "--scale", "2"]),
    (["a.npy", "b.bin"], {"target": "{0,1}", "max_bytes": "100K"}, ["--to", "{0,1}", "--memory", "100K"]),
    (["a.npy", "b.npy"], {"target": "F", "scratch": "."}, ["--to", "F", "--scratch", "."]),
    (
        ["a.bin", "b.npy"],
        {"source": "u8[2,5]", "offset": 8, "strict": False},
        ["--unpack", "--from", "u8[2,5]", "--offset", "8", "--no-strict"],
    ),
    (
        ["a.bin", "b.npy"],
        {"source": "s16[12]", "byte_order": "big"},
        ["--unpack", "--from", "s16[12]", "--byte-order", "big"],
    ),
    (["a.npy", "b.npy"], {"source": "u8[24]", "target": "{0}", "raw": True}, []),
    (["a.npy", "b.npy"], {}, []),
    (["a.safetensors", "b.safetensors"], {"dtype": "bf16"}, ["--dtype", "bf16"]),
    (["a.safetensors", "b.safetensors"], {"tensors": {"n": "drop"}}, ["--tensor", "n=drop"]),
    (["a.safetensors", "b.safetensors"], {"tensors": {"x": "drop"}}, ["--tensor", "x=drop"]),
    (["a.safetensors", "a.safetensors"], {}, []),
]


def outcome(call, *arguments, **keywords):
    try:
        return call(*arguments, **keywords)
    except (ValueError, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("files, keywords, options", CALLS)
def test_a_dry_run_says_what_will_be_done_and_writes_nothing(folder, files, keywords, options):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    told = []
    dry = outcome(gl.relayout_file, *files, dry_run=True, progress=lambda *both: told.append(both), **keywords)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before and not told
    done = outcome(gl.relayout_file, *files, **keywords)
    if isinstance(done[0], type):
        assert dry == done
        return
    assert dry.seconds is None and isinstance(done.seconds, float) and dry == done._replace(seconds=None)
    (folder / files[1]).unlink()
    if options:
        found = json.loads(run("relayout", *files, *options, "--dry-run", "--json").stdout)
        assert found["dry_run"] and found["seconds"] is None
        if "tensors" in found:
            assert found["tensors"] == [
                json.loads(json.dumps(each._asdict(), default=os.path.relpath)) for each in dry.tensors
            ]
            assert found["bytes_written"] == dry.bytes_written
        else:
            assert (found["plan"]["source"], found["plan"]["target"]) == (
                str(dry.source),
                str(dry.target),
            )
            assert tuple(found["output_dimensions"]) == dry.dimensions
            assert tuple(each["blocks"] for each in found["passes"]) == dry.blocks


def test_a_dry_run_of_an_array_in_memory(folder):
    array = gl.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    dry = gl.relayout_file(array, "b.npy", target="F", dry_run=True)
    assert not (folder / "b.npy").exists()
    assert gl.relayout_file(array, "b.npy", target="F")._replace(seconds=None) == dry
    with pytest.raises(FileExistsError, match="b.npy: the file exists; overwrite=True replaces it"):
        gl.relayout_file(array, "b.npy", target="F", dry_run=True)
