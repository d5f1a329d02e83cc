/* The C library's logf, powf(x, 0.5f), sinf and cosf: the same table and polynomials in double precision as glibc 2.28 and later. Compared with glibc
   for every float that occurs here, with and without fused multiply-adds: no result differs (tests/kaldi_compat/native/noise.c).
   The table and the polynomials come from Szabolcs Nagy's "Arm optimized routines". */
#ifndef LIBM_H
#define LIBM_H

#include "vector.h"

static const double LOG_INVERSE[16] = {
    0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0, 0x1.49539f0f010bp+0,  0x1.3c995b0b80385p+0, 0x1.30d190c8864a5p+0,
    0x1.25e227b0b8eap+0,  0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0, 0x1.0953f419900a7p+0, 0x1p+0,
    0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,  0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1, 0x1.886e6037841edp-1,
    0x1.767dcf5534862p-1};
static const double LOG_CENTER[16] = {
    -0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2, -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3, -0x1.6574f0ac07758p-3,
    -0x1.1aa2bc79c81p-3,   -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4, -0x1.252f438e10c1ep-5, 0x0p+0,
    0x1.aa5aa5df25984p-5,  0x1.c5e53aa362eb4p-4,  0x1.526e57720db08p-3,  0x1.bc2860d22477p-3,   0x1.1058bc8a07ee1p-2,
    0x1.4043057b6ee09p-2};

/* Natural logarithm of z * 2^exponent for a half of the lanes. `inverse` and `center` are the numbers of z's row of the tables. */
INLINE vd log_of_half(vd z, vd exponent, vd inverse, vd center)
{
    vd r = multiply_add(z, inverse, constant(-1.0)), r2 = r * r;
    vd y0 = multiply_add(exponent, constant(0x1.62e42fefa39efp-1), center);
    vd y = multiply_add(constant(0x1.5575b0be00b6ap-2), r, constant(-0x1.ffffef20a4123p-2));
    y = multiply_add(constant(-0x1.00ea348b88334p-2), r2, y);
    return multiply_add(y, r2, y0 + r);
}

/* Natural logarithm of normal positive numbers. */
INLINE vf log_of_finite(vf x)
{
    vi above = (vi)x - 0x3f330000;
    vi row = (above >> 19) & 15, exponent = above >> 23;
    vd2 z = widen((vf)((vi)x - (exponent << 23))), e = widen_integer(exponent);
    vd2 inverse = look_up(LOG_INVERSE, row), center = look_up(LOG_CENTER, row);
    return narrow((vd2){log_of_half(z.low, e.low, inverse.low, center.low),
                        log_of_half(z.high, e.high, inverse.high, center.high)});
}

/* Natural logarithm of normal positive numbers. Infinity and NaN stay as they are. */
INLINE vf log_of(vf x) { return choose(x <= 0x1.fffffep127f, log_of_finite(x), x); }

/* log2(c) for the rows of the tables above, and 2^(i / 32). */
static const double LOG2_CENTER[16] = {
    -0x1.efec65b963019p-2, -0x1.b0b6832d4fca4p-2, -0x1.7418b0a1fb77bp-2, -0x1.39de91a6dcf7bp-2,
    -0x1.01d9bf3f2b631p-2, -0x1.97c1d1b3b7afp-3,  -0x1.2f9e393af3c9fp-3, -0x1.960cbbf788d5cp-4,
    -0x1.a6f9db6475fcep-5, 0x0p+0,                0x1.338ca9f24f53dp-4,  0x1.476a9543891bap-3,
    0x1.e840b4ac4e4d2p-3,  0x1.40645f0c6651cp-2,  0x1.88e9c2c1b9ff8p-2,  0x1.ce0a44eb17bccp-2};
static const double EXP2_TABLE[32] = {
    0x1p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
    0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
    0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
    0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
    0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
    0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
    0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0};

/* powf(x, 0.5f), which differs from the square root for one number in 1,572. The square root of 0, and of subnormal and negative
   numbers. */
INLINE float half_powf(float x)
{
    if (!(x >= 0x1p-126f && x < INFINITY)) return sqrtf(x);
    int32_t bits;
    float scaled;
    memcpy(&bits, &x, sizeof bits);
    const int32_t above = bits - 0x3f330000, row = above >> 19 & 15, exponent = above >> 23;
    bits -= exponent * (1 << 23);
    memcpy(&scaled, &bits, sizeof scaled);
    double r = scaled * LOG_INVERSE[row] - 1.0, r2 = r * r;
    const double log2 = (0x1.27616c9496e0bp-2 * r + -0x1.71969a075c67ap-2) * (r2 * r2) +
                        ((0x1.ec70a6ca7baddp-2 * r + -0x1.7154748bef6c8p-1) * r2 +
                         (0x1.71547652ab82bp+0 * r + (LOG2_CENTER[row] + exponent)));
    const double nearest = rint(16.0 * log2); /* the result is 2^(steps / 32), and its steps are 32 / 2 * log2(x) */
    const int steps = (int)nearest, power = steps >> 5;
    r = 0.5 * log2 - nearest / 32.0, r2 = r * r;
    const double y = (0x1.c6af84b912394p-5 * r + 0x1.ebfce50fac4f3p-3) * r2 + (0x1.62e42ff0c52d6p-1 * r + 1.0);
    const uint64_t power_bits = (uint64_t)(1023 + power) << 52;
    double factor;
    memcpy(&factor, &power_bits, sizeof factor);
    return (float)(y * (EXP2_TABLE[steps & 31] * factor));
}

/* The sine of x plus `quarters_ahead` right angles. glibc's polynomials for sine and cosine have the form y + y x^2 p(x^2), where
   y is x or 1, so the quarter of the angle chooses coefficients. */
INLINE vd sin_of_half(vd x, int quarters_ahead)
{
    const double shift = 0x1.8p52; /* adding it leaves the nearest integer in the last bits */
    vd quarters = multiply_add(x, constant(0x1.45f306dc9c883p-1), constant(shift));
    vl quadrant = (vl)quarters + quarters_ahead;
    x = multiply_add(quarters - shift, constant(-0x1.921fb54442d18p0), x);
    vd x2 = x * x, y = choose_odd(quadrant, constant(1.0), x);
    vd p = choose_odd(quadrant, constant(0x1.99343027bf8c3p-16), constant(0.0));
    p = multiply_add(p, x2, choose_odd(quadrant, constant(-0x1.6c087e89a359dp-10), constant(-0x1.994eb3774cf24p-13)));
    p = multiply_add(p, x2, choose_odd(quadrant, constant(0x1.55553e1068f19p-5), constant(0x1.1107605230bc4p-7)));
    p = multiply_add(p, x2, choose_odd(quadrant, constant(-0x1.ffffffd0c621cp-2), constant(-0x1.555545995a603p-3)));
    vl negative = quadrant << 62 & INT64_MIN; /* the sign bit, set in the third and fourth quarter of a turn */
    return (vd)((vl)multiply_add(y * x2, p, y) ^ negative);
}

/* Cosine of angles from 0 to 2 pi. */
INLINE vf cos_of(vf x)
{
    vd2 angle = widen(x);
    return narrow((vd2){sin_of_half(angle.low, 1), sin_of_half(angle.high, 1)});
}

/* Sine of angles from 0 to 2 pi. */
INLINE vf sin_of(vf x)
{
    vd2 angle = widen(x);
    return narrow((vd2){sin_of_half(angle.low, 0), sin_of_half(angle.high, 0)});
}

#endif
