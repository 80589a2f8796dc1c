#include <mha/load/family_record.hpp>

#include <mha/load/described_names.hpp>
#include <mha/load/description_keys.hpp>
#include <mha/load/description_parts.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mha::description {

using naming::Bias;
using naming::BiasRule;
using naming::DescribedTensor;

namespace {

/// true, false, "if_there", or {"config": KEY, "default": false}.
BiasRule rule_of(const JsonTree& tree) {
  BiasRule rule;
  if (tree.is_boolean()) {
    rule.fixed = tree.is_true() ? Bias::always : Bias::never;
  } else if (tree.is_object()) {
    rule.key = tree.find("config") ? tree.find("config")->as_text("config") : "";
    const JsonTree* otherwise = tree.find("default");
    rule.otherwise = otherwise && otherwise->as_boolean("default");
  } else if (tree.as_text("a rule of biases") != "if_there") {
    tree.refuse("true, false, \"if_there\" or {\"config\": KEY, \"default\": false} expected");
  }
  return rule;
}

Bias bias_of_map(const DescribedTensor& map) {
  if (map.needs_bias) return Bias::always;
  return map.bias && map.bias->empty() ? Bias::never : Bias::if_there;
}

std::string words_in(const JsonTree* list) {
  std::string words;
  if (list)
    for (const JsonTree& name : list->elements) words += name.as_text("a name") + " ";
  return words;
}

/// A text of the file with its references: "<rope> none chooses".
Message message_of(const JsonTree& text) {
  return Message::of_marked(mha::detail::with_marks(text.as_text("a text")));
}

} // namespace

void FamilyRecord::make() {
  record_.shape = shape_;
  if (const JsonTree* models = tree_.find("whole_models"))
    to_.models = models->as_text("whole_models") == "*" ? "" : models->text;
  record_.models = to_.models;
  if (!to_.layers.empty()) {
    const std::string& layers = to_.layers[0]; // "h.{layer}."
    record_.layers = std::string_view(layers).substr(0, std::min(layers.find(".{"), layers.size()));
  }
  to_.always = words_in(tree_.find("always"));
  to_.beside = fmt::format("{}", fmt::join(to_.ignore, " "));
  record_.always = to_.always, record_.not_in_all = to_.not_in_all, record_.beside = to_.beside;
  if (const JsonTree* attention = tree_.find("attention"))
    to_.attention_depth =
        static_cast<std::size_t>(std::ranges::count(attention->as_text("attention"), '.'));
  read_rules(), read_steps(), read_texts(), read_returns();
  take_embedding(), take_norms(), take_feed_forward(), take_head();
  if (const JsonTree* predicts = tree_.find("predicts"))
    record_.causal = predicts->as_text("predicts") == "next";
}

void FamilyRecord::read_rules() {
  const JsonTree* const rules = tree_.find("biases");
  if (!rules) return;
  for (const auto& [key, tree] : rules->members) {
    BiasRule* const rule = key == "qkv"      ? &to_.qkv_bias
                           : key == "output" ? &to_.output_bias
                           : key == "mlp"    ? &to_.mlp_bias
                           : key == "norms"  ? &to_.norm_bias
                                             : nullptr;
    if (!rule) tree.refuse(fmt::format("'{}': qkv, output, mlp or norms expected", key));
    *rule = rule_of(tree);
  }
}

void FamilyRecord::read_steps() {
  for (const auto& [key, steps] :
       {std::pair("steps", &to_.steps), {"model_steps", &to_.model_steps}})
    if (const JsonTree* const there = tree_.find(key))
      for (const auto& [name, arguments] : there->members)
        if (!arguments.is_null()) steps->push_back({name, arguments});
  if (const JsonTree* known = tree_.find("known"))
    for (const JsonTree& key : known->elements)
      to_.known_keys.push_back(key.as_text("a key of config.json"));
}

void FamilyRecord::read_texts() {
  const auto each = [&](const char* key, const auto& use) {
    const JsonTree* const there = tree_.find(key);
    if (!there) return;
    if (there->is_list())
      for (const JsonTree& text : there->elements) use(message_of(text));
  };
  each("note", [&](Message text) { to_.notes.emplace_back(std::move(text)); });
  each("warn", [&](Message text) { to_.notes.push_back(warning(std::move(text))); });
  each("refuse", [&](Message text) { to_.refusals.push_back(std::move(text)); });
}

