/* From mel energies to cepstra: Kaldi's src/feat/feature-mfcc.cc, feature-plp.cc and mel-computations.cc. */
#ifndef CEPSTRA_H
#define CEPSTRA_H

#include "sums.h"

/* Linear prediction of `order` from the autocorrelation by Durbin's recursion; returns the residual energy. */
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

/* Cepstra 1 to `order` of the all-pole model. */
static void cepstra_of_prediction(const vf *coefficients, int order, vf *cepstra)
{
    for (int i = 0; i < order; i++) {
        vd2 sum = {{0}, {0}};
        for (int j = 0; j < i; j++) {
            vd2 term = widen((float)(i - j) * coefficients[j] * cepstra[i - j - 1]);
            sum.low += term.low, sum.high += term.high;
        }
        vd2 negative = widen(-coefficients[i]);
        cepstra[i] = narrow((vd2){negative.low - sum.low / (double)(i + 1), negative.high - sum.high / (double)(i + 1)});
    }
}

/* Each lane by the C library in double precision, rounded to float: as Kaldi, whose calls convert their arguments. */
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
