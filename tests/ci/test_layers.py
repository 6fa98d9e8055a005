"""The shape of the source: the direction of imports, their cost, and the size of files and functions."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import gpulayout

PACKAGE = pathlib.Path(gpulayout.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES
}

PAGE = PACKAGE.parent / "docs" / "architecture.md"
PART_OF_THE_PACKAGE = re.compile(r"^\| `(?:(\w+)/|(\w+)\.py)` \|.*\|([^|]*)\|$", re.MULTILINE)


def rooms(page):
    """{room: rooms whose modules its own may import}, as the page's list of rooms says.

    The room of a file beside the folders is its name; that of `__init__.py`, the package itself, is "".
    """
    listed = page.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    found = {}
    for folder, file, arrows in PART_OF_THE_PACKAGE.findall(listed):
        found[folder or file.replace("__init__", "")] = tuple(re.findall(r"\w+", arrows))
    return found


ROOMS = rooms(PAGE.read_text(encoding="utf-8"))
FILE_LINES = 500
FUNCTION_LINES = 45
EXECUTES_TEXT = {"eval", "exec", "compile", "__import__"}
READS_OBJECTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
CUPY = ("cupy", "cupyx", "cupy_backends")
MAY_IMPORT_CUPY = "gpulayout.gpu.cupy_runtime"


def room(module):
    """The room that a module stands in."""
    return (module.split(".") + [""])[1]


def imports(tree, module=""):
    """Every module that a file imports, at the top or inside a function.

    A text that is a module's name counts too: `importlib.import_module` may get it.  The replaced fields of an f-string
    stand for any name, so f"gpulayout.{name}" is every module right below the package.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relative to itself"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.JoinedStr):
            parts = [re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+" for part in node.values]
            if parts[0].startswith("gpulayout"):
                yield from (name for name in MODULES if "." in name and re.fullmatch("".join(parts), name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield from [node.value] * (node.value in MODULES)


def check_imports(module, source):
    """The modules that `module` may not import, among those it does."""
    return [
        imported
        for imported in imports(ast.parse(source), module)
        if imported.split(".")[0] == "gpulayout" and room(imported) not in (room(module), *ROOMS[room(module)])
    ]


def check_cupy(module, source):
    cupy = [imported for imported in imports(ast.parse(source), module) if imported.split(".")[0] in CUPY]
    return cupy if module != MAY_IMPORT_CUPY else []


def check_calls(module, source):
    """Names that run text or read foreign objects, called or imported; methods such as `re.compile` do not count."""
    tree = ast.parse(source)
    called = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return (
        [name for name in called if name in EXECUTES_TEXT]
        + [name for name in imports(tree, module) if name.split(".")[0] in READS_OBJECTS]
        + [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword)
            and node.arg == "allow_pickle"
            and not (isinstance(node.value, ast.Constant) and node.value.value is False)
        ]
    )


def check_backends(module, source):
    """Comparisons of `backend.name`, where an attribute of `Backend` belongs."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Constant) and side.value in ("numpy", "cupy") for side in node.comparators)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "name"
        and ast.unparse(node.left) != "self.name"
    ]


def check_sizes(module, source):
    """Files that are too long, and functions with too many lines of code: docstrings, comments and blanks do not
    count.
    """
    tree, lines = ast.parse(source), source.splitlines()
    found = [] if len(lines) <= FILE_LINES else [f"{module} has {len(lines)} lines"]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            numbers = set(range(node.lineno, node.end_lineno + 1))
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                numbers -= set(range(first.lineno, first.end_lineno + 1))
            code = [
                number
                for number in numbers
                if lines[number - 1].strip() and not lines[number - 1].strip().startswith("#")
            ]
            if len(code) > FUNCTION_LINES:
                found.append(f"{module}: {node.name} has {len(code)} lines of code")
    return found


def check_docstrings(module, source):
    """Modules and their public functions and classes that lack a docstring."""
    tree = ast.parse(source)
    public = [
        node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not _is_overload(node)
    ]
    missing = [node.name for node in public if ast.get_docstring(node) is None]
    return missing + ([module] if tree.body and ast.get_docstring(tree) is None else [])


def _is_overload(node):
    """True for a signature that only type checkers read."""
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


CHECKS = {
    "imports run one way": check_imports,
    "CuPy is imported in one place": check_cupy,
    "no text is run and no object is unpickled": check_calls,
    "no backend is asked for its name": check_backends,
    "files and functions stay small": check_sizes,
    "public names have docstrings": check_docstrings,
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_file(check):
    assert len(FILES) > 30
    broken = {module: found for module, path in MODULES.items() if (found := CHECKS[check](module, path.read_text()))}
    assert broken == {}


def test_every_module_stands_in_a_room():
    assert {room(module) for module in MODULES} == set(ROOMS)
    assert MAY_IMPORT_CUPY in MODULES


def test_the_page_s_list_of_rooms_has_every_arrow_and_no_other():
    used = {name: set() for name in ROOMS}
    for module, path in MODULES.items():
        for imported in imports(ast.parse(path.read_text()), module):
            if imported.split(".")[0] == "gpulayout":
                used[room(module)].add(room(imported))
    assert {name: found - {name} for name, found in used.items()} == {name: {*ROOMS[name]} for name in ROOMS}


def test_arrows_point_up_in_the_page_s_list():
    names = list(ROOMS)
    assert len(names) > 10 and all(
        names.index(upper) < number for number, name in enumerate(names) for upper in ROOMS[name]
    )
    page = "\n## Rooms\n| `a/` | What? | `x.py` | |\n| `b.py` | | | `a` |\n| `__init__.py` | | | `a`, `b` |\n## Words\n"
    assert rooms(page) == {"a": (), "b": ("a",), "": ("a", "b")}


def shared_names(sources):
    """The names of classes that several files define, a leading underscore aside, and these files."""
    files = {}
    for module, source in sources.items():
        for name in {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}:
            files.setdefault(name.lstrip("_"), []).append(module)
    return {name: modules for name, modules in files.items() if len(modules) > 1}


def test_the_name_of_a_class_has_one_meaning():
    shared = shared_names({module: path.read_text() for module, path in MODULES.items()})
    assert shared == {}
    assert shared_names({"a": "class Part: ...", "b": "class _Part: ..."}) == {"Part": ["a", "b"]}
    assert shared_names({"a": "class Part: ...", "b": "class Parts: ..."}) == {}


def circles(graph):
    """The modules that import themselves, directly or through others."""
    reached = {module: set(imported) for module, imported in graph.items()}
    for through in graph:
        for module in graph:
            if through in reached[module]:
                reached[module] |= reached[through]
    return [module for module in graph if module in reached[module]]


def test_no_module_imports_itself_through_others():
    graph = {
        module: {name for name in imports(ast.parse(path.read_text()), module) if name in MODULES}
        for module, path in MODULES.items()
    }
    assert circles(graph) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]


@pytest.mark.parametrize(
    "check, module, source",
    [
        ("imports run one way", "gpulayout.layout.shape", "from gpulayout.moves import move"),
        ("imports run one way", "gpulayout.layout.shape", "import gpulayout"),
        (
            "imports run one way",
            "gpulayout.moves.move",
            "def f():\n    from gpulayout.choices.backends import host_backend",
        ),
        ("imports run one way", "gpulayout.arrays.arrays", "import gpulayout.cli.main"),
        ("imports run one way", "gpulayout.choices.explain", "from gpulayout.xla.bitcast import is_bitcast"),
        ("imports run one way", "gpulayout.moves.index_program", "from gpulayout.gpu import parameters"),
        ("imports run one way", "gpulayout.cpu.blocks", "import gpulayout.gpu.launch"),
        ("imports run one way", "gpulayout.choices.explain", "from gpulayout.cli.main import main"),
        ("imports run one way", "gpulayout.files.npy", "from gpulayout.cli.failures import Failure"),
        ("imports run one way", "gpulayout.calls.relayout", "from gpulayout.files import npy"),
        ("imports run one way", "gpulayout.interop.cute", "from gpulayout.calls.relayout import plan"),
        ("imports run one way", "gpulayout.cli.main", "from gpulayout import Shape"),
        (
            "imports run one way",
            "gpulayout.layout.shape",
            "def f():\n    return importlib.import_module('gpulayout.pictures.figure')",
        ),
        ("imports run one way", "gpulayout.moves.move", "import_module(f'gpulayout.{room}.{name}')"),
        ("CuPy is imported in one place", "gpulayout.choices.backends", "def f():\n    import cupy.cuda"),
        ("CuPy is imported in one place", "gpulayout.layout.shape", "from cupyx import profiler"),
        ("no text is run and no object is unpickled", "gpulayout.layout.text", "eval('1')"),
        ("no text is run and no object is unpickled", "gpulayout.layout.text", "import pickle"),
        ("no text is run and no object is unpickled", "gpulayout.files.npy", "np.load(path, allow_pickle=True)"),
        (
            "no backend is asked for its name",
            "gpulayout.running.in_place",
            "slabs = 1 if backend.name != 'numpy' else 2",
        ),
        ("files and functions stay small", "gpulayout.layout.text", "\n" * 501),
        ("files and functions stay small", "gpulayout.layout.text", "def f():\n" + "    x = 1\n" * 45),
        ("public names have docstrings", "gpulayout.layout.text", '"""Text."""\ndef parse():\n    pass'),
        ("public names have docstrings", "gpulayout.layout.text", "x = 1"),
        ("public names have docstrings", "gpulayout.layout.text", '"""Text."""\n@cache\ndef parse(): ...'),
    ],
)
def test_a_broken_file_is_found(check, module, source):
    assert CHECKS[check](module, source)


@pytest.mark.parametrize(
    "check, module, source",
    [
        (
            "imports run one way",
            "gpulayout.cli.main",
            "from gpulayout.choices import backends\nfrom gpulayout.layout.shape import Shape",
        ),
        ("imports run one way", "gpulayout", "from gpulayout.calls.relayout import plan"),
        (
            "imports run one way",
            "gpulayout.layout.text",
            "log('gpulayout')\nlog(f'gpulayout.{name} has moved')\nimport_module('gpulayout.layout.shape')",
        ),
        ("CuPy is imported in one place", MAY_IMPORT_CUPY, "import cupy"),
        (
            "no backend is asked for its name",
            "gpulayout.choices.backends",
            "if self.name == 'cupy': print(backend.name)",
        ),
        (
            "no text is run and no object is unpickled",
            "gpulayout.layout.text",
            "re.compile('a')\nnp.load(f, allow_pickle=False)",
        ),
        (
            "files and functions stay small",
            "gpulayout.layout.text",
            "def f():\n    '''" + "\n" * 60 + "'''\n" + "    # why\n" * 60,
        ),
        (
            "public names have docstrings",
            "gpulayout.layout.text",
            '"""Text."""\n@overload\ndef parse(): ...\ndef parse():\n    "Parse."',
        ),
    ],
)
def test_a_proper_file_is_let_through(check, module, source):
    assert not CHECKS[check](module, source)


# ---- what importing loads ------------------------------------------------------------------------


def loaded_by(statement):
    """Top-level names of the modules that a statement loads into a fresh interpreter."""
    script = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, cwd=PACKAGE.parent
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_library_loads_numpy_and_ml_dtypes_alone():
    foreign = loaded_by("import gpulayout") - set(sys.stdlib_module_names)
    expected = loaded_by("import numpy, ml_dtypes") - set(sys.stdlib_module_names)
    assert foreign - expected == {"gpulayout"}
    assert not foreign & {"cupy", "cupyx", "click", "rich", "torch", "jax"}


def test_pictures_are_loaded_when_one_is_drawn():
    script = (
        "import sys, gpulayout; before = 'gpulayout.pictures' in sys.modules; "
        "gpulayout.Shape('f32', (2, 3)).draw(); print(before, 'gpulayout.pictures' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, cwd=PACKAGE.parent
    )
    assert done.stdout.split() == ["False", "True"]


def test_using_the_library_on_numpy_arrays_loads_nothing_else():
    statement = (
        "import numpy, gpulayout; gpulayout.relayout(numpy.zeros(6, 'f4'), 'f32[2,3]', 'f32[2,3]{0,1}'); "
        "gpulayout.linearize(numpy.zeros((2, 4), int), 'f32[2,3]'); gpulayout.plan('f32[2,3]', 'f32[2,3]').explain(); "
        "gpulayout.interop.from_torch_memory_format('channels_last', 4); gpulayout.interop.to_cute('f32[2,3]')"
    )
    assert not loaded_by(statement) & {"cupy", "cupyx", "click", "rich", "torch", "jax", "zarr"}


def test_the_translators_are_loaded_on_first_use():
    for statement in ("gpulayout.interop.to_cute('f32[2]')", "from gpulayout import interop"):
        script = (
            f"import sys, gpulayout; print('gpulayout.interop' in sys.modules); {statement}; print(gpulayout.interop)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, text=True, cwd=PACKAGE.parent
        )
        assert done.stdout.startswith("False\n<module 'gpulayout.interop'")


def test_every_public_name_is_listed_and_exists():
    names = [node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in names for alias in node.names}
    late = {"Exchange", "Message", "Sharding", "catalogue", "exchange", "interop", "relayout_file"}
    imported = {name for name in imported if not name.startswith("_")} | {"__version__", *late}
    assert set(gpulayout.__all__) == imported and sorted(gpulayout.__all__) == list(gpulayout.__all__)
    assert all(hasattr(gpulayout, name) for name in gpulayout.__all__)
