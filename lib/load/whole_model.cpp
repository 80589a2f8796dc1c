#include <mha/load/whole_model.hpp>

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/family_text.hpp>
#include <mha/load/families/kinds.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/known_models.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

using naming::DescribedTensor;
using naming::Found;
using naming::Group;

[[noreturn]] void fail_of_both(const std::vector<Found>& found) {
  Message encoder; // may be computed alone where its family is read as a whole model
  for (const Found& layer : found)
    if (const std::size_t at = layer.group.prefix.find("encoder.");
        encoder.empty() && naming::has_whole_model(*layer.family) && at != std::string::npos)
      encoder = message("<prefix> {} computes the encoder alone; else ",
                        layer.group.prefix.substr(0, at + std::string_view("encoder").size()));
  fail("{}: an encoder and a decoder are not covered as a whole model yet; {}{}",
       found[0].group.contents->name, encoder, or_describe_it);
}

/// Whether a layer is one of those after the last, which predict the tokens after the next one.
bool predicts_further_tokens(const Group& group) {
  if (group.description) return false;
  if (group.within({"mtp", "mtp_block"})) return true;
  const auto layers = group.configured_count({"num_hidden_layers"}),
             further = group.configured_count({"num_nextn_predict_layers"});
  return layers && further.value_or(0) > 0 && group.number().value_or(0) >= *layers;
}

/// The layers of the text model: of one family, under one prefix, numbered from 0.
std::vector<Found> stack_of(const std::vector<Found>& found) {
  std::vector<Found> stack;
  const auto is_any = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(found, [&](const Found& one) { return one.group.within(parts); });
  };
  const bool both = is_any({"encoder."}) && is_any({"decoder."});
  for (const Found& layer : found) {
    const Group& group = layer.group;
    if (group.within({"vision", "visual", "audio"}) || predicts_further_tokens(group)) continue;
    if (stack.empty()) require_naming_fits(layer);
    if (both || group.within({"crossattention", "encoder_attn", "EncDecAttention"}))
      fail_of_both(found);
    stack.push_back(layer);
  }
  if (found.empty()) fail("a text needs a checkpoint with a model's layers; {}", give_X_instead);
  if (stack.empty()) {
    require_naming_fits(found[0]);
    fail("{}: its {} layers are of images or sound, and a text needs those of a text model; {}",
         found[0].group.contents->name, found[0].family->title, give_X_instead);
  }
  for (std::size_t n = 0; n < stack.size(); ++n) {
    const Found& layer = stack[n];
    const Group& group = layer.group;
    const std::string& file = group.contents->name;
    if (layer.family != stack[0].family || !naming::has_whole_model(*layer.family))
      fail("{}: {} is not covered as a whole model yet; {}", file, layer.family->title,
           or_describe_it);
    if (n > 0 && group.number() == stack[n - 1].group.number())
      fail("{}: layer {} is there twice, as {} and {}: a text is computed by one model; {}", file,
           group.number().value_or(0), stack[n - 1].group.prefix, group.prefix, give_X_instead);
    if (group.number().value_or(0) != n)
      fail(
          "{}: layer {} is missing, or a projection of it: the layers of a whole model are needed; "
          "{}",
          file, n, give_X_instead);
  }
  return stack;
}

/// Throws Error where the family does not cover the config's model_type as a whole model.
void require_covered(const Found& layer) {
  const Group& group = layer.group;
  const std::optional<std::string> type = group.configured("model_type");
  const std::vector<std::string_view> covered = words_of(naming::whole_models_of(*layer.family));
  if (!type || covered.empty() || !is_known_model(layer)) return; // the user chose it
  if (std::none_of(covered.begin(), covered.end(),
                   [&](std::string_view model) { return group.is_model({model}); }))
    fail("{}: model_type '{}' has {}'s names, but is not covered as a whole model yet; {}",
         group.contents->name, *type, layer.family->title, or_describe_it);
}

} // namespace

