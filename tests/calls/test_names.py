"""What `import gpulayout as gl` offers."""

import inspect
import typing

import pytest

import gpulayout as gl


def test_the_package_lists_its_public_names_and_two_submodules():
    assert len(gl.__all__) <= 48 and {"interop", "xla"} < {*gl.__all__}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="^module 'gpulayout' has no attribute 'no_such_name'$"):
        gl.no_such_name


def functions(module):
    """Every public function, class, method and property of a module, by name."""
    for name in module.__all__:
        value = getattr(module, name)
        yield name, value
        for field, found in vars(value).items() if inspect.isclass(value) else ():
            found = getattr(found, "fget", None) or getattr(found, "compute", None) or found
            yield f"{name}.{field}", getattr(found, "__func__", found)


@pytest.mark.parametrize("module", [gl, gl.xla, gl.interop], ids=["gpulayout", "gpulayout.xla", "gpulayout.interop"])
def test_annotations_can_be_read_at_run_time(module):
    """Tools that check arguments or write documentation read them with `typing.get_type_hints`."""
    read = [
        name
        for name, value in functions(module)
        if (inspect.isfunction(value) or inspect.isclass(value)) and typing.get_type_hints(value)
    ]
    assert len(read) > 40 or len(read) == len(module.__all__)
    assert module is not gl or {"pack", "Layout", "Shape.with_layout", "Shape.__init__", "use_backend.__init__"} < {
        *read
    }


def test_annotations_of_a_class_are_its_own():
    assert typing.get_type_hints(gl.Layout)["tiles"] == tuple[gl.Tile, ...]
    assert "element_type" in typing.get_type_hints(gl.Shape) and "element_type" not in gl.Shape.__annotations__
