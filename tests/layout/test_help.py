"""The first things a person types: `help(gl)`, `dir(gl)` and the help of one name."""

import dataclasses
import inspect
import pydoc
import re

import gpulayout as gl


def help_text(thing):
    """What `help` prints, without a pager."""
    return pydoc.plain(pydoc.render_doc(thing))


def test_the_help_of_the_package_names_every_public_name():
    words = set(re.findall(r"\w+", gl.__doc__))
    assert [name for name in gl.__all__ if name not in words and name != "__version__"] == []
    listed = re.findall(r"^    (\w+(?:, \w+)*)(?: {2,}|$)", gl.__doc__, re.M)
    # `from gpulayout import *` must not need Dask or PyTorch
    assert {name for line in listed for name in line.split(", ")} == {*gl.__all__, "dask", "torch"} - {"__version__"}


def test_the_help_of_a_class_has_all_its_public_members():
    for made in (gl.Shape, gl.Layout, gl.Tile, gl.StrideTable):
        text = help_text(made)
        public = [name for name in dir(made) if not name.startswith("_")]
        assert public and [name for name in public if not re.search(rf"\b{name}\b", text)] == []
    assert len(help_text(gl.Shape).splitlines()) > 300


def test_a_star_import_has_the_public_names():
    found = {}
    exec("from gpulayout import *", found)
    assert {*gl.__all__} <= {*found}


def test_signatures_show_what_a_caller_may_write():
    """A frozen dataclass shows the types of its fields, which are narrower."""
    assert str(inspect.signature(gl.Shape)).startswith(
        "(element_type: 'str | DTypeLike', dimensions: 'Iterable[int]', layout: 'Layout | str | None' = None, *, "
    )
    assert str(inspect.signature(gl.Tile)) == "(dimensions: 'Iterable[int | Combine | str]') -> None"
    for made in (gl.Shape, gl.Layout, gl.Tile, gl.xla.TupleShape):
        fields = {field.name for field in dataclasses.fields(made)}
        assert fields == {*inspect.signature(made).parameters} - {"pitch", "align"}  # a Shape turns them into padding