namespace {

/// Throws Error for a layer in a user's file of a kind that is not computed.
const std::vector<Found>& with_kinds_computed(const std::vector<Found>& found) {
  for (const Found& layer : found) {
    if (!layer.family->tree && !layer.group.description) continue;
    const std::vector<naming::TensorOfKind> parts = naming::named_of_kinds(layer);
    if (!naming::kind_of(parts, false).empty())
      fail("{}; {}", naming::why_of_kind(layer.id, parts, false), give_X_instead);
  }
  return found;
}

} // namespace

WholeModel::WholeModel(const std::vector<Found>& found)
    : layers_(stack_of(with_kinds_computed(found))) {
  require_covered(layers_[0]);
  description_ = naming::model_of(*layers_[0].family, layers_[0].group);
  for (const Found& layer : layers_) ids_.push_back(layer.id);
  find_shared_keys();
  require_alike();
  read_ends();
  check_config();
}

/// A layer with "keys": "earlier" takes those of the last one before it that has its own and the
/// same "keys_kind".
void WholeModel::find_shared_keys() {
  std::map<std::string, std::size_t> last; // with keys of its own, by kind
  for (const Found& layer : layers_) {
    const Group& group = layer.group;
    const std::size_t n = keys_of_.size();
    const naming::Description& own = group.description
                                         ? *group.description
                                         : naming::description_of(*layer.family, group, false);
    const auto setting = [&](const char* name) -> std::string {
      const auto found = own.settings.find(name);
      return found == own.settings.end() ? "" : found->second.value(group, n).value_or("");
    };
    const std::string kind = setting("keys_kind");
    if (setting("keys") != "earlier") {
      last[kind] = n;
      keys_of_.emplace_back();
      continue;
    }
    const auto source = last.find(kind);
    if (source == last.end())
      fail("{}: layer {} takes the keys of an earlier one of its kind, and there is none; {}",
           group.contents->name, n, give_X_instead);
    keys_of_.emplace_back(source->second);
  }
}

bool WholeModel::gives_keys(std::size_t number) const {
  return std::ranges::find(keys_of_, std::optional(number)) != keys_of_.end();
}

/// Throws Error where a layer lacks a tensor that most layers have: it was lost.
void WholeModel::require_alike() const {
  if (!description_->is_family) return require_biases_alike();
  const io::Contents& file = *layers_[0].group.contents;
  const std::string first = block_prefix(layers_[0].group, *description_); // "transformer.h.0."
  const std::string stack = first.substr(0, first.rfind('.', first.size() - 2) + 1);
  std::map<std::string, std::vector<bool>> layers_with; // by the name after "h.N."
  const bool counted_by_config = layers_[0].group.configured("num_hidden_layers").has_value();
  for (const io::Entry& entry : file.tensors) {
    if (first.empty() || !entry.name.starts_with(stack)) continue;
    std::string_view rest = std::string_view(entry.name).substr(stack.size());
    const auto number = take_number<std::size_t>(rest);
    if (!number || !rest.starts_with('.')) continue;
    const std::size_t n = *number;
    if (n >= layers_.size() && !counted_by_config)
      fail("{}: {} is of layer {}, of which a projection is missing; {}", file.name, entry.name, n,
           give_X_instead);
    if (n >= layers_.size()) continue;
    std::vector<bool>& with = layers_with[std::string(rest.substr(1))];
    with.resize(layers_.size());
    with[n] = true;
  }
  for (const auto& [name, with] : layers_with) {
    const auto count = static_cast<std::size_t>(std::ranges::count(with, true));
    if (count == layers_.size() || 2 * count < layers_.size()) continue;
    if (is_one_of(name, description_->lacking) || is_of_either_feed_forward(*description_, name))
      continue;
    const auto without = static_cast<std::size_t>(std::ranges::find(with, false) - with.begin());
    fail("{}: {}{}.{} is missing, which {} of the {} layers have; {}", file.name, stack, without,
         name, count, layers_.size(), give_X_instead);
  }
}

