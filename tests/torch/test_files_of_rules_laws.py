"""Files that random rules make: they load, and every packed tensor leads back to the tensor of the old file."""

import json
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import route
from gpulayout.files.checkpoints.header import notes_of, plain_sides_of
from tests.support.effort import ALL
from tests.support.model_cases import case_of, file_of, relayout
from tests.support.model_files import NEEDS_SAFETENSORS
from tests.support.random_models import random_families
from tests.support.random_tensors import PLAIN, pick, random_array, random_words, some_shape

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import bytes_of, packed_bytes  # noqa: E402
from tests.torch.test_packed_files import parts  # noqa: E402
from tests.torch.test_packed_files_laws import case  # noqa: E402


def tensor_of(array):
    """The tensor of an array of any type."""
    bits = torch.from_numpy(np.array(array, order="C").view(f"u{array.itemsize}"))
    return bits.view(getattr(torch, array.dtype.name))


def same(one, other):
    """Whether plain tensors have the same dtype, sizes and bits."""
    return one.dtype == other.dtype and one.shape == other.shape and bytes_of(one) == bytes_of(other)


def module(tensors):
    """A model of tensors by name, which may have dots."""
    made = torch.nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        place = made
        for each in path:
            if each not in place._modules:
                place.add_module(each, torch.nn.Module())
            place = place.get_submodule(each)
        place.register_parameter(last, torch.nn.Parameter(tensor, requires_grad=False))
    return made


@pytest.mark.one_in(3)
@pytest.mark.parametrize("entry", gl.catalogue.entries(), ids=lambda entry: entry.name)
def test_every_entry_is_packed_in_a_file_as_in_a_model(entry, tmp_path):
    rng = random.Random(f"rules for {entry.name}")
    for number in range(12 if ALL else 3):
        plain, layout, values, shape, _ = case(entry, rng)
        plain, old, new = (
            plain.contiguous(),
            tmp_path / f"old{number}.safetensors",
            tmp_path / f"new{number}.safetensors",
        )
        gl.torch.save_packed(module({"w": plain}), old)
        codes = f"from={gl.Shape(shape.element_type, plain.shape)}; " if shape.element_type.is_sub_byte else ""
        gl.relayout_file(old, new, tensors={"w": codes + layout})
        if not notes_of(parts(new)[0].get("__metadata__")):
            continue  # an array in C order, for these sizes
        started = module({"w": plain.to("meta")})
        gl.torch.load_packed(new, started, assign=True)
        found = [started.w, *packed_in_models(new, started.w, plain, layout)]
        for each in found:
            assert gl.torch.layout_of(each) == gl.torch.layout_of(found[-1])
            assert (each.dtype, each.shape) == (found[-1].dtype, found[-1].shape)
            assert bytes_of(each) == packed_bytes(values, shape) and same(gl.torch.read(each), plain)


def packed_in_models(file, packed, plain, layout):
    """A weight that was as the kernel takes it; without padding also one that was plain, and one that `pack_` made."""
    models = [module({"w": torch.zeros(packed.shape, dtype=packed.dtype)})]
    if packed.nbytes <= plain.nbytes:
        models += [module({"w": torch.zeros_like(plain)})]
    for each in models:
        gl.torch.load_packed(file, each)
    if packed.nbytes <= plain.nbytes:
        models += [module({"w": plain.clone()})]
        gl.torch.pack_(models[-1].w, layout)
    return [each.w for each in models]


def random_rule(rng):
    """An old tensor, a rule that packs it and changes no element, and whether the rule says what its words are."""
    kind, dtype = pick(rng, ["array", "array", "elements", "entry", "shape"]), pick(rng, PLAIN)
    shape = [int(size) for size in some_shape(rng, int(rng.integers(1, 4)), 6)]
    if kind == "elements":
        shape[-1] *= 8
        dtype, rule = pick(rng, ["U8", "I32", "U16"]), {"from": pick(rng, ["u4", "u2", "s4", "f4e2m1fn", "u8"])}
    elif kind == "entry":
        dtype, shape = "I32", [8 * int(rng.integers(1, 3)), 8 * int(rng.integers(1, 3))]
        rule = {"from": pick(rng, ["gptq:qweight(dtype=u4)", "awq:qweight", "gptq:qweight(dtype=u2)"])}
    elif kind == "shape":
        dtype, shape = pick(rng, ["U8", "I32"]), [16, 6]
        count = 96 * (1 if dtype == "U8" else 4)
        shapes = [
            f"u4[{count // 8},16]{{0,1:E(4)}}",
            f"u8[{count // 8},8]{{1,0:T(2,4)}}",
            f"u8[2,{count // 4},2]{{1,2,0}}",
        ]
        rule = {"from": pick(rng, shapes)}
    else:
        rule = {}
    array = random_array(rng, dtype, shape) if kind == "array" else random_words(rng, dtype, shape)
    rank = rule["from"].partition("]")[0].count(",") + 1 if kind == "shape" else len(shape)
    order = [int(each) for each in rng.permutation(rank)]
    tiles = ",".join(str(int(each)) for each in rng.integers(1, 5, min(rank, 2)))
    layout = pick(rng, ["F", "{" + ",".join(map(str, rng.permutation(rank))) + f":T({tiles})}}"])
    if kind in ("array", "shape") and rng.random() < 0.6 and "T" not in rule.get("from", ""):
        ones = [axis for axis, size in enumerate(shape) if size == 1 and kind == "array"][: rank - 1]
        names = ["1" if axis in ones else f"n{axis}" for axis in range(rank)]
        after = [names[axis] for axis in order if axis not in ones]
        if len(after) == rank:
            rule["pattern"] = f"{' '.join(names)} -> {' '.join(after)}"
        elif layout == "F":
            rule["pattern"] = f"{' '.join(names)} -> {' '.join(after)}"
    return array, rule, layout


