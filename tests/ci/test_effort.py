"""Tests marked `one_in(n)`: which cases a usual run leaves out, and when it takes all."""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from tests import conftest
from tests.support import effort
from tests.support.waiting import HANG

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Item:
    """A collected test."""

    path = types.SimpleNamespace(match=lambda pattern: False)

    def __init__(self, name, **markers):
        self.nodeid, self.markers = f"tests/test_a.py::{name}", markers

    def get_closest_marker(self, name):
        return self.markers.get(name)


def with_parameters(*names_and_values):
    """A case for each combination of values, as pytest parametrizes."""
    names = [name for name, _ in names_and_values]
    for places in itertools.product(*(range(len(values)) for _, values in names_and_values)):
        params = {name: values[place] for (name, values), place in zip(names_and_values, places)}
        item = Item(f"test_all[{places}]", one_in=pytest.mark.one_in(4).mark)
        item.callspec = types.SimpleNamespace(params=params, indices=dict(zip(names, places)))
        yield item


def cases(count, name="test_all", every=3, **markers):
    marker = pytest.mark.one_in(every).mark
    return [Item(f"{name}[{number}-{'-'.join(markers)}]", one_in=marker, **markers) for number in range(count)]


@pytest.fixture(autouse=True)
def a_usual_run(monkeypatch):
    monkeypatch.setattr(effort, "ALL", False)
    monkeypatch.delenv("GPULAYOUT_TEST_EVERY_CASE", raising=False)


@pytest.mark.parametrize("count, kept", [(1, 1), (2, 1), (3, 1), (4, 2), (30, 10)])
def test_one_case_in_three_stays_and_one_at_least(count, kept):
    items = cases(count)
    assert len(items) - len(effort.left_out(items)) == kept


@pytest.mark.parametrize("all_cases, every_case, taken", [(False, "0", 40), (True, "0", 100), (False, "1", 100)])
def test_random_tests_take_two_examples_of_five_or_all(monkeypatch, all_cases, every_case, taken):
    monkeypatch.setattr(effort, "ALL", all_cases)
    monkeypatch.setenv("GPULAYOUT_TEST_EVERY_CASE", every_case)
    assert effort.examples(100) == taken and effort.examples(1) == 1


def test_tests_without_the_mark_stay():
    assert effort.left_out([Item("test_a[1]"), Item("test_b")]) == []


def test_each_test_and_each_executor_keeps_cases():
    lists = [cases(9), cases(9, simt=True), cases(9, gpu=True), cases(9, "test_other"), cases(9, "test_third", every=9)]
    gone = effort.left_out(sum(lists, []))
    assert [len([item for item in items if item not in gone]) for items in lists] == [3, 3, 3, 3, 1]


def test_the_choice_depends_on_names_alone_and_keeps_no_step_with_a_parameter():
    items = cases(60)
    kept = [number for number, item in enumerate(items) if item not in effort.left_out(items)]
    assert [item for item in items if item in effort.left_out(items[::-1])] == [
        item for number, item in enumerate(items) if number not in kept
    ]
    assert len({number % 3 for number in kept}) == 3 and len({number % 4 for number in kept}) == 4


@pytest.mark.parametrize("values", [["pixels", "signed", "complex"], [(1, 2), [3], {}]])
def test_every_value_of_a_parameter_stays_where_there_is_room(values):
    items = [*with_parameters(("a", values), ("b", [8, 16, 32, 64]))]
    kept = [item for item in items if item not in effort.left_out(items)]
    assert len(kept) == 3 and len({item.callspec.indices["a"] for item in kept}) == 3
    assert len({item.callspec.params["b"] for item in kept}) == 3


def test_equal_values_of_different_cases_count_once():
    items = [*with_parameters(("mode", ["grid", "block", "block", "block", "block", "block", "block", "block"]))]
    kept = [item for item in items if item not in effort.left_out(items)]
    assert {item.callspec.params["mode"] for item in kept} == {"grid", "block"}


