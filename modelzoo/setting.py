"""How a workload is run: everything that can change the number, in one frozen object."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Optional, Union

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import replace

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
CONVERTING = ("bf16", "fp16")
"""The precisions that are enabled by one of ``BF16_METHODS``."""
ENGINES = ("torch", "onnxruntime", "openvino", "jittor")
"""The inference frameworks that the suite can run; ``module:class`` names one from elsewhere."""
BF16_METHODS = ("fastmath", "autocast", "cast", "hint")
MODES = ("eager", "compile", "script", "max-autotune", "cpp-wrapper", "aot", "graph")
BACKENDS = ("auto", "onednn", "blas")
MALLOCS = ("default", "glibc", "tcmalloc", "jemalloc")
HUGE_PAGES = ("default", "off", "on")
BACKEND_VARIABLE = "MODELZOO_BACKEND"
"""The environment variable that supplies the default of ``--backend``."""
MARGIN = 0.05
"""Default of ``--margin``."""

LAUNCHERS = ("python", "image")
"""The fields that decide how a worker is started."""

_REFERENCE: dict[str, Any] = {
    "precision": "fp32",
    "bf16_method": None,
    "mode": "eager",
    "backend": "auto",
    "channels_last": False,
    "engine": "torch",
}
OptionValue = Union[bool, int, float, str, None]
"""The value of one of a workload's own options."""


# The annotations are evaluated on Python 3.9 when a stored setting is read, hence Optional.
class Setting(msgspec.Struct, frozen=True):
    """What the user asks for. ``None`` means "to be decided"; see ``ResolvedSetting``.

    Attributes:
        precision: ``fp32``, ``tf32`` (fp32 tensors, which kernels of CUDA devices round), ``bf16`` or ``fp16``.
        bf16_method: how bf16 or fp16 is enabled: ``fastmath`` (tensors stay fp32, kernels round internally),
            ``autocast``, ``cast`` (the whole model is converted), or ``hint`` (OpenVINO's own: it chooses the layers).
        mode: ``eager``, ``compile`` (inductor with freezing), ``max-autotune`` and ``cpp-wrapper`` (the same with more
            tuning, and called from C++), ``aot`` (AOTInductor: compiled ahead of time), ``script`` (traced or
            scripted, then frozen) or ``graph`` (captured in a CUDA graph, which is replayed).
        backend: ``auto`` (torch's own choice), ``onednn``, or ``blas`` (oneDNN switched off).
        device: ``cpu``, ``cuda``, ``cuda:1``, ``npu`` ….
        batch: items per forward pass.
        threads: intra-operator threads.
        channels_last: whether tensors have the channels-last memory format.
        weights: ``auto``, ``pretrained``, ``random`` or the path of a checkpoint.
        seed: seeds random weights, crops and samples.
        input: path of the user's own input.
        options: values of the workload's own options (``size``, ``sequence`` …).
        malloc: the memory allocator: ``default`` (what the environment preloads, else the C library's), ``glibc`` (no
            other one is preloaded), ``tcmalloc`` or ``jemalloc``.
        thp: transparent huge pages: ``default`` (as the system is set), ``off``, or ``on`` (large blocks).
        primitive_cache: how many primitives oneDNN keeps for reuse, 0 for none; ``None``: as many as it does by itself.
        python: absolute path of the interpreter that runs it; ``None`` stands for the one that runs the suite.
        image: name of the container image that it runs in; ``None``: in no container of its own.
        engine: the inference framework: one of ``ENGINES``, or ``module:class``.
        in_flight: batches that are in the pipeline of the workload's stages at the same time; ``None``: the model
            alone is timed.
        include_copies: whether the latency includes copying inputs to an accelerator and outputs back.
    """

    precision: str = "fp32"
    bf16_method: Optional[str] = None
    mode: str = "eager"
    backend: str = "auto"
    device: str = "cpu"
    batch: Optional[int] = None
    threads: Optional[int] = None
    channels_last: bool = False
    weights: str = "auto"
    seed: int = 0
    input: Optional[str] = None
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    malloc: str = "default"
    thp: str = "default"
    python: Optional[str] = None
    image: Optional[str] = None
    engine: str = "torch"
    primitive_cache: Optional[int] = None
    in_flight: Optional[int] = None
    include_copies: bool = False

    def __post_init__(self) -> None:
        _one_of("--precision", self.precision, PRECISIONS)
        _one_of("--mode", self.mode, MODES)
        _one_of("--backend", self.backend, BACKENDS)
        _one_of("--malloc", self.malloc, MALLOCS)
        _one_of("--thp", self.thp, HUGE_PAGES)
        if ":" not in self.engine:
            _one_of("--engine", self.engine, ENGINES)
        if self.bf16_method is not None:
            _one_of("--bf16", self.bf16_method, BF16_METHODS)
        for name in ("batch", "threads", "in_flight"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be 1 or more, not {value}")
        if self.primitive_cache is not None and not 0 <= self.primitive_cache < 2**31:
            raise UsageError(f"--primitive-cache must be from 0 to 2**31 - 1, not {self.primitive_cache}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed must be from 0 to 2**63 - 1, not {self.seed}")
        if self.python is not None and self.image is not None:
            raise UsageError("python and image contradict each other: an image has its own Python; leave one out")
        if self.include_copies and self.device == "cpu":
            raise UsageError("--include-copies is for accelerators: the CPU copies nothing; leave it out")
        if self.include_copies and self.in_flight is not None:
            raise UsageError("--include-copies and --stages contradict each other: copies are stages; leave one out")

    @property
    def label(self) -> str:
        """A short name for tables: the precision, and what differs from the defaults of how a model is executed."""
        return labels([self])[0]

    def _label(self, short: Mapping[str, str]) -> str:
        """``label``, with the ``short`` names of the interpreter and the image."""
        parts = [self.precision + (f"={self.bf16_method}" if self.bf16_method else "")]
        if self.engine != "torch":
            parts.append(self.engine)
        if self.mode != "eager":
            parts.append(self.mode)
        if self.backend != "auto":
            parts.append(self.backend)
        if self.channels_last:
            parts.append("channels-last")
        for name, value in (("malloc", self.malloc), ("thp", self.thp)):
            if value != "default":
                parts.append(f"{name}={value}")
        if self.primitive_cache is not None:
            parts.append(f"primitive-cache={self.primitive_cache}")
        if self.in_flight is not None:
            parts.append("stages" if self.in_flight == 1 else f"in-flight={self.in_flight}")
        if self.include_copies:
            parts.append("copies")
        parts += [f"{name}={short[value]}" for name in LAUNCHERS if (value := getattr(self, name)) is not None]
        return " ".join(parts)

    def reference(self) -> Setting:
        """The setting whose predictions serve as the reference: torch, fp32, eager, default backend and memory format.

        Allocator, huge pages, interpreter and image stay: they belong to the process, which both run in.
        """
        return self.replace(**_REFERENCE)

    def replace(self, **changes: Any) -> Setting:
        """Return a copy with ``changes``, checked like any other setting."""
        return replace(self, **changes)


FIELDS = tuple(name for name in Setting.__struct_fields__ if name not in ("bf16_method", "options"))
"""The fields that are compared and shown one by one; the bf16 method belongs to the precision."""


class ResolvedSetting(Setting, frozen=True):
    """A setting in which nothing is left to decide.

    It is made once, in the ``prepare`` process. The parent derives the workers' environment from it, and a worker
    that would decide otherwise fails. ``bf16_method`` is ``None`` only in fp32 and tf32; ``options`` holds every option
    of the workload.
    """

    batch: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.precision in CONVERTING) != (self.bf16_method is not None):
            raise ValueError(f"{self.precision} with the bf16 method {self.bf16_method} is not resolved")

    def reference(self) -> ResolvedSetting:
        """As ``Setting.reference``; what was resolved stays so."""
        return replace(self, **_REFERENCE)


