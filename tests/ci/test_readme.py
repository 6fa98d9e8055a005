"""The README's examples give what the README says."""
import doctest
import pathlib
import re
import subprocess
import sys

import pytest

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    \$ gpulayout (.+)\n((?:    .*\n|\n(?=    ))+)", TEXT, flags=re.MULTILINE)


def examples():
    """The README's text, without the section of protos where protobuf is not installed."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        return re.sub(r"^### Protos\n.*?(?=^### )", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    return TEXT


def test_the_python_examples_run():
    test = doctest.DocTestParser().get_doctest(examples(), {}, README.name, str(README), 0)
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert found.attempted > 50 and not found.failed


@pytest.mark.parametrize("command, shown", COMMANDS, ids=[command.split()[0] for command, _ in COMMANDS])
def test_the_command_lines_print_what_is_shown(command, shown):
    arguments = [part.strip("'") for part in command.split()]
    done = subprocess.run([sys.executable, "-m", "gpulayout", *arguments], capture_output=True, text=True, check=True,
                          cwd=README.parent)
    printed = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]
    assert printed == [line[4:].rstrip() for line in shown.rstrip("\n").split("\n")]


def test_the_readme_shows_commands_and_names_files_that_exist():
    assert len(COMMANDS) >= 2
    for name in re.findall(r"`((?:ci|benchmarks|kernels|docs)/[\w./-]+)`", TEXT) + ["ci/demo", "ci/test"]:
        assert (README.parent / name).exists(), name
