/* A forest of 101 trees on rows of 30 numbers, as C99 without dependencies. Written by rfsize.

 * int tumour_predict(const double *row)
 *     The index of the row's class, 0 to 1.
 * int tumour_predict_trees(const double *row, int *asked)
 *     The same, and how many trees the row asked.
 * void tumour_predict_proba(const double *row, double *probabilities)
 *     The probabilities of all 2 classes.
 * void tumour_predict_many(const double *rows, size_t n_rows, int *classes, int *asked)
 * void tumour_predict_proba_many(const double *rows, size_t n_rows, double *probabilities)
 *     The same of many rows, one after another; asked may be a null pointer.
 * const char *tumour_class_label(int index)
 *     The label of a class in UTF-8, a null pointer where there is none.
 *
 * A missing value is NaN, and a category the number that it had at training.
 * Nothing is allocated, and nothing kept between calls, so that threads may share all of it.
 *
 * Floating-point numbers must be those of IEEE 754, evaluated in their own precision: leave out -ffast-math, and where
 * the processor has fused multiplication and addition, give -std=c99 or -ffp-contract=off. */

#include <stddef.h>
#include <stdint.h>
#include <math.h>

int tumour_predict(const double *row);
int tumour_predict_trees(const double *row, int *asked);
void tumour_predict_proba(const double *row, double *probabilities);
void tumour_predict_many(const double *rows, size_t n_rows, int *classes, int *asked);
void tumour_predict_proba_many(const double *rows, size_t n_rows, double *probabilities);
const char *tumour_class_label(int index);

typedef float cut;
typedef uint8_t level; /* a rank among the cuts of a feature */
enum { NUMERIC_ENTRIES = 30, ENTRIES = 30, COLUMNS = 30 };
enum { NUMERIC_COLUMNS = 30, HIGHEST = 255 };
static const uint8_t feature[30] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
    28, 29
};
static const uint8_t cut_start[31] = {
    0, 13, 25, 37, 46, 50, 51, 66, 81, 84, 85, 88, 89, 96, 103, 108, 109, 110, 113, 115, 121, 140,
    150, 167, 183, 188, 192, 205, 217, 222, 223
};
static const cut cuts[223] = {
    0x1.8c7aep+3, 0x1.b61478p+3, 0x1.cf5c26p+3, 0x1.cffffep+3, 0x1.d9eb84p+3, 0x1.dccccap+3, 0x1.de6664p+3,
    0x1.deb85p+3, 0x1.df0a3cp+3, 0x1.dffffep+3, 0x1.e61478p+3, 0x1.e8a3d6p+3, 0x1.e8f5cp+3, 0x1.fccccap+3,
    0x1.0051eap+4, 0x1.02b85p+4, 0x1.0fd708p+4, 0x1.130a3cp+4, 0x1.1ae146p+4, 0x1.2deb84p+4, 0x1.359998p+4,
    0x1.43fffep+4, 0x1.4ab85p+4, 0x1.5970a2p+4, 0x1.8970a2p+4, 0x1.4a70a2p+6, 0x1.4b8f5ap+6, 0x1.6bd708p+6,
    0x1.78fffep+6, 0x1.791eb6p+6, 0x1.807aep+6, 0x1.81ae12p+6, 0x1.869998p+6, 0x1.875c26p+6, 0x1.88ae12p+6,
    0x1.8a8f5ap+6, 0x1.90cccap+6, 0x1.a13332p+8, 0x1.dcb332p+8, 0x1.42d998p+9, 0x1.496664p+9, 0x1.516664p+9,
    0x1.57a664p+9, 0x1.60cccap+9, 0x1.64a664p+9, 0x1.6c1998p+9, 0x1.45e0b2p-4, 0x1.7d4beep-4, 0x1.85c67cp-4,
    0x1.c63f12p-4, 0x1.151828p-3, 0x1.d9018cp-5, 0x1.0fcf7ep-4, 0x1.22b16ep-4, 0x1.5f6fdp-4, 0x1.6a2b16p-4,
    0x1.725c3cp-4, 0x1.7bdceep-4, 0x1.80884ep-4, 0x1.935546p-4, 0x1.9d495p-4, 0x1.9db22cp-4, 0x1.a85878p-4,
    0x1.ba5e34p-4, 0x1.c8b438p-4, 0x1.cb9238p-4, 0x1.644522p-5, 0x1.7064eap-5, 0x1.732df4p-5, 0x1.75b812p-5,
    0x1.8c154ap-5, 0x1.8cfbfap-5, 0x1.94855cp-5, 0x1.9fa97cp-5, 0x1.a91536p-5, 0x1.aed138p-5, 0x1.b76b3ap-5,
    0x1.c9c4d8p-5, 0x1.ca6c9ep-5, 0x1.ed527cp-5, 0x1.2ca578p-4, 0x1.3e76c6p-3, 0x1.61b088p-3, 0x1.bb98c6p-3,
    0x1.cdc874p-5, 0x1.e90ff8p-3, 0x1.f58e2p-3, 0x1.074536p-2, 0x1.326e96p+0, 0x1.d47aep+0, 0x1.076c8ap+1,
    0x1.2e76c6p+1, 0x1.3020c2p+1, 0x1.522d0cp+1, 0x1.61eb84p+1, 0x1.73958p+1, 0x1.5e8f5ap+4, 0x1.83fffep+4,
    0x1.8e8f5ap+4, 0x1.e91eb6p+4, 0x1.effffep+4, 0x1.0ca3d6p+5, 0x1.24a3d6p+5, 0x1.c9b412p-9, 0x1.ca18bcp-9,
    0x1.dba906p-9, 0x1.df97a8p-9, 0x1.53cddcp-7, 0x1.40cc76p-5, 0x1.7d9556p-5, 0x1.a415f2p-7, 0x1.38ef32p-6,
    0x1.71f36p-6, 0x1.d1f6p-7, 0x1.0941c6p-6, 0x1.600f32p-10, 0x1.6a0556p-10, 0x1.7763e2p-10, 0x1.4e5d5ap-9,
    0x1.7dae8p-8, 0x1.32f878p-7, 0x1.d61478p+3, 0x1.dae146p+3, 0x1.deb85p+3, 0x1.e2e146p+3, 0x1.efae12p+3,
    0x1.f3851cp+3, 0x1.f428f4p+3, 0x1.f4cccap+3, 0x1.f7fffep+3, 0x1.fc7aep+3, 0x1.033332p+4, 0x1.035c26p+4,
    0x1.03fffep+4, 0x1.04cccap+4, 0x1.0547acp+4, 0x1.0c28f4p+4, 0x1.0d70a2p+4, 0x1.161478p+4, 0x1.1ab85p+4,
    0x1.3ee146p+4, 0x1.6d70a2p+4, 0x1.97ae12p+4, 0x1.9947acp+4, 0x1.b028f4p+4, 0x1.b428f4p+4, 0x1.d26664p+4,
    0x1.d3fffep+4, 0x1.e5eb84p+4, 0x1.1ab85p+5, 0x1.813d6ep+6, 0x1.869998p+6, 0x1.86a3d6p+6, 0x1.879998p+6,
    0x1.96cccap+6, 0x1.99fffep+6, 0x1.9f9998p+6, 0x1.a7fffep+6, 0x1.adfffep+6, 0x1.b19998p+6, 0x1.b46664p+6,
    0x1.b5fffep+6, 0x1.c46664p+6, 0x1.c6cccap+6, 0x1.c73332p+6, 0x1.cbfffep+6, 0x1.d6cccap+6, 0x1.52f332p+9,
    0x1.6c2664p+9, 0x1.74a664p+9, 0x1.768ccap+9, 0x1.76f332p+9, 0x1.770ccap+9, 0x1.7f7332p+9, 0x1.807332p+9,
    0x1.89f332p+9, 0x1.94e664p+9, 0x1.95a664p+9, 0x1.998ccap+9, 0x1.9f7332p+9, 0x1.b2a664p+9, 0x1.c59998p+9,
    0x1.dfbffep+9, 0x1.38ef32p-3, 0x1.3f487ep-3, 0x1.4ea4a6p-3, 0x1.5bf486p-3, 0x1.6cf41ep-3, 0x1.61b088p-2,
    0x1.6631f6p-2, 0x1.7295e8p-2, 0x1.73679ep-2, 0x1.8bac7p-3, 0x1.9f559ap-3, 0x1.a9c778p-3, 0x1.caf4eep-3,
    0x1.f318fap-3, 0x1.03958p-2, 0x1.4f0d82p-2, 0x1.60275p-2, 0x1.67381cp-2, 0x1.76fd2p-2, 0x1.77318ep-2,
    0x1.91687p-2, 0x1.a0aa62p-2, 0x1.a7ef9cp-4, 0x1.c779a4p-4, 0x1.e5604p-4, 0x1.f5c28ep-4, 0x1.0f5c26p-3,
    0x1.16f004p-3, 0x1.20275p-3, 0x1.236e2cp-3, 0x1.23a29ap-3, 0x1.285878p-3, 0x1.2a3054p-3, 0x1.4985eep-3,
    0x1.0a2338p-2, 0x1.13404cp-2, 0x1.3fe5c8p-2, 0x1.67a0f8p-2, 0x1.6f1a9ep-2, 0x1.ad42c2p-4
};
static const uint8_t column_start[31] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
    28, 29, 30
};

