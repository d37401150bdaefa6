"""The setting that a search found, in forms that can be used again: words for ``--setting``, and Python. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Callable, Optional

from modelzoo.frozen import replace
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.run import RunReport
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, fields, option_name, value_text

_ASSIGNED = re.compile(r"([\w.]+)=(\w+)")
_CALLED = re.compile(r"([\w.]+)\((\w+)\)")
_TORCHAO = {"torchao": "Int8DynamicActivationInt8WeightConfig", "weight-only": "Int8WeightOnlyConfig"}
_PACKED = "weight-only-packed"
"""The suite's own layers, for which torch has an operator and no module."""


def explicit(report: RunReport) -> ResolvedSetting:
    """The setting of a process, with the kind of weights that ``auto`` turned out to be."""
    setting, kind = report.setting, report.prepared.weights.kind
    return setting if setting.weights != "auto" else replace(setting, weights=kind.value)


def words(setting: ResolvedSetting) -> str:
    """Return ``setting`` as ``--setting`` takes it: every field that has a value, and the workload's own options.

    >>> words(ResolvedSetting(mode="compile", threads=2))[:56]
    'precision=fp32 mode=compile backend=auto device=cpu batc'
    """
    given = [(name, getattr(setting, name)) for name in fields()]
    found = {option_name(name): value_text(value) for name, value in given if value is not None}
    found.update({name: str(value) for name, value in setting.options.items() if value is not None})
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in found.items())


def settings_file(report: RunReport, said: str) -> str:
    """The content of a file for ``--setting @FILE``, with a comment that says what it is."""
    return f"# {report.workload}: {said}\n{words(explicit(report))}\n"


def variables(report: RunReport) -> dict[str, str]:
    """The environment variables that a process needs from its start to run like the one that was measured."""
    found = dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(report.setting.threads))
    if report.setting.primitive_cache is not None:
        found["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = str(report.setting.primitive_cache)
    return {**found, **report.provenance.environment.applied}


def python(report: RunReport, said: str, script: str) -> Optional[str]:
    """Return Python that runs a model like the process that was measured, to paste into a server.

    ``None`` if there is none for the engine or the recipe.

    Args:
        report: of one process of the setting.
        said: what is known of its speed, in a sentence.
        script: how the workload gets a graph (``Workload.script``).
    """
    setting = report.setting
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables(report).items()))
    head = [f'"""Run {report.workload} as \'modelzoo tune\' found it: {words(explicit(report))}', "", said]
    if setting.thp != "default":
        head += ["", f"Transparent huge pages are {setting.thp} for the process: prctl(PR_SET_THP_DISABLE)."]
    head += ["", "Start the process with these environment variables:", "", f"    {given}", '"""', ""]
    if setting.engine != "torch":
        own = lines(report)
        return None if own is None else "\n".join([*head, *own, ""])
    return "\n".join([*head, *_torch(report, script), ""]) if setting.recipe != _PACKED else None


def _torch(report: RunReport, script: str) -> list[str]:
    setting = report.setting
    has_own_linear = setting.linear == "onednn"
    return [
        *(_linear_module() if has_own_linear else ["import torch"]),
        *(["import torch._inductor.config"] if setting.mode not in ("eager", "script") else []),
        "",
        f"torch.set_num_threads({setting.threads})",
        *map(switch, report.switches),
        "",
        "",
        "def converted(value):",
        '    """Convert arguments to the device, data type and memory format of the model."""',
        "    if isinstance(value, (list, tuple)):",
        "        return type(value)(converted(each) for each in value)",
        "    if not isinstance(value, torch.Tensor):",
        "        return value",
        f"    value = value.to({setting.device!r})",
        *(
            ["    value = value.to(torch.bfloat16) if value.is_floating_point() else value"]
            if setting.bf16_method == "cast"
            else []
        ),
        *(
            ["    return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value"]
            if setting.channels_last
            else ["    return value"]
        ),
        "",
        "",
        "def optimized(model, *example):",
        f'    """Return what runs ``model`` on arguments of the shapes of ``example``: batches of {setting.batch}."""',
        f"    model = model.eval().to({setting.device!r})",
        *(["    model = model.to(torch.bfloat16)"] if setting.bf16_method == "cast" else []),
        *(["    model = model.to(memory_format=torch.channels_last)"] if setting.channels_last else []),
        *(["    model = with_onednn_linear(model)"] if has_own_linear else []),
        *_quantizing(setting),
        *_mode_lines(setting, script),
        "",
        "    def call(*args):",
        f"        with torch.inference_mode(){_autocast(setting)}:",
        "            return run(*converted(args))",
        "",
        "    for _ in range(2):  # compiles, and specializes to the shapes",
        "        call(*example)",
        "    return call",
    ]


