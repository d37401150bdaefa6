"""A search for the fastest setting: what was tried, what was excluded and why, and what was chosen."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Argument, Message, Public, Word, replace

PRIMITIVES = 1024
"""oneDNN keeps so many primitives unless it is told otherwise (source: its developer guide, "Primitive Cache")."""


class Goal(Word):
    """What is to be fast: one forward batch of the given size, or the items of batches of any size."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


class StageKind(Word):
    """``PROBE``: the default setting alone. ``SEARCH``: candidates, of which the slower ones are excluded.
    ``CONFIRMATION``: the chosen setting, measured again in new processes."""

    PROBE = "probe"
    SEARCH = "search"
    CONFIRMATION = "confirmation"


class Stage(msgspec.Struct, frozen=True):
    """One stage of a search.

    Attributes:
        kind: what it is for.
        groups: the settings that take part, as indices in ``Result.requested``; the default comes first.
        rounds: number of processes of each setting that are planned; the default has one more for each further block.
        seconds: how long each process samples.
        first_round: number of its first round.
    """

    kind: StageKind
    groups: tuple[int, ...]
    rounds: int
    seconds: float
    first_round: int


class ExclusionKind(Word):
    """Why a candidate cannot win. What shows it is in the result: its runs, or its judgement."""

    FAILED = "failed"
    WRONG_OUTPUTS = "wrong outputs"
    UNPROVEN = "unproven"
    NOT_VALID = "not valid"
    NOT_JUDGED = "not judged"
    NO_JUDGE = "no judge"
    RANDOM_WEIGHTS = "random weights"
    NO_CONVOLUTION = "no convolution"
    NO_LINEAR = "no linear layer"
    FEW_PRIMITIVES = "few primitives"
    NOT_MEASURED = "not measured"
    SLOWER = "slower"


class Exclusion(msgspec.Struct, frozen=True):
    """A candidate that is out.

    Attributes:
        group: its index in ``Result.requested``.
        kind: why.
    """

    group: int
    kind: ExclusionKind


class Obstacle(Word):
    """Why the grid does not contain something on this machine. ``FIXED``: the call says another value."""

    UNAVAILABLE = "unavailable"
    NOT_INSTALLED = "not installed"
    NO_BF16 = "no bf16 instructions"
    NO_DATA = "no data to judge with"
    ONE_CORE = "one core"
    ONE_HARDWARE_THREAD = "one hardware thread"
    QUOTA = "quota"
    FIXED = "fixed"


class LeftOut(msgspec.Struct, frozen=True):
    """Something that the grid does not contain on this machine.

    Attributes:
        field: of ``Setting``.
        value: in the notation of ``--vary``; ``None``: all values.
        obstacle: why not.
        problem: the error, if it is unavailable.
    """

    field: Public
    value: Argument | None
    obstacle: Obstacle
    problem: Message | None = None


class Choice(msgspec.Struct, frozen=True):
    """What was chosen from the search, before it was measured again. All numbers are indices in ``Result.requested``.

    Attributes:
        winner: the setting that was chosen; 0, the default, if nothing seemed to be faster.
        best: the candidate with the lowest time per item in the search.
        ties: the candidates that the search could not tell from ``best``, without ``best`` itself.
        steps: the settings that lead from the default to the winner, one option at a time; the winner is the last.
    """

    winner: int
    best: int
    ties: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class Tuning(msgspec.Struct, frozen=True, tag="tuning"):
    """A search, as far as it has come.

    Attributes:
        workload: the workload's name.
        goal: what is to be fast.
        budget: seconds of wall time.
        candidates: number of settings of the grid, the default included: the first ones of ``Result.requested``.
        left_out: what the grid does not contain on this machine.
        allow_unjudged: whether a bf16 setting may win although its predictions were not judged.
        varied: the values of ``--vary``, if they replaced the grid.
        stages: the stages so far.
        excluded: the candidates that are out, in this order.
        choice: what was chosen; ``None`` while the search goes on.
        spent: seconds of wall time so far.
        is_complete: whether it ended as planned.
    """

    workload: Public
    goal: Goal
    budget: float
    candidates: int
    left_out: tuple[LeftOut, ...] = ()
    allow_unjudged: bool = False
    varied: tuple[Argument, ...] = ()
    stages: tuple[Stage, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    choice: Choice | None = None
    spent: float = 0.0
    is_complete: bool = False

    def stage(self, kind: StageKind) -> Stage | None:
        """The first stage of this kind."""
        return next((each for each in self.stages if each.kind is kind), None)

    def plus_stage(self, stage: Stage) -> Tuning:
        """Return a copy with ``stage`` appended."""
        return replace(self, stages=(*self.stages, stage))

    def excluding(self, *excluded: Exclusion) -> Tuning:
        """Return a copy with ``excluded`` appended; a candidate keeps its first reason."""
        known = {each.group for each in self.excluded}
        return replace(self, excluded=(*self.excluded, *(each for each in excluded if each.group not in known)))

    def open(self) -> tuple[int, ...]:
        """The candidates that are not out, without the default."""
        out = {each.group for each in self.excluded}
        return tuple(group for group in range(1, self.candidates) if group not in out)
