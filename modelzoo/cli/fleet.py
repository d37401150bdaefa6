"""``modelzoo fleet``: run, throughput and validate on the hosts of a Dask cluster.

``run`` and ``throughput`` run the command of that name on every host at the same time, and name the hosts that are
slower than the others. ``validate`` divides a data set among the hosts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli import options, run, setting_options, throughput
from modelzoo.cli.output import INTERRUPTED, file_stem, kept_text, new_result, results_directory, tell
from modelzoo.cli.parser import Parser, help_texts
from modelzoo.cli.selection import select_settings
from modelzoo.cli.validate import ESSENTIAL as OF_VALIDATE
from modelzoo.cli.validate import Judgements
from modelzoo.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.fleet.cluster import Cluster
    from modelzoo.fleet.hosts import HostResult
    from modelzoo.fleet.shards import ShardFiles
    from modelzoo.records.hosts import FleetHost
    from modelzoo.setting import Setting
    from modelzoo.workload import Workload

PURPOSES = {
    "run": "time the same settings on every host, and name the hosts that are slower than the others",
    "throughput": "find the number of instances with the highest throughput on every host, and name slower hosts",
    "validate": "judge predictions on a whole data set, divided among the hosts",
}
USAGE = """

The user starts a Dask scheduler, and one worker on every host (docs/scale.md):
  dask worker ADDRESS --nworkers 1 --nthreads 1 --resources host=1 --no-dashboard"""
COMPARISON, HOSTS = "fleet.json", "hosts"
"""In the directory that was named: the file that holds the comparison, and the directory of the hosts' results, which
'modelzoo report' and 'modelzoo compare' take as a whole."""
_ESSENTIAL = ("--json-dir",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of ``modelzoo fleet``."""
    parser.description = (parser.description or "") + USAGE
    commands = parser.add_subparsers(dest="fleet_command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, purpose in PURPOSES.items():
        command = commands.add_parser(name, help=purpose, **help_texts(f"fleet {name}", purpose))
        {"run": _add_run, "throughput": _add_throughput, "validate": _add_validate}[name](command)


def _add_run(parser: Parser) -> None:
    run.add_measurement(parser)
    _add_own(parser)
    parser.show_first(*run.ESSENTIAL, *_ESSENTIAL)
    parser.set_defaults(command_function=run_command)


def _add_throughput(parser: Parser) -> None:
    throughput.add_measurement(parser)
    parser.add_argument("-o", "--output", "--json", help=argparse.SUPPRESS)  # the error says what to give instead
    _add_own(parser)
    parser.show_first(*throughput.ESSENTIAL, *_ESSENTIAL)
    parser.set_defaults(command_function=throughput_command)


def _add_own(parser: argparse.ArgumentParser) -> None:
    """Add what the hosts are not told."""
    parser.add_argument(
        "--json-dir",
        type=Path,
        metavar="DIR",
        help="directory for the results of all hosts and their comparison (default: results/fleet-TIME)",
    )
    _add_scheduler(parser)


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler",
        required=True,
        metavar="ADDRESS",
        help="address of the Dask scheduler: tcp://10.0.0.1:8786, or tls://… with the certificates of Dask's "
        "configuration",
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
        help="directory for finished shards; a later call uses them again",
    )
    group.add_argument(
        "--shard-items",
        type=int,
        metavar="N",
        help="items per shard, rounded up to whole batches (default: a hundredth of the data set)",
    )
    _add_scheduler(parser)
    parser.show_first(*OF_VALIDATE)
    parser.set_defaults(command_function=validate_command, vary=[], setting=[], baseline=None)


def run_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet run``; return the exit code.

    Returns:
        the largest of the hosts' ``modelzoo run``, and 2 if a host did not measure.
    """
    select_settings(args, "fp32,bf16")  # a mistake is found before anything is sent
    return _measure(args)


def throughput_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet throughput``; return the exit code, as ``run_command``."""
    if args.output is not None:
        raise UsageError("-o is for one host; name a directory for the results of all hosts with --json-dir DIR")
    return _measure(args)


def _measure(args: argparse.Namespace) -> int:
    """Run the command on every host, write each result as it comes, and compare the hosts."""
    from modelzoo.document import terminal
    from modelzoo.fleet.cluster import connected
    from modelzoo.fleet.hosts import HostResult
    from modelzoo.records.hosts import FleetHost
    from modelzoo.results import store
    from modelzoo.views.fleet import ticks_text

    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_own(own)
    words = tuple(own.parse_known_args(args.words[args.words.index("fleet") + 1 :])[1])
    directory, out = _directory(args), terminal.console()
    hosts: dict[str, FleetHost] = {}
    results: dict[str, HostResult] = {}
    codes = [0]
    try:
        with connected(args.scheduler, f"results are kept in {directory}") as cluster:
            _greet(args.scheduler, cluster, out)
            if slow := cluster.slow_ticks():
                out.print(ticks_text(slow), style="yellow", soft_wrap=True)
            _clear(directory)
            names = [member.name for member in cluster.members]
            for member, measured in cluster.measure(words, str(Path.cwd())):
                path, problem = directory / HOSTS / f"host-{names.index(member.name)}.json", measured.problem
                place: Path | None = None
                if measured.result and not problem:
                    place, problem = store.keep(path, measured.result)
                if place is not None:
                    results[member.name] = HostResult(member.name, store.read(place))
                elif not problem:
                    problem = "it wrote no result"
                hosts[member.name] = FleetHost(
                    member.name, problem="" if place else problem, result=str(place) if place else None
                )
                codes.append(2 if problem else measured.code)
                said = (
                    f"has measured: {kept_text(problem, place) if problem else place}"
                    if place
                    else f"cannot measure: {problem}"
                )
                out.print(f"host {member.name} {said}", soft_wrap=True)
    except KeyboardInterrupt:
        tell(f"modelzoo: interrupted; the results of {len(results)} hosts are in {directory / HOSTS}")
        return INTERRUPTED
    _compare([hosts[name] for name in names], [results[name] for name in names if name in results], directory, out)
    return max(codes)


