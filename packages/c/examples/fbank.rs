//! Print the features of raw 16-bit samples on standard input: `fbank PRESET [OPTION=VALUE]... < samples.raw`.
//!
//!     cc -O3 -ffp-contract=off -c ../kaldi_features.c && ar rcs libkaldi_features.a kaldi_features.o
//!     rustc -O -L . fbank.rs && ./fbank zipformer < samples.raw
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::Read;
use std::ptr;

#[link(name = "kaldi_features", kind = "static")]
extern "C" {
    fn kf_options_size() -> usize;
    fn kf_from_preset(name: *const c_char, options: *mut c_void) -> c_int;
    fn kf_set(options: *mut c_void, name: *const c_char, value: *const c_char) -> c_int;
    fn kf_set_statistics(options: *mut c_void, shift: *const f32, scale: *const f32, columns: i32) -> c_int;
    fn kf_size(options: *const c_void, size: *mut usize) -> c_int;
    fn kf_init(memory: *mut c_void, size: usize, options: *const c_void, out: *mut *mut c_void) -> c_int;
    fn kf_dim(frontend: *const c_void) -> i32;
    fn kf_rows(frontend: *const c_void, count: i64) -> i64;
    fn kf_compute_int16(frontend: *mut c_void, samples: *const i16, count: i64, out: *mut f32, capacity: i64, rows: *mut i64)
        -> c_int;
    fn kf_strerror(status: c_int) -> *const c_char;
}

fn check(status: c_int) -> Result<(), String> {
    match status {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(kf_strerror(status)) }.to_string_lossy().into_owned()),
    }
}

/// A front end: its memory is freed with it.
struct Frontend {
    _memory: Vec<u8>,
    object: *mut c_void,
}

impl Frontend {
    /// Make the front end of a preset, with some options changed.
    fn from_preset(name: &str, changes: &[(&str, &str)]) -> Result<Self, String> {
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let mut options = vec![0u64; unsafe { kf_options_size() }.div_ceil(8)]; // aligned as C aligns it
        let options: *mut c_void = options.as_mut_ptr().cast();
        unsafe {
            options.cast::<u32>().write(kf_options_size() as u32);
            check(kf_from_preset(text(name)?.as_ptr(), options)).map_err(|error| format!("{name}: {error}"))?;
            check(kf_set_statistics(options, ptr::null(), ptr::null(), 0))?; // without the model's own normalization
            for (name, value) in changes {
                check(kf_set(options, text(name)?.as_ptr(), text(value)?.as_ptr())).map_err(|error| format!("{name}: {error}"))?;
            }
            let (mut size, mut object) = (0, ptr::null_mut());
            check(kf_size(options, &mut size))?;
            let mut memory = vec![0; size];
            check(kf_init(memory.as_mut_ptr().cast(), size, options, &mut object))?;
            Ok(Self { _memory: memory, object })
        }
    }

    fn dim(&self) -> usize {
        unsafe { kf_dim(self.object) as usize }
    }

    /// Compute the features of 16-bit samples, row by row.
    fn compute(&mut self, samples: &[i16]) -> Result<Vec<f32>, String> {
        let (count, mut rows) = (samples.len() as i64, 0);
        let room = unsafe { kf_rows(self.object, count) };
        let mut out = vec![0f32; room as usize * self.dim()];
        check(unsafe { kf_compute_int16(self.object, samples.as_ptr(), count, out.as_mut_ptr(), room, &mut rows) })?;
        out.truncate(rows as usize * self.dim());
        Ok(out)
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (preset, changes) = arguments.split_first().ok_or("usage: fbank PRESET [OPTION=VALUE]... < samples.raw")?;
    let changes: Vec<(&str, &str)> = changes
        .iter()
        .map(|word| word.split_once('=').ok_or(format!("{word}: write OPTION=VALUE")))
        .collect::<Result<_, _>>()?;
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.starts_with(b"RIFF") {
        return Err("expected raw samples, not a wave file: convert it, as by `sox in.wav -t raw -`".into());
    }
    let samples: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut frontend = Frontend::from_preset(preset, &changes)?;
    for row in frontend.compute(&samples)?.chunks(frontend.dim()) {
        println!("{}", row.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
