"""Environment variables that change arithmetic or speed."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import environment as module
from modelzoo.machine import memory
from modelzoo.machine.environment import (
    FAST_MATH_VARIABLES,
    KERNEL_VARIABLES,
    MATH_MODE_VARIABLE,
    MATH_MODE_VARIABLES,
    enter,
    inherited_math_mode,
    memory_variables,
    recorded_environment,
    worker_environment,
)
from modelzoo.machine.linux import begin
from modelzoo.setting import Setting


def test_a_user_who_is_not_in_passwd_has_a_name_and_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container under a user id of its own; torch asks for the name, the hubs' caches for the directory."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    begin()
    assert (getpass.getuser(), Path.home()) == (f"uid-{os.getuid()}", tmp_path / f"modelzoo-{os.getuid()}")
    monkeypatch.setattr("os.environ", {"USER": "joe", "HOME": "/"})
    begin()
    assert os.environ == {"USER": "joe", "HOME": "/"}, "what is known stays"


def test_recorded_variables_hold_nothing_private() -> None:
    """Others and inductor's are left out, secrets hidden, and home directories and user names masked."""
    environ = {
        "HOME": "/home/joe",
        "USER": "joe",
        "PATH": "/usr/bin",
        "TORCH_HOME": "/home/joe/.cache",
        "LD_PRELOAD": "/scratch/joe/lib.so:/home/joe2/lib.so",
        "MODELZOO_API_KEY": "secret",
        "OMP_NUM_THREADS": "8",
        "TORCH_WARM_POOL": "0",
    }
    assert recorded_environment(environ) == {
        "LD_PRELOAD": "/scratch/USER/lib.so:/home/USER/lib.so",
        "MODELZOO_API_KEY": "(hidden)",
        "OMP_NUM_THREADS": "8",
        "TORCH_HOME": "~/.cache",
    }


