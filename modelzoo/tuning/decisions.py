"""What a search decides: which candidates must not win, which of the others wins, and how its time is divided. Pure.

The best of many candidates is partly the luckiest, and candidates that are equally fast take turns at being the best.
So the simplest of those that the search cannot tell apart wins, the default itself included, and what is said of its
speed comes from processes that took no part in the choice.

The stages get equal shares of the time, so fewer candidates are measured more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import fmean

from modelzoo.errors import UsageError, WorkerError
from modelzoo.measure.schedule import LEAST_PROCESS_SECONDS
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.race import PRIMITIVES, ExclusionKind
from modelzoo.records.run import Run, RunReport, ValidityEntry
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.results.proof import merged_proof
from modelzoo.results.refusals import not_fp32, wrong_results
from modelzoo.results.speed import refused
from modelzoo.setting import METHODS, Setting
from modelzoo.stats import race
from modelzoo.stats.race import Choice, Logs, ranked, speed

AXES: tuple[tuple[str, ...], ...] = (
    ("engine",),
    ("mode",),
    ("channels_last",),
    ("linear",),
    ("precision", *dict.fromkeys(METHODS.values())),
    ("threads",),
    ("malloc",),
    ("thp",),
    ("primitive_cache",),
    ("backend",),
    ("batch",),
)
"""The options of a search, each with its fields, in the order of the steps from the default to the winner."""


def pick(found: Mapping[int, Logs], complexity: Mapping[int, int]) -> Choice:
    """Return the simplest of the candidates that are as fast as the best; 0, the default, if none is faster than it.

    Args:
        found: of each candidate, how much faster than the default it was, by round.
        complexity: of each candidate: how many options it changes.
    """
    order = ranked(found)
    if not order or speed(found[order[0]]) <= 1:
        return Choice(0, 0, ())
    default = dict.fromkeys(found[order[0]], 0.0)
    return race.pick((*order, 0), {**found, 0: default}, {**complexity, 0: -1})


def changed(base: Setting, setting: Setting) -> list[tuple[str, ...]]:
    """The options in which ``setting`` differs from ``base``, as their fields."""
    return [axis for axis in AXES if any(getattr(base, name) != getattr(setting, name) for name in axis)]


def steps(base: Setting, winner: Setting) -> list[Setting]:
    """Return the settings that lead from ``base`` to ``winner``, which is the last, by one option at a time."""
    found, current = [], base
    for axis in changed(base, winner):
        current = current.replace(**{name: getattr(winner, name) for name in axis})
        found.append(current)
    return found if current == winner else [*found, winner]


def unfit(runs: Sequence[Run], baseline: Sequence[Run]) -> ExclusionKind | None:
    """Return why a candidate is out according to what its processes report; ``None`` if it may go on.

    Args:
        runs: its processes so far.
        baseline: those of the default setting.
    """
    if any(run.error for run in runs):
        return ExclusionKind.FAILED
    reports = [run.report for run in runs if run.report is not None]
    if not reports:
        return None
    if refused(baseline, runs):
        return ExclusionKind.WRONG_OUTPUTS
    wanted = ProofVerdict.FP32 if reports[0].setting.precision == "fp32" else ProofVerdict.ACTIVE
    return None if merged_proof(reports).verdict is wanted else ExclusionKind.UNPROVEN


def pointless(changes: set[str], probe: RunReport) -> ExclusionKind | None:
    """Return why a candidate cannot have an effect, by what the default setting ran; ``None`` if it may.

    Args:
        changes: the fields of ``Setting`` that it changes.
        probe: the first process of the default setting.
    """
    evidence, kernels = probe.observed.evidence, probe.observed.kernels
    operators = {use.operator_class.value for use in evidence.operators} if evidence is not None else None
    if "channels_last" in changes and operators is not None and "conv" not in operators:
        return ExclusionKind.NO_CONVOLUTION
    if "linear" in changes and operators is not None and "linear" not in operators:
        return ExclusionKind.NO_LINEAR
    # Of a generation, the kernels of two tokens are known, and each further step has sizes of its own.
    is_whole = kernels is not None and probe.generation is None
    calls = sum(kernel.count for kernel in kernels.kernels) if kernels is not None and is_whole else None
    if "primitive_cache" in changes and calls is not None and calls <= PRIMITIVES:
        return ExclusionKind.FEW_PRIMITIVES
    return None


def check_default(probe: RunReport) -> None:
    """Check that candidates can be compared with the default setting.

    Raises:
        WorkerError: it was to run in fp32 and did not, or its products are wrong.
    """
    for evidence in wrong_results([probe]):
        layers = ", ".join(dict.fromkeys(each.layers[0] if each.layers else each.operator for each in evidence.wrong))
        raise WorkerError(f"products of the default setting are wrong ({layers}); nothing can be compared with it")
    for shown_by in not_fp32(probe):
        if isinstance(shown_by, Canary):
            what = f"the canary: {shown_by.summary}"
        else:
            precisions = {precision for each in shown_by.classes for precision in each.precisions}
            what = f"its kernels, which ran in {' and '.join(sorted(precisions))}"
        raise WorkerError(f"the default setting is not fp32 according to {what}; nothing can be compared with it")


def unjudgeable(probe: RunReport, has_judge: bool) -> ExclusionKind | None:
    """Return why bf16 predictions cannot be judged here; ``None`` if they can."""
    if not has_judge:
        return ExclusionKind.NO_JUDGE
    return ExclusionKind.RANDOM_WEIGHTS if probe.prepared.weights.kind is WeightsKind.RANDOM else None


def not_valid(entry: ValidityEntry, *, allow_unjudged: bool) -> ExclusionKind | None:
    """Return why a bf16 candidate is out according to its judgement; ``None`` if its predictions are valid."""
    verdict = entry.report.validity.verdict if entry.report is not None else ValidityVerdict.CANNOT_JUDGE
    if verdict is ValidityVerdict.NOT_VALID:
        return ExclusionKind.NOT_VALID
    is_fit = verdict is ValidityVerdict.VALID or allow_unjudged
    return None if is_fit else ExclusionKind.NOT_JUDGED


SEARCH_SHARE = 0.7
"""Of the budget; the rest is for measuring the winner again."""
FIRST_SHARE = 0.7
"""Of the time of the search that the first stage may take. It measures every candidate once, and some have to be
compiled or exported for the first time."""
MOST_ROUNDS = 8
"""Rounds of one stage of the search. More would only tell candidates apart that differ by less than matters."""
CONFIRMATION_ROUNDS = (4, 16)
"""Fewest and most rounds in which the winner is measured again."""
SAMPLING_SECONDS = 2.0
"""How long a process of the search samples."""
CONFIRMATION_SECONDS = 3.0
"""How long a process samples that measures the winner again."""
SAMPLES = 5
"""Fewest samples of a process, if they take longer than that."""
COMPILED = 4.0
"""A process that compiles is taken to cost this many times as much as one of the default, until one was measured."""


def costs(runs: Sequence[Run], settings: Sequence[Setting]) -> list[float]:
    """Return the seconds of wall time that the next process of each setting is expected to take, by what ran so far.

    It is what the latest one took: what was compiled or exported is in a cache then. A setting of which nothing is
    known costs as much as those of its engine and mode.
    """
    rounds: dict[int, list[Run]] = {}
    for run in runs:
        rounds.setdefault(run.round, []).append(run)
    known: dict[int, float] = {}
    for number in sorted(rounds):
        # Everyone has its own compiling, and an equal part of the rest.
        ended = [datetime.fromisoformat(run.ended).timestamp() for run in rounds[number] if run.ended]
        began = min(datetime.fromisoformat(run.started).timestamp() for run in rounds[number])
        compiling = {run.group: run.report.compile_seconds or 0.0 if run.report else 0.0 for run in rounds[number]}
        rest = max(0.0, max(ended, default=0.0) - began - sum(compiling.values())) / len(rounds[number])
        known.update({group: seconds + rest for group, seconds in compiling.items()})
    by_kind: dict[tuple[str, str], list[float]] = {}
    for group, seconds in known.items():
        by_kind.setdefault((settings[group].engine, settings[group].mode), []).append(seconds)
    usual = {True: [known.get(0, 0.0)], False: [known.get(0, 0.0) * COMPILED]}
    alike = [by_kind.get((each.engine, each.mode), usual[each.mode == "eager"]) for each in settings]
    return [known.get(group, fmean(each)) for group, each in enumerate(alike)]


def check(budget: float, settings: int) -> None:
    """Check that ``budget`` seconds allow a search at all, before anything is started.

    Raises:
        UsageError: they do not, however fast the model is.
    """
    processes = 1 + settings + 2 * CONFIRMATION_ROUNDS[0]
    least = LEAST_PROCESS_SECONDS * processes
    if budget < least:
        raise UsageError(
            f"--budget {budget:g}s is too short: a search of {settings} settings starts at least {processes} "
            f"processes, which take {least:.0f} s or more; give more time, or --vary fewer values"
        )


def stage_rounds(costs: Sequence[float], stages: int, left: float) -> int:
    """Return how many rounds the next stage has.

    Args:
        costs: seconds that one process of each setting takes, the default included.
        stages: number of stages that are left, this one included.
        left: seconds that are left for the search.
    """
    return max(1, min(MOST_ROUNDS, int(left / max(1, stages) / max(sum(costs), 1e-9))))


def confirmation_rounds(costs: Sequence[float], left: float) -> int:
    """Return in how many rounds the winner is measured again; 0 if not even two fit into the time.

    The number is fixed before the first one, so the data cannot decide when to stop.

    Args:
        costs: seconds that one process of each setting takes.
        left: seconds that are left of the budget.
    """
    fitting = int(left / max(sum(costs), 1e-9))
    return min(CONFIRMATION_ROUNDS[1], fitting) if fitting >= 2 else 0