def labels(settings: Sequence[Setting]) -> list[str]:
    """A distinct label for each of the settings of one workload.

    Each is ``Setting.label``, then whatever else differs between the settings (device, batch, threads, weights,
    options …), then a number if two settings are equal all the same, as in a comparison of A with A.

    >>> labels([Setting(batch=1), Setting(batch=8)])
    ['fp32 batch=1', 'fp32 batch=8']
    >>> labels([Setting(), Setting()])
    ['fp32', 'fp32 #2']
    """
    shown = {"precision", "bf16_method", "engine", "mode", "backend", "channels_last", "malloc", "thp", *LAUNCHERS}
    shown |= {"primitive_cache", "in_flight", "include_copies", "options"}
    names = [name for name in Setting.__struct_fields__ if name not in shown]
    varied = [name for name in names if len({getattr(setting, name) for setting in settings}) > 1]
    options = sorted({name for setting in settings for name in setting.options})
    varied_options = [name for name in options if len({repr(setting.options.get(name)) for setting in settings}) > 1]
    short: dict[str, str] = {}
    for name in LAUNCHERS:
        short.update(launcher_names([value for s in settings if (value := getattr(s, name)) is not None]))
    found: list[str] = []
    for setting in settings:
        parts = [setting._label(short)]
        parts += [f"{name}={value_text(getattr(setting, name))}" for name in varied]
        parts += [f"{name}={value_text(setting.options.get(name))}" for name in varied_options]
        label = " ".join(parts)
        count = 1 + sum(other == label or other.startswith(f"{label} #") for other in found)
        found.append(label if count == 1 else f"{label} #{count}")
    return found


