/* The library: kaldi_features.h compiled, for those who link it. */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