def _quantizing(setting: ResolvedSetting) -> Sequence[str]:
    """What quantizes the model of ``modelzoo.engines.torch.quantization``."""
    if setting.recipe in _TORCHAO:
        config = _TORCHAO[setting.recipe]
        return [
            f"    from torchao.quantization import {config}, quantize_",
            "",
            f"    config = {config}(set_inductor_config=False, version=2)",
            "    quantize_(model, config, filter_fn=lambda module, name: type(module) is torch.nn.Linear)",
        ]
    if setting.recipe == "static":
        return [
            "    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e",
            "    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86",
            "",
            "    with torch.no_grad():",
            "        graph = torch.export.export(model, converted(example), strict=True).module()",
            "        quantizer = x86.X86InductorQuantizer()",
            "        quantizer.set_global(x86.get_default_x86_inductor_quantization_config())",
            "        model = prepare_pt2e(graph, quantizer)",
            "        # The ranges were taken from other batches: use several of your own inputs, and judge the result.",
            "        for batch in [example]:",
            "            model(*converted(batch))",
            "        model = convert_pt2e(model)",
        ]
    if setting.recipe is not None:  # dynamic, by the engine that torch.backends.quantized.engine selects above
        return ["    model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)"]
    return []


def _linear_module() -> list[str]:
    """The module that packs Linear layers, as the suite runs it, without its docstring."""
    text = files("modelzoo.engines.torch").joinpath("linear.py").read_text()
    return text.split('"""', 2)[2].strip().splitlines()


def _mode_lines(setting: ResolvedSetting, script: str) -> Sequence[str]:
    frozen = "    torch._inductor.config.freezing = True"
    if setting.mode == "compile":
        return [frozen, "    run = torch.compile(model)"]
    if setting.mode == "max-autotune":
        return [frozen, '    run = torch.compile(model, mode="max-autotune-no-cudagraphs")']
    if setting.mode == "cpp-wrapper":
        return [frozen, '    run = torch.compile(model, options={"cpp_wrapper": True})']
    if setting.mode == "aot":
        return [
            f"    with torch.no_grad(){_autocast(setting)}:",
            "        program = torch.export.export(model, converted(example), strict=False)",
            '        package = torch._inductor.aoti_compile_and_package(program, inductor_configs={"freezing": True})',
            "    run = torch._inductor.aoti_load_package(package)",
        ]
    if setting.mode == "script":
        made = "torch.jit.script(model)"
        if script != "script":
            made = "torch.jit.trace(model, converted(example), strict=False, check_trace=False)"
        return [
            f"    with torch.inference_mode(){_autocast(setting, cached=False)}:",
            f"        run = torch.jit.optimize_for_inference(torch.jit.freeze({made}))",
        ]
    return ["    run = model"]


def _autocast(setting: ResolvedSetting, *, cached: bool = True) -> str:
    if setting.bf16_method != "autocast":
        return ""
    cache = "" if cached else ", cache_enabled=False"
    return f", torch.autocast({setting.device.split(':')[0]!r}, dtype=torch.bfloat16{cache})"


