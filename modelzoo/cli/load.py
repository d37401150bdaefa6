"""``modelzoo load``: how many requests a second a workload answers under a latency bound."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from modelzoo.cli import options, serving, setting_options
from modelzoo.cli.output import ended_early, new_result, print_document, print_result, result_path, stored_code, tell
from modelzoo.cli.parser import Parser, duration, short_time
from modelzoo.cli.selection import select_one
from modelzoo.cli.serving import latency_bound
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.plan import Plan
from modelzoo.records.load import GeneratorPlace, Load, LoadPlan, LoadSession, Scenario
from modelzoo.records.throughput import InstancePlace
from modelzoo.setting import Setting
from modelzoo.workload import Workload

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.results.store import ResultFile
    from modelzoo.serve.search import CalibratedInstances
    from modelzoo.serve.session import Deployment

REPEATS = 3
"""How often a search is repeated with new instances, unless another number is given."""
QUEUE = 1000
"""Most requests that wait, unless another number is given."""
ESSENTIAL = (
    *("--rate", "--find", "--slo", "--scenario", "--duration", "--instances", "--cores-per-instance", "--max-wait"),
    *("--bf16", "--mode", "--batch", "--output"),
)
"""Options that most calls need, which ``--help`` shows."""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``modelzoo load``."""
    setting_options.add_workload(parser)
    _add_load(parser.add_argument_group("load"))
    group = parser.add_argument_group("instances")
    group.add_argument("--instances", type=int, metavar="N", help="number of instances (default 1)")
    group.add_argument(
        "--cores-per-instance",
        type=int,
        metavar="N",
        help="physical cores of each instance, all of one NUMA node (default: as many as fit beside a core for the "
        "load generator)",
    )
    group.add_argument(
        "--max-wait",
        type=short_time,
        default=0.0,
        metavar="TIME",
        help="how long a request may wait for others to fill its batch of at most --batch while an instance is "
        "idle: 5ms (default 0ms: a batch holds what arrived while all instances were busy)",
    )
    group.add_argument(
        "--queue", type=int, default=QUEUE, metavar="N", help=f"reject requests while N are waiting (default {QUEUE})"
    )
    options.add_warmup(group)
    options.add_no_audit(group)
    setting_options.add_setting(parser, for_instances=True)
    options.add_output(parser)
    options.add_dry_run(parser)
    serving.add_plot(parser)
    parser.show_first(*ESSENTIAL)
    parser.set_defaults(command_function=load)


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--rate", type=float, metavar="R", help="requests per second, with Poisson arrivals")
    group.add_argument(
        "--find", action="store_true", help="search for the highest rate that meets the bound of --slo, several times"
    )
    group.add_argument("--slo", type=latency_bound, metavar="BOUND", help="bound on the latency: p99=50ms, p90=1.5s")
    group.add_argument(
        "--scenario",
        choices=[str(each) for each in Scenario],
        default=str(Scenario.SERVER),
        help="server (default): requests arrive at random times; offline: all of them are there at the start; "
        "single-stream: each is sent when the one before has been answered",
    )
    group.add_argument("--queries", type=int, metavar="N", help="at least this many requests per run")
    group.add_argument("--duration", type=duration, metavar="TIME", help="requests arrive for at least this long: 60s")
    group.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help=f"repeats, each with new instances (default {REPEATS} with --find, else 1)",
    )


def load(args: argparse.Namespace) -> int:
    """Run ``modelzoo load``.

    Returns:
        0 if the run is VALID, or every repeat of a search found a rate; 1 if not; 130 if the user interrupted it.

    Raises:
        ModelzooError: the command line is not valid, or the setting cannot run.
    """
    from modelzoo.document import terminal
    from modelzoo.results import load as results
    from modelzoo.views import load as report
    from modelzoo.views.plots import scatter

    _check(args)
    planned = _planned(args)
    if args.dry_run:
        _show_plan(planned)
        return 0
    out = terminal.console()
    site, stored = _prepare(args, planned)
    interrupted = False
    try:
        _measure(args, site, stored, out)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        found = results.of(stored.result)
        if found.runs:
            out.print()
            terminal.show(report.document(found), out)
            print_result(stored, (), args.output)
            serving.end(args.plot, stored, scatter.load_curve(found), out)
    code = stored_code(stored, 0 if results.is_valid(found) else 1)
    if interrupted:
        return ended_early(stored, len(found.runs), "runs")
    line = report.command(stored.result.command, found)
    if line is not None:
        out.print(f"command: {line}", soft_wrap=True)
    return code


