"""From a file for each rank to one for each rank of another number: every byte, and what is refused."""

import json
import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.checkpoints.rank_files import rank_names
from gpulayout.files.errors import FileError
from gpulayout.layout.errors import LayoutError
from tests.support.command_line import failure, refusal, run
from tests.support.effort import examples
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS
FUSED = [(0, 8), (100, 2), (200, 2)]  # the first number of q, k and v, and how many rows
OLD, NEW = "old${rank}.safetensors", "new${rank}.safetensors"
CUT = "shard=${rank}/${ranks}"
RULES = {"q": f"along=0; {CUT}", "o": f"along=1; {CUT}", "n": "keep"}


def save(path, tensors):
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)


def loaded(folder, names=NEW):
    """The tensors of the new files, rank after rank."""
    from safetensors.numpy import load_file

    paths = [folder / name for name in rank_names(names, 20)]
    return [load_file(path) for path in paths if path.exists()]


def same(found, right):
    assert len(found) == len(right)
    for one, two in zip(found, right):
        assert one.keys() == two.keys()
        for name in one:
            assert one[name].dtype == two[name].dtype and np.array_equal(one[name], two[name])


def ranks_of(model, ranks):
    """A model of `q`, cut along its rows, `o`, cut along its columns, and `n`, which all ranks have."""
    q, o = np.split(model["q"], ranks), np.split(model["o"], ranks, 1)
    return [{"q": q[rank], "o": o[rank], "n": model["n"]} for rank in range(ranks)]


@pytest.fixture
def model():
    o = np.arange(5 * 12, dtype=np.int16).reshape(5, 12)
    return {"q": np.arange(12 * 3, dtype=np.float32).reshape(12, 3), "o": o, "n": np.ones(3, np.float32)}


def save_ranks(folder, model, ranks, names=OLD):
    for name, tensors in zip(rank_names(names, ranks), ranks_of(model, ranks)):
        save(folder / name, tensors)


@pytest.mark.parametrize("old", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("new", [1, 2, 3, 4, 12])
def test_any_number_of_ranks_becomes_any_other(old, new, model, tmp_path):
    """From 10 ranks on their order is not that of the names."""
    save_ranks(tmp_path, model, old)
    done = gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(old, new), tensors=RULES)
    same(loaded(tmp_path), ranks_of(model, new))
    assert {each.file for each in done.tensors} == {tmp_path / name for name in rank_names(NEW, new)}
    assert done.bytes_written == sum(each.nbytes for rank in ranks_of(model, new) for each in rank.values())


def test_each_new_rank_reads_only_what_it_gets(model, tmp_path):
    save_ranks(tmp_path, model, 4)
    done = gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 2), tensors=RULES)
    assert done.bytes_read == done.bytes_written == model["q"].nbytes + model["o"].nbytes + 2 * model["n"].nbytes


def test_the_command_line_does_the_same(model, tmp_path):
    save_ranks(tmp_path, model, 4)
    rules = [text for name, rule in RULES.items() for text in ("--tensor", f"{name}={rule}")]
    asked = run("relayout", tmp_path / OLD, tmp_path / NEW, "--ranks", "4:2", "--dry-run", *rules)
    assert "4 inputs to 2 ranks" in asked.output and "new1.safetensors" in asked.output and not loaded(tmp_path)
    shown = run("relayout", tmp_path / OLD, tmp_path / NEW, "--ranks", "4:2", "--json", *rules)
    assert [os.path.basename(each) for each in json.loads(shown.output)["files"]] == rank_names(NEW, 2)
    same(loaded(tmp_path), ranks_of(model, 2))


