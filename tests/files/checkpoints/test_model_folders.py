"""Folders as models: which file is meant, what a new folder gets, and that it appears whole or not at all."""

import contextlib
import json
import os

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.model_folders import is_model_folder, model_in
from tests.support.command_line import failure, refusal, run
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS
FIRST, SECOND = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
INDEX = "model.safetensors.index.json"


def save(path, **tensors):
    from safetensors.numpy import save_file

    save_file(tensors, path)


def tensors_in(path):
    from safetensors.numpy import load_file

    return load_file(path)


@pytest.fixture
def hub(tmp_path):
    """A download of a model in two shards, with all that hubs put beside."""
    folder = tmp_path / "hub"
    (folder / "original").mkdir(parents=True)
    save(folder / FIRST, a=np.arange(6, dtype=np.float32).reshape(2, 3))
    save(folder / SECOND, b=np.ones(4, np.float16))
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": FIRST, "b": SECOND}}
    (folder / INDEX).write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "x"}')
    for name in ("tokenizer.json", "merges.txt", "README.md", "pytorch_model.bin", "model.gguf", ".gitattributes"):
        (folder / name).write_text(name)
    (folder / "out.safetensors.gpulayout-partial-0123456789abcdef").write_text("")
    return folder


def test_a_whole_folder_becomes_one(hub, tmp_path):
    done = gl.relayout_file(hub, tmp_path / "new", tensors={"a": "i o -> o i"})
    names = sorted(each.name for each in (tmp_path / "new").iterdir())
    assert names == sorted([FIRST, SECOND, INDEX, "config.json", "tokenizer.json", "merges.txt", "README.md"])
    assert (tmp_path / "new" / "merges.txt").read_text() == "merges.txt"
    assert (tmp_path / "new" / "config.json").read_bytes() == (hub / "config.json").read_bytes()
    np.testing.assert_array_equal(tensors_in(tmp_path / "new" / FIRST)["a"], np.arange(6).reshape(2, 3).T)
    assert json.loads((tmp_path / "new" / INDEX).read_text())["weight_map"] == {"a": FIRST, "b": SECOND}
    assert [each.moved for each in done.tensors] == [True, False]


def test_links_of_a_hubs_cache_are_followed(hub, tmp_path):
    """The cache of Hugging Face's hub has links to files with hashes for names."""
    cache = tmp_path / "snapshot"
    cache.mkdir()
    for name in (FIRST, SECOND, INDEX, "config.json", "tokenizer.json"):
        (cache / name).symlink_to(hub / name)
    gl.relayout_file(cache, tmp_path / "new", tensors={})
    assert not any(each.is_symlink() for each in (tmp_path / "new").iterdir())
    assert (tmp_path / "new" / "tokenizer.json").read_text() == "tokenizer.json"


def test_a_folder_becomes_a_file_and_a_file_goes_into_a_folder(hub, tmp_path):
    gl.relayout_file(hub, tmp_path / "whole.safetensors", tensors={})
    assert sorted(tensors_in(tmp_path / "whole.safetensors")) == ["a", "b"]
    (tmp_path / "new").mkdir()
    gl.relayout_file(hub / FIRST, tmp_path / "new", tensors={})
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        "config.json",
        FIRST,
    ]  # the folder was not named


def test_folders_on_the_command_line(hub, tmp_path):
    shown = run("show", hub).stdout
    assert shown.startswith(f"{hub / INDEX}\n2 tensors in 2 files")
    run("relayout", hub, tmp_path / "packed", "--tensor", "a={0,1}")
    run("unpack", tmp_path / "packed", tmp_path / "back")
    np.testing.assert_array_equal(tensors_in(tmp_path / "back" / FIRST)["a"], np.arange(6).reshape(2, 3))
    dry = run("relayout", hub, tmp_path / "new", "--tensor", "a={0,1}", "--dry-run")
    assert "dry run: nothing was written" in dry.stdout + dry.stderr and not (tmp_path / "new").exists()
    said = json.loads(run("relayout", hub, tmp_path / "new", "--tensor", "a={0,1}", "--json").stdout)
    assert sorted(said["files"]) == [str(tmp_path / "new" / name) for name in (FIRST, SECOND)]
    assert str(tmp_path / "new" / "merges.txt") in said["other_files"]


