"""What a person finds by the tab key: every public name, its help and its signature, and no others.

Completion is that of Python's interpreter (`rlcompleter`) and of Jupyter, with and without jedi.
"""

import contextlib
import importlib
import inspect
import io
import operator
import os
import pydoc
import rlcompleter
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.names import OWNERS

SUBMODULES = {"gpulayout": {"catalogue", "dask", "interop", "torch", "xla"}, "gpulayout.catalogue": {*OWNERS}}
NEEDS = {"gpulayout.dask": "dask.array", "gpulayout.torch": "torch"}
MODULES = ["gpulayout", *(f"gpulayout.{name}" for name in sorted(SUBMODULES["gpulayout"])), *OWNERS.values()]
OBJECTS = {  # an object of every public class
    "shape": lambda: gl.Shape("f32", (2, 3)),
    "tiled": lambda: gl.parse_shape("f32[2,3]{1,0:T(2,2)}"),
    "packed": lambda: gl.parse_shape("u4[2,3]{1,0:E(4)}"),
    "unbounded": lambda: gl.parse_shape("f32[<=5,?]"),
    "scalar": lambda: gl.parse_shape("f32[]"),
    "layout": lambda: gl.parse_layout("{1,0:T(2,2)}"),
    "tile": lambda: gl.Tile((2, 2)),
    "array": lambda: gl.Array(np.zeros(8, np.float32), "f32[2,3]{1,0:T(2,2)}"),
    "number": lambda: gl.Array(np.zeros(1, np.float32), "f32[]"),
    "plan": lambda: gl.plan("f32[2,3]", "{0,1:T(2,2)}"),
    "blocks": lambda: gl.plan("f32[2,3]", "{0,1}").blocks(16),
    "block": lambda: gl.plan("f32[2,3]", "{0,1}").blocks(16)[0],
    "runs": lambda: gl.plan("f32[2,3]", "{0,1}").blocks(16)[0].source_runs,
    "in_place": lambda: gl.plan("f32[2,3]", "{0,1}").in_place(),
    "lowered": lambda: gl.plan("f32[2,3]", "{0,1}").lower(),
    "table": lambda: gl.stride_table("f32[2,3]{1,0:T(2,2)}"),
    "digit": lambda: gl.stride_table("f32[2,3]").digits[0],
    "picture": lambda: gl.Shape("f32", (2, 3)).draw(),
    "entry": lambda: gl.catalogue.cublas.block_scales,
    "size": lambda: gl.catalogue.cublas.block_scales.sizes[0],
    "tuple": lambda: gl.xla.TupleShape([gl.Shape("f32", (2, 3)), gl.parse_shape("f32[?]")]),
    "token": gl.xla.TokenShape,
    "buffer": lambda: gl.xla.BufferShape(gl.Shape("f32", (2, 3))),
    "split": lambda: gl.xla.SplitConfig(0, [1]),
    "element_type": lambda: gl.ElementType.F32,
    "padding_value": lambda: gl.PaddingValue.ZERO,
    "error": lambda: gl.LayoutError("wrong"),
    "mark": lambda: gl.COMBINE,
}


