"""The independent model of rules for tensors says what plain NumPy says."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.model_cases import case_of, models_of
from tests.support.model_elements import Unclear, Wrong, elements_of, stored_bytes
from tests.support.model_oracle import differences, new_model
from tests.support.random_models import random_families

Q, K, V = (np.arange(12, dtype=np.float32).reshape(3, 4) + 100 * number for number in range(3))
QKV = {"a.q": Q, "a.k": K, "a.v": V}
JOIN = {"join": r"\1q,\1k,\1v", "along": 0, "name": r"\1qkv"}


def arrays(model, rules, **options):
    """What becomes of one model, or of a list of them: arrays by name."""
    found = new_model(model if isinstance(model, list) else [model], rules, **options)
    return {name: each.array for name, each in found.items()}


def check(model, rules, wanted, **options):
    found = arrays(model, rules, **options)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_tensors_without_a_rule_stay_and_others_get_names_or_go():
    check(QKV, {"a.q": "drop", r"(.*)k": r"name=\1b", r"(.*)v": "keep"}, {"a.b": K, "a.v": V})


def test_joins():
    check(QKV, {r"(.*)q": JOIN}, {"a.qkv": np.concatenate([Q, K, V])})
    turns = np.stack([Q, K, V], 1).reshape(9, 4)
    assert turns[:4, 0].tolist() == [0, 100, 200, 4]
    check(QKV, {r"(.*)q": {**JOIN, "interleave": True}}, {"a.qkv": turns})
    check(QKV, {r"(.*)q": {**JOIN, "along": -1}}, {"a.qkv": np.hstack([Q, K, V])})
    check(QKV, {r"(.*)q": {**JOIN, "to": "o i -> i o"}}, {"a.qkv": np.concatenate([Q, K, V]).T})
    cut = {**JOIN, "along": 1, "shard": "1/2"}
    check(QKV, {r"(.*)q": cut}, {"a.qkv": np.hstack([Q[:, 2:], K[:, 2:], V[:, 2:]])})


def test_a_join_along_an_axis_inside_of_a_dimension():
    rule = {**JOIN, "along": "n", "to": "(n d=3) i -> n d i"}
    check(QKV, {r"(.*)q": rule}, {"a.qkv": np.stack([Q, K, V])})
    rule = {**JOIN, "along": "n", "to": "(d=3 n) i -> d n i"}
    check(QKV, {r"(.*)q": rule}, {"a.qkv": np.stack([Q, K, V], 1)})


def test_splits():
    fused = {"a.w": np.concatenate([Q, K, V])}
    rule = {"split": r"\1q,\1k,\1v", "along": 0}
    check(fused, {r"(.*)w": rule}, QKV)
    check(fused, {r"(.*)w": {"split": r"\1q,\1k,\1v", "to": "(n=3 o) i -> n o i"}}, QKV)
    check(fused, {r"(.*)w": {**rule, "interleave": True}}, {f"a.{x}": fused["a.w"][n::3] for n, x in enumerate("qkv")})
    sizes = {"a.q": fused["a.w"][:1], "a.k": fused["a.w"][1:5], "a.v": fused["a.w"][5:]}
    check(fused, {r"(.*)w": {**rule, "sizes": "1,4,4"}}, sizes)
    check(fused, {r"(.*)w": r"split=\1{number}.w"}, {f"a.{n}.w": fused["a.w"][n] for n in range(9)})
    check(fused, {r"(.*)w": {**rule, "shard": "2/3"}}, {"a.q": Q[2:], "a.k": K[2:], "a.v": V[2:]})
    both = {f"a.{n}.w": fused["a.w"][:, n : n + 1] for n in range(4)}
    check(fused, {r"(.*)w": r"split=\1{number}.w; along=i; o i -> o i"}, both)


def test_shards():
    w = np.arange(48).reshape(12, 4)
    check({"w": w}, {"w": "shard=1/4 along=0"}, {"w": w[3:6]})
    check({"w": w}, {"w": "shard=1/2; along=-1"}, {"w": w[:, 2:]})
    rule = "(three=3 o) i -> (three o) i; shard=1/4 along=o"
    check({"w": w}, {"w": rule}, {"w": w[[1, 5, 9]]})
    with pytest.raises(Wrong):
        arrays({"w": w}, {"w": "shard=1/5 along=0"})


def test_stacks():
    model = {f"l.{n}.w1": Q + n for n in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)} | {"l.0.w3": V}
    stacked = np.stack([Q + n for n in range(11)])
    check(model, {r"(.*)\.(\d+)\.w1": r"stack=\1.w"}, {"l.w": stacked, "l.0.w3": V})
    check(
        model,
        {r"(.*)\.(\d+)\.w1": r"stack=\1.w; e o i -> i e o; shard=1/2; along=i"},
        {"l.w": stacked[:, :, 2:].transpose(2, 0, 1), "l.0.w3": V},
    )
    model = {"0.a": Q, "0.b": K, "1.a": V, "1.b": Q}
    wanted = np.stack([np.concatenate([Q, K]), np.concatenate([V, Q])])
    check(model, {r"(\d)\.a": r"stack=w; join=\1.a,\1.b; along=0"}, {"w": wanted})
    with pytest.raises(Wrong):
        arrays({"0.a": Q, "2.a": K}, {r"(\d)\.a": "stack=w"})


def test_words_hold_elements_along_the_last_axis():
    words = np.array([[0x76543210, -1], [0x0FEDCBA9, 0]], np.int32)
    rows = np.array([[0, 1, 2, 3, 4, 5, 6, 7, *[15] * 8], [9, 10, 11, 12, 13, 14, 15, *[0] * 9]])
    check({"w": words}, {"w": "from=u4; dtype=f32"}, {"w": rows.astype(np.float32)})
    signed = np.where(rows > 7, rows - 16, rows)
    check({"w": words}, {"w": "from=s4; dtype=s8; a b -> b a"}, {"w": signed.astype(np.int8).T})
    found = new_model([{"w": words}], {"w": "from=u4; a b -> b a; as=U8[b,a/2]"})["w"]
    assert found.header == ("U8", (16, 1)) and list(found.data) == [low | high << 4 for low, high in rows.T]
    half = np.arange(6, dtype=np.float16).reshape(2, 3)
    check({"w": half}, {"w": "from=u16; a b -> b a"}, {"w": half.view(np.uint16).T})


def test_words_of_gptq_hold_neighbours_along_the_rows():
    codes = np.random.default_rng(0).integers(0, 16, (32, 64))
    words = sum(codes[each::8].astype(np.uint32) << np.uint32(4 * each) for each in range(8)).astype(np.uint32)
    check(
        {"w": words.view(np.int32)},
        {"w": "from=gptq:qweight(dtype=u4); dtype=u8; k n -> n k"},
        {"w": codes.astype(np.uint8).T},
    )


def test_numbers_and_siblings():
    check(QKV, {"a.q": "scale=1,2,3,4; dtype=f64", "a.[kv]": "drop"}, {"a.q": Q.astype(float) * [1, 2, 3, 4]})
    scale = np.array([[0.5, 2.0]], ml_dtypes.bfloat16)
    model = {"a.q": Q, "a.q_scale": scale}
    wanted = Q * np.repeat(scale, 2, 1).astype(np.float32)
    for text in ("{name}_scale", r"\g<0>_scale", "*_scale", r"\1.q_scale", r"\g<x>.q_scale", "a.q_scale"):
        for block in ({}, {"block": 2}, {"block": [1, 2]}):
            rules = {"(?P<x>a).q": {"scale": text, **block}, ".*_scale": "drop"}
            check(model, rules, {"a.q": wanted})
    check(model, {"a.q": {"scale": "{name}_scale", "divide": True}}, {**model, "a.q": Q / np.repeat(scale, 2, 1)})
    check({"a.q": Q, "a_s": np.float32([2])}, {"a.q": {"scale": "*_s"}}, {"a.q": Q * 2, "a_s": np.float32([2])})


def test_the_last_block_may_be_cut():
    w, scale = np.ones((5, 3), np.float32), np.float32([[1, 2], [3, 4], [5, 6]])
    wanted = np.float32([[1, 1, 2], [1, 1, 2], [3, 3, 4], [3, 3, 4], [5, 5, 6]])
    check({"w": w, "s": scale}, {"w": {"scale": "s", "block": 2}, "s": "drop"}, {"w": wanted})


def test_zero_points_are_what_their_own_rule_makes_of_them():
    w, zeros = np.uint8([[0x21, 0x43], [0x65, 0x87]]), np.uint8([[0x01], [0x10]])
    rules = {"w": {"from": "u4", "scale": 0.5, "zero_point": "z", "dtype": "f32"}, "z": {"from": "u4", "drop": True}}
    wanted = (np.float32([[1, 2, 3, 4], [5, 6, 7, 8]]) - np.float32([[1, 1, 0, 0], [0, 0, 1, 1]])) * np.float32(0.5)
    check({"w": w, "z": zeros}, rules, {"w": wanted})


def test_scales_follow_joins_cuts_and_stacks():
    model = QKV | {f"{name}.s": np.float32([[number], [2], [3]]) for number, name in enumerate(QKV, 5)}
    parts = [model[name] * model[f"{name}.s"] for name in QKV]
    rules = {r"(.*)q": {**JOIN, "scale": "{name}.s"}, ".*s": "drop"}
    check(model, rules, {"a.qkv": np.concatenate(parts)})
    cut = {r"(.*)q": {**JOIN, "scale": "{name}.s", "shard": "2/3"}, ".*s": "drop"}
    check(model, cut, {"a.qkv": np.concatenate([each[2:] for each in parts])})
    rules = {r"a\.(?:q|k|v)": {"scale": "{name}.s", "shard": "1/3", "along": 0}, ".*s": "drop"}
    check(model, rules, {name: each[1:2] for name, each in zip(QKV, parts)})


def test_casts_round_once_and_flips_reverse():
    check({"w": Q / 3}, {}, {"w": (Q / 3).astype(ml_dtypes.bfloat16)}, dtype="bf16")
    taps = np.arange(36, dtype=np.float32).reshape(3, 2, 3, 2)
    wanted = taps[::-1, ::-1].transpose(3, 2, 0, 1)
    check({"w": taps}, {"w": "h w i o -> o i h w; flip=h w"}, {"w": wanted})
    codes = np.rint(Q / np.float32(0.3)) + 1
    check({"w": Q}, {"w": "scale=0.3; zero_point=1; dtype=s8"}, {"w": codes.clip(-128, 127).astype(np.int8)})


def test_several_inputs():
    one, two = {"w": Q, "same": V, "only": K}, {"w": K, "same": V}
    check([one, two], {"w": "along=0"}, {"w": np.concatenate([Q, K]), "same": V, "only": K})
    check([one, two], {"w": "shard=1/3; along=0"}, {"w": np.concatenate([Q, K])[2:4], "same": V, "only": K})
    with pytest.raises(Wrong):
        arrays([one, two], {})
    with pytest.raises(Wrong):
        arrays([one, two, {}], {"w": "along=0"})


def test_layouts_are_those_of_pack_and_names_are_computed():
    found = new_model([{"w": Q}], {"w": "F"})["w"]
    assert found.data == Q.T.tobytes() and found.layout == "F"
    assert differences({"w": ("U8", (48,), Q.T.tobytes())}, {"w": "f32[3,4]{0,1}"}, {"w": found}) == []
    assert differences({"w": ("U8", (48,), Q.T.tobytes())}, {}, {"w": found})
    assert differences({"w": ("U8", (48,), Q.T.tobytes())}, {"w": "f32[4,3]{0,1}"}, {"w": found})
    assert differences({"w": ("U8", (48,), Q.tobytes())}, {"w": "f32[3,4]{0,1}"}, {"w": found})
    words = new_model([{"w": np.zeros((4, 64), np.int32)}], {"w": "from=gptq:qweight(dtype=u4); marlin:weights"})["w"]
    assert words.header == ("I32", (2, 128))


def test_bytes_of_small_elements_are_read_back():
    for dtype in (ml_dtypes.uint4, ml_dtypes.int4, ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.float4_e2m1fn):
        data = np.random.default_rng(1).bytes(24)
        bits = 2 if "2" in np.dtype(dtype).name[-1] and "float" not in np.dtype(dtype).name else 4
        array = elements_of(data, np.dtype(dtype), 24 * 8 // bits)
        assert stored_bytes(array) == data
    with pytest.raises(Unclear):
        arrays({"w": np.zeros((2, 2), np.uint8)}, {"w": "from=f32"})


@pytest.mark.parametrize("seed", range(60))
def test_it_says_what_becomes_of_every_random_model(seed):
    case = case_of(random_families(np.random.default_rng([3, seed])), seed)
    assert new_model(models_of(case), case.rules, case.dtype) is not None
