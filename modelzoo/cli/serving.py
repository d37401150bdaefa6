"""The commands that start instances of a workload.

``modelzoo throughput``: how many instances, on how many cores each, with which batch. ``modelzoo load``: how many
requests a second they answer under a latency bound.
"""

from __future__ import annotations

import argparse
import itertools
import resource
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic

from rich.console import Console

from modelzoo.cli.files import machine_price, new_result, print_document, print_result, result_path, say_where, tell
from modelzoo.cli.measuring import REPEATS, Instances, Requests
from modelzoo.cli.options import Measurement, Output
from modelzoo.cli.run import measured
from modelzoo.cli.selection import select_one
from modelzoo.document import terminal
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine import facts
from modelzoo.machine.ceilings import kept_ceilings
from modelzoo.machine.linux import allowed_cpus
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request, only_silence, required
from modelzoo.records.machine import Machine, Topology
from modelzoo.records.race import Configuration, ConfigurationRun, InstancePlace, Throughput
from modelzoo.records.run import Result
from modelzoo.records.serving import GeneratorPlace, Load, LoadPlan, LoadSession, Scenario
from modelzoo.results import load as loads
from modelzoo.results import throughput as throughputs
from modelzoo.results.store import ResultFile
from modelzoo.serve import places as planning
from modelzoo.serve import search
from modelzoo.serve.configurations import Search, failure, least_effort
from modelzoo.serve.generator import Server
from modelzoo.serve.search import (
    CALIBRATION_SECONDS,
    Deployment,
    fixed_size,
    least_seconds,
    open_session,
)
from modelzoo.setting import Setting
from modelzoo.stats import race
from modelzoo.views import load as load_view
from modelzoo.views import throughput as throughput_view
from modelzoo.views.plots import Plot, scatter
from modelzoo.views.progress import LiveProgress, plan_of_instances, plan_of_load, silence_line
from modelzoo.workload import Workload

MOST = 64
"""Configurations of one call; more would take hours, and are more likely a mistake."""
Split = tuple[int, int, int]
"""Instances, cores per instance, batch."""
_FILES = 3
"""Open files for each instance: its input, its output, and what it prints to stderr."""
_OTHER_FILES = 100
"""Open files besides; a call has about 20."""


def check_setting(args: argparse.Namespace) -> None:
    """Refuse options of a setting that instances cannot have; raises ``UsageError``."""
    if args.threads is not None:
        raise UsageError("--threads follows from the cores of an instance; give --cores-per-instance N instead")
    if args.device != "cpu":
        raise UsageError(f"instances share the cores of this machine; --device {args.device} is not supported")
    if args.include_copies:
        raise UsageError("--include-copies is for accelerators, and instances run on CPUs; leave it out")


def read_host() -> tuple[Machine, Topology]:
    """Return this machine, and the cores that instances may use.

    Raises:
        UsageError: nothing can be timed on it.
    """
    machine, topology = facts.read_machine(), facts.read_topology()
    if machine.emulator:
        raise UsageError(f"nothing can be timed under {machine.emulator}; run it on the machine itself")
    return machine, topology


def allow_open_files(instances: int) -> None:
    """Raise the limit on this process's open files, if necessary, to that of so many instances at the same time.

    Raises:
        UsageError: the hard limit is lower.
    """
    needed = instances * _FILES + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{instances} instances take {needed} open files, and this process may have {hard}: raise the hard limit "
            "(ulimit -Hn), or give fewer --instances"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def end(named: str | None, stored: ResultFile, plot: Plot | None, out: Console) -> None:
    """Say where the result is, and write the plot and say where that is.

    Args:
        named: the plot's file; ``None`` stands for one beside the result.
        stored: the result.
        plot: the plot; ``None`` if there is nothing to draw.
        out: printed to.

    Raises:
        UsageError: the plot cannot be written.
    """
    say_where(stored, out.print)
    path = Path(named) if named else stored.path.with_suffix(".svg")
    try:
        if plot is not None:
            out.print(f"plot: {plot.write(path)}")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with --plot FILE") from error


def throughput(args: argparse.Namespace, wanted: Instances, how: Measurement, output: Output) -> int:
    """Run ``modelzoo throughput``.

    Returns:
        0; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, the setting cannot run, or instances died and nothing could be
            measured.
    """
    check_setting(args)
    if wanted.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, not {wanted.rounds}")
    if wanted.seconds is not None and not wanted.seconds > 0:
        raise UsageError("--seconds must be over 0")
    work, result = _new(args, wanted, output.label)
    if output.dry_run:
        found = throughputs.of(result)
        stages = race.sizes(len(found.configurations))
        print_document(plan_of_instances(found, stages, *least_effort(found, wanted.seconds)))
        return 0
    stored = ResultFile(result_path(output.output, result.created), result)
    settings = tuple(requested.setting for requested in stored.result.requested)
    request = Request(work, settings, how.plan, audit=not how.no_audit, timeout=how.timeout)

    def measure(progress: LiveProgress) -> None:
        progress.begin(None)
        started = monotonic()

        def ended(run: ConfigurationRun) -> None:
            """Say how long the rest takes, if its rounds take as long as those so far."""
            found, spent = throughputs.of(stored.result), monotonic() - started
            planned, _ = least_effort(found, wanted.seconds)
            progress.begin(spent * max(1.0, planned / len(found.runs)), spent=spent)

        Search(stored, request, wanted.seconds, progress.update, ended).run()

    def show(out: Console, ended_early: bool) -> int:
        problem = failure(stored)
        if problem is not None and not ended_early:
            raise problem
        out.print()
        terminal.show(throughput_view.document(stored.result), out)
        line = throughput_view.command(stored.result, args.workload)
        if line is not None:
            out.print(f"command: {line}")
        print_result(stored, (), output.output)
        end(wanted.plot, stored, scatter.frontier(stored.result), out)
        return 0

    return measured(stored, measure, show, lambda result: throughputs.of(result).runs, "rounds of configurations")


