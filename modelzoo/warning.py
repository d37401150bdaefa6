"""Every warning the suite can give, as data: a code, a message and what to do next.

A warning never stops a run. It is stored in the result and shown with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WarningCode(Enum):
    """Warning codes: each value is (message, hint), both filled in with ``str.format``."""

    RANDOM_WEIGHTS = (
        "random weights ({reason}): the speed is that of the same network, its predictions mean nothing",
        "connect to the network, or put the checkpoint into the folder named by MODELZOO_WEIGHTS",
    )
    SCRUBBED_VARIABLES = (
        "fast-math variables were set and not asked for, so the worker ran without them: {names}",
        "add --bf16 to measure with them, or unset them",
    )
    NO_BF16_HARDWARE = (
        "this CPU has no bf16 instructions ({features})",
        "bf16 is emulated here and usually slower; measure it on a CPU with bf16, avx512_bf16 or amx_bf16",
    )
    BF16_NOT_ACTIVE = (
        "bf16 was requested by {method} but is NOT active: {detail}",
        "try --bf16=autocast or --bf16=cast, or a PyTorch build whose kernels have bf16 fast math",
    )
    BF16_PARTLY = (
        "bf16 is only partly active by {method}: {detail}",
        "the operators named stay in fp32; compare --bf16=fastmath, autocast and cast",
    )
    REFERENCE_KERNELS = (
        "reference kernels, the slowest that there are, took {percent:.1f} % of the time: {names}",
        "no better kernel takes these operands: compare --bf16=fastmath, autocast and cast, or another PyTorch build",
    )
    FP32_NOT_FP32 = (
        "the fp32 baseline is not fp32: {detail}",
        "look for fast-math settings in the environment or in the PyTorch build; speedups over it mean nothing",
    )
    BACKEND_VARIABLE = (
        "the backend is {value}, as MODELZOO_BACKEND says: {meaning}",
        "--backend auto leaves the choice to PyTorch",
    )
    TIME_LIMIT = (
        "stopped by the time limit with the median known to ±{percent} only",
        "raise --max-seconds, or use a quieter machine",
    )
    WARMUP_CAP = (
        "the level was still moving when the warm-up reached its cap of {seconds:.0f} s ({count} calls)",
        "raise --warmup, and look at what else runs on this machine",
    )
    FEW_SAMPLES = (
        "only {count} steady samples in a process",
        "raise --max-seconds or --iterations",
    )
    ONE_PROCESS = (
        "one process only: how much the next one would differ is unknown",
        "use --processes 3 or more; processes on the same machine often differ by more than samples do",
    )
    PROCESSES_DIFFER = (
        "the processes' medians spread over {percent:.0f} % of their median",
        "use more --processes, or look for other load, frequency changes and memory placement",
    )
    OTHER_LOAD = (
        "other programs used {cores:.2f} cores during the run",
        "stop them: OpenMP threads that spin while waiting make small loads cost much",
    )
    STOLEN_TIME = (
        "the hypervisor took {percent:.1f} % of the CPU time away during the run",
        "use a dedicated host or a quieter hour",
    )
    OVERSUBSCRIBED = (
        "{threads} threads on {cores} usable cores",
        "lower --threads to {cores}",
    )
    WAIT_POLICY = (
        "OMP_WAIT_POLICY={value} changes the speed of short operators",
        "unset it to compare with other results; PASSIVE helps only where cores are shared",
    )
    EMULATED = (
        "this machine is emulated (qemu): times are not reported, only correctness, by one process a setting",
        "run on real hardware to measure",
    )
    GOVERNOR = (
        "the frequency governor is {governor}: the clock follows the load, so early iterations are slower",
        "sudo cpupower frequency-set -g performance",
    )
    HUGE_PAGES = (
        "transparent huge pages are off: large tensors cost 512 times the page faults and more TLB misses",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled, then THP_MEM_ALLOC_ENABLE=1",
    )
    SMT = (
        "{threads} hardware threads share each core: what runs on a sibling slows the core by up to half",
        "keep the siblings free: {command}; or switch SMT off in the firmware",
    )
    CPU_QUOTA = (
        "the control group allows {quota:g} CPUs of {cpus}: threads beyond that are stopped in each period",
        "give whole CPUs instead of a quota: docker run --cpuset-cpus 0-{last}",
    )
    THROTTLED = (
        "the control group's quota stopped the threads for {seconds:.2f} s in {total:.1f} s",
        "raise the quota, or use --threads {threads}",
    )
    THREADS_VARIABLE = (
        "{name}={value}, but this process may use {cores} cores",
        "unset {name}, or set it to {cores}: threads that wait for a core make all others wait",
    )
    FORCED_KERNELS = (
        "{names} decides which kernels run instead of the CPU's features",
        "unset it: a name of another architecture drops OpenBLAS to its slowest kernels without a word",
    )
    TWO_OPENMP = (
        "{count} OpenMP runtimes are loaded in one process ({names}): their threads compete for the cores",
        "use one: install numpy, torch and scikit-learn from one source, or unset LD_PRELOAD if it names one",
    )
    PAGE_FAULTS = (
        "malloc gives freed blocks back to the kernel, so large tensors are paged in anew ({detail})",
        "MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 "
        "before the command (Mask R-CNN gains most), or LD_PRELOAD=libtcmalloc_minimal.so.4",
    )
    NUMA = (
        "threads and memory may spread over {nodes} NUMA nodes",
        "stay on one: numactl --cpunodebind=0 --membind=0 before the command",
    )
    SMALL_MEMORY = (
        "only {gib:.1f} GiB of memory may be used; the four workloads need up to {needed:g} GiB",
        "raise the container's memory limit, or run fewer workloads and a smaller --batch",
    )
    POOR_SCALING = (
        "{threads} threads reach {percent:.0f} % of {threads} times one thread's speed in fp32",
        "look for other load, SMT siblings, a quota, threads bound to one core (GOMP_CPU_AFFINITY, OMP_PLACES) or "
        "power limits; compare with --threads {half}",
    )
    FAST_MATH = (
        "{names} would let fp32 operators compute with less precision",
        "unset it; the suite removes it from its own fp32 runs, other programs see it",
    )
    MISMATCHED_PAIR = (
        "{problem}",
        "torch and torchvision must be of one release, from one index",
    )
    MISMATCHED_COUNTS = (
        "{what} {seen} lies outside the range of trained models ({low} to {high}), so the time is not theirs",
        "use pretrained weights, or another input",
    )
    EARLY_TORCH = (
        "torch {version} lacks {what}",
        "use torch {needed} or newer for it",
    )
    OUTLIERS = (
        "{count} of {total} samples are outliers (over 1.5 × the median); none was dropped",
        "look at other load on the machine",
    )


@dataclass(frozen=True)
class WarningMessage:
    """One warning of one run: its code's name, its message and its hint, filled in."""

    code: str
    message: str
    hint: str


def warning_for(code: WarningCode, **values: object) -> WarningMessage:
    """Fill in the message and the hint of ``code``."""
    message, hint = code.value
    return WarningMessage(code.name, message.format(**values), hint.format(**values))
