"""Find out what this machine and this installation lack of what a search may try. torch is not imported."""

from __future__ import annotations

import os

from modelzoo.engines.jittor import environment as jittor
from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import huge_pages
from modelzoo.machine.allocator import LIBRARIES, find_library
from modelzoo.machine.installation import installed_version
from modelzoo.machine.linux import allowed_cpus
from modelzoo.records.machine import Machine
from modelzoo.setting import Setting
from modelzoo.tuning.grid import Conditions

PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino"}
"""The package that each engine needs in this environment."""


def read_conditions(machine: Machine, base: Setting) -> Conditions:
    """Return what is missing here, each with its reason.

    What takes torch to find out, such as a mode that it lacks, is refused when the settings are prepared.
    """
    missing: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            find_library(name)
        except EnvironmentProblem as problem:
            missing[f"malloc={name}"] = _reason(problem)
    try:
        huge_pages.require_huge_pages(huge_pages.system_mode(), machine.allocator)
    except EnvironmentProblem as problem:
        missing["thp=on"] = _reason(problem)
    if not machine.has_bf16 and base.precision == "fp32" and base.device == "cpu":
        missing["precision=bf16"] = "this CPU has no instructions for bf16"
    for name, package in PACKAGES.items():
        if installed_version(package) is None:
            missing[f"engine={name}"] = f"it is not installed: pip install 'modelzoo[{name}]'"
    try:
        jittor.interpreter()
    except EnvironmentProblem as problem:
        missing["engine=jittor"] = _reason(problem)
    return Conditions(machine.threads.count, len(allowed_cpus() or range(os.cpu_count() or 1)), missing)


def _reason(problem: EnvironmentProblem) -> str:
    """The message without the option that it begins with, which stands before it anyway."""
    option, colon, reason = str(problem).partition(": ")
    return reason if colon and "=" in option else str(problem)
