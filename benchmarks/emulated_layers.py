"""Is the precision of each layer on ARM what its own error shows? On emulated processors, where nothing is timed.

    .venv/bin/python benchmarks/emulated_layers.py DIRECTORY [--image modelzoo:torch2.10.0_acl_modelzoo]

The networks of ``tests/docker/layers`` run in fp32 and in bf16 on a Neoverse N2, V1 and N1, with oneDNN and the Compute
Library and with OpenBLAS: on pictures of 64 × 64 pixels, and on N2 with oneDNN of 224 × 224. Every distinct product of
a pass is called again and compared with fp64. The claim: every product is called again, and its error shows the
precision of the kernel that was logged or, if the operands are narrower than fp32, that of the operands.

The result of each case is kept in DIRECTORY, and a case that is there is not run again: a case takes minutes, all of
them hours, and a call that was interrupted goes on where it ended. Use another DIRECTORY for another image.
EfficientNet-Lite0 and SSDLite come from ``models/`` in the directory that ``MODELZOO_TEST_DATA`` names. A Docker engine
is needed that can run images for arm64 (``scripts/container-engine start`` starts one).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import parser_of

from modelzoo.errors import ModelzooError
from modelzoo.records.evidence import Product
from modelzoo.records.run import Run
from modelzoo.results import store
from modelzoo.workload.discovery import CHECKOUT

NETWORKS = ("transposed", "efficientnet_lite0", "ssdlite", "resnext50")
PROCESSORS = ("neoverse-n2", "neoverse-v1", "neoverse-n1")
LARGE, SMALL = 224, 64
BACKENDS = ("onednn", "blas")
PRECISIONS = ("fp32", "bf16")
DIFFERENT = "different"


@dataclass(frozen=True)
class Case:
    """A network on an emulated processor, with a library for its products."""

    processor: str
    backend: str
    network: str

    @property
    def name(self) -> str:
        return f"{self.processor}-{self.backend}-{self.network}"

    @property
    def size(self) -> int:
        """Pixels of each side of a picture."""
        return LARGE if (self.processor, self.backend) == (PROCESSORS[0], BACKENDS[0]) else SMALL

    def command(self, image: str, directory: Path, data: Path) -> list[str]:
        """The call of docker that runs it, in both precisions."""
        mounts = {directory: "/out", CHECKOUT / "tests/docker": "/networks:ro", data / "models": "/shared/models:ro"}
        variables = {"QEMU_CPU": self.processor, "MODELZOO_BACKEND": self.backend, "MODELZOO_TEST_DATA": "/shared"}
        options = [f"--option=network={self.network}", f"--option=size={self.size}"]
        return [
            *("docker", "run", "--rm", "--platform=linux/arm64", "--user=0"),
            *(f"--volume={source}:{target}" for source, target in mounts.items()),
            *(f"--env={key}={value}" for key, value in variables.items()),
            *(image, "run", "/networks/layers", *options, "--weights=random"),
            *(f"--precision={','.join(PRECISIONS)}", f"--output=/out/{self.name}.part.json"),
        ]


def run(case: Case, image: str, directory: Path, data: Path) -> str:
    """Run a case unless its result is there; return what went wrong, or nothing."""
    kept, part = directory / f"{case.name}.json", directory / f"{case.name}.part.json"
    if kept.is_file():
        return ""
    part.unlink(missing_ok=True)
    done = subprocess.run(case.command(image, directory, data), capture_output=True, text=True, check=False)
    if done.returncode == 0 and len(runs(part)) == len(PRECISIONS):
        part.rename(kept)
        return ""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def runs(path: Path) -> list[Run]:
    """The runs of a result that were audited."""
    try:
        found = store.read(path).runs
    except ModelzooError:
        return []
    return [each for each in found if each.report is not None and each.report.observed.evidence is not None]


def judged(product: Product) -> str:
    """What the sources say of a product: the kernel that was logged, the error, and the types of its operands."""
    if product.shown is None:
        return f"not called again ({product.not_replayed})"
    # Whether operands of bf16 are multiplied as such, no error can tell; it is no larger for all that.
    expected = product.operands if product.operands != "fp32" else product.logged
    if expected is None:
        return f"{product.shown} by the error alone"
    return "equal" if product.shown == expected else DIFFERENT


def rows(directory: Path, case: Case) -> Iterator[tuple[str, Counter[str], list[Product]]]:
    """For each precision of a case: the verdict, how many products are judged how, and those that differ."""
    for each in runs(directory / f"{case.name}.json"):
        assert each.report is not None and each.report.observed.evidence is not None
        evidence = each.report.observed.evidence
        differ = [product for product in evidence.products if judged(product) == DIFFERENT]
        title = f"{each.requested.precision} by {evidence.bf16_method or 'default'}"
        yield f"{title}: {evidence.verdict.value}", Counter(map(judged, evidence.products)), differ


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("directory", type=Path, help="where the results of the cases are kept")
    parser.add_argument("--image", default="modelzoo:torch2.10.0_acl_modelzoo")
    parser.add_argument("--processors", nargs="+", choices=PROCESSORS, default=list(PROCESSORS))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    args = parser.parse_args()
    directory = args.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ.get("MODELZOO_TEST_DATA") or CHECKOUT.parent / "shared").resolve()
    if not (data / "models").is_dir():
        parser.error(f"{data} holds no models: set MODELZOO_TEST_DATA to a directory that holds them")
    holds = True
    for processor in args.processors:
        for case in (Case(processor, backend, name) for name in args.networks for backend in args.backends):
            problem = run(case, args.image, directory, data)
            if problem:
                holds = False
                print(f"{case.name}: not run: {problem}", flush=True)
            for title, counts, differ in rows(directory, case):
                said = ", ".join(f"{count} {what}" for what, count in counts.most_common())
                print(f"{case.name}, {title}; products: {said or 'none'}", flush=True)
                holds = holds and bool(counts) and not any(what.startswith("not called") for what in counts)
                for each in differ:
                    holds = False
                    said = f"{each.logged or each.operands}, but its error shows {each.shown}"
                    print(f"  {each.operator} {each.shapes}: {said}; {each.kernels}", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
