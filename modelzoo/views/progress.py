"""What is seen before and while a call runs: what it would measure; one live block on a terminal, else a line a minute.

The block is drawn once a second, which costs about a millisecond of one core, and is erased at the end.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from modelzoo import stats
from modelzoo.document import Block, Column, Notices, Rows, Table, known, lines
from modelzoo.formatting import Merged, counted, duration, for_people, percent
from modelzoo.machine.diagnosis import system_warnings
from modelzoo.machine.linux import format_cpu_list
from modelzoo.plan import Effort
from modelzoo.records.machine import Machine, Topology
from modelzoo.records.race import Configuration, InstancePlace, Throughput
from modelzoo.records.run import Result, Run
from modelzoo.records.serving import GeneratorPlace, Load, Scenario
from modelzoo.serve.places import idle_cores, most_cores, most_instances, quota_in_cores
from modelzoo.views.differences import grouped
from modelzoo.views.judgement import judged_so_far
from modelzoo.views.load import caption, generator_text
from modelzoo.warning import rank

if TYPE_CHECKING:
    from modelzoo.measure.jobs import Event


NOTHING = "Nothing was started."
_SHOWN = 4
"""Instances whose CPUs are all listed; of more, those of the first two and of the last."""


_RUNS = 6
"""Of a search for the highest rate, usually."""


def plan_of_run(
    result: Result, machine: Machine, effort: Effort, budget: float | None, *, validates: bool
) -> list[Block]:
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


def plan_of_search(result: Result, machine: Machine, stages: Sequence[int], budget: float) -> list[Block]:
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


def plan_of_instances(found: Throughput, stages: Sequence[int], runs: int, seconds: float) -> list[Block]:
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


def plan_of_load(
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


REDRAWS_PER_SECOND = 1.0
LINE_SECONDS = 60.0
"""Without a terminal, a line is printed at most this often."""
QUIET_PHASES = ("weights", "load", "load and compile")
"""Until a model is loaded, a failure should be the only line that is printed."""
NAMED_LEVELS = 4
"""The settings of a workload are named one by one up to this many."""
NAMED_WORKLOADS = 8
"""Workloads with a line of their own in the block."""


class LiveProgress:
    """Shows the progress of a call, as a context manager.

    Args:
        out: where to.
        result: the result of the call before anything has run: it names the settings.
        clock: seconds, for tests.
    """

    def __init__(self, out: Console, result: Result, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._names: list[tuple[str, str]] = []
        self.take_settings(result)
        self._medians: dict[int, list[float]] = {}
        self._ended: Counter[int] = Counter()
        self._unsaid: dict[int, str] = {}
        self._silent: set[tuple[str, str, str]] = set()
        self._started = clock()
        self._printed_at = -math.inf
        self._seconds: float | None = None
        self._spent = 0.0
        self._processes: int | None = None
        self._doing = ""
        self._live = Live(
            console=out,
            get_renderable=self._block,
            refresh_per_second=REDRAWS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveProgress:
        if self._out.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, seconds: float | None, processes: int | None = None, spent: float = 0.0) -> None:
        """Take note that the measurement begins.

        Args:
            seconds: how long it takes at most; ``None`` if there is no limit.
            processes: number of processes per setting if it is fixed. The time that is left then follows from it.
            spent: how much of ``seconds`` the call has taken already.
        """
        self._started = self._clock() - spent
        self._seconds, self._processes, self._spent = seconds, processes, spent

    def take_settings(self, result: Result) -> None:
        """Take note of the settings of ``result``: a search adds some while it runs, which may change all labels."""
        self._names = [(requested.workload, result.label(group)) for group, requested in enumerate(result.requested)]

    def update(self, event: Event) -> None:
        """Show what a worker does that times a setting."""
        name = event.workload, event.label
        process = 1 + (self._ended[self._names.index(name)] if name in self._names else 0)
        # The baseline of several blocks has more processes than were asked for.
        of = f" of {self._processes}" if self._processes and process <= self._processes else ""
        self._show(event, f"process {process}{of}")

    def judging(self, event: Event) -> None:
        """Show what a worker does that judges the predictions of a setting."""
        self._show(event, "judging")

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._out.print(for_people(text), soft_wrap=True)

    def finished(self, run: Run) -> None:
        """Take note of a run that has ended."""
        self._ended[run.group] += 1
        if run.steady:
            self._medians.setdefault(run.group, []).append(median(run.steady))

    def name_failure(self, run: Run) -> None:
        """Say that the setting of ``run`` failed in its first process, as soon as another setting is timed.

        The user may want to start again rather than wait for the rest. If nothing is timed, the error is all that the
        call prints. Call it before ``finished``.
        """
        if run.error is not None and not self._ended[run.group]:
            self._unsaid[run.group] = run.error

    def _show(self, event: Event, process: str) -> None:
        message = event.message
        if message.silence is not None:  # the call does not return, which is said once for each phase of a setting
            silent = event.workload, event.label, message.phase
            if silent not in self._silent:
                self._silent.add(silent)
                self.say(silence_line(event))
            return
        calls = f", {message.count} calls" if message.count else ""
        phase = message.phase if message.judged is None else judged_so_far(message.judged)
        self._doing = f"{event.workload} {event.label}, {process}: {phase}{calls}"
        if phase in QUIET_PHASES:
            return
        for group, error in self._unsaid.items():
            self.say(f"failed: {' '.join(self._names[group])}: {error} (the other settings are timed)")
        self._unsaid = {}
        now = self._clock()
        if not self._out.is_terminal and now - self._printed_at >= LINE_SECONDS:
            self._printed_at = now
            self._out.print(f"{self._doing}; {self._times()}", soft_wrap=True)

    def _times(self) -> str:
        """``2 min 5 s elapsed, about 7 min 30 s left``: of the limit, or what processes take like those before.

        Without the latter if nothing is left: what has been started by then is finished.
        """
        elapsed, done = self._clock() - self._started, sum(self._ended.values())
        left = [] if self._seconds is None else [self._seconds - elapsed]
        if self._processes is not None and done:
            left.append((elapsed - self._spent) * (self._processes * len(self._names) / done - 1))
        remaining = min(left, default=0.0)
        return f"{duration(elapsed)} elapsed" + (f", about {duration(remaining)} left" if remaining >= 1 else "")

    def _block(self) -> Group:
        lines = [self._doing, *self._levels(), self._times()] if self._doing else ["starting"]
        return Group(*(Text(for_people(line), no_wrap=True, overflow="ellipsis") for line in lines))

    def _levels(self) -> Iterator[str]:
        """A line for each workload: the interval of each setting so far, or the range of many."""
        workloads = grouped((name[0], group) for group, name in enumerate(self._names if self._medians else ()))
        width = max(map(len, workloads), default=0)
        for name, groups in list(workloads.items())[:NAMED_WORKLOADS]:
            medians = [self._medians.get(group, []) for group in groups]
            # An interval that is wider than its value says nothing.
            widths = [stats.level_interval(each).half_width if len(each) > 1 else math.inf for each in medians]
            known, counts = [each for each in widths if each < 1], map(len, medians)
            said = ", ".join(
                f"{self._names[group][1]} {f'±{percent(own)}' if own < 1 else f'{len(each)} done' if each else '…'}"
                for group, own, each in zip(groups, widths, medians)
            )
            if len(groups) > NAMED_LEVELS:
                said = f"{len(groups)} settings, {Merged(counts)} processes each"
                said += f", ±{percent(min(known))} to ±{percent(max(known))}" if known else ""
            yield f"  {name:{width}}  {said}"
        more = len(workloads) - NAMED_WORKLOADS
        if more > 0:
            yield f"  and {more} more workloads"


def silence_line(event: Event) -> str:
    """``toy fp16, cold: no answer for 1 min: Conv1d 'conv', …/conv.py:375 in _conv_forward: …``."""
    found = event.message.silence
    assert found is not None
    said = f"no answer for {duration(found.seconds)}: {found.where}"
    return f"{event.workload} {event.label}, {event.message.phase}: {said}"
