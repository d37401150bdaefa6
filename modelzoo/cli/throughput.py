"""``modelzoo throughput``: how many instances of a workload, on how many cores each, with which batch."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from time import monotonic

from rich.console import Console

from modelzoo.cli import serving
from modelzoo.cli.input_files import machine_price
from modelzoo.cli.measuring import Instances
from modelzoo.cli.options import Measurement, Output
from modelzoo.cli.output import new_result, print_document, print_result, result_path
from modelzoo.cli.selection import select_one
from modelzoo.cli.session import measured
from modelzoo.document import terminal
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.ceilings import kept_ceilings
from modelzoo.measure.jobs import Request
from modelzoo.records.machine import Topology
from modelzoo.records.race import Configuration, ConfigurationRun, Throughput
from modelzoo.records.run import Result
from modelzoo.results import throughput as results
from modelzoo.results.store import ResultFile
from modelzoo.serve import places as planning
from modelzoo.serve.configurations import Search, failure, least_effort
from modelzoo.setting import Setting
from modelzoo.stats import race
from modelzoo.views import plan
from modelzoo.views import throughput as report
from modelzoo.views.plots import scatter
from modelzoo.views.progress import LiveProgress
from modelzoo.workload import Workload

MOST = 64
"""Configurations of one call; more would take hours, and are more likely a mistake."""
Split = tuple[int, int, int]
"""Instances, cores per instance, batch."""


def throughput(args: argparse.Namespace, wanted: Instances, how: Measurement, output: Output) -> int:
    """Run ``modelzoo throughput``.

    Returns:
        0; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, the setting cannot run, or instances died and nothing could be
            measured.
    """
    serving.check_setting(args)
    if wanted.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, not {wanted.rounds}")
    if wanted.seconds is not None and not wanted.seconds > 0:
        raise UsageError("--seconds must be over 0")
    work, result = _new(args, wanted, output.label)
    if output.dry_run:
        found = results.of(result)
        stages = race.sizes(len(found.configurations))
        print_document(plan.instances_document(found, stages, *least_effort(found, wanted.seconds)))
        return 0
    stored = ResultFile(result_path(output.output, result.created), result)
    settings = tuple(requested.setting for requested in stored.result.requested)
    request = Request(work, settings, how.plan, audit=not how.no_audit, timeout=how.timeout)

    def measure(progress: LiveProgress) -> None:
        progress.begin(None)
        started = monotonic()

        def ended(run: ConfigurationRun) -> None:
            """Say how long the rest takes, if its rounds take as long as those so far."""
            found, spent = results.of(stored.result), monotonic() - started
            planned, _ = least_effort(found, wanted.seconds)
            progress.begin(spent * max(1.0, planned / len(found.runs)), spent=spent)

        Search(stored, request, wanted.seconds, progress.update, ended).run()

    def show(out: Console, ended_early: bool) -> int:
        problem = failure(stored)
        if problem is not None and not ended_early:
            raise problem
        out.print()
        terminal.show(report.document(stored.result), out)
        line = report.command(stored.result, args.workload)
        if line is not None:
            out.print(f"command: {line}")
        print_result(stored, (), output.output)
        serving.end(wanted.plot, stored, scatter.frontier(stored.result), out)
        return 0

    return measured(stored, measure, show, lambda: len(results.of(stored.result).runs), "rounds of configurations")


def _new(args: argparse.Namespace, wanted: Instances, label: str) -> tuple[Workload, Result]:
    """Plan the configurations.

    Raises:
        UsageError: none fits into this machine.
    """
    machine, topology = serving.read_host()
    smt = wanted.smt
    batches: Sequence[int | None] = args.batch or (None,)
    # Batch and threads are those of a configuration.
    work, (base,) = select_one(args, batch=batches[0], threads=1)
    available = planning.quota_in_cores(topology, smt)
    settings: list[Setting] = []
    configurations = []
    for instances, cores, batch in splits(wanted, available, [batch or work.batch for batch in batches]):
        places = planning.plan(topology, instances, cores, smt)
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
        rounds=wanted.rounds,
        is_search=wanted.instances is None and wanted.cores_per_instance is None,
        bound=wanted.slo,
        ceilings=kept_ceilings(machine),
        price=None if wanted.price is None else machine_price(wanted.price, machine.instance_type),
        per_item=1 if work.generate is None else work.generate(base.options).new_tokens,
    )
    return work, replace(new_result([(work, tuple(settings))], name=label), payload=throughput)


def splits(wanted: Instances, topology: Topology, batches: Sequence[int]) -> list[Split]:
    """Return the instances, cores and batches to try.

    Raises:
        UsageError: they do not fit, or are too many.
    """
    instances, each_cores = wanted.instances, wanted.cores_per_instance
    if instances is None and each_cores is None:
        pairs = list(planning.splits(topology))
    elif instances is not None and each_cores is not None:
        pairs = list(itertools.product(instances, each_cores))
    else:
        pairs = [(max(1, planning.most_instances(topology, cores)), cores) for cores in each_cores or ()]
        pairs += [(count, max(1, planning.most_cores(topology, count))) for count in instances or ()]
    found = list(dict.fromkeys((count, cores, batch) for batch in batches for count, cores in pairs))
    if len(found) > MOST:
        raise UsageError(f"these are {len(found)} configurations, and {MOST} are the most; give fewer values")
    return found
