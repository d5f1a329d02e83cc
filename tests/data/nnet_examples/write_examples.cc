// Writes nnet3 and chain training examples with Kaldi, for tests/io_ark/codecs/test_nnet_example.py, which knows the same formulas.
// See README.md.

#include <climits>
#include <iostream>
#include <string>
#include <vector>

#include "nnet3/nnet-chain-example.h"
#include "nnet3/nnet-example-utils.h"
#include "nnet3/nnet-example.h"

using kaldi::int32;
using kaldi::nnet3::Index;
using kaldi::nnet3::NnetChainExample;
using kaldi::nnet3::NnetChainSupervision;
using kaldi::nnet3::NnetExample;
using kaldi::nnet3::NnetIo;

typedef std::vector<Index> Indexes;
typedef kaldi::Matrix<kaldi::BaseFloat> Matrix;
typedef kaldi::Vector<kaldi::BaseFloat> Vector;

static Matrix Values(int32 rows, int32 columns, float start, float row_step, float column_step) {
  Matrix matrix(rows, columns);
  for (int32 r = 0; r < rows; r++)
    for (int32 c = 0; c < columns; c++) matrix(r, c) = start + row_step * r + column_step * c;
  return matrix;
}

static Matrix Dense(int32 rows, int32 columns) { return Values(rows, columns, 1.0, 0.25, -0.375); }

static NnetIo Io(const std::string &name, const Indexes &indexes, const kaldi::GeneralMatrix &features) {
  NnetIo io;
  io.name = name;
  io.indexes = indexes;
  io.features = features;
  return io;
}

static NnetIo Compressed(int32 method, const Matrix &matrix) {
  kaldi::GeneralMatrix features;
  features = kaldi::CompressedMatrix(matrix, static_cast<kaldi::CompressionMethod>(method));
  return NnetIo("method" + std::to_string(method), 0, features);
}

// Indexes of every shape that Kaldi writes in a way of its own.
static NnetExample IndexShapes() {
  Indexes jumps, merged;
  for (int32 t : {0, 124, 0, 125, 0, 0, 1000, -1000}) jumps.push_back(Index(0, t, 0));
  for (int32 t : {0, 3, 6})
    for (int32 n : {0, 1, 2}) merged.push_back(Index(n, t, 0));
  const std::vector<std::pair<std::string, Indexes>> shapes = {
      {"steps", {Index(0, -3, 0), Index(0, -2, 0), Index(0, -1, 0), Index(0, 0, 0)}},
      {"lowest-byte", {Index(0, -124, 0)}},
      {"highest-byte", {Index(0, 124, 0)}},
      {"below", {Index(0, -125, 0)}},
      {"above", {Index(0, 125, 0), Index(0, 126, 0)}},
      {"other-n", {Index(1, 0, 0), Index(1, 1, 0)}},
      {"other-x", {Index(0, 0, 2), Index(0, 1, 2)}},
      {"jumps", jumps},
      {"merged", merged},
      {"x-changes", {Index(0, 0, 0), Index(0, 0, 1), Index(0, 1, 1), Index(0, 3, 1), Index(0, 3, -1)}},
      {"limits", {Index(0, INT_MIN, 0), Index(0, INT_MIN + 1, 0), Index(INT_MAX, 0, INT_MIN),
                  Index(INT_MAX, 1, INT_MIN), Index(0, INT_MAX, 0), Index(0, INT_MAX - 1, 0)}},
      {"none", {}}};
  NnetExample example;
  for (const auto &shape : shapes) {
    const int32 rows = shape.second.size(), columns = rows > 0 ? 2 : 0;
    example.io.push_back(Io(shape.first, shape.second, kaldi::GeneralMatrix(Dense(rows, columns))));
  }
  return example;
}

// Features of every kind.
static NnetExample FeatureKinds() {
  NnetExample example;
  example.io.push_back(NnetIo("dense", -2, Dense(5, 3)));
  for (int32 method : {1, 2, 3, 5}) example.io.push_back(Compressed(method, Dense(12, 3)));
  example.io.push_back(Compressed(1, Dense(4, 3)));
  example.io.push_back(Compressed(4, Values(12, 3, -500, 100, -7)));
  example.io.push_back(Compressed(6, Values(12, 3, 0, 20, 3)));
  example.io.push_back(Compressed(7, Values(12, 3, 0, 0.0625, 0.125)));
  kaldi::Posterior labels = {{{3, 1.0}}, {}, {{0, 0.25}, {7, 0.75}}, {{9, 0.1}}};
  example.io.push_back(NnetIo("sparse", 10, 0, labels, 3));
  return example;
}