/* A value as the framework of the forest reads it, NaN where it is missing. */
static double as_read(double value)
{
    double number = (double)(float)value;
    return number;
}

/* How many of the ascending cuts of an entry are below a number. */
static int32_t rank_among(int entry, double number)
{
    const cut *first = cuts + cut_start[entry];
    size_t size = (size_t)cut_start[entry + 1] - (size_t)cut_start[entry], below = 0;
    while (size > 1) {
        const size_t half = size / 2;
        below += first[below + half - 1] < number ? half : 0;
        size -= half;
    }
    return (int32_t)(below + (size_t)(size == 1 && first[below] < number));
}

static const uint8_t missing[30] = {
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3
};
static const uint8_t base[30] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
};

/* What a column holds of a value: its rank, or where missing values go. */
static level compared(double value, int32_t rank, int column)
{
    const int is_missing = value != value, is_zero = is_missing || value == 0.0;
    switch (missing[column]) {
    case 1: if (is_zero) return HIGHEST; break;
    case 2: if (is_zero) return 0; break;
    case 3: if (is_missing) return HIGHEST; break;
    case 4: if (is_missing) return 0; break;
    }
    rank -= (int32_t)base[column];
    return (level)(rank < 0 ? 0 : rank > HIGHEST ? HIGHEST : rank);
}

static void quantise_numbers(const double *row, level *q)
{
    for (int entry = 0; entry < NUMERIC_ENTRIES; entry++) {
        const double value = as_read(row[feature[entry]]);
        const int32_t rank = rank_among(entry, value != value ? 0.0 : value);
        for (int column = column_start[entry]; column < column_start[entry + 1]; column++)
            q[column] = compared(value, rank, column);
    }
}

static void quantise(const double *row, level *q)
{
    quantise_numbers(row, q);
}

