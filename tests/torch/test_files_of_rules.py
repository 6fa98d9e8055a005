"""Files that `gpulayout relayout` writes, in a model: as if each tensor of the old file had been packed there."""

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.header import plain_sides_of

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import bytes_of  # noqa: E402
from tests.torch.test_packed_files import parts, rewrite  # noqa: E402

K, N, GROUPS = 128, 192, 4
GPTQ, WEIGHTS = "gptq:qweight(dtype=u4)", "marlin:weights(dtype=u4)"


def words(*sizes, seed=0):
    """Random int32."""
    return torch.from_numpy(np.random.default_rng(seed).integers(-(2**31), 2**31, sizes).astype("i4"))


def floats(*sizes, dtype=torch.float16, seed=0):
    """Random floats."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=sizes)).to(dtype)


def low_bytes(*sizes, seed=0):
    """Random uint8."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, sizes).astype("u1"))


class Format(NamedTuple):
    """Tensors of a checkpoint, and the rule for them.

    tensors   by name, with random values for each seed
    plain     of these, what the rule packs
    layout    and source: what `pack_` takes to do the same
    """

    tensors: Callable
    rule: str
    plain: Callable
    layout: str
    source: str | None = None


def alone(make, rule, layout, source=None):
    """A format of one tensor."""
    return Format(lambda seed: {"q": make(seed)}, rule, lambda tensors: tensors["q"], layout, source)


def fused(make, rule, layout, source=None):
    """A format of q, k and v, side by side."""
    return Format(
        lambda seed: {name: make(seed + ord(name), size) for name, size in (("q", 128), ("k", 64), ("v", 64))},
        f"{rule}; name=q",
        lambda tensors: torch.cat([tensors[name] for name in "qkv"], 1),
        layout,
        source,
    )


