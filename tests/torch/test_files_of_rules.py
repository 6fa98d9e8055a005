"""Files that `gpulayout relayout` writes, in a model: as if each tensor of the old file had been packed there."""

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import bytes_of  # noqa: E402

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


def columns(seed, *makers):
    """Tensors for q, k and v, and all of them side by side."""
    made = [make(seed=seed + number) for number, make in enumerate(makers)]
    return made, torch.cat(made, 1)


# For each format: the tensors of the old file, the rule for the first of them, and what is packed in a model, and how.
FORMATS = {
    "gptq": lambda s: (
        {"q": words(K // 8, N, seed=s)},
        f"from={GPTQ}; marlin:weights",
        words(K // 8, N, seed=s),
        WEIGHTS,
        GPTQ,
    ),
    "gptq of 8 bits": lambda s: (
        {"q": words(K // 4, N, seed=s)},
        "from=gptq:qweight(dtype=u8); marlin:weights",
        words(K // 4, N, seed=s),
        "marlin:weights(dtype=u8)",
        "gptq:qweight(dtype=u8)",
    ),
    "awq": lambda s: (
        {"q": words(K, N // 8, seed=s)},
        "from=awq:qweight; marlin:weights",
        words(K, N // 8, seed=s),
        WEIGHTS,
        "awq:qweight",
    ),
    "awq's zero points": lambda s: (
        {"q": words(GROUPS, N // 8, seed=s)},
        "from=awq:qzeros; marlin:zero_points",
        words(GROUPS, N // 8, seed=s),
        "marlin:zero_points",
        "awq:qzeros",
    ),
    "compressed-tensors": lambda s: (
        {"q": words(N, K // 8, seed=s)},
        "from=u4; n k -> k n; marlin:weights",
        words(N, K // 8, seed=s),
        f"n k -> k n; {WEIGHTS}",
        "u4",
    ),
    "bytes of two": lambda s: (
        {"q": low_bytes(N, K // 2, seed=s)},
        "from=u4; n k -> k n; marlin:weights",
        low_bytes(N, K // 2, seed=s),
        f"n k -> k n; {WEIGHTS}",
        "u4",
    ),
    "scales": lambda s: (
        {"q": floats(GROUPS, N, seed=s)},
        "marlin:scales",
        floats(GROUPS, N, seed=s),
        "marlin:scales",
        None,
    ),
    "scales of (N, groups)": lambda s: (
        {"q": floats(N, GROUPS, seed=s)},
        "n g -> g n; marlin:scales",
        floats(N, GROUPS, seed=s),
        "n g -> g n; marlin:scales",
        None,
    ),
    "scales of columns": lambda s: (
        {"q": floats(1, N, seed=s)},
        "1 n -> n; marlin:channel_scales",
        floats(1, N, seed=s),
        "1 n -> n; marlin:channel_scales",
        None,
    ),
    "scales of another type": lambda s: (
        {"q": floats(GROUPS, N, dtype=torch.bfloat16, seed=s)},
        "dtype=f16; marlin:scales",
        floats(GROUPS, N, dtype=torch.bfloat16, seed=s).half(),
        "marlin:scales",
        None,
    ),
    "factors of 8 bits": lambda s: (
        {"q": floats(256, 8, dtype=torch.float8_e4m3fn, seed=s)},
        "cublas:block_scales",
        floats(256, 8, dtype=torch.float8_e4m3fn, seed=s),
        "cublas:block_scales(dtype=f8e4m3fn)",
        None,
    ),
    "powers of two in bytes": lambda s: (
        {"q": low_bytes(256, 8, seed=s)},
        "from=f8e8m0fnu; cublas:block_scales",
        low_bytes(256, 8, seed=s),
        "cublas:block_scales",
        "f8e8m0fnu",
    ),
    "fused": lambda s: (
        dict(zip("qkv", columns(s, *(lambda seed, n=n: words(K // 8, n, seed=seed) for n in (128, 64, 64)))[0])),
        f"from={GPTQ}; join=q,k,v; along=1; name=q; marlin:weights",
        columns(s, *(lambda seed, n=n: words(K // 8, n, seed=seed) for n in (128, 64, 64)))[1],
        WEIGHTS,
        GPTQ,
    ),
    "fused scales": lambda s: (
        dict(zip("qkv", columns(s, *(lambda seed, n=n: floats(GROUPS, n, seed=seed) for n in (128, 64, 64)))[0])),
        "join=q,k,v; along=1; name=q; marlin:scales",
        columns(s, *(lambda seed, n=n: floats(GROUPS, n, seed=seed) for n in (128, 64, 64)))[1],
        "marlin:scales",
        None,
    ),
    "a rank's outputs": lambda s: (
        {"q": words(K // 8, 2 * N, seed=s)},
        f"from={GPTQ}; shard=1/2; along=1; marlin:weights",
        words(K // 8, 2 * N, seed=s)[:, N:].contiguous(),
        WEIGHTS,
        GPTQ,
    ),
    "a rank's inputs": lambda s: (
        {"q": words(N, 2 * K // 8, seed=s)},
        "from=u4; shard=1/2; along=1; n k -> k n; marlin:weights",
        words(N, 2 * K // 8, seed=s)[:, K // 8 :].contiguous(),
        f"n k -> k n; {WEIGHTS}",
        "u4",
    ),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new.safetensors"


def relayout(file, tensors, rule):
    """A file of these tensors, and then the new one by a rule for the first of them."""
    old = torch.nn.Module()
    for name, tensor in tensors.items():
        setattr(old, name, torch.nn.Parameter(tensor, requires_grad=False))
    gl.torch.save_packed(old, file.with_name("old.safetensors"), overwrite=True)
    gl.relayout_file(file.with_name("old.safetensors"), file, tensors={next(iter(tensors)): rule}, overwrite=True)


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
    tensors, rule, plain, layout, source = FORMATS[name](0)
    relayout(file, tensors, rule)
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
    _, _, new, _, _ = FORMATS[name](7)
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
