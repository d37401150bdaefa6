"""What engines that run exported models have in common, whatever their framework.

They run a model on the CPU in the one way that is theirs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

from msgspec.structs import asdict

from modelzoo.engines import INSTALL
from modelzoo.engines.protocol import Engine, Model, Observed, Session, Unavailable, value_and_problem
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence.attribution import summarize_profile
from modelzoo.evidence.coverage import AttributedAudit
from modelzoo.evidence.flops import Call
from modelzoo.evidence.recording import RecordedCall
from modelzoo.evidence.verdict import judge_nodes, node_digest
from modelzoo.frozen import replace
from modelzoo.machine.installation import installed_version, package_versions
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Count, Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage
from modelzoo.workload.declaration import Inputs, Workload


def option_names(options: Mapping[str, str]) -> tuple[str, ...]:
    """Options as text for the record."""
    return tuple(f"{name}={value}" for name, value in options.items())


class ExportedSession(Session):
    """One setting of such an engine."""

    device = None

    def __init__(self, engine: ExportedEngine, setting: ResolvedSetting) -> None:
        self._engine, self.setting, self.options = engine, setting, engine.options(setting)

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        with self._engine.context():
            yield option_names(self.options)

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> Model:
        assert export is not None, "its models are exported"
        return self._engine.model(self, workload, inputs, export)

    def canary(self) -> Observed[Canary]:
        return self._engine.canary(self)


class ExportedEngine(Engine):
    """An engine whose models torch exports; its workers need no torch.

    Attributes:
        name: of the engine in results.
        title: that in messages.
        packages: what is imported, in this order.
        bf16_method: the only way in which it runs bf16; ``None`` if it does not.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    bf16_method: ClassVar[str | None] = None

    def __init__(self) -> None:
        self._threads = 0  # of the latest session

    def options(self, setting: ResolvedSetting) -> Mapping[str, str]:
        """The options that every model of ``setting`` has."""
        return {}

    def context(self) -> AbstractContextManager[object]:
        """The context in which models are loaded and called."""
        return nullcontext()

    def model(self, session: ExportedSession, workload: Workload, inputs: Inputs, export: Export) -> Model:
        """The model of ``export``; see ``modelzoo.engines.protocol.Session.load``."""
        raise NotImplementedError

    def canary(self, session: ExportedSession) -> Observed[Canary]:
        """See ``modelzoo.engines.protocol.Session.canary``."""
        raise NotImplementedError

    def load(self) -> None:
        for package in self.packages:
            try:
                importlib.import_module(package)
            except ImportError as error:
                problem = "is not installed" if installed_version(package) is None else f"cannot be imported ({error})"
                install = INSTALL.get(self.name, f"pip install {' '.join(self.packages)}")
                raise EnvironmentProblem(f"{package} {problem}: run {install}") from error

    def versions(self) -> Mapping[str, str]:
        own = {package: installed_version(package) for package in self.packages}
        return {**package_versions(), **{name: version for name, version in own.items() if version is not None}}

    def check(self, setting: Setting) -> None:
        """Check that ``setting`` asks for nothing that only torch has; see ``modelzoo.engines.protocol.Engine``."""
        plain = Setting()
        asked = {
            f"--device {setting.device}": setting.device != plain.device,
            f"--mode {setting.mode}": setting.mode != plain.mode,
            f"--backend {setting.backend}": setting.backend != plain.backend,
            "--channels-last": setting.channels_last,
            f"--linear {setting.linear}": setting.linear != plain.linear,
        }
        option = next((option for option, is_asked in asked.items() if is_asked), None)
        if option is not None:
            raise UsageError(
                f"{option} is an option of torch, and {self.title} runs on the CPU in a way of its own; leave "
                "it out, or use --engine torch"
            )

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        method = self.bf16_method if setting.precision == "bf16" else None
        decided = {"batch": setting.batch or batch, "threads": setting.threads or threads, "bf16_method": method}
        return ResolvedSetting(**{**asdict(setting), **decided, "recipe": self.resolve_recipe(setting)})

    def resolve_recipe(self, setting: Setting) -> str | None:
        """The recipe that ``setting`` runs with; ``None`` if it is not quantized."""
        return None

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        # The engine has threads of its own; numpy, and torch as the reference, have those of OpenMP or a BLAS.
        return dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(setting.threads))

    def open(self, setting: ResolvedSetting) -> ExportedSession:
        self._threads = setting.threads
        return ExportedSession(self, setting)


class ExportedModel:
    """A model of such an engine: there is no torch module in it, and its framework lists the nodes that it ran.

    Args:
        workload: its name.
        setting: what it runs.
        counted: the operations that torch counts in a pass of the same model; ``None`` if it cannot.
    """

    module = None
    compilation: Compilation | None = None

    def __init__(self, workload: str, setting: ResolvedSetting, counted: Flops | None = None) -> None:
        self._workload, self._setting, self._counted = workload, setting, counted

    def reason_of(self, error: Exception) -> str | None:
        """The framework's own reason in one line; ``None`` if ``error`` is not the framework's."""
        return None

    def listed(self, args: tuple[Any, ...], passes: int) -> Observed[AttributedAudit]:
        """Run ``passes`` passes on prepared ``args``, after a first one; return what ``judge_nodes`` takes."""
        raise NotImplementedError

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            reason = self.reason_of(error)
            if reason is None:
                raise
            problem = f"{self._workload} cannot run with {self._setting.label}: {reason}; run it with --engine torch"
            raise UsageError(problem) from error

    def stored_bytes(self) -> int | None:
        return None

    def warnings(self) -> tuple[WarningMessage, ...]:
        return ()

    def counts(self, args: tuple[object, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        return ()

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        found = self.listed(args, 1)
        return found if isinstance(found, Unavailable) else node_digest(found.parts) or NO_PRODUCT

    def audit(self, args: tuple[Any, ...], *, canary: Canary | None, replay: bool = False) -> Observed[Evidence]:
        found, setting = self.listed(args, 1), self._setting
        if isinstance(found, Unavailable):
            return found
        return judge_nodes(found, canary, setting.precision, setting.bf16_method, self._counted)

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        # Fused operators move fewer bytes than torch's.
        return NOT_COUNTED if self._counted is None else replace(self._counted, bytes=0)

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Observed[Profile]:
        found = self.listed(args, PROFILED_PASSES)
        if isinstance(found, Unavailable):
            return found
        calls = [  # whose operations and bytes are not known
            RecordedCall(Call(each.operator, tuple(filter(None, each.shapes)), None, 0), each.seconds / each.count)
            for each in found.parts
            for _ in range(each.count)
        ]
        flops, problem = value_and_problem(self.flops(args))
        problems = (NO_LAYERS, *filter(None, [problem]))
        return summarize_profile(calls, PROFILED_PASSES, evidence=evidence, flops=flops, problems=problems)


PROFILED_PASSES = 2
NO_LAYERS = "an exported model has no table by layer"
NO_PRODUCT = Unavailable("the engine names no kernel that multiplies matrices")
NOT_COUNTED = Unavailable("torch cannot count the operations of this model")