/// Checks biases beside their weights, the only tensors that a user's description leaves optional.
void WholeModel::require_biases_alike() const {
  for (const auto& [key, tensor] : description_->tensors) {
    if (!naming::is_of_layer(key) || !tensor.values.empty() || tensor.optional) continue;
    std::vector<bool> with;
    for (const Found& layer : layers_)
      with.push_back(DescribedFile(*description_, layer.group).bias(tensor) != nullptr);
    const auto count = static_cast<std::size_t>(std::ranges::count(with, true));
    if (count == layers_.size() || 2 * count < layers_.size()) continue;
    const auto without = static_cast<std::size_t>(std::ranges::find(with, false) - with.begin());
    const DescribedFile lacks(*description_, layers_[without].group);
    fail("{}: {}: the bias of {} is missing, which {} of the {} layers have; {}", tensor.where,
         layers_[0].group.contents->name, lacks.whole_name(key, tensor.name), count, layers_.size(),
         give_X_instead);
  }
}

namespace {

/// Whether a size has another family's key while another spelling has the actual size. Keys that
/// Transformers has in every family always count.
bool is_left_over(const Group& group, std::string_view key, std::size_t actual) {
  if (key == "hidden_size" || key == "num_hidden_layers" || key == "vocab_size" || !group.reads)
    return false;
  for (std::string_view other : naming::size_spellings(key)) {
    if (other == key || !group.config_has(other)) continue;
    if (group.configured_number({other}) != static_cast<double>(actual)) continue;
    group.reads->overrule(key);
    return true;
  }
  return false;
}

} // namespace

void WholeModel::check_config() const {
  const Group& group = layers_[0].group;
  if (group.description) return; // it defines the meaning of its keys
  const auto check = [&](std::initializer_list<std::string_view> keys, std::size_t actual,
                         std::string_view what) {
    for (std::string_view key : group.spellings(keys)) {
      const std::optional<double> configured = group.configured_number({key});
      if (!configured || *configured == static_cast<double>(actual) || !group.config_has(key))
        continue;
      if (is_left_over(group, key, actual)) continue;
      fail("{}: config.json has {} {}, but the tensors have {} {}", group.contents->name, key,
           *configured, actual, what);
    }
  };
  // ALBERT counts inner_group_num layers as one.
  std::size_t inner = 1;
  if (layers_[0].family->present)
    inner = group.configured_count({"inner_group_num"}, 1).value_or(inner);
  check({"num_hidden_layers"}, layers_.size() / inner, "layers");
  check({"embedding_size"}, embedding_.tokens.shape()[1], "numbers in a token's row");
  check({"hidden_size"}, width(), "numbers a token");
  check({"vocab_size"}, vocabulary(), "tokens");
  group.configured("head_dim"); // counts as read: check_layer compares it
  const auto first = block(0);
  if (first->mlp.present())
    check({group.config_has("intermediate_size_mlp")
               ? "intermediate_size_mlp" // Llama 4's dense one
               : "intermediate_size"},
          first->mlp.in.out(), "numbers in the feed-forward");
  if (description_->tensor("W_router")) check_experts(*first);
  if (!embedding_.positions.empty())
    // Nothing reads n_ctx where there is n_positions.
    check({"n_positions", "max_position_embeddings", "block_size",
           group.configured("n_positions") ? "n_positions" : "n_ctx"},
          embedding_.positions.shape()[0] -
              std::min(embedding_.first_position, embedding_.positions.shape()[0]),
          "positions");
  if (layer_embedding_.width > 0) {
    check({"hidden_size_per_layer_input"}, layer_embedding_.width, "numbers a layer's embedding");
    check({"vocab_size_per_layer_input"}, layer_embedding_.table.shape()[0],
          "tokens with embeddings for the layers");
  }
  if (!embedding_.types.empty())
    check({"type_vocab_size"}, embedding_.types.shape()[0], "types of tokens");
  if (description_->own_vocabulary && head_.present())
    check({"d_vocab_out"}, head_.decoder.out(), "logits");
  // layer_types has an entry a layer, even if the family does not read it.
  for (const auto& [key, value] : *group.config) {
    std::string_view own = key;
    for (std::string_view section : naming::text_sections)
      if (own.starts_with(section)) own.remove_prefix(section.size());
    // Step-3.5's lists go on for the layers that predict further tokens.
    const std::size_t further = group.configured_count({"num_nextn_predict_layers"}).value_or(0);
    if (own == "layer_types" && naming::element(value, layers_.size() + further))
      fail("{}: config.json's {} go beyond the {} layers", group.contents->name, key,
           layers_.size());
  }
}

