#include <mha/load/draft_naming.hpp>

#include <mha/formats/onnx_graph.hpp>
#include <mha/load/as_naming.hpp>
#include <mha/load/draft.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mha {

std::optional<std::string> Draft::text() {
  find_width();
  take_attention();
  if (!tensors_.contains("W_q") && !tensors_.contains("W_qkv")) return std::nullopt;
  take_feed_forward();
  take_scales();
  take_norms();
  using DraftJson = nlohmann::ordered_json;
  const DraftJson embed = DraftJson::parse(steps_of_embed()),
                  head = DraftJson::parse(head_of_model());
  const std::string final_norm = last_norm();
  const bool after = final_norm.empty() && !norm_first_ && tensors_.contains("mlp.norm");
  DraftJson top;
  top["layers"] = stack_.prefix();
  top["block"] = block(after);
  if (tensors_.contains("mlp.out"))
    top["activation"] = DraftJson::parse(
        configured({"hidden_act", "activation", "activation_function"}, "\"gelu\""));
  top["norm"] = {{"kind", norm_kind_},
                 {"eps", DraftJson::parse(configured(
                             {"layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"},
                             config_of_layers("eps") ? configured({"eps"}, "") : "1e-5"))}};
  top["embed"] = embed;
  for (const auto& [key, value] : tensors_) top["tensors"][key] = DraftJson::parse(value);
  if (!final_norm.empty()) top["final_norm"] = DraftJson::parse(norm_named(final_norm, final_norm));
  if (!head.is_null()) top["head"] = head;
  const bool causal =
      predicts_next() || (tokens_ && !head.is_null() && !head.contains("dense") && !after);
  top["settings"] = DraftJson::parse(settings(causal));
  if (const std::vector<std::string> rest = leftovers(); !rest.empty()) top["ignore"] = rest;
  return spread_description(top.dump());
}

std::string Draft::block(bool after) const {
  if (!tensors_.contains("mlp.out")) return "attention_only";
  if (const auto* first = config_of_layers("norm_first"))
    return first->second == "true" ? "pre" : "post";
  // A single norm serves both sublayers.
  if (!after && tensors_.contains("norm") && !tensors_.contains("mlp.norm")) return "parallel";
  return after ? "post" : "pre";
}

void Draft::claim(const std::string& name) {
  claimed_.insert(stack_.pattern(name));
  claimed_.insert(stack_.pattern(bias_beside(name)));
}

namespace {

/// Whether a file has a mixture of experts, whose maps would be drafted as those of heads.
bool has_experts(const io::Contents& file) {
  return std::ranges::any_of(file.tensors, [](const io::Entry& entry) {
    return entry.name.find(".experts.") != std::string::npos ||
           entry.name.find("_moe.") != std::string::npos ||
           entry.name.find(".moe.") != std::string::npos;
  });
}

std::optional<std::string> draft_of(const io::Contents& file) {
  if (has_experts(file)) return std::nullopt;
  std::optional<NumberedStack> stack = numbered_stack(file);
  if (!stack) return std::nullopt;
  return Draft(file, std::move(*stack)).text();
}

} // namespace

std::optional<std::string> draft_naming(const io::Contents& file) {
  if (file.graph) {
    io::Contents weights = file;
    weights.tensors = file.graph->parameters, weights.order = nullptr;
    if (std::optional<std::string> text = draft_of(weights)) return text;
  }
  return draft_of(file);
}

} // namespace mha
