"""What a call found, in words. Each fact is a clause, which every place that says it takes from here. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from modelzoo import stats
from modelzoo.document import Lines, Tone, first_line
from modelzoo.formatting import counted, significant
from modelzoo.records.evidence import Evidence, NotUsed, ProofVerdict
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import OutputAgreement, WeightsKind
from modelzoo.results.obstructions import Bottleneck, Work, bottleneck, noise
from modelzoo.results.speed import Speed
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Doubt, Outcome
from modelzoo.views.details import LAUNCH_HINT
from modelzoo.views.differences import by_workload, full_names, grouped, pair_names, some
from modelzoo.views.judgement import validity_detail, validity_text
from modelzoo.views.kernel_tables import wrong_text
from modelzoo.views.proof import agreement_text
from modelzoo.views.speed import (
    OUTCOMES,
    caveat,
    effort,
    interval,
    is_bounded,
    is_open_beyond_interval,
    outlook_text,
    ratio,
    reason,
    several,
    subject,
    tally,
)
from modelzoo.views.tables import timed_unit
from modelzoo.warning import Severity, WarningCode, rank

_NOISE = {
    None: "speed varied by {percent:.0f} %",
    WarningCode.OTHER_LOAD: "other programs were running",
    WarningCode.STOLEN_TIME: "the hypervisor took {percent:.0f} % of the CPU time",
    WarningCode.THROTTLED: "the quota stopped the threads for {percent:.0f} % of the time",
    WarningCode.DEVICE_THROTTLED: "the device was throttled in {percent:.0f} % of the samples",
}
_RAN = {
    ProofVerdict.WRONG_RESULTS: "with WRONG RESULTS",
    ProofVerdict.PARTLY: "only partly in {precision}",
    ProofVerdict.NOT_ACTIVE: "in {instead}, NOT in {precision}",
    ProofVerdict.NOT_FP32: "NOT in fp32",
}
"""How a setting ran whose precision is not proven."""
_DIFFERS = {
    True: ("computes what torch does", "compute what torch does"),
    False: ("does NOT compute what torch does", "do NOT compute what torch does"),
}
"""What is said of one setting and of several, by ``OutputAgreement.is_same``."""
_LEFT = 1.3
"""A headline says how a reduced precision was run if without casts, reorders and set-up it were this times as fast."""
_EXPECTED = (ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY)
"""Judgements of which the table says enough."""


class Clause(NamedTuple):
    """One fact about some rows, in words.

    Attributes:
        brief: for the headline; empty: it does not belong there.
        text: for a workload's own line, if the rows are its rows: what the headline and the table leave open.
        tone: what it means for the result.
    """

    brief: str = ""
    text: str = ""
    tone: Tone = Tone.STRONG


def headline(shown: Sequence[SummaryRow]) -> Lines:
    """Return the first line about these rows, at least one: what was found, and how far to believe it."""
    clauses = [make(shown) for make in _FACTS]
    tones = [each.tone for each in clauses]
    worst = next((tone for tone in (Tone.BAD, Tone.OPEN, Tone.BETTER) if tone in tones), Tone.STRONG)
    return first_line("; ".join(each.brief for each in clauses if each.brief), worst)


def remarks(shown: Sequence[SummaryRow]) -> dict[str, str]:
    """Return by workload what neither the headline nor the table says: what may be concluded, and what spoils it."""
    said = {
        workload: "; ".join(clause.text for make in _FACTS if (clause := make(rows)).text)
        for workload, rows in by_workload(shown).items()
    }
    return {workload: text for workload, text in said.items() if text}


def wrong_results(shown: Sequence[SummaryRow]) -> Clause:
    """Which settings have wrong products, and what is known of the first."""
    wrong = {
        name: row.proof.ground
        for name, row in zip(full_names(shown), shown)
        if row.proof.verdict is ProofVerdict.WRONG_RESULTS
    }
    if not wrong:
        return Clause()
    ground = next(iter(wrong.values()))
    detail = f": {wrong_text(ground)}" if isinstance(ground, Evidence) else ""
    return Clause(f"WRONG RESULTS in {some(list(wrong))}{detail}", tone=Tone.BAD)


# Speed


def speed(shown: Sequence[SummaryRow]) -> Clause:
    """How settings compare with their baselines; how long one alone takes; that nothing was timed."""
    compared = [(name, row) for name, row in zip(full_names(shown), shown) if not row.is_baseline]
    outcomes = {row.speed.verdict.outcome for row in shown if row.speed}
    tone = Tone.STRONG
    if any(row.errors for row in shown) or Outcome.NOT_COMPARABLE in outcomes:
        tone = Tone.BAD
    elif Outcome.AMBIGUOUS in outcomes:
        tone = Tone.OPEN
    elif Outcome.FASTER in outcomes and Outcome.SLOWER not in outcomes:
        tone = Tone.BETTER
    if not any(row.latency for row in shown):
        if all(row.errors for row in shown):
            return Clause("all settings failed" if len(shown) > 1 else f"{shown[0].workload} failed", tone=tone)
        emulated = any(each.warning.code == WarningCode.EMULATED.name for row in shown for each in row.warnings)
        return Clause(f"nothing was timed{': this machine is emulated' if emulated else ''}", tone=tone)
    if not compared and len(shown) == 1:
        row, (name,) = shown[0], full_names(shown)
        return Clause(f"{row.workload}: {timed_unit(row)} in {name} takes {interval(row.latency)}", tone=tone)
    if not compared:
        timed = sum(row.latency is not None for row in shown)
        return Clause(f"{timed} of {len(shown)} models timed, nothing to compare", tone=tone)
    base = next((name for name, row in zip(full_names(shown), shown) if row.is_baseline), "the baseline")
    of = " per item" if len({row.batch for row in shown if row.batch}) > 1 else ""
    speeds = [(name, row.speed) for name, row in compared if row.speed is not None]
    return Clause(_compared(shown, compared, base, of), "; ".join(_undecided(speeds, base, of)), tone)


def _compared(shown: Sequence[SummaryRow], compared: Sequence[tuple[str, SummaryRow]], base: str, of: str) -> str:
    """One setting on one or several models, or several settings, with their baselines."""
    pair, workloads, first = pair_names(shown), by_workload(shown), compared[0][1].speed
    speeds = [row.speed for _, row in compared]
    if pair is None:
        base = base if len(workloads) == 1 else "the baselines"
    base, name = pair or (base, counted(len(compared), "setting"))
    is_single = pair is not None and len(workloads) == 1
    shown_ratio = f": {ratio(first.ratio)}" if is_single and first is not None and first.ratio is not None else ""
    if all(each is not None and each.verdict.doubt is Doubt.ONE_PROCESS for each in speeds):
        return f"too few processes to compare {name} with {base}{shown_ratio}"
    counts = tally(speeds)
    if is_single:
        why = f" ({reason(first)})" if first is not None and is_open_beyond_interval(first) else ""
        unproven = caveat(first) if first is not None and first.ratio else ""
        return f"{subject(base, name, next(iter(counts)))}{of if first else ''}{shown_ratio}{why}{unproven}"
    if pair is not None:
        # A setting that failed anywhere counts as such, also if it has not begun because the first one failed.
        alone = [rows[0] for rows in workloads.values() if len(rows) == 1]
        failed = [None for row in alone if row.errors]
        left = f", not run on {len(alone) - len(failed)}" if len(alone) > len(failed) else ""
        return several(base, name, [*speeds, *failed], "models") + left
    if list(counts) == [Outcome.AMBIGUOUS]:
        return f"no significant difference{of} between {base} and the {len(compared)} other settings"
    best: dict[str, tuple[float, str]] = {}
    for label, row in compared:
        if row.speed is not None and row.speed.ratio is not None and row.speed.verdict.outcome is Outcome.FASTER:
            found = (row.speed.ratio.value, f"{label}{caveat(row.speed)}")
            best[row.workload] = max(best.get(row.workload, found), found)
    outcomes = ", ".join(f"{OUTCOMES[each]}: {count}{ratios}" for each, (count, ratios) in counts.items())
    largest = f"; largest speedup: {some([each for _, each in best.values()])}" if best else ""
    return f"{name} compared with {base}{of}: {outcomes}{largest}"


def _undecided(speeds: Sequence[tuple[str, Speed]], base: str, of: str) -> Iterator[str]:
    """What may be concluded about a workload's settings that were not decided, why, and what would decide them."""
    refused = grouped((reason(each), name) for name, each in speeds if each.ratio is None)
    for why, names in refused.items():
        yield f"{some(names)}: not compared with {base}: {why}"
    untested = [name for name, each in speeds if each.ratio and each.verdict.doubt is Doubt.ONE_PROCESS]
    if untested:
        yield f"{some(untested)}: one process each cannot show a difference; use --processes 3 or more"
    # The reason of the one that is nearest to a verdict.
    beyond = [
        (each.verdict.p_value or 1.0, name, reason(each)) for name, each in speeds if is_open_beyond_interval(each)
    ]
    beyond = [found for found in beyond if found[1] not in untested]
    if beyond:
        yield f"the 95 % CI of {some([name for _, name, _ in beyond])} excludes 1, but {min(beyond)[2]}"
    outlooks = [each.verdict.outlook for _, each in speeds if each.verdict.outlook is not None]
    if len(speeds) == 1 and speeds[0][1].verdict.outcome is Outcome.AMBIGUOUS and not (refused or untested):
        ((name, only),) = speeds
        if only.ratio is not None and not beyond:
            yield f"{name}: {conclusion(only.ratio, of)}"
        if outlooks or not beyond:
            yield outlook_text(outlooks[0]) if outlooks else reason(only)
    elif outlooks:  # as much as the one that takes the most
        longest = max(outlooks, key=lambda outlook: outlook.processes)
        yield f"about {effort(longest)} would probably decide {'all of them' if len(outlooks) > 1 else 'it'}"