@pytest.mark.parametrize(
    ("environ", "mode"),
    [
        ({}, ""),
        ({MATH_MODE_VARIABLE: ""}, ""),
        ({MATH_MODE_VARIABLE: "BF16"}, "bf16"),
        ({"ONEDNN_DEFAULT_FPMATH_MODE": "Any"}, "any"),
        ({MATH_MODE_VARIABLE: "STRICT", "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, "strict"),
    ],
)
def test_the_inherited_math_mode(environ: dict[str, str], mode: str) -> None:
    """The first variable that has a value counts, in any case of letters."""
    assert inherited_math_mode(environ) == mode


def test_a_value_that_onednn_does_not_know_is_an_error() -> None:
    """oneDNN would ignore it without a message."""
    with pytest.raises(UsageError, match="DNNL_DEFAULT_FPMATH_MODE=BF17 is unknown to oneDNN; use BF16 or STRICT"):
        inherited_math_mode({MATH_MODE_VARIABLE: "BF17"})


BF16 = {MATH_MODE_VARIABLE: "BF16"}
TCMALLOC, JEMALLOC, OPENMP = "/usr/lib/libtcmalloc_minimal.so.4", "/opt/libjemalloc.so.2", "/opt/tcmalloc/libiomp5.so"


@pytest.mark.parametrize(
    ("inherited", "wanted", "expected"),
    [
        # Fast math is removed, unless it is the mode that is set anyway: oneDNN reads it when it is loaded.
        *(({name: "BF16"}, {}, ({}, {name: "BF16"}, {})) for name in FAST_MATH_VARIABLES),
        *(({name: value}, BF16, (BF16, {}, BF16)) for name in MATH_MODE_VARIABLES for value in ("BF16", "bf16")),
        ({MATH_MODE_VARIABLE: "ANY"}, BF16, (BF16, {MATH_MODE_VARIABLE: "ANY"}, BF16)),
        # Limits of the instruction set change no precision that was asked for; threads are no part of the record.
        *(({name: "AVX2"}, {}, ({name: "AVX2"}, {}, {})) for name in KERNEL_VARIABLES),
        (
            {"PATH": "/bin", "OMP_NUM_THREADS": "9"},
            {"OMP_NUM_THREADS": "2"},
            ({"PATH": "/bin", "OMP_NUM_THREADS": "2"}, {}, {}),
        ),
        # Nothing is said about memory: whatever is inherited stays.
        ({"LD_PRELOAD": JEMALLOC}, {}, ({"LD_PRELOAD": JEMALLOC}, {}, {})),
        # An allocator of the setting's own: one that is inherited makes room, other libraries stay.
        ({}, {"LD_PRELOAD": TCMALLOC}, ({"LD_PRELOAD": TCMALLOC}, {}, {"LD_PRELOAD": TCMALLOC})),
        (
            {"LD_PRELOAD": f"{JEMALLOC} {OPENMP}"},
            {"LD_PRELOAD": TCMALLOC},
            ({"LD_PRELOAD": f"{TCMALLOC}:{OPENMP}"}, {"LD_PRELOAD": f"{JEMALLOC} {OPENMP}"}, {"LD_PRELOAD": TCMALLOC}),
        ),
        ({"LD_PRELOAD": TCMALLOC}, {"LD_PRELOAD": TCMALLOC}, ({"LD_PRELOAD": TCMALLOC}, {}, {"LD_PRELOAD": TCMALLOC})),
        # glibc: no other one.
        ({"LD_PRELOAD": OPENMP}, {"LD_PRELOAD": ""}, ({"LD_PRELOAD": OPENMP}, {}, {})),
        ({"LD_PRELOAD": JEMALLOC}, {"LD_PRELOAD": ""}, ({}, {"LD_PRELOAD": JEMALLOC}, {})),
        # Huge pages: other tunables stay.
        (
            {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2", "MALLOC_CONF": "narenas:1"},
            {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_CONF": "thp:always"},
            (
                {
                    "GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1",
                    "MALLOC_CONF": "narenas:1,thp:always",
                },
                {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2"},
                {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_CONF": "thp:always"},
            ),
        ),
        ({"THP_MEM_ALLOC_ENABLE": "1"}, {"THP_MEM_ALLOC_ENABLE": ""}, ({}, {"THP_MEM_ALLOC_ENABLE": "1"}, {})),
    ],
)
def test_what_decides_a_setting_replaces_what_is_inherited(
    inherited: dict[str, str], wanted: dict[str, str], expected: tuple[dict[str, str], ...]
) -> None:
    """The variables of the worker, what was removed from the inherited ones, and what was set."""
    variables, changes = worker_environment(inherited, wanted)
    assert (variables, changes.removed, changes.applied) == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (Setting(), {}),
        (Setting(malloc="glibc"), {"LD_PRELOAD": ""}),
        (Setting(malloc="tcmalloc"), {"LD_PRELOAD": "/lib/tcmalloc.so"}),
        (Setting(malloc="jemalloc", thp="on"), {"LD_PRELOAD": "/lib/jemalloc.so", **memory.REQUESTS}),
        (Setting(thp="on"), dict(memory.REQUESTS)),
        (Setting(thp="off"), {"THP_MEM_ALLOC_ENABLE": ""}),
    ],
)
def test_the_variables_of_a_setting(
    setting: Setting, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an allocator or huge pages of its own, a setting leaves everything as it is."""
    monkeypatch.setattr(module, "find_library", lambda name: f"/lib/{name}.so")
    monkeypatch.setattr(memory, "system_mode", lambda: "always")
    assert memory_variables(setting) == expected


def test_huge_pages_that_the_system_refuses_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a run that has none."""
    monkeypatch.setattr(memory, "system_mode", lambda: "never")
    with pytest.raises(EnvironmentProblem, match="thp=on: transparent huge pages are off"):
        memory_variables(Setting(thp="on"))


@pytest.mark.parametrize(("thp", "calls"), [("default", []), ("off", [False]), ("on", [True])])
def test_a_worker_switches_its_huge_pages(thp: str, calls: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it has those of the system."""
    seen: list[bool] = []
    monkeypatch.setattr(memory, "set_allowed", seen.append)
    enter(Setting(thp=thp))
    assert seen == calls


def test_a_worker_without_its_allocator_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preload that had no effect must not be measured as if it had one."""
    monkeypatch.setattr(module, "current_allocator", lambda: "glibc")
    enter(Setting(malloc="glibc"))
    with pytest.raises(EnvironmentProblem, match="malloc=jemalloc"):
        enter(Setting(malloc="jemalloc"))
