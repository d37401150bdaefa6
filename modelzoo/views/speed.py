"""Times, rates and ratios, each rounded as its interval allows; and what a verdict on speed follows from. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from modelzoo.comparison.estimate import FEW_PROCESSES, LEAST_ALONE
from modelzoo.formatting import MISSING, Merged, apart, duration, general, percent, share, significant, time_unit
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.serving import LatencyBound
from modelzoo.records.validity import Validity
from modelzoo.results.refusals import (
    Batches,
    Bounds,
    Different,
    Failed,
    Metric,
    NotTimed,
    Obstacle,
    OtherOutputs,
    OtherWork,
    Refusal,
    Unproven,
)
from modelzoo.results.speed import Speed
from modelzoo.stats import EQUIVALENCE, LARGEST_P, Basis, Doubt, Interval, Outcome, Outlook, Ratio, Spread, Verdict
from modelzoo.views import proof
from modelzoo.views.differences import grouped
from modelzoo.views.judgement import reason_text
from modelzoo.views.kernel_tables import wrong_text
from modelzoo.warning import WarningMessage

PERCENTILES = ("p50", "p90", "p95", "p99")
NOISY, NONE = "(noisy)", "(no interval)"
"""In place of an interval that is wider than its value, and of an unbounded one (of a single process)."""
WIDEST = 1000
"""Ends of an interval that are further apart than this factor are not shown."""


def within(found: Interval) -> str:
    """The relative half width behind its value: ``±1.3 %``; a word if the interval is wider than the value."""
    if math.isinf(found.half_width):
        return NONE
    return f"±{percent(found.half_width)}" if found.half_width < 1 else NOISY


def rounded(value: float, half_width: float) -> str:
    """Round ``value`` as the half width of its interval, which has the same unit, allows.

    The half width keeps two digits if it begins with 100 to 354, else one (Particle Data Group, "Review of Particle
    Physics", introduction, section 5.3); the value ends at the same place.

    >>> rounded(56.1234, 0.73), rounded(264.4, 13.9)
    ('56.1', '264')
    """
    if not 0 < half_width < math.inf or value == 0:
        return significant(value)
    half = min(half_width, abs(value))
    exponent = math.floor(math.log10(half))
    place = -exponent + (half / 10**exponent < 3.55)
    return f"{value:.{place}f}" if place > 0 else f"{round(value, place):.0f}"


def rounded_value(found: Interval, factor: float = 1.0) -> str:
    """The value alone, times ``factor``, rounded as its interval allows."""
    return rounded(factor * found.value, factor * found.value * found.half_width)


def rate(found: Interval) -> str:
    """``35.1 ±1.3 %``."""
    return f"{rounded_value(found)} {within(found)}"


def interval(found: Interval | None) -> str:
    """A time in seconds with a suitable unit: ``56.1 ms ±1.3 %``."""
    if found is None:
        return MISSING
    unit, factor = time_unit(found.value)
    return f"{rounded_value(found, factor)} {unit} {within(found)}"


def ratio(found: Interval | None) -> str:
    """``0.62× [0.60, 0.64]``; a word if the interval says next to nothing."""
    if found is None:
        return MISSING
    if not math.isfinite(found.high):
        return f"{ratio_value(found)} (one process: no interval)"
    digits = _digits(found)
    bounds = f"[{found.low:.{digits}f}, {found.high:.{digits}f}]" if is_bounded(found) else NOISY
    return f"{ratio_value(found)} {bounds}"


def ratio_value(found: Interval) -> str:
    """A ratio alone, rounded as with its interval: ``0.62×``."""
    return f"{found.value:.{_digits(found)}f}×"


def is_bounded(found: Interval) -> bool:
    """Whether the interval of a ratio says anything: its ends are less than a factor of 1000 apart."""
    return found.low > 0 and found.high < WIDEST * found.low


def _digits(found: Interval) -> int:
    """The decimals of a ratio: a third one if the interval is narrower than ±2 %."""
    return 3 if max(found.high - found.value, found.value - found.low) < 0.02 * found.value else 2


OUTCOMES = {
    Outcome.FASTER: "faster",
    Outcome.SLOWER: "slower",
    Outcome.LESS: "less memory",
    Outcome.MORE: "more memory",
    Outcome.CHEAPER: "cheaper",
    Outcome.DEARER: "dearer",
    Outcome.SAME: "equally fast",
    Outcome.AMBIGUOUS: "not significant",
    Outcome.NOT_COMPARABLE: "not comparable",
    None: "failed",
}
"""What is counted, in this order; ``None``: it was not timed."""
UNPROVEN = " (unproven)"
"""Behind a conclusion about settings of which one is not proven; the name by which ``compare`` allows it."""
NOT_TIMED = {
    Metric.COLD_START: "no process on {} is known to have compiled its model, rather than found it in a cache",
    Metric.WARM_START: "no process on {} is known to have found its compiled code in a cache",
    Metric.FIRST_TOKEN: "no process on {} timed the tokens that it generated",
    Metric.PER_TOKEN: "no process on {} timed the tokens that it generated",
}
"""Why a side has no values of a metric; of the others, because nothing was timed."""


def is_qualified(speed: Speed) -> bool:
    """Whether a conclusion does not stand by itself: it is not proven that both sides ran in their precision."""
    return speed.is_unproven and speed.verdict.outcome is not Outcome.AMBIGUOUS


def outcome_text(speed: Speed) -> str:
    """``FASTER``; ``FASTER (unproven)`` if it does not stand by itself."""
    return f"{speed.verdict.outcome}{UNPROVEN if is_qualified(speed) else ''}"


def reason(speed: Speed) -> str:
    """What the verdict follows from."""
    if speed.refused:
        return "; ".join(map(refusal, speed.refused))
    is_assumed = speed.found is not None and speed.found.basis is Basis.ASSUMED
    return verdict_reason(speed.verdict) + (f"; {basis_text(speed.found)}" if speed.found and is_assumed else "")


def is_open_beyond_interval(speed: Speed) -> bool:
    """Whether a speedup is AMBIGUOUS although its interval excludes 1, which needs a reason.

    The interval is of 95 % confidence and of one comparison; the verdict needs 98 % for all comparisons of the table.
    """
    found = speed.ratio
    return found is not None and speed.verdict.outcome is Outcome.AMBIGUOUS and not found.low <= 1 <= found.high


def basis_text(*found: Ratio) -> str:
    """``sessions differ by 10 % (assumed), standard deviation``; several rows' and both sides' spreads as a range."""
    spreads = [spread for each in found for spread in each.spreads]
    if found[0].basis is Basis.ROUNDS:
        if not all(math.isfinite(each.deviation) for each in spreads):
            return "how much rounds differ is not known"
        return f"the ratios of rounds differ by {_percent(each.deviation for each in spreads)}, standard deviation"
    alike = grouped((_spread([replace(each, deviation=0.0, processes=None)]), each) for each in spreads)
    return f"sessions differ by {' and '.join(map(_spread, alike.values()))}, standard deviation"


def _percent(values: Iterable[float]) -> str:
    return f"{Merged([100 * value for value in values]):.3g} %"


def _spread(spreads: Sequence[Spread]) -> str:
    """Spreads that come from the same."""
    spread = spreads[0]
    few = [each.processes for each in spreads if each.processes is not None]
    noise = f", and fewer than {FEW_PROCESSES} processes by {_percent(few)}" if few else ""
    days = "one day" if spread.days == 1 else f"{spread.days} days"
    if spread.basis is Basis.SESSIONS:
        origin = f"its own sessions on {days}"
    elif spread.sessions == 1:
        origin = "assumed"
    else:
        origin = f"assumed; {spread.sessions} sessions of {days} do not show it"
    return f"{_percent(each.deviation for each in spreads)} ({origin}){noise}"


def refusal(found: Refusal) -> str:
    """Why the two sides of a row are not comparable."""
    side, fact = found.side, found.fact
    if not side:
        return _of_both(found)
    if isinstance(fact, Failed):
        return f"all processes of {side} failed: {fact.error or 'they were interrupted'}"
    if isinstance(fact, Unproven):
        verb = "active" if found.obstacle is Obstacle.INACTIVE else "verified"
        return f"{fact.precision} is not {verb} on {side}: {proof.sentence(fact.proof) or proof.NO_EVIDENCE}"
    if isinstance(fact, WarningMessage):
        return f"{side} did not run as it says: {fact.message}"
    if isinstance(fact, Evidence) and fact.verdict is ProofVerdict.WRONG_RESULTS:
        return f"on {side}, WRONG RESULTS: {wrong_text(fact)}"
    if isinstance(fact, (Canary, Evidence)):
        return f"{side} is {proof.not_fp32(fact)}"
    if isinstance(fact, Validity):
        return f"the predictions of {side} are NOT VALID: {reason_text(fact)}"
    if isinstance(fact, OtherOutputs):
        return f"on {side}, {proof.other_outputs_text(fact)}"
    if isinstance(fact, LatencyBound):
        return f"no configuration of {side} is known to meet {fact.text}"
    if found.obstacle is Obstacle.UNCONFIRMED:
        return f"the best configuration of {side} was not measured again after the choice"
    return f"{side} ran under the emulator {fact}" if found.obstacle is Obstacle.EMULATOR else f"only {side} has it"


def _of_both(found: Refusal) -> str:
    fact = found.fact
    if isinstance(fact, NotTimed):
        return NOT_TIMED.get(fact.metric, "nothing was timed on {}").format(" and ".join(fact.sides))
    if isinstance(fact, Batches):
        sizes = (", ".join(map(str, each)) for each in (fact.base, fact.other))
        return f"baseline and candidate ran different batch sizes: {' and '.join(sizes)}"
    if isinstance(fact, Bounds):
        bounds = ("no --slo" if each is None else f"--slo {each.text}" for each in (fact.base, fact.other))
        return f"baseline and candidate had to meet different bounds: {' and '.join(bounds)}"
    if isinstance(fact, Obstacle):
        work = "how much work was done" if fact is Obstacle.WORK else f"the digest of the {fact.value}"
        return f"{work} was not recorded for both"
    if isinstance(fact, Evidence) and fact.verdict is ProofVerdict.WRONG_RESULTS:
        return f"WRONG RESULTS: {wrong_text(fact)}"
    if isinstance(fact, (Canary, Evidence)):
        return f"the fp32 baseline is {proof.not_fp32(fact)}"
    if isinstance(fact, OtherWork):
        return f"baseline and candidate did different work: {fact.name} {fact.base:.0f} and {fact.other:.0f}"
    if isinstance(fact, Different):
        said = "ran different weights" if fact is Different.WEIGHTS else "have different versions of workload.py"
        return f"baseline and candidate {said}"
    if isinstance(fact, OtherOutputs):
        return proof.other_outputs_text(fact)
    if found.obstacle is Obstacle.INPUTS:
        return "baseline and candidate ran different inputs"
    return "one result timed the model alone, the other one the whole pipeline"


def verdict_reason(verdict: Verdict, largest: float = 0.0) -> str:
    """What a verdict follows from: ``p = 0.013 (corrected for 2 comparisons)``.

    Args:
        verdict: it; of several that are alike, that with the lowest p-value.
        largest: the highest p-value, if there are several.
    """
    seen = needed = ""
    if verdict.p_value is not None:
        value, needed = apart(verdict.p_value, LARGEST_P, digits=2)
        seen = "p < 0.001" if verdict.p_value < 0.001 else f"p = {value}"
        seen += f" to {general(largest, 2)}" if largest > verdict.p_value else ""
        seen += f" (corrected for {verdict.table} comparisons)" if verdict.table > 1 else ""
    if verdict.outcome is Outcome.SAME:
        return f"a difference of {share(EQUIVALENCE, 0)} is ruled out: {seen}"
    if verdict.doubt is None:
        return seen
    return {
        Doubt.CHANCE: f"{seen}, and a verdict needs p ≤ {needed}",
        Doubt.FEW_ROUNDS: f"{verdict.rounds} rounds are fewer than were planned for a verdict",
        Doubt.ONE_PROCESS: "only one process each, so their spread is unknown",
        Doubt.FEW_PROCESSES: f"fewer than {LEAST_ALONE} processes, or rounds of instances, on a side",
        Doubt.CONTRADICTED: "later rounds contradict the difference that earlier ones showed",
        Doubt.NO_BASELINE: "the baseline has no runs",
        Doubt.NO_COMMON_ROUND: "no round has both settings",
    }[verdict.doubt]


def outlook_text(outlook: Outlook) -> str:
    """``about 9 more processes per setting (3 min) would show a difference of 2 %``."""
    if outlook.difference >= 1:
        return f"too noisy to compare; about {effort(outlook)} would show a factor of two"
    return f"about {effort(outlook)} would show a difference of {significant(100 * outlook.difference, 2)} %"


def effort(outlook: Outlook) -> str:
    """``9 more processes per setting (3 min)``."""
    # An estimate that is known to two digits at most.
    time = "" if outlook.seconds is None else f" ({duration(float(f'{outlook.seconds:.2g}'))})"
    return f"{outlook.processes:,} more process{'es' if outlook.processes > 1 else ''} per setting{time}"


def subject(base: str, name: str, outcome: Outcome | None) -> str:
    """Say how ``name`` compares with ``base``."""
    if outcome in (Outcome.LESS, Outcome.MORE):
        return f"{name} takes {OUTCOMES[outcome]} than {base}"
    if outcome in (Outcome.FASTER, Outcome.SLOWER, Outcome.CHEAPER, Outcome.DEARER):
        return f"{name} is {OUTCOMES[outcome]} than {base}"
    if outcome is Outcome.AMBIGUOUS:
        return f"no significant difference between {name} and {base}"
    return f"{name} failed" if outcome is None else f"{name} and {base} are {OUTCOMES[outcome]}"


def several(base: str, name: str, speeds: Sequence[Speed | None], noun: str) -> str:
    """Say how often ``name`` is faster than ``base``, slower …: ``bf16 is faster than fp32 on 2 of 3 models``.

    Args:
        base: the baseline.
        name: what is compared with it.
        speeds: at least one; ``None``: it failed.
        noun: what they are of, in the plural.
    """
    counts = tally(speeds)
    first, *rest = counts
    said = [f"{subject(base, name, first)} on {counts[first][0]} of {len(speeds)} {noun}{counts[first][1]}"]
    return ", ".join([*said, *(f"{OUTCOMES[each]} on {counts[each][0]}{counts[each][1]}" for each in rest)])


def tally(speeds: Sequence[Speed | None]) -> dict[Outcome | None, tuple[int, str]]:
    """How often each outcome occurs, with the ratios of what differs and how many of them are not proven.

    ``{Outcome.FASTER: (2, " (1.74× to 2.21×, 1 unproven)")}``, in the order of ``OUTCOMES``. Without a ratio, because
    the baseline has not run, or not together with the setting, a row is not comparable.
    """
    counts = {}
    for outcome in OUTCOMES:
        same = [each for each in speeds if _outcome(each) is outcome]
        known = [each.ratio for each in same if each is not None and each.ratio is not None]
        known = [] if outcome in (Outcome.SAME, Outcome.AMBIGUOUS) else sorted(known, key=lambda each: each.value)
        ratios = dict.fromkeys(map(ratio_value, (*known[:1], *known[-1:])))
        unproven = sum(each is not None and is_qualified(each) for each in same)
        said = [*filter(None, [" to ".join(ratios)]), *([f"{unproven} unproven"] if unproven else [])]
        if same:
            counts[outcome] = (len(same), f" ({', '.join(said)})" if said else "")
    return counts


def _outcome(speed: Speed | None) -> Outcome | None:
    if speed is None:
        return None
    is_unseen = speed.ratio is None and speed.verdict.outcome is Outcome.AMBIGUOUS
    return Outcome.NOT_COMPARABLE if is_unseen else speed.verdict.outcome