def test_inputs_may_be_listed_and_folders_and_one_whole_model(model, tmp_path):
    save_ranks(tmp_path, model, 2)
    listed = [tmp_path / name for name in rank_names(OLD, 2)]
    gl.relayout_file(listed, tmp_path / "a${rank}.safetensors", ranks=3, tensors=RULES)
    for number, path in enumerate(listed):
        folder = tmp_path / f"mp_rank_0{number}"
        folder.mkdir()
        path.rename(folder / "model.safetensors")
    gl.relayout_file(tmp_path / "mp_rank_${rank}", tmp_path / "b${rank}.safetensors", ranks=(2, 3), tensors=RULES)
    save(tmp_path / "whole.safetensors", model)
    cuts = {"q": f"{CUT}; along=0", "o": f"{CUT}; along=1"}
    gl.relayout_file(tmp_path / "whole.safetensors", tmp_path / "c${rank}.safetensors", ranks=3, tensors=cuts)
    for letter in "abc":
        same(loaded(tmp_path, f"{letter}${{rank}}.safetensors"), ranks_of(model, 3))


def test_parts_of_a_rank_are_read_and_one_model_is_made(model, tmp_path):
    for rank, tensors in enumerate(ranks_of(model, 2)):
        save(tmp_path / f"r{rank}p0.safetensors", {"q": tensors["q"]})
        save(tmp_path / f"r{rank}p1.safetensors", {"o": tensors["o"], "n": tensors["n"]})
    parts = tmp_path / "r${rank}p${part}.safetensors"
    gl.relayout_file(parts, tmp_path / NEW, ranks=(2, 4), tensors=RULES)
    same(loaded(tmp_path), ranks_of(model, 4))
    gl.relayout_file(parts, tmp_path / "whole.safetensors", ranks=(2, 1), tensors=RULES)
    from safetensors.numpy import load_file

    same([load_file(tmp_path / "whole.safetensors")], [model])


@settings(max_examples=examples(60))
@given(
    inputs=st.integers(1, 5),
    ranks=st.integers(1, 5),
    shapes=st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(1, 3), min_size=0, max_size=2)), max_size=4),
    seed=st.integers(0, 2**16),
    to=st.sampled_from([None, "f16", "bf16"]),
)
def test_pieces_of_any_sizes_become_equal_ones(inputs, ranks, shapes, seed, to, tmp_path_factory):
    """Of the old ranks some have more, some have nothing; and the elements change on the way."""
    folder, random = tmp_path_factory.mktemp("ranks"), np.random.default_rng(seed)
    old, new, rules = [{} for _ in range(inputs)], [{} for _ in range(ranks)], {"same": {"keep": True}}
    for number, (count, rest) in enumerate(shapes):
        axis, name = int(random.integers(0, len(rest) + 1)), f"t{number}"
        whole = random.integers(-8, 8, (*rest[:axis], count * ranks, *rest[axis:])).astype(np.float32)
        ends = np.sort(random.integers(0, count * ranks + 1, inputs - 1))
        for tensors, piece in zip(old, np.split(whole, ends, axis)):
            tensors[name] = piece
        right = whole if to is None else whole.astype(np.float16 if to == "f16" else ml_dtypes.bfloat16)
        for tensors, piece in zip(new, np.split(right, ranks, axis)):
            tensors[name] = piece
        rules[name] = {"along": axis, "shard": "${rank}/${ranks}", **({} if to is None else {"dtype": to})}
    for tensors in (*old, *new):
        tensors["same"] = np.arange(3, dtype=np.int8)
    for name, tensors in zip(rank_names(OLD, inputs), old):
        save(folder / name, tensors)
    gl.relayout_file(folder / OLD, folder / NEW, ranks=(inputs, ranks), tensors=rules)
    same(loaded(folder), new)


def test_numbers_and_names_follow_their_rank(tmp_path):
    """Scales are cut with their weights, values may be computed, and maps, renamings and names know the rank."""
    weight, scale = np.arange(8 * 4, dtype=np.int8).reshape(8, 4), np.arange(1, 9, dtype=np.float32).reshape(8, 1)
    save(tmp_path / "whole.safetensors", {"w": weight, "w_scale": scale, "k": weight})
    (tmp_path / "my.toml").write_text(
        "[[tensor]]\nmatch = 'k'\nalong = 0\nshard = '${rank // 2}/${ranks // 2}'\nname = 'k${rank}'\n"
    )
    rules = [
        {"w": ("C; scale={name}_scale; dtype=f32; along=0; " + CUT), "w_scale": {"drop": True}},
        tmp_path / "my.toml",
    ]
    rename = {"^w$": "w_${rank}_of_${ranks}"}
    gl.relayout_file(tmp_path / "whole.safetensors", tmp_path / NEW, ranks=4, tensors=rules, rename=rename)
    for rank, found in enumerate(loaded(tmp_path)):
        right = (weight * scale)[2 * rank : 2 * rank + 2]
        half = weight[:4] if rank < 2 else weight[4:]
        same([found], [{f"w_{rank}_of_4": right, f"k{rank}": half}])


