"""The examples of the README and of the pages in docs/ print what the pages show."""

import doctest
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.support.command_line import run as run_command

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
COMMANDS = [
    (name, *found)
    for name, text in PAGES.items()
    for found in re.findall(r"^    \$ gpulayout (.+)\n((?:    .*\n|\n(?=    ))+)", text, flags=re.MULTILINE)
]
# Sections, and the libraries that their examples import.
PAGES_NEED = {
    "dask.md": ("dask", "zarr", "h5py"),
    "models.md": ("torch", "jax"),
    "arrays.md": ("torch", "jax"),
    "reload-weights.md": ("torch", "safetensors"),
}
NEEDS = {"Protos": "google.protobuf", "PyTorch": "torch", "JAX": "jax"}


def installed(module):
    """True when a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package it is in
        return False


def examples(name):
    """The text of a page, without the sections whose library is not installed."""
    text = PAGES[name]
    for section, module in NEEDS.items():
        if not installed(module):
            text = re.sub(rf"^## {section}\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def run(text, name="page"):
    """(number of examples, what doctest says of those that fail) of a text."""
    test, told = doctest.DocTestParser().get_doctest(text, {}, name, name, 0), []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = runner.run(test, out=told.append, clear_globs=False)
    if "torch._dynamo" in sys.modules:  # it watches the names of compiled functions
        sys.modules["torch._dynamo"].reset()
    return found.attempted, "".join(told)


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if ">>>" in text])
def test_the_python_examples_run(name):
    if missing := [module for module in PAGES_NEED.get(name, ()) if not installed(module)]:
        pytest.skip(f"{', '.join(missing)} not installed")
    attempted, failures = run(examples(name), name)
    assert failures == "" and attempted >= 5


def test_there_are_examples_and_a_wrong_one_fails():
    assert sum(text.count(">>>") for text in PAGES.values()) > 60
    attempted, failures = run(">>> 1 + 1\n3\n")
    assert attempted == 1 and "Expected:\n    3\nGot:\n    2" in failures


@pytest.mark.parametrize(
    "page, command, shown", COMMANDS, ids=[f"{page}-{command.split()[0]}" for page, command, _ in COMMANDS]
)
def test_the_command_lines_print_what_is_shown(page, command, shown, monkeypatch):
    monkeypatch.chdir(ROOT)
    is_plain = not re.search("[|<>;&$`*]", re.sub("'[^']*'", "", command))
    stdout = run_command(*shlex.split(command)).stdout if is_plain else in_a_shell(command)
    printed = [without_machine(line.rstrip()) for line in stdout.rstrip("\n").split("\n")]
    assert printed == [without_machine(line[4:].rstrip()) for line in shown.rstrip("\n").split("\n")]


def in_a_shell(command: str) -> str:
    """What a line with pipes prints."""
    line = f'gpulayout() {{ "$PYTHON" -m gpulayout "$@"; }}; gpulayout {command}'
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def without_machine(line: str) -> str:
    """A line without what depends on the machine: the engine of its CPU, and the engine's plan for its caches."""
    return re.sub(r"^(  (?:engine|cpu)  ).*", r"\1", line)


def test_the_pages_show_commands_and_name_files_that_exist():
    assert len(COMMANDS) >= 5
    for name in [
        name
        for text in PAGES.values()
        for name in re.findall(r"`((?:ci|benchmarks|kernels|docs|tests)/[\w./-]+)`", text)
    ]:
        assert (ROOT / name).exists() or "NAME" in name, name
    for name, text in PAGES.items():
        for link in re.findall(r"\]\(([\w./-]+\.md)\)", text):
            assert ((ROOT / name if name == "README.md" else ROOT / "docs" / name).parent / link).is_file(), (
                name,
                link,
            )


def anchors(text):
    """The anchors of a page's headings, as forges and the site make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_into_a_page_name_a_heading_of_it():
    links = [
        (name, page or name, anchor)
        for name, text in PAGES.items()
        for page, anchor in re.findall(r"\]\((?:docs/)?([\w.-]*)#([\w-]+)\)", text)
    ]
    assert len(links) >= 3
    assert [link for link in links if link[2] not in anchors(PAGES[link[1]])] == []


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 140
