"""What was found under load, for people: the table of runs, the answer in a sentence, what is INVALID. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from statistics import median

from modelzoo.document import Block, Column, Notice, Notices, Table, Tone, columns_of, first_line, named
from modelzoo.formatting import (
    MISSING,
    apart,
    counted,
    cpus,
    rounded_down,
    seconds,
    share,
    significant,
    without_options,
)
from modelzoo.frozen import replace
from modelzoo.records.serving import Flaw, GeneratorPlace, InvalidReason, Load, LoadRun, LoadSession, Scenario
from modelzoo.results import load as results
from modelzoo.stats import percentile, percentiles
from modelzoo.stats.intervals import Interval
from modelzoo.stats.latency_bound import upper_estimate
from modelzoo.views.differences import grouped
from modelzoo.views.speed import PERCENTILES, rounded
from modelzoo.warning import Severity

_MOST_SIZES = 8
"""Batch sizes that are named one by one."""
_OF_A_SEARCH = ("--repeats", "--json", "--output", "-o", "--plot")
"""Options of a search that its answer does not repeat, each with a value."""
_LENGTHS = ("--queries", "--duration")
"""Options that say how long a run is; the command that follows a search has one of them."""


def interval(value: Interval, unit: str) -> str:
    """A rate with its interval: ``13.6 requests/s [12.4, 14.9]``; without one if it is unbounded."""
    if math.isinf(value.high):
        return f"{significant(value.value, 3)} {unit}"
    half = (value.high - value.low) / 2
    low, middle, high = (rounded(each, half) for each in (value.low, value.value, value.high))
    return f"{middle} {unit} [{low}, {high}]"


def instances_text(load: Load) -> str:
    """``4 instances × 2 cores``."""
    return f"{counted(load.plan.instances, 'instance')} × {counted(load.plan.cores_per_instance, 'core')}"


def caption(load: Load) -> str:
    """What was asked for, in a line."""
    plan = load.plan
    batch = f"batches of up to {plan.batch}" if plan.batch > 1 else "batches of 1"
    if plan.batch > 1 and plan.scenario is Scenario.SERVER:
        batch += f", which wait up to {seconds(plan.max_wait)}" if plan.max_wait else ", which wait for nothing"
    parts = [f"{load.workload}, {instances_text(load)}", batch, f"scenario {plan.scenario}"]
    if plan.scenario is Scenario.SERVER:
        parts.append(f"queue of {plan.queue:,}")
    if plan.bound is not None:
        parts.append(f"bound {plan.bound.text}")
    parts.append(f"seed {plan.seed}")
    return ", ".join(parts)


def session_lines(session: LoadSession, load: Load) -> list[str]:
    """The instances of a repeat, when they are ready: what a full batch takes, and where the generator runs."""
    found = session.calibration
    size = f"a batch of {found.size}" if found.size > 1 else "a request"
    said = f"{size} takes {seconds(median(found.seconds))} while all instances are busy, {significant(found.rate, 3)} "
    lines = [f"repeat {session.repeat + 1} of {load.plan.repeats}: {said}requests/s"]
    if session.repeat == 0:
        lines.append(f"generator: {generator_text(session.generator, load)}")
        if load.fixed_size is not None and load.fixed_size > 1:
            lines.append(
                f"padding: this engine or mode has fixed shapes, so each batch is computed as one of {load.fixed_size}"
            )
    return lines


def run_line(run: LoadRun, load: Load) -> str:
    """One run as it ends."""
    percent = results.shown_percent(load)
    requested = "" if run.rate is None else f"{significant(run.rate, 3)} requests/s: "
    shown = f"p{percent:g} {seconds(percentile(run.latencies, percent))}"
    if load.plan.scenario is Scenario.OFFLINE:
        requested, shown = "", f"{significant(results.achieved(run), 3)} requests/s"
    verdict = f"{_outcome(run, load)} ({_flaws(run)})" if run.reasons else _outcome(run, load)
    return f"  {requested}{len(run.latencies):,} requests in {seconds(run.seconds)}, {shown}: {verdict}"


def _outcome(run: LoadRun, load: Load) -> str:
    """``VALID`` or ``INVALID``; of a search, whose runs show less, ``passed`` or ``failed``."""
    good, bad = ("passed", "failed") if load.plan.is_search else ("VALID", "INVALID")
    return bad if run.reasons else good


def _flaws(run: LoadRun) -> str:
    return ", ".join(dict.fromkeys(str(each.flaw) for each in run.reasons))


def document(load: Load) -> list[Block]:
    """Return the answer and what qualifies it, the runs, and why runs are INVALID or failed."""
    no_answer = Tone.OPEN if load.plan.is_search else Tone.BAD
    tone = Tone.BETTER if results.is_valid(load) else no_answer
    found: list[Block] = [first_line(f"{load.workload}: {headline(load)}", tone)]
    found += [Table("Runs", columns(load), caption(load))] if load.runs else []
    failing = "failed" if load.plan.is_search else "INVALID"
    reasons = [Notice(Severity.INVALIDATES, failing, "", each) for each in reason_lines(load)]
    return [*found, Notices(reasons), named(("note", each) for each in notes(load))]


def columns(load: Load) -> list[Column]:
    """The runs as a table, by repeat and rate."""
    runs = ordered(load)
    optional = ("p95", "batches", "p90", "late p99", "repeat", "reason")
    tones = tuple(Tone.PLAIN if run.is_valid else Tone.FAINT for run in runs)
    verdicts = tuple(Tone.BETTER if run.is_valid else Tone.FAINT for run in runs)
    found = columns_of([_cells(run, load) for run in runs], ("verdict", "batches", "reason"), optional, tones)
    return [replace(each, tones=verdicts) if each.title == "verdict" else each for each in found]


def ordered(load: Load) -> list[LoadRun]:
    """The runs by repeat and rate."""
    return sorted(load.runs, key=lambda run: (run.repeat, run.rate or 0.0))


def _cells(run: LoadRun, load: Load) -> dict[str, str]:
    known = percentiles(run.latencies)
    percent = results.shown_percent(load)
    name = f"p{percent:g}"
    busy = results.utilization(run)
    low, high = (f"{100 * each:.0f}" for each in (min(busy, default=0.0), max(busy, default=0.0)))
    found = {
        "repeat": str(run.repeat + 1) if load.plan.repeats > 1 else MISSING,
        "asked, requests/s": MISSING if run.rate is None else significant(run.rate, 3),
        "verdict": _outcome(run, load),
        "answered/s": significant(results.achieved(run), 3),
        "requests": f"{len(run.latencies):,} of {run.requests:,}" if run.given_up else f"{run.requests:,}",
        "rejected": f"{run.rejected:,}" if run.rejected else MISSING,
    }
    if load.plan.scenario is not Scenario.OFFLINE:
        found |= {each: seconds(known.get(each)) for each in PERCENTILES}
        limit = load.plan.bound.seconds if load.plan.bound is not None else None
        upper = upper_estimate(run.latencies, percent / 100)
        found[name], at_most, _ = apart(percentile(run.latencies, percent), upper, limit, show=seconds)
        found[f"{name} at most (99 %)"] = MISSING if run.given_up else at_most
    found["late p99"] = MISSING if load.plan.scenario is not Scenario.SERVER else seconds(run.lateness.p99)
    found["batches"] = sizes(run) if load.plan.batch > 1 else MISSING
    found["busy"] = f"{low} %" if low == high else f"{low}–{high} %"
    found["throttled"] = MISSING
    if run.throttling and run.throttling.periods:
        stopped = f"{significant(run.throttling.seconds, 2)} s in {counted(run.throttling.periods, 'period')}"
        found["throttled"] = stopped
    return {**found, "reason": _flaws(run) or MISSING}


def sizes(run: LoadRun) -> str:
    """The histogram of batch sizes: ``1: 62 %, 2: 30 %, 3: 8 %``."""
    count = sum(each.count for each in run.batches) or 1
    shown = [f"{each.size}: {share(each.count / count, 0)}" for each in run.batches]
    return ", ".join(shown) if len(shown) <= _MOST_SIZES else f"mean {results.mean_batch(run):.1f}"


def headline(load: Load) -> str:
    """Return the answer in a sentence."""
    plan = load.plan
    if plan.is_search:
        return _search_headline(load)
    if plan.scenario is Scenario.OFFLINE:
        found = results.capacity(load)
        if found is None:
            return "no run is valid, so there is no answer"
        return f"{instances_text(load)} answer {interval(found, 'requests/s')} if all of them are there at the start"
    if plan.scenario is Scenario.SINGLE_STREAM:
        latency = results.stream_latency(load)
        name = f"p{results.shown_percent(load):g}"
        if latency is None:
            return f"no run is valid and long enough for {name}, so there is no answer"
        return f"one request at a time is answered within {seconds(latency.value)} ({name})"
    runs = load.runs
    valid = sum(run.is_valid for run in runs)
    rate = f"{significant(plan.rate or 0.0, 3)} requests/s"
    goal = f"meet {plan.bound.text}" if plan.bound is not None else "are answered"
    if valid == len(runs) and runs:
        return f"{rate} {goal}: VALID" if len(runs) == 1 else f"{rate} {goal} in each of {len(runs)} repeats: VALID"
    where = f" in {len(runs) - valid} of {len(runs)} repeats" if len(runs) > 1 else ""
    why = "; ".join(dict.fromkeys(filter(None, map(_flaws, runs))))
    return f"{rate}: INVALID{where}" + (f" ({why})" if why else "")


def _search_headline(load: Load) -> str:
    bound = load.plan.bound.text if load.plan.bound is not None else ""
    found = results.answer(load)
    searches = results.searches(load)
    if found is None:
        missing = f"in {sum(each.rate is None for each in searches)} of {len(searches)} repeats"
        if not searches or not load.is_complete:
            return "the search was interrupted before it had an answer"
        late = any([each.flaw for each in run.reasons] == [Flaw.LATE] for run in load.runs)
        why = "; the generator was late, so something else kept the machine busy" if late else ""
        met = [each.valid for each in searches if each.valid is not None]
        if len(met) == len(searches):
            reached = f"{rounded_down(min(met))} requests/s passed {bound}"
            return f"the search did not come to its end {missing}, so there is no answer; {reached} in each{why}"
        if load.plan.bound is not None and any(results.is_slow_alone(run, load.plan.bound) for run in load.runs):
            why = "; requests took longer than that even without waiting"
        return f"no rate was found that passes {bound}, {missing}{why}"
    every = f"in each of {len(found.found)} repeats" if len(found.found) > 1 else "in a single repeat"
    spread = f"the level of the repeats is {interval(found.level, 'requests/s')}"
    if len(found.found) == 1:
        spread = "an interval takes at least two repeats (--repeats)"
    return f"up to {rounded_down(found.sustained)} requests/s pass {bound} {every}, on {instances_text(load)}; {spread}"


def notes(load: Load) -> list[str]:
    """What qualifies the answer."""
    found, answer = [], results.answer(load)
    if answer is not None and len(answer.found) > 1:
        found.append(
            f"95 % interval: Student's t on the logarithms of what {len(answer.found)} repeats found, each with "
            "instances and schedules of its own, and half the distance from the highest rate that passed to the lowest "
            "that failed"
        )
    if load.plan.is_search:
        found.append(
            "a run of a search passes by MLPerf's rule, as if requests did not follow each other in the queue; whether "
            "the rate meets the bound is for a longer run of its own to show"
        )
    place = load.sessions[0].generator if load.sessions else None
    if place is not None and not place.polls:
        found.append(f"generator: {generator_text(place, load)}")
    throttled = [run.throttling for run in load.runs if run.throttling is not None and run.throttling.periods]
    if throttled:
        times = counted(sum(each.periods for each in throttled), "time")
        runs = f"in {len(throttled)} of {len(load.runs)} runs" if len(load.runs) > 1 else "in the run"
        quota = "the quota" if load.topology.quota is None else f"the quota of {load.topology.quota:g} CPUs"
        stopped = f"CPUs stopped for {seconds(sum(each.seconds for each in throttled))} in all"
        fewer = _fewer(load, "give the instances less")
        found.append(
            f"throttling: {quota} was used up {times} {runs}, and {stopped}, which is part of the latencies{fewer}"
        )
    padded, items = sum(run.padded for run in load.runs), sum(len(run.latencies) for run in load.runs)
    if padded:
        found.append(f"padding: {padded:,} items beside {items:,} requests only filled batches up to {load.fixed_size}")
    return found


def generator_text(place: GeneratorPlace, load: Load) -> str:
    """Where the generator runs; if it has no core of its own, or no time of the quota, why, and what helps."""
    own = f"on {cpus(place.cpus)}, which no instance uses"
    if place.is_own and place.has_quota:
        return own
    if place.is_own:
        quota = f"the instances may use up the whole quota of {load.topology.quota:g} CPUs"
        said = f"{own}, but it sleeps between events, because {quota}"
    else:
        said = f"the instances use all {len(load.topology.cores)} cores, so the generator takes time from them"
    first = f" (niceness {place.nice}, so that it does not wait for them)" if place.nice < 0 else ""
    return f"{said}{_fewer(load, 'leave a core free for it')}{first}"


def _fewer(load: Load, advice: str) -> str:
    """``advice`` with the option that follows it; empty if a single instance has a single core."""
    plan = load.plan
    if plan.instances > 1 and plan.cores_per_instance <= plan.instances:
        return f"; {advice}: --instances {plan.instances - 1} --cores-per-instance {plan.cores_per_instance}"
    if plan.cores_per_instance > 1:
        count = f"--instances {plan.instances} " if plan.instances > 1 else ""
        return f"; {advice}: {count}--cores-per-instance {plan.cores_per_instance - 1}"
    return ""


def reason_lines(load: Load) -> list[str]:
    """Why runs are INVALID or failed, by kind, each with its first example; an overload in a search is no news."""
    is_search = load.plan.is_search
    runs = [run for run in ordered(load) if not (is_search and run.is_overload)]
    where = [f" at {significant(run.rate, 3)} requests/s" if is_search and run.rate is not None else "" for run in runs]
    groups = grouped(
        (reason.flaw, f"{reason_text(reason, run, load)}{at}") for run, at in zip(runs, where) for reason in run.reasons
    )
    return [texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else "") for texts in groups.values()]


def reason_text(reason: InvalidReason, run: LoadRun, load: Load) -> str:
    """One reason why a run is INVALID or failed, with the figures, and what would help."""
    if reason.instance is not None:
        why = next((use.error for number, use in enumerate(run.uses) if number == reason.instance), "unknown")
        return f"instance {reason.instance} died: {why}"
    if reason.flaw is Flaw.REJECTED:
        full = f"the queue of {load.plan.queue:,} was full"
        return f"{run.rejected:,} of {run.requests:,} requests were rejected: {full}"
    if reason.flaw is Flaw.LATE:
        late = "p99 of its lateness is {}, over {}".format(*apart(run.lateness.p99, run.lateness.limit, show=seconds))
        return f"the generator was late: {late}"
    bound, count = load.plan.bound, len(run.latencies)
    if bound is None:
        return str(reason.flaw)
    if reason.over is None:
        more = "" if load.plan.is_search else " or more"
        return f"{count:,} requests cannot show {bound.text}: it takes {reason.needed:,}{more}; raise --queries"
    limit = seconds(bound.seconds)
    if run.given_up:
        rejected = " or were rejected" if run.rejected else ""
        first = f"{reason.over:,} of the first {count + run.rejected:,} requests took longer than {limit}{rejected}"
        return f"{first}, too many for {bound.text}"
    many = f"{reason.over:,} of {count:,} requests took longer than {limit}"
    if reason.dependence is None:
        if reason.allowed is None:
            return f"{bound.text} is not met: {many}"
        return f"{many}; to show {bound.text} with 99 % confidence, {reason.allowed:,} may"
    said = f"{many}, which does not show {bound.text} with 99 % confidence: neighbours wait in the same queue, so "
    said += f"{significant(reason.dependence, 2)} of them count as one"
    if reason.needed is None:
        return f"{said}; this is too close to the bound to say how many requests would"
    return f"{said}; about {reason.needed:,} would show it (--queries)"


def command(words: Sequence[str], load: Load) -> str | None:
    """The command line that repeats what a search found, at its rate; ``None`` if it found nothing.

    Args:
        words: the command line of the search.
        load: what it measured.
    """
    found = results.answer(load)
    if found is None:
        return None
    kept = [word for word in without_options(words[1:], _OF_A_SEARCH) if word != "--find"]
    is_short = not any(word.startswith(_LENGTHS) for word in kept)
    length = ["--duration", "5m"] if is_short else []
    return shlex.join(["modelzoo", *kept, "--rate", rounded_down(found.sustained), *length])
