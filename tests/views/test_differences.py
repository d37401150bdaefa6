"""What settings share, and how they are told apart."""

from __future__ import annotations

from typing import Any

import pytest
from example_machine import LIBRARIES, machine_with
from fake_runs import WEIGHTS, make, shown

from modelzoo.frozen import replace
from modelzoo.records.workload import Verification, WeightsKind
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views import differences

STEADY = [0.05, 0.0501, 0.0502, 0.0503]


def settings(*requested: Setting) -> list[SummaryRow]:
    """One row per setting."""
    return shown(*(make(STEADY, setting=each) for each in requested))


def test_every_field_that_differs_has_a_column() -> None:
    """Only those, by the names that ``--vary`` takes; a setting that failed at once has no batch size that differs."""
    rows = settings(Setting(), Setting(mode="compile", channels_last=True), Setting(malloc="tcmalloc", threads=2))
    assert differences.varied(rows) == ["mode", "threads", "channels-last", "malloc"]
    assert differences.short_names(rows)[1:] == [
        "compile threads=1 channels-last=on malloc=default",
        "eager threads=2 channels-last=off malloc=tcmalloc",
    ]
    rows = shown(make(STEADY), make(None, setting=Setting("bf16"), group=1, error="died"))
    assert differences.varied(rows) == ["precision"]


def test_the_precision_of_bf16_names_its_method_only_if_there_are_several() -> None:
    """Otherwise all rows share the method."""
    rows = settings(Setting("bf16", bf16_method="cast"), Setting("bf16"))
    assert differences.short_names(rows) == ["bf16=cast", "bf16=autocast"]
    assert not any("by" in words for words in differences.shared(rows))


def test_what_all_rows_share_is_said_once() -> None:
    """Batch, threads and weights always; what is not at its default; the number of processes."""
    rows = settings(Setting(mode="compile", batch=2), Setting(mode="compile", batch=2, threads=3))
    expected = ["toy", "fp32", "batch 2", "random weights", "mode=compile", "1 process per setting"]
    assert differences.shared(rows) == expected
    rows = shown(*(make(STEADY, round=i) for i in range(3)), make(STEADY, workload="other", group=1))
    assert differences.shared(rows)[-1] == "1 to 3 processes per setting"


def test_weights_that_were_not_shown_to_be_the_published_ones_are_called_so() -> None:
    """On the line that every table has; a result that does not say it has no word for it."""
    words = {Verification.FULL: "", None: "", Verification.PARTIAL: "partly verified ", Verification.NONE: "unverified "}
    for verification, word in words.items():
        trained = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, verification=verification)
        assert f"{word}pretrained weights" in differences.shared(shown(make(STEADY, weights=trained)))


def test_an_option_is_compared_within_its_workload() -> None:
    """Each workload has options of its own, so what differs from one to the other is no difference."""
    one = make(STEADY, setting=Setting(options={"depth": 3}))
    other = make(STEADY, setting=Setting(options={"depth": 8}), workload="other", group=1)
    assert differences.varied(shown(one, other)) == []
    rows = settings(Setting(options={"depth": 3}), Setting(options={"depth": 4}))
    assert differences.short_names(rows) == ["depth=3", "depth=4"]
    assert "depth=3" in differences.shared(settings(Setting(options={"depth": 3})))


@pytest.mark.parametrize(
    ("field", "values", "names"),
    [
        ("input", ("/home/me/a.jpg", "/home/me/b.jpg"), ("a.jpg", "b.jpg")),
        ("python", ("~/envs/torch-2.9.1/bin/python", "~/.venv/bin/python", None), ("torch-2.9.1", ".venv", "default")),
        ("image", ("zoo:torch2_acl", "zoo:torch2_openblas"), ("torch2_acl", "torch2_openblas")),
    ],
)
def test_files_are_shown_by_what_tells_them_apart(field: str, values: tuple[Any, ...], names: tuple[str, ...]) -> None:
    """Not by paths, which are private and long."""
    rows = settings(*(Setting(**{field: value}) for value in values))
    assert differences.short_names(rows) == [f"{field}={name}" for name in names]


def test_the_machine_is_named_if_it_is_one() -> None:
    """The CPU without trade marks and frequency, the number of cores, and the versions of the engines."""
    cpu = machine_with(cpu="Intel(R) Xeon(R) Platinum 8581C CPU @ 2.30GHz")
    versions = [{"torch": "2.9.1"}, {"torch": "2.10.0"}]
    rows = shown(*(make(STEADY, machine=cpu, versions=each, group=group) for group, each in enumerate(versions)))
    assert differences.machine(rows) == "Intel Xeon Platinum 8581C, 8 cores, torch 2.9.1 and 2.10.0"
    rows = shown(make(STEADY, machine=machine_with(cores=4)), make(STEADY, machine=cpu, workload="other", group=1))
    assert differences.machine(rows) == ""
    other = make(STEADY, setting=Setting(engine="jittor"), group=1, engine="jittor", versions={"jittor": "1.3.11"})
    rows = shown(make(STEADY, versions={"torch": "2.10.0"}), other)
    assert differences.machine(rows).endswith(", torch 2.10.0, jittor 1.3.11")


def test_an_instance_of_a_cloud_is_named_by_its_type() -> None:
    """With its virtual CPUs, because it does not know its cores, and with what torch multiplies matrices by."""
    guest = machine_with(hypervisor="KVM", cloud="AWS", instance_type="c8g.2xlarge", cores=4)
    rows = shown(make(STEADY, machine=guest, versions={"torch": "2.10.0"}, libraries=LIBRARIES))
    assert differences.machine(rows) == "c8g.2xlarge, Neoverse-N2, 8 vCPUs, torch 2.10.0 (onednn+acl, openblas)"
    rows = shown(make(STEADY, machine=replace(guest, cloud="Azure", instance_type=None)))
    assert differences.machine(rows) == "Azure, Neoverse-N2, 8 vCPUs"
