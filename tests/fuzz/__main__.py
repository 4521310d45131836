"""The long form: `python -m tests.fuzz --cases 100000`; one case: `--kind frames --only 7`.

Prints what each kind came to, and every finding once with the case that shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections import Counter

from .kinds import KINDS
from .trial import Finding, judge, seeded

LARGEST = 6 * 2**30  # bytes of memory, where it can be limited


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--cases", type=int, default=100_000, help="in all; kinds share them")
    asked.add_argument("--start", type=int, default=0, help="number of the first case of each kind")
    asked.add_argument("--kind", choices=list(KINDS), help="only this kind")
    asked.add_argument("--only", type=int, help="one case of --kind, with its traceback")
    given = asked.parse_args()
    _limit_memory()
    if given.only is not None:
        print(judge(KINDS[given.kind or "graphs"][0], seeded(given.kind or "graphs", given.only)))
        return 0
    chosen = [given.kind] if given.kind else list(KINDS)
    whole = sum(KINDS[kind][1] for kind in chosen)
    findings = 0
    for kind in chosen:
        count = max(1, round(given.cases * KINDS[kind][1] / whole))
        findings += _run(kind, given.start, count)
    print(f"{findings} finding(s)")
    return 1 if findings else 0


def _run(kind: str, start: int, count: int) -> int:
    case, began = KINDS[kind][0], time.process_time()
    came, found, first = Counter[str](), Counter[str](), dict[str, int]()
    for number in range(start, start + count):
        try:
            came[judge(case, seeded(kind, number))] += 1
        except Finding as finding:
            what = str(finding).split(": ")[0]
            found[what] += 1
            if first.setdefault(what, number) == number:
                print(f"  {kind} {number}: {finding}", flush=True)
        except Exception:
            print(f"  {kind} {number}: the fuzzer itself failed", flush=True)
            traceback.print_exc()
            found["fuzzer"] += 1
    seconds = time.process_time() - began
    shown = ", ".join(f"{name} {n:,}" for name, n in came.most_common())
    print(f"{kind}: {count:,} cases, {seconds / count * 1e3:.1f} ms each; {shown}")
    for what, n in found.most_common():
        print(f"  {n:,} × {what} (first: --kind {kind} --only {first.get(what)})")
    sys.stdout.flush()
    return sum(found.values())


def _limit_memory() -> None:
    """An allocation beyond reason fails like any other error, and is a finding."""
    with contextlib.suppress(ImportError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (LARGEST, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    sys.exit(main())
