"""The pictures of recorded runs: their numbers are those of the JSON, and the SVG names every case."""

import json
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as command
from benchmarks import plot
from benchmarks.cases.curves import COUNTS, CURVES
from benchmarks.peers.contender import COPY, OURS
from benchmarks.pictures import pictures
from benchmarks.record import time_of
from benchmarks.report import report

RUNS = [json.loads(file.read_text()) for file in plot.RECORDED]
GOALS, CASES, LINES, GPU = RUNS
BY_FILE = {picture.file: picture for picture in pictures(RUNS)}


def test_every_picture_has_a_recorded_run():
    assert set(BY_FILE) == {"relayouts.svg", "copies.svg", "gpu.svg", "threads.svg", "bytes.svg", "linearize.svg"}
    assert pictures([]) == [] and [picture.file for picture in pictures([CASES])] == ["copies.svg"]
    assert [picture.file for picture in pictures([GPU])] == ["gpu.svg"]


def test_ratios_are_the_peers_times_over_ours():
    panels = {panel.title: panel for panel in BY_FILE["relayouts.svg"].panels}
    for title, peer, output, threads in (
        ("NumPy", "numpy.copyto", "warm", 1),
        ("PyTorch", "torch copy_", "warm", 2),
        ("JAX", "jax.jit", "fresh", 2),
    ):
        for record, case, value in zip(GOALS["relayout"], panels[title].cases, panels[title].values, strict=True):
            assert case == record["case"]
            assert value == time_of(record, peer, output, threads) / time_of(record, OURS, output, 2)
    threads = BY_FILE["threads.svg"].panels[0]
    assert threads.values == tuple(
        time_of(record, OURS, "warm", 1) / time_of(record, OURS, "warm", 2) for record in GOALS["relayout"]
    )


@pytest.mark.parametrize("file, recorded", [("copies.svg", CASES), ("gpu.svg", GPU)])
def test_fractions_of_a_copy_are_as_recorded(file, recorded):
    ours = BY_FILE[file].panels[0]
    assert dict(zip(ours.cases, ours.values, strict=True)) == {
        record["case"]: run["fraction_of_copy"]
        for record in recorded["cases"]
        for run in record["runs"]
        if (run["contender"], run["output"]) == (OURS, "warm")
    }


def test_a_gpus_fractions_stand_beside_the_model_s_ranges():
    ours, peers = BY_FILE["gpu.svg"].panels
    models = {record["case"]: record["model"] for record in GPU["cases"]}
    found = dict(zip(ours.cases, ours.ranges, strict=True))
    assert found == {case: tuple(models[case]["fraction_of_copy"]) if models[case] else None for case in ours.cases}
    assert any(found.values()) and None in found.values() and peers.ranges == ()
    assert GPU["machine"]["gpu"] in BY_FILE["gpu.svg"].title
    assert not any(panel.ranges for panel in BY_FILE["copies.svg"].panels)
    for peer, cases in GPU["peers_not_timed"].items():
        assert f"out of time for {peer} on {len(cases)}" in BY_FILE["gpu.svg"].note


def test_curves_are_as_recorded():
    lines = {curve.name: curve for curve in BY_FILE["bytes.svg"].curves}
    for name, contender, output, threads in (
        ("gpulayout, 2 threads", OURS, "warm", 2),
        ("plain copy", COPY, "copy", 1),
    ):
        assert lines[name].cases == tuple(case.name for case in CURVES["bytes"])
        assert lines[name].x == tuple(case.bytes_moved for case in CURVES["bytes"])
        assert lines[name].y == tuple(time_of(r, contender, output, threads) * 1e6 for r in LINES["bytes"])
    one = BY_FILE["linearize.svg"].curves[0]
    assert one.x == COUNTS
    assert one.y == pytest.approx(
        [time_of(r, OURS, "fresh", 1) * 1e9 / count for r, count in zip(LINES["linearize"], COUNTS, strict=True)]
    )


