"""What is said to worker processes, and what they answer: one JSON value per line.

A worker first reads what it is for, a ``Job``, then calls of its methods, each ``[name, arguments …]``. It answers
a call with an ``Answer``, after any ``Progress``, or ends with ``Failed``. Both sides of a comparison may run different
installations of the suite; ``PROTOCOL`` changes whenever they would no longer understand each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated

import msgspec

from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.partial import JudgedSoFar
from modelzoo.records.run import EnvironmentChanges, Prepared
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import ResolvedSetting, Setting

PROTOCOL = 11
VariableName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
SystemText = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*\Z")]
"""No process can be started with anything else."""


class Preparation(msgspec.Struct, frozen=True):
    """One setting as prepared, or the reason why it cannot run.

    Attributes:
        prepared: the setting as resolved, and its weights.
        math_mode: as in the job.
        variables: environment variables that a worker needs to time the setting, before libraries are loaded.
        validation_variables: the same for a worker that also runs the fp32 reference.
        interpreter: path of the interpreter that measuring workers need; ``None``: the one that prepared the setting.
    """

    prepared: Prepared | None = None
    math_mode: str = ""
    variables: dict[VariableName, SystemText] = {}
    validation_variables: dict[VariableName, SystemText] = {}
    interpreter: SystemText | None = None
    error: str | None = None
    error_kind: str = ""


class PrepareJob(msgspec.Struct, frozen=True, tag="prepare"):
    """Resolve settings and their weights, once for all processes of a call that are started in the same way.

    Attributes:
        directory: the workload's.
        parent: id of the process with which the worker ends; ``None`` if the worker is in a container, where it cannot
            see that process.
        math_mode: the oneDNN math mode that the user's environment asked for; empty: none.
        earlier: settings of the same workload that other workers have resolved, without what names files of this
            machine; their weights are used again, so that all settings run the same ones.
    """

    directory: str
    settings: tuple[Setting, ...]
    parent: int | None
    math_mode: str = ""
    earlier: tuple[Prepared, ...] = ()


class Assignment(msgspec.Struct, frozen=True, tag="assignment"):
    """The setting that a worker runs, and what it needs to run it.

    Attributes:
        directory: the workload's.
        requested: the setting as the user gave it.
        prepared: the setting as it was resolved. A worker that would resolve it differently fails.
        parent: as in ``PrepareJob``.
        environment: what was done to the environment variables.
        math_mode: as in ``PrepareJob``.
        validity: how its predictions are judged; ``None`` if they are not.
    """

    directory: str
    requested: Setting
    prepared: Prepared
    parent: int | None
    environment: EnvironmentChanges = EnvironmentChanges()
    math_mode: str = ""
    validity: ValidityRequest | None = None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The setting as the user gave it, as in ``PrepareJob``."""
        return (self.requested,)

    @property
    def setting(self) -> ResolvedSetting:
        """The setting as it was resolved."""
        return self.prepared.setting


class Looks(msgspec.Struct, frozen=True):
    """What a worker looks at after the timing.

    Attributes:
        audit: prove which kernels ran.
        full_audit: attribute the time to kernels, too; otherwise only prove that the same kernels ran as in the
            processes that were audited in full.
        extras: also count operations, call products again and take the profile; one process per setting does so.
        profiling: take a profile.
    """

    audit: bool = True
    full_audit: bool = True
    extras: bool = False
    profiling: bool = False


Job = PrepareJob | Assignment


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A worker's first message: the protocol that it speaks and its suite's version."""

    protocol: int
    version: str


class Silence(msgspec.Struct, frozen=True):
    """A call of a worker that does not return.

    Attributes:
        seconds: for which the worker has sent nothing.
        where: the layer and the line that it is in, and the arrays there.
    """

    seconds: float
    where: str


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """What the worker is doing: the phase, the number of calls in it so far, and how far it is with a judgement.

    ``silence`` is added by the parent if the worker has not sent anything for long.
    """

    phase: Annotated[str, msgspec.Meta(max_length=200)]
    count: int = 0
    judged: JudgedSoFar | None = None
    silence: Silence | None = None


class Located(msgspec.Struct, frozen=True, tag="located"):
    """Where the worker is, which its parent has asked by a signal (``modelzoo.measure.worker``)."""

    where: str


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """What the method that was called has returned, as JSON; whoever called it knows the type."""

    result: msgspec.Raw


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The job failed with an error that the user can act on; ``error_kind`` names a class of ``modelzoo.errors``."""

    error: str
    error_kind: str


Message = Hello | Progress | Located | Exhibit | Answer | Failed
Send = Callable[[Message], None]
"""How a worker sends messages to its parent."""


encode_job: Callable[[Job], bytes] = functools.partial(encode_json, strict=True)
"""A job as one line of JSON, without the line break; ``UnicodeEncodeError`` if a path in it is not UTF-8, so the worker
would not find it."""
decode_job: Callable[[bytes], Job] = msgspec.json.Decoder(Job).decode
decode_message: Callable[[bytes], Message] = msgspec.json.Decoder(Message).decode
"""Raise ``msgspec.DecodeError`` (``ValidationError``) for anything else, an incomplete line included."""
