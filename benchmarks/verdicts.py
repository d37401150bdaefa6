"""Do the verdicts of all commands keep what they promise? Replayed on simulated data, whose truth is known.

    .venv/bin/python benchmarks/verdicts.py [--only run,compare] [--repetitions 200] [--markdown docs/verdicts.md]

verdicts_speed.py, verdicts_serving.py and verdicts_validity.py say what is promised and how it is replayed, with the
project's own functions. Each promise is replayed 10,000 times, or 1,000 times if a repetition contains a bootstrap.

The claims: no promise is contradicted, which means that the 99.9 % Clopper-Pearson bound of its share lies on the wrong
side of what is promised; and each 95 % interval that covers more than 97.5 %, by the same bound, has its width beside
the ideal one, and a reason. Nothing is measured, so the machine need not be quiet. docs/verdicts.md has the case
of each promise that came nearest to contradicting it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from common import parser_of, some_of, table
from promises import Counted, Promise, Replayed
from threadpoolctl import threadpool_limits

from modelzoo.document import Column
from modelzoo.document.written import markdown_table
from modelzoo.files import write_atomically

MODULES = ("verdicts_speed", "verdicts_serving", "verdicts_validity")
"""Modules beside this one with a tuple ``PROMISES``."""
BEGIN = "<!-- begin: benchmarks/verdicts.py --markdown writes what follows -->"
END = "<!-- end -->"
HEADER = ("command", "simulated case", "event", "promised", "seen [99.9 % bounds]", "repetitions", "width ÷ ideal")
Place = tuple[str, int]
"""The module of a promise and its position there. Promises hold functions, which need not survive pickling."""


def promise_at(place: Place) -> Promise:
    """Return a promise."""
    found: Promise = import_module(place[0]).PROMISES[place[1]]
    return found


def places(modules: Sequence[str], only: Sequence[str] = ()) -> list[Place]:
    """Return where the promises of some commands are, those of all commands by default."""
    every = [(module, index) for module in modules for index in range(len(import_module(module).PROMISES))]
    return [place for place in every if not only or promise_at(place).command in only]


def generator(promise: Promise, seed: int) -> np.random.Generator:
    """Return the promise's own random numbers: they depend on the seed and its text, not on other promises."""
    words = np.frombuffer(hashlib.sha256(promise.text.encode()).digest(), dtype=">u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(map(int, words))))


def count(seed: int, repetitions: int | None, place: Place) -> Counted:
    """Replay one promise; runs in a process of the pool."""
    promise = promise_at(place)
    with threadpool_limits(1):
        return promise.replay(generator(promise, seed), repetitions or promise.repetitions)


def replay(requested: Sequence[Place], seed: int, repetitions: int | None, processes: int) -> Iterator[Replayed]:
    """Replay promises in a pool of processes; the results come in the order of ``requested``."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for place, counted in zip(requested, pool.map(partial(count, seed, repetitions), requested)):
            yield Replayed(promise_at(place), counted)


def _promised(promise: Promise) -> str:
    return f"{'≥' if promise.is_least else '≤'} {100 * promise.promised:.4g} %"


def _seen(found: Replayed) -> str:
    low, high = found.interval
    return f"{100 * found.share:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def row(found: Replayed) -> tuple[str, ...]:
    """Return a replayed promise as a row of the printed table."""
    promise, counted = found.promise, found.counted
    return (
        *(promise.command, promise.case, promise.event, _promised(promise), _seen(found), f"{counted.trials:,}"),
        "" if counted.width is None else f"{counted.width:.2f}",
        promise.why if found.is_wide else "",
        found.problem or "yes",
    )


def worst_columns(found: Sequence[Replayed]) -> list[Column]:
    """Return the table of the page: of each promise of a command, the case that is nearest to contradicting it."""
    kinds: dict[tuple[str, str], list[Replayed]] = {}
    for each in found:
        kinds.setdefault((each.promise.command, f"{each.promise.event}: {_promised(each.promise)}"), []).append(each)
    worst = [
        min(cases, key=lambda each: each.share if each.promise.is_least else -each.share) for cases in kinds.values()
    ]
    hold = (f"{sum(not each.problem for each in cases)} of {len(cases)}" for cases in kinds.values())
    return [
        Column("command", tuple(command for command, _ in kinds)),
        Column("promise", tuple(promised for _, promised in kinds)),
        Column("worst case", tuple(each.promise.case for each in worst)),
        Column("seen there [99.9 % bounds]", tuple(map(_seen, worst)), True),
        Column("cases that hold", tuple(hold), True),
    ]


def rewrite(page: str, found: Sequence[Replayed], options: str) -> str:
    """Return the page with the table between its markers, and how it was made."""
    head, _, rest = page.partition(BEGIN)
    narrow = re.sub(r"-{3,}", "---", re.sub(r" {2,}", " ", markdown_table(worst_columns(found))))
    said = f"{len(found)} promises, replayed with `{options}`:"
    return f"{head}{BEGIN}\n\n{said}\n\n{narrow}\n{END}{rest.partition(END)[2]}"


def main(argv: Sequence[str] | None = None, modules: Sequence[str] = MODULES) -> int:
    """Replay the promises and print them; the exit code is 1 if one does not hold."""
    commands = sorted({promise_at(place).command for place in places(modules)})
    parser = parser_of(__doc__)
    parser.add_argument("--only", type=some_of(commands), default=(), metavar="COMMAND", help="some: run,compare")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of every promise (default: its own)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2, help="that replay at the same time")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="rewrite the table between FILE's markers")
    args = parser.parse_args(argv)
    page = "" if args.markdown is None else args.markdown.read_text(encoding="utf-8")
    if page and args.only:
        parser.error("--markdown writes the whole table; leave out --only")
    if page and END not in page.partition(BEGIN)[2]:
        parser.error(f"the page lacks the lines '{BEGIN}' and '{END}', between which the table belongs")
    requested, found = places(modules, args.only), list[Replayed]()
    for each in replay(requested, args.seed, args.repetitions, args.processes):
        found.append(each)
        said = f"{len(found)} of {len(requested)}: {each.promise.text}: {each.problem or 'yes'}"
        print(said, file=sys.stderr, flush=True)
    if page:
        options = f"--seed {args.seed}" + (f" --repetitions {args.repetitions}" if args.repetitions else "")
        write_atomically(args.markdown, rewrite(page, found, options))
    print(table((*HEADER, "note", "holds"), list(map(row, found))))
    broken = [each for each in found if each.problem]
    print(f"\n{len(found) - len(broken)} of {len(found)} promises hold")
    for each in broken:
        print(f"{each.problem}: {each.promise.text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
