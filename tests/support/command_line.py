"""The command line inside a test: commands run in this process, and how they fail."""

import os
import threading
from typing import IO

from click.testing import CliRunner, Result

from gpulayout.cli.main import commands

PADDED = "f32[2,3]{0,1:PD(3,5)}"
HOSTILE = [
    "",
    " ",
    "\0",
    "f32",
    "f32[",
    "f32[2,3]{0,0}",
    "f32[2,3]{0,1:PD(1,5)}",
    "f32[-1]",
    "f32[9223372036854775808]",
    "f32[" + "9" * 50000 + "]",
    "f32[" + "9," * 30000 + "9]",
    "[" * 60000,
    "f32[2,3]{0,1:PV(" + "1" * 60000 + ")}",
    "x" * 70000,
    "ｆ３２[2]",
    "f32[２]",
    "f32[2]\u202e",
    "\udcff",
    "f32[2,3]{0,1:T(8,128}",
    "f32[2,3]\x1b[31m",
    "f32[2,3]{0,1:PD(3,5)PV(\n)}",
    "object[2]",
    "s3[2]",
    "(f32[2], f32[3])",
]


def run(*args: str, code: int = 0, stdin: IO[bytes] | None = None) -> Result:
    """Run a command that must exit with `code`; an open file may be its standard input."""
    result = CliRunner().invoke(commands, list(map(str, args)), input=stdin, prog_name="gpulayout")
    assert result.exit_code == code, result.output
    return result


def run_piped(*args: str, data: bytes, code: int = 0) -> Result:
    """Run a command whose standard input is a pipe of the system with these bytes, all of which it must read."""
    end, begin = os.pipe()
    failed: list[OSError] = []

    def write() -> None:
        try:
            with open(begin, "wb") as stream:
                stream.write(data)
        except OSError as error:  # nobody reads the rest
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with open(end, "rb") as stdin:
            return run(*args, code=code, stdin=stdin)
    finally:
        writer.join()
        assert not failed, failed


def refusal(*args: str) -> str:
    """The message of a wrong command: one line on stderr after the usage, nothing on stdout."""
    result = run(*args, code=2)
    usage, message = result.stderr.split("\nError: ")
    assert result.stdout == "" and usage.startswith("Usage: gpulayout ") and message.count("\n") == 1
    return message.rstrip("\n")


def failure(*args: str) -> str:
    """The message of a job that fails: one line on stderr, nothing on stdout."""
    result = run(*args, code=1)
    assert result.stdout == "" and result.stderr.startswith("gpulayout: error: ") and result.stderr.count("\n") == 1
    return result.stderr.removeprefix("gpulayout: error: ").rstrip("\n")
