"""``modelzoo compare``: are stored results different?"""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli.input_files import path_text, result_files, short_names
from modelzoo.cli.output import check_directory, deliver, format_of, output_file, print_lines, write_output
from modelzoo.errors import InputError, UsageError
from modelzoo.option import fraction

if TYPE_CHECKING:
    from modelzoo.comparison.compare import Comparison, FailOn, Gate, Question
    from modelzoo.comparison.estimate import Side, StoredResult
    from modelzoo.document import Block
    from modelzoo.results.refusals import Obstacle

FORMATS = ("terminal", "markdown", "csv", "json", "junit")
"""What ``rendered`` makes."""
METRICS = ("latency", "throughput", "cold-start", "warm-start", "ttft", "tpot", "memory")
_TIME = re.compile(r"\d{4}-(\d\d-\d\d)T(\d\d)(\d\d)\d\dZ")
"""The name of a result for which none was given."""
_NAMED = re.compile(r"([^=/\\]+)=(.+)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo compare``."""
    parser.add_argument(
        "base", metavar="BASE", help="the baseline: a result, several with commas, a directory of them, or NAME=…"
    )
    parser.add_argument("others", nargs="+", metavar="OTHER", help="what to compare with it; one table for each")
    parser.add_argument(
        "--metric",
        choices=METRICS,
        help="what to compare (default: latency; of instances, throughput)",
    )
    parser.add_argument(
        "--pair",
        action="append",
        default=[],
        metavar="BASE:OTHER",
        help='compare settings that differ, such as "precision=fp32:precision=bf16"; may be repeated',
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="WHAT",
        help="compare rows in spite of weights, inputs, batch, work, outputs, wrong, unproven, inactive, emulator, "
        "invalid, slo, unconfirmed or unrecorded; may be repeated",
    )
    parser.add_argument(
        "--assume-spread",
        type=fraction,
        metavar="S",
        help="standard deviation between days to assume if a side has fewer than three of them (default: 10%%)",
    )
    add_price(parser)
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with code 1 if a row meets this condition: slower:3%%, more:3%% (memory), ambiguous, "
        "not-comparable, or what --allow can name; may be repeated",
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="also print all that baseline and candidate share, and what explains every row",
    )
    add_format(parser, "terminal")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to FILE instead of stdout (-); .html: a page",
    )
    add_redact(parser)
    parser.set_defaults(command_function=compare_command)


def add_price(parser: argparse.ArgumentParser) -> None:
    """Add ``--price``."""
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="NAME=PRICE",
        help="price per hour of the whole machine of a result, such as 1.80 or 1.80CNY, or @FILE for a price list; may "
        "be repeated",
    )


def add_redact(parser: argparse.ArgumentParser) -> None:
    """Add ``--redact``."""
    parser.add_argument(
        "--redact",
        action="store_true",
        help="leave paths, values of environment variables but numbers, and names of users, hosts, files and sides "
        "out of a page",
    )