static NnetExample Usual() {
  NnetExample example;
  example.io.push_back(NnetIo("input", -1, Dense(3, 4)));
  example.io.push_back(NnetIo("ivector", 0, Dense(1, 5)));
  example.io.push_back(NnetIo("output", 6, 0, kaldi::Posterior({{{2, 1.0}}}), 1));
  return example;
}

// A graph of so many frames in a row, with two labels to choose from in each.
static fst::StdVectorFst Frames(int32 frames, int32 first_label) {
  fst::StdVectorFst graph;
  for (int32 s = 0; s <= frames; s++) {
    graph.AddState();
    for (int32 j = 0; s < frames && j < 2; j++)
      graph.AddArc(s, fst::StdArc(first_label + 2 * s + j, first_label + 2 * s + j, 0.125 * s - 0.5 * j, s + 1));
  }
  graph.SetStart(0);
  graph.SetFinal(frames, 0.75);
  return graph;
}

// A graph with one path, without costs.
static fst::StdVectorFst Line(int32 frames, int32 first_label) {
  fst::StdVectorFst graph;
  for (int32 s = 0; s <= frames; s++) {
    graph.AddState();
    if (s < frames) graph.AddArc(s, fst::StdArc(first_label + s, first_label + s, 0, s + 1));
  }
  graph.SetStart(0);
  graph.SetFinal(frames, 0);
  return graph;
}

// A graph that starts in its last state, goes in circles, and can end in two states.
static fst::StdVectorFst Circle(int32 states) {
  fst::StdVectorFst graph;
  for (int32 s = 0; s < states; s++) graph.AddState();
  for (int32 s = 0; s < states; s++) {
    graph.AddArc(s, fst::StdArc(s + 1, s + 1, 0.1f * s, (s + 1) % states));
    graph.AddArc(s, fst::StdArc(s + 11, s + 11, 1e-10f, s));
  }
  graph.SetStart(states - 1);
  graph.SetFinal(0, 0);
  graph.SetFinal(1, 1.5);
  return graph;
}

static kaldi::chain::Supervision Supervised(const fst::StdVectorFst &graph, int32 frames, float weight) {
  kaldi::chain::Supervision supervision;
  supervision.weight = weight;
  supervision.num_sequences = 1;
  supervision.frames_per_sequence = frames;
  supervision.label_dim = 30;
  supervision.fst = graph;
  return supervision;
}

static NnetChainExample ChainExample(const kaldi::chain::Supervision &supervision, const Vector &weights) {
  NnetChainExample example;
  example.inputs.push_back(NnetIo("input", -2, Dense(8, 3)));
  example.inputs.push_back(NnetIo("ivector", 0, Dense(1, 2)));
  example.outputs.push_back(NnetChainSupervision("output", supervision, weights, 0, 3));
  return example;
}

static Vector Weights(int32 count) {
  Vector weights(count);
  for (int32 i = 0; i < count; i++) weights(i) = 1.0 - 0.2 * i;
  return weights;
}

static NnetChainExample EndToEnd() {
  kaldi::chain::Supervision supervision = Supervised(fst::StdVectorFst(), 2, 0.5);
  supervision.num_sequences = 2;
  supervision.e2e_fsts = {Circle(3), Circle(2)};
  supervision.alignment_pdfs = {4, 0, 29, 4};
  return ChainExample(supervision, Weights(4));
}

static NnetChainExample TwoOutputs() {
  NnetChainExample example = ChainExample(Supervised(Frames(3, 1), 3, 0.1), Weights(3));
  kaldi::chain::Supervision aligned = Supervised(Line(2, 5), 2, 1.0);
  aligned.alignment_pdfs = {4, 5};
  example.outputs.push_back(NnetChainSupervision("output-2", aligned, Vector(), -300, 150));
  return example;
}

