"""Two engines that have nothing in common go through the same steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from modelzoo.engines import create_engine
from modelzoo.engines.protocol import Engine, Unavailable, value_and_problem
from modelzoo.errors import UsageError, WeightsError
from modelzoo.measure import sampler
from modelzoo.measure.clock import clock_for
from modelzoo.plan import Plan
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import Setting
from modelzoo.workload.declaration import InputRequest, Inputs, Workload

FAKE = "engines.fake_engine:FakeEngine"
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = np.ones((4, 3), dtype=np.float32)


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    """Opening a session sets the number of threads of this process."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def as_array(output: Any) -> Any:
    """A tensor of any type, or an array, as an fp32 array."""
    return output if isinstance(output, np.ndarray) else output.float().numpy()


def numpy_workload() -> Workload:
    """A linear layer as a numpy function."""

    def build(options: Any) -> Any:
        return lambda rows, *, weight: rows @ weight.T

    return Workload("toy", "a toy", "rows", build, lambda request: Inputs((ROWS,), ("row",) * 4))


def torch_workload() -> Workload:
    """The same layer as a torch module."""
    import torch

    def make_inputs(request: InputRequest) -> Inputs:
        return Inputs((torch.from_numpy(ROWS),), ("row",) * 4)

    return Workload("toy", "a toy", "rows", lambda options: torch.nn.Linear(3, 2, bias=False), make_inputs)


def prepared(name: str, folder: Path) -> tuple[Engine, Workload, Weights]:
    """An engine that has been loaded, with a workload and weights that it can read."""
    engine = create_engine(name)
    engine.load()
    if name == "torch":
        path = folder / "weights.safetensors"
        save_file({"weight": WEIGHT}, str(path))
        return engine, torch_workload(), Weights(WeightsKind.PATH, path.name, str(path), "")
    path = folder / "weights.npz"
    np.savez(path, weight=WEIGHT)
    return engine, numpy_workload(), Weights(WeightsKind.PATH, path.name, str(path), "")


@pytest.mark.parametrize("name", ["torch", FAKE])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_engine_runs_is_timed_and_predicts(name: str, precision: str, tmp_path: Path) -> None:
    """The steps of a measuring worker and of one side of a judgement, without a word about the framework."""
    engine, workload, weights = prepared(name, tmp_path)
    setting = Setting(precision)
    engine.check(setting)
    resolved = engine.resolve(setting, batch=4, threads=1)
    assert (resolved.batch, resolved.threads) == (4, 1)
    session = engine.open(resolved)
    with session.active() as switches:
        assert all(isinstance(switch, str) for switch in switches)
        with engine.explained_errors():
            inputs = workload.inputs(InputRequest(4, 0, None, {}))
            model = session.load(workload, weights, inputs)
        args = model.prepare(inputs.args)
        with model.explained_errors():
            timing = sampler.measure(lambda: model.call(*args), clock_for(session.device), Plan(1, 3))
        assert len(timing.steady) == 3
        assert model.counts(args, inputs.items) == ()
    with session.active():
        output = model.predict(*inputs.args)
    np.testing.assert_allclose(as_array(output), ROWS @ WEIGHT.T, rtol=0.02)


@pytest.mark.parametrize("name", ["torch", FAKE])
def test_two_sessions_take_turns_in_one_process(name: str, tmp_path: Path) -> None:
    """A judgement holds both models, and activates the setting of the one that it calls."""
    engine, workload, weights = prepared(name, tmp_path)
    tested = engine.resolve(Setting("bf16", "cast"), batch=4, threads=1)
    reference = engine.reference(tested)
    assert (reference.precision, reference.bf16_method) == ("fp32", None)
    inputs = workload.inputs(InputRequest(4, 0, None, {}))
    sides = []
    for setting in (reference, tested):
        session = engine.open(setting)
        with session.active():
            sides.append((session, session.load(workload, weights, inputs)))
    for _ in range(2):
        outputs = []
        for session, model in sides:
            with session.active():
                outputs.append(
                    np.asarray(model.predict(*inputs.args).float() if name == "torch" else model.predict(ROWS))
                )
        np.testing.assert_allclose(outputs[0], outputs[1], rtol=0.02)