def test_weights_that_are_packed_for_a_kernel_are_cut_where_they_lie(tmp_path):
    codes = np.random.default_rng(0).integers(0, 16, (128, 512), np.uint8)
    save(tmp_path / "whole.safetensors", {"w": codes})
    rule = f"along=1; {CUT}"
    packed = {"w": f"dtype=u4; marlin:weights; {rule}"}
    gl.relayout_file(tmp_path / "whole.safetensors", tmp_path / OLD, ranks=2, tensors=packed)
    gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(2, 4), tensors={"w": rule})
    for rank, name in enumerate(rank_names(NEW, 4)):
        gl.relayout_file(tmp_path / name, tmp_path / f"plain{rank}.safetensors", unpack=True, tensors=None)
    same(loaded(tmp_path, "plain${rank}.safetensors"), [{"w": each} for each in np.split(codes, 4, 1)])


# ---- what is refused ----


def change(folder, number, tensors):
    from safetensors.numpy import load_file

    path = folder / rank_names(OLD, 20)[number]
    save(path, {name: each for name, each in {**load_file(path), **tensors}.items() if each is not None})


F = np.float32
FAULTS = {
    "replicas that differ": ({1: {"n": np.zeros(3, F)}}, {}, "'n' is .* and not the same there: a rule must say along"),
    "a replica of another type": ({2: {"n": np.ones(3, np.float64)}}, {}, "'n' is .* and not the same there"),
    "a piece that only some have": ({2: {"q": None}}, {}, "'q' is in 3 of 4 inputs, and .* joins the pieces of all"),
    "a tensor that one has": ({2: {"x": np.ones(2)}}, {}, r"no rule for tensor 'x', F64\[2\]: .*'x=along=0' for its p"),
    "pieces that are equal by chance": ({}, {"n": None}, r"no rule for tensor 'n', F32\[3\]: .*, or 'n=keep'"),
    "pieces of different types": ({3: {"q": np.ones((3, 3), np.float64)}}, {}, "'q' do not go together"),
    "pieces of other shapes": ({3: {"q": np.ones((3, 4), F)}}, {}, "'q' do not go together: their shapes are"),
    "uneven new pieces": ({3: {"q": np.ones((4, 3), F)}}, {}, r"size 13 is not a multiple of 2: resize=13->14 adds z"),
    "a rule for nothing": ({}, {"z": "keep"}, "the rule 'z' fits no tensor of"),
    "a name without a value": ({}, {"n": "name=${x}"}, r"\$\{x\} has no value: there are \$\{rank\}"),
    "two tensors of one name": ({}, {"n": "name=q; dtype=f16"}, "would both be called"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_said_before_anything_is_written(fault, model, tmp_path):
    changed, rules, problem = FAULTS[fault]
    save_ranks(tmp_path, model, 4)
    for number, tensors in changed.items():
        change(tmp_path, number, tensors)
    rules = {name: rule for name, rule in {**RULES, **rules}.items() if rule is not None}
    with pytest.raises(LayoutError, match=problem) as caught:
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 2), tensors=rules)
    assert "\n" not in str(caught.value) and len([*tmp_path.iterdir()]) == 4