def conclusion(speedup: stats.Interval, of: str = "") -> str:
    """What may be concluded although a comparison is AMBIGUOUS: the ends of an interval around 1, if they matter."""
    low, high = speedup.low, speedup.high
    slower, faster = (f"{significant(100 * abs(end - 1), 2)} %" for end in (low, high))
    if not is_bounded(speedup):
        return f"no significant difference{of}; the interval is too wide to bound it"
    if low < 0.5 or high > 2:
        return f"no significant difference{of}; {low:.2f}× to {high:.2f}× as fast (95 % CI)"
    if high <= 1 + stats.EQUIVALENCE:
        return f"no gain{of} shown; at most {slower} slower (95 % CI)"
    if low >= 1 / (1 + stats.EQUIVALENCE):
        return f"no loss{of} shown; at most {faster} faster (95 % CI)"
    return f"no significant difference{of}; at most {slower} slower, at most {faster} faster (95 % CI)"


def launching(shown: Sequence[SummaryRow]) -> Clause:
    """Which settings spend their time issuing kernels, and what helps."""
    bound = [n for n, row in zip(full_names(shown), shown) if row.spans is not None and row.spans.bound_by_launching]
    which = f"{some(bound)}: " if len(shown) > 1 else ""
    return Clause(text=f"{which}launch-bound ({LAUNCH_HINT})" if bound else "")