@pytest.mark.parametrize("name", ["torch", FAKE])
def test_an_observation_is_a_value_or_a_reason(name: str, tmp_path: Path) -> None:
    """An engine that cannot prove its precision says why, in one line."""
    engine, workload, weights = prepared(name, tmp_path)
    session = engine.open(engine.resolve(Setting(), batch=4, threads=1))
    with session.active():
        inputs = workload.inputs(InputRequest(4, 0, None, {}))
        model = session.load(workload, weights, inputs)
        args = model.prepare(inputs.args)
        canary, problem = value_and_problem(session.canary())
        assert (canary is None) == (name == FAKE)
        evidence, problem = value_and_problem(model.audit(args, canary=canary))
        flops, flops_problem = value_and_problem(model.flops(args))
        profile, _ = value_and_problem(model.profile(args, evidence=evidence))
    if name == FAKE:
        assert (evidence, flops, profile) == (None, None, None)
        assert problem == "the fake engine has no kernel log, so its precision cannot be verified"
        return
    assert evidence is not None and flops is not None and profile is not None
    assert (problem, flops_problem) == (None, None)
    assert flops.total == 2 * 4 * 3 * 2
    assert evidence.requested == "fp32"


def test_an_unavailable_observation_has_a_reason() -> None:
    """The two are never mixed up, not even if the value is empty."""
    assert value_and_problem(Unavailable("no profiler")) == (None, "no profiler")
    assert value_and_problem(()) == ((), None)


@pytest.mark.parametrize("name", ["torch", FAKE])
def test_errors_of_a_call_name_workload_and_setting(name: str, tmp_path: Path) -> None:
    """Arguments that the model does not accept end in one line."""
    engine, workload, weights = prepared(name, tmp_path)
    session = engine.open(engine.resolve(Setting(), batch=4, threads=1))
    with session.active():
        inputs = workload.inputs(InputRequest(4, 0, None, {}))
        model = session.load(workload, weights, inputs)
        wrong = inputs.args[0][:, :2]
        with pytest.raises(UsageError, match="toy cannot run with fp32: "):
            model.predict(wrong)
        with pytest.raises(UsageError, match="toy cannot run with fp32: "), model.explained_errors():
            model.call(*model.prepare((wrong,)))


@pytest.mark.parametrize("name", ["torch", FAKE])
def test_weights_that_are_gone_are_an_error(name: str, tmp_path: Path) -> None:
    """The file may have been deleted since it was resolved."""
    engine, workload, weights = prepared(name, tmp_path)
    Path(weights.path).unlink()
    session = engine.open(engine.resolve(Setting(), batch=4, threads=1))
    with session.active(), pytest.raises(WeightsError):
        session.load(workload, weights, workload.inputs(InputRequest(4, 0, None, {})))


def test_an_engine_from_elsewhere_is_named_by_module_and_class() -> None:
    """Nothing is registered; a wrong name is one line."""
    assert create_engine(FAKE).name == "fake"
    with pytest.raises(UsageError, match="no engine .onnx.: use one of torch, .*, jittor, or module:class"):
        create_engine("onnx")
    with pytest.raises(UsageError, match="engine 'nowhere:Engine' cannot be loaded: No module named 'nowhere'"):
        create_engine("nowhere:Engine")
    with pytest.raises(UsageError, match="engine 'json:Engine' cannot be loaded: .*no attribute 'Engine'"):
        create_engine("json:Engine")


def test_creating_engines_imports_no_framework() -> None:
    """An engine is asked for variables before its libraries may be loaded."""
    code = (
        "import sys\nfrom modelzoo.engines import ENGINES, create_engine\n"
        "from modelzoo.setting import ResolvedSetting\n"
        "found = {name: create_engine(name).variables(ResolvedSetting(threads=3)) for name in ENGINES}\n"
        "assert {each['OMP_NUM_THREADS'] for each in found.values()} == {'3'}\n"
        "assert not {'torch', 'numpy', 'onnxruntime', 'openvino', 'jittor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
