"""``modelzoo load``: how many requests a second a workload answers under a latency bound."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager

from rich.console import Console

from modelzoo.cli import serving
from modelzoo.cli.measuring import REPEATS, Requests
from modelzoo.cli.options import Measurement, Output
from modelzoo.cli.output import new_result, print_document, print_result, result_path, tell
from modelzoo.cli.selection import select_one
from modelzoo.cli.session import measured
from modelzoo.document import terminal
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.linux import allowed_cpus
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request, only_silence, required
from modelzoo.records.race import InstancePlace
from modelzoo.records.serving import GeneratorPlace, Load, LoadPlan, LoadSession, Scenario
from modelzoo.results import load as results
from modelzoo.results.store import ResultFile
from modelzoo.serve import places as planning
from modelzoo.serve import search
from modelzoo.serve.runs import CALIBRATION_SECONDS, least_seconds
from modelzoo.serve.search import CalibratedInstances, Deployment, fixed_size, open_session
from modelzoo.setting import Setting
from modelzoo.views import load as report
from modelzoo.views import plan
from modelzoo.views.plots import scatter
from modelzoo.views.progress import LiveProgress, silence_line
from modelzoo.workload import Workload


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
        print_document(plan.load_document(planned, places, generator, seconds, CALIBRATION_SECONDS))
        return 0
    request = Request(work, (setting,), how.plan, audit=not how.no_audit, timeout=how.timeout)
    on_event = only_silence(lambda event: tell(silence_line(event)))
    (prepared,) = jobs.prepare(request, on_event)
    required(prepared)
    result = replace(new_result([(work, (setting,))], name=output.label), payload=planned)
    stored = ResultFile(result_path(output.output, result.created), result)
    site = Deployment(request, prepared, places, generator, on_event)

    def show(out: Console, ended_early: bool) -> int:
        found = results.of(stored.result)
        if found.runs:
            out.print()
            terminal.show(report.document(found), out)
            print_result(stored, (), output.output)
            serving.end(wanted.plot, stored, scatter.load_curve(found), out)
        line = report.command(stored.result.command, found)
        if line is not None and not ended_early:
            out.print(f"command: {line}")
        return 0 if results.is_valid(found) else 1

    return measured(
        stored,
        lambda progress: _measure(site, stored, progress),
        show,
        lambda: len(results.of(stored.result).runs),
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
    serving.check_setting(args)


def _planned(
    args: argparse.Namespace, wanted: Requests
) -> tuple[Workload, Setting, Load, tuple[InstancePlace, ...], GeneratorPlace]:
    """Plan everything that does not need an engine: what is run, the load, and the CPUs of instances and generator.

    Raises:
        UsageError: it does not fit into this machine.
    """
    machine, topology = serving.read_host()
    instances = wanted.instances or 1
    cores = wanted.cores_per_instance or planning.cores_beside_generator(topology, instances)
    places = planning.plan(topology, instances, cores)
    serving.allow_open_files(instances)
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
        for line in report.session_lines(session, results.of(stored.result)):
            progress.say(line)

    def on_end(session: LoadSession) -> None:
        stored.set_payload(results.of(stored.result).plus_session(session))

    def opened(repeat: int) -> AbstractContextManager[CalibratedInstances]:
        return open_session(site, results.of(stored.result), repeat, on_end, extras=repeat == 0)

    for run in search.runs(results.of(stored.result), opened, on_session):
        stored.set_payload(results.of(stored.result).plus(run))
        progress.say(report.run_line(run, results.of(stored.result)))
    stored.set_payload(replace(results.of(stored.result), is_complete=True))
