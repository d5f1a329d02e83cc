// The features of a preset in Swift. Not built by the project's tests, which have no Swift compiler.
//
//     cc -O3 -ffp-contract=off -c ../../kaldi_features.c && ar rcs libkaldi_features.a kaldi_features.o
//     swiftc -O -I . -L . Fbank.swift -o fbank && ./fbank zipformer num_mel_bins=40 < samples.raw
import Foundation
import KaldiFeatures

struct KaldiError: Error, CustomStringConvertible {
    let description: String
}

func check(_ status: kf_status) throws {
    if status != KF_OK { throw KaldiError(description: String(cString: kf_strerror(status))) }
}

/// A front end; its memory is freed with it.
final class Frontend {
    private let memory: UnsafeMutableRawPointer
    private let object: OpaquePointer

    /// Make the front end of a preset, with some options changed.
    init(preset: String, changes: [(String, String?)] = []) throws {
        var options = kf_options()
        options.struct_size = UInt32(MemoryLayout<kf_options>.size)
        try check(kf_from_preset(preset, &options))
        try check(kf_set_statistics(&options, nil, nil, 0))  // without the model's own normalization
        for (name, value) in changes { try check(kf_set(&options, name, value)) }
        var size = 0
        try check(kf_size(&options, &size))
        let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 64)
        var object: OpaquePointer?
        let status = kf_init(memory, size, &options, &object)
        guard status == KF_OK, let object else {
            memory.deallocate()
            throw KaldiError(description: String(cString: kf_strerror(status)))
        }
        self.memory = memory
        self.object = object
    }

    deinit { memory.deallocate() }

    var dim: Int { Int(kf_dim(object)) }

    /// Compute the features of 16-bit samples: rows of `dim` numbers.
    func compute(_ samples: [Int16]) throws -> [[Float]] {
        let count = Int64(samples.count), room = kf_rows(object, count)
        var out = [Float](repeating: 0, count: Int(room) * dim), rows: Int64 = 0
        try check(kf_compute_int16(object, samples, count, &out, room, &rows))
        return (0..<Int(rows)).map { Array(out[$0 * dim..<($0 + 1) * dim]) }
    }
}

let arguments = CommandLine.arguments.dropFirst()
let preset = arguments.first ?? "zipformer"
// A word without `=`, such as `--snip-edges`, has no value: kf_set() reads it as a line of a configuration file.
let changes = arguments.dropFirst().map { word -> (String, String?) in
    let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    return (parts[0], parts.count == 2 ? parts[1] : nil)
}
let data = FileHandle.standardInput.readDataToEndOfFile()
if data.starts(with: "RIFF".utf8) { throw KaldiError(description: "expected raw samples, not a wave file") }
let samples = data.withUnsafeBytes { Array($0.bindMemory(to: Int16.self)) }
for row in try Frontend(preset: preset, changes: changes).compute(samples) {
    print(row.map { "\($0)" }.joined(separator: " "))
}