@pytest.mark.parametrize(
    "names, model",
    [
        (["model.safetensors"], "model.safetensors"),
        (["weights.safetensors"], "weights.safetensors"),
        (["model.safetensors", "consolidated.safetensors"], "model.safetensors"),
        ([INDEX, FIRST, SECOND, "consolidated.safetensors"], INDEX),
        (["a.safetensors.index.json", "model.safetensors", INDEX], INDEX),
        (["a.safetensors", "b.safetensors"], None),
        (["a.safetensors.index.json", "b.safetensors.index.json"], None),
        (["config.json", "model.bin"], None),
        ([], None),
    ],
)
def test_the_model_in_a_folder(tmp_path, names, model):
    for name in names:
        (tmp_path / name).write_text("")
    assert is_model_folder(tmp_path) == any(".safetensors" in name for name in names)
    if model is not None:
        assert model_in(tmp_path) == tmp_path / model
    else:
        with pytest.raises(
            ValueError, match="2 models: write one of them" if names[1:] and "a" in names[0][0] else "none"
        ):
            model_in(tmp_path)


def test_what_must_not_be_overwritten_stays(hub, tmp_path):
    new = tmp_path / "new"
    gl.relayout_file(hub, new, tensors={})
    with pytest.raises(FileExistsError, match="the file exists; overwrite=True"):
        gl.relayout_file(hub, new, tensors={"a": "scale=2"})
    assert tensors_in(new / FIRST)["a"].sum() == 15
    (new / "merges.txt").write_text("other")
    gl.relayout_file(hub, new, tensors={"a": "scale=2"}, overwrite=True)
    assert tensors_in(new / FIRST)["a"].sum() == 30 and (new / "merges.txt").read_text() == "merges.txt"
    with pytest.raises(ValueError, match="input and output are the same file"):
        gl.relayout_file(hub, hub, tensors={}, overwrite=True)
    os.symlink(hub, tmp_path / "link")
    with pytest.raises(ValueError, match="input and output are the same"):
        gl.relayout_file(hub, tmp_path / "link", tensors={}, overwrite=True)


def test_files_of_another_model_in_the_new_folder_are_an_error(hub, tmp_path):
    """Loaders read all files of a folder, or those of its index."""
    (tmp_path / "new").mkdir()
    save(tmp_path / "new" / "model.safetensors", old=np.ones(1))
    with pytest.raises(
        ValueError, match="it has model.safetensors, a file of another model that a loader would read too"
    ):
        gl.relayout_file(hub, tmp_path / "new", tensors={}, overwrite=True)
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("out", ["nowhere/new", "hub/config.json/new", "hub/config.json"])
def test_a_folder_that_cannot_be_made(hub, tmp_path, out):
    with pytest.raises(ValueError, match="there is no folder|this is a file, and the result is a folder"):
        gl.relayout_file(hub, tmp_path / out, tensors={})


