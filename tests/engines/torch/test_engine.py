"""What is special about torch as an engine."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import CLASSIFIER, source_of
from simulated_device import SimulatedDevice

from modelzoo.engines.torch import switches
from modelzoo.engines.torch.engine import TorchEngine, TorchSession
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence import recording
from modelzoo.frozen import replace
from modelzoo.machine import facts, installation
from modelzoo.measure.sampler import clock_for
from modelzoo.setting import ResolvedSetting, Setting

FAST_MATH = ResolvedSetting("bf16", "fastmath", threads=2)


@pytest.mark.parametrize(
    ("setting", "needed", "with_reference", "expected"),
    [
        (FAST_MATH, False, False, True),
        (FAST_MATH, True, False, True),
        # Beside an fp32 reference the variable is used only by a torch that has no switch.
        (FAST_MATH, False, True, False),
        (FAST_MATH, True, True, True),
        (ResolvedSetting("bf16", "autocast"), True, False, False),
        (ResolvedSetting(), True, True, False),
    ],
)
def test_the_math_mode_variable_is_set_for_fast_math_alone(
    setting: ResolvedSetting, needed: bool, with_reference: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN reads it when it is loaded, so the parent sets it."""
    monkeypatch.setattr(switches, "needs_math_mode_variable", lambda: needed)
    found = TorchEngine().variables(setting, with_reference=with_reference)
    assert ("DNNL_DEFAULT_FPMATH_MODE" in found) is expected
    assert found["OPENBLAS_NUM_THREADS"] == str(setting.threads)


@pytest.mark.parametrize(("mode", "value"), [("eager", None), ("script", None), ("compile", "0"), ("aot", "0")])
def test_inductor_starts_no_processes_in_advance(mode: str, value: str | None) -> None:
    """They would outlive what they compile, and might run while others sample."""
    assert TorchEngine().variables(ResolvedSetting(mode=mode)).get("TORCH_WARM_POOL") == value


def test_the_reference_does_without_onednn_if_the_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """That torch has no switch which would give oneDNN its fp32 back."""
    assert TorchEngine().reference(FAST_MATH) == ResolvedSetting(threads=2)
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    assert TorchEngine().reference(FAST_MATH) == ResolvedSetting(backend="blas", threads=2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (Setting(device="tpu"), "no such kind of device; use cpu, cuda"),
        (Setting("tf32"), "tf32 is a precision of CUDA devices, not of cpu"),
        (Setting(mode="graph"), "--mode graph replays CUDA graphs, which cpu does not have; use --mode compile, or"),
        (Setting(mode="compile"), r"--mode compile needs a C\+\+ compiler: install g\+\+"),
    ],
)
def test_an_unsupported_device_or_mode_fails_early(
    setting: Setting, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``check`` needs neither weights nor a model."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises((EnvironmentProblem, UsageError), match=message):
        TorchEngine().check(setting)


def test_the_default_number_of_threads_is_one_that_openblas_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that was asked for stays, and is warned of."""
    monkeypatch.setattr(installation, "supported_threads", lambda count: min(count, 128))
    assert TorchEngine().resolve(Setting(), batch=1, threads=192).threads == 128
    assert TorchEngine().resolve(Setting(threads=192), batch=1, threads=192).threads == 192


def test_a_lost_device_ends_an_active_session_in_one_line() -> None:
    """Work is asynchronous, so the error may come from whatever waits for the device: the clock, the canary, a copy."""
    simulated: Any = SimulatedDevice(lost_after=2)
    session = TorchSession(ResolvedSetting(device="cuda", threads=torch.get_num_threads()), simulated)
    line = "^cuda failed while the model ran: CUDA error: unspecified launch fail"
    with pytest.raises(EnvironmentProblem, match=line), session.active():
        for _ in range(3):
            clock_for(simulated)(simulated.launch)
    with pytest.raises(RuntimeError, match="shapes"), session.active():
        raise RuntimeError("shapes do not match")


def test_an_active_session_is_in_inference_mode() -> None:
    """Switches hold inside the block alone, each time that it is entered; the seed is the process's."""
    session = TorchEngine().open(ResolvedSetting(backend="blas", threads=torch.get_num_threads(), seed=5))
    assert torch.initial_seed() == 5
    for _ in range(2):
        with session.active() as names:
            assert torch.is_inference_mode_enabled()
            assert names[0] == "torch.backends.mkldnn.enabled=False"
        assert torch.backends.mkldnn.enabled


def test_a_missing_module_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """If torchvision is fine, the message names the module; otherwise its own problem replaces the error."""
    monkeypatch.setattr(installation, "import_torchvision", lambda: None)
    for name, advice in (("transformers", "run ./scripts/run once"), ("nowhere", "install it, or name its")):
        said = pytest.raises(EnvironmentProblem, match=f"No module named '{name}'; {advice}")
        with said, TorchEngine().explained_errors():
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    with pytest.raises(RuntimeError, match="a bug"), TorchEngine().explained_errors():
        raise RuntimeError("a bug")

    def broken() -> None:
        raise EnvironmentProblem("torchvision 0.1 does not match torch 2.10")

    monkeypatch.setattr(installation, "import_torchvision", broken)
    with pytest.raises(EnvironmentProblem, match="does not match"), TorchEngine().explained_errors():
        raise RuntimeError("operator torchvision::nms does not exist")


def test_products_are_called_again_without_a_limit_on_an_emulated_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for 6 s where the machine is what it says."""
    budgets: list[float] = []

    def noting(collector: Any, budget: float, asked: str) -> Any:
        budgets.append(budget)
        return collector.products()

    monkeypatch.setattr(recording, "ask_products", noting)
    setting, machine = ResolvedSetting("fp32", batch=2, threads=torch.get_num_threads()), facts.read_machine()
    source, session = source_of(CLASSIFIER, tmp_path, setting), TorchSession(setting)
    with session.active():
        model = session.load(CLASSIFIER, source.weights, source.inputs)
        for emulator in (None, "qemu-user"):
            monkeypatch.setattr(facts, "read_machine", lambda found=emulator: replace(machine, emulator=found))
            model.audit(model.prepare(source.inputs.args), canary=None, replay=True)
    assert budgets == [6.0, inf]
