"""Which layer a weight belongs to: decided by the caller, a bias or a clear name, or refused with what to write."""

import os
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cli.failures import with_options
from gpulayout.files import route
from gpulayout.files.checkpoints.kinds import kind_in_name
from tests.support.command_line import failure, run
from tests.support.model_files import contents, model

CONVS = ["torch-to-flax", "torch-to-mlx", "torch-to-keras", "flax-to-torch", "mlx-to-torch", "keras-to-torch"]

PLAIN_NAMES = (
    "conv conv1 conv2_3 conv2d conv2d_7 Conv_0 layer1.0.conv1 stem.conv conv_in conv_shortcut Decoder_0.Conv_1 convs.0 "
    "conv1.0 features.conv0 downsample.conv conv_pw decoder.conv2d_3 Conv transformer.conv1"
)
TRANSPOSED_NAMES = (
    "ConvTranspose_0 conv_transpose conv2d_transpose conv2d_transpose_2 up.conv_transpose1 deconv deconv1 "
    "convtranspose Conv2DTranspose conv1d_transpose ConvTranspose2d transposed_conv conv_trans trans_conv convtr "
    "deconvolution conv_transposed"
)


def written(rules, layer):
    """The name of a layer's weight in the files that a map reads."""
    source = rules.partition("-")[0]
    return f"{layer}/kernel" if source == "keras" else f"{layer}.{'kernel' if source == 'flax' else 'weight'}"


def taken(folder, rules, tensors, **options):
    """What each tensor is taken as, and what decided: for tensors of f32, by name."""
    (folder / "a.safetensors").write_bytes(model({name: ("F32", each) for name, each in tensors.items()}, None))
    done = gl.relayout_file(
        folder / "a.safetensors", folder / "b.safetensors", tensors=rules, overwrite=True, **options
    )
    return {each.name: (each.kind, each.known_by) for each in done.tensors}


def refused(folder, rules, tensors, **options):
    with pytest.raises(gl.LayoutError) as caught:
        taken(folder, rules, tensors, **options)
    assert os.listdir(folder) == ["a.safetensors"]
    return str(caught.value)


# ---- convolutions --------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 4, 1, 1), (5, 6, 7, 8), (3, 3, 4, 4, 2)])
@pytest.mark.parametrize(
    "layer",
    "up features.0 downsample.0 layer1.0.downsample.0 block decoder.conv up.conv1 mask_predictor.conv5_mask upconv1 "
    "deconv_layers.0 proj ups.0 decoder.layers.3.conv".split(),
)
@pytest.mark.parametrize("rules", CONVS)
def test_a_weight_that_may_be_transposed_is_never_guessed(tmp_path, rules, layer, shape):
    name = written(rules, layer)
    said = refused(tmp_path, rules, {name: shape})
    assert said.startswith(
        f"the map {rules} cannot tell what 1 tensor is.  It is '{name}' of shape {shape}: a convolution (conv) or a "
        "transposed convolution (conv_transpose)"
    )
    advice = re.findall(r"assume=\{r'(.*?)': '(.*?)'\}", said)
    depthwise = ["depthwise"] * (rules == "keras-to-torch" and len(shape) < 5)
    assert advice == [(".*", "conv"), *((re.escape(name), each) for each in ("conv_transpose", *depthwise))]
    for pair in advice:
        assert taken(tmp_path, rules, {name: shape}, assume=[pair]) == {name: (pair[1], "assume")}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rules", CONVS)
@pytest.mark.parametrize(
    "layer, kind",
    [
        *((each, "conv") for each in PLAIN_NAMES.split()),
        *((each, "conv_transpose") for each in TRANSPOSED_NAMES.split()),
    ],
)
def test_names_of_classes_say_the_kind(tmp_path, rules, layer, kind):
    name = written(rules, layer.replace(".", "/") if rules.startswith("keras") else layer)
    assert taken(tmp_path, rules, {name: (4, 4, 2, 3)}) == {name: (kind, "name")}