def test_nothing_is_left_of_a_folder_after_an_error(hub, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gl.relayout_file(hub, tmp_path / "new", tensors={"a": "i o -> o i"}, progress=stop)
    with pytest.raises(gl.LayoutError):
        gl.relayout_file(hub, tmp_path / "new", tensors={"a": "i o k -> o i k"})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hub"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_an_old_folder_stays_as_it_was_when_the_new_one_fails_at_any_file(hub, tmp_path, monkeypatch, error):
    """The last moment that can fail is when the names change, one after the other."""
    new = tmp_path / "new"
    gl.relayout_file(hub, new, tensors={})
    before = {each.name: each.read_bytes() for each in new.iterdir()}
    (hub / "merges.txt").write_text("other")
    for name in ("fsync", "replace"):
        own, failed = getattr(os, name), 0
        while True:
            calls = iter(range(failed))

            def once(*args, own=own, calls=calls, **keywords):
                if next(calls, None) is None and not raised:
                    raised.append(error)
                    raise error
                return own(*args, **keywords)

            raised = []
            with monkeypatch.context() as patched, contextlib.suppress(OSError, KeyboardInterrupt):
                patched.setattr(os, name, once)
                gl.relayout_file(hub, new, tensors={"a": "scale=2"}, overwrite=True)
                if not raised:
                    break
                gl.relayout_file(hub, new, tensors={}, overwrite=True)  # the folder's own fsync may fail
                (new / "merges.txt").write_bytes(before["merges.txt"])
            failed += 1
            assert {each.name: each.read_bytes() for each in new.iterdir()} == before, (name, failed)
        assert failed > 6
        gl.relayout_file(hub, new, tensors={}, overwrite=True)
        before = {each.name: each.read_bytes() for each in new.iterdir()}


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_the_new_folder_never_leads_to_what_is_read(hub, tmp_path, link):
    for name in ("config.json", "merges.txt", SECOND):
        new = tmp_path / f"new-{name}"
        new.mkdir()
        link(hub / name, new / name)
        before = (hub / name).read_bytes()
        with pytest.raises(ValueError, match="input and output are the same file"):
            gl.relayout_file(hub, new, tensors={"a": "scale=2"}, overwrite=True)
        assert (hub / name).read_bytes() == before


# ---- folders in which something else is --------------------------------------------------------------------------


@pytest.mark.parametrize("left", [[FIRST, SECOND], [SECOND], [FIRST, SECOND, "consolidated.safetensors"]])
def test_shards_without_their_index_are_no_model(hub, tmp_path, left):
    os.unlink(hub / INDEX)
    save(hub / "consolidated.safetensors", c=np.ones(1))
    for name in {FIRST, SECOND, "consolidated.safetensors"} - {*left}:
        os.unlink(hub / name)
    said = f"{left[0]} is one of several shards, and their index, {INDEX}, is missing: is the download complete?"
    if len(left) == 3:
        said = said.replace(left[0], FIRST)
    assert failure("relayout", hub, tmp_path / "new", "--tensor", ".*=keep") == f"{hub}: {said}"
    save(hub / "model.safetensors", whole=np.ones(1))
    assert model_in(hub) == hub / "model.safetensors"


def test_the_only_shard_of_one_needs_no_index(tmp_path):
    name = "model-00001-of-00001.safetensors"
    save(tmp_path / name, a=np.ones(1))
    assert model_in(tmp_path) == tmp_path / name


@pytest.mark.parametrize("names", ["model-rank-{}-part-0.safetensors", "rank{}.safetensors"])
def test_files_of_ranks_are_called_so(tmp_path, names):
    for rank in range(2):
        save(tmp_path / names.format(rank), a=np.ones(1))
    said = failure("relayout", tmp_path, tmp_path / "new", "--recipe", "bf16-to-fp8-blocks")
    assert said.startswith(f"{tmp_path}: this folder has the files of ranks: the recipe llama-from-tp makes one model")
    assert str(tmp_path / names.format(0)) in said


@pytest.mark.parametrize("main", [None, "0abc", "gone", "../snapshots/0abc"])
def test_a_folder_of_the_hubs_cache_leads_to_its_snapshot(hub, tmp_path, main):
    cache = tmp_path / "models--A--B"
    for name in ("refs", "blobs", "snapshots"):
        (cache / name).mkdir(parents=True)
    for commit in ("0abb", "0abc"):
        os.symlink(hub, cache / "snapshots" / commit)
    if main is not None:
        (cache / "refs" / "main").write_text(main + "\n")
    snapshot = cache / "snapshots" / ("0abc" if main == "0abc" else "0abb")
    said = f"{cache}: this is a folder of a hub's cache: write the snapshot in it, {snapshot}"
    assert failure("relayout", cache, tmp_path / "new", "--recipe", "bf16-to-fp8-blocks") == said
    assert said in refusal("show", cache)
    with pytest.raises(ValueError, match="of a hub's cache"):
        gl.relayout_file(cache, tmp_path / "new", recipe="bf16-to-fp8-blocks")
    run("relayout", snapshot, tmp_path / "new", "--tensor", ".*=keep")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "flax_model.msgpack"])
def test_a_folder_with_a_model_in_another_format_gets_the_line_of_python(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(100))
    (tmp_path / "training_args.bin").write_bytes(bytes(10))
    said = failure("relayout", tmp_path, tmp_path / "new", "--recipe", "bf16-to-fp8-blocks")
    assert said.startswith(
        f"{tmp_path}: this is a folder, and none of its files ends in .safetensors or .npy; {name} is"
    )
    assert ".save_file(" in said and said.endswith(" makes a model of it that can be read")


def test_the_report_says_what_was_not_copied(hub, tmp_path):
    (hub / ".cache").mkdir()
    (hub / "consolidated.safetensors").write_text("")
    command = ["relayout", hub, tmp_path / "new", "--tensor", ".*=keep", "--overwrite"]
    for options in (["--dry-run"], []):
        lines = run(*command, *options).stdout.splitlines()
        assert "not copied: consolidated.safetensors, model.gguf, pytorch_model.bin and 3 more" in lines
    said = json.loads(run(*command, "--json").stdout)
    assert said["not_copied"][3:] == ["original/", ".gitattributes", ".cache/"]
    inside = ["relayout", tmp_path / "new", tmp_path / "new" / "inside", "--tensor", ".*=keep"]
    assert "not copied" not in run(*inside).stdout
    whole = run("relayout", hub, tmp_path / "whole.safetensors", "--tensor", ".*=keep")
    assert "not copied" not in whole.stdout