static const float scores[120] = {
    0x1.e7c00cp-12f, -0x1.7e4c0ep-6f, 0x1.77f20ep-7f, 0x1.786812p-10f, -0x1.7b2a16p-6f, -0x1.a3de16p-7f,
    -0x1.705218p-6f, -0x1.806c18p-6f, 0x1.4dae1ap-7f, 0x1.fc921cp-7f, 0x1.f90a1cp-7f, -0x1.02b22p-6f,
    -0x1.e70a22p-7f, -0x1.7a7624p-6f, -0x1.617826p-7f, 0x1.1c502ap-8f, -0x1.81d632p-6f, 0x1.5e143ap-7f,
    0x1.ea663ap-7f, -0x1.778244p-6f, -0x1.1a3246p-6f, 0x1.eb6a48p-7f, 0x1.a6ce4ap-7f, -0x1.84fc5ap-10f,
    0x1.a83262p-8f, 0x1.fb6464p-7f, 0x1.f1ac64p-7f, 0x1.ec626ap-7f, -0x1.759a6ap-6f, -0x1.123a7p-7f,
    0x1.3a1072p-7f, 0x1.fbb272p-7f, 0x1.fb147cp-7f, -0x1.66a28p-6f, -0x1.647a84p-6f, 0x1.3b5e84p-8f,
    -0x1.6ca09p-6f, 0x1.222e98p-7f, 0x1.9376a2p-7f, -0x1.2376a4p-6f, 0x1.fac2a6p-7f, 0x1.04d6a8p-7f,
    -0x1.7128acp-6f, -0x1.7756acp-6f, 0x1.f966acp-7f, -0x1.fddcbp-8f, 0x1.f550b4p-7f, -0x1.79bab6p-6f,
    0x1.fbfeb6p-7f, -0x1.781acp-6f, -0x1.80e8ccp-6f, -0x1.74ecdp-6f, 0x1.fa6ed4p-7f, -0x1.59d2d8p-9f,
    0x1.b43edap-10f, -0x1.0f68dap-6f, -0x1.b7ecdcp-8f, -0x1.76e4e2p-6f, 0x1.f6a8ecp-7f, -0x1.72beecp-6f,
    0x1.f9c0ecp-7f, 0x1.180eeep-7f, 0x1.f77eeep-7f, 0x1.fa18f2p-7f, -0x1.817af6p-9f, 0x1.dceef8p-8f,
    -0x1.af34f8p-7f, -0x1.9ff6f8p-8f, 0x1.fb6afap-9f, -0x1.872702p-7f, -0x1.7bd704p-6f, -0x1.314b0ep-8f,
    -0x1.6d9b14p-6f, 0x1.fedf18p-7f, -0x1.7feb18p-6f, 0x1.6a1124p-9f, 0x1.f8ab28p-7f, 0x1.fd6338p-7f,
    -0x1.74393cp-6f, 0x1.fc493ep-7f, -0x1.824742p-6f, -0x1.62694ap-6f, -0x1.6f734ep-6f, 0x1.82535p-7f,
    -0x1.7c7d5p-6f, -0x1.7edb56p-6f, 0x1.e95558p-7f, -0x1.8bcf58p-7f, -0x1.7d1d5ep-6f, 0x1.f71562p-7f,
    -0x1.737f62p-6f, -0x1.779b62p-13f, 0x1.f63968p-7f, 0x1.ed4f6cp-7f, -0x1.816172p-6f, 0x1.e9df72p-7f,
    0x1.691d74p-8f, -0x1.2deb74p-7f, -0x1.71f77ap-6f, -0x1.7db78p-6f, -0x1.782b86p-6f, -0x1.6bf39p-6f,
    -0x1.7f6598p-6f, 0x1.28bf9ap-7f, -0x1.749b9cp-6f, 0x1.f7e5aap-7f, -0x1.6a8bb2p-6f, 0x1.f849b6p-7f,
    -0x1.6615bep-7f, 0x1.4fcfc8p-7f, 0x1.ebe7cap-7f, -0x1.6e8bccp-6f, 0x1.e8c7dp-7f, -0x1.e6f9dep-7f,
    -0x1.33c9ep-8f, -0x1.2f8de4p-8f, 0x1.fda5ecp-7f, -0x1.696ff2p-6f, -0x1.f109f6p-11f, -0x1.c1f1f6p-7f
};
static const uint8_t which[507] = {
    81, 119, 89, 15, 34, 40, 15, 53, 113, 21, 91, 74, 8, 97, 40, 68, 84, 8, 11, 97, 114, 85,
    37, 91, 52, 15, 77, 114, 118, 4, 97, 91, 98, 63, 53, 2, 10, 15, 54, 88, 70, 14, 63, 83,
    114, 106, 95, 91, 119, 6, 12, 44, 14, 56, 53, 13, 52, 91, 8, 40, 35, 8, 114, 7, 63, 91,
    19, 119, 37, 97, 35, 33, 15, 31, 51, 87, 46, 30, 91, 77, 54, 75, 59, 72, 56, 52, 8, 71,
    56, 102, 62, 15, 66, 8, 114, 47, 114, 52, 114, 30, 84, 107, 67, 37, 91, 30, 63, 114, 104, 53,
    113, 114, 75, 1, 15, 62, 82, 114, 112, 3, 59, 76, 83, 87, 88, 76, 15, 2, 29, 82, 15, 3,
    20, 15, 63, 91, 15, 76, 15, 23, 99, 94, 114, 114, 32, 35, 114, 100, 60, 68, 91, 11, 114, 4,
    52, 91, 91, 97, 43, 93, 30, 91, 39, 56, 7, 15, 44, 54, 113, 117, 46, 15, 61, 87, 99, 119,
    44, 103, 14, 117, 56, 107, 37, 91, 105, 99, 8, 91, 29, 37, 90, 107, 15, 15, 119, 59, 114, 76,
    91, 36, 21, 87, 53, 47, 116, 91, 15, 97, 15, 62, 15, 71, 7, 90, 79, 15, 3, 119, 76, 65,
    85, 30, 91, 101, 14, 60, 91, 13, 32, 15, 53, 55, 52, 91, 3, 119, 84, 114, 114, 24, 15, 52,
    114, 4, 64, 15, 85, 60, 15, 1, 71, 76, 114, 61, 60, 71, 91, 102, 91, 42, 63, 15, 30, 53,
    91, 75, 70, 63, 15, 27, 71, 114, 88, 59, 9, 96, 119, 37, 97, 63, 23, 36, 114, 32, 119, 99,
    87, 91, 37, 71, 91, 107, 15, 29, 1, 57, 44, 8, 14, 42, 114, 54, 15, 32, 27, 114, 70, 56,
    96, 44, 91, 68, 59, 90, 58, 15, 87, 109, 114, 115, 1, 15, 15, 92, 62, 97, 38, 53, 99, 18,
    91, 37, 82, 31, 29, 114, 98, 90, 67, 3, 15, 15, 79, 29, 37, 90, 86, 91, 4, 73, 39, 3,
    111, 119, 91, 44, 114, 30, 23, 64, 50, 105, 35, 91, 114, 7, 10, 15, 70, 15, 31, 37, 91, 55,
    95, 43, 97, 37, 99, 52, 37, 12, 91, 37, 62, 80, 37, 56, 114, 15, 32, 0, 96, 28, 64, 91,
    70, 25, 15, 26, 22, 115, 0, 99, 119, 114, 84, 52, 75, 104, 45, 93, 15, 76, 75, 15, 47, 119,
    91, 42, 48, 15, 29, 71, 47, 40, 91, 8, 60, 15, 115, 1, 46, 15, 88, 37, 114, 15, 71, 67,
    88, 48, 15, 58, 37, 37, 114, 67, 99, 98, 114, 40, 41, 114, 110, 114, 85, 30, 114, 11, 14, 91,
    98, 58, 30, 91, 100, 18, 96, 108, 52, 15, 23, 84, 63, 15, 16, 2, 97, 98, 5, 52, 15, 88,
    60, 17, 97, 15, 69, 114, 13, 15, 25, 78, 89, 30, 91, 11, 91, 24, 49, 79, 15, 32, 91, 29,
    99
};