@pytest.mark.parametrize("layer", ["up", "conv1", "deconv1"])  # a bias knows better than a name
@pytest.mark.parametrize(
    "rules, shape, bias, kind",
    [
        ("torch-to-flax", (6, 4, 3, 3), 6, "conv"),
        ("torch-to-flax", (6, 4, 3, 3), 4, "conv_transpose"),
        ("torch-to-mlx", (6, 4, 3), 4, "conv_transpose"),
        ("torch-to-keras", (6, 4, 3, 2, 1), 4, "conv_transpose"),
        ("torch-to-keras", (64, 3, 7, 7), 64, "conv"),
        ("keras-to-torch", (3, 3, 4, 6), 6, "conv"),
        ("keras-to-torch", (3, 3, 4, 6), 4, "conv_transpose"),
    ],
)
def test_a_bias_says_which_axis_the_outputs_are(tmp_path, rules, layer, shape, bias, kind):
    name = written(rules, layer)
    other = re.sub("weight|kernel", "bias", name)
    assert taken(tmp_path, rules, {name: shape, other: (bias,)})[name] == (kind, "bias")
    wrong = {"conv": "conv_transpose", "conv_transpose": "conv"}[kind]
    said = refused_anew(tmp_path, rules, {name: shape, other: (bias,)}, assume={".*": wrong})
    assert f"of shape {shape} is not a " in said and f"with its bias of shape ({bias},), as assume={{r'.*': " in said
    assert said.endswith(f"before it write assume={{r'{re.escape(name)}': '{kind}'}}")


def refused_anew(folder, *given, **options):
    os.unlink(folder / "b.safetensors")
    return refused(folder, *given, **options)


@pytest.mark.parametrize("shape, bias", [((8, 8, 3, 3), 8), ((8, 4, 3, 3), 8), ((8, 1, 3, 3), 8), ((64, 32, 3, 3), 64)])
def test_a_bias_that_fits_both_decides_nothing(tmp_path, shape, bias):
    """The second and third may be transposed convolutions in groups."""
    assert "cannot tell" in refused(tmp_path, "torch-to-flax", {"up.weight": shape, "up.bias": (bias,)})


@pytest.mark.parametrize("rules", ["torch-to-flax", "torch-to-mlx", "torch-to-keras"])
def test_transposed_convolutions_in_groups_are_refused(tmp_path, rules):
    tensors = {"up.weight": (8, 4, 3, 3), "up.bias": (8,)}
    said = refused(tmp_path, rules, tensors, assume={"up.*": "conv_transpose"})
    assert "tensor 'up.weight' of shape (8, 4, 3, 3) is a transposed convolution in 2 groups, as its bias of 8" in said


@pytest.mark.parametrize("name", ["it's.a = b.weight", "a\tb.weight", "x" * 3000 + ".weight", "(a|b)+.weight"])
def test_advice_can_be_written_for_every_name(tmp_path, name):
    said = refused(tmp_path, "torch-to-mlx", {name: (4, 4, 2, 2)})
    advice = re.findall(r"assume=\{r'(.*?)': '(.*?)'\}", said)
    assert "\t" not in said and len(said) < 1000
    assert taken(tmp_path, "torch-to-mlx", {name: (4, 4, 2, 2)}, assume=advice[1:])[name] == (
        "conv_transpose",
        "assume",
    )
    option = with_options(said).rpartition("before it --assume '")[2].partition("' for each")[0]
    (tmp_path / "b.safetensors").unlink()
    run("relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--map", "torch-to-mlx", "--assume", option)


def test_a_bias_that_fits_no_kind_is_an_error(tmp_path):
    """GPT-2 stores its linear layers as (in, out)."""
    tensors = {"h.0.attn.c_attn.weight": (6, 18), "h.0.attn.c_attn.bias": (18,)}
    said = refused(tmp_path, "torch-to-flax", tensors)
    assert said == (
        "tensor 'h.0.attn.c_attn.weight' of shape (6, 18) is not a linear layer or an embedding with its bias of shape "
        "(18,): write a rule of your own for it"
    )


def test_the_bias_may_be_in_another_shard(tmp_path):
    import json

    for number, tensors in enumerate(({"up.weight": ("F32", (6, 4, 3, 3))}, {"up.bias": ("F32", (4,))})):
        (tmp_path / f"{number}.safetensors").write_bytes(model(tensors, None))
    places = {"up.weight": "0.safetensors", "up.bias": "1.safetensors"}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (tmp_path / "new").mkdir()
    out = tmp_path / "new" / "m.safetensors.index.json"
    done = gl.relayout_file(tmp_path / "m.safetensors.index.json", out, tensors="torch-to-mlx")
    assert [each.kind for each in done.tensors] == ["conv_transpose", None]


def test_all_unclear_tensors_are_counted_and_the_first_one_is_named(tmp_path):
    tensors = {"a.weight": (4, 4, 2, 2), "conv1.weight": (4, 4, 2, 2), "b.weight": (4, 4, 2)}
    said = refused(tmp_path, "torch-to-mlx", tensors)
    assert "cannot tell what 2 tensors are.  The first is 'a.weight' of shape (4, 4, 2, 2)" in said
    assert "stack of matrices" not in said
    assert "or else a stack of matrices, which needs a rule of your own" in refused(
        tmp_path, "torch-to-mlx", {"b.weight": (4, 4, 2)}
    )


