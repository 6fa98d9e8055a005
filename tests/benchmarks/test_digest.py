"""The table at the end of ci/gpu, of a run that was made up: what was met, what was missed, what was left out."""
import json

import pytest

from benchmarks.digest import WIDTH, digest
from benchmarks.gpu_cases import GPU_CASES
from benchmarks.ttc import TTC_CASES
from ci import gpu_summary


def run_of(contender, output, seconds, moved, **more):
    return {"contender": contender, "output": output, "median_s": seconds, "best_s": seconds, "rounds": 5,
            "gb_per_s": moved / seconds / 1e9, **more}


def record_of(name, fraction, goal=None, peers=(("torch copy_", "warm", 2.0),), group="2-D"):
    moved, copy = 4.3e9, 1e-3
    ours = copy / fraction
    return {"case": name, "group": group, "family": "tile", "goal": goal, "bytes_moved": moved, "copy_s": copy, "statistic": "median",
            "runs": [run_of("cudaMemcpyAsync", "copy", copy, moved), run_of("gpulayout", "warm", ours, moved, fraction_of_copy=fraction),
                     run_of("gpulayout", "fresh", ours, moved, fraction_of_copy=fraction)] +
                    [run_of(peer, output, ours * ratio, moved, against=ratio) for peer, output, ratio in peers]}


@pytest.fixture
def made_up():
    """A run on a GPU that does not exist."""
    return {"machine": {"gpu": "Imaginary 1", "date": "2026-01-01", "commit": "abc", "cpu": "none"}, "seconds": 99.0, "finished": True,
            "quick": False, "cases": [
                record_of("f32 8192x8192", 0.96, 0.95, (("torch copy_", "warm", 3.5), ("jax.jit", "fresh", 1.01),
                                                        ("triton 64x64, 4 warps", "warm", 1.2))),
                record_of("u8 32749x8191, odd", 0.55, 0.60),
                record_of("f32 100000000x2", 0.5, None, (("torch.compile copy_", "warm", 0.9),))],
            "ttc": [record_of("f32 a", 0.7, 0.75), record_of("f32 b", 0.9, 0.75), record_of("f64 a", 0.95, 0.75), record_of("f64 b", 0.97, 0.75)],
            "small": [{"case": "f32 16x16", "runs": [
                {"contender": "cupy.copyto", "best_us": 9.0}, {"contender": "gpulayout plan(buffer, out)", "best_us": 4.6}]}],
            "not_run": [{"section": "cases", "case": "f64 big", "reason": "needs 9 MiB", "failed": False}],
            "peers_refused": [{"case": "c", "peer": "p", "reason": "r"}], "peers_not_timed": {"torch.compile": ["a", "b"]},
            "peers_missing": {"nvmath": "not installed"}, "left_out": {"tiles": "not supported yet"}}


def test_the_table_says_what_was_met_and_what_was_missed(made_up):
    lines = digest(made_up)
    assert lines[0] == "benchmarks: Imaginary 1, 2026-01-01, commit abc, 99 s"
    assert lines[2].split() == ["f32", "8192x8192", "1041.7", "4128", "0.96", "0.95+", "1.01", "jax.jit*"]
    assert lines[3].split() == ["u8", "32749x8191,", "odd", "1818.2", "2365", "0.55", "0.60-", "2.00", "torch", "copy_"]
    assert lines[4].split() == ["f32", "100000000x2", "2000.0", "2150", "0.50", "0.90", "torch.compile", "copy_"]
    assert "host, one call of f32 16x16: cupy.copyto 9.0 us, plan 4.6 us" in lines
    assert "TTC f32, 2 transpositions: of copy 0.70 least, 0.79 mean, 0.90 most; peer 2.00 .. 2.00: torch copy_" in lines
    assert "host time of one call of a prepared plan, us: 4.60, wanted at most 5.00" in lines
    assert "TTC f32, geometric mean of a copy: 0.79, wanted 0.92, MISSED" in lines
    assert "TTC f64, geometric mean of a copy: 0.96, wanted 0.92" in lines and "TTC f64, least of a copy: 0.95, wanted 0.75" in lines
    assert "instances: geometric mean of the best peer's time over ours: 1.22, wanted 1.30, MISSED" in lines      # 1.01, 2.00, 0.90
    start = lines.index("goals of single cases: 10 of 13 met, missed:")
    assert lines[start + 1:start + 4] == ["  u8 32749x8191, odd: of a copy: 0.55, wanted 0.60, MISSED",
                                          "  f32 100000000x2: torch.compile copy_ (warm): 0.90, wanted 0.97, MISSED",
                                          "  f32 a: of a copy: 0.70, wanted 0.75, MISSED"]
    assert lines[start + 4:] == ["peer not there: nvmath: not installed", "peer not timed for want of time: torch.compile, 2 cases",
                                 "peer refused: p on c: r", "not run: f64 big: needs 9 MiB", "left out: tiles: not supported yet"]


