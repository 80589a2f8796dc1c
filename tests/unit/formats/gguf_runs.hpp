#pragma once
// Tiny GGUF files, computed by the library and by the reference.

#include "support/files.hpp"
#include "support/gguf_models.hpp"
#include "support/run.hpp"

#include <mha/model.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace mha::test {

/// What became of a file: numbers and what was reported, or why there are none.
struct GgufOutcome {
  std::vector<double> numbers;
  std::string said, error;
};

inline const std::vector<int> gguf_ids{1, 5, 2, 9, 3, 4, 8};

inline reference::Array gguf_input() {
  reference::Array X({gguf_ids.size(), GgufSizes::width});
  for (std::size_t i = 0; i < X.values.size(); ++i)
    X.values[i] = std::sin(static_cast<double>(i * i % 97));
  return X;
}

class GgufRuns {
public:
  GgufRuns() {
    const reference::Array X = gguf_input();
    X_ = Tensor::of<double>(X.shape, X.values);
  }

  /// A whole model, or its layers; those of attention alone in any case.
  GgufOutcome run(const GgufTraits& traits, const GgufFile& file, bool alone = false) const {
    const std::string path = folder_.path("model.gguf");
    std::ofstream(path, std::ios::binary) << file.bytes();
    GgufOutcome outcome;
    try {
      if (traits.is_whole() && !alone)
        run_whole(path, traits, outcome);
      else
        for (const char* layer : {"0", "1"}) run_layer(path, layer, outcome);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    return outcome;
  }

  static std::vector<double> reference_of(const GgufTraits& traits, const GgufFile& file,
                                          bool alone = false) {
    if (traits.is_whole() && !alone) return gguf_logits(traits, file, gguf_ids).values;
    std::vector<double> numbers;
    for (const std::size_t layer : {0U, 1U}) {
      const std::vector<double> one = gguf_attention(traits, file, layer, gguf_input()).values;
      numbers.insert(numbers.end(), one.begin(), one.end());
    }
    return numbers;
  }

private:
  static void take(const Tensor& tensor, std::vector<double>& numbers) {
    for (std::size_t i = 0; i < tensor.count(); ++i) numbers.push_back(value_at(tensor, i));
  }
  static void run_whole(const std::string& path, const GgufTraits& traits, GgufOutcome& outcome) {
    const Model model(path, {.dtype = DType::f64});
    // A file without a head: the last layer's stream stands for its logits.
    const std::string last = !traits.has("headless")  ? "logits"
                             : traits.block == "post" ? "layers.1.resid_post"
                                                      : "final";
    const Run run = model.run(model.tokens(gguf_ids), {.keep = {last}, .threads = 1});
    take(run.tensor(last), outcome.numbers);
    for (const Note& note : run.notes()) outcome.said += note.text + "\n";
  }
  void run_layer(const std::string& path, const char* layer, GgufOutcome& outcome) const {
    Request request;
    request.sources = {path};
    request.bound = {{"X", X_}};
    request.layer = layer;
    request.dtype = DType::f64;
    request.settings = {{"input_norm", "checkpoint"}};
    const Sources sources(std::move(request));
    const LoadedLayer loaded = sources.load(sources.chosen().at(0));
    take(trace(loaded.layer, {Stage::output}, {}, 1).value(Stage::output), outcome.numbers);
    for (const Note& note : loaded.notes)
      if (note.is_warning()) outcome.said += note.text + "\n";
  }

  Folder folder_;
  Tensor X_;
};

inline bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference <= 4e-6 * largest; // Gemma's norms lost their last bits as they were stored + 1
}

} // namespace mha::test
