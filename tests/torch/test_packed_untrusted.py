"""Files and pickles of packed tensors may come from anywhere: what they say is checked, and a message has one line."""

import io
import json

import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.safetensors"


def module(**tensors):
    """A model with parameters of these names."""
    made = torch.nn.Module()
    for name, tensor in tensors.items():
        made.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
    return made


def packed(**tensors):
    """The same, packed in columns."""
    made = module(**tensors)
    for each in made.parameters():
        gl.torch.pack_(each, "{0,1}")
    return made


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"), [("__metadata__", "the format keeps that name"), ("\ud800", "it has half a character")]
)
def test_a_name_that_no_file_can_have_is_refused_before_there_is_one(file, name, problem):
    for given in (module(**{name: torch.ones(2, 3)}), packed(**{name: torch.ones(2, 3)})):
        with pytest.raises(ValueError, match=f"no tensor of such a file can be called .*: {problem}"):
            gl.torch.save_packed(given, file)
        assert not file.exists()


@pytest.mark.parametrize("name", ["gpulayout:w", "gpulayout:v", "gpulayout-plain:w"])
@pytest.mark.parametrize("make", [module, packed])
def test_a_tied_tensor_whose_name_is_that_of_a_note_is_written_again(file, name, make):
    def tied(values):
        made = make(w=values)
        made.register_parameter(name, made.w)
        return made

    gl.torch.save_packed(tied(torch.arange(6.0).reshape(2, 3)), file)
    other = tied(torch.zeros(2, 3))
    assert gl.torch.load_packed(file, other) == ([], [])
    assert torch.equal(gl.torch.read(other.w), torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("name", ["model.safetensors.index.json", "model", "model.sft"])
def test_a_file_has_a_name_under_which_it_is_found_again(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name}: the name of a model in one file ends in .safetensors$"):
        gl.torch.save_packed(packed(w=torch.ones(2, 3)), tmp_path / name)
    assert not [*tmp_path.iterdir()]


# ---- notes -----------------------------------------------------------------------------------------------------------

F32 = {"dtype": "float32", "sizes": [6, 8]}


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ({**F32, "sizes": [6] * 5000}, "5000 sizes and 5000 strides are not as many, and at most 64"),
        ({**F32, "sizes": [6] * 64}, r"need 2\^63 bytes"),
        ({**F32, "strides": [1]}, "2 sizes and 1 strides are not as many"),
        ({**F32, "strides": [1 << 62, 1]}, r"need 2\^63 bytes"),
        ({**F32, "axes": [0] * 5000}, "are no order of axes"),
        ({**F32, "dtype": "a\nb"}, r"'a\\nb' is no dtype of torch"),
        ({**F32, "dtype": "x" * 5000}, "is no dtype of torch"),
        ({**F32, "dtype": "nn"}, "'nn' is no dtype of torch"),
        ({**F32, "dtype": "quint4x2"}, "quint4x2"),
    ],
)
def test_what_a_file_says_of_a_plain_tensor_is_refused_in_one_short_line(file, plain, problem):
    gl.torch.save_packed(packed(w=torch.ones(6, 8)), file)
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"]["gpulayout-plain:w"] = json.dumps(plain)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    with pytest.raises(ValueError, match=problem) as caught:
        gl.torch.load_packed(file, packed(w=torch.zeros(6, 8)))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_dtype_of_a_note_imports_no_module(monkeypatch):
    """torch imports its modules when they are first asked for; what a file says must not."""

    def imported(name):
        raise AssertionError(name)

    monkeypatch.setattr(torch, "__getattr__", imported)
    with pytest.raises(gl.LayoutError, match="'onnx_of_a_file' is no dtype of torch"):
        rebuild(plain=("f32[2,3]{1,0}", "onnx_of_a_file", (2, 3), (3, 1)))


# ---- pickles ---------------------------------------------------------------------------------------------------------


def pickled():
    """What a packed tensor becomes in a pickle: a function, and its arguments."""
    return packed(w=torch.arange(6.0).reshape(2, 3)).w.__reduce_ex__(2)[:2]


def rebuild(data=None, is_parameter=True, requires_grad=False, kind=None, state=None, **facts):
    """The tensor of a pickle that says something else."""
    function, arguments = pickled()
    data = arguments[0] if data is None else data
    return function(data, arguments[1] | facts, is_parameter, requires_grad, kind, {} if state is None else state)


@pytest.mark.parametrize(
    "said",
    [
        {"data": [1.0]},
        {"data": torch.zeros(5)},
        {"data": torch.zeros(2, 3)},
        {"data": torch.zeros(1).expand(6)},
        {"data": torch.zeros(6).to_sparse()},
        {"kind": 3},
        {"kind": int},
        {"state": 3},
        {"state": [3]},
        {"name": 3},
        {"name": "a\nb"},
        {"name": "f32[20,30]{1,0}"},
        {"name": "s32[2,3]{0,1}"},
        {"source": 3},
        {"axes": (5, 7)},
        {"axes": (0, 0)},
        {"axes": "01"},
        {"axes": None},
        {"plain": ("f32[2,3]{1,0}", "float32", (2, 3), (0, 1))},
        {"plain": ("f32[2,3]{1,0}", "float32", (2, 3), (1, 1))},
        {"plain": ("f32[2,3]{1,0}", "float32", (2, 3), (3, 2))},
        {"plain": ("f32[2,3]{1,0}", "float32", (float("inf"), 3), (3, 1))},
        {"plain": ("f32[2,3]{1,0}", "nn", (2, 3), (3, 1))},
        {
            "data": torch.zeros(6, dtype=torch.int32),
            "requires_grad": True,
            "name": "s32[2,3]{0,1}",
            "plain": ("s32[2,3]{1,0}", "int32", (2, 3), (3, 1)),
            "packed": ("s32[2,3]{0,1}", "int32", (6,), (1,)),
        },
    ],
    ids=str,
)
def test_a_pickle_that_is_none_of_a_packed_tensor_is_refused(said):
    with pytest.raises(gl.LayoutError, match=r"^(a note|a pickle) of a packed tensor|^packed bytes") as caught:
        rebuild(**said)
    assert "\n" not in str(caught.value) and "Error" not in str(caught.value)


