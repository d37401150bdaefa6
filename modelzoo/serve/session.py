"""The instances of one repeat: started, calibrated, given to the generator, and asked what they ran."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from modelzoo.frozen import replace
from modelzoo.machine.linux import read_throttling
from modelzoo.measure.jobs import OnEvent, Request
from modelzoo.records.load import GeneratorPlace, Load, LoadSession
from modelzoo.records.protocol import Preparation
from modelzoo.records.run import now
from modelzoo.records.serving import InstanceReport, Ready
from modelzoo.records.throughput import InstancePlace
from modelzoo.serve.places import settled
from modelzoo.serve.runs import calibrate
from modelzoo.serve.search import CalibratedInstances
from modelzoo.serve.servers import ProcessServer, looks_of, start_instance
from modelzoo.setting import Setting


class Deployment(msgspec.Struct, frozen=True):
    """What is run, and where.

    Attributes:
        request: the workload with its only setting.
        prepared: the setting as resolved.
        places: the CPUs of each instance.
        generator: those of the generator.
        on_event: called with the progress of the first instance.
    """

    request: Request
    prepared: Preparation
    places: tuple[InstancePlace, ...]
    generator: GeneratorPlace
    on_event: OnEvent


def fixed_size(setting: Setting, batch: int) -> int | None:
    """The only batch size that an instance of ``setting`` with this ``batch`` can run; ``None``: it runs any.

    A torch module in eager mode runs whatever it is given. What was compiled, traced, captured or exported has the
    shapes of the setting's batch, so smaller batches are padded to it.
    """
    return None if setting.engine == "torch" and setting.mode == "eager" else batch


@contextmanager
def open_session(
    site: Deployment, load: Load, repeat: int, on_end: Callable[[LoadSession], None], *, extras: bool
) -> Iterator[CalibratedInstances]:
    """Start all instances, calibrate them, and yield them; when the block ends, they report and end.

    Args:
        site: what is run, and where.
        load: what was asked for.
        repeat: its number.
        on_end: called with the reports of the instances; not if the block failed.
        extras: have the first instance audit itself in full and report everything.

    Raises:
        ModelzooError: an instance cannot be started.
        WorkerError: one died.
    """
    batch = load.plan.batch
    sizes = tuple(range(1, batch)) if load.fixed_size is None else ()
    with ExitStack() as stack:
        watch = stack.enter_context(select.epoll())
        instances = [
            stack.enter_context(
                start_instance(
                    site.request, 0, site.prepared, place, site.on_event, repeat, sizes=sizes, is_first=number == 0
                )
            )
            for number, place in enumerate(site.places)
        ]
        started = now()
        for each in instances:
            each.wait(Ready)
        place = stack.enter_context(settled(site.generator))
        server = ProcessServer(instances, load.fixed_size, watch, polls=place.polls)
        calibration = calibrate(server, batch)
        cpus = tuple(place.cpus for place in site.places)
        session = LoadSession(repeat, started, cpus, place, calibration)
        yield CalibratedInstances(server, session, read_throttling)
        for number, each in enumerate(instances):
            each.send("finish", looks_of(site.request, number, extras=extras), last=True)
        on_end(replace(session, reports=tuple(each.wait(InstanceReport) for each in instances)))