typedef struct {
    int8_t child[2];
    uint8_t rank;
    uint8_t column;
} split;
static const split splits[406] = {
    {{1, -1}, 7, 27}, {{2, -2}, 8, 3}, {{-3, -4}, 8, 26}, {{1, -1}, 12, 0}, {{2, 3}, 8, 27},
    {{-2, -3}, 8, 22}, {{-4, -5}, 8, 1}, {{1, 2}, 6, 7}, {{-1, -2}, 5, 13}, {{3, -3}, 8, 23},
    {{-4, -5}, 7, 26}, {{1, 2}, 6, 7}, {{-1, -2}, 7, 20}, {{3, -3}, 1, 21}, {{-4, -5}, 10, 0},
    {{1, 2}, 12, 23}, {{3, -1}, 3, 24}, {{-2, -3}, 1, 6}, {{4, 5}, 0, 9}, {{-4, -5}, 0, 4},
    {{-6, -7}, 8, 22}, {{1, 2}, 12, 7}, {{-1, -2}, 7, 3}, {{-3, -4}, 8, 27}, {{1, 2}, 13, 7},
    {{3, -1}, 12, 0}, {{-2, -3}, 4, 26}, {{-4, 4}, 7, 21}, {{-5, -6}, 10, 1}, {{1, 2}, 6, 7},
    {{-1, -2}, 9, 0}, {{-3, -4}, 8, 23}, {{1, -1}, 9, 2}, {{2, -2}, 2, 24}, {{-3, 3}, 6, 21},
    {{-4, -5}, 3, 20}, {{1, -1}, 16, 20}, {{-2, 2}, 12, 7}, {{-3, -4}, 0, 2}, {{1, -1}, 6, 3},
    {{2, -2}, 4, 28}, {{-3, -4}, 12, 6}, {{1, 2}, 11, 22}, {{3, -1}, 11, 26}, {{-2, -3}, 14, 23},
    {{-4, 4}, 1, 27}, {{-5, -6}, 3, 19}, {{1, 2}, 6, 7}, {{-1, -2}, 5, 20}, {{-3, 3}, 6, 22},
    {{-4, -5}, 10, 20}, {{1, 2}, 8, 22}, {{-1, 3}, 11, 26}, {{-2, -3}, 1, 10}, {{-4, -5}, 0, 16},
    {{1, 2}, 7, 6}, {{3, -1}, 12, 0}, {{-2, -3}, 2, 2}, {{-4, -5}, 2, 19}, {{1, -1}, 8, 27},
    {{2, -2}, 10, 2}, {{3, -3}, 0, 9}, {{-4, -5}, 2, 1}, {{1, 2}, 8, 7}, {{-1, -2}, 8, 23},
    {{-3, -4}, 8, 20}, {{1, -1}, 15, 22}, {{2, -2}, 0, 24}, {{-3, 3}, 7, 6}, {{-4, -5}, 4, 22},
    {{1, 2}, 13, 23}, {{3, 4}, 9, 26}, {{-1, -2}, 2, 12}, {{-3, 5}, 5, 22}, {{-4, -5}, 2, 4},
    {{-6, -7}, 6, 1}, {{1, -1}, 11, 22}, {{2, -2}, 2, 24}, {{-3, 3}, 7, 20}, {{-4, -5}, 4, 2},
    {{1, -1}, 16, 22}, {{2, 3}, 8, 7}, {{-2, 4}, 7, 20}, {{-3, -4}, 0, 11}, {{-5, -6}, 0, 10},
    {{1, 2}, 14, 23}, {{-1, 3}, 7, 6}, {{-2, -3}, 0, 8}, {{-4, -5}, 13, 6}, {{1, 2}, 7, 6},
    {{3, -1}, 17, 20}, {{-2, -3}, 4, 20}, {{-4, -5}, 2, 19}, {{1, -1}, 14, 22}, {{2, -2}, 0, 25},
    {{-3, -4}, 9, 22}, {{1, -1}, 14, 22}, {{-2, 2}, 3, 7}, {{-3, -4}, 2, 21}, {{1, -1}, 14, 23},
    {{2, 3}, 5, 23}, {{-2, -3}, 3, 4}, {{-4, -5}, 4, 6}, {{1, -1}, 10, 2}, {{2, 3}, 7, 27},
    {{4, -2}, 8, 6}, {{-3, -4}, 5, 21}, {{-5, -6}, 1, 19}, {{1, 2}, 7, 7}, {{3, -1}, 8, 0},
    {{-2, 4}, 3, 26}, {{-3, -4}, 9, 21}, {{-5, -6}, 9, 20}, {{1, -1}, 16, 20}, {{2, -2}, 4, 28},
    {{3, -3}, 10, 27}, {{-4, -5}, 8, 23}, {{1, 2}, 5, 0}, {{3, 4}, 12, 7}, {{-1, -2}, 9, 7},
    {{-3, -4}, 7, 20}, {{-5, -6}, 14, 6}, {{1, 2}, 13, 23}, {{3, 4}, 9, 26}, {{-1, -2}, 2, 6},
    {{-3, -4}, 9, 6}, {{-5, -6}, 0, 0}, {{1, -1}, 11, 2}, {{-2, 2}, 0, 7}, {{-3, 3}, 1, 28},
    {{-4, -5}, 4, 21}, {{1, 2}, 13, 23}, {{3, 4}, 5, 27}, {{-1, -2}, 2, 12}, {{-3, -4}, 0, 14},
    {{-5, -6}, 3, 25}, {{1, -1}, 17, 20}, {{2, 3}, 2, 23}, {{-2, -3}, 2, 8}, {{-4, -5}, 7, 7},
    {{1, -1}, 13, 22}, {{2, -2}, 3, 28}, {{-3, 3}, 7, 20}, {{-4, -5}, 9, 1}, {{1, -1}, 12, 23},
    {{2, -2}, 4, 28}, {{-3, 3}, 8, 21}, {{-4, -5}, 0, 3}, {{1, 2}, 8, 7}, {{3, -1}, 0, 18},
    {{4, -2}, 7, 23}, {{-3, -4}, 0, 1}, {{-5, -6}, 1, 17}, {{1, -1}, 13, 23}, {{2, 3}, 12, 7},
    {{-2, -3}, 10, 6}, {{-4, -5}, 2, 22}, {{1, -1}, 11, 22}, {{2, -2}, 2, 25}, {{-3, -4}, 9, 26},
    {{1, -1}, 15, 20}, {{-2, -3}, 11, 26}, {{1, 2}, 12, 23}, {{3, 4}, 12, 7}, {{-1, -2}, 16, 22},
    {{-3, -4}, 10, 6}, {{-5, -6}, 8, 1}, {{1, 2}, 5, 7}, {{-1, -2}, 1, 19}, {{-3, 3}, 0, 13},
    {{-4, -5}, 7, 22}, {{1, -1}, 15, 23}, {{2, 3}, 7, 27}, {{-2, -3}, 6, 2}, {{-4, -5}, 2, 28},
    {{1, 2}, 8, 7}, {{-1, 3}, 3, 2}, {{-2, -3}, 1, 20}, {{-4, -5}, 7, 1}, {{1, -1}, 8, 27},
    {{2, -2}, 6, 3}, {{-3, -4}, 9, 6}, {{1, -1}, 11, 0}, {{2, 3}, 8, 27}, {{-2, -3}, 9, 26},
    {{-4, -5}, 11, 27}, {{1, 2}, 1, 27}, {{-1, -2}, 7, 0}, {{3, 4}, 3, 12}, {{-3, -4}, 1, 18},
    {{-5, -6}, 2, 17}, {{1, 2}, 4, 6}, {{3, -1}, 11, 0}, {{4, -2}, 5, 19}, {{-3, -4}, 1, 14},
    {{-5, -6}, 9, 27}, {{1, 2}, 12, 7}, {{3, -1}, 5, 13}, {{-2, -3}, 2, 20}, {{-4, -5}, 4, 0},
    {{1, -1}, 15, 22}, {{2, -2}, 14, 7}, {{-3, 3}, 8, 20}, {{-4, -5}, 3, 0}, {{1, 2}, 11, 22},
    {{-1, -2}, 8, 27}, {{-3, -4}, 5, 7}, {{1, 2}, 3, 13}, {{3, -1}, 3, 4}, {{4, -2}, 12, 22},
    {{-3, -4}, 6, 0}, {{-5, -6}, 1, 7}, {{1, 2}, 8, 7}, {{3, -1}, 7, 2}, {{-2, -3}, 3, 23},
    {{-4, -5}, 11, 1}, {{1, 2}, 12, 22}, {{-1, -2}, 8, 27}, {{-3, -4}, 10, 7}, {{1, -1}, 15, 22},
    {{2, 3}, 12, 26}, {{-2, 4}, 4, 7}, {{-3, -4}, 3, 22}, {{-5, -6}, 7, 23}, {{1, 2}, 12, 7},
    {{-1, -2}, 9, 20}, {{-3, -4}, 4, 14}, {{1, 2}, 5, 6}, {{-1, -2}, 18, 20}, {{3, -3}, 12, 20},
    {{-4, 4}, 0, 15}, {{-5, -6}, 1, 3}, {{1, 2}, 13, 20}, {{3, -1}, 4, 27}, {{-2, 4}, 0, 12},
    {{-3, -4}, 3, 23}, {{-5, -6}, 16, 22}, {{1, -1}, 14, 22}, {{-2, 2}, 8, 20}, {{-3, -4}, 2, 21},
    {{1, -1}, 11, 22}, {{2, -2}, 1, 25}, {{3, -3}, 3, 27}, {{-4, -5}, 3, 14}, {{1, 2}, 5, 6},
    {{-1, -2}, 11, 0}, {{3, -3}, 9, 23}, {{-4, -5}, 0, 17}, {{1, 2}, 8, 7}, {{-1, -2}, 5, 13},
    {{-3, -4}, 3, 23}, {{1, -1}, 18, 20}, {{2, 3}, 4, 22}, {{-2, -3}, 11, 26}, {{-4, -5}, 2, 3},
    {{1, 2}, 12, 7}, {{3, -1}, 5, 3}, {{-2, -3}, 6, 23}, {{4, -4}, 6, 12}, {{-5, -6}, 2, 19},
    {{1, 2}, 5, 26}, {{-1, -2}, 11, 2}, {{-3, 3}, 0, 22}, {{-4, -5}, 3, 23}, {{1, 2}, 8, 7},
    {{-1, -2}, 8, 2}, {{-3, -4}, 0, 20}, {{1, 2}, 8, 27}, {{-1, -2}, 5, 3}, {{-3, -4}, 4, 1},
    {{1, -1}, 16, 20}, {{2, -2}, 0, 29}, {{3, -3}, 9, 22}, {{4, -4}, 8, 7}, {{-5, -6}, 0, 19},
    {{1, 2}, 4, 13}, {{3, -1}, 1, 24}, {{-2, -3}, 1, 26}, {{-4, -5}, 8, 7}, {{1, -1}, 12, 0},
    {{-2, 2}, 10, 26}, {{-3, -4}, 4, 19}, {{1, -1}, 15, 22}, {{2, -2}, 4, 24}, {{3, -3}, 8, 0},
    {{-4, 4}, 5, 22}, {{-5, -6}, 2, 0}, {{1, 2}, 12, 7}, {{3, -1}, 5, 12}, {{-2, -3}, 7, 22},
    {{-4, -5}, 1, 27}, {{1, 2}, 14, 20}, {{3, -1}, 0, 5}, {{-2, -3}, 1, 1}, {{-4, -5}, 8, 20},
    {{1, -1}, 13, 22}, {{2, 3}, 6, 6}, {{-2, -3}, 0, 19}, {{-4, 4}, 3, 21}, {{-5, -6}, 1, 4},
    {{-1, 1}, 8, 7}, {{2, -2}, 10, 22}, {{-3, -4}, 1, 12}, {{1, -1}, 15, 22}, {{2, 3}, 6, 7},
    {{-2, 4}, 7, 20}, {{-3, -4}, 0, 21}, {{-5, -6}, 5, 2}, {{1, 2}, 8, 7}, {{-1, 3}, 7, 20},
    {{4, -2}, 10, 22}, {{-3, -4}, 0, 27}, {{-5, -6}, 2, 10}, {{1, 2}, 5, 7}, {{-1, -2}, 7, 20},
    {{-3, -4}, 1, 22}, {{1, 2}, 12, 22}, {{3, -1}, 12, 6}, {{-2, -3}, 5, 7}, {{-4, -5}, 11, 20},
    {{-1, 1}, 0, 26}, {{2, 3}, 1, 0}, {{-2, -3}, 3, 21}, {{-4, -5}, 9, 23}, {{1, 2}, 8, 27},
    {{3, -1}, 18, 20}, {{-2, -3}, 6, 22}, {{-4, -5}, 8, 6}, {{1, -1}, 16, 22}, {{2, -2}, 10, 27},
    {{-3, -4}, 9, 0}, {{1, 2}, 8, 7}, {{-1, -2}, 4, 12}, {{-3, -4}, 11, 23}, {{1, 2}, 7, 27},
    {{3, -1}, 12, 0}, {{-2, -3}, 0, 23}, {{-4, -5}, 12, 7}, {{1, 2}, 8, 27}, {{3, -1}, 5, 3},
    {{-2, -3}, 10, 23}, {{-4, 4}, 5, 22}, {{-5, -6}, 3, 3}, {{1, 2}, 7, 7}, {{-1, -2}, 10, 6},
    {{-3, -4}, 1, 13}, {{1, 2}, 8, 7}, {{-1, 3}, 4, 23}, {{-2, -3}, 3, 23}, {{-4, 4}, 2, 26},
    {{-5, -6}, 0, 6}, {{1, 2}, 8, 27}, {{3, -1}, 6, 13}, {{-2, -3}, 2, 13}, {{-4, -5}, 8, 6},
    {{1, 2}, 2, 27}, {{-1, 3}, 6, 20}, {{-2, 4}, 1, 20}, {{-3, -4}, 3, 1}, {{-5, -6}, 13, 20},
    {{1, -1}, 16, 20}, {{2, -2}, 2, 24}, {{-3, 3}, 5, 22}, {{-4, -5}, 3, 6}, {{1, 2}, 14, 22},
    {{-1, 3}, 6, 6}, {{-2, -3}, 2, 12}, {{-4, 4}, 3, 21}, {{-5, -6}, 1, 3}, {{1, 2}, 8, 27},
    {{3, -1}, 14, 22}, {{-2, -3}, 2, 22}, {{-4, 4}, 8, 23}, {{-5, -6}, 5, 1}, {{1, -1}, 13, 22},
    {{-2, 2}, 8, 6}, {{-3, -4}, 0, 28}, {{1, 2}, 8, 7}, {{-1, -2}, 2, 7}, {{-3, -4}, 7, 23},
    {{1, 2}, 8, 7}, {{-1, 3}, 7, 20}, {{-2, -3}, 0, 20}, {{-4, -5}, 9, 1}, {{1, -1}, 12, 6},
    {{2, -2}, 16, 20}, {{-3, -4}, 11, 7}, {{1, -1}, 15, 22}, {{-2, 2}, 1, 23}, {{-3, 3}, 1, 8},
    {{-4, -5}, 2, 0}, {{1, 2}, 16, 20}, {{3, -1}, 6, 27}, {{-2, -3}, 9, 7}, {{-4, -5}, 2, 14},
    {{1, -1}, 10, 2}, {{-2, 2}, 6, 26}, {{-3, 3}, 11, 6}, {{-4, -5}, 1, 2}, {{1, 2}, 8, 7},
    {{3, -1}, 7, 2}, {{-2, -3}, 1, 22}, {{-4, -5}, 8, 6}, {{-1, 1}, 8, 7}, {{-2, 2}, 2, 2},
    {{-3, -4}, 4, 3}
};
static const uint16_t tree_start[101] = {
    0, 3, 7, 11, 15, 21, 24, 29, 32, 36, 39, 42, 47, 51, 55, 59, 63, 66, 70, 76, 80, 85,
    89, 93, 96, 99, 103, 108, 113, 117, 122, 127, 131, 136, 140, 144, 148, 153, 157, 160, 162, 167, 171, 175,
    179, 182, 186, 191, 196, 200, 204, 207, 212, 216, 219, 224, 227, 232, 237, 240, 244, 248, 251, 255, 260, 264,
    267, 270, 275, 279, 282, 287, 291, 295, 300, 303, 308, 313, 316, 320, 324, 328, 331, 334, 338, 343, 346, 351,
    355, 360, 364, 369, 374, 377, 380, 384, 387, 391, 395, 399, 403
};