# ---- depthwise convolutions ----------------------------------------------------------------------------------

DEPTHWISE = (
    "dw conv_dw_1 block1a_dwconv dwconv2 depthwise depthwise_conv2d_3 expanded_conv_depthwise stem/DepthwiseConv2D"
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape, new", [((3, 2, 32, 1), (32, 1, 3, 2)), ((3, 5, 2), (10, 1, 3))])
@pytest.mark.parametrize("layer", DEPTHWISE.split())
def test_names_say_what_is_depthwise_in_keras(tmp_path, layer, shape, new, bias):
    tensors = {f"{layer}/kernel": shape} | ({f"{layer}/bias": (new[0],)} if bias else {})
    for assume in {}, {".*": "conv"}:  # says that no convolution is transposed, and these are not
        found = taken(tmp_path, "keras-to-torch", {**tensors, "conv1/kernel": (1, 1, 2, 3)}, assume=assume)
        assert found[f"{layer}/kernel"] == ("depthwise", "bias" if bias and shape[-1] > 1 else "name")
        assert contents(tmp_path / "b.safetensors")[f"{layer.replace('/', '.')}.weight"][1] == new


@pytest.mark.parametrize("layer", DEPTHWISE.split())
@pytest.mark.parametrize("rules", ["torch-to-flax", "torch-to-mlx", "torch-to-keras", "flax-to-torch", "mlx-to-torch"])
def test_elsewhere_a_depthwise_convolution_is_a_plain_one(tmp_path, rules, layer):
    name = written(rules, layer.replace("/", "."))
    assert taken(tmp_path, rules, {name: (32, 1, 3, 2)}, assume={".*": "conv"}) == {name: ("conv", "assume")}
    name = written(rules, "stem.conv_dw")
    assert taken(tmp_path, rules, {name: (32, 1, 3, 2)}) == {name: ("conv", "name")}


@pytest.mark.parametrize(
    "layer", ["a", "up", "features.0", "dw_pw", "depthwise_conv2d_transpose", "separable_dw", "dw/0"]
)
def test_a_kernel_of_keras_that_may_be_depthwise_is_never_guessed(tmp_path, layer):
    name = f"{layer}/kernel"
    if "separable" not in layer:
        said = refused(tmp_path, "keras-to-torch", {name: (3, 3, 32, 1)})
        words = "(conv) or a transposed convolution (conv_transpose) or a depthwise convolution (depthwise).  So write "
        assert words in said and "if no convolution in the file is transposed or depthwise, and before it " in said
    said = refused(tmp_path, "keras-to-torch", {"a/kernel": (3, 3, 32, 1), "a/bias": (32,)})
    advice = re.findall(r"assume=\{r'(.*?)': '(.*?)'\}", said)
    assert advice == [("a/kernel", "conv_transpose"), ("a/kernel", "depthwise")]
    for pair in advice:
        found = taken(tmp_path, "keras-to-torch", {"a/kernel": (3, 3, 32, 1), "a/bias": (32,)}, assume=[pair])
        assert found["a/kernel"] == (pair[1], "assume")
    assert contents(tmp_path / "b.safetensors")["a.weight"][1] == (32, 1, 3, 3)


def test_a_bias_says_what_is_depthwise_in_keras(tmp_path):
    tensors = {"up/kernel": (3, 3, 5, 2), "up/bias": (10,)}  # torch alone has transposed ones in groups
    assert taken(tmp_path, "keras-to-torch", tensors)["up/kernel"] == ("depthwise", "bias")
    tensors = {"dw/kernel": (3, 3, 5, 2), "dw/bias": (2,)}
    assert taken(tmp_path, "keras-to-torch", tensors)["dw/kernel"] == ("conv", "bias")


@pytest.mark.parametrize("name, assume", [("conv1", "depthwise"), ("deconv", "depthwise"), ("dw", "conv_transpose")])
def test_an_assumption_about_many_does_not_overrule_a_name_about_depthwise(tmp_path, name, assume):
    tensors = {f"{name}/kernel": (3, 3, 5, 1), "other/kernel": (3, 3, 5, 1)}
    assert f"tensor '{name}/kernel' of shape (3, 3, 5, 1) is called like " in refused(
        tmp_path, "keras-to-torch", tensors, assume={".*": assume}
    )


# ---- matrices ------------------------------------------------------------------------------------------------

MATRICES = ["torch-to-flax", "torch-to-keras"]


@pytest.mark.parametrize("rules", MATRICES)
@pytest.mark.parametrize(
    "layer",
    ["shared", "encoder.embed_tokens", "wte", "transformer.wpe", "embeddings.word_embeddings", "tok_embeddings", "emb",
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", "embeddings.position_embeddings", "embedding",
     "pos_embed", "embed_in", "model.Embedding_0", "token_type_embeddings", "position", "codebook"],
)  # fmt: skip
def test_embeddings_of_the_field_are_known_by_their_names(tmp_path, rules, layer):
    name = f"{layer}.weight"
    assert taken(tmp_path, rules, {name: (5, 3)}) == {name: ("embedding", "name")}
    assert next(iter(contents(tmp_path / "b.safetensors").values()))[1] == (5, 3)


@pytest.mark.parametrize("rules", MATRICES)
@pytest.mark.parametrize(
    "layer", ["q_proj", "fc1", "dense", "lm_head", "0", "attn.out", "classifier", "conv1", "time_embedding.linear_1"]
)
def test_other_matrices_are_taken_as_linear_and_said_to_be(tmp_path, rules, layer):
    name = f"{layer}.weight"
    assert taken(tmp_path, rules, {name: (5, 3)}) == {name: ("linear", "guess")}
    assert next(iter(contents(tmp_path / "b.safetensors").values()))[1] == (3, 5)
    assert taken(tmp_path, rules, {name: (5, 3)}, assume={".*": "embedding"}) == {name: ("embedding", "assume")}
    assert next(iter(contents(tmp_path / "b.safetensors").values()))[1] == (5, 3)


@pytest.mark.parametrize("rules", MATRICES)
@pytest.mark.parametrize(
    "layer", ["embed_out", "embed_proj", "emb_linear", "unembed", "embedding_head", "time_embed.0"]
)
def test_a_matrix_whose_name_says_both_is_not_guessed(tmp_path, rules, layer):
    name = f"{layer}.weight"
    said = refused(tmp_path, rules, {name: (5, 3)})
    assert f"It is '{name}' of shape (5, 3): a linear layer (linear) or an embedding (embedding).  So write" in said
    for pair in re.findall(r"assume=\{r'(.*?)': '(.*?)'\}", said):
        assert taken(tmp_path, rules, {name: (5, 3)}, assume=[pair]) == {name: (pair[1], "assume")}


@pytest.mark.parametrize("rules", MATRICES)
@pytest.mark.parametrize("layer", ["time_emb_proj", "class_embedding", "fc", "shared"])
def test_what_has_a_bias_is_no_embedding(tmp_path, rules, layer):
    tensors = {f"{layer}.weight": (5, 3), f"{layer}.bias": (5,)}
    assert taken(tmp_path, rules, tensors)[f"{layer}.weight"] == ("linear", "bias")


# ---- attention of Flax and Keras, and norms ------------------------------------------------------------------


@pytest.mark.parametrize("rules, out", [("flax-to-torch", "out"), ("keras-to-torch", "attention_output")])
def test_attention_is_known_by_the_names_and_the_biases_of_its_layers(tmp_path, rules, out):
    at = "/" if rules.startswith("keras") else "."
    tensors = {f"a{at}{name}{at}kernel": (6, 2, 4) for name in ("query", "key", "value")}
    kernel = f"a{at}{out}{at}kernel"
    assert {*taken(tmp_path, rules, tensors | {kernel: (2, 4, 6)}).values()} == {("attention", "name")}
    found = contents(tmp_path / "b.safetensors")
    assert found["a.query.weight"][1] == (8, 6) and found[f"a.{out}.weight"][1] == (6, 8)
    told = {"assume": {".*": "conv"}, "allow_unmatched": True}
    assert {*taken(tmp_path, rules, tensors | {kernel: (2, 4, 6)}, **told).values()} == {("attention", "name")}
    biases = {f"a{at}query{at}bias": (2, 4)}
    assert taken(tmp_path, rules, tensors | biases)[f"a{at}query{at}kernel"] == ("attention", "bias")


@pytest.mark.parametrize("layer", ["query", "key", "value", "out", "attention_output"])
@pytest.mark.parametrize("rules", ["flax-to-torch", "keras-to-torch"])
@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (2, 2, 2, 3, 4)])
def test_convolutions_may_be_called_like_attention(tmp_path, rules, layer, shape):
    """Attention has kernels of two and three dimensions."""
    name = written(rules, layer)
    assert taken(tmp_path, rules, {name: shape}, assume={".*": "conv"}) == {name: ("conv", "assume")}
    assert contents(tmp_path / "b.safetensors")[f"{layer}.weight"][1] == (4, 3, *shape[:-2])


