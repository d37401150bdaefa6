"""``modelzoo fleet``: run, throughput and validate on many hosts, on each of which torchrun starts this command.

``run`` and ``throughput`` measure on every host, and the host of the store names those that are slower than the others.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import fleet_validate, options, run, setting_options, throughput
from modelzoo.cli.output import file_stem, new_result, print_lines, result_lines, results_directory, tell
from modelzoo.cli.parser import Parser, help_texts
from modelzoo.cli.run import exit_code
from modelzoo.cli.selection import Jobs, select_settings
from modelzoo.cli.session import INTERRUPTED, InterruptedSessionError, measure_session
from modelzoo.cli.validate import ESSENTIAL as OF_VALIDATE
from modelzoo.errors import ModelzooError, UsageError, WorkerError
from modelzoo.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.fleet.gathering import Gathering
    from modelzoo.records.fleet import FleetEvent
    from modelzoo.records.hosts import FleetHost


PURPOSES = {
    "run": "time the same settings on every host, and name the hosts that are slower than the others",
    "throughput": "find the number of instances with the highest throughput on every host, and name slower hosts",
    "validate": "judge predictions on a whole data set, divided among the hosts",
}


USAGE = """

On every host, torchrun starts the same command, with a rank of its own (docs/scale.md):
  torchrun --nnodes N --node-rank RANK --nproc-per-node 1 --master-addr HOST --master-port 29500 \\
    -m modelzoo fleet COMMAND ..."""
COMPARISON, HOSTS = "fleet.json", "hosts"
"""In the directory that was named: the file that holds the comparison, and the directory of the hosts' results, which
'modelzoo report' and 'modelzoo compare' take as a whole."""
_ESSENTIAL = ("--json-dir", "--store", "--recheck")
LOCAL_OPTIONS = ("workload", "weights", "input", "output", "plot", "price", "json_dir", "store", "bind", "soak")
"""Options that may differ between hosts; most of them name files. All others must be the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of ``modelzoo fleet``."""
    parser.description = (parser.description or "") + USAGE
    commands = parser.add_subparsers(dest="fleet_command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, purpose in PURPOSES.items():
        command = commands.add_parser(name, help=purpose, **help_texts(f"fleet {name}", purpose))
        {"run": _add_run, "throughput": _add_throughput, "validate": _add_validate}[name](command)


def _add_run(parser: Parser) -> None:
    run.add_measurement(parser, in_fleet=True)
    _add_json_dir(parser)
    _add_store(parser)
    parser.show_first(*run.ESSENTIAL, *_ESSENTIAL)
    parser.set_defaults(command_function=run_command, output=None)


def _add_throughput(parser: Parser) -> None:
    throughput.add_measurement(parser)
    parser.add_argument("-o", "--output", "--json", help=argparse.SUPPRESS)  # the error says what to give instead
    _add_json_dir(parser)
    _add_store(parser)
    parser.show_first(*throughput.ESSENTIAL, *_ESSENTIAL)
    parser.set_defaults(command_function=throughput_command, label="", dry_run=False)


def _add_json_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json-dir",
        type=Path,
        metavar="DIR",
        help="directory for the results; the host of the store writes those of all hosts (default: results/fleet-TIME)",
    )


def _add_validate(parser: Parser) -> None:
    setting_options.add_workloads(parser, "bf16")
    setting_options.add_setting(parser)
    options.add_validity(parser)
    options.add_output(parser)
    group = parser.add_argument_group("shards")
    group.add_argument(
        "--shards-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory for finished shards, one on each host or shared by all; a later call uses them again",
    )
    group.add_argument(
        "--shard-items",
        type=int,
        metavar="N",
        help="items per shard, rounded up to whole batches (default: a hundredth of the data set)",
    )
    group.add_argument(
        "--recheck",
        type=int,
        default=0,
        metavar="N",
        help="have N shards judged by a second member as well, and count the predictions that differ (default 0)",
    )
    _add_store(parser)
    parser.show_first(*OF_VALIDATE, *_ESSENTIAL)
    parser.set_defaults(command_function=fleet_validate.validate_command, vary=[], setting=[], baseline=None)


def _add_store(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fleet")
    group.add_argument(
        "--store",
        metavar="HOST:PORT",
        help="address of the store, which rank 0 keeps; the same on every host (default: torchrun's master address, "
        "and the port after its own)",
    )
    group.add_argument(
        "--bind",
        metavar="ADDRESS",
        help="address of the host of rank 0 that the store listens on (default: the host of --store)",
    )


def run_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet run`` as the member that torchrun has made of this process; return the exit code.

    Returns:
        as ``modelzoo run`` for this host, and 2 if the host of the store refuses it; on the host of the store also 1
        if another host did not measure.
    """
    from modelzoo.document import terminal

    if args.sessions != 1 or args.trace:
        raise UsageError("--sessions and --trace are for one host: call 'modelzoo run' with them there")
    jobs, out = select_settings(args, "fp32,bf16"), terminal.console()
    return measure_on_all(args, _facts(jobs), lambda path: _measure(jobs, args, path, out))


