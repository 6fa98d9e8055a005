"""What a person, an editor and a documentation tool see of the signatures."""

import ast
import functools
import inspect
import pathlib
import pickle
import pydoc
import re

import pytest

import gpulayout as gl

PACKAGE = pathlib.Path(gl.__file__).parent
KEYWORDS = [*gl.ArithmeticOptions.__annotations__]
# Each overload is there for a result of another kind.  Fewer lines are welcome; more need a reason.
MOST_OVERLOAD_LINES = 178  # a model's move has two: with rules, and by a recipe; runs are a list or come in parts


def is_overload(node):
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(mark) == "overload" for mark in node.decorator_list)


def takes_options(function):
    """True for `**options: Unpack[ArithmeticOptions]`; methods and functions, not what a class inherits."""
    return inspect.isfunction(function) and "ArithmeticOptions" in str(function.__annotations__.get("options"))


def functions_with_options():
    """By path from the package, every public function and method that takes the keywords of arithmetic at its end."""
    found = {}
    for name in gl.__all__:
        value = getattr(gl, name)
        if isinstance(value, type):
            found.update({f"{name}.{own}": each for own, each in vars(value).items() if takes_options(each)})
        elif takes_options(value):
            found[name] = value
    return found


WITH_OPTIONS = functions_with_options()


def test_help_of_the_package_begins_with_an_overview_of_every_public_name():
    """`pydoc` prints the whole of every public class below it, as it does for NumPy."""
    lines = pydoc.plain(pydoc.render_doc(gl)).splitlines()
    overview = lines[: lines.index("PACKAGE CONTENTS")]
    assert len(overview) <= 100
    words = {*re.findall(r"\w+", "\n".join(overview))}
    assert {*gl.__all__, "dask", "torch"} - words == {"__version__"}


def test_the_keywords_of_arithmetic_are_documented_once():
    sections = [name for name, value in vars(gl).items() if "zero_point : integer or array" in str(value.__doc__)]
    assert sections == ["ArithmeticOptions"]
    assert all(word in gl.ArithmeticOptions.__doc__ for word in KEYWORDS)


def test_overloads_are_short():
    lines = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            lines += node.end_lineno - node.lineno + 1 if is_overload(node) else 0
    assert 50 < lines <= MOST_OVERLOAD_LINES


def test_the_public_functions_that_take_the_keywords():
    expected = {"pack", "unpack", "plan", "relayout", "relayout_many", "transpose_many", "relayout_file", "exchange"}
    expected |= {"Array.to"}
    assert {*WITH_OPTIONS} == expected


@pytest.mark.parametrize("name", [*WITH_OPTIONS, "transpose"])
def test_a_signature_lists_the_keywords_with_their_default(name):
    listed = inspect.signature(WITH_OPTIONS.get(name, gl.transpose)).parameters
    *others, last = listed.values()
    assert [word for word in listed if word in KEYWORDS] == KEYWORDS
    assert all(
        listed[word].kind is inspect.Parameter.KEYWORD_ONLY and listed[word].default is None for word in KEYWORDS
    )
    assert last.name == ("sizes" if name == "transpose" else "saturate")
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in others)


@pytest.mark.parametrize("name", [*WITH_OPTIONS, "transpose"])
def test_a_function_that_wraps_another_has_its_signature(name):
    function = WITH_OPTIONS.get(name, gl.transpose)
    wrapped = functools.wraps(function)(lambda *arguments, **options: function(*arguments, **options))
    assert inspect.signature(wrapped) == inspect.signature(function)
    assert pydoc.plain(pydoc.render_doc(wrapped)).count("saturate: ") == 1


@pytest.mark.parametrize("name", [*WITH_OPTIONS, "transpose"])
def test_a_function_is_the_one_that_was_written(name):
    """A signature is an attribute.  A wrapper would cost a Python call each time, and a pickle would not find it."""
    function = WITH_OPTIONS.get(name, gl.transpose)
    assert not hasattr(function, "__wrapped__") and function.__code__.co_name == name.rpartition(".")[2]
    assert pickle.loads(pickle.dumps(function)) is function