@pytest.mark.parametrize("layer", ["query", "out", "attention_output"])
@pytest.mark.parametrize("rules", ["flax-to-torch", "keras-to-torch"])
def test_convolutions_of_three_dimensions_too(tmp_path, rules, layer):
    name = written(rules, layer)
    tensors = {name: (2, 3, 4), name.replace("kernel", "bias"): (4,)}
    assert taken(tmp_path, rules, tensors, assume={name: "conv"})[name] == ("conv", "assume")
    assert contents(tmp_path / "b.safetensors")[f"{layer}.weight"][1] == (4, 3, 2)
    if layer != "query":  # an output without a query is none
        assert "cannot tell" in refused_anew(tmp_path, rules, {name: (2, 3, 4)})


def test_norms_of_keras_have_a_gamma_and_a_beta(tmp_path):
    tensors = {"norm.weight": (4,), "norm.bias": (4,), "fc.weight": (4, 4), "fc.bias": (4,)}
    found = taken(tmp_path, "torch-to-keras", tensors)
    assert [found[name][0] for name in tensors] == ["norm", "norm", "linear", None]
    assert {*contents(tmp_path / "b.safetensors")} == {"norm/gamma", "norm/beta", "fc/kernel", "fc/bias"}
    os.unlink(tmp_path / "b.safetensors")
    said = refused(tmp_path, "torch-to-keras", {"rms.weight": (4,)})
    assert said.startswith("the map torch-to-keras has no rule for tensor 'rms.weight', F32[4]")