// Graphs as no recipe makes them, but Kaldi writes and reads.
static NnetChainExample OddGraphs() {
  fst::StdVectorFst nothing, one_state, unreached;
  one_state.AddState();
  one_state.SetStart(0);
  one_state.SetFinal(0, 3.0);
  for (int32 s = 0; s < 10; s++) unreached.AddState();
  unreached.SetStart(4);
  unreached.AddArc(4, fst::StdArc(0, 0, 1e30f, 9));
  unreached.AddArc(4, fst::StdArc(INT_MAX, INT_MAX, -1e-30f, 2));
  unreached.SetFinal(9, -0.25);
  NnetChainExample example = ChainExample(Supervised(nothing, 2, -1e-20f), Vector());
  example.outputs.push_back(NnetChainSupervision("one-state", Supervised(one_state, 2, 1.0), Vector(), 0, 1));
  example.outputs.push_back(NnetChainSupervision("unreached", Supervised(unreached, 2, 1.0), Vector(), 0, 1));
  return example;
}

static NnetChainExample Merged() {
  std::vector<NnetChainExample> examples;
  for (int32 n = 0; n < 3; n++) examples.push_back(ChainExample(Supervised(Line(2, 1 + 10 * n), 2, 1.0), Weights(2)));
  NnetChainExample merged;
  kaldi::nnet3::MergeChainExamples(true, &examples, &merged);
  return merged;
}

// What NnetChainExample::Read takes, but Write no longer writes: weights of one byte each, or no weights.
struct OldChainExample {
  NnetChainExample example;
  bool weights;

  void Write(std::ostream &os, bool binary) const {
    kaldi::WriteToken(os, binary, "<Nnet3ChainEg>");
    kaldi::WriteToken(os, binary, "<NumInputs>");
    kaldi::WriteBasicType(os, binary, static_cast<int32>(example.inputs.size()));
    for (const NnetIo &input : example.inputs) input.Write(os, binary);
    kaldi::WriteToken(os, binary, "<NumOutputs>");
    kaldi::WriteBasicType(os, binary, static_cast<int32>(example.outputs.size()));
    for (const NnetChainSupervision &output : example.outputs) {
      kaldi::WriteToken(os, binary, "<NnetChainSup>");
      kaldi::WriteToken(os, binary, output.name);
      kaldi::nnet3::WriteIndexVector(os, binary, output.indexes);
      output.supervision.Write(os, binary);
      if (weights) {
        kaldi::WriteToken(os, binary, "<DW>");
        kaldi::nnet3::WriteVectorAsChar(os, binary, output.deriv_weights);
      }
      kaldi::WriteToken(os, binary, "</NnetChainSup>");
    }
    kaldi::WriteToken(os, binary, "</Nnet3ChainEg>");
  }
  void Read(std::istream &is, bool binary) { example.Read(is, binary); }
};

// Kaldi's own reader has to take what is written.
template <class Example>
static void ReadBack(const std::string &name, int32 expected) {
  int32 count = 0;
  kaldi::SequentialTableReader<kaldi::KaldiObjectHolder<Example>> reader("ark:" + name);
  for (; !reader.Done(); reader.Next(), count++) reader.Value();
  if (count != expected) KALDI_ERR << name << ": " << count << " examples read back, not " << expected;
}

static void WriteAll(bool binary) {
  const std::string ending = binary ? ".ark" : ".txt";
  auto wspecifier = [&](const std::string &name) {
    return (binary ? "ark,scp:" : "ark,t:") + name + ending + (binary ? "," + name + ".scp" : "");
  };
  {
    kaldi::TableWriter<kaldi::KaldiObjectHolder<NnetExample>> writer(wspecifier("nnet"));
    writer.Write("usual", Usual());
    writer.Write("indexes", IndexShapes());
    writer.Write("features", FeatureKinds());
  }
  {
    kaldi::TableWriter<kaldi::KaldiObjectHolder<NnetChainExample>> writer(wspecifier("chain"));
    writer.Write("plain", ChainExample(Supervised(Frames(4, 3), 4, 1.0), Vector()));
    writer.Write("end-to-end", EndToEnd());
    writer.Write("two-outputs", TwoOutputs());
    writer.Write("odd-graphs", OddGraphs());
    writer.Write("merged", Merged());
  }
  {
    kaldi::TableWriter<kaldi::KaldiObjectHolder<OldChainExample>> writer(wspecifier("old_chain"));
    for (bool weights : {true, false})
      writer.Write(weights ? "byte-weights" : "no-weights",
                   OldChainExample{ChainExample(Supervised(Line(3, 2), 3, 1.0), Weights(3)), weights});
  }
  ReadBack<NnetExample>("nnet" + ending, 3);
  ReadBack<NnetChainExample>("chain" + ending, 5);
  ReadBack<NnetChainExample>("old_chain" + ending, 2);
}

int main() {
  try {
    for (bool binary : {true, false}) WriteAll(binary);
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
