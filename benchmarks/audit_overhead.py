"""Does an audit affect the samples that are timed after it, and how long do its replays take?

    .venv/bin/python benchmarks/audit_overhead.py
    .venv/bin/python benchmarks/audit_overhead.py --rows replays --workloads resnet50 ssd maskrcnn bert

Rows "after": a run audits only after its last sample. Here audits with replays take place between the blocks of one
process, so that anything an audit left switched on would show. The claim: a ratio of 1.00 ± 0.005.

Rows "replays": what an audit with replays takes more than one without: the products that are called again, and the
passes that nobody observes. Only the first process of a setting does that. The claim: at most 10 s for each workload,
in fp32 and bf16. This bound is in seconds, and other work on the machine counts against it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from common import BLOCK, Claim, compare_alternating, compared, conclude, parser_of, ready_model, sampled

from modelzoo.engines.protocol import Model
from modelzoo.records.evidence import Evidence
from modelzoo.setting import Setting
from modelzoo.workload import discovery

MOST_SECONDS = 10.0
PRECISIONS = ("fp32", "bf16")


def audit(model: Model, args: tuple[Any, ...], *, replay: bool) -> tuple[Evidence, float]:
    """Return what an audit of one pass found, and the seconds that it took."""
    began = time.perf_counter()
    found = model.audit(args, canary=None, replay=replay)
    assert isinstance(found, Evidence), found
    return found, time.perf_counter() - began


def compare(name: str, count: int, blocks: int) -> Claim:
    """Alternate blocks after an audit with blocks without one."""
    with ready_model(name) as (model, args):

        def timed() -> list[float]:
            sampled(lambda: model.call(*args), count)  # both sides return to the steady state the same way
            return sampled(lambda: model.call(*args), count)

        def audited() -> list[float]:
            audit(model, args, replay=True)
            return timed()

        timed()
        found = compare_alternating(blocks, audited, timed)
    return compared(name, "after an audit / without", found, blocks)


def time_replays(name: str, precision: str) -> Claim:
    """Time what replays take."""
    with ready_model(name, Setting(precision=precision)) as (model, args):
        began = time.perf_counter()
        model.call(*args)
        seconds = time.perf_counter() - began
        _, without = audit(model, args, replay=False)
        found, with_replays = audit(model, args, replay=True)
    replayed = sum(each.not_replayed is None for each in found.products)
    more = with_replays - without
    took = f"first pass {seconds:.2f} s, {found.replay_seconds or 0.0:.1f} s for"
    return Claim(
        f"{name} {precision}: {more:.1f} s more ({took} {replayed} of {len(found.products)} products), at most "
        f"{MOST_SECONDS:g} s",
        more <= MOST_SECONDS,
    )


def main() -> int:
    """Print ratios and seconds; the exit code is 1 if a claim does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", choices=("after", "replays"), help="default: both")
    parser.add_argument("--blocks", type=int, default=200, help="pairs of blocks of the rows 'after' (default: 200)")
    names = discovery.STANDARD_WORKLOADS
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, help="of the rows 'replays'")
    args = parser.parse_args()
    claims = []
    if args.rows != "replays":
        claims += [compare(name, count, args.blocks) for name, count in BLOCK.items()]
    if args.rows != "after":
        claims += [time_replays(name, precision) for name in args.workloads for precision in PRECISIONS]
    return conclude(claims)


if __name__ == "__main__":
    sys.exit(main())
