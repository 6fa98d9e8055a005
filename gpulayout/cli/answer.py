"""How a command that moves a file answers: what it prints, and whether it writes at all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import click

from gpulayout.cli.progress import LongWork, shown_progress
from gpulayout.files.standard_streams import File, check_standard_output_open


@dataclass(frozen=True)
class Answer:
    """The options of a command that are about its answer.

    dry_run   check and explain, and write nothing
    """

    dry_run: bool
    quiet: bool
    as_json: bool

    def check(self, target: File) -> None:
        """A usage error for options that exclude each other; `FileError` where the answer cannot be printed."""
        if self.quiet and self.as_json:
            raise click.UsageError("give either --quiet or --json")
        if isinstance(target, Path) and (self.as_json or self.dry_run) and not self.quiet:
            check_standard_output_open()  # before anything is done

    def progress(self) -> AbstractContextManager[LongWork]:
        """What to call while the work goes on."""
        return shown_progress(quiet=self.quiet, as_json=self.as_json)