# ---- assumptions ---------------------------------------------------------------------------------------------


def test_the_first_assumption_that_fits_counts_and_only_for_kinds_that_a_tensor_may_have(tmp_path):
    tensors = {"up.weight": (4, 4, 2, 2), "down.weight": (4, 4, 2, 2), "table.weight": (5, 3)}
    assume = [("table.*", "embedding"), (r"up\..*", "conv_transpose"), (".*", "conv")]
    expected = {"up.weight": "conv_transpose", "down.weight": "conv", "table.weight": "embedding"}
    found = taken(tmp_path, "torch-to-flax", tensors, assume=assume)
    assert found == {name: (kind, "assume") for name, kind in expected.items()}


@pytest.mark.parametrize(
    "name, shape, assume, kind",
    [
        ("deconv1.weight", (4, 4, 2, 2), "conv", "conv_transpose"),
        ("conv1.weight", (4, 4, 2, 2), "conv_transpose", "conv"),
        ("wte.weight", (5, 3), "linear", "embedding"),
    ],
)
def test_an_assumption_about_many_tensors_does_not_overrule_a_name(tmp_path, name, shape, assume, kind):
    tensors = {name: shape, "other.weight": shape}
    said = refused(tmp_path, "torch-to-flax", tensors, assume={".*": assume})
    assert f"tensor '{name}' of shape {shape} is called like " in said
    pairs = re.findall(r"assume=\{r'(.*?)': '(.*?)'\}", said)
    assert pairs == [(".*", assume), (re.escape(name), kind), (re.escape(name), assume)]
    for pair in pairs[1:]:
        assert taken(tmp_path, "torch-to-flax", tensors, assume=[pair, pairs[0]])[name] == (pair[1], "assume")


@pytest.mark.parametrize(
    "rules, assume, said",
    [
        (
            "torch-to-mlx",
            {"x": "conf"},
            "assume={r'x': 'conf'}: 'conf' is no kind: write one of conv, conv_transpose",
        ),
        ("torch-to-mlx", {"format": "tensor"}, "'tensor' is no format: write one of pt, flax, mlx, keras, tf"),
        ("torch-to-keras", {".*": "norm"}, "'norm' is no kind: write one of conv, conv_transpose, linear, embedding"),
        ("torch-to-mlx", {"(": "conv"}, "assume={r'(': 'conv'}: '(' is not a regular expression"),
        ("torch-to-mlx", {"conv": "conv"}, "assume={r'conv': 'conv'} fits no tensor of "),
        (
            "torch-to-mlx",
            {".*": "embedding"},
            "is for rules of this kind, and the map torch-to-mlx has none: write one of conv, conv_transpose",
        ),
        ("torch-to-flax", {".*": "depthwise"}, "has none: write one of conv, conv_transpose, linear, embedding"),
        ({}, {".*": "conv"}, "is for rules of this kind, and ready maps have such"),
        ({}, {".*": "conf"}, "'conf' is no kind: write one of conv, conv_transpose, depthwise, linear, embedding, att"),
        ({}, {"format": "pt"}, "is for maps that say which format they read, and there are none"),
    ],
)
def test_assumptions_that_mean_nothing_are_refused(tmp_path, rules, assume, said):
    assert said in refused(tmp_path, rules, {"conv1.weight": (4, 4, 2, 2)}, assume=assume)


