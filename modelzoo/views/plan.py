"""What a call would measure, before anything is started. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from modelzoo.document import Block, Column, Notices, Rows, Table, known, lines
from modelzoo.formatting import counted, duration, percent
from modelzoo.machine.diagnosis import system_warnings
from modelzoo.machine.linux import format_cpu_list
from modelzoo.plan import Effort
from modelzoo.records.machine import Machine, Topology
from modelzoo.records.race import Configuration, InstancePlace, Throughput
from modelzoo.records.run import Result
from modelzoo.records.serving import GeneratorPlace, Load, Scenario
from modelzoo.serve.places import idle_cores, most_cores, most_instances, quota_in_cores
from modelzoo.views.load import caption, generator_text
from modelzoo.warning import rank

NOTHING = "Nothing was started."
_SHOWN = 4
"""Instances whose CPUs are all listed; of more, those of the first two and of the last."""


_RUNS = 6
"""Of a search for the highest rate, usually."""


def document(result: Result, machine: Machine, effort: Effort, budget: float | None, *, validates: bool) -> list[Block]:
    """Return the plan of a call.

    Args:
        result: before anything has run: it names the settings.
        machine: where they run.
        effort: how many processes, or which precision and time.
        budget: seconds as the schedule has them; ``None``: it ends after fixed rounds.
        validates: whether accuracy is checked as well.
    """
    if effort.processes is not None:
        processes = f"{effort.processes} per setting, one in each round"
    else:
        processes = f"one per setting in each round, as many rounds as ±{percent(effort.margin)} needs"
    if budget is None:
        time = "not known, it depends on the model; --budget TIME sets a limit"
    elif effort.budget is not None:
        time = f"at most {duration(budget)}, but not less than one round"
    else:
        time = f"about {duration(budget)}, longer if the first rounds, which an interval needs, take longer"
        time += "; that of the accuracy checks, which come first, is not known" if validates else ""
    return _of_settings(result, machine, f"processes: {processes}", f"time: {time}")


def search_document(result: Result, machine: Machine, stages: Sequence[int], budget: float) -> list[Block]:
    """Return the plan of a search (``modelzoo tune``), whose candidates ``result`` names, the default first.

    Args:
        result: before anything has run.
        machine: where they run.
        stages: how many candidates each stage measures beside the default.
        budget: seconds.
    """
    found = f"search: {_stages(stages)} settings beside the default, the slower half is dropped after each stage"
    time = f"time: about {duration(budget)}, accuracy checks included"
    return _of_settings(result, machine, found, time)


def instances_document(found: Throughput, stages: Sequence[int], runs: int, seconds: float) -> list[Block]:
    """Return the plan of ``modelzoo throughput``.

    Args:
        found: before anything has run.
        stages: how many configurations each stage of a search measures.
        runs: how often a configuration is run at least …
        seconds: … and how long all of them together count at least.
    """
    tried = found.configurations
    idle = [max(0, idle_cores(quota_in_cores(found.topology, each.smt), each.instances, each.cores)) for each in tried]
    columns = _columns([(each.instances, each.cores, each.batch, each.places) for each in tried])
    columns.insert(-1, Rows(idle).number("idle cores", lambda each: each or None))
    rounds = f"rounds: {found.rounds} of every configuration, and as many again for the best of several"
    halving = f"search: the slower half is dropped after each stage: {_stages(stages)}"
    search = f"{halving}; {found.rounds} rounds of these, and again of the best"
    time = f"time: at least {duration(seconds)}, and {runs} times what loading and warming up takes, which is not known"
    said = lines(
        f"machine: {found.topology.text}",
        *_quota(found.topology),
        *dict.fromkeys(_idle(each, cores, found) for each, cores in zip(tried, idle) if cores),
        search if found.is_search else rounds,
        time,
        NOTHING,
    )
    return [Table(f"Plan for {found.workload}", columns), said]


def load_document(
    found: Load, places: Sequence[InstancePlace], place: GeneratorPlace, seconds: float, before: float
) -> list[Block]:
    """Return the plan of ``modelzoo load``.

    Args:
        found: before anything has run.
        places: the CPUs of each instance.
        place: those of the generator.
        seconds: how long a run takes at least.
        before: how long full batches run before the first run of a repeat.
    """
    plan = found.plan
    columns = _columns([(plan.instances, plan.cores_per_instance, plan.batch, places)])
    again = f"repeats: {plan.repeats}, each with new instances" if plan.repeats > 1 else "repeats: 1"
    runs = f", runs of {duration(seconds)} or more" if seconds else ""
    time = f"at least {duration(plan.repeats * (before + seconds))}"
    if plan.is_search:
        runs += ", less if they cannot pass"
        time = f"about {duration(plan.repeats * (before + _RUNS * seconds))} if a search takes {_RUNS} runs, as most do"
    opened = "the first rate, and after each run the next one" if plan.is_search else "how many requests there are"
    opened = f"decided when it runs: {opened}, from what full batches take while all instances are busy"
    is_open = plan.is_search or (plan.scenario is Scenario.OFFLINE and plan.queries is None)
    idle = idle_cores(found.topology, plan.instances, plan.cores_per_instance) - place.polls
    said = lines(
        f"machine: {found.topology.text}",
        *_quota(found.topology),
        f"generator: {generator_text(place, found)}",
        *([f"idle: {idle} cores; 'modelzoo throughput' shows which --instances make use of them"] if idle > 0 else []),
        f"load: {caption(found)}",
        f"{again}{runs}",
        *([opened] if is_open else []),
        f"time: {time}; loading and warming up come on top",
        NOTHING,
    )
    return [Table(f"Plan for {found.workload}", columns), said]


def _columns(rows: Sequence[tuple[int, int, int, Sequence[InstancePlace]]]) -> list[Column]:
    """Instances, cores, threads, batch and CPUs of each row, which has instances, cores, batch and places."""
    of = Rows(rows)
    return [
        of.number("instances", lambda row: row[0]),
        of.number("cores each", lambda row: row[1]),
        of.number("threads each", lambda row: len(row[3][0].cpus)),
        of.number("batch", lambda row: row[2]),
        of.text("CPUs", lambda row: _cpus(row[3])),
    ]


def _cpus(places: Iterable[InstancePlace]) -> str:
    """The CPUs of each instance, in their order: ``0-31; 32-63; …; 96-127``."""
    found = [format_cpu_list(cpus) for cpus in sorted(each.cpus for each in places)]
    return "; ".join(found if len(found) <= _SHOWN else [*found[:2], "…", found[-1]])


def _stages(sizes: Sequence[int]) -> str:
    return " → ".join(map(str, sizes))


def _quota(topology: Topology) -> Iterator[str]:
    if topology.quota is not None and topology.quota < len(topology.cores):
        yield f"quota: {topology.quota:g} CPUs, so no more than that of the {len(topology.cores)} cores are used"


def _idle(each: Configuration, idle: int, found: Throughput) -> str:
    """Why a configuration does not use all cores."""
    topology = quota_in_cores(found.topology, each.smt)
    name = f"idle: {each.instances} × {each.cores} leaves {counted(idle, 'core')} idle"
    if found.is_search and each.instances == 1 and each.cores == most_cores(topology, 1):
        return f"{name}: the others are compared with a single instance, which stays within a node"
    if most_instances(topology, each.cores) > each.instances and idle >= each.cores:
        return f"{name}: no more instances were asked for"
    sizes = sorted({len(topology.on_node(node)) for node in topology.nodes})
    return f"{name}: whole instances of {each.cores} do not fill {' and '.join(map(str, sizes))} cores"


def _of_settings(result: Result, machine: Machine, *said: str) -> list[Block]:
    """The settings of each workload, the baseline first; threads, what is said, and what every run will warn of."""
    workloads = [requested.workload for requested in result.requested]
    of, first = Rows(range(len(workloads))), {workloads.index(name) for name in workloads}
    columns = known(
        of.text("model", lambda group: workloads[group] if group in first else ""),
        of.text("setting", result.label),
        of.text("", lambda group: "baseline" if group in first and workloads.count(workloads[group]) > 1 else ""),
    )
    table = Table("Plan", columns)
    threads = machine.threads
    given = dict.fromkeys(requested.setting.threads for requested in result.requested)
    limit = "" if threads.quota is None or threads.quota >= threads.physical_cores else f" (quota {threads.quota:g})"
    # Only the engine knows how its libraries were built.
    limit += "" if None not in given or threads.count == 1 else " (fewer if torch's OpenBLAS was built for fewer)"
    cpus = "" if threads.cpus_allowed is None else f", on CPUs {threads.cpus_allowed}"
    counts = " or ".join(str(each or threads.count) for each in given)
    found = sorted(system_warnings(machine), key=lambda each: rank(each.code))
    return [table, lines(f"threads: {counts}{limit}, one process at a time{cpus}", *said, NOTHING), Notices.of(found)]