def add_format(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--format``, whose values ``format_of`` checks, because a page has a command of its own."""
    what = f"{', '.join(FORMATS)} (default: by the suffix of -o, else {default})"
    parser.add_argument("--format", metavar="FORMAT", help=what)


def compare_command(args: argparse.Namespace) -> int:
    """Compare the sides that ``modelzoo compare`` was given; returns the exit code.

    Everything is read and compared before anything is printed. torch is not imported.

    Raises:
        InputError: a result cannot be read, one side's results do not belong together, or no row of a comparison is
            comparable.
        UsageError: an option is not valid, or the output cannot be written.
    """
    from modelzoo.cli.input_files import read_prices
    from modelzoo.comparison.compare import NOTHING, compare, gate
    from modelzoo.comparison.machines import prices_of
    from modelzoo.views.compare import document

    target = output_file(args.output)
    form = format_of(args.format, target, (*FORMATS, "html"))
    if target is not None:
        check_directory(target)
    elif form == "html":
        raise UsageError("--format html is a page; name its file with -o FILE")
    if form == "html" and args.details:
        raise UsageError("a page has all details; leave out --details")
    if form != "html" and args.redact:
        raise UsageError("--redact concerns the page only; name its file with -o FILE.html")
    conditions, prices = fail_on(args.fail_on, args.metric or "latency"), read_prices(args.price)
    allowed = allowances(args.allow)
    base, *others = sides = read_sides([args.base, *args.others], allowed)
    question = _question(args, allowed)
    if form == "html":
        from modelzoo.views.page import build

        if len(sides) > build.MOST_IN_FULL:
            raise UsageError(f"a page compares up to {build.MOST_IN_FULL} sides; name fewer, or another format")
    priced = prices_of(prices, sides)
    judged = []
    for number, other in enumerate(others, 1):
        comparison = compare(base, other, question, (priced[0], priced[number]) if priced else ())
        judged.append((comparison, gate(comparison, conditions)))
    if form == "html" and target is not None:
        from modelzoo.document.html import html
        from modelzoo.views.page.redaction import anonymous

        # What was judged comes first, because the last result of a side is shown in full.
        given = [build.ResultSet(side.name, (*side.judged, *side.results)) for side in sides]
        if args.redact:
            given, prices = anonymous(given, prices)
        write_output(target, html(build.page(given, question, prices)))
        print_lines([f"page: {target}"])
    else:
        deliver(rendered(judged, form, lambda found, each: document(found, each, details=args.details), target), target)
    empty = [comparison.other.name for comparison, each in judged if each.exit_code == NOTHING]
    if empty:
        raise InputError(f"no row of {', '.join(empty)} is comparable with {base.name}; the table says why")
    failed = sum(any(each.failures) for _, each in judged)
    return 1 if failed else 0


# Sides


def read_sides(texts: Sequence[str], allowed: Collection[Obstacle] = ()) -> list[Side]:
    """Read the sides that the command line names, each ``PATH``, ``PATH,PATH`` or ``NAME=PATH``; see ``make_side``.

    Raises:
        InputError: a result cannot be read, or a side's results do not belong together.
        UsageError: two sides were given the same name.
    """
    from modelzoo.comparison.estimate import StoredResult
    from modelzoo.comparison.pairing import make_side
    from modelzoo.results import store, tuning

    named = [_named(text) for text in texts]
    given = [name for name, _ in named if name]
    for name in given:
        if given.count(name) > 1:
            raise UsageError(f"two results are called {name}; give them different names")
    known: dict[Path, StoredResult] = {}
    found = []
    for _, paths in named:
        files = list(dict.fromkeys(file for path in paths for file in result_files(path)))
        for file in files:
            if file not in known:
                known[file] = StoredResult(path_text(file), tuning.measured(store.read(file)))
        found.append([known[file] for file in files])
    own = [name or _common_name(results) for (name, _), results in zip(named, found)]
    own = [name if own.count(name) == 1 else given for name, (given, _) in zip(own, named)]
    names = _brief(short_names([paths[0] for _, paths in named], own))
    return [make_side(name, results, allowed) for name, results in zip(names, found)]


def _common_name(results: Sequence[StoredResult]) -> str:
    """The name that all sessions have from ``--label``; empty if they have none, or several."""
    names = {stored.result.name for stored in results}
    return names.pop() if len(names) == 1 else ""


def _brief(names: Sequence[str]) -> list[str]:
    """The names, those that are times (``2026-11-24T031500Z``) without year and seconds if they still differ."""
    short = [_TIME.sub(r"\1 \2:\3", name) for name in names]
    return short if len(set(short)) == len(short) else list(names)


def _named(text: str) -> tuple[str, list[Path]]:
    """The name, empty if none was given, and the paths; one that exists may contain an equals sign or a comma."""
    if not text:
        raise UsageError("the name of a result is empty; give a result or a directory of its sessions")
    match = None if os.path.lexists(text) else _NAMED.fullmatch(text)
    name, path = ("", text) if match is None else (match[1].strip(), match[2])
    return name, [Path(each) for each in ([path] if os.path.lexists(path) else filter(None, path.split(",")))]


# Options


def _question(args: argparse.Namespace, allowed: frozenset[Obstacle]) -> Question:
    from modelzoo.comparison.compare import Question
    from modelzoo.comparison.estimate import ASSUMED_SPREAD
    from modelzoo.comparison.pairing import parse_pairing
    from modelzoo.results.refusals import Metric

    assumed = ASSUMED_SPREAD if args.assume_spread is None else args.assume_spread
    if not 0 < assumed < 1:
        raise UsageError(f"--assume-spread must be over 0 % and under 100 %, not {100 * assumed:g} %")
    return Question(
        metric=None if args.metric is None else Metric(args.metric),
        pairings=tuple(parse_pairing(text) for text in args.pair),
        allowed=allowed,
        assumed=assumed,
    )


def allowances(texts: Sequence[str]) -> frozenset[Obstacle]:
    """Parse every ``--allow``; raises ``UsageError``."""
    from modelzoo.results.refusals import ALLOWABLE, Obstacle

    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if word not in map(str, ALLOWABLE):
            raise UsageError(f"--allow must be one of {', '.join(map(str, ALLOWABLE))}, not {word!r}")
    return frozenset(map(Obstacle, words))


def fail_on(texts: Sequence[str], metric: str) -> tuple[FailOn, ...]:
    """Parse every ``--fail-on``, ``slower:3%`` for example; ``slower`` alone is the verdict.

    Raises:
        UsageError: there is no such condition, or it does not fit the metric.
    """
    from modelzoo.comparison.compare import MORE, NAMES, SLOWER, FailOn, fits
    from modelzoo.results.refusals import Metric

    conditions = []
    for text in (word.strip() for given in texts for word in given.split(",")):
        name, colon, bound = text.partition(":")
        if name not in NAMES or (colon and name not in (SLOWER, MORE)):
            raise UsageError(f"--fail-on must be slower:3%, more:3% or one of {', '.join(NAMES[2:])}, not {text!r}")
        try:
            by = fraction(bound) if colon else 0.0
        except ArgumentTypeError as error:
            raise UsageError(f"--fail-on {text!r}: {error}") from None
        condition = FailOn(name, by if name in (SLOWER, MORE) else None)
        if not fits(condition, Metric(metric)):
            other = MORE if name == SLOWER else SLOWER
            raise UsageError(f"--fail-on {text!r} does not fit --metric {metric}; write {other}{colon}{bound}")
        conditions.append(condition)
    return tuple(dict.fromkeys(conditions))


# Output


def rendered(
    judged: Sequence[tuple[Comparison, Gate]],
    form: str,
    document: Callable[[Comparison, Gate], list[Block]],
    target: Path | None,
) -> str:
    """Return the comparisons in one of ``FORMATS``.

    Args:
        judged: the comparisons.
        form: the format.
        document: what a comparison is for people.
        target: the file; ``None``: stdout.
    """
    from modelzoo.document import markdown, terminal
    from modelzoo.views.export import comparisons_csv, comparisons_json, junit

    exports = {"csv": comparisons_csv, "json": comparisons_json, "junit": junit}
    if form in exports:
        return exports[form](judged)
    blocks = [block for found, each in judged for block in document(found, each)]
    if form == "markdown":
        return markdown.markdown(blocks)
    return terminal.text(blocks, colour=target is None and sys.stdout.isatty())
