"""How a workload is run: everything that can change the number, in one frozen object."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_type_hints

import msgspec

from modelzoo.errors import UsageError
from modelzoo.formatting import launcher_names
from modelzoo.frozen import Argument, Public, replace
from modelzoo.option import Field

METHODS = {"bf16": "bf16_method", "fp16": "bf16_method", "int8": "recipe"}
"""The field that says how each precision below fp32 is obtained; the others have no such field."""
BACKEND_VARIABLE = "MODELZOO_BACKEND"
"""The environment variable that supplies the default of ``--backend``."""
OptionValue = bool | int | float | Argument | None
"""The value of one of a workload's own options."""


class Setting(msgspec.Struct, frozen=True):
    """What the user asks for. ``None`` stands for "none", or for "to be decided": see ``ResolvedSetting``."""

    precision: Annotated[
        Public,
        Field(
            "fp32, tf32 (fp32 tensors, which kernels of CUDA devices round), bf16, fp16 or int8",
            choices=("fp32", "tf32", "bf16", "fp16", "int8"),
            is_execution=True,
        ),
    ] = "fp32"
    bf16_method: Annotated[
        Public | None,
        Field(
            "how bf16 or fp16 is enabled: fastmath (tensors stay fp32, kernels round internally), autocast, cast (the "
            "whole model is converted), or hint (OpenVINO's own: it chooses the layers)",
            choices=("fastmath", "autocast", "cast", "hint"),
            is_execution=True,
        ),
    ] = None
    recipe: Annotated[
        Public | None,
        Field(
            "how a model is quantized to int8, which this implies: torchao (scales per channel and token), dynamic "
            "(torch's quantize_dynamic), or dynamic-x86, dynamic-onednn, dynamic-qnnpack (with that engine); of the "
            "weights alone: weight-only (torchao's), weight-only-packed (torch's); of convolutions too: static (with "
            "--mode compile or ONNX Runtime); of ONNX Runtime: dynamic-per-tensor or -per-channel; default: what suits "
            "the machine",
            "RECIPE",
            choices=(
                *("torchao", "dynamic", "dynamic-x86", "dynamic-onednn", "dynamic-qnnpack"),
                *("weight-only", "weight-only-packed", "dynamic-per-tensor", "dynamic-per-channel", "static"),
            ),
            is_execution=True,
        ),
    ] = None
    engine: Annotated[
        Public,
        Field(
            "inference framework: torch (default), onnxruntime, openvino or jittor, with the same weights "
            "(docs/engines.md); MODULE:CLASS names one from elsewhere",
            "ENGINE",
            choices=("torch", "onnxruntime", "openvino", "jittor"),
            others=":",
            label="bare",
            is_execution=True,
        ),
    ] = "torch"
    mode: Annotated[
        Public,
        Field(
            "eager (default), compile (inductor with freezing), max-autotune (the same with more tuning), cpp-wrapper "
            "(the same, called from C++), aot (AOTInductor: compiled ahead of time), script (traced or scripted, then "
            "frozen) or graph (captured in a CUDA graph and replayed)",
            "MODE",
            choices=("eager", "compile", "script", "max-autotune", "cpp-wrapper", "aot", "graph"),
            label="bare",
            is_execution=True,
        ),
    ] = "eager"
    backend: Annotated[
        Public,
        Field(
            "auto (torch's own choice), onednn, or blas (oneDNN switched off: OpenBLAS or MKL); default: "
            "MODELZOO_BACKEND, else auto",
            "BACKEND",
            choices=("auto", "onednn", "blas"),
            label="bare",
            is_execution=True,
        ),
    ] = "auto"
    device: Annotated[Public, Field("cpu (default), cuda, cuda:1, npu or xpu", "DEVICE", per_process=True)] = "cpu"
    batch: Annotated[
        int | None, Field("items per forward pass (default: the workload's)", "N", low=1, is_work=True)
    ] = None
    threads: Annotated[
        int | None,
        Field(
            "intra-operator threads (default: OMP_NUM_THREADS, else the smallest of CPU affinity, cgroup quota and "
            "physical cores)",
            "N",
            low=1,
            per_process=True,
        ),
    ] = None
    channels_last: Annotated[bool, Field("use the channels-last memory format", label="named", is_execution=True)] = (
        False
    )
    weights: Annotated[
        Argument,
        Field(
            "auto (default: cached, else downloaded, else random), pretrained, random, or the path of a checkpoint",
            "SOURCE",
            is_work=True,
        ),
    ] = "auto"
    input: Annotated[str | None, Field("your own image, directory of images, or text file", "PATH", is_work=True)] = (
        None
    )
    seed: Annotated[
        int, Field("seed for random weights, crops and samples (default 0)", "N", low=0, bits=63, is_work=True)
    ] = 0
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    linear: Annotated[
        Public,
        Field(
            "library that computes torch.nn.Linear in fp32 on the CPU: default (torch's choice, MKL on x86) or onednn "
            "(weights are packed for it once)",
            "LIBRARY",
            choices=("default", "onednn"),
            label="named",
            is_execution=True,
        ),
    ] = "default"
    malloc: Annotated[
        Public,
        Field(
            "memory allocator: default (what LD_PRELOAD names, else the C library's), glibc (no other one is "
            "preloaded), tcmalloc or jemalloc",
            "NAME",
            choices=("default", "glibc", "tcmalloc", "jemalloc"),
            label="named",
        ),
    ] = "default"
    thp: Annotated[
        Public,
        Field(
            "transparent huge pages: default (the system's), off, or on (large blocks)",
            "WHEN",
            choices=("default", "off", "on"),
            label="named",
        ),
    ] = "default"
    primitive_cache: Annotated[
        int | None,
        Field(
            "primitives that oneDNN keeps for reuse, 0 for none (default: what oneDNN does by itself, 1024)",
            "N",
            low=0,
            bits=31,
            label="named",
        ),
    ] = None
    stages: Annotated[
        bool,
        Field(
            "time the whole pipeline of the workload, from its raw input to its answer, and each stage of it",
            label="named",
        ),
    ] = False
    include_copies: Annotated[
        bool,
        Field(
            "time the copies of the inputs to an accelerator and of the outputs back as well",
            label="named",
            word="copies",
            per_process=True,
        ),
    ] = False
    python: Annotated[
        str | None,
        Field(
            "run with this interpreter and its torch, such as those that scripts/torch-env makes (default: this one)",
            "PATH",
            label="named",
            is_launch=True,
        ),
    ] = None
    image: Annotated[
        str | None,
        Field(
            "run in containers of this image of the suite (default: none)",
            "IMAGE",
            label="named",
            is_launch=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name, declared in fields().items():
            declared.check(f"--{option_name(name)}", getattr(self, name))
        if self.python is not None and self.image is not None:
            raise UsageError("python and image contradict each other: an image has its own Python; leave one out")
        if self.include_copies and self.device == "cpu":
            raise UsageError("--include-copies is for accelerators: the CPU copies nothing; leave it out")
        if self.include_copies and self.stages:
            raise UsageError("--include-copies and --stages contradict each other: copies are stages; leave one out")

    @property
    def method(self) -> str | None:
        """How the precision is obtained: the bf16 method, or the recipe of a quantized model."""
        found: str | None = getattr(self, METHODS[self.precision]) if self.precision in METHODS else None
        return found

    @property
    def label(self) -> str:
        """A short name for tables: the precision, and what differs from the defaults of how a model is executed."""
        return labels([self])[0]

    def _label(self, short: Mapping[str, str]) -> str:
        """``label``, with the ``short`` names of the interpreter and the image."""
        parts = [self.precision + (f"={self.method}" if self.method else "")]
        for name, declared in fields().items():
            value = getattr(self, name)
            if declared.label == "if varied" or value == DEFAULTS[name]:
                continue
            shown = value_text(short[value] if declared.is_launch else value)
            named = (declared.word or option_name(name)) if value is True else f"{option_name(name)}={shown}"
            parts.append(shown if declared.label == "bare" else named)
        return " ".join(parts)

    def reference(self) -> Setting:
        """The setting whose predictions serve as the reference: torch, fp32, eager, default backend and memory format.

        Allocator, huge pages, interpreter and image stay: they belong to the process, which both run in.
        """
        return self.replace(**_of_reference())

    def replace(self, **changes: Any) -> Setting:
        """Return a copy with ``changes``, checked like any other setting."""
        return replace(self, **changes)


DEFAULTS: dict[str, Any] = dict(zip(Setting.__struct_fields__, Setting.__struct_defaults__))
"""The defaults of the fields; not that of ``options``."""


@cache
def _annotations() -> dict[str, Any]:
    """The annotations of all fields but ``options``, evaluated once: ``modelzoo --help`` waits for it."""
    found = get_type_hints(Setting, include_extras=True)
    return {name: found[name] for name in Setting.__struct_fields__ if name != "options"}


@cache
def fields() -> dict[str, Field]:
    """The declarations of all fields but ``options``, by name, in the order in which they are shown."""
    return {name: annotation.__metadata__[-1] for name, annotation in _annotations().items()}


def _of_reference() -> dict[str, Any]:
    """The fields in which the reference differs, with their values."""
    return {name: DEFAULTS[name] for name, declared in fields().items() if declared.is_execution}


def is_other_work(names: Collection[str]) -> bool:
    """Whether settings that differ in these options run another model, or on other inputs: a workload's own options
    do, and the fields that say so."""
    same = {option_name(name) for name, declared in fields().items() if not declared.is_work}
    return not same.issuperset(names)


def choices(name: str) -> tuple[str, ...]:
    """The values that a field may have; empty if there are others."""
    return fields()[name].choices


def launchers() -> list[str]:
    """The fields that decide how a worker is started."""
    return [name for name, declared in fields().items() if declared.is_launch]


def option_name(name: str) -> str:
    """The name of a field on the command line and in ``--vary``.

    >>> option_name("channels_last"), option_name("bf16_method")
    ('channels-last', 'bf16')
    """
    return "bf16" if name == "bf16_method" else name.replace("_", "-")


METHOD_OPTIONS = {"bf16": "bf16", "recipe": "int8"}
"""The options that say how a precision is obtained, with the precision that each of them implies."""


def field_type(name: str) -> type:
    """``bool``, ``int`` or ``str``: what the values of a field are, apart from ``None``."""
    hint = _annotations()[name].__origin__
    return next((kind for kind in (bool, int, str) if hint in (kind, kind | None)), str)


SHOWN = tuple(name for name in Setting.__struct_fields__ if name not in (*METHODS.values(), "options"))
"""The fields that are compared and shown one by one; how a precision is obtained belongs to the precision."""


class ResolvedSetting(Setting, frozen=True):
    """A setting in which nothing is left to decide.

    It is made once, in the ``prepare`` process. The parent derives the workers' environment from it, and a worker
    that would decide otherwise fails. ``bf16_method`` is ``None`` unless the precision is bf16 or fp16, ``recipe``
    unless it is int8; ``options`` holds every option of the workload.
    """

    batch: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in dict.fromkeys(METHODS.values()):
            if (METHODS.get(self.precision) == name) != (getattr(self, name) is not None):
                raise ValueError(f"{self.precision} with {option_name(name)}={getattr(self, name)} is not resolved")

    def reference(self) -> ResolvedSetting:
        """As ``Setting.reference``; what was resolved stays so."""
        return replace(self, **_of_reference())


def labels(settings: Sequence[Setting], *, with_open: bool = True) -> list[str]:
    """A distinct label for each of the settings of one workload.

    Each is ``Setting.label``, then whatever else differs between the settings (device, batch, threads, weights,
    options …), then a number if two settings are equal all the same, as in a comparison of A with A. What a setting
    leaves open is called ``default`` if others say it, or left out without ``with_open``.

    >>> labels([Setting(batch=1), Setting(batch=8)])
    ['fp32 batch=1', 'fp32 batch=8']
    >>> labels([Setting(), Setting()])
    ['fp32', 'fp32 #2']
    >>> labels([Setting(), Setting(threads=1)], with_open=False)
    ['fp32', 'fp32 threads=1']
    """
    names = [name for name in SHOWN if name != "precision" and fields()[name].label == "if varied"]
    varied = [name for name in names if len({getattr(setting, name) for setting in settings}) > 1]
    options = sorted({name for setting in settings for name in setting.options})
    varied_options = [name for name in options if len({repr(setting.options.get(name)) for setting in settings}) > 1]
    short: dict[str, str] = {}
    for name in launchers():
        short.update(launcher_names([value for s in settings if (value := getattr(s, name)) is not None]))
    found: list[str] = []
    for setting in settings:
        parts = [setting._label(short)]
        said = [(name, getattr(setting, name)) for name in varied]
        said += [(name, setting.options[name]) for name in varied_options if name in setting.options]
        parts += [f"{name}={value_text(value)}" for name, value in said if with_open or value is not None]
        label = " ".join(parts)
        count = 1 + sum(other == label or other.startswith(f"{label} #") for other in found)
        found.append(label if count == 1 else f"{label} #{count}")
    return found


def value_text(value: OptionValue) -> str:
    """Return the value of a field or an option in the notation of ``--vary``.

    >>> value_text(True), value_text(None), value_text(8)
    ('on', 'default', '8')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return "default" if value is None else str(value)
