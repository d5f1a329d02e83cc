/* The C library's logf, sinf and cosf: the same table and polynomials in double precision as glibc 2.28 and later. Compared with glibc
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
