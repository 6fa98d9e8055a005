"""Tests marked `one_in(n)`: which cases a usual run leaves out, and when it takes all."""

import types

import pytest

from tests import conftest
from tests.support import effort


class Item:
    """A collected test."""

    path = types.SimpleNamespace(match=lambda pattern: False)

    def __init__(self, name, **markers):
        self.nodeid, self.markers = f"tests/test_a.py::{name}", markers

    def get_closest_marker(self, name):
        return self.markers.get(name)


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
    items = cases(6)
    conftest.pytest_collection_modifyitems(config, items)
    assert len(items) == left and len(gone) == 6 - left


def test_all_and_a_device_take_every_case(monkeypatch):
    monkeypatch.setenv("GPULAYOUT_TEST_EVERY_CASE", "1")
    assert effort.left_out(cases(9)) == []
    monkeypatch.delenv("GPULAYOUT_TEST_EVERY_CASE")
    monkeypatch.setattr(effort, "ALL", True)
    assert effort.left_out(cases(9)) == []
