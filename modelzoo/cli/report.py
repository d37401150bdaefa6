"""``modelzoo report``: show stored results as the commands printed them, as a page, or as tables for programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli.compare import add_price, add_redact
from modelzoo.cli.input_files import read_all, read_prices, result_files, short_names
from modelzoo.cli.output import (
    add_details,
    check_directory,
    deliver,
    format_of,
    output_file,
    print_document,
    print_lines,
    print_text,
    result_lines,
    write_output,
)
from modelzoo.document import Section, markdown, terminal
from modelzoo.errors import UsageError
from modelzoo.formatting import for_people, printable
from modelzoo.results.tuning import measured
from modelzoo.views import export, kinds

if TYPE_CHECKING:
    from modelzoo.records.run import Result


FORMATS = ("terminal", "markdown", "html", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelzoo report``."""
    parser.add_argument(
        "results",
        nargs="+",
        metavar="RESULT",
        help="a stored result, or a directory of them; for a directory, a page shows the latest result and the series "
        "of all",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to FILE instead of stdout (-); an .html file is a page with plots that needs no network",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format (default: that of the file's suffix, else terminal); csv and json have one row per "
        "workload and setting, for results of run and tune",
    )
    add_price(parser)
    add_redact(parser)
    parser.add_argument(
        "--kernels", action="store_true", help="print only the kernels, profiles and accuracy checks of --details"
    )
    add_details(parser)
    parser.set_defaults(command_function=report)


def report(args: argparse.Namespace) -> int:
    """Show the results that ``modelzoo report`` was given; returns the exit code. torch is not imported.

    Raises:
        InputError: a file cannot be read, is damaged, or is of a newer format.
        UsageError: the options contradict each other, or the page cannot be written.
    """
    target = output_file(args.output)
    form = format_of(args.format, target, FORMATS)
    if target is not None:
        files = [file for path in args.results for file in result_files(Path(path))]
        if any(target.resolve() == file.resolve() for file in files):
            raise UsageError(f"{target} is one of the results; name another file with -o FILE")
        check_directory(target)
    if form == "html":
        if target is None:
            raise UsageError("--format html is a page; name its file with -o FILE")
        return _write_page(args, target)
    for option in ("redact", "price"):
        if getattr(args, option):
            raise UsageError(f"--{option} concerns the page only; name its file with -o FILE.html")
    if form == "terminal" and target is None:
        return _print(args)
    deliver(_rendered(read_all(args.results), form, args), target)
    return 0


def _rendered(stored: Sequence[tuple[str, Result]], form: str, args: argparse.Namespace) -> str:
    """The results in one of ``FORMATS``."""
    if form in ("csv", "json"):
        names = short_names([Path(path) for path, _ in stored])
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
    return markdown.markdown(blocks) if form == "markdown" else terminal.text(blocks, colour=False)


def _heading(path: str, result: Result) -> str:
    name = f"{result.name}, " if result.name else ""
    return f"{path}: {name}{result.created}, modelzoo {result.version}"


def _print(args: argparse.Namespace) -> int:
    stored = read_all(args.results)
    said: list[str] = []
    for number, (path, result) in enumerate(stored):
        if number:
            print_text("")
        print_text(for_people(_heading(path, result)))
        view = kinds.of(result)
        blocks = view.document(result, args.details, args.kernels)
        if blocks:
            print_text("")
            print_document(blocks)
        said += result_lines(measured(result), view.rows(result))
    print_lines(said)
    return 0


def _write_page(args: argparse.Namespace, target: Path) -> int:
    from modelzoo.comparison.compare import Question
    from modelzoo.comparison.estimate import StoredResult
    from modelzoo.document.html import html
    from modelzoo.views.page import build
    from modelzoo.views.page.redaction import anonymous
    from modelzoo.views.plots.lines import moment

    if args.details or args.kernels:
        raise UsageError("a page has all details; leave out --details and --kernels")
    if args.price and not 1 < len(args.results) <= build.MOST_IN_FULL:
        raise UsageError(f"--price compares costs: name 2 to {build.MOST_IN_FULL} results")
    names = short_names([Path(path) for path in args.results])
    given = []
    for name, path in zip(names, args.results):
        stored = [StoredResult(file, result) for file, result in read_all([path])]
        stored.sort(key=lambda each: moment(each.result.created))
        given.append(build.ResultSet(name, tuple(stored), Path(path).is_dir()))
    prices = read_prices(args.price)
    if args.redact:
        given, prices = anonymous(given, prices)
    write_output(target, html(build.page(given, Question(), prices)))
    print_lines([f"page: {target}"])
    return 0