FORMATS = {
    "gptq": alone(lambda s: words(K // 8, N, seed=s), f"from={GPTQ}; marlin:weights", WEIGHTS, GPTQ),
    "gptq of 8 bits": alone(
        lambda s: words(K // 4, N, seed=s),
        "from=gptq:qweight(dtype=u8); marlin:weights",
        "marlin:weights(dtype=u8)",
        "gptq:qweight(dtype=u8)",
    ),
    "awq": alone(lambda s: words(K, N // 8, seed=s), "from=awq:qweight; marlin:weights", WEIGHTS, "awq:qweight"),
    "awq's zero points": alone(
        lambda s: words(GROUPS, N // 8, seed=s),
        "from=awq:qzeros; marlin:zero_points",
        "marlin:zero_points",
        "awq:qzeros",
    ),
    "compressed-tensors": alone(
        lambda s: words(N, K // 8, seed=s), "from=u4; n k -> k n; marlin:weights", f"n k -> k n; {WEIGHTS}", "u4"
    ),
    "bytes of two": alone(
        lambda s: low_bytes(N, K // 2, seed=s), "from=u4; n k -> k n; marlin:weights", f"n k -> k n; {WEIGHTS}", "u4"
    ),
    "an axis of size 1": alone(
        lambda s: words(1, N, K // 8, seed=s), "from=u4; 1 n k -> k n; marlin:weights", f"1 n k -> k n; {WEIGHTS}", "u4"
    ),
    "scales": alone(lambda s: floats(GROUPS, N, seed=s), "marlin:scales", "marlin:scales"),
    "scales of (N, groups)": alone(
        lambda s: floats(N, GROUPS, seed=s), "n g -> g n; marlin:scales", "n g -> g n; marlin:scales"
    ),
    "scales of columns": alone(
        lambda s: floats(1, N, seed=s), "1 n -> n; marlin:channel_scales", "1 n -> n; marlin:channel_scales"
    ),
    "scales of another type": alone(
        lambda s: floats(GROUPS, N, dtype=torch.bfloat16, seed=s), "dtype=f16; marlin:scales", "marlin:scales"
    )._replace(plain=lambda tensors: tensors["q"].half()),
    "factors of 8 bits": alone(
        lambda s: floats(256, 8, dtype=torch.float8_e4m3fn, seed=s),
        "cublas:block_scales",
        "cublas:block_scales(dtype=f8e4m3fn)",
    ),
    "powers of two in bytes": alone(
        lambda s: low_bytes(256, 8, seed=s),
        "from=f8e8m0fnu; cublas:block_scales",
        "cublas:block_scales",
        "f8e8m0fnu",
    ),
    "fused": fused(
        lambda s, n: words(K // 8, n, seed=s), f"from={GPTQ}; join=q,k,v; along=1; marlin:weights", WEIGHTS, GPTQ
    ),
    "fused scales": fused(
        lambda s, n: floats(GROUPS, n, seed=s), "join=q,k,v; along=1; marlin:scales", "marlin:scales"
    ),
    "a rank's outputs": alone(
        lambda s: words(K // 8, 2 * N, seed=s),
        f"from={GPTQ}; shard=1/2; along=1; marlin:weights",
        WEIGHTS,
        GPTQ,
    )._replace(plain=lambda tensors: tensors["q"][:, N:].contiguous()),
    "a rank's inputs": alone(
        lambda s: words(N, 2 * K // 8, seed=s),
        "from=u4; shard=1/2; along=1; n k -> k n; marlin:weights",
        f"n k -> k n; {WEIGHTS}",
        "u4",
    )._replace(plain=lambda tensors: tensors["q"][:, K // 8 :].contiguous()),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new.safetensors"


def relayout(file, tensors, rule, regex="q"):
    """A file of these tensors, and then the new one by a rule."""
    old = torch.nn.Module()
    for name, tensor in tensors.items():
        setattr(old, name, torch.nn.Parameter(tensor, requires_grad=False))
    gl.torch.save_packed(old, file.with_name("old.safetensors"), overwrite=True)
    gl.relayout_file(file.with_name("old.safetensors"), file, tensors={regex: rule}, overwrite=True)


def model(tensor, device=None):
    """A model with one tensor like this, other values."""
    made = torch.nn.Module()
    made.q = torch.nn.Parameter(torch.empty(tensor.shape, dtype=tensor.dtype, device=device), requires_grad=False)
    if device is None:
        made.q.data.view(-1).view(torch.uint8).zero_()
    return made


def same(one, other):
    """Whether plain tensors have the same dtype, sizes and bits."""
    return one.dtype == other.dtype and one.shape == other.shape and bytes_of(one) == bytes_of(other)


@pytest.mark.parametrize("name", FORMATS)
def test_a_model_holds_what_pack_would_have_made(file, name):
    form, layout, source = FORMATS[name], FORMATS[name].layout, FORMATS[name].source
    plain = form.plain(form.tensors(0))
    relayout(file, form.tensors(0), form.rule)
    packed = gl.torch.pack_(torch.nn.Parameter(plain.clone(), requires_grad=False), layout, source=source)
    of_words, of_kernel, started = model(plain), model(packed.data), model(plain, "meta")
    again, started_again = model(plain), model(packed.data, "meta")
    gl.torch.pack_(again.q, layout, source=source)
    for each, assign in (
        (of_words, False),
        (of_kernel, False),
        (again, False),
        (started, True),
        (started_again, True),
        (again, True),
    ):
        address = each.q.data_ptr()
        assert gl.torch.load_packed(file, each, assign=assign) == ([], [])
        assert assign or each.q.data_ptr() == address
        assert (each.q.dtype, each.q.shape, bytes_of(each.q)) == (packed.dtype, packed.shape, bytes_of(packed))
        assert gl.torch.layout_of(each.q) == gl.torch.layout_of(packed)
        assert same(gl.torch.read(each.q), plain) and same(gl.torch.state_dict(each)["q"], plain)
    # New weights, as the checkpoint has them.
    new = form.plain(form.tensors(7))
    gl.torch.copy_(packed, new)
    for each in (of_words, of_kernel, again, started, started_again):
        gl.torch.load_state_dict(each, {"q": new})
        assert bytes_of(each.q) == bytes_of(packed) and same(gl.torch.read(each.q), new)
        gl.torch.copy_(each.q, torch.zeros_like(new))
        with gl.torch.unpacked(each):
            assert gl.torch.layout_of(each.q) is None and each.q.shape == plain.shape
            each.q.copy_(new)
        assert bytes_of(each.q) == bytes_of(packed)
        # And the file that such a model becomes.
        gl.torch.save_packed(each, file.with_name("again.safetensors"), overwrite=True)
        other = model(plain)
        gl.torch.load_packed(file.with_name("again.safetensors"), other)
        assert bytes_of(other.q) == bytes_of(packed) and same(gl.torch.unpack_(other.q), new)


def test_a_model_that_holds_the_array_gets_it_in_place_of_words(file):
    relayout(file, {"q": words(K // 8, N)}, f"from={GPTQ}; marlin:weights")
    codes = gl.unpack(words(K // 8, N).numpy().reshape(-1).view("u1"), f"{GPTQ}[{K},{N}]").astype("u1")
    for device in (None, "meta"):
        given = model(torch.zeros(K, N, dtype=torch.uint8), device)
        for _ in range(2):
            gl.torch.load_packed(file, given, assign=device == "meta")
            assert str(gl.torch.layout_of(given.q)).startswith(f"u4[{K},{N}]")
            assert np.array_equal(gl.torch.read(given.q).numpy(), codes)
        gl.torch.copy_(given.q, torch.from_numpy(codes[::-1].copy()))
        assert np.array_equal(gl.torch.read(given.q).numpy(), codes[::-1])


def test_a_box_of_words_that_follow_each_other(file):
    """Boxes are of the array in the checkpoint's order, in whole words."""
    relayout(file, {"q": words(N, K // 8)}, "from=u4; n k -> k n; marlin:weights")
    given, new = model(words(N, K // 8)), words(N, K // 8, seed=1)
    gl.torch.load_packed(file, given)
    box = (slice(64, 128), slice(32, 64))
    assert same(gl.torch.read(given.q, at=box), words(N, K // 8)[64:128, 4:8].contiguous())
    gl.torch.copy_(given.q, new[64:128, 4:8], at=box)
    gl.torch.copy_(given.q, new[:64, 4:8].view(torch.uint8), at=(slice(0, 64), slice(32, 64)))  # words of any size
    expected = words(N, K // 8)
    expected[:128, 4:8] = new[:128, 4:8]
    assert same(gl.torch.read(given.q), expected)
    with pytest.raises(gl.LayoutError, match="no whole number of s32"):
        gl.torch.read(given.q, at=(slice(0, 64), slice(0, 12)))
    with pytest.raises(gl.LayoutError, match="does not hold words of u4, as the tensor takes them|holds an array of"):
        gl.torch.copy_(given.q, new[:, :8])


def test_the_tensor_has_the_sizes_that_the_rule_says(file):
    scales = floats(200, 10, dtype=torch.float8_e4m3fn)
    relayout(file, {"q": scales}, "cublas:block_scales; as=F8_E4M3[256,12]")
    kernel = torch.zeros(256, 12, dtype=torch.float8_e4m3fn)
    in_a_row = gl.torch.empty_packed("cublas:block_scales(dtype=f8e4m3fn)[200,10]")
    packed = gl.torch.copy_(in_a_row, scales)
    for device in (None, "meta"):
        given = model(kernel, device)
        gl.torch.load_packed(file, given, assign=device == "meta")
        assert given.q.shape == (256, 12) and bytes_of(given.q) == bytes_of(packed)
        assert same(gl.torch.read(given.q), scales)
        gl.torch.save_packed(given, file.with_name("again.safetensors"), overwrite=True)
        assert gl.torch.load_packed(file.with_name("again.safetensors"), model(kernel)) == ([], [])
    other = torch.nn.Module()  # one that is packed keeps its sizes
    other.q = torch.nn.Parameter(packed.data, requires_grad=False)
    for assign in (False, True):
        gl.torch.copy_(other.q, torch.zeros_like(scales))
        gl.torch.load_packed(file, other, assign=assign)
        assert other.q.shape == (3072,) and same(gl.torch.read(other.q), scales)
    relayout(file, {"q": scales}, "cublas:block_scales")
    with pytest.raises(gl.LayoutError, match=r"say so in the rule that makes the file, by as=F8_E4M3\[256,12\]"):
        gl.torch.load_packed(file, model(kernel))


def test_after_arithmetic_the_plain_tensor_is_the_array_of_the_new_elements(file):
    weight = torch.from_numpy(np.random.default_rng(3).integers(-8, 8, (N, K))).bfloat16()
    relayout(file, {"q": weight}, "scale=1; zero_point=8; n k -> k n; marlin:weights; dtype=u4")
    codes = (weight.float() + 8).to(torch.uint8)
    expected = gl.torch.pack_(codes.clone(), f"n k -> k n; {WEIGHTS}")
    for each in (codes, expected.data):
        given = model(each)
        gl.torch.load_packed(file, given)
        assert bytes_of(given.q) == bytes_of(expected) and same(gl.torch.read(given.q), codes)
        gl.torch.copy_(given.q, torch.zeros_like(codes))
        gl.torch.copy_(given.q, weight, scale=1.0, zero_point=8)  # quantised as the rule did
        assert bytes_of(given.q) == bytes_of(expected)


def test_a_stack_of_experts_and_of_joins(file):
    numbers = [(expert, part) for expert in range(3) for part in (1, 3)]
    tensors = {f"e{expert}_{part}": words(K // 8, 64, seed=10 * expert + part) for expert, part in numbers}
    relayout(file, tensors, rf"from={GPTQ}; join=e\1_1,e\1_3; along=1; stack=q; marlin:weights", r"e(\d)_1")
    plain = torch.stack([torch.cat([tensors[f"e{expert}_1"], tensors[f"e{expert}_3"]], 1) for expert in range(3)])
    expected = gl.torch.pack_(plain.clone(), WEIGHTS, source=GPTQ)
    for each in (plain, expected.data):
        given = model(each)
        gl.torch.load_packed(file, given)
        assert bytes_of(given.q) == bytes_of(expected)
        gl.torch.copy_(given.q, torch.zeros_like(plain))
        for expert in range(3):  # as a loader of experts writes them
            for half, part in enumerate((1, 3)):
                box = (slice(expert, expert + 1), ..., slice(64 * half, 64 * half + 64))
                gl.torch.copy_(given.q, tensors[f"e{expert}_{part}"][None], at=box)
        assert bytes_of(given.q) == bytes_of(expected)


def test_files_of_ranks_put_together(tmp_path, file):
    whole = words(K // 8, N)
    for rank, part in enumerate(whole.chunk(2, 1)):
        given = model(part)
        given.q.copy_(part)
        gl.torch.save_packed(given, tmp_path / f"rank{rank}.safetensors")
    ranks = [tmp_path / f"rank{rank}.safetensors" for rank in range(2)]
    gl.relayout_file(ranks, file, tensors={"q": f"from={GPTQ}; along=1; marlin:weights"})
    given = model(whole)
    gl.torch.load_packed(file, given)
    assert same(gl.torch.read(given.q), whole)


def test_packed_files_go_on_to_another_layout_and_another_name(file):
    """What is said of the plain tensor stays true, also behind another pattern."""
    turned = words(N, K // 8)
    relayout(file, {"q": turned}, "from=u4; n k -> k n; marlin:weights")
    second = file.with_name("second.safetensors")
    for rule in ("{0,1:E(4)}", "k n -> n k; {0,1:E(4)}", "keep", "name=q"):
        gl.relayout_file(file, second, tensors={"q": rule}, overwrite=True)
        given = model(turned)
        gl.torch.load_packed(second, given)
        assert same(gl.torch.read(given.q), turned)
    gl.relayout_file(file, second, tensors={"q": "dtype=u8; {0,1}"}, overwrite=True)  # other elements: not this tensor
    with pytest.raises(gl.LayoutError, match="the file does not say from which tensor it is made"):
        gl.torch.load_packed(second, model(turned))


def test_a_part_of_a_packed_tensor_and_other_elements_are_not_made_from_the_plain_one(file):
    plain, second = floats(64, 16), file.with_name("second.safetensors")
    relayout(file, {"q": plain}, "{0,1}")
    for rules, options in (({"q": "shard=0/2; along=1"}, {}), ({}, {"dtype": "bf16"}), ({"q": "scale=2"}, {})):
        gl.relayout_file(file, second, tensors=rules, overwrite=True, **options)
        assert not plain_sides_of(parts(second)[0]["__metadata__"])
        gl.torch.load_packed(second, torch.nn.Module(), strict=False)  # and what it says is so


def test_files_that_do_not_agree_about_the_plain_tensor_say_nothing(file):
    """They have the same bytes, which two tensors may be packed to."""
    other, second = file.with_name("other.safetensors"), file.with_name("second.safetensors")
    square = floats(16, 16)
    relayout(other, {"q": square.t().contiguous()}, "a b -> b a; {0,1}")
    relayout(file, {"q": square}, "{0,1}")
    for inputs in ([file, other], [other, file], [file, other, file.with_name("third.safetensors")]):
        file.with_name("third.safetensors").write_bytes(file.read_bytes())
        gl.relayout_file(inputs, second, overwrite=True)
        notes = parts(second)[0]["__metadata__"]
        assert notes["gpulayout:q"] == "f16[16,16]{0,1}" and not plain_sides_of(notes)


def test_a_pattern_that_splits_axes_leaves_no_plain_tensor(file):
    blocks = floats(4, 8, 16)
    relayout(file, {"q": blocks}, "a b c -> a (b c); {0,1}")
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.load_packed(file, model(floats(4, 9)))
    assert str(caught.value).endswith(
        "'q' is f16[4,128]{0,1} in the file, which goes into float16[4,128] or float16[512], and the model has "
        "float16[4,9]: the file does not say from which tensor it is made, so pack the model's first, by "
        "gl.torch.pack_(tensor, 'f16[4,128]{0,1}', source=...)"
    )
    given = model(floats(4, 128))
    gl.torch.load_packed(file, given)
    assert same(gl.torch.read(given.q), blocks.reshape(4, 128))


SIDE = "gpulayout-plain:q"
LIES = {
    "another width": {"source": "u8"},
    "no element type": {"source": "u3"},
    "words of another order": {"source": GPTQ},
    "a type of other words": {"dtype": "uint8"},
    "sizes": {"sizes": [N, K // 4]},
    "axes in order": {"axes": [0, 1]},
    "axes of another array": {"axes": [2, 0]},
    "one axis": {"axes": [1]},
    "strides": {"strides": [1, N]},
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_so_is_an_error_before_a_byte_is_written(file, lie):
    relayout(file, {"q": words(N, K // 8)}, "from=u4; n k -> k n; marlin:weights")
    given = model(words(N, K // 8))

    def change(header):
        said = json.loads(header["__metadata__"][SIDE])
        header["__metadata__"][SIDE] = json.dumps(said | LIES[lie])

    rewrite(file, change)
    with pytest.raises(ValueError, match="'q' is marlin:weights.*what the file says of its plain tensor does not fit"):
        gl.torch.load_packed(file, given)
    assert gl.torch.layout_of(given.q) is None and not given.q.any()


@pytest.mark.parametrize("text", ["{", '{"dtype":1,"sizes":[2]}', '{"dtype":"int32"}', "[]"])
def test_a_relayout_reads_what_the_old_file_says_or_refuses(file, text):
    relayout(file, {"q": words(N, K // 8)}, "from=u4; n k -> k n; marlin:weights")
    rewrite(file, lambda header: header["__metadata__"].__setitem__(SIDE, text))
    second = file.with_name("second.safetensors")
    with pytest.raises(ValueError, match="new.safetensors: tensor 'q': what the file says of"):
        gl.relayout_file(file, second, tensors={"q": "{0,1:E(4)}"})
    assert not second.exists()
    gl.relayout_file(file, second, tensors={"q": "dtype=u8; C"})  # which asks for no plain tensor


def test_a_source_that_names_elements_is_for_every_call():
    plain = words(N, K // 8)
    packed = gl.torch.pack_(plain.clone(), f"n k -> k n; {WEIGHTS}", source="u4")
    turned = gl.torch.pack_(plain.t().contiguous(), WEIGHTS, source=GPTQ)
    assert bytes_of(packed) == bytes_of(turned)
    assert same(gl.torch.unpack_(packed), plain)
    empty = gl.torch.empty_packed(f"{WEIGHTS}[{K},{N}]", source="u4")
    straight = words(K, N // 8)
    assert same(gl.torch.read(gl.torch.copy_(empty, straight)), straight.view(torch.uint8).reshape(K, N // 2))
    scale = low_bytes(3, 5)
    assert same(gl.torch.read(gl.torch.pack_(scale.clone(), "{0,1}", source="f8e8m0fnu")), scale)
    assert gl.torch.layout_of(gl.torch.pack_(scale.clone(), "{0,1}", source="f8e8m0fnu")).element_type == "f8e8m0fnu"
    for sizes, source, message in (((3, 5), "u16", "no whole number of u16"), ((4, 4), "u3", "u3")):
        with pytest.raises(gl.LayoutError, match=message):
            gl.torch.pack_(low_bytes(*sizes), "{0,1}", source=source)
    with pytest.raises(gl.LayoutError, match="source u8 is not what"):
        gl.torch.empty_packed("u4[4,4]{0,1:E(4)}", source="u8")
