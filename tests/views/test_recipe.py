"""What a search found, in forms that can be used again: words that are parsed back, and Python that runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_runs import WEIGHTS, changed, make
from msgspec.structs import asdict

from modelzoo.cli import app
from modelzoo.cli.selection import select_settings
from modelzoo.engines.export.engine import option_names
from modelzoo.engines.onnxruntime import session_options
from modelzoo.engines.openvino import compile_options
from modelzoo.engines.torch import switches
from modelzoo.records.run import EnvironmentChanges, RunReport
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.views import recipe

SAID = "1.9 times (1.8 to 2.0) the speed of the default, fp32"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """What a server would set for its whole life."""
    import torch._inductor.config as config

    threads, freezing = torch.get_num_threads(), config.freezing
    with switches.fast_math(False):
        yield
    torch.set_num_threads(threads)
    config.freezing = freezing


def report(setting: Setting, **changes: Any) -> RunReport:
    """The report of a process that ran ``setting``, with the switches that it would record."""
    with switches.applied(setting) as names:
        return make([0.1], setting=setting, **{"switches": names, **changes}).report


class Network(torch.nn.Module):
    """A convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


PICTURES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
COMPILED = [Setting(mode=mode) for mode in ("compile", "max-autotune", "cpp-wrapper", "aot")]


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(mode="script", channels_last=True),
        Setting("bf16", "autocast", mode="script"),
        Setting("bf16", "cast", channels_last=True),
        Setting("bf16", "fastmath"),
        Setting("int8", recipe="dynamic-x86"),
        Setting("int8", recipe="torchao"),
        Setting("int8", recipe="weight-only"),
        Setting(mode="script", linear="onednn"),
        *(pytest.param(setting, marks=pytest.mark.slow) for setting in COMPILED),
        pytest.param(Setting(mode="compile", linear="onednn"), marks=pytest.mark.slow),
        pytest.param(Setting("int8", recipe="static", mode="compile"), marks=pytest.mark.slow),
    ],
    ids=lambda setting: setting.label,
)
def test_the_python_runs_the_model(setting: Setting) -> None:
    """As it is, in a namespace of its own: it computes what the model does, in the precision of the setting."""
    if setting.recipe in ("torchao", "weight-only", "static"):
        pytest.importorskip("torchao", reason="torchao is not installed: pip install torchao==0.16.0")
    names: dict[str, Any] = {}
    exec(recipe.python(report(setting.replace(threads=1)), SAID, "trace") or "", names)
    run = names["optimized"](Network(), PICTURES)
    with torch.inference_mode():
        expected = Network().eval()(PICTURES)
    error = (run(PICTURES).float() - expected).abs().max()
    assert error < (1e-5 if setting.precision == "fp32" else 0.05)
    assert setting.precision != "int8" or error > 1e-5
    assert torch.get_num_threads() == 1


def test_the_python_of_fp16_is_in_fp16() -> None:
    """By the methods of bf16, with the other data type."""
    for method, line in (("cast", "model.to(torch.float16)"), ("autocast", "dtype=torch.float16")):
        text = str(recipe.python(report(Setting("fp16", method)), SAID, "trace"))
        assert (line in text, "bfloat16" in text) == (True, False)


def test_there_is_no_python_for_layers_of_the_suite() -> None:
    """torch has an operator for packed int8 weights, and no module; Jittor runs in an environment of its own."""
    for setting in (Setting("int8", recipe="weight-only-packed"), Setting(engine="jittor")):
        assert recipe.python(report(setting), SAID, "trace") is None


def test_the_python_names_every_field_and_variable() -> None:
    """The environment of the process too, with what was preloaded."""
    applied = EnvironmentChanges(applied={"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4"})
    setting = Setting(mode="compile", threads=2, batch=4, malloc="tcmalloc", thp="on", primitive_cache=0)
    text = recipe.python(report(setting, environment=applied), SAID, "trace")
    assert recipe.words(recipe.explicit(report(setting))) in text
    assert SAID in text
    variables = "LD_PRELOAD=/usr/lib/libtcmalloc.so.4 MKL_NUM_THREADS=2 OMP_NUM_THREADS=2"
    assert f"{variables} ONEDNN_PRIMITIVE_CACHE_CAPACITY=0" in text
    for line in ("torch.set_num_threads(2)", 'torch.backends.mkldnn.conv.fp32_precision = "ieee"', "batches of 4"):
        assert line in text
    assert "Transparent huge pages are on for the process: prctl(PR_SET_THP_DISABLE)." in text


@pytest.mark.parametrize(
    "setting",
    [
        ResolvedSetting(options={"width": 256, "depth": 8}),
        ResolvedSetting(precision="bf16", bf16_method="cast", batch=3, channels_last=True, malloc="glibc", thp="off"),
        ResolvedSetting(mode="aot", backend="onednn", threads=2, seed=7, primitive_cache=0, weights="random"),
    ],
    ids=lambda setting: setting.label,
)
def test_words_are_parsed_back_to_the_same_setting(setting: ResolvedSetting, tmp_path: Path) -> None:
    """Also from the settings file, whose comment is ignored."""
    found = changed(report(setting), setting=setting)
    (tmp_path / "best.setting").write_text(recipe.settings_file(found, SAID))
    for given in (recipe.words(setting), f"@{tmp_path / 'best.setting'}"):
        args = app.make_parser().parse_args(["run", "examples/mlp", "--setting", given])
        ((work, (parsed,)),) = select_settings(args, "fp32")
        expected = {**asdict(setting), "options": work.option_values(setting.options)}
        kind = WEIGHTS.kind.value if given.startswith("@") and setting.weights == "auto" else setting.weights
        assert asdict(parsed) == {**expected, "weights": kind}


def test_a_path_with_blanks_is_quoted() -> None:
    """As a shell would need it."""
    assert "input='/my photos/cat.jpg'" in recipe.words(ResolvedSetting(input="/my photos/cat.jpg"))


def test_switches_become_statements() -> None:
    """Older versions of torch have other ones; what is unknown stays visible."""
    switches = ("torch.set_float32_matmul_precision(medium)", "torch.backends.mkldnn.enabled=False", "something else")
    lines = str(recipe.python(report(Setting(), switches=switches), SAID, "trace")).splitlines()
    assert 'torch.set_float32_matmul_precision("medium")' in lines
    assert "torch.backends.mkldnn.set_flags(False)" in lines
    assert "# something else" in lines


ROWS = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


def network() -> torch.nn.Module:
    """A linear layer."""
    torch.manual_seed(0)
    return torch.nn.Linear(3, 4).eval()


def exported(engine: str, directory: Path, switches: tuple[str, ...]) -> RunReport:
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
    text = recipe.python(exported("onnxruntime", tmp_path, switches), "1.5 times", "trace")
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
    text = recipe.python(exported("openvino", tmp_path, switches), "1.5 times", "trace")
    check(text, lambda optimized: optimized(ROWS.numpy())(ROWS.numpy()))
    assert '"INFERENCE_PRECISION_HINT": "f32",' in str(text)
