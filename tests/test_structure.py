"""The layout of the package and of its tests."""

from __future__ import annotations

import pytest
from places import ROOT

PACKAGE = ROOT / "modelzoo"
MODULES = sorted(
    path.relative_to(PACKAGE).with_suffix("").as_posix()
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)
TESTED_ELSEWHERE = {
    "cli/fleet_throughput": "under torchrun, in cli/test_fleet.py; what it compares, in fleet/test_kinds.py",
    "cli/run": "through the command line, in cli/test_app.py",
    "cli/validate": "through the command line, in validity/test_commands.py and cli/test_app.py",
    "comparison/model": "plain data: comparison/test_compare.py makes every record",
    "comparison/stage_row": "plain data: comparison/test_stages.py makes it",
    "engines/jittor/server": "in Jittor's environment, by engines/jittor/test_engine.py",
    "engines/jittor/warmup": "in Jittor's environment, by scripts/setup-jittor",
    "fleet/collector": "with members in threads, in fleet/test_sharding.py and fleet/test_gathering.py",
    "fleet/meeting": "with members in threads, in fleet/test_sharding.py and fleet/test_gathering.py",
    "fleet/member": "with members in threads, in fleet/test_sharding.py",
    "fleet/shard_files": "with members in threads, in fleet/test_sharding.py",
    "fleet/validation": "with members in threads, in fleet/test_sharding.py",
    "load/server": "declares interfaces only",
    "measure/calls": "in worker processes, by measure/test_rounds.py and measure/test_other_engine.py",
    "measure/loading": "in measure/test_measurement.py and measure/test_instance.py",
    "measure/observing": "in measure/test_measurement.py and measure/test_instance.py",
    "measure/reporting": "in measure/test_measurement.py and measure/test_instance.py",
    "measure/request": "plain data and a filter of messages: measure/test_rounds.py",
    "measure/shard_judgement": "in worker processes, by measure/test_shard_calls.py",
    "records/bounds": "plain data: cli/test_bounds.py makes it",
    "records/design": "plain data: records/test_codec.py converts every record",
    "records/exhibits": "plain data: records/test_codec.py converts every record",
    "records/export": "plain data: engines/export/test_store.py stores and reads it",
    "records/fleet": "plain data: fleet/test_store.py and fleet/test_sharding.py send every message",
    "records/history": "plain data: machine/test_history.py stores and reads it",
    "records/hosts": "plain data: fleet/test_kinds.py makes every record",
    "records/instance": "plain data: measure/test_instance.py makes every record",
    "records/load": "plain data: load/test_measuring.py and results/test_load.py make every record",
    "records/noise": "plain data: records/test_codec.py converts every record",
    "records/placement": "plain data: machine/test_placement.py makes it",
    "records/protocol": "plain data: records/test_codec.py converts every record, job and message",
    "records/reference": "plain data: records/test_codec.py converts every record",
    "records/run_report": "plain data: records/test_codec.py converts every record",
    "records/session": "plain data: records/test_codec.py converts every record",
    "records/sharding": "plain data: records/test_codec.py converts every record",
    "records/shards": "plain data: records/test_codec.py converts every record",
    "records/throughput": "plain data: records/test_codec.py converts every record",
    "records/topology": "plain data: machine/test_topology.py makes it",
    "records/validity": "plain data: records/test_codec.py converts every record",
    "report/fleet": "with the comparison of hosts, in fleet/test_kinds.py, and under torchrun, in cli/test_fleet.py",
    "validity/predictor": "plain data: used by every test of a judge",
    "validity/protocol": "declares interfaces only",
    "version": "one constant",
}
"""Modules without a test module of their own, and the reason."""


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_tests_that_mirror_it_or_a_reason(module: str) -> None:
    """tests/ROOM/test_MODULE.py for modelzoo/ROOM/MODULE.py."""
    folder, _, name = module.rpartition("/")
    mirrored = ROOT / "tests" / folder / f"test_{name}.py"
    assert mirrored.is_file() != (module in TESTED_ELSEWHERE), f"{mirrored.relative_to(ROOT)} or a reason, not both"


def test_few_modules_lie_directly_in_the_package_and_none_is_long() -> None:
    """At most 12 beside the rooms; a module over 400 lines has more than one purpose."""
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]) <= 12
    long = [str(path) for path in PACKAGE.rglob("*.py") if len(path.read_text(encoding="utf-8").splitlines()) > 400]
    assert long == []