def test_strides_of_a_plain_tensor_in_a_pickle_may_be_those_of_any_order():
    turned = rebuild(plain=("f32[2,3]{0,1}", "float32", (2, 3), (1, 2)))
    assert torch.equal(gl.torch.unpack_(turned), torch.arange(6.0).reshape(2, 3)) and turned.stride() == (1, 2)


def test_a_packed_tensor_of_a_pickle_does_not_move_into_the_memory_of_its_neighbours():
    """Codes take more bytes once they are plain.  A pickle may say that another tensor lies there."""
    memory = torch.arange(48, dtype=torch.uint8)
    name, plain = "u4[6,8]{0,1:E(4)}", ("u4[6,8]{1,0}", "uint8", (6, 8), (8, 1))
    given = rebuild(memory[:24], name=name, plain=plain, packed=(name, "uint8", (24,), (1,)))
    gl.torch.unpack_(given)
    assert torch.equal(memory, torch.arange(48, dtype=torch.uint8))


def test_such_pickles_are_refused_with_weights_only_too():
    class Lies:
        def __reduce__(self):
            function, arguments = pickled()
            return function, ([1.0], *arguments[1:])

    stream = io.BytesIO()
    torch.save(Lies(), stream)
    stream.seek(0)
    with pytest.raises(gl.LayoutError, match="a pickle of a packed tensor has no bytes of one, but a list"):
        torch.load(stream, weights_only=True)


# ---- tensors without elements ----------------------------------------------------------------------------------------


def test_tensors_without_elements_are_not_tied_to_one_another(file):
    """As `g_idx` of a checkpoint without act-order: they share no memory, though all of them begin at none."""
    given = module(first=torch.zeros(6, 0), second=torch.zeros(8, 4, 0, dtype=torch.uint8), third=torch.ones(2))
    gl.torch.pack_(given.first, "{0,1}")
    gl.torch.save_packed(given, file)
    other = module(first=torch.zeros(6, 0), second=torch.zeros(8, 4, 0, dtype=torch.uint8), third=torch.zeros(2))
    gl.torch.load_packed(file, other)
    assert str(gl.torch.layout_of(other.first)) == "f32[6,0]{0,1}" and gl.torch.layout_of(other.second) is None
    assert (
        other.second.shape == (8, 4, 0) and other.second.dtype == torch.uint8 and torch.equal(other.third, given.third)
    )


# ---- codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [15, 16, 200])
def test_a_plain_code_that_loses_bits_is_refused_before_a_byte_is_written(file, code):
    codes = torch.zeros(16, 64, dtype=torch.uint8)
    codes[-1, -1] = code
    gl.torch.save_packed(module(bias=torch.ones(4), w=codes), file)
    other = module(bias=torch.zeros(4), w=torch.zeros(16, 64, dtype=torch.uint8))
    gl.torch.pack_(other.w, "marlin:weights(dtype=u4)")
    if code < 16:
        gl.torch.load_packed(file, other)
        assert torch.equal(gl.torch.read(other.w), codes)
        return
    with pytest.raises(gl.LayoutError, match=f"nothing was loaded: 'w': .* in the file .* a code of {code}, but u4"):
        gl.torch.load_packed(file, other)
    assert not other.bias.any() and not gl.torch.read(other.w).any()


# ---- memory that tensors of the model share --------------------------------------------------------------------------


def test_tensors_that_share_memory_are_found_before_a_byte_is_written(file):
    """One that becomes packed would change what the other means, and then the other could not be loaded."""
    gl.torch.save_packed(packed(a=torch.ones(2, 3), b=torch.ones(2, 3), c=torch.ones(3, 2)), file)
    for views in (
        lambda memory: (memory[:6].view(2, 3), memory[3:9].view(2, 3), memory[9:15].view(3, 2)),
        lambda memory: (memory[:6].view(2, 3), memory[6:12].view(2, 3), memory[:6].view(2, 3).t()),
    ):
        memory = torch.zeros(20)
        other = module(**dict(zip("abc", views(memory))))
        with pytest.raises(gl.LayoutError, match="nothing was loaded: 'a' and '[bc]' share memory, and one of them"):
            gl.torch.load_packed(file, other)
        assert not memory.any() and gl.torch.layout_of(other.a) is None
    memory = torch.zeros(20)
    other = module(a=memory[:6].view(2, 3), b=memory[6:12].view(2, 3), c=memory[12:18].view(3, 2))
    gl.torch.load_packed(file, other)  # beside one another in one memory
    assert memory.tolist() == [1.0] * 18 + [0.0] * 2


def test_a_tensor_whose_elements_share_memory_is_found_before_a_byte_is_written(file):
    gl.torch.save_packed(module(a=torch.ones(2), b=torch.ones(2, 3)), file)
    other = module(a=torch.zeros(2), b=torch.zeros(1, 3).expand(2, 3))
    with pytest.raises(gl.LayoutError, match=r"nothing was loaded: 'b' is float32\[2,3\] of strides \(0, 1\)"):
        gl.torch.load_packed(file, other)
    assert not other.a.any()
