"""What the verdicts and intervals of ``run``, ``compare`` and ``tune`` promise, replayed on simulated data.

benchmarks/verdicts.py runs the replays and prints the table. The data are those of ``simulated_calls`` and
``simulated_sessions``; verdicts, intervals and p-values come from the suite's own functions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial

import numpy as np
from false_winners import Search, replay
from promises import Bound, Counted, Promise
from simulated_calls import (
    Call,
    End,
    Processes,
    any_called,
    calls,
    covers,
    ideal_width,
    log_width,
    nested,
    normal,
    samples,
    skewed,
)
from simulated_sessions import Sides, Simulator

from modelzoo import stats
from modelzoo.comparison.estimate import worse_by_more
from modelzoo.frozen import replace
from modelzoo.stats import Outcome

WRONG, COVERED = 1 - stats.VERDICT_CONFIDENCE, stats.CONFIDENCE
SKEWED_COVERED = 0.94
"""What the interval of a latency promises if the levels of processes are skewed (``stats.intervals``)."""
OUTSIDE = 1 + stats.EQUIVALENCE + 1e-4
"""A ratio that is just not SAME."""
SLOWER = 0.03
"""The bound of the gate ``slower:3%``."""
REPEATED = "a repeated interval holds at every look, and a call ends at one of them"
Replay = Callable[[np.random.Generator, int], Counted]


# run


def wrong(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls with a wrong verdict: FASTER or SLOWER of equals, SAME of what is not."""
    hits = 0
    for ended in calls(generator, call, count):
        equal = [v for v, truth in zip(ended.verdicts, call.truth) if truth == 1]
        others = [v for v, truth in zip(ended.verdicts, call.truth) if truth != 1]
        hits += any_called(equal) or any(v.outcome is Outcome.SAME for v in others)
    return Counted(hits, count)