NOTHING = [  # rules, tensors, assumptions of which the last decides nothing, and what the error says
    ("torch-to-mlx", {"up.weight": (4, 4, 2, 2)}, [(".*", "conv"), ("up.*", "conv_transpose")], "comes after"),
    ("torch-to-mlx", {"up.weight": (4, 4, 2, 2)}, [(".*", "conv"), ("up.*", "conv")], "comes after"),
    (
        "torch-to-flax",
        {"e.weight": (4, 2), "f.weight": (4, 2)},
        [(".*", "linear"), ("e.*", "embedding")],
        "comes after",
    ),
    ("keras-to-torch", {"a/kernel": (3, 3, 4, 1)}, [(".*", "conv"), ("a.*", "depthwise")], "comes after"),
    (
        "torch-to-flax",
        {"fc.weight": (4, 2)},
        [(".*", "conv")],
        "decides nothing: it fits 1 tensor, and it, 'fc.weight' of shape (4, 2), is taken as linear (guess)",
    ),
    ("torch-to-flax", {"fc.bias": (4,)}, [(".*", "conv")], "it, 'fc.bias' of shape (4,), has no rule for this kind"),
    (
        "flax-to-torch",
        {"q.bias": (2,), "query.kernel": (4, 2, 3)},
        [("q.*", "conv_transpose")],
        "the first, 'query.kernel' of shape (4, 2, 3), is taken as attention (name)",
    ),
    ("keras-to-torch", {"dw/kernel": (3, 3, 4, 1), "dw2/kernel": (3, 3, 4, 1)}, [(".*", "conv")], "depthwise (name)"),
    ("torch-to-flax", {"fc.weight": (4, 2)}, [("conv.*", "conv")], "fits no tensor of "),
]


@pytest.mark.parametrize("rules, tensors, assume, said", NOTHING)
def test_an_assumption_that_decides_nothing_is_an_error(tmp_path, rules, tensors, assume, said):
    match, kind = assume[-1]
    message = refused(tmp_path, rules, tensors, assume=assume)
    assert (
        message.startswith(f"assume={{r'{match}': '{kind}'}} {said}" if said[0] != "t" else "assume=")
        or said in message
    )
    if said == "comes after":
        assert message.endswith(f"assume={{r'.*': '{assume[0][1]}'}}, which fits the same tensors: write it first")
    taken(tmp_path, rules, tensors, assume=assume, allow_unmatched=True)
    taken(tmp_path, rules, tensors, assume=assume[:-1])


@pytest.mark.parametrize("assume", ["conv", ["conv"], 5, {5: "conv"}])
def test_assumptions_of_other_types_are_named(tmp_path, assume):
    with pytest.raises((TypeError, gl.LayoutError), match="assume"):
        taken(tmp_path, "torch-to-mlx", {"conv1.weight": (4, 4, 2, 2)}, assume=assume)


# ---- rules of one's own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, 4096])
@pytest.mark.parametrize(
    "text, shape, expected",
    [
        ("i o h w -> h w i o; flip=h w", (7, 5, 3, 4), lambda a: a.transpose(2, 3, 0, 1)[::-1, ::-1]),
        ("h w i o -> i o h w; flip=h w", (3, 4, 7, 5), lambda a: a[::-1, ::-1].transpose(2, 3, 0, 1)),
        ("h w c -> h w c; flip=h", (30, 4, 50), lambda a: a[::-1]),
        ("h w c -> c h w; flip=c", (30, 4, 50), lambda a: a.transpose(2, 0, 1)[::-1]),
        ("i o h w -> h w i o; flip=w h", (7, 5, 1, 1), lambda a: a.transpose(2, 3, 0, 1)),
        ("a b -> b a; flip=a; dtype=f64", (50, 70), lambda a: a[::-1].T.astype(np.float64)),
        ("a b -> b a; flip=a b", (50, 0), lambda a: a.T),
    ],
)
def test_axes_are_flipped_in_blocks_of_any_size(tmp_path, monkeypatch, text, shape, expected, memory):
    monkeypatch.setattr(route, "LEAST_RUN", 0)  # short runs are accepted: this is about many small blocks
    data = model({"w": ("F32", shape)}, None)
    (tmp_path / "a.safetensors").write_bytes(data)
    gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={"w": text}, max_bytes=memory)
    array = np.frombuffer(contents(tmp_path / "a.safetensors")["w"][2], np.float32).reshape(shape)
    _, dimensions, found = contents(tmp_path / "b.safetensors")["w"]
    with np.errstate(invalid="ignore"):
        right = np.ascontiguousarray(expected(array))
    assert dimensions == right.shape and found == right.tobytes()