/// Throws Error where config.json counts other experts than the layers have.
void WholeModel::check_experts(const TransformerBlock& first) const {
  const Group& group = layers_[0].group;
  std::size_t experts = first.mixture ? first.mixture->in.size() : 0;
  for (std::size_t n = 1; n < layers_.size() && experts == 0; ++n)
    if (const auto mixture = block(n)->mixture) experts = mixture->in.size();
  if (experts == 0 &&
      group.is_model({"mixtral", "granitemoe", "granitemoeshared", "gpt_oss", "minimax_m2"}))
    fail("{}: model_type '{}' is a mixture of experts, but no layer has a router",
         group.contents->name, group.configured("model_type").value_or(""));
  for (std::string_view key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    const std::optional<double> configured = group.configured_number({key});
    // A dense model of such a family.
    const bool none =
        experts == 0 && (configured.value_or(0) <= 1 || group.configured("moe_layers") == "");
    if (configured && group.config_has(key) && !none && *configured != static_cast<double>(experts))
      fail("{}: config.json has {} {}, but the tensors have {} experts", group.contents->name, key,
           *configured, experts);
  }
}

void WholeModel::check_layer(const Layer& layer) const {
  if (layer.dims.d_out != width())
    fail("{}: the output of a layer's attention is {} wide, the stream that it is added to {}: a "
         "W_o or output of another width",
         layers_[0].group.contents->name, layer.dims.d_out, width());
  if (layers_[0].group.description) return;
  if (layer.dims.r_kv > 0) return; // latent attention: the tensors give its widths
  const Group& group = layers_[0].group;
  const auto has = [&](std::string_view key) { return group.config_has(key); };
  if (layer.dims.d_v != layer.dims.d_k && !has("v_head_dim"))
    fail("{}: a layer's queries and keys are {} wide a head, its values {}: one width expected in "
         "models of this kind",
         layers_[0].group.contents->name, layer.dims.d_k, layer.dims.d_v);
  if (has("swa_head_dim") || has("global_head_dim")) return; // some layers have another width
  for (std::string_view key : group.spellings({"head_dim"})) {
    const std::optional<double> configured = group.configured_number({key});
    if (configured && layer.dims.d_k > 0 && *configured != static_cast<double>(layer.dims.d_k) &&
        group.config_has(key))
      fail("{}: config.json has {} {}, but the tensors' heads are {} wide", group.contents->name,
           key, *configured, layer.dims.d_k);
  }
}

bool WholeModel::causal() const {
  if (description_->is_family) return description_->predicts_next;
  const auto causal = description_->settings.find("causal");
  if (causal == description_->settings.end()) return false;
  const std::optional<std::string> value = causal->second.value(layers_[0].group);
  return value == "true" || value == "1";
}

std::optional<std::size_t> WholeModel::trained_positions() const {
  const auto configured = layers_[0].group.configured_number({"max_position_embeddings", "n_ctx"});
  constexpr double most = 9007199254740992; // 2^53
  if (!configured || !(*configured > 0 && *configured < most) || !embedding_.positions.empty())
    return std::nullopt;
  return static_cast<std::size_t>(*configured);
}

std::optional<int> WholeModel::pad() const {
  const auto configured = layers_[0].group.configured_number({"pad_token_id"});
  if (configured && *configured != std::floor(*configured))
    fail("config.json: pad_token_id is {}: a token's number expected", *configured);
  // Some configs have −1, or a number after the vocabulary: there is none.
  if (!configured || *configured < 0 || *configured >= static_cast<double>(vocabulary()))
    return std::nullopt;
  return static_cast<int>(*configured);
}

std::optional<int> WholeModel::mask_token() const {
  const Group& group = layers_[0].group;
  const auto configured = group.configured_count({"mask_token_id"});
  if (!configured || *configured >= vocabulary())
    fail("{}: config.json has token_dropout, which needs mask_token_id, a token's number",
         group.contents->name);
  return static_cast<int>(*configured);
}

std::shared_ptr<const TransformerBlock> WholeModel::block(std::size_t number) const {
  const ModelReader reader(layers_.at(number).group, *description_);
  return std::make_shared<TransformerBlock>(reader.block(width()));
}

} // namespace mha