@pytest.mark.parametrize("option", ["lf", "failedfirst", "stepwise"])
def test_what_failed_before_runs_again(option):
    config = types.SimpleNamespace(
        option=types.SimpleNamespace(keyword="", **{option: True}), args=["tests"], stash=pytest.Stash()
    )
    items = cases(6)
    conftest.pytest_collection_modifyitems(config, items)
    assert len(items) == 6


@pytest.mark.parametrize(
    "keyword, arguments, left", [("", ["tests"], 2), ("all", ["tests"], 6), ("", ["tests/test_a.py::test_all[1-]"], 6)]
)
def test_tests_that_are_chosen_by_name_all_run(keyword, arguments, left):
    gone = []
    config = types.SimpleNamespace(
        option=types.SimpleNamespace(keyword=keyword),
        args=arguments,
        hook=types.SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)),
    )
    config.stash = pytest.Stash()
    items = cases(6)
    conftest.pytest_collection_modifyitems(config, items)
    assert len(items) == left and len(gone) == config.stash[conftest.LEFT_OUT] == 6 - left


@pytest.mark.parametrize(
    "arguments, said",
    [((), "one_in()"), ((0,), "one_in(0)"), ((1,), "one_in(1)"), (("3",), "one_in('3')"), ((2, 3), "one_in(2, 3)")],
)
def test_a_mark_that_is_no_share_is_named(arguments, said):
    item = Item("test_a[1]", one_in=pytest.mark.one_in(*arguments).mark)
    with pytest.raises(
        pytest.UsageError, match=re.escape(f"tests/test_a.py::test_a[1] is marked {said}: it takes one")
    ):
        effort.left_out([item])


@pytest.mark.parametrize("text, answer", [("", False), ("0", False), ("1", True)])
def test_a_variable_asks_for_more_with_1(monkeypatch, text, answer):
    monkeypatch.setenv("GPULAYOUT_TEST_EVERY_CASE", text)
    assert effort.asked("GPULAYOUT_TEST_EVERY_CASE") is answer


@pytest.mark.parametrize("variable", ["GPULAYOUT_TEST_ALL", "GPULAYOUT_TEST_EVERY_CASE"])
def test_another_value_is_named(variable):
    neither = {"GPULAYOUT_TEST_ALL": "", "GPULAYOUT_TEST_EVERY_CASE": ""}  # the first that is 1 answers for both
    done = run_pytest("tests/ci/test_effort.py", "--collect-only", **{**neither, variable: "yes"})
    assert done.returncode == 4 and f"{variable} is 'yes': it must be 1 or 0" in done.stderr + done.stdout


def run_pytest(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def test_a_run_says_how_many_cases_it_left_out():
    pytest.importorskip("xdist")
    usual = {"GPULAYOUT_TEST_ALL": "", "GPULAYOUT_TEST_EVERY_CASE": ""}
    chosen = ("-m", "not simt and not gpu", "tests/memory/test_mapped_files.py")
    every = run_pytest("-n", "1", *chosen, **usual | {"GPULAYOUT_TEST_EVERY_CASE": "1"})
    assert "left out" not in every.stdout
    for workers in ("0", "1"):
        done = run_pytest("-n", workers, *chosen, **usual)
        ran = int(re.search(r"(\d+) passed", done.stdout)[1])
        (gone,) = re.findall(r"^cases left out of tests marked one_in\(n\): (\d+) ", done.stdout, re.M)
        assert int(gone) > 0 and f"{ran + int(gone)} passed" in every.stdout, workers


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_file_that_is_not_there_is_named(workers):
    pytest.importorskip("xdist")
    done = run_pytest("-n", workers, "tests/nosuch.py::test_a")
    assert done.returncode == 4 and "file or directory not found: tests/nosuch.py::test_a" in done.stderr


def test_all_and_a_device_take_every_case(monkeypatch):
    monkeypatch.setenv("GPULAYOUT_TEST_EVERY_CASE", "1")
    assert effort.left_out(cases(9)) == []
    monkeypatch.delenv("GPULAYOUT_TEST_EVERY_CASE")
    monkeypatch.setattr(effort, "ALL", True)
    assert effort.left_out(cases(9)) == []
