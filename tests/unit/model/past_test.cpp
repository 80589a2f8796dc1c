// A text that goes on after a past: two calls of `advance` are one, of every family whose layers
// are causal (tests/models).

#include "support/compare.hpp"
#include "support/files.hpp"
#include "support/run.hpp"

#include <mha/kernels/routine.hpp>
#include <mha/load/load.hpp>
#include <mha/model/run.hpp>
#include <mha/observe/trace.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using Catch::Matchers::Contains;

namespace {

struct OpenedText {
  Sources sources;
  std::shared_ptr<const Weights> weights;

  OpenedText(const std::string& folder, DType dtype)
      : sources([&] {
          Request request;
          request.for_texts = true, request.dtype = dtype, request.sources = {folder};
          return request;
        }()),
        weights(std::make_shared<const Weights>(sources)) {}

  /// Tokens that the model has, of texts of nine.
  std::shared_ptr<const Texts> texts(bool several) const {
    Text text;
    const auto vocabulary = static_cast<int>(weights->model().embedding().tokens.shape()[0]);
    for (int b = 0; b < (several ? 2 : 1); ++b) {
      std::string ids;
      for (int t = 0; t < 9; ++t)
        ids += (t > 0 ? "," : "") + std::to_string((7 + 5 * t + 3 * b) % (vocabulary - 4) + 2);
      text.ids.push_back(ids);
    }
    return std::make_shared<const Texts>(weights, text);
  }
  std::shared_ptr<const Texts> first(const Texts& texts, std::size_t count) const {
    std::vector<std::vector<int>> ids = texts.ids();
    for (std::vector<int>& one : ids) one.resize(count);
    return std::make_shared<const Texts>(weights, padded(ids, texts.batched(), 0), "ids", false);
  }
  TextLayers layers(std::shared_ptr<const Texts> texts) const {
    return {sources, std::move(texts)};
  }
};

Tensor last_stream(const TextLayers& layers, std::vector<LayerPast>* past, std::size_t threads) {
  Advance way;
  way.past = past, way.threads = threads;
  return advance(layers, layers.embedded(), layers.count(), way).x;
}

/// Checks that rows [from, from + n) of each text of one stream are another: to the bit, or but for
/// rounding.
void check_rows(const Tensor& whole, std::size_t from, const Tensor& part, bool rounded) {
  for (std::size_t b = 0; b < part.shape()[0]; ++b)
    for (std::size_t t = 0; t < part.shape()[1]; ++t) {
      const Tensor expected = whole.at(b).at(from + t), found = part.at(b).at(t);
      CHECK((rounded ? compare(found, expected, 1e-5 * (1 + magnitude(expected)))
                     : compare_bits(found, expected)) == "");
    }
}

/// A text in parts of these numbers of tokens, each after the past of those before it.
void check_parts(const OpenedText& model, bool several, const std::vector<std::size_t>& parts) {
  const std::shared_ptr<const Texts> all = model.texts(several);
  const TextLayers one_call = model.layers(all);
  const Tensor whole = last_stream(one_call, nullptr, 1);
  // Counted from the last key, a row's biases are shifted by those of the keys that come later.
  const bool rounded = one_call.sized(0).settings.alibi == Alibi::mpt;
  std::vector<LayerPast> past;
  std::size_t from = 0;
  for (const std::size_t count : parts) {
    const auto rest = model.first(*all, from + count);
    const TextLayers layers =
        model.layers(from == 0 ? rest : std::make_shared<const Texts>(*rest, from));
    check_rows(whole, from, last_stream(layers, &past, 2), rounded);
    from += count;
  }
  CHECK(past[0].k.shape()[2] == from);
}

} // namespace

TEST_CASE("past: a text in several calls has the bits of one call, in every causal family",
          "[model]") {
  const test::Folder folder;
  for (const char* script : {"make.py", "text_families.py", "more_text_families.py"})
    if (const test::Result made = test::shell("/usr/bin/python3 tests/models/" +
                                              std::string(script) + " " + folder.path());
        made.code != 0) {
      WARN("no NumPy, so there are no models: " << made.err);
      return;
    }
  set_routine(Routine::fma);
  std::size_t causal = 0, others = 0;
  for (const std::string& name : folder.names()) {
    INFO(name);
    for (const DType dtype : {DType::f64, DType::f32}) {
      try {
        const OpenedText model(folder.path(name), dtype);
        check_parts(model, false, {4, 5});
        check_parts(model, true, {1, 6, 2});
        ++causal;
      } catch (const Error& error) {
        CHECK_THAT(error.what(), Contains("a past is of causal") || Contains("rope_scaling") ||
                                     Contains("not covered as a whole model"));
        ++others;
      }
    }
  }
  set_routine(std::nullopt);
  CHECK(causal >= 100);
  CHECK(others >= 20);
}
