"""``modelzoo doctor``: this machine's limits, and every condition that may distort a result."""

from __future__ import annotations

import argparse
import json
import os
import time
from contextlib import suppress

from rich.console import Console

from modelzoo.cli.files import STDOUT, output_file, print_document, print_text, write_output
from modelzoo.document import terminal
from modelzoo.engines.torch import devices, switches
from modelzoo.engines.torch.switches import check_precision
from modelzoo.errors import ModelzooError
from modelzoo.frozen import replace
from modelzoo.machine.ceilings import PRECISIONS, find_ceilings, measure_ceilings, measure_device_ceilings
from modelzoo.machine.diagnosis import diagnose, probe_page_faults, probe_torchvision
from modelzoo.machine.environment import FAST_MATH_VARIABLES
from modelzoo.machine.facts import read_machine
from modelzoo.machine.installation import import_torch, read_libraries, supported_threads
from modelzoo.machine.sensors import CpuUsageMonitor
from modelzoo.records.codec import encode
from modelzoo.records.profile import AcceleratorReport, DoctorReport
from modelzoo.setting import Setting
from modelzoo.views.circumstances import document, progress_text

WATCH_SECONDS = 2.0
"""How long the CPU usage of other programs is measured."""


def doctor(args: argparse.Namespace) -> int:
    """Run ``modelzoo doctor``; return the exit code, which is 0 even if there are warnings.

    It takes about 40 s, or 5 s if the ceilings of this machine are known and ``--fresh`` is not given.

    Raises:
        EnvironmentProblem: torch cannot be imported, or the device cannot be used.
        UsageError: the file named by ``-o`` cannot be written, or there is no such kind of device.
    """
    target = output_file(args.output or None)
    out = terminal.console()
    machine = read_machine()
    # Before torch is imported, so that the fp32 ceilings are really those of fp32.
    for name in FAST_MATH_VARIABLES:
        os.environ.pop(name, None)
    import_torch()
    devices.check_device(args.device)
    with out.status("measuring the CPU usage of other programs …"):
        monitor = CpuUsageMonitor()
        time.sleep(WATCH_SECONDS)
        usage = monitor.stop()
    ceilings, kept = None, False
    if machine.emulator is None:
        with out.status("measuring …") as status, switches.fast_math(False):
            ceilings, kept = find_ceilings(
                machine,
                lambda: measure_ceilings(
                    supported_threads(machine.threads.count),
                    machine,
                    progress=lambda series: status.update(progress_text(series)),
                ),
                fresh=args.fresh,
            )
    libraries = read_libraries()
    warnings = tuple(diagnose(machine, libraries, usage, ceilings, probe_page_faults(), probe_torchvision()))
    report = DoctorReport(machine, libraries, usage, ceilings, kept, warnings)
    if args.device != "cpu":
        report = replace(report, accelerator=examine_device(out, args.device, report, args.fresh))
    content = json.dumps(encode(report), indent=1)
    if args.output == STDOUT:
        terminal.show(document(report), out)
        print_text(content)
        return 0
    print_document(document(report))
    if target is not None:
        write_output(target, content)
    return 0


def examine_device(out: Console, name: str, report: DoctorReport, fresh: bool) -> AcceleratorReport:
    """Examine an accelerator: what it is, and its ceilings in every precision that it has.

    Args:
        name: as ``--device`` has it.
        report: what was found out about its host.
        fresh: measure even if its ceilings are known.

    Raises:
        EnvironmentProblem: there is no such device.
        UsageError: there is no such kind of device.
    """
    device = devices.select_device(name)
    assert device is not None
    facts = device.describe()
    precisions = []
    for each in PRECISIONS:
        with suppress(ModelzooError):
            check_precision(Setting(each, device=name))
            precisions.append(each)
    with out.status(f"measuring {facts.name} …") as status:
        ceilings, kept = find_ceilings(
            report.machine,
            lambda: measure_device_ceilings(
                device.synchronize,
                facts,
                report.machine,
                lambda precision: switches.fast_math(False, tf32=precision == "tf32"),
                precisions,
                name=name,
                progress=lambda series: status.update(progress_text(series)),
            ),
            facts,
            fresh=fresh,
        )
    return AcceleratorReport(facts, ceilings, kept)
