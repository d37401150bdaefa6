"""What a call would measure, before anything is started. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from modelzoo.document import Block, Column, Table, lines
from modelzoo.formatting import duration, percent
from modelzoo.plan import Effort, Sessions
from modelzoo.records.run import Result
from modelzoo.records.throughput import Throughput

NOTHING = "Nothing was started."


def document(
    result: Result, effort: Effort, budget: Optional[float], sessions: Sessions, *, validates: bool
) -> list[Block]:
    """Return the plan of a call.

    Args:
        result: before anything has run: it names the settings.
        effort: how many processes, or which precision and time.
        budget: seconds of a session as the schedule has them; ``None``: it ends after fixed rounds.
        sessions: how often the call is repeated.
        validates: whether accuracy is checked as well.
    """
    said = lines(_processes(effort), _time(effort, budget, validates), *_sessions(sessions), NOTHING)
    return [_settings(result), said]


def search_document(result: Result, budget: float) -> list[Block]:
    """Return the plan of a search (``modelzoo tune``), whose candidates ``result`` names, the default first."""
    return [_settings(result), lines(f"time: about {duration(budget)}, accuracy checks included", NOTHING)]


def instances_document(found: Throughput) -> list[Block]:
    """Return the plan of ``modelzoo throughput``."""
    tried = found.configurations
    columns = (
        Column("instances", tuple(str(each.instances) for each in tried), is_number=True),
        Column("cores each", tuple(str(each.cores) for each in tried), is_number=True),
        Column("batch", tuple(str(each.batch) for each in tried), is_number=True),
    )
    rounds = f"rounds: {found.rounds} of every configuration, and as many again for the best of several"
    search = "search: the slower half is dropped after each stage"
    time = "time: not known, it depends on the model"
    return [Table(f"Plan for {found.workload}", columns), lines(search if found.is_search else rounds, time, NOTHING)]


def _settings(result: Result) -> Table:
    """The settings of each workload, the baseline first."""
    workloads = [requested.workload for requested in result.requested]
    is_first = [name not in workloads[:index] for index, name in enumerate(workloads)]
    roles = tuple("baseline" if first and workloads.count(name) > 1 else "" for first, name in zip(is_first, workloads))
    columns = [
        Column("model", tuple(name if first else "" for first, name in zip(is_first, workloads))),
        Column("setting", tuple(result.label(group) for group in range(len(workloads)))),
        Column("", roles),
    ]
    return Table("Plan", tuple(column for column in columns if any(column.cells)))


def _processes(effort: Effort) -> str:
    if effort.processes is not None:
        return f"processes: {effort.processes} per setting, one in each round"
    return f"processes: one per setting in each round, as many rounds as ±{percent(effort.margin)} needs"


def _time(effort: Effort, budget: Optional[float], validates: bool) -> str:
    if budget is None:
        return "time: not known, it depends on the model; --budget TIME sets a limit"
    if effort.budget is not None:
        return f"time: at most {duration(budget)}, but not less than one round"
    more = "; that of the accuracy checks, which come first, is not known" if validates else ""
    return f"time: about {duration(budget)}, longer if the first rounds, which an interval needs, take longer{more}"


def _sessions(sessions: Sessions) -> Iterator[str]:
    if sessions.count > 1:
        pause = f", {duration(sessions.every)} from start to start" if sessions.every else ""
        yield f"sessions: {sessions.count}{pause}; the time is that of one"
