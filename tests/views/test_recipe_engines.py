"""Python that runs an exported model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_runs import make

from modelzoo.engines.export.engine import option_names
from modelzoo.engines.onnxruntime.engine import session_options
from modelzoo.engines.openvino.engine import compile_options
from modelzoo.records.run import RunReport
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.views import recipe

ROWS = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


def network() -> torch.nn.Module:
    """A linear layer."""
    torch.manual_seed(0)
    return torch.nn.Linear(3, 4).eval()


def report(engine: str, directory: Path, switches: tuple[str, ...]) -> RunReport:
    """The report of a process that ran an exported model."""
    export = Export(str(directory), "b", Conversion("an exporter", "1.0", 17, {"dynamo": False}), "0123", "4567")
    return make([0.1], setting=Setting(engine=engine, threads=1), switches=switches, export=export).report


def check(text: str | None, call: Callable[[Any], Any]) -> None:
    """Run the Python in a namespace of its own: ``call`` of its function gives what the network does."""
    names: dict[str, Any] = {}
    exec(str(text), names)
    (found,) = call(names["optimized"])
    torch.testing.assert_close(torch.from_numpy(found), network()(ROWS).detach())


def test_onnxruntime_runs_the_exported_model(tmp_path: Path) -> None:
    """With every option of the session that was measured."""
    pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that traces is deprecated, and the fastest
        torch.onnx.export(network(), (ROWS,), str(tmp_path / "model.onnx"), dynamo=False)
    switches = option_names(session_options(ResolvedSetting(engine="onnxruntime", threads=1)))
    text = recipe.python(report("onnxruntime", tmp_path, switches), "1.5 times", "trace")
    check(text, lambda optimized: optimized()(ROWS.numpy()))
    assert "options.intra_op_num_threads = 1" in str(text)
    assert 'options.add_session_config_entry("session.intra_op.allow_spinning", "0")' in str(text)


def test_openvino_runs_the_exported_model(tmp_path: Path) -> None:
    """With every option that it was compiled with, the precision above all."""
    openvino = pytest.importorskip("openvino")
    decoder = pytest.importorskip("openvino.frontend.pytorch.ts_decoder").TorchScriptPythonDecoder(
        network(), example_input=(ROWS,)
    )
    frontend = openvino.frontend.FrontEndManager().load_by_framework("pytorch")
    openvino.save_model(frontend.convert(frontend.load(decoder)), tmp_path / "model.xml", compress_to_fp16=False)
    switches = option_names(compile_options(ResolvedSetting(engine="openvino", threads=1)))
    text = recipe.python(report("openvino", tmp_path, switches), "1.5 times", "trace")
    check(text, lambda optimized: optimized(ROWS.numpy())(ROWS.numpy()))
    assert '"INFERENCE_PRECISION_HINT": "f32",' in str(text)
