"""Public names of a module: what `dir` and completion show, what is imported late, and where a name is at home.

A public name belongs to the module that offers it: in tracebacks, and in pickles, which outlive a file's name.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

FIRST_USE = threading.RLock()  # two threads may use a name first


class Needs(NamedTuple):
    """The library without which the late names of a module cannot be: `dask.array`, "Dask", and the extra `dask`."""

    module: str
    title: str
    extra: str


def publish(
    namespace: dict[str, Any],
    names: Iterable[str],
    *,
    late: Mapping[str, str] | None = None,
    needs: Needs | None = None,
    hint: Callable[[str], str] = lambda name: "",
) -> None:
    """Make a module the home of its public names, and show no others; `namespace` is its `globals()`.

    names   that are there already
    late    where names are that are imported when they are first used: "package.module" or "package.module:name"
    needs   what they need.  Without it, they are not shown, and to use one is an ImportError that says what to install
    hint    what an error adds for a name that is missing
    """
    waiting = dict(late or {})
    used: dict[str, Any] = {}
    for name in names:
        _be_home(namespace, namespace[name])

    def shown() -> list[str]:
        own = (name for name in namespace if name.startswith("__"))
        return sorted({*namespace["__all__"], *own, *waiting} - ({*waiting} if needs and _missing(needs) else set()))

    def imported(name: str) -> Any:
        if name not in waiting:
            text = f"module {namespace['__name__']!r} has no attribute {name!r}{hint(name)}"
            raise AttributeError(text, name=name, obj=sys.modules[namespace["__name__"]])
        if needs and (error := _missing(needs)):
            raise ImportError(
                f"{namespace['__name__']} needs {needs.title}, which cannot be imported ({error}): "
                f"pip install 'gpulayout[{needs.extra}]'"
            ) from error
        module, _, attribute = waiting[name].partition(":")
        value = importlib.import_module(module)
        with FIRST_USE:
            if name not in used:
                if attribute:
                    value = getattr(value, attribute)
                    _be_home(namespace, value)
                namespace[name] = used[name] = value
        return used[name]

    namespace["__dir__"], namespace["__getattr__"] = shown, imported


def offer(namespace: dict[str, Any], name: str) -> None:
    """Add a public name to a module that is being made, whose names come one by one."""
    namespace.setdefault("__all__", []).append(name)
    publish(namespace, ())


def _be_home(namespace: Mapping[str, Any], value: Any) -> None:
    """Annotations of a class are text that is read in the class's module: they are read before the module changes."""
    for function in [value, *vars(value).values()] if isinstance(value, type) else [value]:
        _spell_out(function)
    if isinstance(value, type):
        value.__annotations__ = inspect.get_annotations(value, eval_str=True)
    if hasattr(value, "__module__"):
        (value if hasattr(value, "__qualname__") else type(value)).__module__ = namespace["__name__"]


def _spell_out(function: Any) -> None:
    """Give a function with `**options: Unpack[Some]` a signature with the keywords of `Some`, for completion."""
    options = inspect.isfunction(function) and function.__annotations__.get("options")
    if not isinstance(options, str) or not options.endswith("]"):
        return
    listed = inspect.unwrap(function).__globals__[options[options.index("[") + 1 : -1]].__annotations__
    signature = inspect.signature(function)
    others = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in listed.items()
    ]
    function.__signature__ = signature.replace(parameters=[*others, *keywords])


def _missing(needs: Needs) -> ImportError | None:
    """The error of importing what is needed, or None."""
    try:
        importlib.import_module(needs.module)
    except ImportError as error:
        return error
    return None
