"""The command: python -m tests.mutants --help."""

import argparse
import collections
import itertools
import sys

from tests.mutants import kernels, native, python_code, trial

NO_MUTANT = "no mutant has such a name"


def arguments(words):
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Puts small faults into the code and shows which tests notice."
    )
    parser.add_argument("--minutes", type=float, default=60, help="begin nothing after so long (default 60)")
    parser.add_argument(
        "--python", action="store_true", help="a random sample of Python mutants instead of the kernels' table"
    )
    parser.add_argument("--native", action="store_true", help="the native engine's table instead of the kernels'")
    parser.add_argument("--seed", type=int, default=1, help="which sample of Python mutants (default 1)")
    parser.add_argument("--most", type=int, help="no more mutants than this")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="mutants whose name contains TEXT; names begin with a file"
    )
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--workers", type=int, default=2, help="mutants that are tried at a time (default 2)")
    return parser.parse_args(words)


def row(outcome):
    """A mutant, its outcome, and the reason or the test."""
    change, verdict = outcome.change, outcome.verdict
    if verdict == trial.EQUIVALENT:
        verdict += f": {change.equivalent}"
    elif outcome.by:
        verdict += f" by {outcome.by}"
    shown = f"\n          {change.shown}" if outcome.verdict in trial.FAILURES else ""
    return f"{outcome.seconds:6.1f} s  {change.name}: {verdict}{shown}"


def chosen(given):
    """The mutants that were asked for, and what tries them."""
    if given.native:
        return native.changes(given.only), native.outcomes
    changes = python_code.sample(given.seed, given.only) if given.python else list(kernels.changes(given.only))
    return changes, trial.outcomes


def main(words=None):
    """The exit status: 1 when a mutant survived or contradicts the table, or when no name matches."""
    given = arguments(words)
    changes, try_all = chosen(given)
    if given.most is not None:
        changes = list(itertools.islice(changes, given.most))
    if given.list:
        names = [change.name for change in changes]
        print("\n".join(names) or NO_MUTANT)
        return 0 if names else 1
    found = []
    for outcome in try_all(changes, given.minutes, given.workers):
        found.append(outcome)
        print(f"{len(found)}  {row(outcome)}", file=sys.stderr, flush=True)
    for outcome in sorted(found, key=lambda outcome: outcome.change.name):
        print(row(outcome))
    counts = collections.Counter(outcome.verdict for outcome in found)
    if isinstance(changes, list) and len(found) < len(changes):
        counts["not tried: the time is over"] = len(changes) - len(found)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or NO_MUTANT)
    return 1 if not found or any(outcome.verdict in trial.FAILURES for outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
