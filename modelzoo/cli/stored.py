"""What stored results show: ``modelzoo report``, ``modelzoo compare``: are they different?, and ``modelzoo check``: is
one build slower, or wrong, compared with another one? Only ``check`` measures, both builds here, interleaved.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import files
from modelzoo.cli.options import FORMATS, REPORT_FORMATS, Measurement, Output
from modelzoo.comparison.compare import (
    MORE,
    NAMES,
    NOTHING,
    SLOWER,
    Comparison,
    FailOn,
    Gate,
    Question,
    compare,
    compare_interleaved,
    fits,
    gate,
)
from modelzoo.comparison.estimate import ASSUMED_SPREAD, Side, StoredResult
from modelzoo.comparison.machines import prices_of
from modelzoo.comparison.pairing import make_side, parse_pairing
from modelzoo.document import Block, Section, terminal
from modelzoo.document.written import markdown
from modelzoo.errors import InputError, UsageError
from modelzoo.formatting import for_people, printable
from modelzoo.frozen import replace
from modelzoo.option import fraction
from modelzoo.records.run import Result
from modelzoo.results import store, tuning
from modelzoo.results.refusals import ALLOWABLE, Metric, Obstacle
from modelzoo.views import export
from modelzoo.views.compare import check_document, document

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.cli.measuring import Check
    from modelzoo.cli.selection import Jobs
    from modelzoo.comparison.machines import Price
    from modelzoo.views.page import ResultSet

# report


def report(args: argparse.Namespace) -> int:
    """Show the results that ``modelzoo report`` was given; returns the exit code. torch is not imported.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
        UsageError: the options contradict each other, or the page cannot be written.
    """
    target = files.output_file(args.output)
    form = files.format_of(args.format, target, REPORT_FORMATS)
    if target is not None:
        given = [file for path in args.results for file in files.result_files(Path(path))]
        if any(target.resolve() == file.resolve() for file in given):
            raise UsageError(f"{target} is one of the results; name another file with -o FILE")
    if form == "html":
        if target is None:
            raise UsageError("--format html is a page; name its file with -o FILE")
        return _report_page(args, target)
    for option in ("redact", "price"):
        if getattr(args, option):
            raise UsageError(f"--{option} concerns the page only; name its file with -o FILE.html")
    if form == "terminal" and target is None:
        return _print(args)
    files.deliver(_rendered(files.read_all(args.results), form, args), target)
    return 0


def _rendered(stored: Sequence[tuple[str, Result]], form: str, args: argparse.Namespace) -> str:
    """The results in one of ``REPORT_FORMATS``."""
    from modelzoo.views import kinds  # compare does without

    if form in ("csv", "json"):
        names = files.short_names([Path(path) for path, _ in stored])
        rows = []
        for name, (path, result) in zip(names, stored):
            timed = kinds.of(result).rows(result)
            if not timed:
                raise UsageError(
                    f"--format {form} has latencies, as run and tune measure them, and {printable(path)} has none; "
                    "give --format terminal, markdown or html"
                )
            rows += [(name, row) for row in timed]
        return export.report(rows, form)
    blocks = [
        Section(_heading(path, result), tuple(kinds.of(result).document(result, args.details, args.kernels)))
        for path, result in stored
    ]
    return markdown(blocks) if form == "markdown" else terminal.text(blocks, colour=False)


def _heading(path: str, result: Result) -> str:
    name = f"{result.name}, " if result.name else ""
    return f"{path}: {name}{result.created}, modelzoo {result.version}"


def _print(args: argparse.Namespace) -> int:
    from modelzoo.views import kinds

    stored = files.read_all(args.results)
    said: list[str] = []
    for number, (path, result) in enumerate(stored):
        if number:
            files.print_text("")
        files.print_text(for_people(_heading(path, result)))
        view = kinds.of(result)
        blocks = view.document(result, args.details, args.kernels)
        if blocks:
            files.print_text("")
            files.print_document(blocks)
        said += files.result_lines(tuning.measured(result), view.rows(result))
    files.print_lines(said)
    return 0


def _report_page(args: argparse.Namespace, target: Path) -> int:
    from modelzoo.views.page import MOST_IN_FULL, ResultSet
    from modelzoo.views.plots.lines import moment

    if args.details or args.kernels:
        raise UsageError("a page has all details; leave out --details and --kernels")
    if args.price and not 1 < len(args.results) <= MOST_IN_FULL:
        raise UsageError(f"--price compares costs: name 2 to {MOST_IN_FULL} results")
    names = files.short_names([Path(path) for path in args.results])
    given = []
    for name, path in zip(names, args.results):
        stored = [StoredResult(file, result) for file, result in files.read_all([path])]
        stored.sort(key=lambda each: moment(each.result.created))
        given.append(ResultSet(name, tuple(stored), Path(path).is_dir()))
    _write_page(given, Question(), files.read_prices(args.price), args.redact, target)
    return 0


def _write_page(
    given: Sequence[ResultSet], question: Question, prices: tuple[Price, ...], redact: bool, target: Path
) -> None:
    from modelzoo.document.written import html
    from modelzoo.views.page import page
    from modelzoo.views.redaction import anonymous

    if redact:
        given, prices = anonymous(given, prices)
    files.write_output(target, html(page(given, question, prices)))
    files.print_lines([f"page: {target}"])


# compare

_TIME = re.compile(r"\d{4}-(\d\d-\d\d)T(\d\d)(\d\d)\d\dZ")
"""The name of a result for which none was given."""
_NAMED = re.compile(r"([^=/\\]+)=(.+)", re.DOTALL)


def compare_command(args: argparse.Namespace) -> int:
    """Compare the sides that ``modelzoo compare`` was given; returns the exit code.

    Everything is read and compared before anything is printed. torch is not imported.

    Raises:
        InputError: a result cannot be read, one side's results do not belong together, or no row of a comparison is
            comparable.
        UsageError: an option is not valid, or the output cannot be written.
    """
    target = files.output_file(args.output)
    form = files.format_of(args.format, target, (*FORMATS, "html"))
    if form == "html" and target is None:
        raise UsageError("--format html is a page; name its file with -o FILE")
    if form == "html" and args.details:
        raise UsageError("a page has all details; leave out --details")
    if form != "html" and args.redact:
        raise UsageError("--redact concerns the page only; name its file with -o FILE.html")
    conditions, prices = fail_on(args.fail_on, args.metric or "latency"), files.read_prices(args.price)
    allowed = allowances(args.allow)
    base, *others = sides = read_sides([args.base, *args.others], allowed)
    question = _question(args, allowed)
    if form == "html":
        from modelzoo.views.page import MOST_IN_FULL, ResultSet

        if len(sides) > MOST_IN_FULL:
            raise UsageError(f"a page compares up to {MOST_IN_FULL} sides; name fewer, or another format")
    priced = prices_of(prices, sides)
    judged = []
    for number, other in enumerate(others, 1):
        comparison = compare(base, other, question, (priced[0], priced[number]) if priced else ())
        judged.append((comparison, gate(comparison, conditions)))
    if form == "html" and target is not None:
        # What was judged comes first, because the last result of a side is shown in full.
        given = [ResultSet(side.name, (*side.judged, *side.results)) for side in sides]
        _write_page(given, question, prices, args.redact, target)
    else:
        files.deliver(
            rendered(judged, form, lambda found, each: document(found, each, details=args.details), target), target
        )
    empty = [comparison.other.name for comparison, each in judged if each.exit_code == NOTHING]
    if empty:
        raise InputError(f"no row of {', '.join(empty)} is comparable with {base.name}; the table says why")
    failed = sum(any(each.failures) for _, each in judged)
    return 1 if failed else 0


def read_sides(texts: Sequence[str], allowed: Collection[Obstacle] = ()) -> list[Side]:
    """Read the sides that the command line names, each ``PATH``, ``PATH,PATH`` or ``NAME=PATH``; see ``make_side``.

    Raises:
        InputError: a result cannot be read, or a side's results do not belong together.
        UsageError: two sides were given the same name.
    """
    named = [_named(text) for text in texts]
    given = [name for name, _ in named if name]
    for name in given:
        if given.count(name) > 1:
            raise UsageError(f"two results are called {name}; give them different names")
    known: dict[Path, StoredResult] = {}
    found = []
    for _, paths in named:
        own_files = list(dict.fromkeys(file for path in paths for file in files.result_files(path)))
        for file in own_files:
            if file not in known:
                known[file] = StoredResult(files.path_text(file), tuning.measured(store.read(file)))
        found.append([known[file] for file in own_files])
    own = [name or _common_name(results) for (name, _), results in zip(named, found)]
    own = [name if own.count(name) == 1 else given for name, (given, _) in zip(own, named)]
    names = _brief(files.short_names([paths[0] for _, paths in named], own))
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


def _question(args: argparse.Namespace, allowed: frozenset[Obstacle]) -> Question:
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
    exports = {"csv": export.comparisons_csv, "json": export.comparisons_json, "junit": export.junit}
    if form in exports:
        return exports[form](judged)
    blocks = [block for found, each in judged for block in document(found, each)]
    if form == "markdown":
        return markdown(blocks)
    return terminal.text(blocks, colour=target is None and sys.stdout.isatty())


# check

SECONDS_PER_WORKLOAD, MOST_SECONDS = 300.0, 900.0
"""The default budget."""


def check_command(args: argparse.Namespace, wanted: Check, how: Measurement, output: Output) -> int:
    """Run ``modelzoo check``.

    Returns:
        0 if no row meets a condition of ``--fail-on``, 1 if one does, 2 if nothing could be compared or a process
        failed, 130 if the user interrupted it.

    Raises:
        ModelzooError: an option is not valid, or an environment cannot be made; nothing has been measured.
    """
    from modelzoo.cli.measuring import FAIL_ON
    from modelzoo.cli.run import measure_session, measured, show_plan
    from modelzoo.cli.selection import select_settings
    from modelzoo.measure import builds

    target = files.output_file(output.output)
    asked = wanted.format or (None if target is None else files.SUFFIXES.get(target.suffix, "markdown"))
    form = files.format_of(asked, target, FORMATS)
    conditions, allowed = fail_on(wanted.fail_on or FAIL_ON, "latency"), allowances(wanted.allow)
    for name in ("python", "image"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: name the two sides with --base and --head")
    plain = select_settings(args, "fp32")  # before minutes are spent on environments
    base = builds.parse_build("--base", wanted.base, wanted.base_env)
    head = builds.parse_build("--head", wanted.head, wanted.head_env)
    if how.effort.budget is None and how.effort.processes is None:
        budget = min(MOST_SECONDS, SECONDS_PER_WORKLOAD * len(plain))
        how = replace(how, effort=replace(how.effort, budget=budget))
    if output.dry_run:
        return show_plan(_both(plain, base.interpreter, head.interpreter), how)
    jobs = _both(plain, *builds.interpreters(base, head, files.tell))
    result = files.new_result(jobs, name=output.label)
    stored = store.ResultFile(files.result_path(wanted.json, result.created, "--json"), result, "--json")

    def show(out: Console, ended_early: bool) -> int:
        ran = StoredResult(files.path_text(stored.path), stored.result)
        found = compare_interleaved(ran, ("base", "head"), allowed)
        judged, titles = gate(found, conditions), (base.title, head.title)

        def page(found: Comparison, judged: Gate) -> list[Block]:
            return check_document(stored.result, found, judged, titles, details=how.details)

        try:
            files.deliver(rendered([(found, judged)], form, page, target), target)
        finally:
            files.write_reproducers(stored.path, stored.result, files.tell)
            files.say_where(stored, files.tell)
        if any(judged.failures):
            return 1
        return 2 if judged.exit_code or any(run.error for run in stored.result.runs) else 0

    return measured(stored, lambda progress: measure_session(jobs, how, stored, progress), show)


def _both(plain: Jobs, base: str | None, head: str | None) -> Jobs:
    """Each workload with two settings, of the baseline and of the other side."""
    own = [None if python == sys.executable else python for python in (base, head)]
    return [(work, tuple(setting.replace(python=python) for python in own)) for work, (setting,) in plain]
