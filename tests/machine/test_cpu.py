"""CPUs are identified from recorded texts of many machines."""

from __future__ import annotations

import json

import pytest
from planted import recorded

from modelzoo.machine.cpu import identify_cpu, is_foreign_architecture, lscpu_fields

ARM = [
    ("yitian710.cpuinfo", "Neoverse-N2", True, {"sve", "sve2", "bf16", "i8mm", "asimddp"}),
    ("graviton2.cpuinfo", "Neoverse-N1", False, {"asimddp", "fphp"}),
    ("graviton3-old-kernel.cpuinfo", "Neoverse-V1", False, {"sve", "asimddp"}),
    ("kunpeng920.cpuinfo", "TaiShan v110", False, {"asimddp"}),
    ("qemu-neoverse-n1.cpuinfo", "Neoverse-N1", False, {"asimddp"}),
    ("qemu-neoverse-n2.cpuinfo", "Neoverse-N2", True, {"sve2", "bf16"}),
    ("qemu-neoverse-v1.cpuinfo", "Neoverse-V1", True, {"sve", "svebf16"}),
]


@pytest.mark.parametrize(("file", "name", "bf16", "features"), ARM)
def test_arm_cpus_are_named_by_their_register(file: str, name: str, bf16: bool, features: set[str]) -> None:
    """ARM's /proc/cpuinfo has no model name; implementer and part give it."""
    found = identify_cpu("aarch64", recorded(file))
    assert found.model == name
    assert found.has_bf16 is bf16
    assert features <= set(found.features)


@pytest.mark.parametrize(
    ("file", "name", "bf16"),
    [
        ("cobalt-neoverse-n2.lscpu", "Neoverse-N2", True),
        ("grace-neoverse-v2.lscpu", "Neoverse-V2", True),
        ("altra-q80.lscpu", "Neoverse-N1", False),
    ],
)
def test_lscpu_is_enough_to_identify_arm_cpus(file: str, name: str, bf16: bool) -> None:
    """Without /proc/cpuinfo, lscpu gives the name and the features."""
    found = identify_cpu("aarch64", "", recorded(file))
    assert (found.model, found.has_bf16) == (name, bf16)


def test_the_product_name_is_kept_beside_the_core() -> None:
    """An Altra is a Neoverse N1 whose firmware says Altra."""
    found = identify_cpu("aarch64", recorded("graviton2.cpuinfo"), recorded("altra-q80.lscpu"))
    assert found.product == "Ampere(R) Altra(R) Processor Q80-30 CPU @ 3.0GHz"


def test_an_unknown_arm_part_is_named_by_its_numbers() -> None:
    """A core newer than the table can still be told from others."""
    found = identify_cpu("aarch64", "CPU implementer : 0xc0\nCPU part : 0xfff\n")
    assert found.model == "Ampere part 0xfff"


def test_lscpu_is_ignored_under_emulation() -> None:
    """Under qemu-user, lscpu reads the host's /proc/cpuinfo and names the host's CPU and flags."""
    found = identify_cpu("aarch64", recorded("qemu-neoverse-n2.cpuinfo"), recorded("qemu-neoverse-n2.lscpu.json"))
    assert found.model == "Neoverse-N2"
    bare = identify_cpu("aarch64", "", recorded("qemu-neoverse-n2.lscpu.json"))
    assert "EPYC" not in bare.model
    assert bare.features == ()


def test_x86_cpus() -> None:
    """The features of CPUs with AMX, with AVX-512 and with AVX2 only are told apart."""
    xeon = identify_cpu("x86_64", "", recorded("xeon-8462y.lscpu"))
    assert xeon.model == "Intel(R) Xeon(R) Platinum 8462Y+"
    assert {"amx_bf16", "amx_tile", "avx512_fp16", "avx512_bf16"} <= set(xeon.features)
    assert xeon.has_bf16
    epyc = identify_cpu("x86_64", recorded("epyc-kvm.cpuinfo"), recorded("epyc-kvm.lscpu.json"))
    assert epyc.model == "AMD EPYC"
    assert epyc.has_bf16
    assert "amx_bf16" not in epyc.features
    old = identify_cpu("x86_64", recorded("broadwell-cloud.cpuinfo"))
    assert old.features == ("avx", "fma", "avx2")
    assert not old.has_bf16


def test_lscpu_json_and_lines_give_the_same_fields() -> None:
    """JSON, nested JSON and lines can be parsed."""
    fields = lscpu_fields(recorded("epyc-kvm.lscpu.json"))
    assert fields["Hypervisor vendor"] == "KVM"
    lines = "\n".join(f"{name}: {value}" for name, value in fields.items())
    assert lscpu_fields(lines)["Model name"] == fields["Model name"]
    nested = {"lscpu": [{"field": "Vendor ID:", "data": "ARM", "children": [{"field": "Model name:", "data": "X"}]}]}
    assert lscpu_fields(json.dumps(nested)) == {"Vendor ID": "ARM", "Model name": "X"}


def test_a_foreign_architecture_is_recognised() -> None:
    """The kernel's modalias or a /proc/cpuinfo of the other architecture gives qemu-user away."""
    assert is_foreign_architecture("aarch64", "", "cpu:type:x86,ven0002fam0019mod0011")
    assert is_foreign_architecture("aarch64", recorded("epyc-kvm.cpuinfo"), "")
    assert is_foreign_architecture("x86_64", recorded("yitian710.cpuinfo"), "")
    assert not is_foreign_architecture("arm64", recorded("yitian710.cpuinfo"), "cpu:type:aarch64:feature:,0001")
    assert not is_foreign_architecture("amd64", recorded("epyc-kvm.cpuinfo"), recorded("epyc-kvm.modalias"))