# ---- downloads that are not complete -----------------------------------------------------------------------------

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * 'a'}\nsize 9876543210\n"
RECIPE = ["--recipe", "bf16-to-fp8-blocks"]


@pytest.mark.parametrize("options", [["--tensor", ".*=keep"], RECIPE])
@pytest.mark.parametrize("name", [FIRST, SECOND, INDEX, "config.json", "tokenizer.json", "merges.txt"])
def test_a_pointer_of_git_lfs_is_an_error_and_is_not_copied(hub, tmp_path, name, options):
    (hub / name).write_text(POINTER)
    if options is RECIPE:
        options = [*RECIPE, "--allow-unmatched"]  # no tensor here is one of attention
    said = f"{hub / name}: this is a pointer of git-lfs, not the file itself: git lfs pull downloads it"
    assert failure("relayout", hub, tmp_path / "new", *options) == said
    assert not (tmp_path / "new").exists()


def test_a_gguf_file_that_is_a_pointer(tmp_path):
    (tmp_path / "a.gguf").write_text(POINTER)
    said = failure("relayout", tmp_path / "a.gguf", tmp_path / "new.safetensors", "--tensor", ".*=keep")
    assert said.startswith(f"{tmp_path / 'a.gguf'}: this is a pointer of git-lfs")


def test_small_files_that_only_speak_of_git_lfs_are_copied(hub, tmp_path):
    (hub / "README.md").write_text(f"A pointer:\n{POINTER}")
    gl.relayout_file(hub, tmp_path / "new", tensors={})
    assert (tmp_path / "new" / "README.md").read_text().endswith(POINTER)


@pytest.mark.parametrize("name", [FIRST, INDEX, "config.json", "tokenizer.json", "merges.txt", "pytorch_model.bin"])
def test_a_link_whose_file_is_gone_is_an_error_where_it_is_wanted(hub, tmp_path, name):
    os.unlink(hub / name)
    os.symlink(tmp_path / "blob", hub / name)
    if name == "pytorch_model.bin":
        run("relayout", hub, tmp_path / "new", "--tensor", ".*=keep")
        return
    said = f"{hub / name}: a symbolic link to {tmp_path / 'blob'}, which does not exist: is the download complete?"
    assert failure("relayout", hub, tmp_path / "new", "--tensor", ".*=keep") == said
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf"])
def test_the_only_model_is_a_link_whose_file_is_gone(tmp_path, name):
    (tmp_path / "in").mkdir()
    os.symlink("blob", tmp_path / "in" / name)
    said = failure("relayout", tmp_path / "in", tmp_path / "new", *RECIPE)
    assert said == f"{tmp_path / 'in' / name}: a symbolic link to blob, which does not exist: is the download complete?"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files here")
def test_what_is_neither_a_file_nor_a_folder_is_not_copied_in_silence(hub, tmp_path):
    os.mkfifo(hub / "pipe")
    assert failure("relayout", hub, tmp_path / "new", "--tensor", ".*=keep") == f"{hub / 'pipe'}: not a regular file"


def test_no_file_of_a_large_folder_is_left_out(hub, tmp_path):
    for number in range(12_000):
        (hub / f"cache-{number}").mkdir()
    names = {f"tokens-{number}.json" for number in range(20)}
    for name in names:
        (hub / name).write_text(name)
    done = gl.relayout_file(hub, tmp_path / "new", tensors={})
    assert names < {each.name for each in (tmp_path / "new").iterdir()}
    assert names < {each.name for each in done.other_files}


@pytest.mark.parametrize("name", ["quantize_config.json", "quant_config.json"])
def test_a_config_of_another_quantisation_in_the_new_folder_is_an_error(hub, tmp_path, name):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_text("{}")
    with pytest.raises(ValueError, match=f"it has {name}, a file of another model that a loader would read too"):
        gl.relayout_file(hub, tmp_path / "new", tensors={}, overwrite=True)


def test_two_files_of_one_rank_are_an_error(tmp_path):
    (tmp_path / "ranks").mkdir()
    for name in ("model-rank-0-part-0", "model-rank-00-part-0"):
        save(tmp_path / "ranks" / f"{name}.safetensors", a=np.ones(2, np.float32))
    with pytest.raises(
        ValueError, match="model-rank-00-part-0.safetensors: this and model-rank-0-part-0.* the same part of rank 0"
    ):
        gl.relayout_file(tmp_path / "ranks", tmp_path / "new", recipe="llama-from-tp")
