"""Is int8 faster, did it run, and is it still right? Prints what docs/quantization.md sums up.

For each workload, one ``modelzoo run --validate`` with all recipes, interleaved with fp32, which is their baseline. The
results are kept in a directory; ``--replay`` prints the table of kept ones again.

    .venv/bin/python benchmarks/quantization.py [bert resnet50 …] [--processes N] [--max-seconds S] [-o DIRECTORY]
    .venv/bin/python benchmarks/quantization.py bert --weights bert=DIRECTORY --data bert=dev.json
    .venv/bin/python benchmarks/quantization.py --replay results/quantization/*.json

Without ``--weights``, they are random, and accuracy is not judged. The exit code is 1 if a setting failed or was not
verified.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from modelzoo.document import Column, markdown  # noqa: E402 (the suite is found first)
from modelzoo.results import store, summary  # noqa: E402
from modelzoo.results.summary import SummaryRow  # noqa: E402
from modelzoo.views.details import weight_size  # noqa: E402
from modelzoo.views.intervals import interval, ratio  # noqa: E402
from modelzoo.views.judgement import validity_text  # noqa: E402
from modelzoo.views.results_table import ran_in  # noqa: E402

ONNX_RUNTIME = "engine=onnxruntime"
OF_PICTURES = (
    "precision=fp32 mode=compile",
    "precision=int8 recipe=static mode=compile",
    f"precision=fp32 {ONNX_RUNTIME}",
    f"precision=int8 recipe=static {ONNX_RUNTIME}",
)
OF_DETECTORS = ("precision=fp32", f"precision=fp32 {ONNX_RUNTIME}", f"precision=int8 recipe=static {ONNX_RUNTIME}")
SETTINGS = {
    "resnet50": OF_PICTURES,
    "ssd": OF_DETECTORS,
    "maskrcnn": OF_DETECTORS,
    "bert": (
        "precision=fp32 linear=onednn",
        "precision=bf16",
        "precision=int8 recipe=torchao",
        "precision=int8 recipe=dynamic-x86",
        "precision=int8 recipe=dynamic-onednn",
        "precision=int8 recipe=static mode=compile",
        f"precision=fp32 {ONNX_RUNTIME}",
        f"precision=int8 recipe=dynamic-per-tensor {ONNX_RUNTIME}",
        f"precision=int8 recipe=dynamic-per-channel {ONNX_RUNTIME}",
    ),
}
"""The settings of each workload, the baseline first; other workloads have those of resnet50. torch's other recipes
quantize no convolution, and torch.export captures no detector of torchvision. BERT's baseline is oneDNN's Linear: MKL's
is slower on AMD's CPUs, which would flatter int8."""


def command(args: argparse.Namespace, workload: str, file: Path) -> list[str]:
    """What measures one workload."""
    given = ["run", workload, "--validate", "--weights", args.weights.get(workload, "random"), "-o", str(file)]
    given += ["--artifacts", str(args.output / "artifacts")]
    if workload in args.data:
        given += ["--data", args.data[workload]]
    for name in ("processes", "max_seconds", "limit"):
        if getattr(args, name) is not None:
            given += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    for setting in args.setting or SETTINGS.get(workload, OF_PICTURES):
        given += ["--setting", setting]
    return [sys.executable, "-m", "modelzoo", *given]


def verified(row: SummaryRow) -> str:
    """What ran, with its share of the arithmetic."""
    evidence = row.first.observed.evidence if row.first is not None else None
    share = evidence.arithmetic_share if evidence is not None else None
    said = ran_in(row) + (" (reference kernels)" if row.used_reference_kernels else "")
    return said if share is None else f"{said}, {math.floor(100 * share)} % of the arithmetic"


def accuracy(row: SummaryRow) -> str:
    """The verdict on its predictions."""
    return validity_text(row.judged) if row.judged is not None else "not judged"


def columns(rows: Sequence[SummaryRow]) -> list[Column]:
    """The table, one row per workload and setting."""
    speeds = [row.speed for row in rows]
    return [
        Column("workload", tuple(row.workload for row in rows)),
        Column("setting", tuple(row.label for row in rows)),
        Column("latency", tuple(interval(row.latency) if row.latency else "failed" for row in rows), True),
        Column("speedup [95 % CI]", tuple(ratio(each.ratio) if each else "baseline" for each in speeds), True),
        Column("verdict", tuple(str(each.verdict.outcome) if each else "" for each in speeds)),
        Column("ran in", tuple(map(verified, rows))),
        Column("weights", tuple(weight_size(row) or "unknown" for row in rows), True),
        Column("accuracy", tuple(map(accuracy, rows))),
    ]


def pair(text: str) -> tuple[str, str]:
    """The type of an option that gives a workload something: ``bert=DIRECTORY``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not WORKLOAD=VALUE")
    return name, value


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"name or directory (default: {', '.join(SETTINGS)})"
    )
    parser.add_argument("--setting", action="append", help="measure these settings; the first is the baseline")
    parser.add_argument("--weights", type=pair, action="append", default=[], metavar="WORKLOAD=SOURCE")
    parser.add_argument("--data", type=pair, action="append", default=[], metavar="WORKLOAD=PATH")
    parser.add_argument("--limit", type=int, help="judge at most this many items")
    parser.add_argument("--processes", type=int, help="per setting (default: as many as ±5 %% takes)")
    parser.add_argument("--max-seconds", type=float, help="of sampling per process")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "quantization", metavar="DIRECTORY")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="print the table of these results")
    args = parser.parse_args(argv)
    args.weights, args.data = dict(args.weights), dict(args.data)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table; return the exit code."""
    args = arguments(argv)
    files = args.replay or []
    for workload in [] if args.replay else args.workloads or SETTINGS:
        args.output.mkdir(parents=True, exist_ok=True)
        files.append(args.output / f"{Path(workload).name}.json")
        files[-1].unlink(missing_ok=True)
        subprocess.run(command(args, workload, files[-1]), cwd=ROOT, stdout=sys.stderr, check=False)
    rows = [row for file in files if file.exists() for row in summary.rows(store.read(file))]
    print(markdown.table(columns(rows)))
    is_complete = bool(rows) and all(file.exists() for file in files)
    return 0 if is_complete and all(row.latency and row.is_verified for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
