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

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from claims import some_of, table
from promises import Bound, Counted, Promise, Replayed
from threadpoolctl import threadpool_limits

from modelzoo.document import Column
from modelzoo.document.markdown import table as markdown
from modelzoo.files import write_atomically

MODULES = ("verdicts_speed", "verdicts_serving", "verdicts_validity")
"""Modules beside this one with a tuple ``PROMISES``."""
BEGIN = "<!-- begin: benchmarks/verdicts.py --markdown writes what follows -->"
END = "<!-- end -->"


class VerdictsError(Exception):
    """The promises cannot be replayed as asked; one line says why."""


@dataclass(frozen=True)
class Task:
    """A promise as a process of the pool finds it: promises hold functions, which need not survive pickling.

    Attributes:
        module: name of the module.
        index: position in its ``PROMISES``.
        seed: of the whole call.
        repetitions: in place of the promise's own, if given.
    """

    module: str
    index: int
    seed: int
    repetitions: int | None

    @property
    def promise(self) -> Promise:
        """The promise itself."""
        return promises_of(self.module)[self.index]


@cache
def promises_of(module: str) -> tuple[Promise, ...]:
    """Return the promises of a module.

    Raises:
        VerdictsError: there is no such module, or it has none.
    """
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise VerdictsError(f"benchmarks/{module}.py is missing; it declares PROMISES") from error
    promises: tuple[Promise, ...] | None = getattr(found, "PROMISES", None)
    if not promises:
        raise VerdictsError(f"benchmarks/{module}.py declares no PROMISES")
    return promises


def text_of(promise: Promise) -> str:
    """What identifies a promise."""
    return f"{promise.command}: {promise.case}: {promise.event}"