@pytest.mark.parametrize("seed", range(300 if ALL else 60))
def test_a_packed_tensor_leads_back_to_the_tensor_of_the_old_file(tmp_path, seed):
    rng = np.random.default_rng([17, seed])
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    arrays, rules = {}, {}
    for number in range(5):
        array, rule, layout = random_rule(rng)
        arrays[f"w{number}"] = array
        from_ = f"from={rule['from']}" if "from" in rule else ""
        rules[f"w{number}"] = "; ".join(filter(None, (from_, rule.get("pattern"), layout)))
    old.write_bytes(file_of(arrays))
    gl.relayout_file(old, new, tensors=rules)
    check_plain_tensors(new, arrays, rules)
    again = again_elsewhere(rng, notes_of(parts(new)[0].get("__metadata__")))
    gl.relayout_file(new, tmp_path / "again.safetensors", tensors=again)
    check_plain_tensors(tmp_path / "again.safetensors", arrays, again)


def again_elsewhere(rng, notes):
    """Rules that move packed tensors on: another order, or another layout, or both."""
    rules = {}
    for name, note in notes.items():
        rank = gl.parse_shape(note).rank
        names = [f"n{axis}" for axis in range(rank)]
        pattern = f"{' '.join(names)} -> {' '.join(str(each) for each in rng.permutation(names))}"
        layout = "{" + ",".join(map(str, rng.permutation(rank))) + ":T(2)}"
        is_plain = "T" not in note and ":" not in note.partition("[")[0]
        rules[name] = pick(rng, [layout, f"{pattern}; {layout}" if is_plain else layout])
    return rules


def check_plain_tensors(file, arrays, rules):
    """Every packed tensor of a file leads back to the old one."""
    noted = notes_of(parts(file)[0].get("__metadata__"))  # the others are arrays in C order
    plain = {name: tensor_of(arrays[name]) for name in noted}
    started = module({name: tensor.to("meta") for name, tensor in plain.items()})
    gl.torch.load_packed(file, started, strict=False, assign=True)
    for name, tensor in plain.items():
        found = getattr(started, name)
        assert gl.torch.layout_of(found) is not None and same(gl.torch.read(found), tensor), rules[name]


def plain_or_packed(name, metadata):
    """A tensor on the meta device that a packed one of a file goes into: the plain one, if the file says what it is."""
    side = plain_sides_of(metadata).get(name)
    if side is None:
        packed = gl.torch.empty_packed(notes_of(metadata)[name])
        return torch.empty(packed.shape, dtype=packed.dtype, device="meta")
    said = json.loads(side)
    return torch.empty(said["sizes"], dtype=getattr(torch, said["dtype"]), device="meta")


@NEEDS_SAFETENSORS
@pytest.mark.parametrize("seed", range(300 if ALL else 40))
def test_whatever_rules_make_loads_and_takes_new_values(tmp_path, monkeypatch, seed):
    """Also of joins, stacks, shards, pieces in several files, and arithmetic."""
    monkeypatch.setattr(route, "LEAST_RUN", 0)  # short runs are accepted
    given = case_of(random_families(np.random.default_rng([3, seed])), seed)
    out = relayout(tmp_path, given)
    metadata = {}
    for file in out.parent.glob("*.safetensors"):
        metadata |= parts(file)[0].get("__metadata__") or {}
    started = module({name: plain_or_packed(name, metadata) for name in notes_of(metadata)})
    gl.torch.load_packed(out, started, strict=False, assign=True)
    for name, weight in started.named_parameters():
        packed, plain = bytes_of(weight), gl.torch.read(weight)
        assert gl.torch.layout_of(weight) is not None, (name, str(given))
        gl.torch.copy_(weight, torch.zeros_like(plain))
        gl.torch.copy_(weight, plain)
        assert bytes_of(weight) == packed, (name, str(given))
