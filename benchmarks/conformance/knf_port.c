// The C port of kaldi-native-fbank (github.com/ThirdLetterC/kaldi-native-fbank) behind one function for ctypes.
// Build: clang -std=c2x -shared -fPIC -I INCLUDE knf_port.c SRC/*.c -lm -o libknf_c.so
#include "kaldi-native-fbank/online-feature.h"
#include <string.h>

int knf_port(int is_mfcc, const float *v, const char *window, const float *samples, int count, float *out)
{
    knf_fbank_opts fbank;
    knf_mfcc_opts mfcc;
    knf_fbank_opts_default(&fbank);
    knf_mfcc_opts_default(&mfcc);
    knf_frame_opts *frame = is_mfcc ? &mfcc.frame_opts : &fbank.frame_opts;
    knf_mel_opts *mel = is_mfcc ? &mfcc.mel_opts : &fbank.mel_opts;
    frame->dither = 0, frame->samp_freq = v[0], frame->frame_shift_ms = v[1], frame->frame_length_ms = v[2];
    frame->preemph_coeff = v[3], frame->remove_dc_offset = v[4], frame->round_to_power_of_two = v[5];
    frame->blackman_coeff = v[6], frame->snip_edges = v[7];
    strncpy(frame->window_type, window, sizeof frame->window_type - 1);
    mel->num_bins = v[8], mel->low_freq = v[9], mel->high_freq = v[10], mel->vtln_low = v[11], mel->vtln_high = v[12];
    fbank.htk_compat = mfcc.htk_compat = v[15];
    fbank.use_energy = mfcc.use_energy = v[13], fbank.raw_energy = mfcc.raw_energy = v[14];
    fbank.energy_floor = mfcc.energy_floor = v[16], fbank.use_log_fbank = v[17], fbank.use_power = v[18];
    mfcc.num_ceps = v[19], mfcc.cepstral_lifter = v[20];
    knf_online_feature online;
    if (!(is_mfcc ? knf_online_mfcc_create(&mfcc, &online) : knf_online_fbank_create(&fbank, &online))) return -1;
    if (!knf_online_accept_waveform(&online, v[0], samples, count) || !knf_online_input_finished(&online)) return -1;
    int frames = knf_online_num_frames_ready(&online), dim = online.dim(online.computer);
    for (int t = 0; t < frames; t++)
        memcpy(out + t * dim, knf_online_get_frame(&online, t), dim * sizeof *out);
    knf_online_feature_destroy(&online);
    return frames * dim;
}
