#include <mha/formats/onnx_graph.hpp>

#include <mha/formats/onnx_between.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>

namespace mha::io {

std::optional<std::variant<OnnxLayer, OnnxRefusal>>
onnx_layer_at(const std::shared_ptr<const OnnxFlow>& flow, const OnnxProjections& projections,
              int step) {
  auto found = spelt_out_attention(*flow, projections, step);
  if (!found) found = attention_operator(*flow, step);
  if (!found) return std::nullopt;
  if (auto* refusal = std::get_if<OnnxRefusal>(&*found)) return std::move(*refusal);
  return onnx_layer(flow, projections, std::get<OnnxAttentionSite>(*found));
}

namespace {

constexpr std::int64_t another_length = 11, two_texts = 2;
constexpr std::int64_t far_length = 10'007; ///< longer than the windows of models

/// Whether a setting or tensor belongs to the mask, which may differ between lengths.
bool is_of_mask(std::string_view name) {
  return is_one_of(name, {"causal", "window_left", "window_right", "alibi", "buckets_before",
                          "buckets_after", "bias", "mask", "relative_bias"});
}

/// The settings and tensors that must be the same for every length.
std::vector<std::string> parts_of(const OnnxLayer& layer) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : layer.settings)
    if (!is_of_mask(name)) parts.push_back(name + " = " + value);
  for (const Entry& entry : layer.tensors)
    if (!is_of_mask(entry.name))
      parts.push_back(entry.name + to_string(entry.shape) + entry.own_name);
  return parts;
}

} // namespace

OnnxOtherLengths::Length OnnxOtherLengths::make(std::int64_t length, std::int64_t texts,
                                                bool padded) const {
  Length made{flow_.of_length(length, texts, padded), nullptr};
  made.projections = std::make_unique<OnnxProjections>(*made.flow);
  return made;
}

std::variant<OnnxLayer, OnnxRefusal> OnnxOtherLengths::read(const Length& at, int step) const {
  auto found = onnx_layer_at(at.flow, *at.projections, step);
  if (!found) return OnnxRefusal{step, "nothing is multiplied before it or after it"};
  return std::move(*found);
}

std::string OnnxOtherLengths::refusal(int step, OnnxLayer& layer) {
  // A graph with a length of its own is checked only at this length.
  const bool short_text = flow_.length == OnnxFlow::usual_length;
  if (others_.empty()) {
    const std::int64_t length = short_text ? another_length : flow_.length;
    others_.push_back(make(length, two_texts, true));
    if (others_.front().flow->required_length == flow_.length)
      others_.front() = make(flow_.length, two_texts, true);
  }
  const std::vector<std::string> wanted = parts_of(layer);
  std::string why;
  for (std::size_t i = 0; i < 2; ++i) {
    // The graph may accept only a single text, so one text of that length is tried as well.
    if (i == others_.size()) others_.push_back(make(others_.front().flow->length, 1, true));
    const auto found = read(others_[i], step);
    const auto* same = std::get_if<OnnxLayer>(&found);
    if (same && std::ranges::equal(parts_of(*same), wanted)) {
      why.clear();
      break;
    }
    why = "for another length, ";
    if (!same)
      why += std::get<OnnxRefusal>(found).why;
    else if (same->remarks.empty())
      why += "its parts are others";
    else
      why += same->remarks.back().in_words(Wording::program);
  }
  if (!why.empty()) return why;
  const Length* far = find_far();
  const auto site = far ? onnx_site_unproved(*far->flow, *far->projections, step) : std::nullopt;
  if (site && !holds_onnx_mask_far(*site, layer)) {
    const int scores = far->flow->steps[static_cast<std::size_t>(step)].input(0);
    return "in a long text something else is added to its scores: " +
           onnx_steps_in_words(*far->flow,
                               onnx_steps_before(*far->flow, *far->projections, scores));
  }
  return "";
}

const OnnxOtherLengths::Length* OnnxOtherLengths::find_far() {
  if (!far_) {
    far_ = make(far_length, 1, false);
    // The tables of a graph may be shorter.
    const std::int64_t wanted = far_->flow->required_length;
    if (wanted > 1 && wanted < far_length) far_ = make(wanted, 1, false);
  }
  return &*far_;
}

} // namespace mha::io
