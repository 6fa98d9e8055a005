"""The report of invented runs on a GPU and on a CPU: goals met, goals missed, parts left out."""

import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks import gpu_summary
from benchmarks.cases.cpu_goals import REVERSAL
from benchmarks.cases.gpu import GPU_CASES, GPU_SMALL_CASES
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.goals import JAX, NAIVE, TORCH, goals
from benchmarks.model import far_off
from benchmarks.peers.contender import COPY, OURS, PREPARED_CALL, UNPLANNED_CALL
from benchmarks.report import WIDTH, report

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def cells(lines):
    """The rows of all tables without alignment spaces."""
    return [[text.strip() for text in line.split("|")] for line in lines if "|" in line]


def run_of(contender, output, seconds, threads=0, **more):
    return {
        "contender": contender,
        "output": output,
        "threads": threads,
        "median_s": seconds,
        "best_s": seconds,
        "rounds": 5,
        **more,
    }


ABSENT = {
    "not_run": [{"section": "index", "case": "linearize", "reason": "needs 9 MiB", "failed": False}],
    "peers_refused": [{"case": "c", "peer": "p", "reason": "r"}],
    "peers_missing": {"xyz": "not installed"},
}
MACHINE = {
    "cpu": "Imaginary 1",
    "cores": 2,
    "threads": 2,
    "python": "3",
    "packages": {"numpy": "2", "cupy-cuda13x": "9"},
    "commit": "abc",
    "date": "2026-01-01T00:00:00",
}


# ---- a GPU -----------------------------------------------------------------------------------------------------


def record_of(name, fraction, goal=None, peers=(("torch copy_", "warm", 2.0),), group="2-D", model=None):
    ours = 1e-3 / fraction
    return {
        "case": name,
        "group": group,
        "goal": goal,
        "bytes_moved": 4.3e9,
        "copy_s": 1e-3,
        "statistic": "median",
        "model": model and {"fraction_of_copy": model[::2], "middle": model[1], "binds": ["memory"]},
        "runs": [
            run_of("cudaMemcpyAsync", "copy", 1e-3),
            *(
                run_of(peer, output, ours * against, against=against, fraction_of_copy=fraction / against)
                for peer, output, against in peers
            ),
            run_of(OURS, "warm", ours, fraction_of_copy=fraction),
            run_of(OURS, "fresh", ours),
        ],
    }


@pytest.fixture
def gpu():
    """A run on a GPU that does not exist."""
    return {
        "machine": MACHINE | {"gpu": "Imaginary 2"},
        "seconds": 99.0,
        "finished": True,
        "quick": False,
        "statistic": "median",
        "effort": {"rounds": 5},
        "cases": [
            record_of(
                "f32 8192x8192",
                0.96,
                0.95,
                (("torch copy_", "warm", 3.5), ("jax.jit", "fresh", 1.01), ("triton 64x64, 4 warps", "warm", 1.2)),
            ),
            record_of("u8 32749x8191, odd", 0.55, 0.60),
            record_of("f32 100000000x2", 0.5, None, (("torch.compile copy_", "warm", 0.9),)),
        ],
        "ttc": [
            record_of("f32 a", 0.7, 0.75),
            record_of("f32 b", 0.9, 0.75),
            record_of("f64 a", 0.95, 0.75),
            record_of("f64 b", 0.97, 0.75),
        ],
        "small": [
            {
                "case": "f32 16x16",
                "statistic": "best",
                "runs": [run_of("cupy.copyto", "call", 9e-6), run_of(PREPARED_CALL, "call", 4.6e-6)],
            }
        ],
        **ABSENT,
        "peers_not_timed": {"torch.compile": ["a", "b"]},
        "left_out": {"tiles": "not supported yet"},
    }


