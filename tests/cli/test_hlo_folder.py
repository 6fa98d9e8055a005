"""`gpulayout show --hlo FOLDER`: which file of a dump is read for each module, and folders that are no dump."""

import json
import os
import pathlib
import shutil

import pytest

from gpulayout.cli import show_hlo
from tests.support.command_line import failure, run

DUMP = pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo" / "dump"
TEXT = "%a = f32[16,256]{0,1:T(8,128)} add(%b)\n%c = f32[16,256]{1,0:T(8,128)} copy(%a)\n"
AFTER = "module_0001.jit_f.sm_8.0_gpu_after_optimizations.txt"


def fill(folder, names, text=TEXT):
    for name in names:
        (folder / name).write_text(text)


def test_a_real_dump_is_a_row_for_every_module():
    text = run("show", "--hlo", DUMP).stdout
    name = "module_0000.jit_model.cpu_after_optimizations.txt"
    one = json.loads(run("show", "--hlo", DUMP / name, "--json").stdout)
    head, table, last = text.split("\n\n")
    assert head == (
        f"{DUMP}\n1 program in 4 entries: of each module the text after optimizations, whose layouts are those that run"
    )
    assert [line.split() for line in table.splitlines()] == [
        "arrays bytes padding saving unread_lines file".split(),
        [*(str(one[key]) for key in ("count", "nbytes", "padding_nbytes", "saving_nbytes")), "0", name],
    ]
    assert last == f"for one of them: gpulayout show --hlo {DUMP / name}\n"


def test_json_has_the_numbers_of_every_program():
    for options in ([], ["--copies"]):
        found = json.loads(run("show", "--hlo", DUMP, "--json", *options).stdout)
        (program,) = found.pop("programs")
        assert found == {
            "folder": str(DUMP),
            "entries": 4,
            "is_whole": True,
            "programs_left": 0,
            "without_program": [],
            "not_read": {},
        }
        one = json.loads(run("show", "--hlo", program["file"], "--json", *options).stdout)
        assert program.pop("module") == "module_0000.jit_model"
        assert program == {key: value for key, value in one.items() if key not in ("buffers", "copies")}


@pytest.mark.parametrize(
    "names, module, read",
    [
        ([AFTER], "module_0001.jit_f", AFTER),
        (["module_0001.jit_f.3.after_optimizations.txt"], "module_0001.jit_f.3", None),
        (["module_0002.jit_f.cl_123.after_optimizations.txt"], "module_0002.jit_f", None),
        (["module_0002.jit_f.gfx90a_gpu_after_optimizations.txt"], "module_0002.jit_f", None),
        (["m.after_optimizations_before_buffer_assignment.txt"], "m", None),
        (
            [
                "m.after_optimizations_before_buffer_assignment.txt",
                "m.after_optimizations.txt",
                "m.after_optimizations_after_buffer_assignment.txt",
            ],
            "m",
            "m.after_optimizations.txt",
        ),
    ],
)
def test_the_text_after_optimizations_is_taken(names, module, read, tmp_path):
    fill(tmp_path, names)
    fill(tmp_path, ["m.after_optimizations-buffer-assignment.txt", "x.ll", "y.hlo.pb", "after.txt"], "f32[9]")
    (tmp_path / "z.after_optimizations.txt.d").mkdir()
    found = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)["programs"]
    assert [(one["module"], one["file"]) for one in found] == [(module, str(tmp_path / (read or names[0])))]


def test_modules_without_the_text_are_named(tmp_path):
    fill(tmp_path, [AFTER, "module_0001.jit_f.before_optimizations.txt"])
    fill(tmp_path, [f"m{n}.g.before_optimizations.txt" for n in range(2, 7)])
    text = run("show", "--hlo", tmp_path).stdout
    assert ("\nno text after optimizations of 5 modules: m2.g, m3.g, m4.g, and 2 more\n") in text
    assert len(json.loads(run("show", "--hlo", tmp_path, "--json").stdout)["without_program"]) == 5


def test_the_number_of_a_module_may_change_on_the_way(tmp_path):
    fill(tmp_path, ["module_0021.jit_f.before_optimizations.txt", "module_0023.jit_f.after_optimizations.txt"])
    found = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)
    assert found["without_program"] == [] and [one["module"] for one in found["programs"]] == ["module_0023.jit_f"]


@pytest.mark.parametrize("sort, order", [("bytes", "BCA"), ("waste", "CAB"), ("times", "ACB"), ("line", "ABC")])
def test_programs_are_sorted(sort, order, tmp_path):
    fill(tmp_path, ["A.after_optimizations.txt"], "%a = s8[2] z()\n" * 9)
    fill(tmp_path, ["B.after_optimizations.txt"], "%a = s8[200,128]{1,0} z()")
    fill(tmp_path, ["C.after_optimizations.txt"], "%a = s8[2]{0:T(128)} z()\n" * 8)
    rows = run("show", "--hlo", tmp_path, "--sort", sort).stdout.split("\n\n")[1].splitlines()[1:]
    assert "".join(row.split()[-1][0] for row in rows) == order
    text = run("show", "--hlo", tmp_path, "--sort", sort, "--top", "1").stdout
    assert "and 2 more; --top 3 lists all" in text and text.rstrip().endswith(f"{order[0]}.after_optimizations.txt")


