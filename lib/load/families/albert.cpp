// ALBERT: the weights attention.{query,key,value,dense} are stored (out, in), all with biases, and
// a layer normalises after attention and after the feed-forward. The layers share their weights:
// num_hidden_layers passes are divided in order among num_hidden_groups groups, and a pass computes
// the inner_group_num layers of its group. The embedding tables are embedding_size wide; a linear
// map widens their sum to the width of the layers.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/size_keys.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <functional>
#include <set>

namespace mha::naming {

namespace {

constexpr std::string_view groups_prefix = "encoder.albert_layer_groups.",
                           layers_prefix = "albert_layers.";

/// The parts of the name of a shared weight: model_prefix "albert.", group G, layer I of the group
/// and name "ffn.weight" of albert.encoder.albert_layer_groups.G.albert_layers.I.ffn.weight.
struct SharedTensorName {
  std::string_view model_prefix;
  std::size_t group = 0, layer = 0;
  std::string_view name;
};

/// Removes a number and the dot behind it from the start of the text, and returns the number.
std::optional<std::size_t> take_number_and_dot(std::string_view& text) {
  const auto number = take_number<std::size_t>(text);
  if (!number || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

std::optional<SharedTensorName> parse_shared_tensor_name(std::string_view name) {
  const std::size_t at = name.find(groups_prefix);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  SharedTensorName tensor;
  tensor.model_prefix = name.substr(0, at);
  name.remove_prefix(at + groups_prefix.size());
  const auto group = take_number_and_dot(name);
  if (!group || !name.starts_with(layers_prefix)) return std::nullopt;
  name.remove_prefix(layers_prefix.size());
  const auto layer = take_number_and_dot(name);
  if (!layer) return std::nullopt;
  tensor.group = *group, tensor.layer = *layer, tensor.name = name;
  return tensor;
}

/// The count that config.json gives under a spelling of the key, or `default_count` if it gives
/// none.
std::size_t count_in_config(const io::Contents& file, const Config& config, const std::string& key,
                            std::size_t default_count) {
  auto at = config.find(key);
  for (std::string_view spelling : size_spellings(key))
    if (at == config.end()) at = config.find(std::string(spelling));
  if (at == config.end() || at->second == "null") return default_count;
  const auto count = parse_number<std::size_t>(at->second);
  constexpr std::size_t largest_count = 4096;
  if (!count || *count == 0 || *count > largest_count)
    fail("{}: config.json: {} is '{}': a number from 1 to {} expected", file.name, key, at->second,
         largest_count);
  return *count;
}

/// Renames the shared weights to those of a model whose layers do not share: each layer of the
/// computation, number N, gets entries encoder.layer.N, which refer to the shared memory. Returns
/// false if the file has no shared weights.
bool unshare_layers(io::Contents& file, const Config& config) {
  std::size_t group_count = 0, layers_per_group = 0;
  for (const io::Entry& entry : file.tensors)
    if (const auto tensor = parse_shared_tensor_name(entry.name)) {
      group_count = std::max(group_count, tensor->group + 1);
      layers_per_group = std::max(layers_per_group, tensor->layer + 1);
    }
  if (group_count == 0) return false;
  const auto require_count = [&](const char* key, std::size_t found) {
    if (const std::size_t configured = count_in_config(file, config, key, found);
        configured != found)
      fail("{}: config.json says {} {}, but the tensors have {}", file.name, key, configured,
           found);
  };
  require_count("num_hidden_groups", group_count);
  require_count("inner_group_num", layers_per_group);
  const std::size_t pass_count = count_in_config(file, config, "num_hidden_layers", group_count);
  std::set<std::string, std::less<>> names_in_file;
  for (const io::Entry& entry : file.tensors) names_in_file.insert(entry.name);
  std::vector<io::Entry> entries;
  for (io::Entry& entry : file.tensors) {
    const auto tensor = parse_shared_tensor_name(entry.name);
    if (!tensor) {
      entries.push_back(std::move(entry));
      continue;
    }
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      if (pass * group_count / pass_count != tensor->group) continue;
      io::Entry layer = entry;
      layer.name = fmt::format("{}encoder.layer.{}.{}", tensor->model_prefix,
                               pass * layers_per_group + tensor->layer, tensor->name);
      layer.own_name = entry.name_in_file();
      if (names_in_file.contains(layer.name))
        fail("{}: {} and {} are of the same layer; one of them is to go", file.name, layer.name,
             entry.name);
      entries.push_back(std::move(layer));
    }
  }
  file.tensors = std::move(entries);
  file.order = nullptr;
  return true;
}

bool is_albert(const Group& group) {
  return group.beside("full_layer_layer_norm.weight") || group.is_model({"albert"});
}

void translate_albert(const Group& group, Translation& to) {
  const std::string type = position_embedding_type(group).value_or("absolute");
  if (type.starts_with("relative_key")) {
    if (!group.has("distance_embedding.weight"))
      fail("{}: {}distance_embedding.weight is missing, though config.json says {}",
           group.contents->name, group.prefix, type);
    to.take("relative_key", "distance_embedding.weight");
    to.set("relative_key_query", type == "relative_key_query" ? "true" : "false", "config.json");
  }
  to.take_projections("query", "key", "value", "dense");
  to.set_from_config("num_heads", {"num_attention_heads"});
  to.set_post_norm();
}

/// The tensors of a file that the computation does not use. With relative positions, the first one,
/// the table of absolute positions, is one of them.
constexpr std::string_view unused_with_relative_positions =
                               "embeddings.position_embeddings pooler embeddings.position_ids "
                               "embeddings.token_type_ids sop_classifier classifier qa_outputs "
                               "predictions.decoder.bias",
                           unused_tensors = unused_with_relative_positions.substr(
                               unused_with_relative_positions.find(' ') + 1);

void settle_albert(const Group& group, ModelRecord& record) {
  for (const char* key : {"num_hidden_groups", "inner_group_num"}) group.configured(key);
  if (!group.configured("num_hidden_layers"))
    fail(
        "{}: config.json does not say num_hidden_layers, and no tensor tells how often layers that "
        "share their weights are computed",
        group.contents->name);
  if (position_embedding_type(group).value_or("absolute") != "absolute")
    record.beside = unused_with_relative_positions, record.positions = "";
}

constexpr ModelRecord albert_record{
    .models = "albert",
    .layers = "encoder.layer",
    .always = "attention.query.bias attention.key.bias attention.value.bias attention.dense.bias "
              "attention.LayerNorm.bias full_layer_layer_norm.bias",
    .beside = unused_tensors,
    .tokens = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .embedding_linear = "encoder.embedding_hidden_mapping_in",
    .embedding_linear_bias = Bias::always,
    .shape = BlockShape::post,
    .eps_keys = "layer_norm_eps",
    .eps = 1e-12,
    .norm_bias = Bias::always,
    .pre_mlp_norm = "attention.LayerNorm",
    .post_block_norm = "full_layer_layer_norm",
    .mlp_in = "ffn",
    .mlp_out = "ffn_output",
    .mlp_bias = Bias::always,
    .activation_keys = "hidden_act",
    .activation = "gelu_new",
    .head = "predictions.decoder",
    .head_has_bias = Bias::if_there,
    .tied = true,
    .head_dense = "predictions.dense",
    .head_norm = "predictions.LayerNorm",
    .head_bias = "predictions.bias",
    .causal = false,
    .settle = settle_albert,
};

} // namespace

const Family albert{"albert",
                    "ALBERT",
                    albert_record.models,
                    "query.weight key.weight value.weight dense.weight",
                    "query.bias key.bias value.bias dense.bias distance_embedding.weight",
                    is_albert,
                    translate_albert,
                    &albert_record,
                    unshare_layers};

} // namespace mha::naming
