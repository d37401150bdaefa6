"""Every condition of a machine that may distort a result, as warnings that say how to fix it, and two experiments.

Among them are known defects of libraries that make results slow without an error:

- OpenBLAS is built for a number of threads (``NUM_THREADS``, 128 in torch 2.10.0 for ARM). With more it allocates
  "auxiliary arrays", prints "Bad memory unallocation", and may crash: https://github.com/pytorch/pytorch/issues/174373,
  https://github.com/OpenMathLib/OpenBLAS/issues/5639.
- On ARM, inductor freezes the weights of Linear for oneDNN's inner product, which Compute Library supports in bf16 only
  from 53.1 on; before, it runs in a reference kernel, 100 times slower than eager mode:
  https://github.com/pytorch/pytorch/issues/180447, mended by https://github.com/pytorch/pytorch/pull/191316. The wheels
  of torch 2.10.0 to 2.13.0 for ARM have Compute Library 52.6.0, those of 2.14.1 and 2.15.0 have 53.2.0 (looked up).
- A bf16 product may be slower than the same product in fp32 although the CPU has bf16 instructions, if its library has
  no kernel for them: OpenBLAS 0.3.29 computes ``sbgemm`` on Neoverse V1 in generic C
  (https://github.com/OpenMathLib/OpenBLAS/pull/5108).
- On x86 CPUs without VNNI, int8 kernels add two products of 8 bits in 16 bits, which saturates:
  https://uxlfoundation.github.io/oneDNN/dev_guide_int8_computations.html and, for ONNX Runtime,
  https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html ("When to use reduce-range").
- On x86, fp32 Linear layers call MKL, whose kernels for CPUs other than Intel's may be far slower than oneDNN's. This
  is found by measurement, not by a list of CPUs.

Reference kernels, whatever their cause, are found in what ran (``modelzoo.evidence``).
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.environment import KERNEL_VARIABLES, fast_math_settings
from modelzoo.machine.installation import import_torch, import_torchvision, mismatched_versions
from modelzoo.machine.linux import format_cpu_list, parse_cpu_list
from modelzoo.records.equipment import Libraries
from modelzoo.records.machine import THREAD_VARIABLES, CpuUsage, Machine, quiet_limit
from modelzoo.records.profile import Ceilings
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for

STEAL_PERCENT = 1.0
"""The half width that sampling aims at; less stolen time cannot be distinguished from noise."""
THROTTLED_FRACTION = 0.005
"""Tolerated fraction of throttled time: half of the ±1 % that sampling aims at."""
FAULTS_PER_SECOND = 50_000
"""At 1 to 2 µs each (measured: 700,000 in 1.5 s) they take 5 to 10 % of a core."""
FAULTS_PER_MIB = 64
"""Tolerated page faults per MiB: without huge pages there are 256, one per 4 KiB; with them, fewer than 10."""
MEMORY_NEEDED_GIB = 8
POOR_EFFICIENCY = 0.75
"""Matrix products reach a parallel efficiency of 0.9 and more, unless something else uses the cores."""
BF16_INNER_PRODUCT = (53, 1)
"""The first Compute Library with an inner product in bf16."""
FREEZING_MODES = ("compile", "max-autotune", "cpp-wrapper", "aot")
SLOW_BF16 = 0.9
"""bf16 ÷ fp32 below which a product counts as slower; both are the fastest of several blocks, equal within 10 %."""
VNNI = ("avx_vnni", "avx512_vnni")
FULL_RANGE = ("torchao", "static", "dynamic-per-tensor", "dynamic-per-channel")
"""Recipes with activations of 8 bits in kernels that may saturate. torch's ``dynamic-x86`` and ``dynamic-onednn`` have
7 bits, and QNNPACK's kernels multiply in 16 bits and add in 32."""
SLOW_LINEAR = 0.8
"""``torch.mm`` ÷ oneDNN in fp32 below which Linear layers are worth packing for oneDNN."""


