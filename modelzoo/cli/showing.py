"""The options of the commands that measure no workload: ``report``, ``compare``, ``list``, ``weights``, ``doctor``."""

from __future__ import annotations

import argparse
from argparse import Namespace

from modelzoo.cli.output import add_details
from modelzoo.cli.parser import Parser
from modelzoo.option import fraction

FORMATS = ("terminal", "markdown", "csv", "json", "junit")
"""What ``rendered`` makes."""
METRICS = ("latency", "throughput", "cold-start", "warm-start", "ttft", "tpot", "memory")
REPORT_FORMATS = ("terminal", "markdown", "html", "csv", "json")


def add_report(parser: Parser) -> None:
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
        choices=REPORT_FORMATS,
        help="output format (default: that of the file's suffix, else terminal); csv and json have one row per "
        "workload and setting, for results of run and tune",
    )
    add_price(parser)
    add_redact(parser)
    parser.add_argument(
        "--kernels", action="store_true", help="print only the kernels, profiles and accuracy checks of --details"
    )
    add_details(parser)
    parser.calls("stored:report", Namespace)


def add_compare(parser: Parser) -> None:
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
    parser.calls("stored:compare_command", Namespace)


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


def add_list(parser: Parser) -> None:
    """Add the arguments of ``modelzoo list``."""
    parser.add_argument("library", nargs="?", metavar="LIBRARY:", help="print the models of torchvision:, timm: or hf:")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of stored results instead")
    parser.calls("inventory:list_command", Namespace)


def add_weights(parser: Parser) -> None:
    """Add the arguments of ``modelzoo weights``."""
    from modelzoo.workload.discovery import STANDARD_WORKLOADS  # the other commands do without

    parser.add_argument(
        "action",
        choices=("list", "fetch", "verify", "pin", "convert"),
        help="list the checkpoints, download missing ones, verify the checksums of those on this machine, download "
        "each again and print its commit and SHA-256, or convert a pickled checkpoint to safetensors, which every "
        "release of torch reads safely",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD|FILE",
        help=f"workloads, by name or directory (default: {', '.join(STANDARD_WORKLOADS)}); for convert, one file",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="with convert: write FILE, and replace it if it exists (default: a new file beside the other one)",
    )
    parser.add_argument(
        "--all", action="store_true", help="fetch or pin the checkpoints of all sizes, not only the default one"
    )
    parser.calls("inventory:weights", Namespace)


def add_doctor(parser: Parser) -> None:
    """Add the arguments of ``modelzoo doctor``."""
    parser.add_argument("--fresh", action="store_true", help="measure the peaks again")
    parser.add_argument(
        *("-o", "--output", "--json"), metavar="FILE", help="also write the findings to FILE, as JSON; - is stdout"
    )
    parser.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="also measure the peaks of an accelerator: cuda, cuda:1 …"
    )
    parser.calls("doctor:doctor", Namespace)
