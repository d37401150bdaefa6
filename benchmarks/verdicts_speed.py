"""What the verdicts and intervals of ``run``, ``compare`` and ``tune`` promise, replayed on simulated data.

benchmarks/verdicts.py runs the replays and prints the table. The data are those of ``simulations``;
verdicts, intervals and p-values come from the suite's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from promises import COVERAGE, Counted, Promise, Replay, coverage, ideal_width, is_called, share
from simulations import Call, End, Processes, Sides, calls, false_winner, nested, normal, samples, skewed, tables

from modelzoo import stats
from modelzoo.comparison.estimate import worse_by_more
from modelzoo.frozen import replace
from modelzoo.stats import Interval, Outcome, Verdict

WRONG = 1 - stats.VERDICT_CONFIDENCE
SKEWED_COVERED = 0.94
"""What the interval of a latency promises if the levels of processes are skewed (``stats.intervals``)."""
OUTSIDE = 1 + stats.EQUIVALENCE + 1e-4
"""A ratio that is just not SAME."""
SLOWER = 0.03
"""The bound of the gate ``slower:3%``."""
EXPENSIVE = 1000
"""Repetitions of comparisons, which contain the records of many runs."""
REPEATED = "a repeated interval holds at every look, and a call ends at one of them"


def is_same(verdicts: Iterable[Verdict]) -> bool:
    """Whether a row is SAME."""
    return any(verdict.outcome is Outcome.SAME for verdict in verdicts)


# run


def wrong(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls with a wrong verdict: FASTER or SLOWER of equals, SAME of what is not."""

    def is_wrong(verdicts: tuple[Verdict, ...]) -> bool:
        judged = list(zip(verdicts, call.truth))
        return is_called(v for v, truth in judged if truth == 1) or is_same(v for v, truth in judged if truth != 1)

    return share(is_wrong(ended.verdicts) for ended in calls(generator, call, count))


