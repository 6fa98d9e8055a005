"""`gpulayout info`: versions, devices, and which backend and engine run and why."""

from __future__ import annotations

import click

from gpulayout.api.backends import show_config
from gpulayout.cli.backends import chosen_backend
from gpulayout.cli.output import json_option, print_json


@click.command(short_help="Show versions, devices, and which backend and engine run and why.")
@json_option
def info(as_json: bool) -> None:
    """Show versions, devices, which backend runs and which engine on the CPU, and why.

    \b
    Examples:
      gpulayout info
      gpulayout info --json
      GPULAYOUT_BACKEND=numpy gpulayout info
      GPULAYOUT_NATIVE=0 gpulayout info
    """
    chosen_backend()
    if as_json:
        print_json(show_config("dicts"))
    else:
        show_config()
