"""What would be measured on machines with many cores, whose files are planted; each plan was read and approved."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from places import SNAPSHOTS
from planted import plant, plant_topology
from toy_workloads import MLP

from modelzoo import cli
from modelzoo.machine import facts, linux, memory
from modelzoo.machine.facts import read_machine, read_topology
from modelzoo.tuning import grid

ARM = {
    "Altra": (0x41, 0xD0C, ""),
    "Yitian": (0x41, 0xD49, "bf16"),
    "Graviton3": (0x41, 0xD40, "bf16"),
    "Graviton4": (0x41, 0xD4F, "bf16"),
    "AmpereOne": (0xC0, 0xAC4, "bf16"),
}
"""Implementer, part and features of the cores, as in /proc/cpuinfo."""


class Planted:
    """A machine: the sizes of its nodes, each a socket, what its cores are, and what a container may use of it."""

    def __init__(self, core: str, *sizes: int, docker: bool = False, **limits: Any) -> None:
        self._core, self._sizes, self._docker, self._limits = core, sizes, docker, limits

    def plant(self, root: Path) -> Path:
        total, firsts = sum(self._sizes), [sum(self._sizes[:node]) for node in range(len(self._sizes))]
        nodes: Mapping[int, list[int]] = {
            node: list(range(first, first + size)) for node, (first, size) in enumerate(zip(firsts, self._sizes))
        }
        limits = dict(self._limits)
        if self._core == "EPYC":
            # Second threads are numbered after all first ones; 8 cores share a cache.
            limits["siblings"] = {each: (each % total, each % total + total) for each in range(2 * total)}
            eights = [range(first, first + 8) for first in range(0, total, 8)]
            limits["caches"] = [[*each, *(number + total for number in each)] for each in eights]
            nodes = {node: [*own, *(number + total for number in own)] for node, own in nodes.items()}
            info = "vendor_id : AuthenticAMD\nmodel name : AMD EPYC 9654\nflags : avx512f avx512_bf16"
        else:
            implementer, part, features = ARM[self._core]
            info = f"Features : {features}\nCPU implementer : {implementer:#04x}\nCPU part : {part:#05x}"
        plant(root, {"proc/cpuinfo": info, **({".dockerenv": ""} if self._docker else {})})
        return plant_topology(root, nodes, sockets={node: node for node in nodes}, **limits)


MACHINES = {
    "yitian-710-2x64": Planted("Yitian", 64, 64),
    "graviton3-64": Planted("Graviton3", 64),
    "graviton4-96": Planted("Graviton4", 96),
    "graviton4-2x96": Planted("Graviton4", 96, 96),
    "altra-80": Planted("Altra", 80),
    "altra-2x80": Planted("Altra", 80, 80),
    "ampereone-192": Planted("AmpereOne", 192),
    "grace-72": Planted("Graviton4", 72),
    "grace-2x72": Planted("Graviton4", 72, 72),
    "epyc-9654-2x96-smt": Planted("EPYC", 96, 96),
    "quota-4-of-2x64": Planted("Yitian", 64, 64, docker=True, quota="400000 100000"),
    "cpuset-across-nodes": Planted("Yitian", 64, 64, docker=True, cpuset="44-107"),
}
ELSEWHERE = re.compile(r"^ .* threads=default\n", re.MULTILINE)
"""Candidates of ``tune`` that differ from the default in something else than the number of threads."""
COMMANDS = ("run", "throughput", "load --rate 100 --slo p99=50ms", "tune")


@pytest.mark.parametrize("name", MACHINES)
def test_plans_are_as_approved(
    name: str,
    approved: Callable[[str, str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the four commands that measure; nothing is started."""
    root = MACHINES[name].plant(tmp_path / "root")
    topology = read_topology(root)
    allowed = frozenset(each for core in topology.cores for each in core.cpus)
    architecture = "x86_64" if name.startswith("epyc") else "aarch64"
    machine = read_machine(root, architecture=architecture, affinity=allowed, environ={}, lscpu="")
    monkeypatch.setattr(facts, "read_machine", lambda: machine)
    monkeypatch.setattr(facts, "read_topology", lambda: topology)
    for module in (linux, grid):
        monkeypatch.setattr(module, "allowed_cpus", lambda: allowed)
    monkeypatch.setattr(os, "cpu_count", lambda: machine.logical)
    # What is installed here decides nothing.
    monkeypatch.setattr(grid, "installed_version", lambda package: "1")
    monkeypatch.setattr(grid.jittor, "interpreter", lambda: "python")
    monkeypatch.setattr(memory, "locate_library", lambda package: Path("library"))
    monkeypatch.setattr(memory, "huge_pages_problem", lambda *given: None)
    plans = []
    for words in COMMANDS:
        command, *rest = words.split()
        assert cli.main([command, str(MLP), "--weights", "random", *rest, "--dry-run"]) == 0
        title = " ".join(["$ modelzoo", command, "mlp", *rest, "--dry-run"])
        plans.append(f"{title}\n\n{ELSEWHERE.sub('', capsys.readouterr().out)}")
    approved(f"plans/{name}.txt", "\n".join(plans))


def test_every_approved_plan_is_of_a_machine() -> None:
    """A machine that goes takes its plans with it."""
    assert {path.stem for path in (SNAPSHOTS / "plans").iterdir()} == set(MACHINES)
