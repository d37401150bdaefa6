"""What does judging cost besides the models? The throughput of the whole path, and its memory.

    .venv/bin/python benchmarks/validation.py [--images 200] [--batches 1,8]

Speed: ResNet50, fp32 next to bf16. A is the whole path (read, decode, resize, both models, metrics, report), B is both
models alone on the same number of batches; blocks alternate A B, B A. The claim: A reaches at least 0.85 of B's images
per second. Memory: the peak of a new process that judges 1,000 images is within 10 % of one that judges 100. The
images are distinct crops of a photograph, saved as JPEG in ImageNet's usual size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from common import compare_alternating

from modelzoo.engines import create_engine
from modelzoo.machine.cpu import usable_threads
from modelzoo.setting import Setting
from modelzoo.validity import Predictor, ValidityRequest
from modelzoo.validity.judging import bind, compare, conclude
from modelzoo.validity.picture_sets import builtin_crops
from modelzoo.validity.protocol import TaskContext
from modelzoo.workload import InputRequest, Workload
from modelzoo.workload.discovery import find_workload, load_workload
from modelzoo.workload.weights import resolve_weights

SIZE = (500, 375)
MIN_RATIO = 0.85
MAX_GROWTH = 1.10
MEMORY_BATCH = 8


def make_images(folder: Path, count: int) -> None:
    """Write ``count`` distinct JPEGs of 500 × 375 pixels into ``folder/images``."""
    (folder / "images").mkdir()
    for number, item in enumerate(builtin_crops(count, 0, 0.3)):
        item.read().image.resize(SIZE).save(folder / "images" / f"{number:04}.jpg", quality=90)


def make_predictors(batch: int) -> tuple[Workload, tuple[Predictor, Predictor], tuple[Any, ...]]:
    """Create ResNet50 with random weights in fp32 and bf16, and the arguments for one batch."""
    engine = create_engine()
    engine.load()
    workload = load_workload(find_workload("resnet50"))
    weights = resolve_weights(workload, {}, "random", 0)
    inputs = workload.inputs(InputRequest(batch, 0, None, {}))
    predictors = []
    for precision in ("fp32", "bf16"):
        setting = engine.resolve(Setting(precision), batch=batch, threads=usable_threads().count)
        session = engine.open(setting)
        with session.active():
            model = session.load(workload, weights, inputs)
        predictors.append(Predictor(setting.label, model.predict, precision, model.module, session.active))
    return workload, (predictors[0], predictors[1]), inputs.args


def judge_images(
    workload: Workload, predictors: tuple[Predictor, Predictor], folder: Path, count: int, batch: int
) -> float:
    """Judge ``count`` images; return seconds."""
    import torch

    request = ValidityRequest(data=str(folder / "images"), limit=count, batch=batch, weights_are_random=True)
    assert workload.judge is not None
    started = perf_counter()
    with torch.inference_mode():
        task = bind(workload.judge({}), TaskContext(workload.name, request))
        conclude(task, compare(task, *predictors))
    return perf_counter() - started


def run_models(predictors: tuple[Predictor, Predictor], args: tuple[Any, ...], count: int, batch: int) -> float:
    """Run both models on as many prepared batches as ``count`` images make; return seconds."""
    started = perf_counter()
    for _ in range(-(-count // batch)):
        for predictor in predictors:
            with predictor.active():
                predictor.call(*args)
    return perf_counter() - started


def check_speed(folder: Path, count: int, batch: int, blocks: int) -> bool:
    """Print the ratio; return whether the claim holds."""
    workload, predictors, args = make_predictors(batch)
    run_models(predictors, args, 4 * batch, batch)
    judging: list[float] = []

    def judged() -> list[float]:
        judging.append(judge_images(workload, predictors, folder, count, batch))
        return judging[-1:]

    found = compare_alternating(blocks, lambda: [run_models(predictors, args, count, batch)], judged)
    holds = found.value >= MIN_RATIO
    print(
        f"batch {batch}: whole path / models alone = {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] in images "
        f"per second, {count / median(judging):.1f} images/s, over {blocks} pairs of blocks: "
        f"{'holds' if holds else 'DOES NOT HOLD'}",
        flush=True,
    )
    return holds


def peak_memory(folder: Path, count: int) -> int:
    """Judge ``count`` images in a new process; return its peak resident memory in bytes."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_judge_alone, (folder, count))


def _judge_alone(folder: Path, count: int) -> int:
    workload, predictors, _ = make_predictors(MEMORY_BATCH)
    judge_images(workload, predictors, folder, count, MEMORY_BATCH)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check_memory(folder: Path) -> bool:
    """Print both peaks; return whether the claim holds."""
    few, many = peak_memory(folder, 100), peak_memory(folder, 1000)
    holds = many <= MAX_GROWTH * few
    print(
        f"peak memory: {many / 2**20:.0f} MiB with 1,000 images, {few / 2**20:.0f} MiB with 100, ratio "
        f"{many / few:.3f}: {'holds' if holds else 'DOES NOT HOLD'}"
    )
    return holds


def main() -> int:
    """Print the figures; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_images(folder, args.images if args.no_memory else max(args.images, 1000))
        batches = [] if args.no_speed else [int(batch) for batch in args.batches.split(",")]
        claims = [check_speed(folder, args.images, batch, args.blocks) for batch in batches]
        claims += [] if args.no_memory else [check_memory(folder)]
    return 0 if all(claims) else 1


if __name__ == "__main__":
    sys.exit(main())