def test_uneven_pieces_are_padded_on_request(tmp_path):
    for number, name in enumerate(rank_names(OLD, 2)):
        save(tmp_path / name, {"q": np.full((4 - number, 2), number, np.int8)})
    gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(2, 4), tensors={"q": f"along=0; resize=7->8; {CUT}"})
    right = np.array([[0], [0], [0], [0], [1], [1], [1], [0]] * np.ones(2, np.int8), np.int8)
    same(loaded(tmp_path), [{"q": piece} for piece in np.split(right, 4)])


def test_a_missing_rank_is_refused(model, tmp_path):
    save_ranks(tmp_path, model, 4)
    (tmp_path / "old1.safetensors").unlink()
    with pytest.raises(FileError, match="rank 1 is missing: there are 3 files to rank 3"):
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 2), tensors=RULES)
    (tmp_path / "old01.safetensors").write_bytes((tmp_path / "old2.safetensors").read_bytes())
    (tmp_path / "old001.safetensors").write_bytes((tmp_path / "old2.safetensors").read_bytes())
    with pytest.raises(FileError, match="old01.safetensors: this and old001.safetensors are the same part of rank 1"):
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 2), tensors=RULES)


@pytest.mark.parametrize(
    "old, new, ranks, problem",
    [
        (OLD, NEW, None, r"'along=0; shard=\$\{rank\}/\$\{ranks\}' has \$\{rank\}: say in ranks how many new files"),
        (
            OLD,
            "new.safetensors",
            (4, 2),
            r"2 files need a name with \$\{rank\} in it, such as rank\$\{rank\}.safetensors",
        ),
        (OLD, "${rank}/new.safetensors", (4, 2), r"2 files need a name with \$\{rank\} in it"),
        (OLD, "${rank}-${rank}.safetensors", (4, 2), r"such names have \$\{rank\} once"),
        (OLD, "${rank}-${part}.safetensors", (4, 2), "and nothing else with a \\$"),
        (OLD, "${rank}.safetensors.index.json", (4, 2), "is not the name of a .safetensors file"),
        (OLD, "no/${rank}.safetensors", (4, 2), "there is no folder"),
        (OLD, OLD, (4, 4), "input and output are the same file"),
        (OLD, OLD, (4, 2), "old2.safetensors: this is the file of a rank too, and there will be 2 ranks: delete it"),
        (OLD, NEW, 2, r"a last one that is missing leaves no gap: say how many there are; ranks=\(4, 2\) is for 4 old"),
        (OLD, NEW, (5, 2), "ranks are 5:2, and the inputs are 4"),
        (OLD, NEW, 0, "ranks 0 is not the number of new files, such as 2, or those of old and new ones, such as 4:2"),
        (OLD, NEW, (4, 4097), r"ranks \(4, 4097\) is not the number .* each is 1 to 4096"),
        (OLD, NEW, (4, 2, 1), r"ranks \(4, 2, 1\) is not the number"),
        (OLD, NEW, True, "ranks True is not the number"),
        (OLD, NEW, "4:", "ranks '4:' is not the number"),
        ("x${rank}.safetensors", NEW, (4, 2), "this folder has no files of ranks, whose names are x"),
        ("a\n${rank}.safetensors", NEW, (4, 2), "this folder has no files of ranks"),
        ("[${rank}.safetensors", NEW, (4, 2), "this folder has no files of ranks"),
    ],
)
def test_names_that_are_not_those_of_ranks_are_refused(old, new, ranks, problem, model, tmp_path):
    save_ranks(tmp_path, model, 4)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises((FileError, LayoutError), match=problem):
        gl.relayout_file(tmp_path / old, tmp_path / new, ranks=ranks, tensors=RULES, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_several_inputs_beside_a_name_for_all_and_ranks_beside_others_are_refused(model, tmp_path):
    save_ranks(tmp_path, model, 2)
    with pytest.raises(FileError, match="stands for the files of all ranks, so it is the only input"):
        gl.relayout_file([tmp_path / "old0.safetensors", tmp_path / OLD], tmp_path / NEW, ranks=(3, 2), tensors=RULES)
    with pytest.raises(LayoutError, match="llama-tp says itself which files it makes: leave out ranks"):
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=2, recipe="llama-tp(ranks=2)")
    with pytest.raises(TypeError, match="unpack=True makes arrays .* leave out ranks"):
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=2, unpack=True)
    with pytest.raises(TypeError, match="ranks is for a model"):
        gl.relayout_file(tmp_path / "x.npy", tmp_path / "y.npy", ranks=2, target="F")
    said = refusal("relayout", tmp_path / "x.npy", tmp_path / "y.npy", "--ranks", "2", "--to", "F")
    assert "--ranks is for a model" in said
    with pytest.raises(FileError, match=r"\$\{rank\} stands for the numbers of several new files; ranks=2 makes two"):
        gl.relayout_file(tmp_path / "old0.safetensors", tmp_path / NEW, tensors={".*": "along=0"})
    with pytest.raises(FileError, match="say how many there are"):
        gl.relayout_file(tmp_path / OLD, tmp_path / "new.safetensors", tensors={".*": "along=0"})
    for option, advice in ((("--ranks", "2"), "--ranks 4:2 is for 4 old and 2 new ones"), ((), "--ranks 2 makes two")):
        assert advice in failure("relayout", tmp_path / OLD, tmp_path / NEW, *option, "--tensor", ".*=along=0")
    assert "ranks 'two' is not the number" in refusal("relayout", tmp_path / OLD, tmp_path / NEW, "--ranks", "two")