def in_the_way(shown: Sequence[SummaryRow]) -> Clause:
    """Where the time of reduced precisions goes whose products got faster than the whole, and what addresses it."""
    bases = {row.workload: row for row in shown if row.is_baseline}
    found = [
        (name, row, way)
        for name, row in zip(full_names(shown), shown)
        if row.workload in bases and (way := bottleneck(row, bases[row.workload])) is not None
    ]
    left = [row.setting for _, row, way in found if way.possible > _LEFT]
    as_run = dict.fromkeys(f"{each.precision} as run ({each.mode}, {each.method})" for each in left)
    return Clause(
        ", ".join(as_run),
        "; ".join(f"{name}: {_in_the_way(row, way)}" for name, row, way in found),
    )


def _in_the_way(row: SummaryRow, way: Bottleneck) -> str:
    """``products 5.3× as fast, 19 % of the pass (if they took no time: 1.20×); 34 % casts and copies (…) …``."""
    setting, addressed = row.setting, dict[Work, str]()
    if setting.engine == "torch":
        if setting.mode == "eager":
            addressed = {Work.REORDERS: "--mode compile", Work.SETUP: "--mode compile", Work.OTHER: "--mode compile"}
        if setting.method == "autocast":
            addressed[Work.CASTS] = f"--{setting.precision}=cast" if setting.precision == "bf16" else "--mode compile"
    by_remedy: dict[str, list[str]] = {}
    for work, share in way.shares:
        by_remedy.setdefault(addressed.get(work, ""), []).append(f"{100 * share:.0f} % {work}")
    parts = [f"{', '.join(parts)}{f' ({remedy})' if remedy else ''}" for remedy, parts in by_remedy.items()]
    return (
        f"products {way.products:.1f}× as fast, {100 * way.products_share:.0f} % of the pass (if they took no time: "
        f"{way.bound:.2f}×); {'; '.join(parts)}"
    )


# How far to believe it


