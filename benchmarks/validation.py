"""What judging costs beside the models: the whole path's pictures per second against the bare models', and memory.

    .venv/bin/python benchmarks/validation.py [--pictures 200] [--batches 1,8]

Speed: ResNet50 in fp32 beside bf16. A is the whole path (read, decode, resize, both models, figures, report),
B both models alone on as many batches of the same size; blocks alternate A B, B A. The claim: A reaches at least
0.85 of B's pictures per second. Memory: the peak of a fresh process that judges 1,000 pictures is within 10 %
of one that judges 100. The pictures are distinct crops of a photograph, saved as JPEG in ImageNet's usual size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from modelzoo import stats
from modelzoo.engines.torch.bf16_method import resolve_bf16_method
from modelzoo.machine import limits
from modelzoo.setting import Setting
from modelzoo.validity import Side, ValidityRequest, judge
from modelzoo.validity import sides as validation
from modelzoo.validity.items import builtin_items
from modelzoo.workload import discovery
from modelzoo.workload.declaration import InputRequest, Workload
from modelzoo.workload.weights import resolve_weights

SIZE = (500, 375)
FLOOR = 0.85
GROWTH = 1.10


def make_pictures(folder: Path, count: int) -> None:
    """Write ``count`` distinct JPEGs of 500 × 375 pixels into ``folder/pictures``."""
    (folder / "pictures").mkdir()
    for number, item in enumerate(builtin_items(count, 0, 0.3)):
        item.read().image.resize(SIZE).save(folder / "pictures" / f"{number:04}.jpg", quality=90)


def make_sides(batch: int) -> tuple[Workload, Side, Side, Any]:
    """ResNet50 with random weights in fp32 and bf16, and the tensors of one batch."""
    import torch

    work = discovery.load_workload(discovery.find_workload("resnet50"))
    threads = limits.usable_threads().count
    torch.set_num_threads(threads)
    weights = resolve_weights(work, {}, "random", 0)
    with torch.inference_mode():
        inputs = work.inputs(InputRequest(batch, 0, None, {}))
    fp32 = Setting(batch=batch, threads=threads)
    bf16 = fp32.replace(precision="bf16")
    has_onednn = torch.backends.mkldnn.is_available()
    method = resolve_bf16_method(bf16, architecture=platform.machine(), has_onednn=has_onednn)
    bf16 = bf16.replace(bf16_method=method)
    with torch.inference_mode():
        sides = [validation.make_side(work, each, weights, inputs, each.label)[0] for each in (fp32, bf16)]
    return work, sides[0], sides[1], inputs.args


def whole(work: Workload, sides: tuple[Side, Side], folder: Path, count: int, batch: int) -> float:
    """Seconds that judging ``count`` pictures takes."""
    request = ValidityRequest(
        folder / "output", data=folder / "pictures", limit=count, batch=batch, weights_are_random=True
    )
    started = perf_counter()
    judge(work.name, work.judge, *sides, request)
    return perf_counter() - started


def bare(sides: tuple[Side, Side], args: Any, count: int, batch: int) -> float:
    """Seconds that both models take for ``count`` pictures that are ready."""
    import torch

    started = perf_counter()
    for _ in range(-(-count // batch)):
        for side in sides:
            with torch.no_grad(), side.active():
                side.call(*args)
    return perf_counter() - started


def speed(folder: Path, count: int, batch: int, blocks: int) -> bool:
    """Print the ratio; True where the claim holds."""
    import torch

    work, *both, args = make_sides(batch)
    sides = (both[0], both[1])
    with torch.inference_mode():
        bare(sides, args, 4 * batch, batch)
        times: tuple[list[list[float]], list[list[float]]] = ([], [])
        for block in range(blocks):
            for which in (0, 1) if block % 2 == 0 else (1, 0):
                taken = whole(work, sides, folder, count, batch) if which else bare(sides, args, count, batch)
                times[which].append([taken])
    found = stats.ratio_interval(*times, paired=True)
    holds = found.value >= FLOOR
    print(
        f"batch {batch}: whole path / bare models = {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] of the "
        f"pictures per second, {count / median([t[0] for t in times[1]]):.1f} pictures/s, over {blocks} pairs "
        f"of blocks: {'holds' if holds else 'DOES NOT HOLD'}",
        flush=True,
    )
    return holds


def peak(folder: Path, count: int) -> int:
    """Peak resident bytes of a fresh process that judges ``count`` pictures."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_judge_alone, (folder, count))


def _judge_alone(folder: Path, count: int) -> int:
    import torch

    work, reference, tested, _ = make_sides(8)
    with torch.inference_mode():
        whole(work, (reference, tested), folder, count, 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(folder: Path) -> bool:
    """Print both peaks; True where the claim holds."""
    few, many = peak(folder, 100), peak(folder, 1000)
    holds = many <= GROWTH * few
    print(
        f"peak memory: {many / 2**20:.0f} MiB with 1,000 pictures, {few / 2**20:.0f} MiB with 100, ratio "
        f"{many / few:.3f}: {'holds' if holds else 'DOES NOT HOLD'}"
    )
    return holds


def main() -> int:
    """Print the figures; exit code 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_pictures(folder, args.pictures if args.no_memory else max(args.pictures, 1000))
        batches = [] if args.no_speed else [int(batch) for batch in args.batches.split(",")]
        claims = [speed(folder, args.pictures, batch, args.blocks) for batch in batches]
        claims += [] if args.no_memory else [memory(folder)]
    return 0 if all(claims) else 1


if __name__ == "__main__":
    sys.exit(main())