def switch(text: str) -> str:
    """A switch as it was recorded, as a statement: ``torch.backends.mkldnn.conv.fp32_precision = "ieee"``."""
    assigned, called = _ASSIGNED.fullmatch(text), _CALLED.fullmatch(text)
    if assigned and assigned[1] == "torch.backends.mkldnn.enabled":
        return f"torch.backends.mkldnn.set_flags({assigned[2]})"
    if assigned:
        return f"{assigned[1]} = {_literal(assigned[2])}"
    return f"{called[1]}({_literal(called[2])})" if called else f"# {text}"


def _literal(text: str) -> str:
    return text if text in ("True", "False") or text.isdigit() else f'"{text}"'


_ENUMERATIONS = {"execution_mode": "ExecutionMode", "graph_optimization_level": "GraphOptimizationLevel"}
"""Attributes of ONNX Runtime's session options whose values are enumerators, with their types."""


def lines(report: RunReport) -> Optional[list[str]]:
    """Return the lines, which need nothing of this suite; ``None`` if there are none for the engine."""
    write = _ENGINES.get(report.setting.engine)
    return write(report, report.prepared.export) if write is not None and report.prepared.export is not None else None


def _onnxruntime(report: RunReport, export: Export) -> list[str]:
    pairs = _pairs(report.switches)
    providers = pairs.pop("providers", "CPUExecutionProvider").split(",")
    options = []
    for name, value in pairs.items():
        if "." in name:
            options.append(f'options.add_session_config_entry("{name}", "{value}")')
        else:
            kind = _ENUMERATIONS.get(name)
            options.append(f"options.{name} = {f'onnxruntime.{kind}.{value}' if kind else value}")
    return [
        "import onnxruntime",
        "",
        "options = onnxruntime.SessionOptions()",
        *options,
        "",
        "",
        f"def optimized(path={f'{export.path}/model.onnx'!r}):",
        *_docstring(report, export, "model.onnx and weights.bin"),
        f"    session = onnxruntime.InferenceSession(path, options, providers={providers!r})",
        "    names = [each.name for each in session.get_inputs()]",
        "",
        "    def call(*arrays):",
        "        return session.run(None, dict(zip(names, arrays)))",
        "",
        "    return call",
    ]


def _openvino(report: RunReport, export: Export) -> list[str]:
    return [
        "import openvino",
        "",
        "OPTIONS = {",
        *(f'    "{name}": "{value}",' for name, value in _pairs(report.switches).items()),
        "}",
        "",
        "",
        f"def optimized(*example, path={f'{export.path}/model.xml'!r}):",
        *_docstring(
            report, export, "model.xml and model.bin", "    ``example``: arrays of the shapes that are to come."
        ),
        "    core = openvino.Core()",
        "    model = core.read_model(path)",
        "    model.reshape({i: openvino.PartialShape(list(each.shape)) for i, each in enumerate(example)})",
        '    request = core.compile_model(model, "CPU", OPTIONS).create_infer_request()',
        "",
        "    def call(*arrays):",
        "        request.infer(list(arrays), share_inputs=True, share_outputs=True)",
        "        # The next call overwrites them: copy what is kept.",
        "        return [each.data for each in request.output_tensors]",
        "",
        "    return call",
    ]


def _docstring(report: RunReport, export: Export, files: str, more: str = "") -> list[str]:
    conversion = export.conversion
    opset = f", opset {conversion.opset}" if conversion.opset is not None else ""
    return [
        '    """Return what runs the exported model on numpy arrays in the order of its inputs, in batches of '
        f"{report.setting.batch}.",
        "",
        *([f"    {more}", ""] if more else []),
        f"    {conversion.exporter} ({conversion.version}{opset}) made {files} with {conversion.options}.",
        f"    SHA-256 of the state of the torch module: {export.state_sha256}",
        '    """',
    ]


def _pairs(switches: Sequence[str]) -> dict[str, str]:
    """The options as recorded: ``NAME=VALUE``."""
    return dict(each.split("=", 1) for each in switches if "=" in each)


_ENGINES: dict[str, Callable[[RunReport, Export], list[str]]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