def test_copies_of_every_program(tmp_path):
    fill(tmp_path, [AFTER])
    table = run("show", "--hlo", tmp_path, "--copies").stdout.split("\n\n")[1].splitlines()
    assert table[0].split() == "copies bytes in_loops same_layout unread_lines file".split()
    assert table[1].split() == ["1", str(131072 + 16384), "0", "0", "0", AFTER]


# ---- folders that are no dump, or a hostile one ------------------------------------------------------------------


@pytest.mark.parametrize(
    "names, why",
    [
        ([], "0 entries"),
        (["a", "b.txt", "after_optimizations.txt.gz"], "3 entries"),
        (["m.before_optimizations.txt"], "1 module only before optimizations, where layouts are not chosen yet"),
        (["m.after_optimizations.hlo.pb"], "protos of programs, not their text"),
    ],
)
def test_a_folder_without_a_program_says_what_it_has_and_how_to_dump(names, why, tmp_path):
    fill(tmp_path, names)
    assert failure("show", "--hlo", tmp_path) == (
        f"{tmp_path}: no file whose name ends in after_optimizations.txt; the folder has {why}. "
        "XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_text' dumps them; --hlo FILE reads any one text"
    )


def test_files_that_cannot_be_read_are_named_and_the_others_are_read(tmp_path, monkeypatch):
    fill(tmp_path, ["a.after_optimizations.txt"])
    (tmp_path / "b.after_optimizations.txt").symlink_to("b.after_optimizations.txt")
    (tmp_path / "c.after_optimizations.txt").symlink_to("nowhere")
    (tmp_path / "d.after_optimizations.txt").mkdir()
    os.mkfifo(tmp_path / "e.after_optimizations.txt")
    (tmp_path / "f.after_optimizations.txt").symlink_to("/dev/zero")
    (tmp_path / "g.after_optimizations.txt").write_bytes(bytes(range(256)) * 90)
    with (tmp_path / "h.after_optimizations.txt").open("wb") as stream:
        stream.truncate(1 << 40)
    (tmp_path / "i.after_optimizations.txt").symlink_to(tmp_path / "a.after_optimizations.txt")
    found = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)
    assert [one["module"] for one in found["programs"]] == ["a", "i"]
    assert {name[0]: why for name, why in found["not_read"].items()} == {
        "b": "Too many levels of symbolic links",
        "c": "No such file or directory",
        "d": "no regular file",
        "e": "no regular file",
        "f": "no regular file",
        "g": "no array to list in 23040 characters",
        "h": f"{1 << 40} bytes, more than {1 << 28}; give its own name to read it",
    }
    text = run("show", "--hlo", tmp_path).stdout
    assert text.count("\nnot read: ") == 4 and "\nnot read: 4 more\n" in text


def test_a_folder_of_which_nothing_can_be_read_is_a_failure(tmp_path):
    (tmp_path / "b.after_optimizations.txt").symlink_to("nowhere")
    assert failure("show", "--hlo", tmp_path) == (
        f"{tmp_path}: none of 1 program was read: b.after_optimizations.txt: No such file or directory"
    )


def test_only_so_many_entries_and_programs_are_looked_at(tmp_path, monkeypatch):
    fill(tmp_path, [f"m{number:02}.after_optimizations.txt" for number in range(40)])
    monkeypatch.setattr(show_hlo, "MOST_PROGRAMS", 7)
    found = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)
    assert [one["module"] for one in sorted(found["programs"], key=lambda one: one["module"])] == [
        f"m{number:02}" for number in range(7)
    ]
    assert (
        found["programs_left"] == 33
        and "\nonly the first 7 programs were read\n" in run("show", "--hlo", tmp_path).stdout
    )
    monkeypatch.setattr(show_hlo, "MOST_ENTRIES", 5)
    found = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)
    assert (found["entries"], found["is_whole"], len(found["programs"])) == (5, False, 5)
    assert "\nonly the first 5 entries were looked at\n" in run("show", "--hlo", tmp_path).stdout


def test_names_with_control_characters_and_blanks_stay_one_line(tmp_path):
    fill(tmp_path, ["a\n b\x1b[31m.after_optimizations.txt"])
    text = run("show", "--hlo", tmp_path).stdout
    assert "\x1b" not in text and text.split("\n\n")[1].splitlines()[1].split()[-1] == (
        "a_b\\x1b[31m.after_optimizations.txt"
    )


def test_a_folder_of_long_lines_is_read(tmp_path):
    fill(tmp_path, [AFTER], "%a = f32[4] add()" + ", x={f32[2]{0,0} y=(" * 60_000)
    (program,) = json.loads(run("show", "--hlo", tmp_path, "--json").stdout)["programs"]
    assert (program["count"], program["nbytes"], program["unread_lines"]["count"]) == (1, 16, 0)


def test_a_dump_may_be_moved(tmp_path):
    shutil.copytree(DUMP, tmp_path / "a folder")
    text = run("show", "--hlo", tmp_path / "a folder").stdout
    assert text.splitlines()[-1].startswith("for one of them: gpulayout show --hlo '")
