"""The command `gpulayout`: its subcommands, its exit codes and its standard streams.

Exit codes: 0 done; 1 failed, with one line on stderr that says why; 2 wrong usage, for example a SHAPE that cannot be
read; 128 + the number of a signal that ended it, see `failures`.
"""

from __future__ import annotations

import io
import os
import sys

import click

from gpulayout.cli.backends import info
from gpulayout.cli.benchmark import benchmark
from gpulayout.cli.catalogue import catalogue
from gpulayout.cli.demo import demo
from gpulayout.cli.explain import explain
from gpulayout.cli.failures import Failure, Stopped, failures_in_one_line, stop_on_signals
from gpulayout.cli.indexing import index
from gpulayout.cli.recipes import recipes
from gpulayout.cli.relayout import pack, relayout, unpack
from gpulayout.cli.show import show
from gpulayout.version import __version__


class CommandGroup(click.Group):
    """A group whose commands fail with one line instead of a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        with failures_in_one_line():
            return super().invoke(ctx)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def commands() -> None:
    """Show array layouts, convert indices, and move files from one layout to another: arrays in .npy files or plain
    bytes, and models in .safetensors files.

    \b
    A SHAPE is XLA's text for an element type, dimensions and a layout:
      f32[2,3]                         row-major: the last index varies fastest
      f32[2,3]{0,1}                    column-major: dimensions minor to major
      f32[2,3]{0,1:PD(3,5)}            dimensions padded in memory to 3 and 5
      f32[2,3]{0,1:PD(3,5)PV(lowest)}  also a pad value: a name or a number
      bf16[16,256]{1,0:T(8,128)(2,1)}  tiles of 8 x 128, cut into tiles of 2 x 1
      s4[2,3]{1,0:E(4)}                elements of 4 bits, two in a byte
      cublas:block_scales[200,10]      a kernel's layout by name: gpulayout catalogue lists them
    Quote it: the shell interprets braces and brackets.

    \b
    Examples:
      gpulayout demo
      gpulayout show 'f32[2,3]{0,1:PD(3,5)}'
      gpulayout relayout flax.safetensors torch.safetensors --map flax-to-torch
      gpulayout relayout a.safetensors b.safetensors --tensor '.*kernel=i o -> o i'
      gpulayout relayout Llama-GPTQ Llama-Marlin --recipe gptq-to-marlin
    """


for _command in (demo, show, index, pack, unpack, relayout, explain, catalogue, recipes, info, benchmark):
    commands.add_command(_command)


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    stop_on_signals()
    take_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file name need not fit the terminal's encoding
    try:
        try:
            commands(prog_name="gpulayout")
        except Stopped as stopped:
            stopped.show()
            raise
        finally:
            sys.stdout.flush()
    except OSError as error:  # of standard output: commands report those of other files themselves
        if not (isinstance(error.__context__, SystemExit) and error.__context__.code):  # else it was reported already
            click.echo(f"gpulayout: error: standard output: {error.strerror}", err=True)
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that is closed: what a command prints fails, instead of being lost."""

    closed = True

    def write(self, text: str) -> int:
        raise Failure("standard output is closed")

    def flush(self) -> None:
        """Nothing waits to be written."""

    def isatty(self) -> bool:
        return False


def take_closed_streams() -> None:
    """Take the free ones of descriptors 0, 1 and 2, which the caller has closed, as `>&-` does in a shell.

    The next files that open would get them: whatever prints to standard output or error, also from C, would print into
    those files.  Printing fails if standard output is closed, and messages are lost if standard error is.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # click would print usage errors to standard output