def measure_on_all(args: argparse.Namespace, facts: dict[str, str], measure: Callable[[Path], int]) -> int:
    """Measure on this host, and compare all hosts on the one that has the store; return the exit code.

    Args:
        args: where the store and the results are.
        facts: what all hosts must measure alike, by name.
        measure: measures, writes the complete result to a file, and returns the exit code for this host.
    """
    from modelzoo.document import terminal
    from modelzoo.fleet.collector import store_of
    from modelzoo.fleet.gathering import measure_together
    from modelzoo.fleet.membership import membership
    from modelzoo.views.fleet import event_text

    here = membership(os.environ, args.store, args.bind)
    directory, out = _directory(args), terminal.console()

    def say(text: str) -> None:
        out.print(text, soft_wrap=True)

    def on_event(event: FleetEvent) -> None:
        say(event_text(event))

    if here.restarts:
        say(f"torchrun has restarted this host's process {here.restarts} times: its measurement begins anew")
    own, codes = directory / HOSTS / f"host-{here.rank}.json", [0]

    def measured() -> Path:
        codes.append(measure(own))
        return own

    try:
        with store_of(here) as store:
            if here.has_store:
                _clear(directory)
            gathered = measure_together(here, store, facts, measured, directory / HOSTS, on_event)
    except KeyboardInterrupt:
        tell("modelzoo: interrupted" + (f"; finished runs are in {own}" if own.exists() else ""))
        return INTERRUPTED
    return max(codes) if gathered is None else max(*codes, _compare(*gathered, directory, out))


def _directory(args: argparse.Namespace) -> Path:
    if args.json_dir is not None:
        return Path(args.json_dir)
    from modelzoo.records.run import now
    from modelzoo.results.store import reserve

    return reserve(results_directory() / f"fleet-{file_stem(now())}", Path.mkdir)


def _clear(directory: Path) -> None:
    """Remove what an earlier call has left: the results of hosts that do not measure now would count as new ones.

    Raises:
        UsageError: it cannot be removed.
    """
    for path in (directory / COMPARISON, *(directory / HOSTS).glob("host-*.json")):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot replace {path}: {error.strerror}; name another directory with --json-dir DIR"
            ) from error


def _facts(jobs: Jobs) -> dict[str, str]:
    """What all hosts must measure alike; paths are shortened to their last part, which hosts have in common."""
    from modelzoo.comparison.pairing import words

    facts = {"modelzoo": __version__}
    for work, settings in jobs:
        for number, setting in enumerate(settings, start=1):
            text = " ".join(f"{name}={value}" for name, value in words(setting).items())
            facts[f"setting {number} of {work.name}"] = text
    return facts


def _measure(jobs: Jobs, args: argparse.Namespace, path: Path, out: Console) -> int:
    """Measure as ``modelzoo run`` does, write the complete result, and return the exit code.

    Raises:
        ModelzooError: it is not complete, or nothing could be timed.
    """
    from modelzoo.document import terminal
    from modelzoo.results import summary
    from modelzoo.results.store import ResultFile
    from modelzoo.views.progress import LiveProgress
    from modelzoo.views.run import document

    stored = ResultFile(path, new_result(jobs))
    with LiveProgress(out, stored.result) as progress:
        try:
            measure_session(jobs, args, stored, progress)
        except InterruptedSessionError as early:
            if early.problem is None:
                raise KeyboardInterrupt from early
            raise UsageError(early.problem) from early
    failed = stored.result.only_error()
    if failed is not None:
        raise WorkerError(failed.error or "no run has ended")
    rows = summary.rows(stored.result)
    terminal.show(document(stored.result, rows, details=args.details), out)
    print_lines(result_lines(stored.result, rows))
    return exit_code(stored.result, rows, args.strict)


def _compare(gathered: Gathering, hosts: tuple[FleetHost, ...], directory: Path, out: Console) -> int:
    """Compare the hosts of each kind, and write and print what was found."""
    from modelzoo.comparison.levels import read_histories
    from modelzoo.document import terminal
    from modelzoo.files import write_atomically
    from modelzoo.fleet.hosts import kinds
    from modelzoo.records.codec import encode_json
    from modelzoo.records.hosts import FleetComparison
    from modelzoo.records.throughput import Throughput
    from modelzoo.views.fleet import comparison_document, total_line

    results = [gathered.results[rank] for rank in sorted(gathered.results)]
    comparison = FleetComparison(hosts, kinds(results, read_histories(each.result for each in results)))
    path = directory / COMPARISON
    try:
        write_atomically(path, encode_json(comparison) + b"\n")
    except OSError as error:
        raise ModelzooError(f"cannot write {path}: {error.strerror}") from error
    out.print()
    terminal.show(comparison_document(comparison), out)
    instances = [each.result for each in results if isinstance(each.result.payload, Throughput)]
    if instances:
        out.print(total_line(instances), soft_wrap=True)
    out.print(f"results: {directory / HOSTS}, comparison: {path}", soft_wrap=True)
    return 1 if any(host.result is None for host in hosts) else 0


def throughput_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet throughput`` as one member.

    Returns:
        as ``modelzoo throughput`` for this host, and 2 if the host of the store refuses it; on the host of the store
        also 1 if another host did not measure.
    """
    if args.output is not None:
        raise UsageError("-o is for one host; name a directory for the results of all hosts with --json-dir DIR")
    facts = {"modelzoo": __version__, "workload": Path(args.workload).name}
    given = {name: value for name, value in vars(args).items() if name not in LOCAL_OPTIONS and "command" not in name}
    facts.update({name.replace("_", "-"): str(value) for name, value in given.items()})
    return measure_on_all(args, facts, lambda path: _measure_instances(args, path))


def _measure_instances(args: argparse.Namespace, path: Path) -> int:
    """Measure as ``modelzoo throughput`` does, and return its exit code.

    Raises:
        ModelzooError: nothing could be measured.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another directory, --json-dir DIR") from error
    code = throughput.throughput(argparse.Namespace(**{**vars(args), "output": str(path)}))
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code
