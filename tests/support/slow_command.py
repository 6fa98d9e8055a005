"""The command, slowed down so that a signal finds it at work on a model."""

import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SLOW = """
import sys, time
import gpulayout.cli.main as command
from gpulayout.files import elements
from gpulayout.files.checkpoints import model_move

read, copy, commands = elements._read, model_move._copy, command.commands

def slow(function):
    def call(*given):
        time.sleep(0.02)
        return function(*given)
    return call

def begin(**options):                        # by now signals have their handlers
    print("begins", flush=True)
    commands(**options)

elements._read, model_move._copy, command.commands = slow(read), slow(copy), begin
command.main()
"""
