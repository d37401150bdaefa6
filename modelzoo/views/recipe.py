"""The setting that a search found, in forms that can be used again: words for ``--setting``, and Python. Pure."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files

from modelzoo.frozen import replace
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.run import RunReport
from modelzoo.setting import ResolvedSetting, fields, option_name, value_text

_ASSIGNED = re.compile(r"([\w.]+)=(\w+)")
_CALLED = re.compile(r"([\w.]+)\((\w+)\)")
_EXPORTED = ("onnxruntime", "openvino")
"""Engines that run an exported model."""
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


def python(report: RunReport, said: str, script: str) -> str | None:
    """Return Python that runs a model like the process that was measured, to paste into a server.

    ``None`` if there is none for the engine or the recipe.

    Args:
        report: of one process of the setting.
        said: what is known of its speed, in a sentence.
        script: how the workload gets a graph (``Workload.script``).
    """
    setting, export = report.setting, report.prepared.export
    if setting.engine not in _EXPORTED and setting.engine != "torch":
        return None
    if setting.recipe == _PACKED or (setting.engine != "torch" and export is None):
        return None
    given = {
        "workload": report.workload,
        "words": words(explicit(report)),
        "said": said,
        "variables": " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables(report).items())),
        "setting": setting,
    }
    if export is None:
        linear = files("modelzoo.engines.torch").joinpath("linear.py").read_text().split('"""', 2)[2].strip()
        given |= {"switches": [switch(each) for each in report.switches], "linear": linear, "script": script}
    else:
        options = dict(each.split("=", 1) for each in report.switches if "=" in each)
        made = export.conversion
        opset = f", opset {made.opset}" if made.opset is not None else ""
        given |= {
            "options": list(options.items()),
            "providers": options.get("providers", "CPUExecutionProvider").split(","),
            "export": export,
            "exported": f"{made.exporter} ({made.version}{opset})",
        }
    return rendered(setting.engine, **given)


def rendered(name: str, **given: object) -> str:
    """Return the Python that a template writes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(  # the lines that are no Python are comments, so that a template reads as what it writes
        loader=PackageLoader("modelzoo.views"),
        block_start_string="# {%",
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    templates.filters["repr"] = repr
    return templates.get_template(f"{name}.py.jinja").render(given)


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
