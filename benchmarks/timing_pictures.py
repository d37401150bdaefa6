"""Draw the pictures of docs/timing.md and print its figures.

    .venv/bin/python benchmarks/timing_pictures.py [--output docs/pictures]

An asynchronous device is simulated (tests/simulated_device.py) and timed by the code that times real ones, so the
pictures and figures about it are the same everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import common  # puts the checkout on the path

sys.path.insert(1, str(Path(common.__file__).resolve().parents[1] / "tests"))

from simulated_device import MILLISECOND, OnDevice, SimulatedDevice  # type: ignore[import-not-found]  # of the tests

from modelzoo.document import theme
from modelzoo.measure import pipeline, sampler
from modelzoo.measure.pipeline import Step, events_for, steps_of
from modelzoo.records.timing import Place
from modelzoo.views.plots import GROUND, Plot
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stage, Stages
from modelzoo.workload.discovery import CHECKOUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Time lines: bars on lanes, with marks at certain times

WIDTH, ROW = 720.0, 30.0
"""In CSS pixels."""
CHARACTERS = 96
"""Of a text that is as wide as the lanes."""
STYLES = {
    "host": (theme.ORANGE, "////"),
    "issue": (theme.ORANGE, ""),
    "device": (theme.SKY, ""),
    "wait": (theme.GREY, ""),
}
"""Colour and hatch by kind: work of the host, issuing work to the device, work of the device, waiting for it."""


@dataclass(frozen=True)
class Bar:
    """Something that takes time on a lane; ``start`` and ``end`` in milliseconds."""

    lane: str
    kind: str
    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Lanes:
    """One time line: its lanes from top to bottom, what happens on them, and moments with a name."""

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    moments: tuple[tuple[str, float], ...] = ()

    @property
    def end(self) -> float:
        """When the last bar ends."""
        return max(bar.end for bar in self.bars)


def write(path: Path, lines: Sequence[Lanes], title: str, description: str) -> None:
    """Draw time lines one below the other, on one axis, as an SVG file."""
    Plot(title, description, (), partial(_draw_all, lines), WIDTH).write(path)


def _draw_all(lines: Sequence[Lanes], figure: Figure) -> float:
    heights = [len(each.lanes) for each in lines]
    every = figure.subplots(len(lines), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for each, axes in zip(lines, every):
        axes.set_xlim(0, max(line.end for line in lines))
        axes.set_ylim(len(each.lanes), 0)
        axes.set_yticks([index + 0.5 for index in range(len(each.lanes))], each.lanes)
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.set_title(each.title, fontweight="bold", pad=18 if each.moments else 6)
        _draw(axes, each)
    every[-1].set_xlabel("ms")
    return ROW * sum(heights)


def _draw(axes: Axes, line: Lanes) -> None:
    for bar in line.bars:
        colour, hatch = STYLES[bar.kind]
        row, share = line.lanes.index(bar.lane), (bar.end - bar.start) / axes.get_xlim()[1]
        axes.barh(row + 0.5, bar.end - bar.start, 0.76, left=bar.start, color=colour, hatch=hatch, ec=theme.PAGE, lw=1)
        if len(bar.text) < CHARACTERS * share:
            text = axes.text((bar.start + bar.end) / 2, row + 0.5, bar.text, ha="center", va="center_baseline")
            text.set_bbox(GROUND if hatch else None)
    for name, at in line.moments:
        axes.axvline(at, color=theme.INK, lw=1, ls=(0, (2, 2)))
        above = axes.annotate(name, (at, 0), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom")
        above.set_fontweight("bold")


# The simulated device

ISSUE = 3
"""Milliseconds of the host to issue a stage of the device."""
HOST, DEVICE = "host", "device"


@dataclass(frozen=True)
class Pass:
    """One pass of the simulated pipeline: its bars, its seconds, and those of each stage as they were timed."""

    bars: tuple[Bar, ...]
    milliseconds: float
    stages: dict[str, float]


def simulated_pipeline(device: SimulatedDevice) -> tuple[Step, ...]:
    """Decode on the host; resize, model and paste on the device; answer on the host."""

    stages = Stages(
        source=None,
        items=("picture",),
        before=(
            Stage("decode", device.on_host(6, lambda value: OnDevice(device))),
            Stage("resize", device.launching(5, lambda value: ModelInput((value,)), ISSUE), DEVICE),
        ),
        after=(
            Stage("paste", device.launching(7, lambda made: made.output, ISSUE), DEVICE),
            Stage("answer", device.on_host(4, lambda value: "done")),
        ),
    )
    model = device.launching(20, lambda made: ModelOutput(made.args[0]), ISSUE)
    return steps_of(stages, model, device, "simulated")


def timed_pass(*, by_events: bool, synchronized: bool = False) -> Pass:
    """Run one pass on a new simulated device.

    Args:
        by_events: whether stages of the device are timed by events, or by the host's clock around their calls.
        synchronized: whether the host waits for the device after every stage.
    """
    device = SimulatedDevice()
    bars: list[Bar] = []

    def milliseconds() -> float:
        return float((device.now - began) / MILLISECOND)

    def watched(step: Step) -> Step:
        def call(value: Any) -> Any:
            start = milliseconds()
            output = step.call(value)
            is_host = step.place is Place.HOST
            kind = "host" if is_host else "wait" if step.name == "copy to host" else "issue"
            bars.append(Bar(HOST, kind, step.name if is_host else kind, start, milliseconds()))
            issued = milliseconds()
            if synchronized:
                pipeline.wait(device)
            if milliseconds() > issued:
                bars.append(Bar(HOST, "wait", "wait", issued, milliseconds()))
            return output

        return Step(step.name, call, step.place, step.by_events and by_events)

    with mock.patch.object(pipeline, "perf_counter_ns", device.stamp):
        steps = [watched(step) for step in simulated_pipeline(device)]
        events = events_for(steps, device)
        began = pipeline.wait(device)
        seconds, spans = pipeline.timed_pass(steps, None, device, events)
    on_device = [Bar(DEVICE, "device", step.name, 1e3 * a, 1e3 * b) for step, a, b in spans if step.by_events]
    stages = {step.name: 1e3 * (end - start) for step, start, end in spans}
    return Pass((*bars, *on_device), 1e3 * seconds, stages)


def spans_of_a_call() -> tuple[Lanes, sampler.Times]:
    """One call of a model whose work takes the device 20 ms and the host 5 ms to issue."""
    device = SimulatedDevice()

    def call() -> None:
        for _ in range(5):
            device.launch(issue=MILLISECOND, takes=4 * MILLISECOND)

    with mock.patch.object(sampler, "perf_counter_ns", device.stamp):
        sample = sampler.clock_for(device)(call)
    a, b, c = 0.0, 1e3 * sample["issue"], 1e3 * sample["latency"]
    bars = [Bar(HOST, "issue", "issue", a, b), Bar(HOST, "wait", "synchronize", b, c)]
    bars += [Bar(DEVICE, "device", f"kernel {n + 1}", 1 + 4 * n, 5 + 4 * n) for n in range(5)]
    moments = (("A D", a), ("B", b), ("C E", c))
    return Lanes(
        "One call: D is recorded at A, and E when the last kernel has ended", (HOST, DEVICE), tuple(bars), moments
    ), sample


def print_stages(title: str, found: Pass) -> None:
    """Print the stages of a pass."""
    stages = ", ".join(f"{name} {value:.0f}" for name, value in found.stages.items())
    print(f"{title}: end to end {found.milliseconds:.0f} ms; {stages}; sum {sum(found.stages.values()):.0f}")


def draw(output: Path) -> None:
    """Write the pictures to ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    line, sample = spans_of_a_call()
    print(
        f"spans: issue {1e3 * sample['issue']:.0f} ms, synchronized {1e3 * sample['latency']:.0f} ms, "
        f"device {1e3 * sample['device']:.0f} ms"
    )
    write(output / "spans.svg", [line], "The spans of one call", "The host issues five kernels and waits for them.")
    passes = {
        "events, read at the end": timed_pass(by_events=True),
        "a synchronization after each stage": timed_pass(by_events=True, synchronized=True),
    }
    for title, each in passes.items():
        print_stages(title, each)
    print_stages("the host's clock, without events", timed_pass(by_events=False))
    lines = [Lanes(f"{title}: {e.milliseconds:.0f} ms", (HOST, DEVICE), e.bars) for title, e in passes.items()]
    write(output / "stages.svg", lines, "A pipeline with and without synchronization", "Stages on host and device.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw all pictures."""
    parser = common.parser_of(__doc__)
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "pictures")
    draw(parser.parse_args(arguments).output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
