/* Compare sgemm_ and sbgemm_ of the linked OpenBLAS with double precision: check-gemm EXPECTED_CORE
 *
 * Prints the core that OpenBLAS selected and, per shape, the root-mean-square error relative to the exact result.
 * sbgemm is compared twice: with the product of the operands rounded to bf16 (the kernel's own error, that of fp32
 * sums) and with the product of the fp32 operands (the error that a user sees, about 2e-3). Exit status 1 if an error
 * is out of bounds or the core is another one. The core alone does not prove which instructions ran: see
 * check-openblas. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char *openblas_get_corename(void);
extern char *openblas_get_config(void);
extern void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                   const int *, const float *, const int *, const float *, float *, const int *);
extern void sbgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const uint16_t *,
                    const int *, const uint16_t *, const int *, const float *, float *, const int *);
extern void sgesv_(const int *, const int *, float *, const int *, int *, float *, const int *, int *);

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); /* round to nearest even; no NaN here */
}

static float from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float uniform(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (float)((double)(state >> 11) / 4503599627370496.0 - 1.0);
}

static double *exact(char transposed, int m, int n, int k, const float *a, const float *b) {
    double *c = malloc(sizeof *c * m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (double)(transposed == 'T' ? a[l + (size_t)i * k] : a[i + (size_t)l * m]) * b[l + (size_t)j * k];
            c[i + (size_t)j * m] = sum;
        }
    return c;
}

static double error(int count, const float *seen, const double *wanted) {
    double difference = 0, size = 0;
    for (int i = 0; i < count; i++) {
        difference += (seen[i] - wanted[i]) * (seen[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return sqrt(difference / size);
}

static int is_bad;

static void judge(const char *what, double seen, double from, double below) {
    int good = seen >= from && seen < below; /* false for NaN */
    printf("  %-28s %.1e%s\n", what, seen, good ? "" : "  WRONG");
    is_bad |= !good;
}

static void check(char transposed, int m, int n, int k) {
    size_t a_count = (size_t)m * k, b_count = (size_t)k * n, c_count = (size_t)m * n;
    float *a = malloc(sizeof *a * a_count), *b = malloc(sizeof *b * b_count), *c = malloc(sizeof *c * c_count);
    float *a_rounded = malloc(sizeof *a * a_count), *b_rounded = malloc(sizeof *b * b_count);
    uint16_t *a16 = malloc(sizeof *a16 * a_count), *b16 = malloc(sizeof *b16 * b_count);
    for (size_t i = 0; i < a_count; i++) a[i] = uniform(), a16[i] = to_bf16(a[i]), a_rounded[i] = from_bf16(a16[i]);
    for (size_t i = 0; i < b_count; i++) b[i] = uniform(), b16[i] = to_bf16(b[i]), b_rounded[i] = from_bf16(b16[i]);
    double *wanted = exact(transposed, m, n, k, a, b), *wanted16 = exact(transposed, m, n, k, a_rounded, b_rounded);
    float one = 1, zero = 0;
    int lda = transposed == 'T' ? k : m;

    printf("%c m=%d n=%d k=%d\n", transposed, m, n, k);
    memset(c, 0xff, sizeof *c * c_count); /* NaN: beta = 0 must not read it */
    sgemm_(&transposed, "N", &m, &n, &k, &one, a, &lda, b, &k, &zero, c, &m);
    judge("sgemm", error(m * n, c, wanted), 0, 1e-6);
    memset(c, 0xff, sizeof *c * c_count);
    sbgemm_(&transposed, "N", &m, &n, &k, &one, a16, &lda, b16, &k, &zero, c, &m);
    judge("sbgemm, of rounded operands", error(m * n, c, wanted16), 0, 1e-6);
    if (m * n > 100) judge("sbgemm, of fp32 operands", error(m * n, c, wanted), 6e-4, 1e-2);
    free(a), free(b), free(c), free(a_rounded), free(b_rounded), free(a16), free(b16), free(wanted), free(wanted16);
}

/* Check that the library has a working LAPACK: solve a diagonally dominant system whose solution is 1, 1, … */
static void check_solve(int n) {
    float *a = malloc(sizeof *a * n * n), *x = calloc(n, sizeof *x);
    double *ones = malloc(sizeof *ones * n);
    int *pivots = malloc(sizeof *pivots * n), one = 1, info = -1;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            a[i + (size_t)j * n] = uniform() + (i == j ? n : 0);
            x[i] += a[i + (size_t)j * n];
        }
    for (int i = 0; i < n; i++) ones[i] = 1;
    sgesv_(&n, &one, a, &n, pivots, x, &n, &info);
    printf("sgesv n=%d info=%d\n", n, info);
    is_bad |= info != 0;
    judge("solution", error(n, x, ones), 0, 1e-5);
    free(a), free(x), free(ones), free(pivots);
}

int main(int argc, char **argv) {
    printf("core %s\n%s\n", openblas_get_corename(), openblas_get_config());
    if (argc > 1 && strcmp(argv[1], openblas_get_corename()) != 0) {
        printf("WRONG: the core for this CPU must be %s\n", argv[1]);
        is_bad = 1;
    }
    check('N', 128, 128, 256);
    check('T', 128, 128, 256);
    check('N', 61, 37, 129); /* not a multiple of any kernel's tile */
    check('T', 61, 37, 129);
    check('N', 1, 1, 7);
    check_solve(64);
    puts(is_bad ? "FAILED" : "passed");
    return is_bad;
}