void FamilyRecord::read_returns() {
  const JsonTree* const returns = tree_.find("returns");
  if (!returns) return;
  for (const auto& [module, stage] : returns->members)
    (module == "attention" ? record_.attention_returns : record_.mlp_returns) =
        find_stage(stage.as_text("a stage"));
}

std::string_view FamilyRecord::name_of_tensor(const char* key) const {
  const auto at = to_.tensors.find(key);
  return at == to_.tensors.end() ? std::string_view() : std::string_view(at->second.name);
}

std::string_view FamilyRecord::name_of_norm(const char* key) const {
  const auto at = to_.norms.find(key);
  return at == to_.norms.end() ? std::string_view() : std::string_view(at->second.weight);
}

void FamilyRecord::take_embedding() {
  record_.tokens = name_of_tensor("embed.token"), record_.shared_tokens = to_.shared_tokens;
  record_.positions = name_of_tensor("embed.position");
  record_.types = name_of_tensor("embed.type");
  record_.embedding_norm = name_of_norm("embed.norm");
  record_.embedding_linear = name_of_tensor("embed.linear");
  if (const auto map = to_.tensors.find("embed.linear"); map != to_.tensors.end())
    record_.embedding_linear_bias = bias_of_map(map->second);
}

void FamilyRecord::take_norms() {
  record_.norm = form_.kind == "rms"    ? InputNorm::rms
                 : form_.kind == "none" ? InputNorm::none
                                        : InputNorm::layer;
  to_.eps_keys = fmt::format("{}", fmt::join(form_.eps.keys, " "));
  record_.eps_keys = to_.eps_keys;
  if (form_.eps.constant) record_.eps = *parse_number<double>(*form_.eps.constant);
  record_.one_plus = form_.one_plus, record_.norm_is_bare = !form_.affine;
  const bool after = shape_ == BlockShape::post, inside = shape_ == BlockShape::post_inside;
  if (after) {
    record_.pre_mlp_norm = name_of_norm("norm");
    record_.post_block_norm = name_of_norm("mlp.norm");
  } else if (inside) {
    record_.post_attention_norm = name_of_norm("norm");
    record_.post_mlp_norm = name_of_norm("mlp.norm");
  } else {
    record_.pre_mlp_norm = name_of_norm("mlp.norm");
  }
  if (shape_ == BlockShape::sandwich) {
    record_.post_attention_norm = name_of_norm("post_norm");
    record_.post_mlp_norm = name_of_norm("mlp.post_norm");
  }
  record_.mlp_norm = name_of_norm("mlp.inner_norm");
  record_.last_norm = name_of_norm("final_norm");
}

void FamilyRecord::take_feed_forward() {
  record_.mlp_in = name_of_tensor("mlp.in"), record_.mlp_up = name_of_tensor("mlp.up");
  record_.mlp_gate_up = name_of_tensor("mlp.in_up"), record_.mlp_out = name_of_tensor("mlp.out");
  if (const auto out = to_.tensors.find("mlp.out"); out != to_.tensors.end())
    record_.in_out = out->second.layout == "io";
  record_.bias_of_product = to_.tensors.contains("mlp.product_bias");
  to_.activation_keys = fmt::format("{}", fmt::join(to_.activation.keys, " "));
  record_.activation_keys = to_.activation_keys;
  if (to_.activation.constant) record_.activation = *to_.activation.constant;
}

void FamilyRecord::take_head() {
  const JsonTree* const head = tree_.find("head");
  if (!head || head->is_null()) return;
  const DescribedTensor& decoder = to_.tensors.at("head");
  record_.head = decoder.name;
  record_.head_has_bias = bias_of_map(decoder);
  if (decoder.bias && !decoder.bias->empty()) {
    record_.head_bias = *decoder.bias;
    const JsonTree* own = head->find("own_bias");
    record_.head_has_bias = own && own->as_boolean("own_bias") ? Bias::if_there : Bias::never;
  }
  if (const JsonTree* own = head->find("own_vocabulary"))
    record_.own_vocabulary = own->as_boolean("own_vocabulary");
  if (const auto dense = to_.tensors.find("head.dense"); dense != to_.tensors.end()) {
    record_.head_dense = dense->second.name;
    record_.head_dense_bias = bias_of_map(dense->second);
  }
  record_.head_norm = name_of_norm("head.norm");
  if (to_.head_activation.constant) record_.head_activation = *to_.head_activation.constant;
  if (!to_.softcap.keys.empty()) record_.softcap_key = to_.softcap.keys[0];
  if (to_.softcap.constant) record_.softcap = *parse_number<double>(*to_.softcap.constant);
}

} // namespace mha::description