@pytest.mark.parametrize(
    "text, said",
    [
        ("i o h w -> h w i o; flip=h", None),
        ("i o h w -> h w i o; flip=w", "flip 'w' is for axes that come first on one side, and in pattern"),
        ("i o h w -> h w i o; flip=h o", "on one side"),
        ("i o h w -> h w i o; flip=d", "flip 'd' names the axis 'd', but its patterns have h, i, o, w"),
        ("F; flip=h", "but it has no pattern"),
        ("kind=convolution; F", "kind 'convolution' is none of conv, conv_transpose, depthwise, linear"),
    ],
)
def test_flips_and_kinds_that_cannot_be_are_refused(tmp_path, text, said):
    if said is None:
        assert taken(tmp_path, {"w": text}, {"w": (2, 3, 4, 5)}) == {"w": (None, None)}
    else:
        assert said in refused(tmp_path, {"w": text}, {"w": (2, 3, 4, 5)})


def test_a_flip_is_for_arrays_in_c_order(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(model({"w": ("U8", (48,))}, {"gpulayout:w": "f32[3,4]{0,1}"}))
    with pytest.raises(gl.LayoutError, match="flip is for arrays in C order"):
        gl.relayout_file(tmp_path / "a.safetensors", tmp_path / "b.safetensors", tensors={"w": "a b -> b a; flip=a"})


def test_a_rule_for_a_kind_leaves_other_kinds_to_the_map(tmp_path):
    rules = [{"(.*)weight": r"i o h w -> h w i o; kind=conv_transpose"}, "torch-to-mlx"]
    tensors = {"conv1.weight": (4, 5, 2, 3), "deconv1.weight": (4, 5, 2, 3), "fc.weight": (5, 4)}
    taken(tmp_path, rules, tensors)
    found = contents(tmp_path / "b.safetensors")
    assert [found[name][1] for name in tensors] == [(4, 2, 3, 5), (2, 3, 4, 5), (5, 4)]


def test_a_rule_for_a_kind_that_a_tensor_is_not_leaves_it_to_one_without_a_kind(tmp_path):
    rules = {"(.*)weight": r"o i h w -> h w i o; kind=conv", r"(.*)weigh[t]": "C"}
    tensors = {"conv1.weight": (4, 5, 2, 3), "deconv1.weight": (4, 5, 2, 3)}
    taken(tmp_path, rules, tensors)
    found = contents(tmp_path / "b.safetensors")
    assert found["conv1.weight"][1] == (2, 3, 5, 4) and found["deconv1.weight"][1] == (4, 5, 2, 3)


# ---- the command line ----------------------------------------------------------------------------------------


def test_the_command_says_what_to_write_and_what_was_assumed(tmp_path):
    tensors = {"conv1.weight": (4, 3, 2, 2), "up.weight": (4, 4, 2, 2), "fc.weight": (5, 4), "lm_head.weight": (5, 4)}
    (tmp_path / "a.safetensors").write_bytes(model({name: ("F32", each) for name, each in tensors.items()}, None))
    command = ["relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--map", "torch-to-flax"]
    said = failure(*command)
    assert "write --assume '.*=conv' if no convolution in the file is transposed, and before it --assume " in said
    assert r"--assume 'up\.weight=conv_transpose' for each one that is" in said
    done = run(*command, "--assume", r"up\.weight=conv_transpose", "--dry-run")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["conv1.weight", "F32[4,3,2,2]", "F32[2,2,3,4]", "params.conv1.kernel", "conv", "(name)", "moved"] in rows
    assert [each for each in rows if "up.weight" in each[:1]][0][4:6] == ["conv_transpose", "(assume)"]
    assert "1 tensor taken as conv (name): 'conv1.weight'" in done.stdout
    assert "2 tensors taken as linear (guess): 'fc.weight' and 1 more" in done.stdout


# ---- rules of one's own before those of a map ----------------------------------------------------------------

CHANGES = [
    "scale=2",
    "scale=0.5,1; divide",
    "shift=1",
    "dtype=bf16",
    "name=x",
    "scale=2; dtype=bf16; name=x",
    "rank=2; shift=1",
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "rules, name, shape, pattern",
    [
        ("torch-to-flax", "fc.weight", (3, 2), "o i -> i o"),
        ("torch-to-keras", "conv1.weight", (3, 4, 5, 2), "o i h w -> h w i o"),
        ("torch-to-flax", "deconv.weight", (3, 4, 5, 2), "i o h w -> h w i o; flip=h w"),
        ("torch-to-mlx", "up.weight", (3, 4, 2), "o i w -> o w i"),
        ("flax-to-torch", "fc.kernel", (3, 2), "i o -> o i"),
        ("keras-to-torch", "dw/kernel", (3, 5, 2), "w i m -> (i m) 1 w"),
        ("mlx-to-torch", "conv1.weight", (3, 4, 2), "o w i -> o i w"),
    ],
)
def test_a_rule_that_hides_the_order_of_a_map_says_the_order(tmp_path, rules, name, shape, pattern, change):
    if "rank=2" in change and len(shape) != 2:
        change = change.replace("rank=2", f"rank={len(shape)}")
    if name == "up.weight":
        assert " cannot tell what 1 tensor is" in refused(tmp_path, [{".*": change}, rules], {name: shape})
    assume = {".*": "conv"} if name == "up.weight" else {}
    said = refused(tmp_path, [{".*": change}, rules], {name: shape}, assume=assume)
    assert said.startswith(f"tensor '{name}': the rule '.*' does not say in which order the elements come, and rule ")
    assert f" of the map {rules}, which stands behind it, would move them: write " in said
    both, still = re.findall(r"'([^']*->[^']*)'", said)
    assert both.startswith(f"{pattern}; ") and still.startswith(f"{pattern.partition(' ->')[0]} -> ")
    assert ("yours needs a name= too" in said) == ("name" not in change and "mlx" not in rules)
    found = []
    for what in both, still:
        taken(tmp_path, [{".*": what}, rules], {name: shape, "bias": (3,)}, assume=assume)
        found += [each for each in contents(tmp_path / "b.safetensors").values() if len(each[1]) > 1]
    taken(tmp_path, {".*": f"{change}; {pattern}"}, {name: shape})
    assert found[0] == next(iter(contents(tmp_path / "b.safetensors").values())) and found[1][1] == shape


@pytest.mark.parametrize("what", ["keep", "drop", "C", "o i -> o i; scale=2", "o i -> i o; scale=2"])
def test_a_rule_that_says_the_order_stands_before_a_map(tmp_path, what):
    assert taken(tmp_path, [{".*": what}, "torch-to-flax"], {"fc.weight": (3, 2)})["fc.weight"] == (None, None)
    taken(tmp_path, [{".*": "scale=2"}, "torch-to-flax"], {"fc.bias": (3,), "wte.weight": (3, 2)})  # it moves neither


def test_also_a_map_of_ones_own_says_the_order(tmp_path):
    (tmp_path / "my.toml").write_text("[[tensor]]\nmatch = '.*'\nscale = 2\n")
    (tmp_path / "new.toml").write_text("[[tensor]]\nmatch = '.*'\nto = 'F'\n")
    maps = [tmp_path / "my.toml", tmp_path / "new.toml"]
    with pytest.raises(
        gl.LayoutError, match="my.toml does not say in which .*new.toml.*write 'F; rank=2; scale=2' .*'C; rank"
    ):
        taken(tmp_path, maps, {"fc.weight": (3, 2)})
    taken(tmp_path, maps[::-1], {"fc.weight": (3, 2)}, allow_unmatched=True)


@pytest.mark.parametrize(
    "name", "netG.conv1 net_g.conv1 hifigan.conv G.conv1 transp.conv reverse.conv vae.conv1 g_s.conv".split()
)
def test_convolutions_of_models_that_grow_are_not_called_plain(name):
    assert kind_in_name(f"{name}.weight", ()) is None


@pytest.mark.parametrize("name", ["member", "remember", "september", "assembly"])
def test_words_that_hold_emb_are_no_embeddings(name):
    assert kind_in_name(f"{name}.weight", ()) is None


@pytest.mark.parametrize("name", ["emb", "tok_embeddings", "wordemb", "embed_tokens", "pos_embed", "wte"])
def test_words_for_embeddings(name):
    assert kind_in_name(f"{name}.weight", ()) == "embedding"
    assert kind_in_name(f"{name}.0.weight", ()) == "doubtful"  # in a sequence, which may hold other layers too