def module_named(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    return importlib.import_module(name)


def public_names(module):
    """What its `dir` has to show, without what is between double underscores."""
    return {*module.__all__, *SUBMODULES.get(module.__name__, ())} - {"__version__"}


def completed(text, names):
    """What Python's interpreter offers behind a text, as it stands before "(".  Warnings are errors."""
    completer, found = rlcompleter.Completer(names), []
    while (word := completer.complete(text, len(found))) is not None:
        found.append(word)
    return {word.rpartition(".")[2].partition("(")[0] for word in found}


@pytest.mark.parametrize("name", MODULES)
def test_dir_has_the_public_names_and_no_others(name):
    module = module_named(name)
    shown = dir(module)
    assert {word for word in shown if not word.startswith("__")} == public_names(module)
    assert {"__all__", "__doc__", "__name__", "__spec__"} < {*shown} and len(shown) == len({*shown})
    assert {*module.__all__} <= {*shown} and all(hasattr(module, word) for word in shown)
    with pytest.raises(AttributeError, match=f"^module '{name}' has no attribute 'no_such_name'$") as caught:
        module.no_such_name
    assert caught.value.name == "no_such_name" and caught.value.obj is module  # for "Did you mean ..."


def public_tree():
    """(path, object) of everything that `dir` reaches from the package through modules and public classes."""
    waiting, seen = [("gl", gl)], set()
    while waiting:
        path, found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield path, found
        if isinstance(found, types.ModuleType) or (inspect.isclass(found) and found.__module__.startswith("gpulayout")):
            for name in dir(found):
                if not name.startswith("_"):
                    waiting.append((f"{path}.{name}", getattr(found, name)))
                    inspect.getattr_static(found, name)


def is_ours(found):
    """True for what the package wrote, and not, say, a method that a class has from `str`."""
    found = getattr(found, "fget", None) or found
    return (getattr(found, "__module__", None) or getattr(found, "__name__", "")).startswith("gpulayout")


def test_every_public_name_has_help_and_a_signature():
    tree = dict(public_tree())
    assert len(tree) > 300 and {"gl.torch", "gl.catalogue.vllm.key_cache", "gl.Shape.nbytes"} < {*tree}
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        warnings.simplefilter("error")
        for path, found in tree.items():
            assert repr(found) and dir(found), path
            assert inspect.getdoc(found) or not is_ours(found), path
            assert isinstance(found, str) or pydoc.render_doc(found), path  # `help` takes text for a topic
            inspect.getmembers(found)
            if callable(found) and is_ours(found):
                assert inspect.signature(found) is not None, path
    assert out.getvalue() == ""


def test_the_interpreter_completes_every_public_name():
    for path, found in public_tree():
        if isinstance(found, types.ModuleType):
            assert completed(f"{path}.", {"gl": gl}) == public_names(found), path
        elif inspect.isclass(found):
            own = {name for name, value in vars(found).items() if not isinstance(value, property)}
            wanted = {name for name in own | {*dir(found)} if not name.startswith("_")}
            assert completed(f"{path}.", {"gl": gl}) >= wanted, path


@pytest.mark.parametrize("name", OBJECTS)
def test_the_interpreter_completes_every_object(name):
    found = OBJECTS[name]()
    for text in ("it.", "it._", "it.__"):
        offered = completed(text, {"it": found})
        if text == "it.":
            assert offered >= {word for word in dir(found) if not word.startswith("_")}


def run_alone(code, **environment):
    """What a new interpreter prints, on both streams."""
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


COMPLETE = """
import rlcompleter, sys
import gpulayout as gl
def completed(text):
    completer, found = rlcompleter.Completer({"gl": gl}), []
    while (word := completer.complete(text, len(found))) is not None:
        found.append(word)
    return found
"""


def test_completion_imports_no_other_library():
    told = run_alone(
        COMPLETE + "assert {'gl.dask', 'gl.torch', 'gl.transpose('} < {*completed('gl.')}\n"
        "completed('gl.catalogue.'), completed('gl.xla.'), completed('gl.interop.'), completed('gl.Array.')\n"
        "print({'torch', 'dask', 'jax', 'cupy', 'click'} & {*sys.modules})"
    )
    assert told == "set()\n"


@pytest.mark.parametrize("how", ["not installed", "broken"])
@pytest.mark.parametrize("name, title, used", [("dask", "Dask", "pack"), ("torch", "PyTorch", "Pack")])
def test_without_a_library_completion_is_silent_and_use_says_what_to_install(name, title, used, how, tmp_path):
    code = COMPLETE
    if how == "broken":
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a file is missing')")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})" + code
    else:
        code = f"import sys; sys.modules[{name!r}] = None" + code
    told = run_alone(
        code + f"assert 'gl.{name}' in completed('gl.')\n"
        f"assert all(word.startswith('gl.{name}.__') for word in completed('gl.{name}.'))\n"
        f"import inspect, pydoc; assert inspect.getmembers(gl.{name}) and pydoc.render_doc(gl.{name})\n"
        f"for use in ('gl.{name}.{used}', 'from gpulayout.{name} import {used}', 'from gpulayout.{name} import *'):\n"
        "    try:\n"
        "        exec(use)\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    lines = told.splitlines()
    assert len(lines) == 3 and len({*lines}) == 1
    assert lines[0].startswith(f"gpulayout.{name} needs {title}, which cannot be imported (")
    assert lines[0].endswith(f"): pip install 'gpulayout[{name}]'")


TERMINAL = """
import os, sys
import pexpect
start = "import rlcompleter, readline; readline.parse_and_bind('tab: complete'); import gpulayout as gl"
environment = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "INPUTRC": "/dev/null"}
child = pexpect.spawn(sys.executable, ["-q", "-i", "-c", start], env=environment, encoding="utf-8")
child.expect(">>> ", timeout=60)
for sent, expected in (
    ("gl.catalogue.cub\\t", "las"),
    ("lt.col32_\\t", r"2r_4r4\\("),
    ("200, 10)\\n", r"Shape\\('s8'"),
    ("gl.tor\\t", "ch"),
    (".__name__\\n", "'gpulayout.torch'\\r\\n>>> "),
):
    child.send(sent)
    child.expect(expected)
    assert "Traceback" not in child.before
child.close(force=True)
"""


def test_the_tab_key_in_a_terminal():
    """In a process of its own: pexpect forks, which JAX warns of."""
    for needed in ("pexpect", "readline"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    assert run_alone(TERMINAL) == ""


@pytest.mark.parametrize("use_jedi", [False, True], ids=["without jedi", "with jedi"])
def test_jupyter_completes_every_public_name(use_jedi):
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    from IPython.core.completer import provisionalcompleter

    if use_jedi:
        pytest.importorskip("jedi", reason="jedi is not installed")
    shell = shells.InteractiveShell()
    shell.user_ns.update(gl=gl, **{name: make() for name, make in OBJECTS.items()})
    shell.Completer.use_jedi = use_jedi

    def offered(text):
        with provisionalcompleter():
            return {word.text.lstrip(".") for word in shell.Completer.completions(text, len(text))}

    for path, found in public_tree():
        if isinstance(found, types.ModuleType):
            assert offered(f"{path}.") == public_names(found), path
    for name, make in OBJECTS.items():
        wanted = {word for word in dir(make()) if not word.startswith("_")}
        assert offered(f"{name}.") >= wanted or use_jedi, name
        assert not use_jedi or {word for word in wanted if not hasattr(object, word)} - offered(f"{name}.") == set(), (
            name
        )
    if not use_jedi:
        assert {"dtype="} <= offered("entry(") and {"scale=", "block="} <= offered("gl.ArithmeticOptions(")


def test_a_plan_offers_no_internals():
    offered = {name for name in dir(gl.plan("f32[2,3]", "{0,1}")) if not name.startswith("_")}
    assert {"source", "target", "names", "blocks", "explain", "draw", "lower", "in_place", "part"} <= offered
    assert not offered & {"own_change", "request", "of_block", "plain_options"}


KEYWORDS = ["dtype", "scale", "shift", "mean", "std", "unit", "zero_point", "divide", "block", "saturate"]


@pytest.mark.parametrize(
    "name",
    ["pack", "unpack", "relayout", "relayout_many", "relayout_file", "plan", "transpose", "Array.to", "torch.Pack"]
    + ["transpose_many", "torch.Unpack", "torch.Relayout", "dask.pack", "dask.unpack", "dask.relayout"],
)
def test_the_keywords_of_arithmetic_are_part_of_the_signature(name):
    if "." in name and name[0] != "A":
        pytest.importorskip(name.split(".")[0])
    shown = inspect.signature(operator.attrgetter(name)(gl)).parameters
    assert [each for each in shown if each in KEYWORDS] == KEYWORDS and "options" not in shown
