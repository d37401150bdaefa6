"""``modelzoo throughput``: how many instances of a workload, on how many cores each, with which batch."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from modelzoo.cli import options, serving, setting_options
from modelzoo.cli.input_files import machine_price
from modelzoo.cli.output import ended_early, new_result, print_document, print_result, result_path, stored_code
from modelzoo.cli.parser import Parser, duration, whole_numbers
from modelzoo.cli.selection import select_one
from modelzoo.cli.serving import latency_bound
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.plan import Plan
from modelzoo.records.race import StageKind
from modelzoo.records.throughput import Configuration, ConfigurationRun, Smt, Throughput
from modelzoo.setting import Setting
from modelzoo.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.records.machine import Topology
    from modelzoo.records.run import Result
    from modelzoo.results.store import ResultFile
    from modelzoo.views.progress import LiveProgress

ROUNDS = 4
"""Rounds of every configuration, unless another number is given."""
MOST = 64
"""Configurations of one call; more would take hours, and are more likely a mistake."""
Split = tuple[int, int, int]
"""Instances, cores per instance, batch."""
ESSENTIAL = (
    *("--instances", "--cores-per-instance", "--slo", "--price", "--rounds", "--bf16", "--mode", "--batch"),
    "--output",
)
"""Options that most calls need, which ``--help`` shows."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo throughput``."""
    add_measurement(parser)
    options.add_output(parser)
    options.add_dry_run(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=throughput)