def test_a_gpu_s_report_says_what_was_met_and_what_was_missed(gpu):
    lines = report(gpu)
    rows = cells(lines)
    assert lines[0] == (
        "Imaginary 2, Imaginary 1, 2 cores, 2 threads at most; Python 3, numpy 2, cupy-cuda13x 9; "
        "commit abc, 2026-01-01; "
        "median of 5 rounds, 99 s"
    )
    assert [(row[0], *row[2:]) for row in rows[2:9]] == [
        ("host time of one call, µs", "4.60 (f32 16x16)", "met"),
        ("a copy, TTC f32", "0.79", "**missed**"),
        ("a copy, TTC f32", "0.70 (f32 a)", "**missed**"),
        ("a copy, TTC f64", "0.96", "met"),
        # 1.01, 2.00, 0.90
        ("a copy, TTC f64", "0.95 (f64 a)", "met"),
        ("best peer, whole elements", "1.22", "**missed**"),
        ("best peer, TTC", "2.00", "met"),
    ]
    assert ["f32 8192x8192", "1042", "0.96", "0.95+", "1.20", "1.01", "jax.jit"] in rows
    assert ["u8 32749x8191, odd", "1818", "0.55", "0.60-", "2.00", "", "torch copy_"] in rows
    assert ["f32 100000000x2", "2000", "0.50", "", "**0.90**", "", "torch.compile copy_"] in rows
    assert ["f32 16x16", "9.00", "-4.40"] in rows
    assert ["TTC f32, 2 transpositions", "0.79", "0.70 (f32 a)", "2.00", "2.00"] in rows
    start = lines.index("Goals of single cases: 10 of 13 met, missed:")
    assert lines[start + 1 :] == [
        "- u8 32749x8191, odd: of a copy: 0.55, wanted 0.60",
        "- f32 100000000x2: torch.compile copy_ (warm): 0.90, wanted 0.97",
        "- f32 a: of a copy: 0.70, wanted 0.75",
        "",
        "- peer missing: xyz: not installed",
        "- peer not timed, out of time: torch.compile, 2 cases",
        "- peer refused: p on c: r",
        "- not run: linearize: needs 9 MiB",
        "- left out: tiles: not supported yet",
    ]


def test_packed_elements_do_not_raise_the_mean(gpu):
    gpu["cases"].append(record_of("pack u4", 0.9, None, (("cupy shifts of words", "warm", 9.0),), "packed"))
    assert [row[2:] for row in cells(report(gpu)) if row[0] == "best peer, whole elements"] == [["1.22", "**missed**"]]


def test_a_prepared_call_may_take_five_microseconds(gpu):
    gpu["small"][0]["runs"][1]["best_s"] = 5.1e-6
    assert (str(goals(gpu)[0].found[0]), goals(gpu)[0].verdict) == ("5.10 (f32 16x16)", "**missed**")
    assert goals(gpu | {"small": []})[0].verdict == "not measured"


def test_without_a_gpu_or_with_tiny_arrays_nothing_is_judged(gpu):
    for change in ({"quick": True}, {"machine": MACHINE}):
        text = "\n".join(report(gpu | change))
        assert "wanted" not in text and "0.60" not in text and "missed*" not in text and "u8 32749x8191, odd" in text


def test_the_report_of_a_run_in_which_everything_falls_short_is_short(gpu):
    gpu["cases"] = [
        record_of(case.name, 0.1, case.goal, (("triton 128x128, 8 warps", "warm", 0.2),), model=(0.83, 0.9, 0.99))
        for case in GPU_CASES
    ]
    gpu["ttc"] = [record_of(case.name, 0.1, case.goal, model=(0.83, 0.9, 0.99)) for case in TTC_CASES]
    calls = ("cupy.copyto", PREPARED_CALL, UNPLANNED_CALL, f"{OURS} relayout with texts", "torch copy_")
    gpu["small"] = [
        {"case": case.name, "statistic": "best", "runs": [run_of(call, "call", 1e-5) for call in calls]}
        for case in GPU_SMALL_CASES
    ]
    gpu["not_run"] = 200 * gpu["not_run"]
    gpu["peers_refused"] = 200 * gpu["peers_refused"]
    lines = report(gpu)
    assert (
        len("\n".join(lines)) < 12_300
        and max(len(line) for line in lines[1:] if "|" not in line and not line.startswith("A ratio")) <= WIDTH
    )
    assert sum(line.startswith("- not run: ") for line in lines) == 6 and lines.count("- and 194 more") == 2


