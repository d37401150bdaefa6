"""What a call found, in sentences: one per workload, which answers the question that its settings ask. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modelzoo import formatting, stats
from modelzoo.formatting import significant
from modelzoo.records.evidence import Evidence, NotUsed, ProofVerdict
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import OutputAgreement, WeightsKind
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Doubt, Outcome
from modelzoo.views.details import LAUNCH_HINT
from modelzoo.views.differences import NAMED_SETTINGS, by_workload, short_names
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.proof import agreement_text
from modelzoo.views.results_table import interval, ratio, timed_unit
from modelzoo.views.speed import effort, is_open_beyond_interval, outlook_text, reason

_DIFFERS = {
    True: ("computes what torch does", "compute what torch does"),
    False: ("does NOT compute what torch does", "do NOT compute what torch does"),
}
"""What is said of one setting and of several, by ``OutputAgreement.is_same``."""
_EXPECTED = (ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY)
"""Judgements of which the table says enough."""


def sentences(shown: Sequence[SummaryRow]) -> dict[str, str]:
    """Return one sentence per workload: how its settings compare, whether kernels are verified, the accuracy."""
    return {workload: _sentence(rows) for workload, rows in by_workload(shown).items()}


def remarks(shown: Sequence[SummaryRow]) -> dict[str, str]:
    """Return by workload what neither the headline nor the table says: what may be concluded, and what spoils it."""
    said = {workload: _remark(rows) for workload, rows in by_workload(shown).items()}
    return {workload: text for workload, text in said.items() if text}


def _remark(rows: Sequence[SummaryRow]) -> str:
    names, compared, base = _sides(rows)
    said = ""
    if len(compared) > 1 and any(row.latency for row in rows):
        said = _several(compared, base, _unit(rows))
    elif compared and compared[0][1].speed is not None:
        is_open = compared[0][1].speed.verdict.outcome in (Outcome.AMBIGUOUS, Outcome.NOT_COMPARABLE)
        said = _pair(*compared[0], base, _unit(rows)) if is_open else ""
    proof = "" if all(row.is_proven or row.proof.verdict is None for row in rows) else _proof(names, rows)
    judged = [row.judged for row in rows if row.judged]
    accuracy = _accuracy(rows) if any(each.verdict not in _EXPECTED for each in judged) else ""
    return "; ".join(filter(None, [said, _launching(names, rows), proof, _agreement(names, rows), accuracy]))


def _sides(rows: Sequence[SummaryRow]) -> tuple[list[str], list[tuple[str, SummaryRow]], str]:
    """The names of all settings of a workload, those that are compared with the baseline, and its name."""
    names = short_names(rows)
    compared = [(name, row) for name, row in zip(names, rows) if not row.is_baseline]
    return names, compared, next((name for name, row in zip(names, rows) if row.is_baseline), "")


def _sentence(rows: Sequence[SummaryRow]) -> str:
    names, compared, base = _sides(rows)
    if all(row.errors and not row.processes for row in rows):
        return f"{', '.join(names)} failed" if len(rows) <= NAMED_SETTINGS else f"all {len(rows)} settings failed"
    if not compared or not any(row.latency for row in rows):
        said = _alone(names[0], rows[0])
    elif len(compared) == 1:
        said = _pair(*compared[0], base, _unit(rows))
    else:
        said = _several(compared, base, _unit(rows))
    rest = [_launching(names, rows), _proof(names, rows), _agreement(names, rows), _accuracy(rows)]
    return "; ".join(filter(None, [said, *rest]))


def _launching(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """Which settings spend their time issuing kernels, and what helps; empty if none does."""
    bound = [name for name, row in zip(names, rows) if row.spans is not None and row.spans.bound_by_launching]
    if not bound:
        return ""
    said = "launch-bound" if len(bound) == len(rows) == 1 else f"{', '.join(bound)}: launch-bound"
    return f"{said} ({LAUNCH_HINT})"


def _unit(rows: Sequence[SummaryRow]) -> str:
    """What is compared if it is not the time: items per second, if the settings have different batch sizes."""
    unit = next((row.unit for row in rows if row.unit), "items")
    return f"{unit}/s" if len({row.batch for row in rows if row.batch}) > 1 else ""


def _alone(name: str, row: SummaryRow) -> str:
    if row.latency is None:
        return "nothing was timed"
    return f"{timed_unit(row)} in {name} takes {interval(row.latency)}"


def _pair(name: str, row: SummaryRow, base: str, unit: str) -> str:
    """How one setting compares with the baseline. That of bf16 is fp32, which needs no words."""
    if row.speed is None:
        return f"{name} failed" if row.errors else f"{name} was not timed"
    speedup, verdict = row.speed.ratio, row.speed.verdict
    if speedup is None:
        return f"{name} is not compared with {base}: {reason(row.speed)}"
    if verdict.outcome in (Outcome.FASTER, Outcome.SLOWER):
        return f"{name} {_difference(speedup, base, unit)}"
    of = f" in {unit}" if unit else ""
    if verdict.outcome is Outcome.SAME:
        return f"{name} and {base} are equally fast{of}: {ratio(speedup)}"
    # The reason, a p-value, is among the details.
    if verdict.doubt is Doubt.ONE_PROCESS:
        return f"{name}: one process each cannot show a difference{of}; use --processes 3 or more"
    if is_open_beyond_interval(row.speed):
        said = f"the 95 % CI of the speedup{of} excludes 1, but the verdict is AMBIGUOUS: {reason(row.speed)}"
        return "; ".join([f"{name}: {said}", *([outlook_text(verdict.outlook)] if verdict.outlook else [])])
    why = outlook_text(verdict.outlook) if verdict.outlook else reason(row.speed)
    return f"{name}: {conclusion(speedup, of)}; {why}"


def conclusion(speedup: stats.Interval, of: str = "") -> str:
    """What may be concluded although a comparison is AMBIGUOUS: the ends of an interval around 1, if they matter."""
    low, high = speedup.low, speedup.high
    slower, faster = (f"{significant(100 * abs(end - 1), 2)} %" for end in (low, high))
    if not formatting.is_bounded(low, high):
        return f"no significant difference{of}; the interval is too wide to bound it"
    if low < 0.5 or high > 2:
        return f"no significant difference{of}; {low:.2f}× to {high:.2f}× as fast (95 % CI)"
    if high <= 1 + stats.EQUIVALENCE:
        return f"no gain{of} shown; at most {slower} slower (95 % CI)"
    if low >= 1 / (1 + stats.EQUIVALENCE):
        return f"no loss{of} shown; at most {faster} faster (95 % CI)"
    return f"no significant difference{of}; at most {slower} slower, at most {faster} faster (95 % CI)"


def _difference(speedup: stats.Interval, base: str, unit: str) -> str:
    value = formatting.ratio_value(speedup.value, speedup.low, speedup.high)
    if unit:
        return f"processes {value}× as many {unit} as {base} {bounds(speedup)}"
    return f"is {value}× as fast as {base} {bounds(speedup)}"


def _several(compared: Sequence[tuple[str, SummaryRow]], base: str, unit: str) -> str:
    """The fastest of several settings, and how the others compare with the baseline."""
    speeds = [(row.speed, name) for name, row in compared if row.speed is not None]
    counts = Counter(speed.verdict.outcome for speed, _ in speeds)
    failed = len(compared) - len(speeds)
    if speeds and all(speed.ratio is None and speed.verdict.outcome is Outcome.AMBIGUOUS for speed, _ in speeds):
        return f"no setting is compared with {base}: {reason(speeds[0][0])}"
    if speeds and all(speed.verdict.doubt is Doubt.ONE_PROCESS for speed, _ in speeds):
        return f"one process each cannot show a difference from {base}; use --processes 3 or more"
    faster = [
        (speed.ratio, name)
        for speed, name in speeds
        if speed.ratio is not None and speed.verdict.outcome is Outcome.FASTER
    ]
    wanted = _unsettled(speeds) + _to_decide([speed for speed, _ in speeds])
    if not faster:
        return f"none of {len(compared)} settings is faster than {base}: {_counted(counts, failed)}{wanted}"
    gain, best = max(faster, key=lambda each: each[0].value)
    counts[Outcome.FASTER] -= 1
    first = "the most" if unit else "the fastest"
    return (
        f"{best} {_difference(gain, base, unit)}, {first} of {len(compared) + 1} settings; the "
        f"others, compared with the baseline: {_counted(counts, failed)}{wanted}"
    )


def _unsettled(speeds: Sequence[tuple[Speed, str]]) -> str:
    """Why those are AMBIGUOUS whose interval excludes 1: the reason of the one that is nearest to a verdict."""
    is_open = [(speed, name) for speed, name in speeds if is_open_beyond_interval(speed)]
    found = [(speed.verdict.p_value or 1.0, name, reason(speed)) for speed, name in is_open]
    if not found:
        return ""
    names = ", ".join(name for _, name, _ in found) if len(found) <= NAMED_SETTINGS else f"{len(found)} settings"
    return f"; the 95 % CI of {names} excludes 1, but {min(found)[2]}"


def _to_decide(speeds: Sequence[Speed]) -> str:
    """What it would take to decide the comparisons that are not: as much as the one that takes the most."""
    outlooks = [speed.verdict.outlook for speed in speeds if speed.verdict.outlook is not None]
    if not outlooks:
        return ""
    longest = max(outlooks, key=lambda outlook: outlook.processes)
    return f"; about {effort(longest)} would probably decide {'all of them' if len(outlooks) > 1 else 'it'}"


def _counted(counts: Counter[Outcome], failed: int) -> str:
    words = {
        Outcome.FASTER: "faster",
        Outcome.SLOWER: "slower",
        Outcome.SAME: "equally fast",
        Outcome.AMBIGUOUS: "not significant",
        Outcome.NOT_COMPARABLE: "not comparable",
    }
    said = [f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome]]
    return ", ".join([*said, f"{failed} failed"] if failed else said)


def _proof(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """Whether every setting ran in the precision that it names."""
    ran = [(name, row) for name, row in zip(names, rows) if row.processes or row.proof.verdict]
    open_ = [(name, row) for name, row in ran if not row.is_proven]
    if not ran:
        return "kernels not verified"
    if not open_:
        return "kernels verified"
    if all(row.proof.verdict is None for _, row in open_):
        return "kernels not verified (no audit)"
    if len(open_) > NAMED_SETTINGS:
        return f"kernels not verified for {len(open_)} of {len(ran)}"
    return ", ".join(f"{name} ran {_how_it_ran(row)}" for name, row in open_)


def _how_it_ran(row: SummaryRow) -> str:
    return {
        ProofVerdict.WRONG_RESULTS: "with WRONG RESULTS",
        ProofVerdict.PARTLY: f"only partly in {row.setting.precision}",
        ProofVerdict.NOT_ACTIVE: f"in {_instead(row)}, NOT in {row.setting.precision}",
        ProofVerdict.NOT_FP32: "NOT in fp32",
    }.get(row.proof.verdict or ProofVerdict.UNKNOWN, "in an unknown precision")


def _instead(row: SummaryRow) -> str:
    """What most of the products ran in, if nothing ran in the precision that was asked for."""
    reason = row.proof.ground.reason if isinstance(row.proof.ground, Evidence) else None
    return reason.precision if isinstance(reason, NotUsed) else "fp32"


def _agreement(names: Sequence[str], rows: Sequence[SummaryRow]) -> str:
    """How far the outputs of other engines and modes are from torch's in eager mode; empty if there are none."""
    found: dict[bool, list[tuple[str, OutputAgreement]]] = {}
    for name, row in zip(names, rows):
        if row.agreement is not None:
            found.setdefault(bool(row.agreement.is_same), []).append((name, row.agreement))
    return ", ".join(_outputs(is_same, each) for is_same, each in found.items())


