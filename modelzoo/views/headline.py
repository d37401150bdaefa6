"""The first line of what a call says: what was found, and how far to believe it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from modelzoo.document import Line, Lines, Text, Tone
from modelzoo.formatting import counted, ratio_value
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.results.noise import Noise, noise
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Doubt, Interval, Outcome
from modelzoo.views.differences import NAMED_SETTINGS, by_workload, pair_names, short_names
from modelzoo.views.products import wrong_text
from modelzoo.views.results_table import interval, ratio, timed_unit
from modelzoo.views.speed import UNPROVEN, is_open_beyond_interval, is_qualified, reason
from modelzoo.warning import Severity, WarningCode, rank

_OUTCOMES = {
    Outcome.FASTER: "faster",
    Outcome.SLOWER: "slower",
    Outcome.LESS: "less memory",
    Outcome.MORE: "more memory",
    Outcome.SAME: "equally fast",
    Outcome.AMBIGUOUS: "not significant",
    Outcome.NOT_COMPARABLE: "not comparable",
    None: "failed",
}
"""What is counted, in this order; ``None``: it was not timed."""
_NOISE = {
    None: "speed varied by {percent:.0f} %",
    WarningCode.OTHER_LOAD: "other programs were running",
    WarningCode.STOLEN_TIME: "the hypervisor took {percent:.0f} % of the CPU time",
    WarningCode.THROTTLED: "the quota stopped the threads for {percent:.0f} % of the time",
    WarningCode.DEVICE_THROTTLED: "the device was throttled in {percent:.0f} % of the samples",
}


class Judged(NamedTuple):
    """How a row compares with its baseline: the conclusion, the ratio if there is one, and whether it is unproven."""

    outcome: Outcome | None
    ratio: Interval | None
    is_qualified: bool = False


def headline(shown: Sequence[SummaryRow]) -> Lines:
    """Return the headline of a result with these rows, at least one."""
    disturbed = noise(shown)
    said = filter(None, [wrong_results(shown), _speed(shown), _kernels(shown), _accuracy(shown), _noise(disturbed)])
    return Lines((Line(Text("; ".join(said)), tone=_tone(shown, disturbed)),), stands_out=True)


def wrong_results(shown: Sequence[SummaryRow]) -> str:
    """Name the settings whose products are wrong, and what is known of the first; empty if none is."""
    names = {id(row): name for rows in by_workload(shown).values() for row, name in zip(rows, short_names(rows))}
    wrong = [row for row in shown if row.proof.verdict is ProofVerdict.WRONG_RESULTS]
    if not wrong:
        return ""
    several = len({row.workload for row in shown}) > 1
    where = ", ".join(
        f"{row.workload} {names[id(row)]}" if several else names[id(row)] for row in wrong[:NAMED_SETTINGS]
    )
    more = f" and {len(wrong) - NAMED_SETTINGS} more" if len(wrong) > NAMED_SETTINGS else ""
    ground = wrong[0].proof.ground
    detail = f": {wrong_text(ground)}" if isinstance(ground, Evidence) else ""
    return f"WRONG RESULTS in {where}{more}{detail}"


def _tone(shown: Sequence[SummaryRow], disturbed: Noise | None) -> Tone:
    outcomes = {row.speed.verdict.outcome for row in shown if row.speed}
    verdicts = {row.judged.verdict for row in shown if row.judged}
    worst = min((rank(each.warning.code)[0] for row in shown for each in row.warnings), default=Severity.NOTE)
    if (
        any(row.errors or row.proof.verdict is ProofVerdict.WRONG_RESULTS for row in shown)
        or worst is Severity.INVALIDATES
        or Outcome.NOT_COMPARABLE in outcomes
        or ValidityVerdict.NOT_VALID in verdicts
    ):
        return Tone.BAD
    if disturbed or Outcome.AMBIGUOUS in outcomes or not all(row.is_verified for row in shown):
        return Tone.OPEN
    return Tone.BETTER if Outcome.FASTER in outcomes and Outcome.SLOWER not in outcomes else Tone.STRONG


# Speed


def _speed(shown: Sequence[SummaryRow]) -> str:
    if not any(row.latency for row in shown):
        return _not_timed(shown)
    compared = [row for row in shown if not row.is_baseline]
    if not compared:
        return _alone(shown)
    names, workloads = pair_names(shown), by_workload(shown)
    ran = [row.speed for row in compared if row.speed is not None]
    nothing = f": {reason(ran[0])}" if ran and all(map(_is_unseen, ran)) else ""
    untested = all(row.speed is not None and row.speed.verdict.doubt is Doubt.ONE_PROCESS for row in compared)
    if names is not None:
        if len(workloads) == 1:
            return _pair(*names, compared[0])
        if nothing:
            return f"{names[1]} is not compared with {names[0]}{nothing}"
        if untested:
            return f"too few processes to compare {names[1]} with {names[0]}: one process each cannot show a difference"
        # A setting that failed anywhere counts as such, also if it has not begun because the first one failed.
        alone = [rows[0] for rows in workloads.values() if len(rows) == 1]
        failed = [Judged(None, None) for row in alone if row.errors]
        left = f", not run on {len(alone) - len(failed)}" if len(alone) > len(failed) else ""
        return several(*names, [*map(_judged, compared), *failed], "models") + left
    base = (short_names(shown)[0] or "the baseline") if len(workloads) == 1 else "the baselines"
    settings = counted(len(compared), "setting")
    judged = list(map(_judged, compared))
    counts = _counts(judged)
    if nothing:
        return f"no setting is compared with {base}{nothing}"
    if untested and len(compared) > 1:
        return f"too few processes to compare {settings} with {base}: one process each cannot show a difference"
    if list(counts) == [Outcome.AMBIGUOUS] and len(compared) > 1:
        return f"no significant difference between {base} and the {len(compared)} other settings"
    outcomes = ", ".join(f"{_OUTCOMES[each]}: {counts[each]}{_range(judged, each)}" for each in counts)
    return f"{settings} compared with {base}: {outcomes}{_best(compared, shown)}"


def several(base: str, name: str, judged: Sequence[Judged], noun: str) -> str:
    """Say how often ``name`` is faster than ``base``, slower …: ``bf16 is faster than fp32 on 2 of 3 models``.

    Args:
        base: the baseline.
        name: what is compared with it.
        judged: at least one row.
        noun: what the rows are, in the plural.
    """
    counts = _counts(judged)
    first, *rest = counts
    said = [f"{subject(base, name, first)} on {counts[first]} of {len(judged)} {noun}{_range(judged, first)}"]
    return ", ".join([*said, *(f"{_OUTCOMES[each]} on {counts[each]}{_range(judged, each)}" for each in rest)])


def _is_unseen(speed: Speed) -> bool:
    """Whether there is no ratio, because the baseline has not run, or not together with the setting."""
    return speed.ratio is None and speed.verdict.outcome is Outcome.AMBIGUOUS


def _judged(row: SummaryRow) -> Judged:
    if row.speed is None:
        return Judged(None, None)
    outcome = Outcome.NOT_COMPARABLE if _is_unseen(row.speed) else row.speed.verdict.outcome
    return Judged(outcome, row.speed.ratio, is_qualified(row.speed))


def _counts(judged: Sequence[Judged]) -> dict[Outcome | None, int]:
    """How often each outcome occurs, in the order of ``_OUTCOMES``."""
    found = [each.outcome for each in judged]
    return {each: found.count(each) for each in _OUTCOMES if each in found}


def _not_timed(shown: Sequence[SummaryRow]) -> str:
    if all(row.errors for row in shown):
        return "all settings failed" if len(shown) > 1 else f"{shown[0].workload} failed"
    emulated = any(each.warning.code == WarningCode.EMULATED.name for row in shown for each in row.warnings)
    return "nothing was timed: this machine is emulated" if emulated else "nothing was timed"


def _alone(shown: Sequence[SummaryRow]) -> str:
    """One setting of each workload."""
    if len(shown) == 1:
        row = shown[0]
        return f"{row.workload}: {timed_unit(row)} in {short_names(shown)[0]} takes {interval(row.latency)}"
    timed = sum(row.latency is not None for row in shown)
    return f"{timed} of {len(shown)} models timed, nothing to compare"


def _pair(base: str, name: str, row: SummaryRow) -> str:
    if row.speed is not None and _is_unseen(row.speed):
        return f"{name} is not compared with {base}: {reason(row.speed)}"
    if row.speed is None or row.speed.ratio is None:
        return subject(base, name, row.speed.verdict.outcome if row.speed else None)
    if row.speed.verdict.doubt is Doubt.ONE_PROCESS:
        return f"too few processes to compare {name} with {base}: {ratio(row.speed.ratio)}"
    why = f" ({reason(row.speed)})" if is_open_beyond_interval(row.speed) else ""
    why += UNPROVEN if is_qualified(row.speed) else ""
    return f"{subject(base, name, row.speed.verdict.outcome)}: {ratio(row.speed.ratio)}{why}"


def subject(base: str, name: str, outcome: Outcome | None) -> str:
    """Say how ``name`` compares with ``base``."""
    if outcome in (Outcome.LESS, Outcome.MORE):
        return f"{name} takes {_OUTCOMES[outcome]} than {base}"
    if outcome in (Outcome.FASTER, Outcome.SLOWER):
        return f"{name} is {_OUTCOMES[outcome]} than {base}"
    if outcome is Outcome.AMBIGUOUS:
        return f"no significant difference between {name} and {base}"
    return f"{name} failed" if outcome is None else f"{name} and {base} are {_OUTCOMES[outcome]}"


def _range(judged: Sequence[Judged], outcome: Outcome | None) -> str:
    """The ratios of those that differ, and how many are not proven: `` (1.74× to 2.21×, 1 unproven)``."""
    same = [each for each in judged if each.outcome is outcome]
    known = sorted((each.ratio for each in same if each.ratio is not None), key=lambda each: each.value)
    is_shown = outcome not in (Outcome.SAME, Outcome.AMBIGUOUS) and known
    ends = [known[0], known[-1]] if is_shown else []
    ratios = dict.fromkeys(f"{ratio_value(each.value, each.low, each.high)}×" for each in ends)
    unproven = sum(each.is_qualified for each in same)
    said = [*([" to ".join(ratios)] if ratios else []), *([f"{unproven} unproven"] if unproven else [])]
    return f" ({', '.join(said)})" if said else ""


def _best(compared: Sequence[SummaryRow], shown: Sequence[SummaryRow]) -> str:
    """The setting with the largest speedup, of those that are faster than their baseline."""
    faster = [row for row in compared if row.speed and row.speed.verdict.outcome is Outcome.FASTER and row.speed.ratio]
    if not faster:
        return ""
    best = max(faster, key=lambda row: row.speed.ratio.value if row.speed and row.speed.ratio else 0.0)
    rows = by_workload(shown)
    names = dict(zip(map(id, rows[best.workload]), short_names(rows[best.workload])))
    unproven = UNPROVEN if best.speed and is_qualified(best.speed) else ""
    return f"; largest speedup: {f'{best.workload} ' if len(rows) > 1 else ''}{names[id(best)]}{unproven}"


# How far to believe it


def _kernels(shown: Sequence[SummaryRow]) -> str:
    ran = [row for row in shown if row.processes or row.proof.verdict]
    verified = sum(row.is_verified for row in ran)
    if not ran:
        return ""
    if verified == len(ran):
        return "kernels verified"
    if all(row.proof.verdict is None for row in ran):
        return "kernels not verified (no audit)"
    wrong = sum(row.proof.verdict in (ProofVerdict.NOT_ACTIVE, ProofVerdict.NOT_FP32) for row in ran)
    slow = sum(row.used_reference_kernels for row in ran)
    if len(ran) == 1:
        return "ran in ANOTHER precision" if wrong else "slow REFERENCE kernels ran" if slow else "kernels not verified"
    said = [f"kernels verified for {verified} of {len(ran)} settings" if verified else "kernels not verified"]
    said += [f"{wrong} ran in ANOTHER precision"] if wrong else []
    said += [f"{slow} used slow REFERENCE kernels"] if slow else []
    return ", ".join(said)


def _accuracy(shown: Sequence[SummaryRow]) -> str:
    ran = [row for row in shown if row.reports]
    judged = [row.judged.verdict for row in shown if row.judged]
    random = " (random weights)" if any(row.weights is WeightsKind.RANDOM for row in ran) else ""
    if not judged:
        return f"accuracy not checked{random}" if ran else ""
    why = random if ValidityVerdict.NUMERIC_ONLY in judged else ""
    if len(judged) == 1:
        settings = sum(not row.is_baseline for row in ran)
        return f"accuracy check: {judged[0].value}" + (f" for 1 of {settings} settings" if settings > 1 else "") + why
    verdicts = ", ".join(f"{number} {verdict.value}" for verdict, number in Counter(judged).items())
    return f"accuracy check: {verdicts}{why}"


def _noise(disturbed: Noise | None) -> str:
    if disturbed is None:
        return ""
    return f"NOISY MACHINE: {_NOISE[disturbed.cause].format(percent=100 * disturbed.effect)}, treat as indicative"