def test_the_model_s_range_stands_beside_each_measured_speed(gpu):
    gpu["cases"] = [
        record_of("right", 0.70, 0.6, model=(0.62, 0.67, 0.72)),
        record_of("outside, but near", 0.78, model=(0.62, 0.67, 0.72)),
        record_of("too high", 0.40, model=(0.55, 0.67, 0.80)),
        record_of("too low", 0.95, model=(0.3, 0.5, 0.7)),
        record_of("unknown", 0.2),
    ]
    gpu["ttc"] = [record_of("f32 a", 1.02, model=(0.8, 0.9, 1.0))]
    lines = report(gpu)
    table = {row[0]: row for row in cells(lines)}
    assert table["case"][2:4] == ["copy", "model"]
    assert [table[name][3] for name in ("right", "too low", "unknown")] == ["62-72", "30-70", ""]
    first = lines.index("The model's range holds 2 of 5 cases; 2 are off by more than 0.15:")
    assert lines[first + 1 : first + 3] == [
        "- too low: 0.95, model 0.50 (memory)",
        "- too high: 0.40, model 0.67 (memory)",
    ]
    assert [one["case"] for one in far_off(gpu)] == ["too low", "too high"]
    for change in ({"quick": True}, {"machine": MACHINE}):
        assert "model's range" not in "\n".join(report(gpu | change))


@pytest.mark.parametrize(
    ("status", "result"), [("0", "passed"), ("124", "out of time"), ("137", "out of time"), ("9", "failed (9)")]
)
def test_the_summary_counts_every_part(tmp_path, gpu, capsys, status, result):
    (tmp_path / "parts.tsv").write_text(
        "tests\t0\t80\t210\t1 passed\n"
        f"memcheck\t{status}\t20\t50\tERROR SUMMARY: 3 errors\nbenchmarks\t0\t100\t110\tok\n"
    )
    (tmp_path / "tests.json").write_text(
        json.dumps({"outcomes": {"passed": 5, "skipped": 1}, "gpu_passed": 3, "problem": None})
    )
    (tmp_path / "benchmarks.json").write_text(json.dumps(gpu))
    assert gpu_summary.main(tmp_path) == (0 if status == "0" else 1)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [part["result"] for part in summary["parts"]] == ["passed", result, "passed"]
    assert summary["machine"]["gpu"] == "Imaginary 2" and summary["model_far_off"] == []
    assert summary["benchmarks"] == report(gpu)
    printed = capsys.readouterr().out
    assert "5 passed, 1 skipped; 3 of the passed need a GPU" in printed and ("ERROR SUMMARY" in printed) == (
        status != "0"
    )


@pytest.mark.parametrize(
    ("parts", "said"), [("benchmarks\t1\t3\t110\tno driver\n", "no benchmark figures were written"), ("", "FAILED")]
)
def test_a_run_without_figures_or_without_parts_has_failed(tmp_path, capsys, parts, said):
    (tmp_path / "parts.tsv").write_text(parts)
    assert gpu_summary.main(tmp_path) == 1 and said in capsys.readouterr().out


def test_a_part_that_the_machine_cannot_run_is_left_out_and_named(tmp_path, capsys):
    (tmp_path / "parts.tsv").write_text(
        "launches\t0\t9\t90\tdone\nmemcheck\t77\t0\t10\tcompute-sanitizer is not installed\n"
    )
    assert gpu_summary.main(tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2].split() == ["memcheck", "left", "out", "0", "compute-sanitizer", "is", "not", "installed"]
    assert printed[-1] == f"PASSED without memcheck: results are in {tmp_path.name}/"


def test_files_of_parts_that_did_not_run_are_not_shown(tmp_path, gpu, capsys):
    (tmp_path / "parts.tsv").write_text("counters\t0\t9\t90\tcounters of 1 of 1 cases\n")
    (tmp_path / "benchmarks.json").write_text(json.dumps(gpu))
    (tmp_path / "tests.json").write_text(json.dumps({"failed": ["an old failure"]}))
    for name in ("counters", "numbers"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"table": [f"the table of {name}"]}))
    assert gpu_summary.main(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "the table of counters" in printed
    assert not any(old in printed for old in ("numbers", "an old failure", "Imaginary 2"))


def test_the_summary_names_what_it_needs():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu_summary"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m benchmarks.gpu_summary FOLDER")


# ---- the goals of the CPU --------------------------------------------------------------------------------------


