"""Files and pickles of packed tensors may come from anywhere: what they say is checked, and a message has one line."""

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