def _greet(address: str, cluster: Cluster, out: Console) -> None:
    from modelzoo.fleet.cluster import is_open
    from modelzoo.views.fleet import open_text

    if is_open(address):
        out.print(open_text(address), style="yellow", soft_wrap=True)
    out.print(f"hosts: {', '.join(member.name for member in cluster.members)}", soft_wrap=True)


def _directory(args: argparse.Namespace) -> Path:
    if args.json_dir is not None:
        return Path(args.json_dir)
    from modelzoo.records.run import now
    from modelzoo.results.store import reserve

    return reserve(results_directory() / f"fleet-{file_stem(now())}", Path.mkdir)


def _clear(directory: Path) -> None:
    """Remove what an earlier call has left: the results of hosts that do not measure now would count as new ones.

    Raises:
        UsageError: it cannot be removed, or the directory cannot be made.
    """
    try:
        (directory / HOSTS).mkdir(parents=True, exist_ok=True)
        for path in (directory / COMPARISON, *(directory / HOSTS).glob("host-*.json")):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {directory}: {error.strerror}; name another directory with --json-dir DIR"
        ) from error


def _compare(hosts: Sequence[FleetHost], results: Sequence[HostResult], directory: Path, out: Console) -> None:
    """Compare the hosts of each kind, and print and write what was found.

    Raises:
        InputError: two hosts ran other weights.
        UsageError: the comparison cannot be written.
    """
    from modelzoo.document import terminal
    from modelzoo.fleet.hosts import kinds
    from modelzoo.records.codec import encode_json
    from modelzoo.records.hosts import FleetComparison
    from modelzoo.records.throughput import Throughput
    from modelzoo.results import store
    from modelzoo.views.fleet import comparison_document, total_line

    _check_weights(results)
    comparison = FleetComparison(tuple(hosts), kinds(results))
    out.print()
    terminal.show(comparison_document(comparison), out)
    instances = [each.result for each in results if isinstance(each.result.payload, Throughput)]
    if instances:
        out.print(total_line(instances), soft_wrap=True)
    path, problem = store.keep(directory / COMPARISON, encode_json(comparison) + b"\n")
    out.print(f"results: {directory / HOSTS}, comparison: {path or 'in no file'}", soft_wrap=True)
    if problem:
        raise UsageError(kept_text(problem, path))


def _check_weights(results: Sequence[HostResult]) -> None:
    first: dict[str, tuple[str, str]] = {}
    for each in results:
        for ran in each.result.runs:
            if ran.report is not None:
                sha = ran.report.prepared.weights.sha256
                host, known = first.setdefault(ran.workload, (each.host, sha))
                if sha != known:
                    raise InputError(
                        f"{ran.workload} has other weights on host {each.host} ({sha[:12]}) than on {host} "
                        f"({known[:12]}); give all hosts the same file"
                    )


def validate_command(args: argparse.Namespace) -> int:
    """Run ``modelzoo fleet validate``; return the exit code, that of ``modelzoo validate``."""
    from modelzoo.fleet.cluster import connected
    from modelzoo.fleet.shards import ShardFiles

    jobs, files = select_settings(args, "bf16"), ShardFiles(args.shards_dir)
    kept = f"finished shards are kept in {args.shards_dir}, run the same command again"
    judgements = Judgements(new_result(jobs, name=args.label), args)
    try:
        with connected(args.scheduler, kept) as cluster:
            _greet(args.scheduler, cluster, judgements.out)
            requested = [(work, setting) for work, settings in jobs for setting in settings]
            for group, (work, setting) in enumerate(requested):
                _judge(cluster, judgements, files, group, work, setting)
    except KeyboardInterrupt:
        tell(f"modelzoo: interrupted; {kept}")
        return INTERRUPTED
    return judgements.end()


def _judge(
    cluster: Cluster, judgements: Judgements, files: ShardFiles, group: int, work: Workload, setting: Setting
) -> None:
    """Judge one setting on all hosts, and write each shard as it comes."""
    from modelzoo.fleet.shards import open_shards, sharded_call
    from modelzoo.records.run import now
    from modelzoo.views.exhibits import ExhibitWriter

    args, started, out = judgements.args, now(), judgements.out
    judging = options.make_judging(args, work)
    call, writer = (
        sharded_call(work, setting, judging.request, args.shard_items, judging.timeout),
        ExhibitWriter(judging.output, work.name),
    )
    with open_shards(call, writer.write) as shards:
        total, missing = len(shards.plan.shards), files.missing(shards)
        reused = total - len(missing)
        if reused:
            out.print(f"{reused} of {total} shards are in {files.directory} already", soft_wrap=True)
        for done, judged in enumerate(cluster.judge(call, shards.plan, missing), start=reused + 1):
            files.write(judged.result)
            for each in judged.exhibits:
                writer.write(each)
            out.print(f"shard {done} of {total} is finished, by {judged.result.by.host}", soft_wrap=True)
        judgements.merge(work, setting, group, shards, files.results(shards.plan), writer, started, reused)