def launcher_names(values: Collection[str]) -> dict[str, str]:
    """A short name for each interpreter or image, as long as it takes to tell them apart.

    An interpreter is called after its environment, an image of this suite by its tag.

    >>> launcher_names(["/home/me/envs/torch-2.9.1/bin/python", "/home/me/.venv/bin/python"])
    {'/home/me/envs/torch-2.9.1/bin/python': 'torch-2.9.1', '/home/me/.venv/bin/python': '.venv'}
    >>> launcher_names(["/usr/bin/python3.9", "/usr/bin/python3.11"])
    {'/usr/bin/python3.9': 'python3.9', '/usr/bin/python3.11': 'python3.11'}
    >>> launcher_names(["zoo:torch1.13.0_acl", "zoo:torch2.10.0_acl"])
    {'zoo:torch1.13.0_acl': 'torch1.13.0_acl', 'zoo:torch2.10.0_acl': 'torch2.10.0_acl'}
    """
    distinct = list(dict.fromkeys(values))
    longest = max((len(PurePath(value).parts) for value in distinct), default=0)
    choices = [[_environment_name(value) for value in distinct]]
    choices += [["/".join(PurePath(value).parts[-count:]) for value in distinct] for count in range(1, longest)]
    return dict(zip(distinct, next((names for names in choices if len(set(names)) == len(names)), distinct)))


def _environment_name(value: str) -> str:
    """``torch-2.9.1`` for ``/envs/torch-2.9.1/bin/python``, and the tag of an image."""
    path = PurePath(value)
    if value.startswith(("/", "~")):  # stored results have ~ in place of the home directory
        environment = path.parent.parent.name if path.parent.name == "bin" else ""
        return path.name if environment in ("", "usr", "local") else environment
    tag = value.rpartition(":")[2]
    return value if not tag or "/" in tag or "@" in value else tag


def value_text(value: OptionValue) -> str:
    """Return the value of a field or an option in the notation of ``--vary``.

    >>> value_text(True), value_text(None), value_text(8)
    ('on', 'default', '8')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return "default" if value is None else str(value)


def parse_words(text: str, source: str, side: str = "") -> dict[str, str]:
    """Parse ``NAME=VALUE NAME=VALUE …``; a value with spaces is quoted as in a shell.

    Args:
        text: what to parse; it may be empty.
        source: the option with what was given to it, for errors.
        side: which part of it ``text`` is, for errors: `` on one side``.

    Raises:
        UsageError: it has another form, or names an option twice.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{source}: {word!r} must have the form NAME=VALUE")
        if name in found:
            raise UsageError(f"{source} names {name} twice{side}")
        found[name] = value
    return found


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{option} must be one of {', '.join(allowed)}, not {value!r}")


class Plan(msgspec.Struct, frozen=True):
    """How long to measure in one process.

    Attributes:
        warmup: number of warm-up calls; ``None``: until timings stabilise.
        iterations: number of samples; ``None``: as many as ``max_seconds`` allow.
        max_seconds: wall-clock seconds of sampling in one process; ``None``: follows from what is measured.
    """

    warmup: Optional[int] = None
    iterations: Optional[int] = None
    max_seconds: Optional[float] = None

    def __post_init__(self) -> None:
        if self.warmup is not None and self.warmup < 0:
            raise UsageError(f"--warmup must be 0 or more, not {self.warmup}")
        if self.iterations is not None and self.iterations < 1:
            raise UsageError(f"--iterations must be 1 or more, not {self.iterations}")
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise UsageError(f"--max-seconds must be a number over 0, not {self.max_seconds:g}")


class Effort(msgspec.Struct, frozen=True):
    """How many processes may be spent, and on what precision.

    Attributes:
        processes: number of processes per setting; ``None``: follows from what is measured.
        margin: half width of the 95 % interval at which a setting is measured well enough, as a fraction.
        budget: wall-clock seconds for the whole call; ``None``: no limit.
    """

    processes: Optional[int] = None
    margin: float = MARGIN
    budget: Optional[float] = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise UsageError(f"--processes must be 1 or more, not {self.processes}")
        if not 0 < self.margin < 1:
            given = f"{100 * self.margin:g} %"
            raise UsageError(f"--margin must be over 0 % and under 100 %, not {given}; write 5% or 0.05")
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise UsageError(f"--budget must be over 0, not {self.budget:g} s")


class Sessions(msgspec.Struct, frozen=True):
    """How often a whole call is repeated.

    Attributes:
        count: number of sessions.
        every: seconds from the start of one session to the start of the next; 0: each follows the one before.
    """

    count: int = 1
    every: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"--sessions must be 1 or more, not {self.count}")
        if not 0 <= self.every < math.inf:
            raise UsageError(f"--every must be 0 or more, not {self.every:g} s")