def generator(promise: Promise, seed: int) -> np.random.Generator:
    """Return the promise's own random numbers: they depend on the seed and its text, not on other promises."""
    words = np.frombuffer(hashlib.sha256(text_of(promise).encode()).digest(), dtype=">u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(map(int, words))))


def tasks(modules: Sequence[str], seed: int, repetitions: int | None) -> list[Task]:
    """Return the promises of all modules.

    Raises:
        VerdictsError: a module is missing, or two promises have the same text and therefore the same random numbers.
    """
    found = [Task(module, index, seed, repetitions) for module in modules for index in range(len(promises_of(module)))]
    texts = [text_of(task.promise) for task in found]
    if repeated := sorted({text for text in texts if texts.count(text) > 1}):
        raise VerdictsError(f"promised twice: {repeated[0]}")
    return found


def count(task: Task) -> Counted:
    """Replay one promise; runs in a process of the pool."""
    promise = task.promise
    with threadpool_limits(1):
        return promise.replay(generator(promise, task.seed), task.repetitions or promise.repetitions)


def replay(requested: Sequence[Task], processes: int) -> Iterator[Replayed]:
    """Replay promises in a pool of processes; the results come in the order of ``requested``."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for task, counted in zip(requested, pool.map(count, requested)):
            yield Replayed(task.promise, counted)


def columns(found: Sequence[Replayed]) -> list[Column]:
    """Return the table of replayed promises."""

    def column(title: str, cells: Iterator[str], is_number: bool = False) -> Column:
        return Column(title, tuple(cells), is_number)

    return [
        column("command", (each.promise.command for each in found)),
        column("simulated case", (each.promise.case for each in found)),
        column("event", (each.promise.event for each in found)),
        column("promised", (_promised(each.promise) for each in found), True),
        column("seen [99.9 % bounds]", (_seen(each) for each in found), True),
        column("repetitions", (f"{each.counted.trials:,}" for each in found), True),
        column("width ÷ ideal", ("" if each.counted.width is None else f"{each.counted.width:.2f}" for each in found),
               True),
        column("note", (each.promise.why if each.is_wide else "" for each in found)),
        column("holds", (_holds(each) for each in found)),
    ]  # fmt: skip


def worst_columns(found: Sequence[Replayed]) -> list[Column]:
    """Return the table of the page: of each promise of a command, the case that is nearest to contradicting it."""
    kinds: dict[tuple[str, str, str], list[Replayed]] = {}
    for each in found:
        kinds.setdefault((each.promise.command, each.promise.event, _promised(each.promise)), []).append(each)
    worst = [
        min(cases, key=lambda each: each.share * (-1 if each.promise.bound is Bound.AT_MOST else 1))
        for cases in kinds.values()
    ]
    hold = [sum(each.holds and each.is_explained for each in cases) for cases in kinds.values()]
    return [
        Column("command", tuple(command for command, _, _ in kinds)),
        Column("promise", tuple(f"{event}: {promised}" for _, event, promised in kinds)),
        Column("worst case", tuple(each.promise.case for each in worst)),
        Column("seen there [99.9 % bounds]", tuple(map(_seen, worst)), True),
        Column("cases that hold", tuple(f"{n} of {len(cases)}" for n, cases in zip(hold, kinds.values())), True),
    ]


def _promised(promise: Promise) -> str:
    return f"{'≤' if promise.bound is Bound.AT_MOST else '≥'} {100 * promise.promised:.4g} %"


def _seen(found: Replayed) -> str:
    low, high = found.interval
    return f"{100 * found.share:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def _holds(found: Replayed) -> str:
    if not found.holds:
        return "NO: contradicted"
    return "yes" if found.is_explained else "NO: wide, without its width or a reason"


def rewrite(page: str, found: Sequence[Replayed], seed: int, repetitions: int | None = None) -> str:
    """Return the page with the table between its markers, and how it was made.

    Raises:
        VerdictsError: it does not have both markers, in this order.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise VerdictsError(f"the page lacks the lines '{BEGIN}' and '{END}', between which the table belongs")
    options = f"--seed {seed}" + (f" --repetitions {repetitions}" if repetitions is not None else "")
    said = f"{len(found)} promises, replayed with `{options}`:"
    narrow = re.sub(r"-{3,}", "---", re.sub(r" {2,}", " ", markdown(worst_columns(found))))
    return f"{head}{begin}\n\n{said}\n\n{narrow}\n{end}{tail}"


def selected(all_tasks: Sequence[Task], only: Sequence[str]) -> list[Task]:
    """Return the tasks of some commands, all of them if none is named.

    Raises:
        VerdictsError: nothing is promised for such a command.
    """
    parse = some_of(sorted({task.promise.command for task in all_tasks}))
    try:
        names = {name for text in only for name in parse(text)}
    except argparse.ArgumentTypeError as error:
        raise VerdictsError(f"--only {error}") from error
    return [task for task in all_tasks if not names or task.promise.command in names]


def conclude(found: Sequence[Replayed]) -> int:
    """Print the table and how many promises hold; return the exit code, 1 if one does not."""
    shown = columns(found)
    print(table([column.title for column in shown], list(zip(*(column.cells for column in shown)))))
    broken = [each for each in found if not (each.holds and each.is_explained)]
    print(f"\n{len(found) - len(broken)} of {len(found)} promises hold")
    for each in broken:
        print(f"{_holds(each)}: {text_of(each.promise)}")
    return 1 if broken else 0


def main(argv: Sequence[str] | None = None, modules: Sequence[str] = MODULES) -> int:
    """Replay the promises; the exit code is 1 if one does not hold, 2 if they cannot be replayed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND", help="some commands: run,compare")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of every promise (default: its own)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2, help="that replay at the same time")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="rewrite the table between FILE's markers")
    args = parser.parse_args(argv)
    if args.markdown is not None and args.only:
        parser.error("--markdown writes the whole table; leave out --only")
    for name in ("repetitions", "processes"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if args.seed < 0:
        parser.error("--seed must not be negative")
    try:
        requested = selected(tasks(modules, args.seed, args.repetitions), args.only)
        page = None if args.markdown is None else args.markdown.read_text(encoding="utf-8")
        if page is not None:
            rewrite(page, [], args.seed)
        found = []
        for each in replay(requested, args.processes):
            found.append(each)
            print(
                f"{len(found)} of {len(requested)}: {text_of(each.promise)}: {_holds(each)}",
                file=sys.stderr,
                flush=True,
            )
        if page is not None:
            write_atomically(args.markdown, rewrite(page, found, args.seed, args.repetitions))
    except VerdictsError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{args.markdown}: {error.strerror}")
    return conclude(found)


if __name__ == "__main__":
    sys.exit(main())