def relayout_of(case, naive, torch, jax, scratch=1e6, group="N-D", itemsize=4):
    """One second with one thread, half of one with two; `naive` and the others are the peers' times."""
    return {
        "case": case,
        "kind": "relayout",
        "group": group,
        "itemsize": itemsize,
        "bytes_moved": 2e8,
        "scratch": [{"threads": 1, "bytes": 0}, {"threads": 2, "bytes": scratch}],
        "runs": [
            run_of(OURS, "warm", 1.0, 1),
            run_of(OURS, "warm", 0.5, 2),
            run_of(NAIVE, "warm", naive, 1),
            run_of(TORCH, "warm", torch, 1),
            run_of(TORCH, "warm", torch / 2, 2),
            run_of(OURS, "fresh", 2.0, 2),
            run_of(JAX, "fresh", jax, 2),
        ],
    }


@pytest.fixture
def cpu():
    """A run on a processor that does not exist."""
    padding = [
        run_of(OURS, "warm", 1.0, 1),
        run_of(OURS, "warm", 0.8, 2),
        run_of("numpy.copyto", "warm", 1.2, 1),
        run_of(COPY, "copy", 0.9, 1),
        run_of(COPY, "copy", 0.6, 2),
    ]
    slow = [run_of(OURS, "warm", 9.0, 1), run_of(OURS, "warm", 9.0, 2), *padding[2:]]
    index = [
        run_of(OURS, "warm", 1.0, 1),
        run_of(OURS, "warm", 0.5, 2),
        run_of(OURS, "fresh", 2.0, 1),
        run_of(OURS, "fresh", 1.0, 2),
        run_of("numpy.unravel_index", "fresh", 3.5, 1),
    ]
    calls = [run_of(NAIVE, "call", 1e-6, 1)] + [
        run_of(call, "call", us * 1e-6, count)
        for count in (1, 2)
        for call, us in ((PREPARED_CALL, 4.5), (UNPLANNED_CALL, 8.0))
    ]
    moved = {"bytes_moved": 1e8, "itemsize": 4}
    return {
        "machine": MACHINE,
        "counts": [1, 2],
        "rounds": 3,
        "quick": False,
        "only": "",
        "finished": True,
        "seconds": 9.0,
        "peak_memory_bytes": 2.5e9,
        "listed": {"relayout": 3, "small": 1, "padding": 3, "index": 1},
        "relayout": [
            relayout_of("f32 a", 5.0, 0.9, 3.0, group="2-D"),
            relayout_of("u8 b", 4.0, 2.0, 4.0, group="2-D", itemsize=1),
            relayout_of(REVERSAL, 0.9, 2.5, 1.9, scratch=5e6),
        ],
        "padding": [
            moved | {"case": f"{kind} {name}", "kind": kind, "group": group, "runs": runs}
            for kind, name, group, runs in (
                ("pack", "x", "long rows", padding),
                ("pack", "y", "channels", padding),
                ("unpack", "y", "channels", slow),
            )
        ],
        "index": [moved | {"case": "delinearize", "kind": "delinearize", "group": "index", "runs": index}],
        "small": [moved | {"case": "tiny", "kind": "relayout", "group": "small", "runs": calls}],
        **ABSENT,
    }


def judged(found):
    return {
        goal.what: (
            *(None if figure is None else (round(figure.value, 3), figure.case) for figure in goal.found),
            goal.verdict,
        )
        for goal in goals(found)
    }


