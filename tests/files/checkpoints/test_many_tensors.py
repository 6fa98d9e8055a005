"""Models of very many small tensors: what is done once for each of them takes no plan, no thread and no wait."""

import json

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import engine
from gpulayout.files.checkpoints import changes
from gpulayout.files.engine import RunThreads
from gpulayout.plans.plan_blocks import Blocks
from tests.support.model_files import contents, model

COUNT = 300
SHAPES = [(2, 3), (5, 4), (64, 200)]  # the last one has more bytes than a small block


@pytest.fixture
def folder(tmp_path):
    """Three shards."""
    places = {}
    for shard in "abc":
        names = {f"{shard}.{number}.weight": ("F32", SHAPES[number % 97 % 3]) for number in range(COUNT)}
        (tmp_path / f"{shard}.safetensors").write_bytes(model(names, None, seed=ord(shard)))
        places |= dict.fromkeys(names, f"{shard}.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (tmp_path / "out").mkdir()
    return tmp_path


def relayout(folder, rules, **options):
    name = "model.safetensors.index.json"
    return gl.relayout_file(folder / name, folder / "out" / name, tensors=rules, **options)


def counted(monkeypatch, owner, name):
    """How often a function is called."""
    calls, function = [], getattr(owner, name)

    def call(*given, **options):
        calls.append(given)
        return function(*given, **options)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_tensors_of_one_shape_share_a_plan_and_its_block(folder, monkeypatch):
    plans = counted(monkeypatch, changes, "plan")
    blocks = counted(monkeypatch, Blocks, "__init__")
    done = relayout(folder, {".*weight": "i o -> o i"})
    assert len(done.tensors) == 3 * COUNT and len(plans) == len(SHAPES) and len(blocks) <= 2 * len(SHAPES)
    for shard in "abc":
        before, after = (contents(folder / place / f"{shard}.safetensors") for place in (".", "out"))
        for name, (_, shape, data) in before.items():
            turned = np.ascontiguousarray(np.frombuffer(data, np.uint32).reshape(shape).T)
            assert after[name] == ("F32", turned.shape, turned.tobytes())


def test_small_blocks_are_not_handed_to_threads(folder, monkeypatch):
    shared = counted(monkeypatch, RunThreads, "share")
    begun = counted(monkeypatch, engine, "start_write_back")
    seen = []
    done = relayout(folder, {".*weight": "i o -> o i"}, progress=lambda *each: seen.append(each))
    large = sum(each.before == "F32[64,200]" for each in done.tensors)
    assert 0 < large < 3 * COUNT and len(shared) == 2 * large
    assert len(begun) <= large + done.bytes_written // engine.WRITE_BACK
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written


def test_rules_are_told_apart_though_tensors_are_alike(folder):
    rules = {
        r"(.*\.\d*[02468]\.)weight": {"to": "i o -> o i", "name": r"\1w"},
        r".*7\.weight": "drop",
        r".*[1359]\.weight": {"dtype": "bf16"},
    }
    done = {each.name: each for each in relayout(folder, rules).tensors}
    assert done["b.4.weight"].new_name == "b.4.w" and done["b.7.weight"].new_name is None
    assert done["b.5.weight"].after.startswith("BF16") and done["c.10.weight"].new_name == "c.10.w"
