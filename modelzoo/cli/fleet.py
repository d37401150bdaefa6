"""``modelzoo fleet``: run, throughput and validate on the hosts of a Dask cluster.

``run`` and ``throughput`` run the command of that name on every host at the same time, and name the hosts that are
slower than the others. ``validate`` divides a data set among the hosts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from modelzoo.cli.files import INTERRUPTED, file_stem, kept_text, new_result, results_directory, stored_code, tell
from modelzoo.cli.options import Accuracy, Fleet, Output, Shards
from modelzoo.cli.run import make_judging
from modelzoo.cli.selection import select_settings
from modelzoo.cli.validate import Judgements
from modelzoo.document import terminal
from modelzoo.errors import InputError, UsageError
from modelzoo.fleet.cluster import Cluster, connected, is_open
from modelzoo.fleet.hosts import HostResult, kinds
from modelzoo.fleet.shards import ShardFiles, open_shards, sharded_call
from modelzoo.option import add_options
from modelzoo.records import run as records
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import FleetComparison, FleetHost
from modelzoo.records.race import Throughput
from modelzoo.results import store
from modelzoo.results.store import reserve
from modelzoo.views.exhibits import ExhibitWriter
from modelzoo.views.fleet import comparison_document, open_text, ticks_text, total_line

COMPARISON, HOSTS = "fleet.json", "hosts"
"""In the directory that was named: the file that holds the comparison, and the directory of the hosts' results, which
'modelzoo report' and 'modelzoo compare' take as a whole."""


def run_command(args: argparse.Namespace, fleet: Fleet) -> int:
    """Run ``modelzoo fleet run``; return the exit code.

    Returns:
        the largest of the hosts' ``modelzoo run``, and 2 if a host did not measure.
    """
    select_settings(args, "fp32,bf16")  # a mistake is found before anything is sent
    return _measure(args.words, fleet)


def throughput_command(args: argparse.Namespace, fleet: Fleet) -> int:
    """Run ``modelzoo fleet throughput``; return the exit code, as ``run_command``."""
    if args.output is not None:
        raise UsageError("-o is for one host; name a directory for the results of all hosts with --json-dir DIR")
    return _measure(args.words, fleet)


def _measure(words: Sequence[str], fleet: Fleet) -> int:
    """Run the command on every host, write each result as it comes, and compare the hosts."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_options(own, Fleet)
    told = tuple(own.parse_known_args(words[words.index("fleet") + 1 :])[1])
    directory, out = directory_of(fleet), terminal.console()
    hosts: dict[str, FleetHost] = {}
    results: dict[str, HostResult] = {}
    codes = [0]
    try:
        with connected(fleet.scheduler, f"results are kept in {directory}") as cluster:
            _greet(fleet.scheduler, cluster, out)
            if slow := [member.name for member in cluster.members if member.is_slow]:
                out.print(ticks_text(slow), style="yellow")
            _clear(directory)
            names = [member.name for member in cluster.members]
            for member, measured in cluster.measure(told, str(Path.cwd())):
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
                out.print(f"host {member.name} {said}")
    except KeyboardInterrupt:
        tell(f"modelzoo: interrupted; the results of {len(results)} hosts are in {directory / HOSTS}")
        return INTERRUPTED
    _compare([hosts[name] for name in names], [results[name] for name in names if name in results], directory, out)
    return max(codes)


def _greet(address: str, cluster: Cluster, out: Console) -> None:
    if is_open(address):
        out.print(open_text(address), style="yellow")
    out.print(f"hosts: {', '.join(member.name for member in cluster.members)}")


def directory_of(fleet: Fleet) -> Path:
    """Return the directory that was named, or a new one called after the time of the call."""
    if fleet.json_dir is not None:
        return fleet.json_dir
    return reserve(results_directory() / f"fleet-{file_stem(records.now())}", Path.mkdir)


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
    _check_weights(results)
    comparison = FleetComparison(tuple(hosts), kinds(results))
    out.print()
    terminal.show(comparison_document(comparison), out)
    instances = [each.result for each in results if isinstance(each.result.payload, Throughput)]
    if instances:
        out.print(total_line(instances))
    path, problem = store.keep(directory / COMPARISON, encode_json(comparison) + b"\n")
    out.print(f"results: {directory / HOSTS}, comparison: {path or 'in no file'}")
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


def validate_command(
    args: argparse.Namespace, fleet: Fleet, divided: Shards, accuracy: Accuracy, output: Output
) -> int:
    """Run ``modelzoo fleet validate``: judge each setting on all hosts, and write each shard as it comes.

    Returns:
        the exit code of ``modelzoo validate``.
    """
    jobs, files = select_settings(args, "bf16"), ShardFiles(divided.shards_dir)
    kept = f"finished shards are kept in {divided.shards_dir}, run the same command again"
    judgements = Judgements(new_result(jobs, name=output.label), output.output)
    out = judgements.out
    try:
        with connected(fleet.scheduler, kept) as cluster:
            _greet(fleet.scheduler, cluster, out)
            requested = [(work, setting) for work, settings in jobs for setting in settings]
            for group, (work, setting) in enumerate(requested):
                started = records.now()
                request, folder = make_judging(accuracy, work)
                call = sharded_call(work, setting, request, divided.shard_items, accuracy.timeout)
                writer = ExhibitWriter(folder, work.name)
                with open_shards(call, writer.write) as shards:
                    total, missing = len(shards.plan.shards), files.missing(shards)
                    reused = total - len(missing)
                    if reused:
                        out.print(f"{reused} of {total} shards are in {files.directory} already")
                    judged = cluster.judge(call, shards.plan, missing)
                    for done, (result, exhibits) in enumerate(judged, start=reused + 1):
                        files.write(result)
                        for each in exhibits:
                            writer.write(each)
                        out.print(f"shard {done} of {total} is finished, by {result.by.host}")
                    found = files.results(shards.plan)
                    judgements.merge(work, setting, group, shards, found, writer, started, reused)
    except KeyboardInterrupt:
        tell(f"modelzoo: interrupted; {kept}")
        return INTERRUPTED
    return stored_code(judgements.stored, judgements.end())
