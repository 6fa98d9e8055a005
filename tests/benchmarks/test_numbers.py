"""The variants of benchmarks/numbers.py fit today's kernels, and their table tells right from wrong; without a GPU."""

import json
import subprocess
import sys

import pytest

import gpulayout as gl
from benchmarks import numbers
from gpulayout.gpu.kernel_numbers import LANES

ALL = len({numbers.AS_IT_IS, *(variant.name for variant in numbers.VARIANTS)})

# Each variant imports the planners anew, which no other test may see.
LOOK = """
import hashlib, json
import gpulayout as gl
from benchmarks import numbers
for variant in numbers.VARIANTS:
    numbers.library(variant, "gpulayout.gpu")
    from gpulayout.gpu.choose_kernel import kernel_plan
    from gpulayout.gpu.kernel_source import kernel_text
    for name in variant.moves:
        before = numbers.MOVES[name].before % 16
        plan = kernel_plan(numbers.plan_of(gl, name, False).move, before, before)
        row = {"variant": variant.name, "move": name, "file": plan.file, "plan": repr(plan)}
        print(json.dumps(row | {"text": hashlib.sha256(kernel_text(plan.file).encode()).hexdigest()}))
"""


@pytest.fixture(scope="module")
def looked_at():
    done = subprocess.run([sys.executable, "-c", LOOK], cwd=numbers.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_variant_changes_the_kernel_of_each_of_its_moves(looked_at):
    plain = {row["move"]: row for row in looked_at if row["variant"] == numbers.AS_IT_IS}
    assert set(plain) == set(numbers.MOVES)
    for row in looked_at:
        base, as_it_is = plain[row["move"]], row["variant"] in (numbers.AS_IT_IS, numbers.AGAIN)
        changed = row["text"] != base["text"] or row["plan"] != base["plan"]
        assert changed != as_it_is, (row["variant"], row["move"], row["file"])


def test_the_moves_reach_the_kernels_that_they_are_named_after(looked_at):
    files = {row["move"]: row["file"] for row in looked_at if row["variant"] == numbers.AS_IT_IS}
    first = {"copy": "copy.cu", "rows": "rows.cu", "tile": "tile.cu"}
    for move, file in files.items():
        kind = move.split()[0].rstrip(",")
        assert file == first.get(kind, file)
    assert {"tile_any.cu", "tile_words.cu", "tile_nd.cu", "box_words.cu", "channels.cu"} <= set(files.values())


@pytest.mark.parametrize(
    "text, line",
    [
        ("/one/two/a1b2.cu(7): error: no size\nin line 7", "a1b2.cu(7): error: no size"),
        ("no such file: /one/two/a.cu", "no such file: a.cu"),
        ("3 / 4 of them, and/or more", "3 / 4 of them, and/or more"),
        ("", ""),
    ],
)
def test_an_error_is_recorded_without_the_folders_of_the_machine(text, line):
    assert numbers.first_line(ValueError(text)) == line


@pytest.mark.parametrize(
    "variant, message",
    [
        (numbers.Variant("no such number", (), {"NO_SUCH": 1}), "kernel_numbers.py has no NO_SUCH"),
        (numbers.Variant("no such line", (), text=("tile.cu", "no such line", "x")), "tile.cu does not hold this line"),
    ],
)
def test_a_variant_that_no_longer_fits_says_so(variant, message):
    text = f"from benchmarks import numbers; numbers.library(numbers.{variant!r})"
    done = subprocess.run([sys.executable, "-c", text], cwd=numbers.ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"LookupError: {message}" in done.stderr


def test_tiles_of_words_have_a_word_for_each_lane():
    """Fewer along the target do not compile: a lane's part of a row would be an array of no words."""
    changed = [variant for variant in numbers.VARIANTS if "WORD_TILE_B" in variant.numbers]
    for variant in changed:
        for name in variant.moves:
            item = gl.parse_shape(numbers.MOVES[name].source).itemsize
            assert variant.numbers["WORD_TILE_B"] * item >= 4 * LANES, (variant.name, name)
    assert [variant.moves for variant in changed] == [("odd f16",)]


def test_derived_numbers_follow():
    text = (
        "from benchmarks import numbers; numbers.library(numbers.Variant('', (), {'ANY_TILE_BYTES': 32768}));"
        "from gpulayout.gpu import kernel_numbers as k;"
        "print(k.ANY_SHARED_BYTES, k.FILES['tile_any.cu']['SHARED_BYTES'])"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=numbers.ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["34816", "34816"], done.stderr


def row(variant, move, fraction, right=True):
    return {"variant": variant, "move": move, "fraction": fraction, "us": 1.0, "file": "copy.cu", "right": right}


def test_the_table_names_wrong_bytes_first_then_the_best_change():
    rows = [
        row(numbers.AS_IT_IS, "copy", 0.8),
        row(numbers.AGAIN, "copy", 0.81),
        row("worse", "copy", 0.7),
        row("wrong", "copy", 0.99, right=False),
        {"variant": "broken", "move": "copy", "error": "CompileError: no"},
        row("better", "copy", 0.9),
    ]
    lines = numbers.table(rows)
    assert lines[1].split()[-2:] == ["0.800", "0.810"]
    assert [line.split()[0] for line in lines[3:]] == ["wrong", "broken", "better", "worse"]
    assert "WRONG BYTES" in lines[3] and "CompileError" in lines[4] and "+12.5%" in lines[5] and "-12.5%" in lines[6]


@pytest.fixture
def workers(monkeypatch):
    """Processes that a function plays: play(job, lines) writes lines and returns a status."""

    def playing(play):
        def run(command, timeout, cwd):
            job = json.loads(command[command.index("--worker") + 1])
            with open(job["file"], "a") as lines:
                return subprocess.CompletedProcess(command, play(job, lambda row: print(json.dumps(row), file=lines)))

        monkeypatch.setattr(numbers.subprocess, "run", run)

    return playing


def test_when_a_variant_ends_the_process_the_others_run_in_a_new_one(workers):
    def play(job, write):
        for name in job["wanted"]:
            write({"begin": name})
            if name == "b":
                return 3
            write(row(name, "copy", 0.5) | {"check": 7})
        return 0

    workers(play)
    rows = numbers.measure(["a", "b", "c"], 60, quick=True)
    assert [(found["variant"], found.get("error")) for found in rows] == [
        ("a", None),
        ("c", None),
        ("b", "the process ended with 3"),
    ]


def test_a_process_without_a_gpu_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(numbers, "gpu_problem", lambda: "no driver")
    with pytest.raises(SystemExit, match="no benchmark on the GPU: no driver"):
        numbers.worker(tmp_path / "rows", [numbers.AS_IT_IS], {}, 0, quick=True)


def test_processes_that_cannot_begin_are_not_tried_for_ever(workers):
    workers(lambda job, write: 1)
    (found,) = numbers.measure(["a", "b"], 60, quick=True)
    assert found["error"] == "a process ended with 1"


def test_rows_of_a_new_process_are_judged_by_the_first_ones_bytes(workers):
    seen = []

    def play(job, write):
        seen.append(job["known"])
        name = job["wanted"][0]
        write({"begin": name})
        write(row(name, "copy", 0.5) | {"check": 7})
        return 3

    workers(play)
    numbers.measure([numbers.AS_IT_IS, "b"], 60, quick=True)
    assert seen == [{}, {"copy": 7}]


@pytest.mark.parametrize(
    "rows, status, said",
    [
        ([row(numbers.AS_IT_IS, "copy", 0.5), row("b", "copy", 0.6)], 0, f"2 of {ALL} variants; 0 wrong"),
        ([row(numbers.AS_IT_IS, "copy", 0.5), row("b", "copy", 0.6, right=False)], 1, f"2 of {ALL} variants; 1 wrong"),
        (
            [row(numbers.AS_IT_IS, "copy", 0.5), {"variant": "b", "move": "copy", "error": "lost"}],
            1,
            f"1 of {ALL} variants; 1",
        ),
        ([row("b", "copy", 0.6)], 1, f"1 of {ALL} variants; 0 wrong"),
        ([], 1, f"0 of {ALL} variants; 0 wrong"),
    ],
)
def test_a_run_passes_when_the_library_was_measured_and_nothing_went_wrong(
    monkeypatch, capsys, tmp_path, rows, status, said
):
    """Variants that were not reached in time are no error.  The file says on which machine it was."""
    monkeypatch.setattr(numbers, "measure", lambda wanted, seconds, quick: rows)
    monkeypatch.setattr("sys.argv", ["numbers", "--json", str(tmp_path / "numbers.json")])
    assert numbers.main() == status and said in capsys.readouterr().out
    found = json.loads((tmp_path / "numbers.json").read_text())
    assert found["rows"] == rows and {"commit", "cpu", "packages"} <= found["machine"].keys()


def test_a_name_that_no_variant_has_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["numbers", "--only", "typoo"])
    with pytest.raises(SystemExit) as ended:
        numbers.main()
    assert ended.value.code == 2 and "--only 'typoo' is in no variant's name: as it is, " in capsys.readouterr().err
