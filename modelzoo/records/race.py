"""A race: what was measured in which stage, what was excluded and why, and what was chosen.

The entrants are numbered: the settings of a search (``modelzoo tune``), as indices in ``Result.requested``, or the
configurations of ``modelzoo throughput``.
"""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Message, Word
from modelzoo.stats.race import Choice


class StageKind(Word):
    """``PROBE``: the default setting alone. ``SEARCH``: entrants, of which the slower ones are excluded.
    ``CONFIRMATION``: what was chosen, measured again in new processes."""

    PROBE = "probe"
    SEARCH = "search"
    CONFIRMATION = "confirmation"


class Stage(msgspec.Struct, frozen=True):
    """One stage of a race.

    Attributes:
        kind: what it is for.
        entrants: what takes part; what the others are compared with comes first, if it takes part.
        rounds: number of rounds that are planned; the default setting has one more for each further block.
        seconds: how long each process samples; ``None``: as long as enough batches take.
        first_round: number of its first round.
    """

    kind: StageKind
    entrants: tuple[int, ...]
    rounds: int
    seconds: float | None
    first_round: int


class ExclusionKind(Word):
    """Why an entrant cannot win. Most of what shows it is in the result: its runs, or its judgement."""

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
    TOO_LARGE = "too large"
    OVER_BOUND = "over bound"
    SLOWER = "slower"


class Exclusion(msgspec.Struct, frozen=True):
    """An entrant that is measured no further.

    Attributes:
        entrant: its number.
        kind: why.
        problem: why a configuration cannot run.
        needed: of one that is too large, the bytes of memory that its instances would need …
        available: … and those that were available.
    """

    entrant: int
    kind: ExclusionKind
    problem: Message | None = None
    needed: int | None = None
    available: int | None = None


class Race(msgspec.Struct, frozen=True, kw_only=True):
    """A race, as far as it has come.

    Attributes:
        stages: the stages so far.
        excluded: the entrants that are out, in this order.
        choice: what was chosen; ``None`` while the race goes on, or if there is nothing to choose.
        is_complete: whether it ended as planned.
    """

    stages: tuple[Stage, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    choice: Choice | None = None
    is_complete: bool = False

    @property
    def entrants(self) -> range:
        """The numbers of all entrants."""
        raise NotImplementedError

    def stage(self, kind: StageKind) -> Stage | None:
        """The first stage of this kind."""
        return next((each for each in self.stages if each.kind is kind), None)

    def open(self) -> tuple[int, ...]:
        """The entrants that are not out."""
        out = {each.entrant for each in self.excluded}
        return tuple(each for each in self.entrants if each not in out)