def _new(args: argparse.Namespace, wanted: Instances, label: str) -> tuple[Workload, Result]:
    """Plan the configurations.

    Raises:
        UsageError: none fits into this machine.
    """
    machine, topology = read_host()
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
    allow_open_files(max(each.instances for each in configurations))
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


def load(args: argparse.Namespace, wanted: Requests, how: Measurement, output: Output) -> int:
    """Run ``modelzoo load``.

    Returns:
        0 if the run is VALID, or every repeat of a search found a rate; 1 if not; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, or the setting cannot run.
    """
    _check(args, wanted)
    work, setting, planned, places, generator = _planned(args, wanted)
    if output.dry_run:
        seconds = least_seconds(planned.plan)
        print_document(plan_of_load(planned, places, generator, seconds, CALIBRATION_SECONDS))
        return 0
    request = Request(work, (setting,), how.plan, audit=not how.no_audit, timeout=how.timeout)
    on_event = only_silence(lambda event: tell(silence_line(event)))
    (prepared,) = jobs.prepare(request, on_event)
    required(prepared)
    result = replace(new_result([(work, (setting,))], name=output.label), payload=planned)
    stored = ResultFile(result_path(output.output, result.created), result)
    site = Deployment(request, prepared, places, generator, on_event)

    def show(out: Console, ended_early: bool) -> int:
        found = loads.of(stored.result)
        if found.runs:
            out.print()
            terminal.show(load_view.document(found), out)
            print_result(stored, (), output.output)
            end(wanted.plot, stored, scatter.load_curve(found), out)
        line = load_view.command(stored.result.command, found)
        if line is not None and not ended_early:
            out.print(f"command: {line}")
        return 0 if loads.is_valid(found) else 1

    return measured(
        stored,
        lambda progress: _measure(site, stored, progress),
        show,
        lambda result: loads.of(result).runs,
        is_live=False,
    )


def _check(args: argparse.Namespace, wanted: Requests) -> None:
    """Raise ``UsageError`` for what makes no sense, before anything is started."""
    scenario, rate = wanted.scenario, wanted.rate
    if scenario is Scenario.SERVER:
        if (rate is None) == (not wanted.find):
            raise UsageError("give either --rate R, or --find with --slo, or another --scenario")
        if rate is not None and not 0 < rate < 1e6:
            raise UsageError(f"--rate must be over 0 and below a million, not {rate:g}")
        if wanted.find and wanted.slo is None:
            raise UsageError("--find needs the bound to be met: --slo p99=50ms")
    elif rate is not None or wanted.find or wanted.slo is not None:
        raise UsageError(f"--scenario {scenario} has neither a rate nor a bound; leave --rate, --find and --slo out")
    if scenario is Scenario.SINGLE_STREAM and ((wanted.instances or 1) > 1 or (args.batch or 1) > 1):
        raise UsageError("--scenario single-stream has one request at a time; leave --instances and --batch out")
    for name in ("queries", "repeats", "queue", "instances", "cores_per_instance"):
        value = getattr(wanted, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be 1 or more, not {value}")
    if wanted.duration is not None and not wanted.duration > 0:
        raise UsageError("--duration must be over 0")
    check_setting(args)


def _planned(
    args: argparse.Namespace, wanted: Requests
) -> tuple[Workload, Setting, Load, tuple[InstancePlace, ...], GeneratorPlace]:
    """Plan everything that does not need an engine: what is run, the load, and the CPUs of instances and generator.

    Raises:
        UsageError: it does not fit into this machine.
    """
    machine, topology = read_host()
    instances = wanted.instances or 1
    cores = wanted.cores_per_instance or planning.cores_beside_generator(topology, instances)
    places = planning.plan(topology, instances, cores)
    allow_open_files(instances)
    batch = 1 if wanted.scenario is Scenario.SINGLE_STREAM else args.batch
    work, (setting,) = select_one(args, batch=batch, threads=len(places[0].cpus))
    load_plan = LoadPlan(
        scenario=wanted.scenario,
        instances=instances,
        cores_per_instance=cores,
        batch=setting.batch or work.batch,
        max_wait=wanted.max_wait,
        queue=wanted.queue,
        rate=wanted.rate,
        bound=wanted.slo,
        is_search=wanted.find,
        repeats=wanted.repeats or (REPEATS if wanted.find else 1),
        queries=wanted.queries,
        duration=wanted.duration,
        seed=args.seed,
    )
    found = Load(work.name, work.unit, machine, topology, load_plan, fixed_size(setting, load_plan.batch))
    return work, setting, found, places, planning.generator_place(topology, places, allowed_cpus())


def _measure(site: Deployment, stored: ResultFile, progress: LiveProgress) -> None:
    """Run everything, and store each run as it ends."""

    def on_session(session: LoadSession) -> None:
        on_end(session)
        for line in load_view.session_lines(session, loads.of(stored.result)):
            progress.say(line)

    def on_end(session: LoadSession) -> None:
        stored.set_payload(loads.of(stored.result).plus_session(session))

    def opened(repeat: int) -> AbstractContextManager[tuple[Server, LoadSession]]:
        return open_session(site, loads.of(stored.result), repeat, on_end, extras=repeat == 0)

    for run in search.runs(loads.of(stored.result), opened, on_session):
        stored.set_payload(loads.of(stored.result).plus(run))
        progress.say(load_view.run_line(run, loads.of(stored.result)))
    stored.set_payload(replace(loads.of(stored.result), is_complete=True))
