"""The conversions that are measured, and the image libraries beside them, whose functions stand here in NumPy."""

import json
import sys
import types

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.select import quick
from benchmarks.clock import Effort
from benchmarks.numpy_side import NumpySide
from benchmarks.peers import stages
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.convert import operands, parameters, planned, split
from benchmarks.peers.convert_images import CvCuda, Dali
from benchmarks.peers.inputs import input_and_output
from benchmarks.peers.stages import Stage
from benchmarks.run import Run

BY_NAME = {case.name: case for case in CONVERT_CASES}
ALL = pytest.mark.parametrize("name", BY_NAME)


def test_names_are_unique_and_fit_the_table():
    assert len(BY_NAME) == len(CONVERT_CASES) and max(map(len, BY_NAME)) <= 44


@ALL
def test_a_smaller_case_has_the_same_kinds_of_parameters(name):
    case, small = BY_NAME[name], quick([BY_NAME[name]])[0]
    assert small.bytes_moved < case.bytes_moved and small.form == case.form
    for one in (case, small):
        assert all(size % count == 0 for size, count in zip(one.dimensions, one.parameter))
        assert planned(one).change.arithmetic.form == case.form
        assert [given.size for given in parameters(one).values()] == [int(np.prod(one.parameter))] * len(
            parameters(one)
        )
        for operand in operands(one):
            np.broadcast_shapes(
                operand.shape, [split(one)[0][dim] for dim in one.order] if one.is_turned else split(one)[0]
            )


@ALL
def test_numpy_step_by_step_gives_the_same_bytes(name):
    side, case = NumpySide(), quick([BY_NAME[name]])[0]
    prepared = side.prepare("arithmetic", case)
    assert [c.name for c in prepared.contenders] == [side.copies(case)[0].name, "gpulayout", "gpulayout", "numpy steps"]
    given, out = input_and_output(np, case, seed=1)
    assert len(np.unique(given)) > 60 and out.nbytes == case.target.nbytes


def test_a_run_on_the_cpu_writes_the_conversions_and_their_table(tmp_path, capsys):
    file = tmp_path / "figures.json"
    arguments = ["--backend", "numpy", "--quick", "--rounds", "1", "--only", "8192x8192", "--json", str(file)]
    assert command.main(arguments) == 0
    found = json.loads(file.read_text())
    assert [record["case"] for record in found["arithmetic"]] == [name for name in BY_NAME if "8192x8192" in name]
    assert "arithmetic on the way" in capsys.readouterr().out


def test_conversions_take_part_in_later_stages(monkeypatch):
    monkeypatch.setattr(NumpySide, "stages", [Stage("numpy"), Stage("later")])
    monkeypatch.setattr(NumpySide, "cases", {"arithmetic": CONVERT_CASES[:1]})
    asked, prepare = [], NumpySide.prepare
    monkeypatch.setattr(NumpySide, "prepare", lambda self, *given: (asked.append(given[::2]), prepare(self, *given))[1])
    monkeypatch.setattr(NumpySide, "effort", Effort(1, 1e-5, (1, 1)))
    assert Run(NumpySide(), tiny=True).all()["finished"] and asked == [("arithmetic", 0), ("arithmetic", 1)]


# ---- CV-CUDA and DALI --------------------------------------------------------------------------------------------

CUPY = types.SimpleNamespace(
    asarray=np.asarray,
    cuda=types.SimpleNamespace(runtime=types.SimpleNamespace(deviceSynchronize=lambda: None)),
)


class Tensor:
    """An array that other libraries take through `cuda()`."""

    def __init__(self, array):
        self.array = array

    def cuda(self):
        return self.array


def cv_cuda():
    def as_tensor(array, layout):
        assert layout == "NHWC" and array.ndim == 4
        return Tensor(array)

    def reformat(images, layout):
        assert layout == "NCHW"
        return Tensor(np.ascontiguousarray(images.array.transpose(0, 3, 1, 2)))

    return types.SimpleNamespace(
        as_tensor=as_tensor,
        convertto=lambda images, dtype: Tensor(images.array.astype(dtype)),
        normalize=lambda images, base, scale: Tensor((images.array - base.array) * scale.array),
        reformat=reformat,
    )


class Pipeline:
    """Runs what `set_outputs` got, after `build`."""

    def __init__(self, batch_size, num_threads, device_id):
        self.batch_size, self.built = batch_size, False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def set_outputs(self, output):
        self.output = output

    def build(self):
        self.built = True

    def run(self):
        assert self.built
        return (types.SimpleNamespace(as_tensor=self.output),)


def dali():
    def external_source(source, device, layout, batch, no_copy):
        assert (device, layout, batch, no_copy) == ("gpu", "HWC", True, True)
        return source

    def crop_mirror_normalize(given, dtype, output_layout, mean, std):
        assert dtype == "FLOAT" and output_layout == "CHW"
        planes = lambda: (given().astype(np.float32) - np.float32(mean)) / np.float32(std)  # noqa: E731
        return lambda: np.ascontiguousarray(planes().transpose(0, 3, 1, 2))

    return types.SimpleNamespace(
        Pipeline=Pipeline,
        types=types.SimpleNamespace(FLOAT="FLOAT"),
        fn=types.SimpleNamespace(external_source=external_source, crop_mirror_normalize=crop_mirror_normalize),
    )


class OnDevice(np.ndarray):
    """An array with CuPy's number of a device."""

    device = types.SimpleNamespace(id=0)


@pytest.mark.parametrize("peer", [CvCuda(cv_cuda(), CUPY), Dali(dali(), CUPY)], ids=["CV-CUDA", "DALI"])
@ALL
def test_image_libraries_convert_images_and_nothing_else(peer, name):
    case = quick([BY_NAME[name]])[0]
    given, out = input_and_output(np, case, seed=1)
    contenders = peer(case, [(given.view(OnDevice), out)])
    if case.source_type != "u8":
        assert contenders == []
        return
    known = planned(case)(given.reshape(-1))
    kept, refused = agreeing(np, case, contenders, [(given, out)], known)
    assert kept == contenders and not refused
    assert all(each.output == "fresh" and each.wait and each.rounding for each in kept)


def test_image_libraries_that_are_absent_are_named(monkeypatch):
    missing = {}
    for name in ("cvcuda", "nvidia.dali.fn"):
        monkeypatch.setitem(sys.modules, name, None)
    assert stages.images(missing) == [] and set(missing) == {"cvcuda", "nvidia.dali.fn"}
    assert all(reason.startswith("ModuleNotFoundError: ") for reason in missing.values())


def test_image_libraries_that_are_installed_take_part(monkeypatch):
    for name in ("cupy", "cvcuda", "nvidia", "nvidia.dali", "nvidia.dali.fn"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    missing = {}
    assert [type(peer) for peer in stages.images(missing)] == [CvCuda, Dali] and not missing
