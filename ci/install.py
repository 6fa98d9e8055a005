"""Does what `pip install ARGUMENT ...` does, by uv where that can be had: it takes a third of pip's time.

    python ci/install.py ARGUMENT ...      installs into the environment of this python

pip does it where uv cannot be downloaded or fails, and where pip's configuration has a setting that uv is not told of.
"""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PIN = "uv==0.13.9"
# pip's settings that uv has under another name; others say how to install, not what.
OPTIONS = {
    "constraint": "--constraint",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "index-url": "--default-index",
}
WITHOUT_EFFECT = (
    "break-system-packages",
    "cache-dir",
    "cert",
    "default-timeout",
    "disable-pip-version-check",
    "no-cache-dir",
    "no-color",
    "no-compile",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "retries",
    "root-user-action",
    "timeout",
    "user",
)


def main(arguments: list[str]) -> int:
    """The exit status of uv, or that of pip."""
    settings = pip_settings()
    if set(settings) <= {*OPTIONS, *WITHOUT_EFFECT} and (uv := found_uv()):
        done = subprocess.run([uv, *uv_arguments(settings), *arguments], env=uv_environment(settings))
        if done.returncode == 0:
            return 0
    patience = ("--no-compile", "--retries", "1", "--timeout", "20")
    return subprocess.run([*PIP, "install", *patience, *arguments]).returncode


def pip_settings() -> dict[str, str]:
    """Name and value of what pip is told by its files and its environment, which comes last and wins."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True).stdout.splitlines()
    lines = sorted(listed, key=lambda line: line.startswith(":env:"))
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {name.split(".", 1)[1]: str(ast.literal_eval(value)) for name, value in pairs}


def found_uv() -> str:
    """The path of uv, installed for this if need be; empty if it cannot be had."""
    path = pathlib.Path(sys.executable).with_name("uv")
    if not path.exists():
        quick = ("--quiet", "--no-deps", "--no-compile", "--retries", "1", "--timeout", "20")
        subprocess.run([*PIP, "install", *quick, PIN], capture_output=True)
    return str(path) if path.exists() else ""


def uv_arguments(settings: dict[str, str]) -> list[str]:
    told = [
        part for name, option in OPTIONS.items() for value in settings.get(name, "").split() for part in (option, value)
    ]
    # as pip does: the best version of all indexes, and no bytecode of what is never imported
    return ["pip", "install", "--python", sys.executable, "--index-strategy", "unsafe-best-match", *told]


def uv_environment(settings: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **({"SSL_CERT_FILE": settings["cert"]} if "cert" in settings else {})}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