def ratio_covered(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls whose interval of the first ratio covers the truth."""
    return coverage(
        (ended.found[0].interval, call.truth[0], ideal_width(call.spread / math.sqrt(ended.times.shape[1])))
        for ended in calls(generator, call, count)
    )


def level_covered(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls whose interval of the second setting's latency covers the truth."""
    spread = math.hypot(call.spread / math.sqrt(2), 0.02)
    return coverage(
        (
            stats.setting_interval(nested(ended.times[1][:, None]), by_precision=ended.by_precision),
            1 / call.truth[0],
            ideal_width(spread / math.sqrt(ended.times.shape[1])),
        )
        for ended in calls(generator, call, count)
    )


def precise_covered(margin: float, generator: np.random.Generator, count: int) -> Counted:
    """Settings that are measured until their interval is within ± ``margin``, and whose interval covers the truth."""
    spread = 0.1

    def measured() -> Iterator[tuple[Interval, float, float]]:
        for values in spread * generator.standard_normal((count, 256)):
            times = np.exp(values).tolist()
            for rounds in range(8, len(times) + 1):
                found = stats.level_interval(times[:rounds], by_precision=True)
                if found.half_width <= margin:
                    break
            yield found, 1.0, ideal_width(spread / math.sqrt(rounds))

    return coverage(measured())


def fixed_level_covered(kind: Processes, processes: int, generator: np.random.Generator, count: int) -> Counted:
    """Settings of a fixed number of processes whose interval covers the truth."""
    ideal = ideal_width(_spread_of_medians(kind) / math.sqrt(processes))
    drawn = samples(generator, kind, (count, processes))
    return coverage((stats.setting_interval(nested(each)), 1.0, ideal) for each in drawn)


def fixed_ratio_covered(kind: Processes, rounds: int, generator: np.random.Generator, count: int) -> Counted:
    """Equal settings of a fixed number of rounds whose interval of the ratio covers the truth."""
    ideal = ideal_width(math.sqrt(2) * _spread_of_medians(kind) / math.sqrt(rounds))
    sides = [samples(generator, kind, (count, rounds)) for _ in range(2)]
    return coverage((stats.ratio_test(nested(a), nested(b)).interval, 1.0, ideal) for a, b in zip(*sides))


def _spread_of_medians(kind: Processes) -> float:
    """Standard deviation of the log medians of processes, drift aside."""
    drawn = samples(np.random.default_rng(0), Processes(kind.between, kind.skewed, kind.correlation), (2000, 8))
    return float(np.median(drawn, axis=2).std())


# compare


def called(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables of equals with a row that is FASTER or SLOWER."""
    return share(is_called(stats.verdicts(rows)) for rows in tables(generator, sides, count))


def same(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables with a row that is SAME."""
    return share(is_same(stats.verdicts(rows)) for rows in tables(generator, sides, count))


def compared_covered(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Rows whose interval of the ratio covers the truth."""
    truth, ideal = 1 / sides.slower, ideal_width(sides.ideal_error)
    return coverage((row.interval, truth, ideal) for (row,) in tables(generator, sides, count))


def failed(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables with a row that fails ``slower:3%``."""
    return share(any(worse_by_more(rows, SLOWER)) for rows in tables(generator, sides, count))


# All of them

EQUALS, MIXED = (1.0,) * 8, (1.0,) * 4 + (OUTSIDE,) * 4
ORDINARY, TAILED = Processes(normal), Processes(normal, skewed=True)
CORRELATED, DRIFTING = Processes(normal, correlation=0.9), Processes(normal, drift=0.05)
SKEWED = Processes(skewed)


def _at_most(command: str, case: str, event: str, replayed: Replay) -> Promise:
    return Promise(command, case, event, WRONG, replayed)


def _covers(command: str, case: str, what: str, replayed: Replay, promised: float = COVERAGE, why: str = "") -> Promise:
    return Promise(command, case, f"the interval of {what} covers it", promised, replayed, is_least=True, why=why)


def _wrong(case: str, call: Call, event: str) -> Promise:
    return _at_most("run", f"{case}; ends {call.end.value}", event, partial(wrong, call))


def _run() -> list[Promise]:
    differ, equal, either = "FASTER or SLOWER", "SAME", "a wrong verdict"
    found = [_wrong("two equal settings", Call(end=end), differ) for end in End if end is not End.FIRST_SAME]
    found += [
        _wrong("eight settings equal to the baseline", Call(EQUALS, end=end), differ)
        for end in (End.LAST_LOOK, End.TIME, End.FIRST_DIFFERENCE)
    ]
    for spread in (0.01, 0.02, 0.04):
        case = f"settings that differ by just over 2 %, rounds by {100 * spread:g} %"
        found.append(_wrong(case, Call((OUTSIDE,), spread), equal))
    just = "settings that differ by just over 2 %, rounds by 2 %"
    found += [_wrong(just, Call((OUTSIDE,), 0.02, end), equal) for end in (End.TIME, End.FIRST_SAME)]
    found.append(_wrong("eight settings, four equal and four just over 2 % apart", Call(MIXED, 0.02), either))
    for truth in (1.0, 1.01, 1.02, 1.05):
        call, case = Call((truth,)), f"settings that differ by {100 * truth - 100:.0f} %; ends when it is decided"
        found.append(_covers("run", case, "the ratio", partial(ratio_covered, call), why=REPEATED))
    call = Call((1.02,), end=End.TIME)
    case = f"settings that differ by 2 %; ends {End.TIME.value}"
    found.append(_covers("run", case, "the ratio", partial(ratio_covered, call), why=REPEATED))
    case = "settings that differ by 2 %; ends when it is decided"
    found.append(_covers("run", case, "a latency", partial(level_covered, Call((1.02,)))))
    for margin in (0.05, 0.03):
        case = f"processes differ by 10 %, measured until ±{100 * margin:g} % (--margin)"
        found.append(_covers("run", case, "a latency", partial(precise_covered, margin)))
    drifts = "the drift of the machine counts as a difference between processes"
    for name, kind, why in (
        ("normal samples", ORDINARY, ""),
        ("samples with an exponential tail", TAILED, ""),
        ("samples with a correlation of 0.9", CORRELATED, ""),
        ("a machine that gets 5 % slower", DRIFTING, drifts),
    ):
        for count in (4, 8):
            case = f"{count} processes, {name}"
            found.append(_covers("run", case, "a latency", partial(fixed_level_covered, kind, count), why=why))
        found.append(_covers("run", f"8 rounds, {name}", "a ratio", partial(fixed_ratio_covered, kind, 8)))
    for count in (4, 8):
        # Not what is promised in general: this much is lost if processes themselves are skewed.
        case = f"{count} processes whose levels have a skewness of 1"
        found.append(_covers("run", case, "a latency", partial(fixed_level_covered, SKEWED, count), SKEWED_COVERED))
    found.append(_covers("run", "8 rounds, of such processes", "a ratio", partial(fixed_ratio_covered, SKEWED, 8)))
    return found


def _compare() -> list[Promise]:
    assumed = "how much days differ is assumed: 10 %"
    few = "Welch's interval allows for days that differ more on one side, of which few days say little"
    one, three, five = (1, 1), (3, 3), (5, 5)
    found = []
    for sides, why in (
        *((Sides(count, 0.03), assumed) for count in (one, three, five)),
        *((Sides(three, day), assumed) for day in (0.0, 0.01, 0.02)),
        *((Sides(count, 0.03, apart=True), few) for count in (three, five)),
        (Sides((3, 1), 0.03, apart=True), assumed),  # as in docs/ci.md
    ):
        case = f"equal sides, {_case(sides)}"
        found.append(_at_most("compare", case, "FASTER or SLOWER", partial(called, sides)))
        found.append(_covers("compare", case, "the ratio", partial(compared_covered, sides), why=why))
    for sides in (Sides(three, 0.03), Sides(three, 0.03, apart=True), Sides((3, 1), 0.03, apart=True)):
        slower = replace(sides, slower=1 + SLOWER)
        case = f"3 % slower, {_case(sides)}"
        found.append(_at_most("compare", case, "fails slower:3%", partial(failed, slower)))
    table = Sides(five, 0.01, apart=True, rows=8)
    found.append(_at_most("compare", f"8 equal rows, {_case(table)}", "FASTER or SLOWER", partial(called, table)))
    slower = replace(table, slower=1 + SLOWER)
    found.append(_at_most("compare", f"8 rows 3 % slower, {_case(slower)}", "fails slower:3%", partial(failed, slower)))
    outside = Sides(five, 0.0, apart=True, slower=OUTSIDE)
    found.append(_at_most("compare", f"just over 2 % slower, {_case(outside)}", "SAME", partial(same, outside)))
    return [replace(each, repetitions=EXPENSIVE) for each in found]


def _case(sides: Sides) -> str:
    base, other = sides.sessions
    count = f"{base} and {other} sessions" if base != other else f"{base} session{'s' * (base > 1)} a side"
    place = "" if base == other == 1 else ", each on another day" if sides.apart else " of one call"
    return f"{count}{place}, days differ by {100 * sides.day:g} %"


PROMISES: tuple[Promise, ...] = (
    *_run(),
    *_compare(),
    _at_most("tune", "15 candidates that are as fast as the default", "a winner is confirmed", false_winner),
)