static int goes_right(const level *q, const split *at)
{
    return q[at->column] > at->rank;
}

/* Where the scores are of the leaf that a row reaches in a tree. */
static size_t leaf_of(const level *q, int tree)
{
    const split *of_tree = splits + tree_start[tree];
    int32_t at = 0;
    do {
        at = of_tree[at].child[goes_right(q, of_tree + at)];
    } while (at >= 0);
    {
        const size_t leaf = (size_t)tree_start[tree] + (size_t)tree + (size_t)(-1 - at);
        return which[leaf];
    }
}

typedef float sum; /* as the framework of the forest adds up */
enum { TREES = 101, OUTPUTS = 1, FEATURES = 30 };
enum { WIDTH = 1, SCORES = 1 };
static const sum DIVISOR = 0x1p+0f;
static const sum SLOPE = 0x1p+0f;
static const float start[1] = {
    0x1.c124eap-2f
};
#define EXP expf

/* Add the scores of a member in the order and the precision in which the framework of the forest adds them. */
static void add_scores(const level *q, int member, sum *total)
{
    for (int output = 0; output < OUTPUTS; output++) {
        const size_t leaf = leaf_of(q, member * OUTPUTS + output);
        for (int part = 0; part < WIDTH; part++)
            total[output + part] = (sum)(total[output + part] + scores[leaf * WIDTH + part]);
    }
}

