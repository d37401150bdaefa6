"""Select the workloads and settings that the command line names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from modelzoo.cli.setting_options import (
    AUTO,
    FIELDS,
    Axis,
    OptionValues,
    check_names,
    check_number,
    combine,
    make_setting,
    own_method,
    own_options,
    parse_axis,
    parse_setting,
    parse_settings,
    precision_of,
)
from modelzoo.errors import UsageError, suggestion
from modelzoo.option import SWITCH
from modelzoo.setting import (
    DEFAULTS,
    METHOD_OPTIONS,
    METHODS,
    OptionValue,
    Setting,
    choices,
    field_type,
    fields,
    labels,
)
from modelzoo.workload import Workload
from modelzoo.workload.discovery import STANDARD_WORKLOADS, find_workload, load_workload

Job = tuple[Workload, tuple[Setting, ...]]
"""A workload with the settings to run it under; the first of them is its baseline."""
Jobs = Sequence[Job]


def load_workloads(names: Sequence[str]) -> list[Workload]:
    """Load the workloads called ``names``, or the standard four.

    Raises:
        UsageError: one does not exist, cannot be imported, or is named twice.
    """
    workloads = [load_workload(find_workload(name)) for name in names or STANDARD_WORKLOADS]
    twice = {work.name for work in workloads if sum(other.name == work.name for other in workloads) > 1}
    if twice:
        raise UsageError(f"workload {', '.join(sorted(twice))} is named twice; results are identified by that name")
    return workloads


def select_settings(args: argparse.Namespace, default: str) -> Jobs:
    """Return each workload with its settings, the baseline first.

    Args:
        args: of ``modelzoo run`` or ``modelzoo validate``.
        default: the precisions if nothing on the command line says which settings to run.

    Raises:
        UsageError: a name, a value or a combination makes no sense.
    """
    works = load_workloads(args.workloads)
    known = {option.name for work in works for option in work.options}
    return [
        (work, _Selection(args, work, _options_for(work, known, args.option), known).settings(default))
        for work in works
    ]


def select_one(args: argparse.Namespace, vary: Sequence[str] = (), **fixed: object) -> Job:
    """Return the workload of a command that takes one, with its setting, or with all that ``vary`` combines.

    Args:
        args: of the command.
        vary: the values of ``--vary``.
        fixed: values of options that the command decides itself.

    Raises:
        UsageError: as ``select_settings``.
    """
    lists: dict[str, object] = {"precision": None, "vary": vary, "setting": [], "baseline": None}
    values = {**vars(args), **lists, **fixed, "workloads": [args.workload]}
    (selected,) = select_settings(argparse.Namespace(**values), "fp32")
    return selected


def settings_of(args: argparse.Namespace, work: Workload) -> tuple[Setting, ...]:
    """Return the settings that a workload's own ``performance.py`` was asked for, the baseline first.

    Raises:
        UsageError: as ``select_settings``.
    """
    return _Selection(args, work, own_options(args), {option.name for option in work.options}).settings("fp32")


class _Selection:
    """The settings of one workload: the options of the call, and what ``--vary`` and ``--setting`` replace.

    Args:
        args: the parsed command line.
        work: the workload.
        own: values of its own options that the whole call has.
        known: the names of all options that any workload of the call has of its own.
    """

    def __init__(
        self, args: argparse.Namespace, work: Workload, own: Mapping[str, OptionValue], known: set[str]
    ) -> None:
        self._args, self._work, self._own, self._known = args, work, own, known
        self._names = {option.name for option in work.options}

    def settings(self, default: str) -> tuple[Setting, ...]:
        """All settings, the baseline first."""
        if self._args.precision is None:
            precision_of(self._args)
        given = self._exact() if self._args.setting else combine(self._axes(default))
        check_number(len(given))
        typed = "--setting" if self._args.setting else "--vary"
        parsed = [self._setting(each, typed) for each in given]
        _check_repetitions(given, parsed)
        if self._args.baseline is not None:
            first = self._baseline(self._args.baseline, parsed)
            parsed.insert(0, parsed.pop(first))
        return tuple(parsed)

    def _exact(self) -> list[OptionValues]:
        """What each ``--setting`` names."""
        if self._args.vary or self._args.precision is not None:
            other = "--vary" if self._args.vary else "--precision"
            raise UsageError(f"--setting names whole settings and cannot be combined with {other}; use one of the two")
        named = parse_settings(self._args.setting)
        for given in named:
            check_names(given, self._known, "--setting")
            lacking = sorted(set(given) - set(FIELDS) - self._names)
            if lacking:
                raise UsageError(f"--setting: workload {self._work.name} has no option {lacking[0]!r}")
        return named

    def _axes(self, default: str) -> list[Axis]:
        """What is varied; options that only other workloads have do not count."""
        varied = [parse_axis(text) for text in self._args.vary]
        check_names([name for name, _ in varied], self._known, "--vary")
        for name, _ in varied:
            self._check_not_fixed(name)
        axes = [axis for axis in varied if axis[0] in FIELDS or axis[0] in self._names]
        listed = self._args.precision
        if listed is not None:
            words, known = [word.strip() for word in listed.split(",")], choices("precision")
            for word in words:
                if word not in known:
                    hint = suggestion(word, known)
                    raise UsageError(f"--precision must be a list of {', '.join(known)}, not {listed!r}{hint}")
            axes.insert(0, ("precision", words))
        elif not varied and precision_of(self._args) == "fp32":
            axes = [("precision", default.split(","))]
        precisions = dict(axes).get("precision", [])
        methods = {own_method(each) for each in precisions}
        for option in ("fp16", "int8", *(each for each in METHOD_OPTIONS if each not in methods)):
            if precisions and getattr(self._args, option):  # it implies another precision than those that are listed
                raise UsageError(
                    f"--{option} together with precision {precisions[0]} contradicts itself; leave one out"
                )
        return axes

    def _check_not_fixed(self, name: str) -> None:
        """Raise ``UsageError`` if the option that is varied also has one value for the whole call."""
        if name in METHOD_OPTIONS:
            fixed = getattr(self._args, name) not in (None, AUTO)
        elif name in FIELDS and name != "precision":
            fixed = getattr(self._args, _attribute(name)) not in (None, DEFAULTS[_attribute(name)])
        else:
            fixed = name in self._own
        if fixed:
            raise UsageError(f"--{name} and --vary {name}=… contradict each other; leave one out")

    def _setting(self, given: OptionValues, typed: str) -> Setting:
        """The setting with what is ``given`` by the option ``typed``, and those of the call for everything else."""
        values, own = dict[str, object](), dict(self._own)
        for name, text in given.items():
            source = f"{typed} {name}={text}: {name}"  # ``Setting`` would name ``--mode`` for ``--vary mode=…``
            if name in FIELDS:
                values[_attribute(name)] = value = _value(name, text, source)
                if name not in METHOD_OPTIONS:
                    fields()[_attribute(name)].check(source, value)
                elif text != AUTO:
                    fields()[METHODS[METHOD_OPTIONS[name]]].check(source, text)
            elif name in self._names:
                option = next(each for each in self._work.options if each.name == name)
                own[name] = option.parse(text, source)
        args = argparse.Namespace(**{**vars(self._args), **values})
        return make_setting(args, self._work, own, self._precision(given))

    def _precision(self, given: OptionValues) -> str:
        """The precision that is ``given``, or that a method or the options of the call imply."""
        named = [name for name in METHOD_OPTIONS if name in given]
        precision = given.get("precision")
        if precision is None:
            precision = precision_of(self._args) if self._args.precision is None else "fp32"
            if named and own_method(precision) != named[0]:
                precision = METHOD_OPTIONS[named[0]]
        if precision not in choices("precision"):
            raise UsageError(f"precision must be one of {', '.join(choices('precision'))}, not {precision!r}")
        for name in named:
            if own_method(precision) != name:
                raise UsageError(f"precision={precision} and {name}={given[name]} contradict each other; leave one out")
        return precision

    def _baseline(self, text: str, settings: Sequence[Setting]) -> int:
        """Index of the first setting that ``--baseline`` describes, by its label or by some of its values."""
        names = labels(settings)
        if text in names:
            return names.index(text)
        if all("=" in word for word in text.split()):
            given = parse_setting(text, "--baseline")
            check_names(given, self._known, "--baseline")
            own = {name: value for name, value in given.items() if name in self._names or name in FIELDS}
            wanted = self._setting(own, "--baseline")
            for index, setting in enumerate(settings):
                if all(_field(setting, name) == _field(wanted, name) for name in own):
                    return index
        raise UsageError(f"--baseline {text!r} is none of the settings of {self._work.name}: {', '.join(names)}")


def _attribute(name: str) -> str:
    """The name of an option in the parsed arguments, and in a setting."""
    return name.replace("-", "_")


def _field(setting: Setting, name: str) -> object:
    """What ``setting`` has for the option ``name``."""
    if name in METHOD_OPTIONS:
        return setting.precision, setting.method
    return getattr(setting, _attribute(name)) if name in FIELDS else setting.options.get(name)


def _check_repetitions(given: Sequence[OptionValues], settings: Sequence[Setting]) -> None:
    """Check that equal settings were given in equal words: then a setting is compared with itself on purpose.

    Raises:
        UsageError: two settings are equal by mistake.
    """
    first: dict[str, OptionValues] = {}
    for words, setting in zip(given, settings):
        before = first.setdefault(repr(setting), words)
        if before != words:
            raise UsageError(
                f"{_text(before)!r} and {_text(words)!r} are the same setting; leave one out, or to compare a setting "
                "with itself, give the same words twice"
            )


def _text(given: OptionValues) -> str:
    return " ".join(f"{name}={value}" for name, value in given.items())


def _value(name: str, text: str, source: str) -> object:
    """The value of an option of every setting, as argparse would give it; raises ``UsageError``."""
    kind = str if name == "bf16" else field_type(_attribute(name))
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{source} must be a whole number, not {text!r}") from None
    if kind is bool:
        if text not in SWITCH:
            raise UsageError(f"{source} must be off or on, not {text!r}")
        return SWITCH[text]
    return text


def _options_for(work: Workload, known: set[str], given: Sequence[str]) -> dict[str, OptionValue]:
    """The values of ``--option NAME=VALUE`` that are meant for ``work``; some workload must have each name."""
    values: dict[str, OptionValue] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text!r} must have the form NAME=VALUE")
        if name not in known:
            raise UsageError(
                f"--option {name}: none of these workloads has it (they have: {', '.join(sorted(known)) or 'none'})"
            )
        option = next((each for each in work.options if each.name == name), None)
        if option is not None:
            values[name] = option.parse(value, f"--option {text}: {name}")
    return values
