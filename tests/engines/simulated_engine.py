"""The fake engine on a simulated accelerator: calls return at once, and the device does the work later.

``create_engine("engines.simulated_engine:SimulatedEngine")`` creates it if ``tests`` is on the path. A setting says
what goes wrong: with the seed N the device is lost after N pieces of work (0: never), and a batch of more than 64 items
does not fit its memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engines.fake_engine import FakeEngine, FakeModel, FakeSession
from simulated_device import SimulatedDevice

from modelzoo.engines.torch.devices import device_problem
from modelzoo.measure import sampler
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

ROOM = 64
"""Items that fit the device's memory."""


class SimulatedEngine(FakeEngine):
    """Has one device, ``cuda``."""

    name = "simulated"

    def check(self, setting: Setting) -> None:
        pass

    def open(self, setting: ResolvedSetting) -> SimulatedSession:
        return SimulatedSession(setting)


class SimulatedSession(FakeSession):
    """Lets the clock of this process be that of the device."""

    def __init__(self, setting: ResolvedSetting) -> None:
        super().__init__(setting)
        self.device = SimulatedDevice(lost_after=setting.seed or None, memory=ROOM)
        sampler.perf_counter_ns = self.device.stamp  # type: ignore[assignment]  # an ordinary function

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        try:
            yield ("simulated=True",)
        except RuntimeError as error:
            problem = device_problem(error, self._setting.device)
            if problem is None:
                raise
            raise problem from error

    def load(
        self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None
    ) -> SimulatedModel:
        self.device.allocate(self._setting.batch)
        return SimulatedModel(super().load(workload, weights, inputs), self.device)


class SimulatedModel(FakeModel):
    """Issues its work and returns."""

    def __init__(self, model: FakeModel, device: SimulatedDevice) -> None:
        compute = model.call
        super().__init__(model._workload, model._setting, lambda *args: device.launch(lambda: compute(*args)))
