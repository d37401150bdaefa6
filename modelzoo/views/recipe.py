"""The setting that a search found, in forms that can be used again: words for ``--setting``, and Python; and what was
found wrong, as a script.

The script is for a report to the library whose product is wrong, or ran in another precision than asked for. It needs
torch alone. It calls one operator under the settings of the process that was audited, compares it with fp64, prints the
error, and ends with exit code 1 if the result is not what it should be, and 0 if it is. Pure.
"""

from __future__ import annotations

import math
import re
import shlex
from importlib.resources import files

from modelzoo import __version__
from modelzoo.frozen import replace
from modelzoo.records.coverage import Argument, ProductCall
from modelzoo.records.evidence import Evidence, Product
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.run import Result, RunReport, SideReport
from modelzoo.setting import ResolvedSetting, fields, option_name, value_text
from modelzoo.views.kernel_tables import fault_text, kernel_text, layers_text

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


MOST = 5
"""Scripts of a result, each of another kernel or fault."""


def scripts(result: Result) -> dict[str, str]:
    """Return the scripts of a result, each with the end of the name of its file: ``_wrong_encoder.conv.py``."""
    reports: list[RunReport | SideReport | None] = [run.report for run in result.runs]
    for entry in result.validity:
        reports += [entry.report.tested, entry.report.reference] if entry.report is not None else []
    found: dict[str, str] = {}
    seen = set()
    for report in reports:
        evidence = report.observed.evidence if report is not None else None
        for product in evidence.products if evidence is not None else ():
            key = (product.operator, product.kernels, product.wrong.fault if product.wrong is not None else None)
            if evidence is None or product.call is None or key in seen or len(found) == MOST:
                continue
            seen.add(key)
            kind = "precision" if product.wrong is None else "wrong"
            name = re.sub(r"[^\w.-]", "_", product.layers[0] if product.layers else product.operator.split(":")[-1])
            ending = f"_{kind}_{name}.py"
            ending = f"_{kind}_{name}_{len(found)}.py" if ending in found else ending
            found[ending] = script(product, product.call, evidence, report)
    return found


def script(
    product: Product, call: ProductCall, evidence: Evidence, report: RunReport | SideReport | None = None
) -> str:
    """Return the script of one product.

    Args:
        product: what is wrong, or ran in another precision.
        call: how it is called.
        evidence: the audit that found it.
        report: of its process, whose threads, switches and environment variables the script sets.
    """
    other = f"{call.wanted} was asked for, and error {product.error or 0:.1e} shows {product.shown}"
    environment, switches = None, []
    if isinstance(report, RunReport):
        given = {**report.provenance.machine.environment, **variables(report)}
        removed = report.provenance.environment.removed.keys() - report.provenance.environment.applied.keys()
        environment = {
            name: each for name, each in sorted(given.items()) if name not in removed and "VERBOSE" not in name
        }
        switches = list(map(switch, report.switches))
    row = None
    if product.wrong is not None and product.wrong.fault == "other row" and call.rows is not None:
        row = (call.arguments[call.rows].shape or (0, 0))[-2] // 2
    # Of negative factors too, the sum of absolute values is wanted.
    factors = {each.name: each.value for each in call.arguments if each.name in ("alpha", "beta")}
    negative = {name: each for name, each in factors.items() if isinstance(each, (int, float)) and each < 0}
    return rendered(
        "reproducer",
        product=product,
        call=call,
        wrong=product.wrong,
        bound=f"{product.wrong.bound:.2e}" if product.wrong is not None else "",
        row=row,
        said=fault_text(product) or other,
        layers=layers_text(product),
        kernel=kernel_text(product),
        onednn=f"; oneDNN {evidence.onednn_version}" if evidence.onednn_version else "",
        version=__version__,
        variables=environment,
        threads=report.setting.threads if report is not None and report.setting is not None else None,
        switches=switches,
        place="" if call.device == "cpu" else f"{call.device!r}, ",
        by_place=", ".join(_argument(each) for each in call.arguments if not each.name),
        by_name=", ".join(f"{each.name!r}: {_argument(each)}" for each in call.arguments if each.name),
        raised=" + 2**-14" if any(each.dtype == "float16" for each in call.arguments) else "",
        positive="".join(f", {name}={abs(each)}" for name, each in negative.items()),
    )


def _argument(argument: Argument) -> str:
    if argument.shape is None:
        value = argument.value
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return repr(list(value)) if isinstance(value, tuple) else repr(value)
    dtype = f"torch.{argument.dtype}"
    if argument.seed is None:  # a mask that leaves everything
        return f"torch.{'ones' if argument.dtype == 'bool' else 'zeros'}({argument.shape}, dtype={dtype})"
    scale = "" if argument.scale == 1.0 else f", {argument.scale}"
    return f"noise({argument.seed}, {argument.shape}, {argument.strides}, {dtype}{scale})"
