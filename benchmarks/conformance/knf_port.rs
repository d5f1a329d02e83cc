// The Rust port of kaldi-native-fbank (github.com/RustedBytes/kaldi-native-fbank) behind one function for ctypes.
// Build: as src/lib.rs of a crate of the type cdylib that depends on it.
use kaldi_native_fbank::{mel::MelOptions, online::FeatureComputer};
use kaldi_native_fbank::{FbankComputer, FbankOptions, FrameOptions, MfccComputer, MfccOptions, OnlineFeature};
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

fn compute(is_mfcc: bool, v: &[f32], window: &str, samples: &[f32]) -> Option<Vec<f32>> {
    let frame_opts = FrameOptions {
        dither: 0.0, samp_freq: v[0], frame_shift_ms: v[1], frame_length_ms: v[2], preemph_coeff: v[3],
        remove_dc_offset: v[4] != 0.0, round_to_power_of_two: v[5] != 0.0, blackman_coeff: v[6], snip_edges: v[7] != 0.0,
        window_type: window.to_string(),
    };
    let mel_opts = MelOptions {
        num_bins: v[8] as usize, low_freq: v[9], high_freq: v[10], vtln_low: v[11], vtln_high: v[12],
        ..Default::default()
    };
    let (use_energy, raw_energy, htk_compat, energy_floor) = (v[13] != 0.0, v[14] != 0.0, v[15] != 0.0, v[16]);
    let computer = if is_mfcc {
        let (num_ceps, cepstral_lifter) = (v[19] as usize, v[20]);
        FeatureComputer::Mfcc(MfccComputer::new(MfccOptions {
            frame_opts, mel_opts, num_ceps, cepstral_lifter, use_energy, raw_energy, htk_compat, energy_floor,
        }).ok()?)
    } else {
        let (use_log_fbank, use_power) = (v[17] != 0.0, v[18] != 0.0);
        FeatureComputer::Fbank(FbankComputer::new(FbankOptions {
            frame_opts, mel_opts, use_energy, raw_energy, htk_compat, energy_floor, use_log_fbank, use_power,
        }).ok()?)
    };
    let mut online = OnlineFeature::new(computer);
    online.accept_waveform(v[0], samples);
    online.input_finished();
    Some(online.features.concat())
}

#[no_mangle]
pub unsafe extern "C" fn knf_port(
    is_mfcc: i32, values: *const f32, window: *const c_char, samples: *const f32, count: i32, out: *mut f32,
) -> i32 {
    let values = std::slice::from_raw_parts(values, 21);
    let samples = std::slice::from_raw_parts(samples, count as usize);
    let window = CStr::from_ptr(window).to_str().unwrap_or("");
    match catch_unwind(AssertUnwindSafe(|| compute(is_mfcc != 0, values, window, samples))) {
        Ok(Some(features)) => {
            std::ptr::copy_nonoverlapping(features.as_ptr(), out, features.len());
            features.len() as i32
        }
        _ => -1,
    }
}
