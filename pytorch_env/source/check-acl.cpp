// Compare NEGEMM of the linked ACL, with fp32 operands, with double precision: check-acl bf16|no-bf16
//
// Fast math must round to bf16 if the CPU has bf16 (error about 2e-3), and otherwise compute in fp32; without fast math
// the result must always be fp32. The last check makes oneDNN's query: is there a fixed-format kernel, and which weight
// format does it need? Exit status 1 if a check fails.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "arm_compute/core/CPP/CPPTypes.h"
#include "arm_compute/core/Types.h"
#include "arm_compute/runtime/NEON/NEFunctions.h"
#include "arm_compute/runtime/NEON/NEScheduler.h"
#include "arm_compute/runtime/Tensor.h"

using namespace arm_compute;

static bool is_bad = false;

static void judge(const char *what, double seen, double from, double below) {
    const bool good = seen >= from && seen < below;
    std::printf("  %-36s %.1e%s\n", what, seen, good ? "" : "  WRONG");
    is_bad |= !good;
}

static void fill(Tensor &tensor, std::mt19937 &random) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    auto *values = reinterpret_cast<float *>(tensor.buffer());
    for (size_t i = 0; i < tensor.info()->total_size() / sizeof(float); i++) values[i] = uniform(random);
}

// Root-mean-square error of an m × n × k product, relative to that of the exact result.
static double gemm_error(int m, int n, int k, bool fast_math) {
    Tensor a, b, c;
    a.allocator()->init(TensorInfo(TensorShape(k, m), 1, DataType::F32));
    b.allocator()->init(TensorInfo(TensorShape(n, k), 1, DataType::F32));
    c.allocator()->init(TensorInfo(TensorShape(n, m), 1, DataType::F32));
    GEMMInfo how(false, false, true);
    how.set_fast_math(fast_math);
    NEGEMM gemm;
    gemm.configure(&a, &b, nullptr, &c, 1.f, 0.f, how);
    for (Tensor *tensor : {&a, &b, &c}) tensor->allocator()->allocate();
    std::mt19937 random(1);
    fill(a, random);
    fill(b, random);
    const auto *x = reinterpret_cast<const float *>(a.buffer());
    const auto *y = reinterpret_cast<const float *>(b.buffer());
    const auto *z = reinterpret_cast<const float *>(c.buffer());
    std::vector<double> exact(static_cast<size_t>(m) * n);
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++) exact[i * n + j] += static_cast<double>(x[i * k + l]) * y[l * n + j];
    gemm.run();
    double difference = 0, size = 0;
    for (size_t i = 0; i < exact.size(); i++) {
        difference += (z[i] - exact[i]) * (z[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    return std::sqrt(difference / size);
}

static void check_fixed_format(bool expects_bf16) {
    const TensorInfo a(TensorShape(256, 128), 1, DataType::F32), b(TensorShape(64, 256), 1, DataType::F32),
        c(TensorShape(64, 128), 1, DataType::F32);
    for (const bool fast_math : {false, true}) {
        WeightFormat format = WeightFormat::ANY;
        GEMMInfo how(false, false, true);
        how.set_fixed_format(true);
        how.set_weight_format(WeightFormat::ANY);
        how.set_fast_math(fast_math);
        const Status status = NEGEMM::has_opt_impl(format, &a, &b, nullptr, &c, 1.f, 0.f, how);
        const bool is_bf16 = (static_cast<int>(format) & 0x10) != 0; // WeightFormat's own bit for *_bf16
        const bool good = bool(status) && is_bf16 == (fast_math && expects_bf16);
        std::printf("fixed format, fast math %d: %s 0x%x%s%s\n", fast_math, bool(status) ? "found" : "none",
                    static_cast<unsigned>(format), is_bf16 ? " bf16" : "", good ? "" : "  WRONG");
        is_bad |= !good;
    }
}

int main(int argc, char **argv) {
    if (argc != 2 || (std::strcmp(argv[1], "bf16") != 0 && std::strcmp(argv[1], "no-bf16") != 0)) {
        std::fputs("usage: check-acl bf16|no-bf16 (what the CPU has)\n", stderr);
        return 2;
    }
    const bool expects_bf16 = std::strcmp(argv[1], "bf16") == 0;
    const CPUInfo &cpu = CPUInfo::get();
    std::printf("bf16 %d, SVE %d, SVE2 %d, i8mm %d, %u threads\n", cpu.has_bf16(), cpu.has_sve(), cpu.has_sve2(),
                cpu.has_i8mm(), NEScheduler::get().num_threads());
    if (cpu.has_bf16() != expects_bf16) {
        std::puts("WRONG: ACL detects a CPU other than the expected one");
        is_bad = true;
    }
    const int shapes[][3] = {{128, 64, 256}, {61, 37, 129}};
    for (const auto &shape : shapes) {
        std::printf("m=%d n=%d k=%d\n", shape[0], shape[1], shape[2]);
        judge("fp32", gemm_error(shape[0], shape[1], shape[2], false), 0, 1e-6);
        const double fast = gemm_error(shape[0], shape[1], shape[2], true);
        if (expects_bf16)
            judge("fast math", fast, 6e-4, 1e-2);
        else
            judge("fast math", fast, 0, 1e-6);
    }
    check_fixed_format(expects_bf16);
    std::puts(is_bad ? "FAILED" : "passed");
    return is_bad;
}