def test_old_files_of_other_ranks_are_not_left_among_new_ones(model, tmp_path):
    save_ranks(tmp_path, model, 4)
    gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 3), tensors=RULES)
    for ranks, problem in ((2, "new2.safetensors: this is the file of a rank too"), (3, "new0.safetensors")):
        with pytest.raises(FileError, match=problem):
            gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, ranks), tensors=RULES)
    gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 4), tensors=RULES, overwrite=True)
    same(loaded(tmp_path), ranks_of(model, 4))


def test_an_error_on_the_way_leaves_all_old_files_and_no_new_one(model, tmp_path):
    save_ranks(tmp_path, model, 4)
    gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 2), tensors=RULES)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gl.relayout_file(tmp_path / OLD, tmp_path / NEW, ranks=(4, 3), tensors=RULES, overwrite=True, progress=stop)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_rules_of_the_page_leave_fused_tensors_alone():
    page = (Path(__file__).parents[3] / "docs/checkpoints.md").read_text()
    section = page[page.index("\n## A file for each rank") :].partition("\n## What")[0]
    names = [rule.partition("=")[0] for rule in re.findall("--tensor '(.*?)'", section)]
    for name in ("self_attn.q_proj", "mlp.up_proj", "mlp.down_proj", "self_attn.o_proj"):
        assert sum(bool(re.fullmatch(each, f"model.layers.0.{name}.weight")) for each in names) == 1, name
    for name in ("self_attn.qkv_proj", "mlp.gate_up_proj"):
        assert not any(re.fullmatch(each, f"model.layers.0.{name}.weight") for each in names), name


def test_new_ranks_share_heads_of_a_fused_tensor(tmp_path):
    from safetensors.numpy import load_file

    q, k, v = (np.arange(first, first + 2 * rows, dtype=np.float32).reshape(rows, 2) for first, rows in FUSED)
    for rank in range(2):
        parts = [np.split(part, 2)[rank] for part in (q, k, v)]
        save(tmp_path / f"old{rank}.safetensors", {"a.qkv_proj": np.concatenate(parts)})
    names = [str(tmp_path / f"{each}${{rank}}.safetensors") for each in ("old", "new")]
    rule = "along=0; sizes=8,2,2; shard=${rank}/${ranks},${rank // 2}/2,${rank // 2}/2"
    gl.relayout_file(*names, ranks=(2, 4), tensors={r".*\.qkv_proj": rule})
    for rank in range(4):
        found = load_file(tmp_path / f"new{rank}.safetensors")["a.qkv_proj"]
        wanted = [np.split(q, 4)[rank], np.split(k, 2)[rank // 2], np.split(v, 2)[rank // 2]]
        np.testing.assert_array_equal(found, np.concatenate(wanted))
