/* From mel energies to cepstra: Kaldi's src/feat/feature-mfcc.cc, feature-plp.cc and mel-computations.cc. */
#ifndef CEPSTRA_H
#define CEPSTRA_H

#include "sums.h"

/* Compute `order` linear prediction coefficients by Durbin's recursion. Return the residual energy. */
static vf linear_prediction(const vf *autocorrelation, int order, vf *coefficients, vf *previous)
{
    vf error = autocorrelation[0];
    for (int i = 0; i < order; i++) {
        vf reflection = autocorrelation[i + 1];
        for (int j = 0; j < i; j++)
            reflection += coefficients[j] * autocorrelation[i - j];
        reflection = reflection / error;
        error *= choose(1.0f - reflection * reflection < 1.0e-5f, splat(1.0e-5f), 1.0f - reflection * reflection);
        memcpy(previous, coefficients, i * sizeof(vf));
        for (int j = 0; j < i; j++)
            coefficients[j] = previous[j] - reflection * previous[i - j - 1];
        coefficients[i] = -reflection;
    }
    return error;
}

/* Compute cepstra C1 to C`order` of the all-pole model. */
static void cepstra_of_prediction(const vf *coefficients, int order, vf *cepstra)
{
    for (int i = 0; i < order; i++) {
        vd2 sum = {{0}, {0}};
        for (int j = 0; j < i; j++) {
            vd2 term = widen((float)(i - j) * coefficients[j] * cepstra[i - j - 1]);
            sum.low += term.low, sum.high += term.high;
        }
        vd2 negative = widen(-coefficients[i]);
        cepstra[i] =
            narrow((vd2){negative.low - sum.low / (double)(i + 1), negative.high - sum.high / (double)(i + 1)});
    }
}

static int has_nan(const vf *x, int n, int lane)
{
    for (int i = 0; i < n; i++)
        if (x[i][lane] != x[i][lane]) return 1;
    return 0;
}

/* The result r of an operation on a and b, with the sign of NaN on x86: the sign of the first operand that is NaN, negative for a new
   NaN. Compilers may swap the operands of vectors, and other processors make positive NaNs. */
#define SIGNED(r, a, b) ((r) == (r) ? (r) : (a) != (a) ? (a) : (b) != (b) ? (b) : -NAN)

/* Repeat linear_prediction() and cepstra_of_prediction() for one lane, with the signs of NaN in Kaldi's build. `energy` is minus the
   logarithm of the residual. */
static void sign_nans(vf *lags, int order, float exponent, vf *lpc, vf *previous, vf *cepstra, vf *energy, int lane)
{
    for (int i = 0; i <= order; i++)
        if (lags[i][lane] != lags[i][lane]) lags[i][lane] = exponent == exponent ? -NAN : NAN;
    float error = lags[0][lane];
    for (int i = 0; i < order; i++) {
        float reflection = lags[i + 1][lane];
        for (int j = 0; j < i; j++) {
            float term = SIGNED(lpc[j][lane] * lags[i - j][lane], lpc[j][lane], lags[i - j][lane]);
            reflection = SIGNED(reflection + term, reflection, term);
        }
        reflection = SIGNED(reflection / error, reflection, error);
        float square = SIGNED(reflection * reflection, reflection, reflection),
              factor = SIGNED(1.0f - square, 1.0f, square);
        factor = factor < 1.0e-5f ? 1.0e-5f : factor;
        error = SIGNED(error * factor, error, factor);
        for (int j = 0; j < i; j++)
            previous[j][lane] = lpc[j][lane];
        for (int j = 0; j < i; j++) {
            float term = SIGNED(reflection * previous[i - j - 1][lane], reflection, previous[i - j - 1][lane]);
            lpc[j][lane] = SIGNED(previous[j][lane] - term, previous[j][lane], term);
        }
        lpc[i][lane] = -reflection;
    }
    if (error != error) (*energy)[lane] = -error;
    for (int i = 0; i < order; i++) {
        double sum = 0.0, first = -lpc[i][lane];
        for (int j = 0; j < i; j++) {
            float weighed = SIGNED((float)(i - j) * lpc[j][lane], lpc[j][lane], lpc[j][lane]);
            float term = SIGNED(weighed * cepstra[i - j - 1][lane], weighed, cepstra[i - j - 1][lane]);
            sum = SIGNED(sum + term, sum, term);
        }
        sum /= i + 1;
        cepstra[i][lane] = (float)SIGNED(first - sum, first, sum);
    }
}

/* Like Kaldi, compute each lane with the C library in double precision, and round to float. */
static vf power_of(vf x, float exponent)
{
    for (int l = 0; l < LANES; l++)
        x[l] = (float)pow(x[l], exponent);
    return x;
}

static vf log_of_residual(vf x)
{
    for (int l = 0; l < LANES; l++)
        x[l] = (float)-log(1.0 / x[l]);
    return x;
}

#endif
