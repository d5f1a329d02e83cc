/* The implementation of kaldi_features.h, compiled to a library for programs that only include the header. */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