def add_measurement(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is measured, and how; ``modelzoo fleet throughput`` has the same."""
    setting_options.add_workload(parser)
    group = parser.add_argument_group("instances")
    group.add_argument(
        "--instances",
        type=_instances,
        metavar="N1,N2,…",
        help="numbers of instances, or auto (default): as many as fit with --cores-per-instance; else search the ways "
        "to divide the whole machine, and keep the faster half after each stage",
    )
    group.add_argument(
        "--cores-per-instance",
        type=whole_numbers,
        metavar="N1,N2,…",
        help="physical cores of each instance, all of one NUMA node (default: as many as fit)",
    )
    group.add_argument(
        "--smt",
        choices=[str(each) for each in Smt],
        default=str(Smt.OFF),
        help="off (default): one thread on each core, its sibling idle; on: a thread on every hardware thread",
    )
    group.add_argument(
        "--slo",
        type=latency_bound,
        metavar="BOUND",
        help="bound on the latency of a batch: p99=50ms, p90=1.5s (default: none)",
    )
    group.add_argument(
        "--price",
        metavar="PRICE",
        help="price of the machine per hour, or @FILE for a price list: adds the cost per million items",
    )
    group = parser.add_argument_group("measurement")
    group.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        metavar="N",
        help="rounds, each with fresh processes, and as many again for the best of several configurations (default "
        f"{ROUNDS})",
    )
    group.add_argument(
        "--seconds",
        type=duration,
        metavar="TIME",
        help="how long all instances run in each round: 10s, 1m (default: as long as each of them needs for 50 "
        "batches, at least 5 s; with --slo longer, 20 s to 1m)",
    )
    options.add_warmup(group)
    options.add_no_audit(group)
    setting_options.add_setting(parser, several_batches=True, for_instances=True)
    serving.add_plot(parser)


def _instances(text: str) -> tuple[int, ...] | None:
    return None if text == "auto" else whole_numbers(text)


def throughput(args: argparse.Namespace) -> int:
    """Run ``modelzoo throughput``.

    Returns:
        0; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, the setting cannot run, or instances died and nothing could be
            measured.
    """
    from modelzoo.document import terminal
    from modelzoo.measure.jobs import Request
    from modelzoo.results import throughput as results
    from modelzoo.results.store import ResultFile
    from modelzoo.serve.configurations import Search, failure, least_effort
    from modelzoo.stats import race
    from modelzoo.views import plan
    from modelzoo.views.progress import LiveProgress

    _check(args)
    work, result = _new(args)
    if args.dry_run:
        found = results.of(result)
        stages = race.sizes(len(found.configurations))
        print_document(plan.instances_document(found, stages, *least_effort(found, args.seconds)))
        return 0
    stored = ResultFile(result_path(args.output, result.created), result)
    out = terminal.console()
    settings = tuple(requested.setting for requested in stored.result.requested)
    request = Request(work, settings, Plan(args.warmup), audit=not args.no_audit, timeout=args.timeout)
    interrupted = False
    with LiveProgress(out, stored.result) as progress:
        progress.begin(None)
        search = Search(stored, request, args.seconds, progress.update, _Expectation(stored, progress).ended)
        try:
            search.run()
        except KeyboardInterrupt:
            interrupted = True
    problem = failure(stored)
    if problem is not None and not interrupted:
        raise problem
    _show(args, stored, out)
    code = stored_code(stored, 0)
    if interrupted:
        return ended_early(stored, len(search.found.runs), "rounds of configurations")
    return code


class _Expectation:
    """Says how long the rest takes: as long as the rounds so far did."""

    def __init__(self, stored: ResultFile, progress: LiveProgress) -> None:
        self._stored, self._progress, self._started = stored, progress, monotonic()

    def ended(self, run: ConfigurationRun) -> None:
        """Take note of a configuration that has been measured once more."""
        from modelzoo.results import throughput as results

        found, spent = results.of(self._stored.result), monotonic() - self._started
        if found.is_search:  # how much is dropped depends on what is measured
            return
        done, total = len(found.runs), found.rounds * len(found.open())
        if len(found.open()) > 1:  # the best one and its baseline are measured again
            confirmation = found.stage(StageKind.CONFIRMATION)
            total += found.rounds * (2 if confirmation is None else len(confirmation.entrants))
        self._progress.begin(spent * max(1.0, total / done), spent=spent)


def _check(args: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what makes no sense, before anything is started."""
    serving.check_setting(args)
    if args.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, not {args.rounds}")
    if args.seconds is not None and not args.seconds > 0:
        raise UsageError("--seconds must be over 0")


def _new(args: argparse.Namespace) -> tuple[Workload, Result]:
    """Plan the configurations.

    Raises:
        UsageError: none fits into this machine.
    """
    from modelzoo.machine.ceilings import kept_ceilings
    from modelzoo.serve.places import plan, quota_in_cores

    machine, topology = serving.read_host()
    smt = Smt(args.smt)
    batches: Sequence[int | None] = args.batch or (None,)
    # Batch and threads are those of a configuration.
    work, (base,) = select_one(args, batch=batches[0], threads=1)
    wanted = splits(args, quota_in_cores(topology, smt), [batch or work.batch for batch in batches])
    settings: list[Setting] = []
    configurations = []
    for instances, cores, batch in wanted:
        places = plan(topology, instances, cores, smt)
        setting = base.replace(batch=batch, threads=len(places[0].cpus))
        if setting not in settings:
            settings.append(setting)
        group = settings.index(setting)
        configurations.append(Configuration(group, instances, cores, batch, smt, places))
    serving.allow_open_files(max(each.instances for each in configurations))
    throughput = Throughput(
        workload=work.name,
        unit=work.unit if work.generate is None else "tokens",
        machine=machine,
        topology=topology,
        configurations=tuple(configurations),
        rounds=args.rounds,
        is_search=args.instances is None and args.cores_per_instance is None,
        bound=args.slo,
        ceilings=kept_ceilings(machine),
        price=None if args.price is None else machine_price(args.price, machine.instance_type),
        per_item=1 if work.generate is None else work.generate(base.options).new_tokens,
    )
    return work, replace(new_result([(work, tuple(settings))], name=args.label), payload=throughput)


def splits(args: argparse.Namespace, topology: Topology, batches: Sequence[int]) -> list[Split]:
    """Return the instances, cores and batches to try.

    Raises:
        UsageError: they do not fit, or are too many.
    """
    from modelzoo.serve import places as plan

    pairs: list[tuple[int, int]] = []
    if args.instances is None and args.cores_per_instance is None:
        pairs = list(plan.splits(topology))
    elif args.instances is None:
        pairs = [(max(1, plan.most_instances(topology, cores)), cores) for cores in args.cores_per_instance]
    elif args.cores_per_instance is None:
        pairs = [(count, max(1, plan.most_cores(topology, count))) for count in args.instances]
    else:
        pairs = list(itertools.product(args.instances, args.cores_per_instance))
    found = list(dict.fromkeys((count, cores, batch) for batch in batches for count, cores in pairs))
    if len(found) > MOST:
        raise UsageError(f"these are {len(found)} configurations, and {MOST} are the most; give fewer values")
    return found


def _show(args: argparse.Namespace, stored: ResultFile, out: Console) -> None:
    """Print what was found, and write the plot."""
    from modelzoo.document import terminal
    from modelzoo.views import throughput as report
    from modelzoo.views.plots import scatter

    out.print()
    terminal.show(report.document(stored.result), out)
    line = report.command(stored.result, args.workload)
    if line is not None:
        out.print(f"command: {line}", soft_wrap=True)
    print_result(stored, (), args.output)
    serving.end(args.plot, stored, scatter.frontier(stored.result), out)
