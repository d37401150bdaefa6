"""What a run worked on: its weights, and the numbers that its amount of work depends on."""

from __future__ import annotations

from enum import Enum
from typing import Optional

import msgspec


class WeightsKind(str, Enum):
    """Where the weights of a run come from.

    ``PRETRAINED``: a published checkpoint. ``RANDOM``: generated from a seed. ``PATH``: a file or directory named by
    ``--weights``.
    """

    PRETRAINED = "pretrained"
    RANDOM = "random"
    PATH = "path"


class Weights(msgspec.Struct, frozen=True):
    """The weights that a run used, on this machine.

    Attributes:
        kind: where they come from.
        name: name of the checkpoint, or of the file or directory; ``seed N`` for random weights.
        path: absolute path of a weights file or of a checkpoint directory.
        sha256: SHA-256 of the file that holds the tensors, hexadecimal.
        seed: seed of random weights, ``None`` for the other kinds.
        problem: the error for which they are random; ``None`` if the user asked for them, or for the other kinds.
    """

    kind: WeightsKind
    name: str
    path: str
    sha256: str
    seed: Optional[int] = None
    problem: Optional[str] = None


class LocalWeights(Weights, frozen=True):
    """Weights in a file of this machine, which the user has named or a worker outside of containers has found.

    A message never holds them: whatever is read from a worker are ``Weights``, so nothing that a worker says makes a
    file of this machine visible in a container.
    """


class Count(msgspec.Struct, frozen=True):
    """A number that the model's amount of work depends on, with the range observed with trained weights.

    Attributes:
        name: what is counted, for example "detections per image".
        value: the number in this run.
        low: lower end of the range observed with trained weights.
        high: upper end of that range.
        source: where ``low`` and ``high`` come from.
    """

    name: str
    value: float
    low: float
    high: float
    source: str

    @property
    def is_typical(self) -> bool:
        """Whether the value lies in the range observed with trained weights."""
        return self.low <= self.value <= self.high