def ratio_covered(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls whose interval of the first ratio covers the truth."""
    hits, widths = 0, 0.0
    for ended in calls(generator, call, count):
        found = ended.found[0].interval
        hits += covers(found, call.truth[0])
        widths += log_width(found) / ideal_width(call.spread, ended.times.shape[1])
    return Counted(hits, count, widths / count)


def level_covered(call: Call, generator: np.random.Generator, count: int) -> Counted:
    """Calls whose interval of the second setting's latency covers the truth."""
    hits, widths = 0, 0.0
    for ended in calls(generator, call, count):
        found = stats.setting_interval(nested(ended.times[1][:, None]), by_precision=ended.by_precision)
        hits += covers(found, 1 / call.truth[0])
        spread = math.hypot(call.spread / math.sqrt(2), 0.02)
        widths += log_width(found) / ideal_width(spread, ended.times.shape[1])
    return Counted(hits, count, widths / count)


def precise_covered(margin: float, generator: np.random.Generator, count: int) -> Counted:
    """Settings that are measured until their interval is within ± ``margin``, and whose interval covers the truth."""
    hits, widths, spread = 0, 0.0, 0.1
    for values in spread * generator.standard_normal((count, 256)):
        logs = np.exp(values).tolist()
        for rounds in range(8, len(logs) + 1):
            found = stats.level_interval(logs[:rounds], by_precision=True)
            if found.half_width <= margin:
                break
        hits += covers(found, 1.0)
        widths += log_width(found) / ideal_width(spread, rounds)
    return Counted(hits, count, widths / count)


def fixed_level_covered(kind: Processes, processes: int, generator: np.random.Generator, count: int) -> Counted:
    """Settings of a fixed number of processes whose interval covers the truth."""
    drawn = samples(generator, kind, (count, processes))
    found = [stats.setting_interval(nested(each)) for each in drawn]
    spread = _spread_of_medians(kind)
    width = sum(map(log_width, found)) / count / ideal_width(spread, processes)
    return Counted(sum(covers(each, 1.0) for each in found), count, width)


def fixed_ratio_covered(kind: Processes, rounds: int, generator: np.random.Generator, count: int) -> Counted:
    """Equal settings of a fixed number of rounds whose interval of the ratio covers the truth."""
    first, second = (samples(generator, kind, (count, rounds)) for _ in range(2))
    found = [stats.ratio_test(nested(a), nested(b)).interval for a, b in zip(first, second)]
    width = sum(map(log_width, found)) / count / ideal_width(math.sqrt(2) * _spread_of_medians(kind), rounds)
    return Counted(sum(covers(each, 1.0) for each in found), count, width)


def _spread_of_medians(kind: Processes) -> float:
    """Standard deviation of the log medians of processes, drift aside."""
    drawn = samples(np.random.default_rng(0), Processes(kind.between, kind.skewed, kind.correlation), (2000, 8))
    return float(np.median(drawn, axis=2).std())


# compare


def called(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables of equals with a row that is FASTER or SLOWER."""
    hits = 0
    for rows in Simulator().tables(generator, sides, count):
        hits += any_called(stats.verdicts(rows))
    return Counted(hits, count)


def same(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables with a row that is SAME."""
    hits = 0
    for rows in Simulator().tables(generator, sides, count):
        hits += any(each.outcome is Outcome.SAME for each in stats.verdicts(rows))
    return Counted(hits, count)


def compared_covered(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Rows whose interval of the ratio covers the truth."""
    hits, widths = 0, 0.0
    for (row,) in Simulator().tables(generator, sides, count):
        hits += covers(row.interval, 1 / sides.slower)
        widths += log_width(row.interval) / ideal_width(sides.ideal_error, 1)
    return Counted(hits, count, widths / count)


def failed(sides: Sides, generator: np.random.Generator, count: int) -> Counted:
    """Tables with a row that fails ``slower:3%``."""
    hits = sum(any(worse_by_more(rows, SLOWER)) for rows in Simulator().tables(generator, sides, count))
    return Counted(hits, count)


# tune


def false_winner(generator: np.random.Generator, count: int) -> Counted:
    """Searches among equals that confirm a winner."""
    source = random.Random(int(generator.integers(2**32)))
    pool = (0.03 * generator.standard_normal(5000)).tolist()
    search = Search(candidates=15, budget=900.0, cost=6.0)
    return Counted(sum(replay(pool, search, source).is_false for _ in range(count)), count)


# All of them

EQUALS, MIXED = (1.0,) * 8, (1.0,) * 4 + (OUTSIDE,) * 4
ORDINARY, TAILED = Processes(normal), Processes(normal, skewed=True)
CORRELATED, DRIFTING = Processes(normal, correlation=0.9), Processes(normal, drift=0.05)
SKEWED = Processes(skewed)


def _at_most(command: str, case: str, event: str, replayed: Replay, promised: float = WRONG) -> Promise:
    return Promise(command, case, event, Bound.AT_MOST, promised, replayed)


def _covers(command: str, case: str, what: str, replayed: Replay, promised: float = COVERED, why: str = "") -> Promise:
    return Promise(command, case, f"the interval of {what} covers it", Bound.AT_LEAST, promised, replayed, why=why)


def _wrong(case: str, call: Call, event: str) -> Promise:
    return _at_most("run", f"{case}; ends {call.end.value}", event, partial(wrong, call))


def _run() -> list[Promise]:
    differ, is_same, either = "FASTER or SLOWER", "SAME", "a wrong verdict"
    found = [_wrong("two equal settings", Call(end=end), differ) for end in End if end is not End.FIRST_SAME]
    found += [
        _wrong("eight settings equal to the baseline", Call(EQUALS, end=end), differ)
        for end in (End.LAST_LOOK, End.TIME, End.FIRST_DIFFERENCE)
    ]
    for spread in (0.01, 0.02, 0.04):
        case = f"settings that differ by just over 2 %, rounds by {100 * spread:g} %"
        found.append(_wrong(case, Call((OUTSIDE,), spread), is_same))
    just = "settings that differ by just over 2 %, rounds by 2 %"
    found += [_wrong(just, Call((OUTSIDE,), 0.02, end), is_same) for end in (End.TIME, End.FIRST_SAME)]
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
    for sides in (
        Sides(three, 0.03),
        Sides(three, 0.03, apart=True),
        Sides((3, 1), 0.03, apart=True),
    ):
        slower = replace(sides, slower=1 + SLOWER)
        case = f"3 % slower, {_case(sides)}"
        found.append(_at_most("compare", case, "fails slower:3%", partial(failed, slower)))
    table = Sides(five, 0.01, apart=True, rows=8)
    found.append(_at_most("compare", f"8 equal rows, {_case(table)}", "FASTER or SLOWER", partial(called, table)))
    slower = replace(table, slower=1 + SLOWER)
    found.append(_at_most("compare", f"8 rows 3 % slower, {_case(slower)}", "fails slower:3%", partial(failed, slower)))
    outside = Sides(five, 0.0, apart=True, slower=OUTSIDE)
    found.append(_at_most("compare", f"just over 2 % slower, {_case(outside)}", "SAME", partial(same, outside)))
    return found


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
