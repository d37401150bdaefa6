"""A product that is wrong, or that ran in another precision than asked for, as a script for a report to its library.

The script needs torch alone. It calls one operator under the settings of the process that was audited, compares it with
fp64, prints the error, and ends with exit code 1 if the result is not what it should be, and 0 if it is. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from modelzoo.records.evidence import Evidence, Product
from modelzoo.records.faults import Argument, Fault, ProductCall
from modelzoo.records.run import Result, RunReport, SideReport
from modelzoo.version import __version__
from modelzoo.views import recipe
from modelzoo.views.products import fault_text, kernel_text, layers_text

MOST = 5
"""Scripts of a result, each of another kernel or fault."""


def scripts(result: Result) -> dict[str, str]:
    """Return the scripts of a result, each with the end of the name of its file: ``_wrong_encoder.conv.py``."""
    found: dict[str, str] = {}
    seen = set()
    for report, evidence in _audits(result):
        for product in evidence.products:
            key = (product.operator, product.kernels, product.wrong.fault if product.wrong is not None else None)
            if product.call is None or key in seen or len(found) == MOST:
                continue
            seen.add(key)
            kind = "precision" if product.wrong is None else "wrong"
            name = re.sub(r"[^\w.-]", "_", product.layers[0] if product.layers else product.operator.split(":")[-1])
            ending = f"_{kind}_{name}.py"
            ending = f"_{kind}_{name}_{len(found)}.py" if ending in found else ending
            found[ending] = script(product, product.call, evidence, report)
    return found


def _audits(result: Result) -> Iterator[tuple[RunReport | SideReport, Evidence]]:
    """The audits of the processes, and those of the models that were judged."""
    reports = [run.report for run in result.runs if run.report is not None]
    judged = [entry.report for entry in result.validity if entry.report is not None]
    sides = [side for each in judged for side in (each.tested, each.reference)]
    for report in (*reports, *sides):
        if report is not None and report.observed.evidence is not None:
            yield report, report.observed.evidence


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
    said = (
        fault_text(product) or f"{call.wanted} was asked for, and error {product.error or 0:.1e} shows {product.shown}"
    )
    onednn = f"; oneDNN {evidence.onednn_version}" if evidence.onednn_version else ""
    return "\n".join(
        [
            f'"""{product.operator} in {layers_text(product)}: {said}.',
            "",
            f"Kernel: {kernel_text(product)}{onednn}. Written by modelzoo {__version__}. Exit code 1: it is still so.",
            '"""',
            *_environment(report),
            *_operands(call),
            *_checks(product, call),
            "",
        ]
    )


def _environment(report: RunReport | SideReport | None) -> list[str]:
    found = ["import os", "import sys", ""]
    if isinstance(report, RunReport):
        given = {**report.provenance.machine.environment, **recipe.variables(report)}
        removed = report.provenance.environment.removed.keys() - report.provenance.environment.applied.keys()
        given = {name: each for name, each in sorted(given.items()) if name not in removed and "VERBOSE" not in name}
        found.append(f"os.environ.update({given!r})  # before torch is imported")
    setting = report.setting if report is not None else None
    found += ["import torch", ""]
    found += [f"torch.set_num_threads({setting.threads})"] if setting is not None and setting.threads else []
    return found + (list(map(recipe.switch, report.switches)) if isinstance(report, RunReport) else [])


def _operands(call: ProductCall) -> list[str]:
    operator = f"torch.ops.{call.operator}"
    by_place = ", ".join(_literal(each) for each in call.arguments if not each.name)
    named = ", ".join(f"{each.name!r}: {_literal(each)}" for each in call.arguments if each.name)
    place = "" if call.device == "cpu" else f"{call.device!r}, "
    return [
        "",
        "def noise(seed, shape, strides, dtype, scale=1.0):",
        "    size = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides))",
        "    block = torch.randn(65537, generator=torch.Generator().manual_seed(seed)) * scale",
        f"    return block.repeat(size // 65537 + 1)[:size].to({place}dtype).as_strided(shape, strides)",
        "",
        f"args, named = [{by_place}], {{{named}}}",
        "",
        "def call(change, **more):",
        "    changed = lambda x: change(x) if torch.is_tensor(x) and x.is_floating_point() else x",
        "    given = {**{name: changed(x) for name, x in named.items()}, **more}",
        f"    output = {operator}(*map(changed, args), **given)",
        "    return (output[0] if isinstance(output, tuple) else output).double()",
        "",
    ]


def _literal(argument: Argument) -> str:
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


def _checks(product: Product, call: ProductCall) -> list[str]:
    """What is compared, printed and returned."""
    wrong = product.wrong
    if wrong is not None and wrong.fault is Fault.OTHER_ROW and call.rows is not None:
        shape = call.arguments[call.rows].shape or (0, 0)
        row = shape[-2] // 2
        return [
            f"args[{call.rows}].select(-2, {row}).fill_(float('nan'))  # of one row, and no other may be NaN",
            "wrong = call(lambda x: x).isnan()",
            f"wrong.select(-2, {row}).logical_not_()",
            'print(f"{int(wrong.any(-1).sum())} rows are wrong: {wrong.any(-1).nonzero().tolist()}")',
            "sys.exit(bool(wrong.any()))",
        ]
    compared = ["found, exact = call(lambda x: x), call(lambda x: x.double())"]
    error = "((found - exact).pow(2).mean().sqrt() / exact.pow(2).mean().sqrt()).item()"
    if wrong is None:
        return [
            *compared,
            f"error = {error}",
            f'print(f"relative error {{error:.1e}}; {call.wanted} has {call.least:.0e} to {call.below:.1e}")',
            f"sys.exit(not {call.least} <= error < {call.below})",
        ]
    if call.factors:
        # Of negative factors too, the sum of absolute values is wanted.
        named = {each.name: each.value for each in call.arguments if each.name in ("alpha", "beta")}
        negative = {name: each for name, each in named.items() if isinstance(each, (int, float)) and each < 0}
        more = "".join(f", {name}={abs(each)}" for name, each in negative.items())
        raised = " + 2**-14" if any(each.dtype == "float16" for each in call.arguments) else ""
        size = f"call(lambda x: x.double().abs(){raised}{more})"
    else:
        size = "exact.pow(2).mean(-1, keepdim=True).sqrt().maximum(exact.abs())"
    return [
        *compared,
        f"size = {size}  # an error of {wrong.bound:.2e} of it is rounding",
        f"wrong = ((found - exact).abs() > {wrong.bound} * size) | (found.isfinite() != exact.isfinite())",
        f'print(f"{{int(wrong.sum())}} of {{wrong.numel()}} outputs are wrong; relative error {{{error}:.1e}}")',
        "sys.exit(bool(wrong.any()))",
    ]