def _check(args: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what makes no sense, before anything is started."""
    _check_scenario(args)
    _check_numbers(args)
    serving.check_setting(args)


def _check_scenario(args: argparse.Namespace) -> None:
    scenario = Scenario(args.scenario)
    if scenario is Scenario.SERVER:
        if (args.rate is None) == (not args.find):
            raise UsageError("give either --rate R, or --find with --slo, or another --scenario")
        if args.rate is not None and not 0 < args.rate < 1e6:
            raise UsageError(f"--rate must be over 0 and below a million, not {args.rate:g}")
        if args.find and args.slo is None:
            raise UsageError("--find needs the bound to be met: --slo p99=50ms")
    elif args.rate is not None or args.find or args.slo is not None:
        raise UsageError(f"--scenario {scenario} has neither a rate nor a bound; leave --rate, --find and --slo out")
    if scenario is Scenario.SINGLE_STREAM and ((args.instances or 1) > 1 or (args.batch or 1) > 1):
        raise UsageError("--scenario single-stream has one request at a time; leave --instances and --batch out")


def _check_numbers(args: argparse.Namespace) -> None:
    for name in ("queries", "repeats", "queue", "instances", "cores_per_instance"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be 1 or more, not {value}")
    if args.duration is not None and not args.duration > 0:
        raise UsageError("--duration must be over 0")


class _Planned(NamedTuple):
    """What is known before anything is started."""

    work: Workload
    setting: Setting
    load: Load
    places: tuple[InstancePlace, ...]
    generator: GeneratorPlace


def _planned(args: argparse.Namespace) -> _Planned:
    """Plan everything that does not need an engine.

    Raises:
        UsageError: it does not fit into this machine.
    """
    from modelzoo.machine.linux import allowed_cpus
    from modelzoo.serve import places as planning
    from modelzoo.serve.session import fixed_size

    machine, topology = serving.read_host()
    instances = args.instances or 1
    cores = args.cores_per_instance or planning.cores_beside_generator(topology, instances)
    places = planning.plan(topology, instances, cores)
    serving.allow_open_files(instances)
    batch = 1 if Scenario(args.scenario) is Scenario.SINGLE_STREAM else args.batch
    work, (setting,) = select_one(args, batch=batch, threads=len(places[0].cpus))
    plan = LoadPlan(
        scenario=Scenario(args.scenario),
        instances=instances,
        cores_per_instance=cores,
        batch=setting.batch or work.batch,
        max_wait=args.max_wait,
        queue=args.queue,
        rate=args.rate,
        bound=args.slo,
        is_search=args.find,
        repeats=args.repeats or (REPEATS if args.find else 1),
        queries=args.queries,
        duration=args.duration,
        seed=args.seed,
    )
    found = Load(work.name, work.unit, machine, topology, plan, fixed_size(setting, plan.batch))
    return _Planned(work, setting, found, places, planning.generator_place(topology, places, allowed_cpus()))


def _show_plan(planned: _Planned) -> None:
    """Print what the call would measure."""
    from modelzoo.serve.runs import CALIBRATION_SECONDS, least_seconds
    from modelzoo.views import plan

    seconds = least_seconds(planned.load.plan)
    print_document(plan.load_document(planned.load, planned.places, planned.generator, seconds, CALIBRATION_SECONDS))


def _prepare(args: argparse.Namespace, planned: _Planned) -> tuple[Deployment, ResultFile]:
    """Resolve the setting, and write the file of the result."""
    from modelzoo.measure import jobs
    from modelzoo.measure.jobs import Request, only_silence, required
    from modelzoo.results.store import ResultFile
    from modelzoo.serve.session import Deployment
    from modelzoo.views.progress import silence_line

    work, setting = planned.work, planned.setting
    request = Request(work, (setting,), Plan(args.warmup), audit=not args.no_audit, timeout=args.timeout)
    on_event = only_silence(lambda event: tell(silence_line(event)))
    (prepared,) = jobs.prepare(request, on_event)
    required(prepared)
    result = replace(new_result([(work, (setting,))], name=args.label), payload=planned.load)
    stored = ResultFile(result_path(args.output, result.created), result)
    return Deployment(request, prepared, planned.places, planned.generator, on_event), stored


def _measure(args: argparse.Namespace, site: Deployment, stored: ResultFile, out: Console) -> None:
    """Run everything, and store each run as it ends."""
    from modelzoo.results import load as results
    from modelzoo.serve import search
    from modelzoo.serve.session import open_session
    from modelzoo.views import load as report

    def keep(found: Load) -> None:
        stored.set_payload(found)

    def on_session(session: LoadSession) -> None:
        keep(results.of(stored.result).plus_session(session))
        for line in report.session_lines(session, results.of(stored.result)):
            out.print(line, soft_wrap=True)

    def on_end(session: LoadSession) -> None:
        keep(results.of(stored.result).plus_session(session))

    def opened(repeat: int) -> AbstractContextManager[CalibratedInstances]:
        extras = repeat == 0
        return open_session(site, results.of(stored.result), repeat, on_end, extras=extras)

    for run in search.runs(results.of(stored.result), opened, on_session):
        keep(results.of(stored.result).plus(run))
        out.print(report.run_line(run, results.of(stored.result)), soft_wrap=True)
    keep(replace(results.of(stored.result), is_complete=True))
