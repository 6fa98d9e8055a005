"""What `import gpulayout as gl` offers, and where its former names are now."""

import pytest

import gpulayout as gl


def test_the_package_lists_its_public_names_and_no_submodule_but_xla():
    assert dir(gl) == sorted(gl.__all__) and len(gl.__all__) <= 40 and "xla" in gl.__all__
    assert dir(gl.xla) == sorted(gl.xla.__all__)


@pytest.mark.parametrize("name", sorted(set(gl.xla.__all__) - set(gl.__all__)))
def test_a_name_that_moved_still_works_and_says_where_it_is(name):
    moved = getattr(gl.xla, name)
    assert moved.__module__ == "gpulayout.xla"
    if isinstance(moved, type):  # pickles look classes up, and must not warn
        assert getattr(gl, name) is moved
        return
    with pytest.warns(DeprecationWarning, match=f"^gpulayout.{name} has moved to gpulayout.xla.{name}$"):
        assert getattr(gl, name) is moved


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="^module 'gpulayout' has no attribute 'no_such_name'$"):
        gl.no_such_name