/* What the framework predicts from sums of scores. */
static void predict_from(const sum *total, sum *score)
{
    for (int k = 0; k < SCORES; k++) {
        const sum mean = (sum)(total[k] / DIVISOR);
        score[k] = (sum)(SLOPE * mean);
    }
    for (int k = 0; k < SCORES; k++) score[k] = (sum)(1 / (sum)(1 + (sum)EXP(-score[k])));
}

/* The prediction of all trees. */
static void predict_all(const double *row, sum *score)
{
    level q[COLUMNS];
    sum total[SCORES];
    quantise(row, q);
    for (int k = 0; k < SCORES; k++) total[k] = start[k];
    for (int member = 0; member < TREES; member++) add_scores(q, member, total);
    predict_from(total, score);
}
enum { FIRST_LOOK = 1, EVERY = 1 };
static const double low[101] = {
    0x1.9c564a9b363d5p-2, 0x1.8ab72a2f8be79p-2, 0x1.7c5132ffa8adp-2, 0x1.6f9d3cc56723p-2,
    0x1.6403058eea19fp-2, 0x1.59341d1ac5982p-2, 0x1.4f01b89cd537p-2, 0x1.454d3c730e2dp-2,
    0x1.3c0151edf4c6fp-2, 0x1.330e6224db684p-2, 0x1.2a689edea4bep-2, 0x1.2206d585da61ep-2,
    0x1.19e1b0f5dd9d9p-2, 0x1.11f33bf155408p-2, 0x1.0a368b3c765ap-2, 0x1.02a781099743cp-2,
    0x1.f685424915faep-3, 0x1.e809e10c25bp-3, 0x1.d9d7b9c0168d8p-3, 0x1.cbea53b825e7dp-3,
    0x1.be3dc502a9fe8p-3, 0x1.b0ce9b5e038edp-3, 0x1.a399c9d23fac7p-3, 0x1.969c99d748114p-3,
    0x1.89d49f3a7bac5p-3, 0x1.7d3fae2b42b4dp-3, 0x1.70dbd2fbde4fbp-3, 0x1.64a74b3f057dp-3,
    0x1.58a07ffef5005p-3, 0x1.4cc600d98893ep-3, 0x1.41167fd832666p-3, 0x1.3590cde3339b8p-3,
    0x1.2a33d7b60ad1bp-3, 0x1.1efea340260c1p-3, 0x1.13f04d60e198bp-3, 0x1.090807f1021p-3,
    0x1.fc8a301cade96p-4, 0x1.e74da94066ecap-4, 0x1.d2594a1a0fa66p-4, 0x1.bdac00356a868p-4,
    0x1.a944d5e8917bap-4, 0x1.9522f0a1560dep-4, 0x1.81458f6d20202p-4, 0x1.6dac09b51979p-4,
    0x1.5a55ce297ce74p-4, 0x1.474261d7c1698p-4, 0x1.34715f681bb64p-4, 0x1.21e2767f7963ep-4,
    0x1.0f956b43ae12cp-4, 0x1.fb142c002155cp-5, 0x1.d780c5d281a6cp-5, 0x1.b470a3fe7d188p-5,
    0x1.91e3ee1ad45dp-5, 0x1.6fdaf390d9a4p-5, 0x1.4e562c14e5accp-5, 0x1.2d56385d1d4acp-5,
    0x1.0cdbe31917114p-5, 0x1.d9d0445bca02p-6, 0x1.9af8307622fc8p-6, 0x1.5d322cdc91fap-6,
    0x1.20813d597769p-6, 0x1.c9d1986b1a5cp-7, 0x1.54d96030d714p-7, 0x1.c444cb4c2306p-8,
    0x1.c6d8c98f1704p-9, 0x1.cfabfa6069p-14, -0x1.a059ee0fd5b8p-9, -0x1.a2bccb254d16p-8,
    -0x1.382a342d1765p-7, -0x1.9c6a464a282cp-7, -0x1.fe0d67a1c2cbp-7, -0x1.2e80535bfcbd8p-6,
    -0x1.5c979211f7938p-6, -0x1.8940ece1afba8p-6, -0x1.b46fac1d0b4d8p-6, -0x1.de15bc59c24dp-6,
    -0x1.0311c014eefp-5, -0x1.1643cc844fe14p-5, -0x1.289752b07fb6p-5, -0x1.3a01787925554p-5,
    -0x1.4a7609fe750d8p-5, -0x1.59e73e39f1d4ap-5, -0x1.68456d64f4a7ep-5, -0x1.757eb4cc72dap-5,
    -0x1.817e81ff5005ap-5, -0x1.8c2cfcc396b14p-5, -0x1.956e4377dedaep-5, -0x1.9d2167aedb50cp-5,
    -0x1.a31f0f8a348bep-5, -0x1.a737911f21084p-5, -0x1.a9304348ab14p-5, -0x1.a8bf915b1f7cap-5,
    -0x1.a587098d93a9ep-5, -0x1.9f09f49a9ab7cp-5, -0x1.949d9d06570c2p-5, -0x1.854d25c0725b8p-5,
    -0x1.6fa23867c970cp-5, -0x1.512952f0fc7ecp-5, -0x1.252065cd22077p-5, -0x1.be9c5d961d6f6p-6,
    -0x1.316a3d6558p-14
};
static const double high[101] = {
    0x1.dd0eafd961d6fp-2, 0x1.e5c8f6b9a440fp-2, 0x1.eb4a145e1f8fep-2, 0x1.ef19310cf92e2p-2, 0x1.f1ce8eb80e4b7p-2,
    0x1.f3b89da0cae18p-2, 0x1.f50628935357p-2, 0x1.f5d5cb31b2754p-2, 0x1.f63cdc2b63ef9p-2, 0x1.f64af26915628p-2,
    0x1.f60bdc23e421p-2, 0x1.f588cbf146918p-2, 0x1.f4c916f5db6a1p-2, 0x1.f3d2b26efbdb6p-2, 0x1.f2aa899872d62p-2,
    0x1.f154ba3fea00cp-2, 0x1.efd4c0998e5b5p-2, 0x1.ee2d97ac9e95p-2, 0x1.ec61d1c73e3a8p-2, 0x1.ea73ab3fcea1ap-2,
    0x1.e865190f24aaap-2, 0x1.e637d4560ff6cp-2, 0x1.e3ed639089fc2p-2, 0x1.e18722029ddep-2, 0x1.df0645c59c24ep-2,
    0x1.dc6be4c1d0b4ep-2, 0x1.d9b8f8ce1afbap-2, 0x1.d6ee63211f794p-2, 0x1.d40cef35bfcbep-2, 0x1.d115553d0e165p-2,
    0x1.ce083c3251417p-2, 0x1.cae63ba168bb2p-2, 0x1.c7afdd2c95344p-2, 0x1.c4659ddc1fab6p-2, 0x1.c107ef4059f96p-2,
    0x1.bd97386ce1d2p-2, 0x1.ba13d6d2cf73ep-2, 0x1.b67e1efe79476p-2, 0x1.b2d65d3ca72d2p-2, 0x1.af1cd62a68896p-2,
    0x1.ab51c73236e06p-2, 0x1.a77566f89dd04p-2, 0x1.a387e5ba436p-2, 0x1.9f896d9cdd1dfp-2, 0x1.9b7a22f45c56ap-2,
    0x1.975a247d634a6p-2, 0x1.93298b8de4cb7p-2, 0x1.8ee86c3ca5746p-2, 0x1.8a96d580305cfp-2, 0x1.8634d145afcb2p-2,
    0x1.81c2647ffbd54p-2, 0x1.7d3f8f2f147b5p-2, 0x1.78ac4c6021a71p-2, 0x1.74089225f9127p-2, 0x1.6f54518a0fa5ap-2,
    0x1.6a8f7675a0c62p-2, 0x1.65b9e792b9a1cp-2, 0x1.60d38624b7f8p-2, 0x1.5bdc2dd7aa7cap-2, 0x1.56d3b485dba1p-2,
    0x1.51b9e9f2a55e5p-2, 0x1.4c8e97797c166p-2, 0x1.47517fafe644ep-2, 0x1.42025df8d485ap-2, 0x1.3ca0e6077ef8p-2,
    0x1.372cc34f8f33bp-2, 0x1.31a5985fecf9fp-2, 0x1.2c0afe24fa972p-2, 0x1.265c830e66324p-2, 0x1.2099aa13e6ccep-2,
    0x1.1ac1e9933bb62p-2, 0x1.14d4aa00857fep-2, 0x1.0ed144607d418p-2, 0x1.08b7008210d82p-2, 0x1.028512ea5ea5ap-2,
    0x1.f87534c58453ep-3, 0x1.ebad3a28b7eecp-3, 0x1.deb00a2dc0539p-3, 0x1.d17b38a1fc714p-3, 0x1.c40c0efd56019p-3,
    0x1.b65f8047da182p-3, 0x1.a8721a3fe9726p-3, 0x1.9a3ff2f3da5p-3, 0x1.8bc491b6ea054p-3, 0x1.7cfad1ecd178ap-3,
    0x1.6ddcbd87134c1p-3, 0x1.5e635c1d557fp-3, 0x1.4e86721444c4fp-3, 0x1.3e3c28f44b3c4p-3, 0x1.2d789642b683dp-3,
    0x1.1c2d0fb6492f8p-3, 0x1.0a47302416722p-3, 0x1.ef5eb633c74bfp-4, 0x1.c88cc58cab23ep-4, 0x1.9fc33394e99f9p-4,
    0x1.748791c457984p-4, 0x1.461eb4ea6373ep-4, 0x1.134edc015d4c6p-4, 0x1.b36dfe83a0c37p-5, 0x1.2674fb264e15bp-5,
    0x1.316a3d6558p-14
};

