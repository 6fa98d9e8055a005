"""Records many random calls of the public front, and replays them: the proof that a change of the code changes nothing.

    python -m tests.support.recorded_calls record FILE [--count 20000] [--seed 1]
    python -m tests.support.recorded_calls replay FILE [--only VERB] [--limit N] [--show 20]

The first line of a file has the count and the seed; every other line is a call and what was seen of it, as
`observed_calls` says.  `replay` draws the same calls, runs them with the present code, and exits with 1 if anything
differs.  A name that ends in .gz is compressed.  A recording belongs to one machine and its versions of libraries.
"""

import argparse
import collections
import gzip
import json
import sys
import time

from tests.support import observed_calls, random_calls


def opened(name, mode):
    """A file of text, compressed if its name says so."""
    return gzip.open(name, f"{mode}t") if str(name).endswith(".gz") else open(name, mode)


def observation(seed, number):
    """The line of a call."""
    call = random_calls.drawn(seed, number)
    line = {"number": number, "verb": call.verb, "call": call.text}
    return line | observed_calls.observed(seed, number, call)


def record(name, count=20000, seed=1):
    """Write a recording; returns how many calls of each verb there are, and how many of them raise."""
    verbs, errors = collections.Counter(), collections.Counter()
    with opened(name, "w") as file, observed_calls.quiet():
        file.write(json.dumps({"seed": seed, "count": count}) + "\n")
        for number in range(count):
            line = observation(seed, number)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            verbs[line["verb"]] += 1
            errors[line["verb"]] += "error" in line
    return verbs, errors


def replay(name, only=None, limit=None):
    """(calls that were run, (line, field, recorded, now) of all differences)."""
    ran, found = 0, []
    with opened(name, "r") as file, observed_calls.quiet():
        seed = json.loads(next(file))["seed"]
        for text in file:
            line = json.loads(text)
            if only and line["verb"] != only:
                continue
            if limit is not None and ran >= limit:
                break
            now = json.loads(json.dumps(observation(seed, line["number"])))
            names = sorted({*line, *now})
            found += [(line, each, line.get(each), now.get(each)) for each in names if line.get(each) != now.get(each)]
            ran += 1
    return ran, found


def report(ran, found, show=20):
    """The differences as text: how many in each verb and field, then the first ones in full."""
    calls = len({line["number"] for line, *_ in found})
    lines = [f"{ran - calls} of {ran} calls are equal, {calls} differ"]
    table = collections.Counter((line["verb"], field) for line, field, _, _ in found)
    lines += [f"  {verb:10} {field:10} {count:6}" for (verb, field), count in sorted(table.items())]
    for line, field, recorded, now in found[:show]:
        lines += [
            "",
            f"{line['number']}: {line['call']}",
            f"  {field}",
            f"    recorded  {recorded}",
            f"    now       {now}",
        ]
    return "\n".join(lines)


def main(arguments=None):
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "replay"))
    parser.add_argument("file")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="VERB")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--show", type=int, default=20)
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    if given.action == "replay":
        ran, found = replay(given.file, given.only, given.limit)
        print(report(ran, found, given.show))
        print(f"{time.perf_counter() - start:.0f} seconds")
        return 1 if found else 0
    verbs, errors = record(given.file, given.count, given.seed)
    for verb, count in verbs.most_common():
        print(f"{verb:10} {count:6} calls, {errors[verb] / count:5.1%} raise")
    took = time.perf_counter() - start
    print(f"{given.count} calls, {sum(errors.values()) / max(given.count, 1):.1%} raise, {took:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
