"""Jobs sent to worker processes and the messages that they answer with: one JSON object per line.

Jobs and messages are tagged structs, so that a line names its own type. Both sides of a comparison may run different
installations of the suite; ``PROTOCOL`` changes whenever they would no longer understand each other.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional, Union

import msgspec

from modelzoo.plan import Plan
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import JudgedPart, Shard, ShardPlan, ShardResult
from modelzoo.records.partial import JudgedSoFar
from modelzoo.records.run import EnvironmentChanges, Prepared, RunReport, ValidityReport
from modelzoo.records.serving import BatchDone, Ready, Served, Window
from modelzoo.records.validity import Validity, ValidityRequest
from modelzoo.setting import ResolvedSetting, Setting

PROTOCOL = 9
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

    prepared: Optional[Prepared] = None
    math_mode: str = ""
    variables: dict[VariableName, SystemText] = {}
    validation_variables: dict[VariableName, SystemText] = {}
    interpreter: Optional[SystemText] = None
    error: Optional[str] = None
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
    parent: Optional[int]
    math_mode: str = ""
    earlier: tuple[Prepared, ...] = ()


class Assignment(msgspec.Struct, frozen=True):
    """The setting that a worker runs, and what it needs to run it.

    Attributes:
        directory: the workload's.
        requested: the setting as the user gave it.
        prepared: the setting as it was resolved. A worker that would resolve it differently fails.
        parent: as in ``PrepareJob``.
        environment: what was done to the environment variables.
        math_mode: as in ``PrepareJob``.
    """

    directory: str
    requested: Setting
    prepared: Prepared
    parent: Optional[int]
    environment: EnvironmentChanges = EnvironmentChanges()
    math_mode: str = ""

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


class MeasureJob(msgspec.Struct, frozen=True, tag="measure"):
    """Time one setting in this process.

    Attributes:
        own_turns: observe the CPUs during this process's own turns only, because it does not see the processes of all
            others: some of them are in containers.
        locked_mhz: the frequency that the parent has locked the GPUs' clocks at; ``None``: it has not.
    """

    assignment: Assignment
    plan: Plan
    looks: Looks = Looks()
    own_turns: bool = False
    locked_mhz: Optional[int] = None


class ValidateJob(msgspec.Struct, frozen=True, tag="validate"):
    """Compare one setting's predictions with those of fp32."""

    assignment: Assignment
    request: ValidityRequest


class ShardJob(msgspec.Struct, frozen=True, tag="shards"):
    """Divide a data set into shards and compare both models' predictions shard by shard, as each ``ShardTurn`` says.

    Attributes:
        shard_items: items per shard; ``None``: a hundredth of the data set.
    """

    assignment: Assignment
    request: ValidityRequest
    shard_items: Optional[int] = None


class ConcludeJob(msgspec.Struct, frozen=True, tag="conclude"):
    """Judge the merged results of all shards, which follow as lines of ``ShardResult``; an empty line ends them."""

    assignment: Assignment
    request: ValidityRequest


class InstanceJob(msgspec.Struct, frozen=True, tag="instance"):
    """Load one setting in this process, and serve batches as the commands of ``modelzoo.records.serving`` say.

    Attributes:
        plan: how long to warm up; the rest of it means nothing here.
        sizes: the batch sizes that will be served, each of which is warmed up; empty: the setting's.
        looks: what is looked at in the end.
    """

    assignment: Assignment
    plan: Plan = Plan()
    sizes: tuple[int, ...] = ()
    looks: Looks = Looks()


Job = Union[PrepareJob, MeasureJob, ValidateJob, ShardJob, ConcludeJob, InstanceJob]


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
    judged: Optional[JudgedSoFar] = None
    silence: Optional[Silence] = None


class Located(msgspec.Struct, frozen=True, tag="located"):
    """Where the worker is, which its parent has asked by a signal (``modelzoo.measure.whereabouts``)."""

    where: str


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """The worker waits for its next turn."""


class Exhibited(msgspec.Struct, frozen=True, tag="exhibit"):
    """Something that illustrates a judgement: an image to draw, a table to write."""

    exhibit: Exhibit


class SettingsPrepared(msgspec.Struct, frozen=True, tag="prepared"):
    """The answer to a ``PrepareJob``: one entry per setting, in the order asked."""

    settings: tuple[Preparation, ...]


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """The answer to a ``MeasureJob``."""

    report: RunReport


class Judged(msgspec.Struct, frozen=True, tag="judged"):
    """The answer to a ``ValidateJob``."""

    report: ValidityReport


class ShardsPlanned(msgspec.Struct, frozen=True, tag="shards-planned"):
    """How a data set is divided: the first message of a ``ShardJob``."""

    plan: ShardPlan


class ShardTurn(msgspec.Struct, frozen=True):
    """What a worker does in its next turn: judge a shard, or only look at the files of its items."""

    shard: Shard
    judge: bool = True


class ShardCompared(msgspec.Struct, frozen=True, tag="shard-compared"):
    """The answer to a ``ShardTurn``.

    Attributes:
        content: as in ``ShardResult``.
        result: ``None`` if the shard was not to be judged.
    """

    content: str
    result: Optional[ShardResult] = None


class ShardsEnded(msgspec.Struct, frozen=True, tag="shards-ended"):
    """There are no more turns."""


class Concluded(msgspec.Struct, frozen=True, tag="concluded"):
    """The answer to a ``ConcludeJob``."""

    validity: Validity


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The job failed with an error that the user can act on; ``error_kind`` names a class of ``modelzoo.errors``."""

    error: str
    error_kind: str


Message = Union[
    Hello,
    Progress,
    Located,
    Paused,
    Exhibited,
    SettingsPrepared,
    Measured,
    Judged,
    ShardsPlanned,
    ShardCompared,
    ShardsEnded,
    Concluded,
    Ready,
    Window,
    BatchDone,
    Served,
    Failed,
]


def encode_job(job: Job) -> bytes:
    """``job`` as one line of JSON, without the line break.

    Raises:
        UnicodeEncodeError: a path in it is not UTF-8, so the worker would not find it.
    """
    return encode_json(job, strict=True)


def encode_line(message: Message) -> bytes:
    """``message`` as one line of JSON, without the line break. NaN and infinities become null."""
    return encode_json(message)


def decode_job(line: bytes) -> Job:
    """Raises ``msgspec.DecodeError`` (``ValidationError``) for anything else."""
    job: Job = _JOBS.decode(line)
    return job


def decode_turn(line: bytes) -> ShardTurn:
    """Raises ``msgspec.DecodeError`` for anything else."""
    turn: ShardTurn = _TURNS.decode(line)
    return turn


def decode_shard_result(line: bytes) -> ShardResult:
    """Raises ``msgspec.DecodeError`` for anything else."""
    result: ShardResult = _SHARD_RESULTS.decode(line)
    return result


def decode_judged_part(data: bytes) -> JudgedPart:
    """Raises ``msgspec.MsgspecError`` for anything else."""
    part: JudgedPart = _PARTS.decode(data)
    return part


def decode_message(line: bytes) -> Message:
    """Raises ``msgspec.DecodeError`` for anything else, an incomplete line included."""
    message: Message = _MESSAGES.decode(line)
    return message


_JOBS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Job)
_MESSAGES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Message)
_TURNS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ShardTurn)
_SHARD_RESULTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ShardResult)
_PARTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(JudgedPart)