/* The class that a row is answered with after so many trees, -1 where it asks on. */
static int answer(int asked, const sum *total)
{
    const int look = (asked - FIRST_LOOK + EVERY - 1) / EVERY;
    return total[0] <= low[look] ? 0 : total[0] >= high[look] ? 1 : -1;
}
static const sum THRESHOLD = 0x1p-1f;

/* The class that the framework predicts from the scores of all trees. */
static int predicted_label(const sum *total)
{
    sum score[SCORES];
    predict_from(total, score);
    return score[0] > THRESHOLD;
}

static int label_of(const level *q, int *asked)
{
    sum total[SCORES];
    for (int k = 0; k < SCORES; k++) total[k] = start[k];
    for (int member = 0; member < TREES; member++) {
        add_scores(q, member, total);
        *asked = member + 1;
        if (*asked == TREES || (*asked >= FIRST_LOOK && (*asked - FIRST_LOOK) % EVERY == 0)) {
            const int label = answer(*asked, total);
            if (label >= 0) return label;
        }
    }
    return predicted_label(total);
}

enum { PROBABILITIES = 2 };
static const char *const class_label[] = {
    "0",
    "1"
};

int tumour_predict_trees(const double *row, int *asked)
{
    level q[COLUMNS];
    quantise(row, q);
    return label_of(q, asked);
}

int tumour_predict(const double *row)
{
    int asked;
    return tumour_predict_trees(row, &asked);
}

void tumour_predict_proba(const double *row, double *probabilities)
{
    sum score[SCORES];
    predict_all(row, score);
    probabilities[0] = (sum)(1 - score[0]);
    probabilities[1] = score[0];
}

void tumour_predict_many(const double *rows, size_t n_rows, int *classes, int *asked)
{
    for (size_t i = 0; i < n_rows; i++) {
        int trees;
        classes[i] = tumour_predict_trees(rows + i * FEATURES, &trees);
        if (asked) asked[i] = trees;
    }
}

void tumour_predict_proba_many(const double *rows, size_t n_rows, double *probabilities)
{
    for (size_t i = 0; i < n_rows; i++)
        tumour_predict_proba(rows + i * FEATURES, probabilities + i * PROBABILITIES);
}

const char *tumour_class_label(int index)
{
    return index >= 0 && index < PROBABILITIES ? class_label[index] : 0;
}
