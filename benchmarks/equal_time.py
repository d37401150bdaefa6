"""Half widths at equal wall time: 3 processes of 10 s, as the suite used to measure, and as many as it designs now.

Both designs are replayed from the same recorded processes, which must have sampled for 10 s each: a shorter process of
the new design is the beginning of a recorded one. Rounds are drawn with replacement from all sessions, after each
session has been centred on its own level, because intervals hold within a session. Both designs are charged today's
cost of a process, unless the old one's is given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

import old_formula
from claims import Claim, percent, table
from recordings import Process, Recording, baselines, settings

from modelzoo import stats
from modelzoo.measure.sampler import MIN_SAMPLES
from modelzoo.measure.schedule import SECONDS

OLD_PROCESSES, OLD_SECONDS = 3, 10.0
LEAST_ROUNDS = 4
"""Rounds in which all settings of a workload have such a process, for a session to count."""
SAMPLED = 0.95
"""A process counts as one of 10 s if its samples add up to this share; each turn starts with a call that is not
sampled if calls are short."""
LATENCY_GOAL, RATIO_GOAL = 1 / 3, 2 / 3


@dataclass(frozen=True)
class Design:
    """How the new design spends the wall time of the old one.

    Attributes:
        seconds: how long each process samples.
        processes: number of processes per setting.
        old_wall: seconds that the old design takes per setting.
        wall: seconds that this one takes, the same but for rounding to whole processes.
    """

    seconds: float
    processes: int
    old_wall: float
    wall: float


@dataclass(frozen=True)
class Unit:
    """One process as either design sees it: log median of all samples and of the first ones, and the error of the
    former; relative to the level of its session."""

    long: float
    short: float
    error: float


Round = dict[str, Unit]
"""The processes of one round, by label."""


def design(processes: Sequence[Process], old_cost: float | None = None) -> Design:
    """Choose how long processes of one workload sample, as the suite does, and how many fit into the old wall time.

    Args:
        processes: of the workload, of 10 s each.
        old_cost: seconds that an old process took besides its samples; by default what a process takes today.
    """
    fixed = fmean(each.cost for each in processes)
    sessions = {each.session for each in processes}
    groups = [g for n in sessions for g in settings([each for each in processes if each.session == n]).values()]
    components = stats.pooled([stats.components([each.samples for each in group]) for group in groups])
    longest = max(median(each.samples) for each in processes)
    seconds = stats.seconds_per_process(stats.Costs(fixed, longest), components, SECONDS)
    old_wall = OLD_PROCESSES * ((fixed if old_cost is None else old_cost) + OLD_SECONDS)
    each_wall = fixed + seconds
    count = max(2, round(old_wall / each_wall))
    return Design(seconds, count, old_wall, count * each_wall)


def first(samples: Sequence[float], seconds: float) -> Sequence[float]:
    """The samples that a process of ``seconds`` would have taken."""
    total = 0.0
    for count, sample in enumerate(samples, 1):
        total += sample
        if total >= seconds and count >= MIN_SAMPLES:
            return samples[:count]
    return samples


def complete(processes: Sequence[Process]) -> list[Process]:
    """The processes of 10 s whose round has one of every setting, from sessions with enough such rounds."""
    long = [each for each in processes if sum(each.samples) >= SAMPLED * OLD_SECONDS]
    labels = Counter((each.session, each.round) for each in long)
    whole = [each for each in long if labels[each.session, each.round] == len(settings(processes))]
    counts = Counter(session for session, _ in {(each.session, each.round) for each in whole})
    return [each for each in whole if counts[each.session] >= LEAST_ROUNDS]


def rounds(processes: Sequence[Process], seconds: float) -> list[Round]:
    """The rounds of one workload, each session centred on its own level. ``processes`` are ``complete``."""
    found: list[Round] = []
    for session in sorted({each.session for each in processes}):
        own: dict[int, Round] = {}
        for each in processes:
            if each.session == session:
                short = math.log(median(first(each.samples, seconds)))
                unit = Unit(each.level, short, old_formula.standard_error(each.samples))
                own.setdefault(each.round, {})[each.label] = unit
        centres = {label: _centre([units[label] for units in own.values()]) for label in next(iter(own.values()))}
        for units in own.values():
            found.append({label: _relative(unit, centres[label]) for label, unit in units.items()})
    return found


def _relative(unit: Unit, centre: Unit) -> Unit:
    return Unit(unit.long - centre.long, unit.short - centre.short, unit.error)


def _centre(units: Sequence[Unit]) -> Unit:
    return Unit(fmean(unit.long for unit in units), fmean(unit.short for unit in units), 0.0)


@dataclass(frozen=True)
class Widths:
    """Median half widths: old design and old formula, old design and new formula, new design and new formula."""

    old: float
    formula: float
    new: float


def latency(found: Sequence[Round], label: str, chosen: Design, replays: int, generator: Random) -> Widths:
    """Replay the latency of one setting."""
    widths: list[Widths] = []
    for _ in range(replays):
        old = [each[label] for each in generator.choices(found, k=OLD_PROCESSES)]
        new = [each[label] for each in generator.choices(found, k=chosen.processes)]
        levels = [unit.long for unit in old]
        before = old_formula.half_width(levels, [unit.error for unit in old])
        widths.append(Widths(before, _width(levels), _width([unit.short for unit in new])))
    return _medians(widths)


def ratio(found: Sequence[Round], labels: tuple[str, str], chosen: Design, replays: int, generator: Random) -> Widths:
    """Replay the ratio of two settings; of three rounds the old formula was the new one."""
    base, label = labels
    widths: list[Widths] = []
    for _ in range(replays):
        old = generator.choices(found, k=OLD_PROCESSES)
        new = generator.choices(found, k=chosen.processes)
        before = _width([each[base].long - each[label].long for each in old])
        widths.append(Widths(before, before, _width([each[base].short - each[label].short for each in new])))
    return _medians(widths)


def _width(levels: Sequence[float]) -> float:
    return stats.level_interval([math.exp(level) for level in levels]).half_width


def _medians(widths: Sequence[Widths]) -> Widths:
    return Widths(median(w.old for w in widths), median(w.formula for w in widths), median(w.new for w in widths))


def show_equal_time(recording: Recording, replays: int, seed: int, old_costs: Mapping[str, float]) -> list[Claim]:
    """Print half widths at equal wall time; return the claims. ``old_costs`` is by workload, see ``design``."""
    rows, claims, generator = [], [], Random(seed)
    for workload, base in baselines(recording.processes).items():
        own = complete([each for each in recording.processes if each.workload == workload])
        if not own:
            reason = f"too few rounds of processes of 10 s (modelzoo run {workload} --processes 8 --max-seconds 10)"
            claims.append(Claim(f"half width of {workload} at equal wall time: {reason}", None))
            continue
        chosen = design(own, old_costs.get(workload))
        found = rounds(own, chosen.seconds)
        for _, label in settings(own):
            widths = latency(found, label, chosen, replays, generator)
            rows.append(_row(f"{workload} {label}", chosen, widths))
            claims.append(_claim(f"half width of {workload} {label}", widths, LATENCY_GOAL))
            if label != base:
                widths = ratio(found, (base, label), chosen, replays, generator)
                rows.append(_row(f"{workload} {base} / {label}", chosen, widths))
                claims.append(_claim(f"half width of {workload} {base} / {label}", widths, RATIO_GOAL))
    if not rows:
        return claims
    print(f"Half width at equal wall time, median of {replays:,} replays")
    header = ("of", "wall", "3 × 10 s, old formula", "new formula", "new design", "wall", "new formula", "÷ old")
    print(table(header, rows))
    return claims


def _row(name: str, chosen: Design, widths: Widths) -> tuple[str, ...]:
    shown = ["±" + percent(width) for width in (widths.old, widths.formula, widths.new)]
    new = f"{chosen.processes} × {chosen.seconds:.1f} s"
    walls = f"{chosen.old_wall:.0f} s", f"{chosen.wall:.0f} s"
    return (name, walls[0], shown[0], shown[1], new, walls[1], shown[2], f"{widths.new / widths.old:.2f}")


def _claim(what: str, widths: Widths, goal: float) -> Claim:
    share = widths.new / widths.old
    return Claim(f"{what} at equal wall time, new ÷ old at most {goal:.2f}: {share:.2f}", share <= goal)