def test_a_second_backend_adds_its_lines():
    gpu = json.loads(json.dumps(LINES))
    gpu["machine"] |= {"gpu": "Imaginary 2", "packages": {"cupy-cuda13x": "9"}}
    del gpu["counts"]
    for record in gpu["bytes"] + gpu["linearize"]:
        record["backend"] = "cupy"
        record["runs"] = [
            run | {"threads": 0, "contender": run["contender"].replace("numpy", "cupy")}
            for run in record["runs"]
            if run["threads"] == 1
        ]
    by_bytes, picture = pictures([LINES, gpu])
    assert [curve.name for curve in by_bytes.curves] == ["gpulayout", "cupy.copyto of the transpose", "plain copy"]
    names = [curve.name for curve in picture.curves]
    assert names[-2:] == ["gpulayout, CuPy backend", "cupy.ravel_multi_index"] and len(names) == 5
    assert "Imaginary 2" in picture.note and "cupy-cuda13x 9" in picture.note


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="the extra plot is not installed")


def test_the_same_figures_give_the_same_file_with_every_case_in_it(matplotlib, tmp_path):
    written = plot.draw(plot.RECORDED, tmp_path / "once")
    again = plot.draw(plot.RECORDED[1:3], tmp_path / "again")  # bars, and curves of both kinds
    assert {path.name for path in again} == {"copies.svg", "bytes.svg", "linearize.svg"}
    for path in again:
        assert path.read_bytes() == (tmp_path / "once" / path.name).read_bytes()
    for first in written:
        text = first.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        picture = BY_FILE[first.name]
        names = {name for part in (*picture.panels, *picture.curves) for name in part.cases}
        assert len(names) >= 6 and not [name for name in names if name not in text]


def test_the_command_names_the_files_that_it_wrote(matplotlib, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plot, "draw", lambda files, folder: [pathlib.Path(folder, file.name) for file in files])
    assert command.main(["--plot"]) == 0
    assert capsys.readouterr().out.split() == [str(plot.FOLDER / file.name) for file in plot.RECORDED]
    assert command.main(["--plot", "a.json", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "a.json")]


@pytest.fixture
def quick_run(tmp_path):
    """A file with a recorded run as if it were of tiny arrays."""
    file = tmp_path / "quick.json"
    file.write_text(json.dumps(LINES | {"quick": True}))
    return file


def test_a_quick_run_is_not_drawn_over_the_pictures_of_the_pages(matplotlib, quick_run, tmp_path, capsys):
    stored = {file: file.read_bytes() for file in plot.FOLDER.iterdir()}
    for options in ([], ["--out", str(plot.FOLDER)], ["--quick"]):
        with pytest.raises(SystemExit) as left:
            command.main(["--plot", str(quick_run), *options])
        assert left.value.code == 2 and "--quick" in capsys.readouterr().err
    assert command.main(["--plot", str(quick_run), "--out", str(tmp_path / "new")]) == 0
    assert {file: file.read_bytes() for file in plot.FOLDER.iterdir()} == stored
    for file in (tmp_path / "new").iterdir():
        text = file.read_text(encoding="utf-8")
        assert "quick: " in text and "tiny arrays" in text


def test_a_folder_without_pictures_is_a_usage_error(capsys):
    with pytest.raises(SystemExit):
        command.main(["--out", "somewhere"])
    assert "--out is the folder of --plot" in capsys.readouterr().err


def test_the_rows_of_a_quick_run_say_their_size():
    for run in (GOALS, CASES, LINES):
        rows = [
            record["case"]
            for section in run.values()
            if isinstance(section, list)
            for record in section
            if isinstance(record, dict) and "runs" in record
        ]
        text = "\n".join(report(run | {"quick": True}))
        assert rows and "quick: " in text and "quick: " not in "\n".join(report(run))
        for name in rows:
            assert name in text


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as stopped:
        command.main(["--plot"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith("--plot needs matplotlib: pip install '.[plot]'\n")


@pytest.mark.parametrize("text, message", [(None, "No such file"), ("{", "Expecting"), ("{}", "have no figures")])
def test_files_without_figures_are_a_usage_error(matplotlib, tmp_path, capsys, text, message):
    file = tmp_path / "run.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit) as left:
        command.main(["--plot", str(file)])
    assert left.value.code == 2 and message in capsys.readouterr().err


def test_nothing_but_drawing_imports_matplotlib():
    script = "import sys, benchmarks.__main__, benchmarks.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_stored_pictures_say_what_is_recorded():
    for name, picture in BY_FILE.items():
        text = (plot.FOLDER / name).read_text(encoding="utf-8")
        words = picture.note.split()
        assert picture.title.split()[0] in text and [word for word in words if word.rstrip(";,") not in text] == []
