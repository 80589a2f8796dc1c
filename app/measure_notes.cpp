#include "measure_notes.hpp"

#include <mha/render/label.hpp>
#include <mha/render/text.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::app {

std::optional<double> weight_on_first_key(const std::vector<HeadMeasures>& heads) {
  constexpr double least_rows = 16, least_above_uniform = 1.5;
  double sum = 0, uniform = 0, count = 0;
  for (const HeadMeasures& head : heads)
    if (head.first && head.counts.first.value_or(0) >= least_rows)
      sum += *head.first, uniform += head.uniform.first.value_or(0), ++count;
  if (count == 0 || sum < least_above_uniform * uniform) return std::nullopt;
  return sum / count;
}

void SinkNote::add(const std::string& layer, const std::vector<HeadMeasures>& heads) {
  ++layers_;
  const std::optional<double> share = weight_on_first_key(heads);
  if (share && *share > 1.0 / 3) sinks_.push_back({layer, *share});
}

void SinkNote::print(const Common& common) const {
  if (sinks_.empty()) return;
  const auto most = std::ranges::max_element(sinks_, {}, &LayerSink::share);
  const std::string share = fmt::format("{:.0f} %", 100 * most->share);
  const std::string where = layers_ == 1
                                ? fmt::format("key 0 has {} of the weight (a sink)", share)
                                : fmt::format("key 0 has more than a third of the weight in {} of "
                                              "{} layers, up to {} in layer {} (a sink)",
                                              sinks_.size(), layers_, share, most->layer);
  print_note(where + "; `map --without-sink` draws the other keys", common);
}

void SeparatorWords::search(const Layer& layer) {
  for (std::size_t b = 0; b < layer.dims.B && found_.size() < words_.size(); ++b)
    for (const std::string& token : layer.key_tokens_of(b))
      if (is_one_of(token, words_)) found_.insert(token);
}

std::string SeparatorWords::missing() const {
  std::string list;
  for (const std::string& word : words_)
    if (!found_.contains(word))
      list += fmt::format("{}'{}'", list.empty() ? "" : ", ", render::visible(word));
  if (list.empty()) return "";
  return fmt::format("--separators: no token is {}; `tokens` shows how tokens are written", list);
}

} // namespace mha::app
