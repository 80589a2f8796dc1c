// ALBERT: attention.{query,key,value,dense}, (out, in), all with biases; normalised after
// attention. num_hidden_groups groups of inner_group_num layers each serve num_hidden_layers times,
// and the tables are embedding_size wide, which a linear map widens.

#include <mha/load/families/namings.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/size_keys.hpp>
#include <mha/system/parse.hpp>

#include <cmath>
#include <functional>
#include <set>

namespace mha::naming {

namespace {

constexpr std::string_view of_groups = "encoder.albert_layer_groups.", of_layers = "albert_layers.";

/// A tensor of a layer: albert.encoder.albert_layer_groups.G.albert_layers.I.ffn.weight.
struct SharedTensor {
  std::string_view model;
  std::size_t group = 0, inner = 0;
  std::string_view name;
};

std::optional<std::size_t> leading_number(std::string_view& text) {
  const auto number = take_number<std::size_t>(text);
  if (!number || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

std::optional<SharedTensor> shared_tensor(std::string_view name) {
  const std::size_t at = name.find(of_groups);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  SharedTensor tensor;
  tensor.model = name.substr(0, at);
  name.remove_prefix(at + of_groups.size());
  const auto group = leading_number(name);
  if (!group || !name.starts_with(of_layers)) return std::nullopt;
  name.remove_prefix(of_layers.size());
  const auto inner = leading_number(name);
  if (!inner) return std::nullopt;
  tensor.group = *group, tensor.inner = *inner, tensor.name = name;
  return tensor;
}

/// A count of config.json, held against what the file has.
std::size_t count_said(const io::Contents& file, const Config& config, const std::string& key,
                       std::size_t otherwise) {
  auto at = config.find(key);
  for (std::string_view spelling : size_spellings(key))
    if (at == config.end()) at = config.find(std::string(spelling));
  if (at == config.end() || at->second == "null") return otherwise;
  const auto count = parse_number<std::size_t>(at->second);
  constexpr std::size_t most = 4096;
  if (!count || *count == 0 || *count > most)
    fail("{}: config.json: {} is '{}': a number from 1 to {} expected", file.name, key, at->second,
         most);
  return *count;
}

/// Each layer of the computation as encoder.layer.N, in the memory of the one that it shares.
bool present_albert(io::Contents& file, const Config& config) {
  std::size_t groups = 0, inner = 0;
  for (const io::Entry& entry : file.tensors)
    if (const auto tensor = shared_tensor(entry.name)) {
      groups = std::max(groups, tensor->group + 1);
      inner = std::max(inner, tensor->inner + 1);
    }
  if (groups == 0) return false;
  const auto check = [&](const char* key, std::size_t found) {
    if (const std::size_t said = count_said(file, config, key, found); said != found)
      fail("{}: config.json says {} {}, but the tensors have {}", file.name, key, said, found);
  };
  check("num_hidden_groups", groups), check("inner_group_num", inner);
  const std::size_t times = count_said(file, config, "num_hidden_layers", groups);
  std::set<std::string, std::less<>> own; // names of the file
  for (const io::Entry& entry : file.tensors) own.insert(entry.name);
  std::vector<io::Entry> presented;
  for (io::Entry& entry : file.tensors) {
    const auto tensor = shared_tensor(entry.name);
    if (!tensor) {
      presented.push_back(std::move(entry));
      continue;
    }
    for (std::size_t time = 0; time < times; ++time) {
      if (time * groups / times != tensor->group) continue;
      io::Entry layer = entry;
      layer.name = fmt::format("{}encoder.layer.{}.{}", tensor->model, time * inner + tensor->inner,
                               tensor->name);
      layer.own_name = entry.name_in_file();
      if (own.contains(layer.name))
        fail("{}: {} and {} are of the same layer; one of them is to go", file.name, layer.name,
             entry.name);
      presented.push_back(std::move(layer));
    }
  }
  file.tensors = std::move(presented);
  file.order = nullptr;
  return true;
}

bool is_albert(const Group& group) {
  return group.beside("full_layer_layer_norm.weight") || group.is_model({"albert"});
}

void translate_albert(const Group& group, Translation& to) {
  to.expect_models({"albert"});
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

constexpr std::string_view albert_beside_relative =
                               "embeddings.position_embeddings pooler embeddings.position_ids "
                               "embeddings.token_type_ids sop_classifier classifier qa_outputs "
                               "predictions.decoder.bias",
                           albert_beside =
                               albert_beside_relative.substr(albert_beside_relative.find(' ') + 1);

void settle_albert(const Group& group, ModelRecord& record) {
  for (const char* key : {"num_hidden_groups", "inner_group_num"}) group.configured(key);
  if (!group.configured("num_hidden_layers"))
    fail(
        "{}: config.json does not say num_hidden_layers, and no tensor tells how often layers that "
        "share their weights are computed",
        group.contents->name);
  if (position_embedding_type(group).value_or("absolute") != "absolute")
    record.beside = albert_beside_relative, record.positions = "";
}

constexpr ModelRecord albert_record{
    .models = "albert",
    .layers = "encoder.layer",
    .always = "attention.query.bias attention.key.bias attention.value.bias attention.dense.bias "
              "attention.LayerNorm.bias full_layer_layer_norm.bias",
    .beside = albert_beside,
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
                    "query.weight key.weight value.weight dense.weight",
                    "query.bias key.bias value.bias dense.bias distance_embedding.weight",
                    is_albert,
                    translate_albert,
                    &albert_record,
                    present_albert};

} // namespace mha::naming