def diagnose(
    machine: Machine,
    libraries: Libraries,
    usage: CpuUsage,
    ceilings: Ceilings | None,
    faults_per_mib: float,
    torchvision_problem: str | None,
) -> Iterator[WarningMessage]:
    """Yield a warning for every condition that may distort results.

    Args:
        machine: the facts.
        libraries: what is installed and loaded.
        usage: CPU usage while the suite itself was idle.
        ceilings: the measured ceilings, which show how the machine scales over threads; ``None`` under an emulator.
        faults_per_mib: page faults per MiB of a large block that is freed and allocated again.
        torchvision_problem: why torchvision cannot be used with this torch; if ``None``, the versions decide.
    """
    if machine.emulator is not None:
        yield warning_for(WarningCode.EMULATED)
    if not machine.has_bf16:
        features = ", ".join(machine.features) or machine.cpu
        yield warning_for(WarningCode.NO_BF16_HARDWARE, features=features)
    yield from usage_warnings(usage, machine, faults=False)
    yield from system_warnings(machine)
    yield from _variable_warnings(machine)
    yield from forced_kernels(machine.environment, libraries)
    yield from library_warnings(libraries, torchvision_problem)
    yield from thread_warnings(libraries, machine)
    if machine.memory_limit is not None and machine.memory_limit < MEMORY_NEEDED_GIB << 30:
        gib = machine.memory_limit / 2**30
        yield warning_for(WarningCode.SMALL_MEMORY, gib=gib, needed=MEMORY_NEEDED_GIB)
    if faults_per_mib > FAULTS_PER_MIB:
        when = "for each MiB that is used again"
        yield warning_for(WarningCode.PAGE_FAULTS, faults=faults_per_mib, when=when)
    if ceilings is not None:
        # With other load the scaling says nothing about the machine, and OTHER_LOAD is reported already.
        scaling, count = ceilings.scaling() if ceilings.quiet else None, ceilings.threads
        if scaling is not None and count > 1 and scaling < POOR_EFFICIENCY:
            half = max(1, count // 2)
            yield warning_for(WarningCode.POOR_SCALING, threads=count, percent=100 * scaling, half=half)
        yield from slow_bf16_warnings(machine, ceilings)
        yield from slow_linear_warnings(ceilings)


def usage_warnings(usage: CpuUsage, machine: Machine, *, faults: bool = True) -> Iterator[WarningMessage]:
    """Yield a warning for everything in the CPU usage of a run that may have distorted its timings.

    Under an emulator there are none: nothing is timed, and the emulator itself would count as other load.

    Args:
        usage: CPU usage during the run.
        machine: the machine.
        faults: whether to look at the page faults of this process.
    """
    if machine.emulator is not None:
        return
    limit = quiet_limit(machine.threads.affinity, usage.resolution)
    if usage.other_cores is not None and usage.other_cores > limit:
        yield warning_for(WarningCode.OTHER_LOAD, cores=usage.other_cores)
    # On an idle machine, a few stolen ticks are a large percentage of very little CPU time.
    stolen = usage.steal_percent or 0.0
    if stolen > STEAL_PERCENT and (usage.own_cores + (usage.other_cores or 0.0)) * stolen / 100 > usage.resolution:
        yield warning_for(WarningCode.STOLEN_TIME, percent=stolen)
    if usage.throttled_seconds and usage.throttled_seconds > THROTTLED_FRACTION * usage.seconds:
        yield warning_for(
            WarningCode.THROTTLED,
            seconds=usage.throttled_seconds,
            total=usage.seconds,
            threads=max(1, machine.threads.count - 1),
        )
    rate = usage.minor_faults / max(usage.seconds - usage.waited_seconds, 1e-9)
    if faults and rate > FAULTS_PER_SECOND:
        yield warning_for(WarningCode.PAGE_FAULTS, faults=rate, when="per second")


def system_warnings(machine: Machine) -> Iterator[WarningMessage]:
    """Yield a warning for everything in how the system is set up that may distort timings."""
    threads = machine.threads
    if machine.governor is not None and machine.governor != "performance":
        yield warning_for(WarningCode.GOVERNOR, governor=machine.governor)
    if machine.huge_pages == "never":
        yield warning_for(WarningCode.HUGE_PAGES)
    if machine.threads_per_core > 1 and threads.affinity > threads.physical_cores:
        one_of_each = "lscpu -p=CPU,CORE,SOCKET | grep -v '^#' | sort -t, -uk2 | cut -d, -f1 | paste -sd,"
        command = f"taskset -c $({one_of_each}) before the command"
        yield warning_for(WarningCode.SMT, threads=machine.threads_per_core, command=command)
    if threads.quota is not None and threads.quota < threads.affinity:
        last = max(0, int(threads.quota) - 1)
        yield warning_for(WarningCode.CPU_QUOTA, quota=threads.quota, cpus=threads.affinity, last=last)
    if len(machine.nodes) > 1:
        yield warning_for(WarningCode.NUMA, nodes=len(machine.nodes), command=_on_one_node(machine))


def _on_one_node(machine: Machine) -> str:
    """The command that restricts a run to the largest node, and to one hardware thread of each of its cores.

    Of these cores it has no more than a quota allows. In a container, the system usually refuses a policy for memory,
    and memory comes from the node that first uses it.
    """
    node = max(machine.nodes, key=lambda each: each.cores)
    cpus = format_cpu_list(sorted(parse_cpu_list(node.cpus))[: machine.threads.count])
    if machine.container in ("docker", "podman") and machine.image_id is None:
        return f"{machine.container} run --cpuset-cpus={cpus} --cpuset-mems={node.number} …"
    on_cpus = f"taskset --cpu-list {cpus} modelzoo …"
    if machine.container is not None and machine.image_id is None:
        return on_cpus
    return f"numactl --physcpubind={cpus} --membind={node.number} modelzoo …, or {on_cpus}"


def _variable_warnings(machine: Machine) -> Iterator[WarningMessage]:
    environment, cores = machine.environment, machine.threads.count
    for name in THREAD_VARIABLES:
        # A list gives the threads of nested regions; the first is the outer one.
        value = environment.get(name, "").partition(",")[0].strip()
        if value.isdigit() and int(value) > cores:
            yield warning_for(WarningCode.THREADS_VARIABLE, name=name, value=value, cores=cores)
    if policy := environment.get("OMP_WAIT_POLICY"):
        yield warning_for(WarningCode.WAIT_POLICY, value=policy)
    if fast_math := fast_math_settings(environment):
        yield warning_for(WarningCode.FAST_MATH, names=_assignments(fast_math))


def forced_kernels(environment: Mapping[str, str], libraries: Libraries) -> Iterator[WarningMessage]:
    """Yield the warning that variables select the kernels of libraries that torch uses, if any do."""
    forced = {
        name: environment[name]
        for name, library in KERNEL_VARIABLES.items()
        if environment.get(name) and libraries.uses(library)
    }
    if forced:
        yield warning_for(WarningCode.FORCED_KERNELS, names=_assignments(forced))


def library_warnings(libraries: Libraries, torchvision_problem: str | None = None) -> Iterator[WarningMessage]:
    """Yield a warning for every library that is loaded, or installed, in a way that disturbs the others."""
    runtimes = [f"{library.owner}: {library.file}" for library in libraries.loaded if library.api == "openmp"]
    if libraries.two_openmp:
        yield warning_for(WarningCode.TWO_OPENMP, count=len(runtimes), names=", ".join(runtimes))
    torch, vision = libraries.versions.get("torch"), libraries.versions.get("torchvision")
    problem = torchvision_problem or (mismatched_versions(torch, vision) if torch and vision else None)
    if problem is not None:
        yield warning_for(WarningCode.MISMATCHED_PAIR, problem=problem)


def _assignments(variables: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in variables.items())


def probe_torchvision() -> str | None:
    """Return why torchvision cannot be used with this torch, in one line, or ``None`` if it can.

    Two builds of the same release, from two indexes, may still be unable to load each other's operators.
    """
    try:
        import_torchvision()
    except EnvironmentProblem as problem:
        return str(problem)
    return None


def probe_page_faults() -> float:
    """Return the page faults per MiB of a tensor that is freed and allocated again.

    Returns:
        0 if the memory is kept, 256 if every 4 KiB page is new.
    """
    torch = import_torch()
    mib, rounds = 64, 5
    size = mib << 18  # floats
    # The first pages are always new, and glibc with raised thresholds settles after 7 rounds (measured).
    for _ in range(10):
        torch.empty(size).fill_(1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.empty(size).fill_(1.0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (mib * rounds)


def thread_warnings(libraries: Libraries, machine: Machine, threads: int | None = None) -> list[WarningMessage]:
    """Return the warning that OpenBLAS was built for fewer threads than are used, or than there are cores.

    Args:
        libraries: what is loaded.
        machine: whose cores are the default, unless OpenBLAS supports fewer.
        threads: those that are used, by default the default.
    """
    limit, cores = libraries.openblas_limit, machine.threads.count
    if limit is None:
        return []
    if threads is not None and threads > limit:
        return [warning_for(WarningCode.OPENBLAS_EXCEEDED, threads=threads, limit=limit)]
    is_limited = cores > limit and threads in (None, limit)
    return [warning_for(WarningCode.OPENBLAS_LIMIT, limit=limit, cores=cores)] if is_limited else []


def frozen_bf16_warnings(libraries: Libraries, machine: Machine, setting: Setting) -> list[WarningMessage]:
    """Return the warning that this Compute Library cannot compute what inductor makes of Linear layers in bf16."""
    version = libraries.acl.version if libraries.acl is not None else None
    is_frozen = setting.engine == "torch" and setting.mode in FREEZING_MODES
    has_bf16_weights = setting.precision == "bf16" and setting.bf16_method in ("autocast", "cast")
    is_affected = machine.architecture == "aarch64" and setting.device == "cpu" and setting.backend != "blas"
    if version is None or not (is_frozen and has_bf16_weights and is_affected):
        return []
    major, minor = (int(number) for number in version.split(".")[:2])
    return [warning_for(WarningCode.OLD_ACL, version=version)] if (major, minor) < BF16_INNER_PRODUCT else []


def saturation_warnings(machine: Machine, setting: Setting) -> list[WarningMessage]:
    """Return the warning that sums of int8 products may saturate on this CPU."""
    is_affected = machine.architecture == "x86_64" and not set(VNNI) & set(machine.features)
    if setting.precision != "int8" or setting.recipe not in FULL_RANGE or setting.device != "cpu" or not is_affected:
        return []
    return [warning_for(WarningCode.INT8_SATURATION, recipe=setting.recipe)]


def slow_bf16_warnings(machine: Machine, ceilings: Ceilings) -> list[WarningMessage]:
    """Return the warning that products are slower in bf16 than in fp32, by the measured ceilings."""
    if not (machine.has_bf16 and ceilings.quiet):
        return []
    slow: list[str] = []
    for operator in dict.fromkeys(product.operator for product in ceilings.gemm):
        ratio = _bf16_ratio(ceilings, operator)
        if ratio is not None and ratio < SLOW_BF16:
            slow.append(f"{operator} {ratio:.2f}")
    return [warning_for(WarningCode.SLOW_BF16, operators=", ".join(slow))] if slow else []


def slow_linear_warnings(ceilings: Ceilings) -> list[WarningMessage]:
    """Return the warning that oneDNN is faster than what fp32 Linear layers call, by the measured ceilings.

    Where ``linear`` was measured by itself (ARM), Linear layers do not call what ``torch.mm`` does.
    """
    linear = ceilings.gflops("fp32", operator="linear")
    blas, onednn = (ceilings.gflops("fp32", operator=operator) for operator in ("mm", "conv"))
    if not ceilings.quiet or linear is not None or not blas or not onednn or blas / onednn >= SLOW_LINEAR:
        return []
    return [warning_for(WarningCode.SLOW_LINEAR, ratio=blas / onednn)]


def _bf16_ratio(ceilings: Ceilings, operator: str) -> float | None:
    """bf16 ÷ fp32 with all threads, for the largest size that was measured in both."""
    speeds = {
        (product.precision, product.size): product.gflops
        for product in ceilings.gemm
        if product.operator == operator and product.threads == ceilings.threads
    }
    sizes = [size for precision, size in speeds if precision == "bf16" and ("fp32", size) in speeds]
    return speeds["bf16", max(sizes)] / speeds["fp32", max(sizes)] if sizes else None