def _outputs(is_same: bool, found: Sequence[tuple[str, OutputAgreement]]) -> str:
    """Say once what holds for several settings, with the range of their errors."""
    few = len(found) <= NAMED_SETTINGS
    names = ", ".join(name for name, _ in found) if few else f"{len(found)} settings"
    alone, several = _DIFFERS[is_same]
    return f"{names} {alone if len(found) == 1 else several} ({agreement_text([each for _, each in found])})"


def _accuracy(rows: Sequence[SummaryRow]) -> str:
    judged = [row.judged for row in rows if row.judged]
    # The table says CANNOT JUDGE, and no other place says why.
    causes = dict.fromkeys(validity_detail(each) for each in judged if each.verdict is ValidityVerdict.CANNOT_JUDGE)
    why = "".join(f": {cause}" for cause in causes if cause)
    if len(judged) == 1:
        return f"accuracy check: {validity_text(judged[0])}{why}"
    if judged:
        counts = Counter(each.verdict for each in judged)
        return "accuracy check: " + ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()) + why
    random = any(row.weights is WeightsKind.RANDOM for row in rows)
    return f"accuracy not checked ({'random weights' if random else '--validate'})"


# Ratios


def bounds(found: stats.Interval) -> str:
    """``[1.50, 1.70]``."""
    return formatting.ratio_bounds(found.value, found.low, found.high)
