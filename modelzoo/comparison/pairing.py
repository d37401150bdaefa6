"""Which results are sessions of one side, and which of its settings is compared with which of the other. Pure.

Paths say where a file was, not what was in it, so only their last part counts; whether both sides read the same file
is a matter of its digest (``modelzoo.results.refusals``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.comparison.machines import machines_of
from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.option import parse_words
from modelzoo.records.codec import encode, encode_json
from modelzoo.records.race import Throughput
from modelzoo.records.run import Provenance, Result, Run, SettingRequest
from modelzoo.records.serving import Load
from modelzoo.results import throughput
from modelzoo.results.counting import Served
from modelzoo.results.refusals import Obstacle, Pair, SideSetting
from modelzoo.results.speed import sides_of
from modelzoo.setting import METHOD_OPTIONS, METHODS, SHOWN, OptionValue, Setting, labels, option_name, value_text

Words = Mapping[str, str]
"""A setting in the notation of ``--setting``: values as text, by the names of the options."""
_SEPARATOR = re.compile(r":(?=\s*[\w-]+=)")
"""The colon of ``--pair``; one within a value (``cuda:1``) is not followed by a name."""


class Pairing(msgspec.Struct, frozen=True):
    """Settings that are paired on purpose although they differ.

    Attributes:
        before: what a setting of the baseline must have to be paired.
        after: what the other side's setting has instead; it equals the baseline's in everything else.
    """

    before: Words
    after: Words


def parse_pairing(text: str) -> Pairing:
    """Parse ``NAME=VALUE …:NAME=VALUE …``, for example ``precision=fp32:precision=bf16``.

    Raises:
        UsageError: it has another form, or names an option twice.
    """
    halves = _SEPARATOR.split(text)
    if len(halves) != 2:
        raise UsageError(f"--pair {text!r} must have the form BASE:OTHER, for example precision=fp32:precision=bf16")
    before, after = (parse_words(half, f"--pair {text!r}", " on one side") for half in halves)
    if not before or not after:
        raise UsageError(f"--pair {text!r} names nothing on one side; write NAME=VALUE on both sides of the colon")
    return Pairing(before, after)


def words(requested: Setting, left_out: Collection[str] = ()) -> dict[str, str]:
    """Return a setting in the notation of ``--setting``. Paths are shortened to what says something elsewhere."""
    found = {option_name(name): _text(getattr(requested, name)) for name in SHOWN}
    own = option_name(METHODS.get(requested.precision, ""))
    found.update({name: (requested.method or "auto") if name == own else "off" for name in METHOD_OPTIONS})
    for name, value in sorted(requested.options.items()):
        found.setdefault(name, _text(value))
    return {name: value for name, value in found.items() if name not in left_out}


def _text(value: OptionValue) -> str:
    if isinstance(value, str) and value.startswith(("/", "~/")):  # the home directory is stored as ~
        path = PurePath(value)
        # The name of a file, or of the environment of an interpreter (``/envs/torch-2.9.1/bin/python``).
        return (path.parent.parent.name if path.parent.name == "bin" else path.name) or value
    return value_text(value)


def pairs(base: Sequence[SideSetting], other: Sequence[SideSetting], on_purpose: Sequence[Pairing] = ()) -> list[Pair]:
    """Pair the settings of two sides, in the baseline's order; what only the other side has comes last.

    A setting that occurs several times on both sides is paired in order. What ``on_purpose`` pairs is not also paired
    with its equal, and its equal is not reported as missing.

    Raises:
        UsageError: one of ``on_purpose`` pairs nothing.
    """
    known = _known_options(base, other)

    def keyed(sides: Sequence[SideSetting]) -> dict[Key, SideSetting]:
        left_out = [set(side.requested.options) - known[side.workload] for side in sides]
        return dict(
            zip(_keys((side.workload, words(side.requested, out)) for side, out in zip(sides, left_out)), sides)
        )

    mine, theirs = keyed(base), keyed(other)
    chosen = [pair for each in on_purpose for pair in _chosen(each, mine, theirs)]
    used_mine = {pair[0] for pair in chosen}
    used_theirs = {pair[1] for pair in chosen}
    found: list[tuple[Key | None, Key | None, tuple[str, ...]]] = []
    for key in mine:
        found += [pair for pair in chosen if pair[0] == key]
        if key not in used_mine and key not in used_theirs:
            found.append((key, key if key in theirs else None, ()))
    found += [(None, key, ()) for key in theirs if key not in mine and key not in used_theirs]
    names = _labels([*mine, *theirs], [*mine.values(), *theirs.values()])
    return [
        Pair(
            None if first is None else replace(mine[first], label=names[first]),
            None if second is None else replace(theirs[second], label=names[second]),
            differing,
        )
        for first, second, differing in found
    ]


class Key(NamedTuple):
    """Equal for two settings that are paired; unique on each side.

    Attributes:
        workload: the workload's name.
        words: the setting as text, without options that only one side's release knows.
        number: from 1, counts equal settings of one side.
    """

    workload: str
    words: tuple[tuple[str, str], ...]
    number: int


def _keys(settings: Iterable[tuple[str, Mapping[str, str]]]) -> list[Key]:
    """The keys of the settings of one side: workloads, with settings as text."""
    found: list[Key] = []
    for workload, shown in settings:
        before = sum(key[:2] == (workload, tuple(shown.items())) for key in found)
        found.append(Key(workload, tuple(shown.items()), before + 1))
    return found


def _known_options(base: Sequence[SideSetting], other: Sequence[SideSetting]) -> dict[str, set[str]]:
    """The options of each workload that all settings have, and those that a side varies."""
    common: dict[str, set[str]] = {}
    varied: dict[str, set[str]] = {}
    for sides in (base, other):
        first: dict[str, Setting] = {}
        for side in sides:
            options, before = side.requested.options, first.setdefault(side.workload, side.requested).options
            common[side.workload] = common.get(side.workload, set(options)) & set(options)
            varied.setdefault(side.workload, set()).update(
                name for name in options if options[name] != before.get(name)
            )
    return {workload: names | varied[workload] for workload, names in common.items()}


def _chosen(
    pairing: Pairing, mine: Iterable[Key], theirs: Mapping[Key, SideSetting]
) -> list[tuple[Key, Key, tuple[str, ...]]]:
    """The pairs that ``--pair`` names: the other side's setting is the baseline's with ``after`` in it."""
    before, after = _with_precision(pairing.before), _with_precision(pairing.after)
    found = []
    for first, second in product(mine, theirs):
        had, given = dict(first.words), dict(second.words)
        expected = {**had, **after}
        if "precision" in after:
            # A method that is not named may be any one.
            expected.update({name: given[name] for name in METHOD_OPTIONS if name not in after})
        is_same = (first.workload, first.number, expected) == (second.workload, second.number, given)
        if is_same and before.items() <= had.items():
            found.append((first, second, tuple(name for name in had if had[name] != given[name])))
    if not found:
        halves = (pairing.before, pairing.after)
        requested = ":".join(" ".join(f"{name}={value}" for name, value in half.items()) for half in halves)
        raise UsageError(f"--pair {requested!r} pairs nothing: no two settings differ in this and in nothing else")
    return found


def _with_precision(given: Words) -> Words:
    """A bf16 method means bf16, and a recipe int8."""
    implied = next((precision for name, precision in METHOD_OPTIONS.items() if name in given), None)
    return given if implied is None else {"precision": implied, **given}


def _labels(keys: Sequence[Key], sides: Sequence[SideSetting]) -> dict[Key, str]:
    """The same label for equal settings of both sides, which tells them from all others of the workload."""
    plain: dict[str, dict[Key, Setting]] = {}
    for key, side in zip(keys, sides):
        # As labels show it: paths are shortened, and options are left out that are no part of the key.
        asked, shown = side.requested, dict(key.words)
        options = {name: value for name, value in asked.options.items() if name in shown}
        given = None if asked.input is None else shown["input"]
        setting = asked.replace(weights=shown["weights"], input=given, options=options)
        plain.setdefault(key.workload, {}).setdefault(key, setting)
    found: dict[Key, str] = {}
    for settings in plain.values():
        distinct = {repr(setting): setting for setting in settings.values()}
        names = dict(zip(distinct, labels(list(distinct.values()))))
        for key, setting in settings.items():
            found[key] = names[repr(setting)] + (f" #{key.number}" if key.number > 1 else "")
    return found


def make_side(name: str, results: Sequence[StoredResult], allowed: Collection[Obstacle] = ()) -> Side:
    """Return the side that consists of these sessions, oldest first, and of the judgements that were given with them.

    Args:
        name: how the output calls it.
        results: at least one.
        allowed: what may differ between the sessions: weights or inputs.

    Raises:
        InputError: nothing was measured, or not by 'modelzoo run' or 'modelzoo throughput', or the results are not
            sessions of the same work by the same software on one machine.
    """
    given = sorted(results, key=lambda each: each.result.created)
    judged = tuple(each for each in given if each.result.validity and not each.result.runs)
    side = Side(name, tuple(each for each in given if each not in judged) or judged, judged)
    for stored in side.results:
        if isinstance(stored.result.payload, Load):
            raise InputError(
                f"{name}: {stored.path} is a result of 'modelzoo load', and only those of 'modelzoo run' and 'modelzoo "
                "throughput' can be compared; 'modelzoo report' shows it"
            )
    if not any(stored.result.runs for stored in side.results):
        raise InputError(
            f"{name}: nothing was measured in {_paths(side)}; give results of 'modelzoo run' or 'modelzoo throughput'"
        )
    for number, stored in enumerate(side.results):
        _check_same(side.results[0], stored, allowed)
        for before in side.results[:number]:
            if before.result == stored.result:
                raise InputError(f"{before.path} and {stored.path} hold the same session; leave one of them out")
    if len(machines_of(side)) > 1:
        raise InputError(f"{name}: {_paths(side)} were measured on different machines; compare them with each other")
    return side


def _check_same(first: StoredResult, second: StoredResult, allowed: Collection[Obstacle]) -> None:
    """Check that two results are sessions of the same work by the same software; raises ``InputError``."""
    before, after = _groups(first.result), _groups(second.result)
    if not _measured_same(first.result, second.result):
        what = "workloads, settings or best configurations" if is_served(first) else "workloads or settings"
        raise InputError(
            f"{first.path} and {second.path} hold different {what}, so they are not sessions of one measurement; "
            "compare them with each other"
        )
    here, there = _work(first.result, allowed), _work(second.result, allowed)
    for key, group in before.items():
        mine, theirs = here.get(group), there.get(after.get(key, -1))
        if mine is not None and theirs is not None and mine != theirs:
            raise InputError(
                f"{first.path} and {second.path} ran {key[0]} with different software, weights or inputs, so they "
                "are not sessions of one measurement; compare them with each other"
            )


def _measured_same(first: Result, second: Result) -> bool:
    """Whether two results are of the same workloads and settings; of instances, of the same bound and configurations,
    or with the same best one: what was found once may be measured again alone."""
    before, after, one, other = _groups(first).keys(), _groups(second).keys(), first.payload, second.payload
    if not isinstance(one, Throughput) or not isinstance(other, Throughput):
        return before == after and type(one) is type(other)
    tried = [{each.name for each in found.configurations} for found in (one, other)]
    best = [found.row.configuration.name for found in map(throughput.recommendation, (first, second)) if found]
    return one.bound == other.bound and not before.isdisjoint(after) and (tried[0] == tried[1] or best[:1] == best[1:])


def _groups(result: Result) -> dict[Key, int]:
    """The groups of a result by what was asked for."""
    keys = _keys((requested.workload, words(requested.setting)) for requested in result.requested)
    return {key: group for group, key in enumerate(keys)}


def _work(result: Result, allowed: Collection[Obstacle]) -> dict[int, bytes]:
    """What each group ran, as its first finished process says; what may differ is left out.

    It is equal for all runs of the same work by the same software.
    """
    found: dict[int, bytes] = {}
    for run in result.runs:
        report = run.report
        if report is None or run.group in found:
            continue
        # Not where an interpreter lies: the versions say what it runs. The report names the engine.
        setting = {name: value for name, value in encode(report.setting).items() if name not in ("python", "engine")}
        provenance = report.provenance
        found[run.group] = encode_json(
            (
                report.workload,
                provenance.engine,
                setting,
                None if Obstacle.WEIGHTS in allowed else report.prepared.weights.sha256,
                provenance.digest,
                None if Obstacle.INPUTS in allowed else report.inputs_digest,
                sorted(provenance.versions.items()),
            )
        )
    return found


def _paths(side: Side) -> str:
    paths = [stored.path for stored in side.results]
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]}"


def settings_of(side: Side) -> tuple[SideSetting, ...]:
    """Return what ``side`` measured: one entry per workload and setting that has runs, in the order asked for.

    The sessions need not have asked for the settings in the same order. Of equal settings, the first of one session
    belongs to the first of the others.
    """
    results = [stored.result for stored in side.results]
    placed, sides = [_groups(each) for each in results], [sides_of(each) for each in results]
    found = []
    for key, first in placed[0].items():
        sessions = [of_result[groups[key]] for of_result, groups in zip(sides, placed)]
        ran = [each for each in sessions if each.sessions[0]]
        if ran:
            judged = [each.validity for each in sessions if each.validity is not None]
            joined = SideSetting(
                workload=key.workload,
                requested=results[0].requested[first].setting,
                label=results[0].label(first),
                sessions=tuple(each.sessions[0] for each in ran),
                results=tuple(each.results[0] for each in ran),
                validity=judged[-1] if judged else None,
                side=side.name,
            )
            found.append(joined if judged else _judged(joined, side))
    return tuple(found)


def is_served(stored: StoredResult) -> bool:
    """Whether it holds what many instances served, and not the times of single processes."""
    return isinstance(stored.result.payload, Throughput)


def best_of(side: Side) -> tuple[SideSetting, ...]:
    """Return the best configuration of instances that each session of ``side`` found, as one setting.

    Its batch size and its threads are the configuration's, so they are no part of the setting.
    """
    served, sessions, asked = list[Served](), list[tuple[Run, ...]](), list[SettingRequest]()
    for stored in side.results:
        found, best = throughput.of(stored.result), throughput.recommendation(stored.result)
        group = best.row.configuration.group if best is not None else 0
        asked.append(stored.result.requested[group])
        sessions.append(tuple(run for run in stored.result.runs if run.group == group))
        served.append(
            Served(
                configuration="" if best is None else best.row.configuration.name,
                rates=tuple(best.row.rates.values()) if best is not None else (),
                unit=found.unit,
                batches=tuple(sorted({each.batch for each in found.configurations})),
                cores=max(each.instances * each.cores for each in found.configurations),
                bound=found.bound,
                is_met=found.bound is None or (best is not None and best.row.meets is True),
                is_confirmed=best is None or best.backing != "unconfirmed",
            )
        )
    joined = SideSetting(
        workload=asked[0].workload,
        requested=asked[0].setting.replace(batch=None, threads=None),
        label="",
        sessions=tuple(sessions),
        results=tuple(stored.result for stored in side.results),
        side=side.name,
        served=tuple(served),
    )
    return (_judged(joined, side),)


def _judged(found: SideSetting, side: Side) -> SideSetting:
    """With the latest judgement of the same setting and weights, on the same kind of machine and by the same torch, in
    a result of its own; batch and threads may differ, and the weights may have been named otherwise."""
    left_out = ("batch", "threads", "weights")
    where = {_ran_with(report.provenance) for report in found.reports}
    weights = {report.prepared.weights.sha256 for report in found.reports} - {None}
    entries = [
        entry
        for stored in side.judged
        for entry in stored.result.validity
        if entry.workload == found.workload
        and words(entry.requested, left_out) == words(found.requested, left_out)
        and (entry.report is None or entry.report.prepared.weights.sha256 in weights)
        and (entry.report is None or _ran_with(entry.report.provenance) in where)
    ]
    return replace(found, validity=entries[-1]) if entries else found


def _ran_with(provenance: Provenance | None) -> tuple[str | None, str | None]:
    """The kind of machine and the torch: what predictions in a reduced precision depend on."""
    return (provenance.fingerprint, provenance.versions.get("torch")) if provenance is not None else (None, None)