def test_packed_elements_do_not_raise_the_mean(made_up):
    made_up["cases"].append(record_of("pack u4", 0.9, None, (("cupy shifts of words", "warm", 9.0),)) | {"group": "packed"})
    assert "instances: geometric mean of the best peer's time over ours: 1.22, wanted 1.30, MISSED" in digest(made_up)


def test_a_prepared_call_may_take_five_microseconds(made_up):
    made_up["small"][0]["runs"][1]["best_us"] = 5.1
    assert "host time of one call of a prepared plan, us: 5.10, wanted at most 5.00, MISSED" in digest(made_up)
    assert "host time of one call of a prepared plan, us: not measured, wanted at most 5.00" in digest(made_up | {"small": []})


def test_without_a_gpu_or_with_tiny_arrays_nothing_is_judged(made_up):
    for change in ({"quick": True}, {"machine": made_up["machine"] | {"gpu": None}}):
        text = "\n".join(digest(made_up | change))
        assert "wanted" not in text and "0.60-" not in text and "u8 32749x8191, odd" in text
    assert "u8 32749x8191, odd" not in "\n".join(digest(made_up | {"quick": True}, rows=False))


def test_the_table_of_a_run_in_which_everything_falls_short_is_short(made_up):
    made_up["cases"] = [record_of(case.name, 0.1, case.goal, (("triton 128x128, 8 warps", "warm", 0.2),)) for case in GPU_CASES]
    made_up["ttc"] = [record_of(case.name, 0.1, case.goal) for case in TTC_CASES]
    made_up["not_run"] *= 200
    made_up["peers_refused"] *= 200
    lines = digest(made_up)
    assert max(map(len, lines)) <= WIDTH and len("\n".join(lines)) < 11_500
    assert sum(line.startswith("not run: ") for line in lines) == 15 and lines.count("  and 185 more") == 2


@pytest.mark.parametrize(("status", "result"), [("0", "passed"), ("124", "out of time"), ("137", "out of time"), ("9", "failed (9)")])
def test_the_summary_counts_every_part(tmp_path, made_up, capsys, status, result):
    (tmp_path / "parts.tsv").write_text("tests\t0\t80\t210\t1 passed\n"
                                        f"memcheck\t{status}\t20\t50\tERROR SUMMARY: 3 errors\nbenchmarks\t0\t100\t110\tok\n")
    (tmp_path / "tests.json").write_text(json.dumps({"outcomes": {"passed": 5, "skipped": 1}, "gpu_passed": 3, "problem": None}))
    (tmp_path / "benchmarks.json").write_text(json.dumps(made_up))
    assert gpu_summary.main(tmp_path) == (0 if status == "0" else 1)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [part["result"] for part in summary["parts"]] == ["passed", result, "passed"]
    assert summary["machine"]["gpu"] == "Imaginary 1" and summary["benchmarks"] == digest(made_up)
    printed = capsys.readouterr().out
    assert "5 passed, 1 skipped; 3 of the passed need a GPU" in printed and ("ERROR SUMMARY" in printed) == (status != "0")


def test_a_run_without_figures_says_so(tmp_path, capsys):
    (tmp_path / "parts.tsv").write_text("benchmarks\t1\t3\t110\tno driver\n")
    assert gpu_summary.main(tmp_path) == 1
    assert "no benchmark figures were written" in capsys.readouterr().out


def test_nothing_run_is_nothing_passed(tmp_path, capsys):
    (tmp_path / "parts.tsv").write_text("")
    assert gpu_summary.main(tmp_path) == 1