def test_every_goal_is_judged_by_its_own_figures(cpu):
    assert judged(cpu) == {
        "never below 0.95": ((0.9, REVERSAL), (1.8, REVERSAL), "**missed** with one thread"),
        # of 5, 4 and 0.9
        "geometric mean at least 2.2 with one thread, 3.8 with two": ((2.621, ""), (5.241, ""), "met"),
        "2-D of 4 bytes and more at least 3": ((5.0, "f32 a"), (10.0, "f32 a"), "met"),
        "2-D of 1 and 2 bytes at least 4": ((4.0, "u8 b"), (8.0, "u8 b"), "met"),
        "reversal of 32^5 at least 10": ((0.9, REVERSAL), (1.8, REVERSAL), "**missed**"),
        "geometric mean at least 1.3 with one thread, 1.75 with two": (
            (1.651, ""),
            (1.651, ""),
            "**missed** with all threads",
        ),
        "no case below 0.8 with two": ((0.9, "f32 a"), (0.9, "f32 a"), "met"),
        "never below 1.0": (None, (0.95, REVERSAL), "**missed**"),
        "geometric mean at least 1.5": (None, (1.418, ""), "**missed**"),  # of 1.5, 2 and 0.95
        "pack and unpack with long rows at least 0.85": (
            (0.9, "pack x"),
            (0.75, "pack x"),
            "**missed** with all threads",
        ),
        "channels-last 3 to 4 at least 0.45": ((0.9, "pack y"), (0.75, "pack y"), "met"),
        "warm output at least 3.0": ((3.5, "delinearize"), (7.0, "delinearize"), "met"),
        "new output at least 2.0": ((1.75, "delinearize"), (3.5, "delinearize"), "**missed** with one thread"),
        "warm output at least 1.7": (None, None, "not measured"),
        "new output at least 1.3": (None, None, "not measured"),
        "planned call with `out=` at most 3": ((3.5, "tiny"), (3.5, "tiny"), "**missed**"),
        "`gl.relayout` at most 8": ((7.0, "tiny"), (7.0, "tiny"), "met"),
        "at most 4": ((0.0, "u8 b"), (5.0, REVERSAL), "**missed** with all threads"),
    }


def test_the_tables_name_the_machine_mark_losses_and_say_what_is_not_there(cpu):
    lines = report(cpu)
    assert (
        lines[0] == "Imaginary 1, 2 cores, 2 threads at most; Python 3, numpy 2; commit abc, 2026-01-01; "
        "3 rounds, 9 s, at most 2.5 GB"
    )
    for row in (
        [
            "`np.copyto(dst, src.transpose(p))`, 3 cases",
            "never below 0.95",
            f"0.90 ({REVERSAL})",
            f"1.80 ({REVERSAL})",
            "**missed** with one thread",
        ],
        [REVERSAL, "200.0", "1000.0", "500.0", "**0.90**", "1.80", "2.50", "2.50", "**0.95**", "5.0"],
        ["pack x", "100.0", "1000.0", "800.0", "0.90", "0.75", "1.12", "1.20", "1.50", "numpy.copyto"],
        ["delinearize", "numpy.unravel_index", "1000.0", "500.0", "2000.0", "1000.0", "3.50", "7.00", "1.75", "3.50"],
        ["tiny", "1.00", "3.50", "7.00", "3.50", "7.00"],
    ):
        assert row in cells(lines)
    assert lines[-3:] == [
        "- peer missing: xyz: not installed",
        "- peer refused: p on c: r",
        "- not run: linearize: needs 9 MiB",
    ]


def test_a_part_of_the_list_says_how_much_it_is(cpu):
    text = "\n".join(report(cpu | {"relayout": cpu["relayout"][:1], "only": "a", "finished": False}))
    assert "`np.copyto(dst, src.transpose(p))`, 1 of 3 cases" in text and 'only cases with "a"; not finished' in text


def test_without_peers_their_lines_are_not_measured(cpu):
    for record in cpu["relayout"]:
        record["runs"] = record["runs"][:3]
    verdicts = judged(cpu)
    assert verdicts["never below 1.0"] == verdicts["no case below 0.8 with two"] == (None, None, "not measured")
    assert verdicts["never below 0.95"][0] == (0.9, REVERSAL)


# ---- what was recorded -----------------------------------------------------------------------------------------


def test_recorded_runs_are_read_again():
    """The figures that README.md shows, and those of the list that it sums up in words."""
    rows = cells(report(json.loads((RESULTS / "cpu-goals-epyc-zen5-2core.json").read_text())))
    assert [
        "pack f32 3 channels in 4, 32x512x512x3",
        "234.9",
        "14.9",
        "13.1",
        "0.49",
        "0.53",
        "0.55",
        "2.34",
        "2.67",
        "numpy fill and assign",
    ] in rows
    rows = cells(report(json.loads((RESULTS / "cpu-epyc-zen4-2core.json").read_text())))
    assert ["f32 128x128", "18.4", "0.11", "", "**0.68**", "**0.76**", "numpy.copyto"] in rows
    assert ["f32 16x16", "0.78", "4.96", "6.40", "6.02"] in rows
