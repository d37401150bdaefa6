"""Parsers of /proc and /sys, on planted trees."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from planted import plant

from modelzoo.machine import linux
from modelzoo.records.machine import ClockFrequency


def test_cores_with_equal_ids_in_two_packages_are_two(tmp_path: Path) -> None:
    """Core ids repeat between packages; without sibling lists the pair decides."""
    files = {}
    for number in range(2):
        folder = f"sys/devices/system/cpu/cpu{number}/topology"
        files[f"{folder}/core_id"] = "0"
        files[f"{folder}/physical_package_id"] = str(number)
    assert linux.count_cores(frozenset({0, 1}), plant(tmp_path, files)) == 2


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_lists_are_formatted_as_the_kernel_does(cpus: frozenset[int]) -> None:
    """A formatted list is parsed to the same CPUs."""
    assert linux.parse_cpu_list(linux.format_cpu_list(cpus)) == cpus
    assert linux.format_cpu_list({0, 1, 2, 3, 8}) == "0-3,8"


def test_frequencies_are_read_and_summarised(tmp_path: Path) -> None:
    """Of many CPUs a spread of 16 is read, in MHz; without cpufreq there is nothing."""
    files = {
        f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": str(1_000_000 + 1000 * cpu) for cpu in range(128)
    }
    samples = linux.current_mhz(frozenset(range(128)), plant(tmp_path, files))
    assert samples[:3] == [1000.0, 1008.0, 1016.0]
    assert len(samples) == 16
    assert linux.summarize_frequency(samples) == ClockFrequency(1060.0, 1000.0, 1120.0)
    assert linux.current_mhz(frozenset({200}), tmp_path) == []
    assert linux.summarize_frequency([]) is None


def test_the_selected_word_is_read(tmp_path: Path) -> None:
    """Files of /sys put the selected word in brackets."""
    root = plant(tmp_path, {"enabled": "always [madvise] never", "empty": ""})
    assert linux.read_selected(root / "enabled") == "madvise"
    assert linux.read_selected(root / "empty") is None
