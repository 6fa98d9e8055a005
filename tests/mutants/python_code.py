"""Python mutants: where cosmic-ray finds something to change, and which tests should notice."""

import ast
import fnmatch
import random

from tests.mutants import trial
from tests.mutants.python_equivalents import EQUIVALENTS
from tests.mutants.python_tests import TESTS

LIMIT = 400  # seconds: what takes longer hangs
NO_EXAMPLES = ("gpulayout/gpu/cupy_runtime.py",)  # pytest cannot import it without CuPy
FEW = 5  # files of the first run: to collect more takes longer than to run them
LEFT_OUT = ("gpulayout/cli/*", "gpulayout/cpu/threads.py", "*/__init__.py", "*/__main__.py")


def modules():
    """The modules to change, from the root of the tree."""
    paths = sorted(str(path.relative_to(trial.ROOT)) for path in (trial.ROOT / "gpulayout").rglob("*.py"))
    return [
        path
        for path in paths
        if "/" in path.removeprefix("gpulayout/") and not any(fnmatch.fnmatch(path, left) for left in LEFT_OUT)
    ]


def runs(module):
    """The arguments of two runs of pytest for a module: its own examples and a few files, then the rest of its line of
    the table.
    """
    options, tests = next(rest for pattern, *rest in TESTS if fnmatch.fnmatch(module, f"gpulayout/{pattern}"))
    own = (module,) if module not in NO_EXAMPLES else ()
    found = ((*options, *own, *tests[:FEW]), (*options, *tests[FEW:]))
    return found if tests[FEW:] else found[:1]


def positions(module):
    """{(line, column): [(name of an operator, number of the occurrence)]} of all that can be changed in a module."""
    from cosmic_ray import ast as syntax
    from cosmic_ray import plugins

    found, tree = {}, syntax.get_ast_from_path(trial.ROOT / module)
    for name in sorted(plugins.operator_names()):
        operator = plugins.get_operator(name)
        # variables of our choice anywhere; which small ints are one object
        if operator.arguments() or name.endswith(("_Is", "_IsNot")):
            continue
        places = (place for node in syntax.ast_nodes(tree) for place in operator().mutation_positions(node))
        for occurrence, (start, _) in enumerate(places):
            found.setdefault(start, []).append((name, occurrence))
    return found


def sample(seed, only=""):
    """Changes in random order, one for each position.  `only` is a part of their names: a module, or a module and a
    line.
    """
    rng = random.Random(seed)
    chosen = [module for module in modules() if only.split(":")[0] in module]
    places = [(module, place, found) for module in chosen for place, found in sorted(positions(module).items())]
    for module, (line, _), found in rng.sample(places, len(places)):
        operator, occurrence = rng.choice(found)
        name = f"{module}:{line} {operator.removeprefix('core/')} {occurrence}"
        if only in name:
            change = _change(name, module, operator, occurrence)
            if change is not None:
                yield change


def _change(name, module, operator, occurrence):
    """The Change, or None when it is no mutant: a change of annotations alone, a cache less, or text that is no
    Python.
    """
    from cosmic_ray import mutating, plugins

    before = (trial.ROOT / module).read_text(encoding="utf-8")
    text = mutating.mutate_code(before, plugins.get_operator(operator)(), occurrence)
    try:
        if text is None or meaning(text) == meaning(before):
            return None
    except SyntaxError:
        return None
    old, new = _changed_line(before, text)
    return trial.Change(
        name, module, text, runs(module), f"{old}\n  became  {new}", LIMIT, EQUIVALENTS.get((module, old, new), "")
    )


def _changed_line(before, after):
    """The first line that differs, before and after."""
    return next((old.strip(), new.strip()) for old, new in zip(before.splitlines(), after.splitlines()) if old != new)


def meaning(text):
    """The syntax tree without annotations, which nothing evaluates, and without caches, which change no answer."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = [
                each
                for each in node.decorator_list
                if "cache" not in ast.unparse(each) or "cached_property" in ast.unparse(each)
            ]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)
