// Measures of texts in a batch: every measure of a text by itself has the bits that it has alone,
// whatever the padding of the others.

#include "support/places.hpp"

#include <mha/heads/measures.hpp>
#include <mha/model/opened_model.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

using namespace mha;

namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

const std::vector<std::string> texts{"my love, my love, my lord",
                                     "O Romeo, Romeo! wherefore art thou Romeo?", "the king",
                                     "the king is dead, long live the king; to be, or not to be"};

/// The measures of each head of each text.
std::vector<HeadMeasures> measured(const std::string& model, const std::vector<std::string>& of,
                                   const Given& settings, std::size_t threads) {
  RunRequest request;
  request.sources = {test::source_folder() + "/data/" + model};
  request.text.texts = of, request.layer = "1", request.settings = settings;
  OpenedModel opened(std::move(request));
  MeasureRequest each;
  each.each_batch = true, each.threads = threads;
  return measure_heads(opened.load("1").layer, each).heads;
}

bool same_bits(std::optional<double> a, std::optional<double> b) {
  return a.has_value() == b.has_value() && (!a || std::memcmp(&*a, &*b, sizeof *a) == 0);
}
bool nearly_same(std::optional<double> a, std::optional<double> b) {
  return a.has_value() == b.has_value() && (!a || std::abs(*a - *b) < 1e-4 * (1 + std::abs(*b)));
}

} // namespace

TEST_CASE("every measure of a text in a batch has the bits that it has alone", "[measures]") {
  std::size_t compared = 0;
  for (const char* model : {"bard-gpt2", "bard-llama", "bard-bert"})
    for (const Given& settings :
         {Given{}, {{"window_left", "2"}}, {{"zero_attn", "true"}}, {{"causal", "false"}}}) {
      const std::vector<HeadMeasures> together = measured(model, texts, settings, 3);
      const std::size_t heads = together.size() / texts.size();
      const bool zero = !settings.empty() && settings[0].first == "zero_attn";
      for (std::size_t b = 0; b < texts.size(); ++b) {
        const std::vector<HeadMeasures> alone = measured(model, {texts[b]}, settings, 1);
        REQUIRE(alone.size() == heads);
        for (std::size_t h = 0; h < heads; ++h)
          for (const Measure& measure : measures()) {
            if (measure.name == "max_batch") continue;
            INFO(model << " " << (settings.empty() ? "" : settings[0].first) << " text " << b
                       << " head " << h << " " << measure.name);
            const auto a = measure.of(together[b * heads + h]), want = measure.of(alone[h]);
            // A key of zeros stands after the padding, which changes the last bits of sums.
            CHECK((zero ? nearly_same(a, want) : same_bits(a, want)));
            compared += want.has_value();
          }
      }
    }
  CHECK(compared > 5000);
}