def kernels(shown: Sequence[SummaryRow]) -> Clause:
    """Whether every setting ran in the precision that it names, and what those did that did not."""
    ran = [(name, row) for name, row in zip(full_names(shown), shown) if row.processes or row.proof.verdict]
    verified = sum(row.is_verified for _, row in ran)
    tone = Tone.STRONG if all(row.is_verified for row in shown) else Tone.OPEN
    if not ran or verified == len(ran):
        return Clause("kernels verified" if ran else "", tone=tone)
    if all(row.proof.verdict is None for _, row in ran):
        return Clause("kernels not verified (no audit)", tone=tone)
    how: dict[str, list[str]] = {}
    for name, row in ran:
        if row.proof.verdict is not None and not row.is_proven:
            why = row.proof.ground.reason if isinstance(row.proof.ground, Evidence) else None
            instead = why.precision if isinstance(why, NotUsed) else "fp32"
            words = _RAN.get(row.proof.verdict, "in an unknown precision")
            how.setdefault(words.format(precision=row.setting.precision, instead=instead), []).append(name)
    text = ", ".join(f"{some(names)} ran {each}" for each, names in how.items())
    wrong = sum(row.proof.verdict in (ProofVerdict.NOT_ACTIVE, ProofVerdict.NOT_FP32) for _, row in ran)
    slow = sum(row.used_reference_kernels for _, row in ran)
    if len(ran) == 1:
        brief = (
            "ran in ANOTHER precision" if wrong else "slow REFERENCE kernels ran" if slow else "kernels not verified"
        )
        return Clause(brief, text, tone)
    said = [f"kernels verified for {verified} of {len(ran)} settings" if verified else "kernels not verified"]
    said += [f"{wrong} ran in ANOTHER precision"] if wrong else []
    said += [f"{slow} used slow REFERENCE kernels"] if slow else []
    return Clause(", ".join(said), text, tone)


def agreement(shown: Sequence[SummaryRow]) -> Clause:
    """How far the outputs of other engines and modes are from torch's in eager mode."""
    found: dict[bool, dict[str, OutputAgreement]] = {}
    for name, row in zip(full_names(shown), shown):
        if row.agreement is not None:
            found.setdefault(bool(row.agreement.is_same), {})[name] = row.agreement
    return Clause(
        text=", ".join(
            f"{some(list(each))} {_DIFFERS[is_same][len(each) > 1]} ({agreement_text(list(each.values()))})"
            for is_same, each in found.items()
        )
    )


def accuracy(shown: Sequence[SummaryRow]) -> Clause:
    """The verdicts on the predictions; of those that are not VALID, the metric, and why nothing could be judged."""
    ran = [row for row in shown if row.reports]
    judged = [row.judged for row in shown if row.judged]
    verdicts = Counter(each.verdict for each in judged)
    random = " (random weights)" if any(row.weights is WeightsKind.RANDOM for row in ran) else ""
    if not judged:
        return Clause(f"accuracy not checked{random or ' (--validate)'}" if ran else "")
    said: dict[str, None] = {}
    for each in judged:
        why = f": {validity_detail(each)}" if each.verdict is ValidityVerdict.CANNOT_JUDGE else ""
        if each.verdict not in _EXPECTED:
            said[f"{validity_text(each)}{why}"] = None
    brief = ", ".join(f"{number} {verdict.value}" for verdict, number in verdicts.items())
    if len(judged) == 1:
        settings = sum(not row.is_baseline for row in ran)
        brief = judged[0].verdict.value + (f" for 1 of {settings} settings" if settings > 1 else "")
    return Clause(
        f"accuracy check: {brief}{random if ValidityVerdict.NUMERIC_ONLY in verdicts else ''}",
        f"accuracy check: {'; '.join(said)}" if said else "",
        Tone.BAD if ValidityVerdict.NOT_VALID in verdicts else Tone.STRONG,
    )


def conditions(shown: Sequence[SummaryRow]) -> Clause:
    """What disturbed the machine the most. Conditions that invalidate a number are said elsewhere; here they count."""
    disturbed = noise(shown)
    worst = min((rank(each.warning.code)[0] for row in shown for each in row.warnings), default=Severity.NOTE)
    bad = worst is Severity.INVALIDATES
    if disturbed is None:
        return Clause(tone=Tone.BAD if bad else Tone.STRONG)
    effect, cause = disturbed
    return Clause(
        f"NOISY MACHINE: {_NOISE[cause].format(percent=100 * effect)}, treat as indicative",
        tone=Tone.BAD if bad else Tone.OPEN,
    )


_FACTS = (wrong_results, speed, in_the_way, launching, kernels, agreement, accuracy, conditions)
"""What is said, in this order."""
