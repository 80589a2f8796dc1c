#include <mha/load/whole_model.hpp>

#include <mha/load/model_reader.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace mha {

namespace {

using naming::Found;
using naming::Group;
using naming::ModelRecord;

/// The layers of the text model: one family, under one prefix, from 0 on.
std::vector<Found> stack_of(const std::vector<Found>& found) {
  std::vector<Found> stack;
  for (const Found& layer : found) {
    const Group& group = layer.group;
    if (group.within({"vision", "visual", "audio"})) continue;
    if (group.within({"decoder.", "crossattention", "encoder_attn", "EncDecAttention"}))
      fail("{}: an encoder and a decoder are not covered as a whole model yet; {}",
           group.contents->name, give_X_instead);
    stack.push_back(layer);
  }
  if (stack.empty()) fail("a text needs a checkpoint with a model's layers; {}", give_X_instead);
  for (std::size_t n = 0; n < stack.size(); ++n) {
    const Found& layer = stack[n];
    const std::string& file = layer.group.contents->name;
    if (layer.family != stack[0].family || !layer.family->model)
      fail("{}: {} is not covered as a whole model yet; {}", file, layer.family->title,
           give_X_instead);
    if (layer.group.number().value_or(0) != n)
      fail(
          "{}: layer {} is missing, or a projection of it: the layers of a whole model are needed; "
          "{}",
          file, n, give_X_instead);
  }
  return stack;
}

/// What a config that the record was not written for says about itself.
void require_covered(const Group& group, const ModelRecord& record, std::string_view title) {
  const std::optional<std::string> type = group.configured("model_type");
  const std::vector<std::string_view> covered = words_of_record(record.models);
  if (!type || covered.empty()) return;
  if (std::none_of(covered.begin(), covered.end(),
                   [&](std::string_view model) { return group.is_model({model}); }))
    fail("{}: model_type '{}' has {}'s names, but is not covered as a whole model yet; {}",
         group.contents->name, *type, title, give_X_instead);
}

} // namespace

WholeModel::WholeModel(const std::vector<Found>& found) : layers_(stack_of(found)) {
  record_ = *layers_[0].family->model;
  const Group& group = layers_[0].group;
  require_covered(group, record_, layers_[0].family->title);
  if (record_.settle) record_.settle(group, record_);
  for (const Found& layer : layers_) ids_.push_back(layer.id);
  require_alike();
  tell_adapters();
  read_ends();
  check_config();
}

/// A tensor that the other layers have and one has not is lost, not left out.
void WholeModel::require_alike() const {
  const io::Contents& file = *layers_[0].group.contents;
  const std::string first = block_prefix(layers_[0].group, record_.layers); // "transformer.h.0."
  const std::string stack = first.substr(0, first.rfind('.', first.size() - 2) + 1);
  std::map<std::string, std::vector<bool>> layers_with; // by the name behind "h.N."
  for (const io::Entry& entry : file.tensors) {
    if (first.empty() || !entry.name.starts_with(stack)) continue;
    std::size_t n = 0;
    const char* const end = entry.name.data() + entry.name.size();
    const auto [dot, error] = std::from_chars(entry.name.data() + stack.size(), end, n);
    if (error != std::errc() || dot == end || *dot != '.' || n >= layers_.size()) continue;
    std::vector<bool>& with = layers_with[std::string(dot + 1, end)];
    with.resize(layers_.size());
    with[n] = true;
  }
  for (const auto& [name, with] : layers_with) {
    const auto count = static_cast<std::size_t>(std::ranges::count(with, true));
    if (count == layers_.size() || 2 * count < layers_.size()) continue;
    const auto without = static_cast<std::size_t>(std::ranges::find(with, false) - with.begin());
    fail("{}: {}{}.{} is missing, which {} of the {} layers have; {}", file.name, stack, without,
         name, count, layers_.size(), give_X_instead);
  }
}

/// What stands beside the feed-forward's weights, or the embedding's, and changes what they
/// compute. What is attention's, its layers tell.
void WholeModel::tell_adapters() {
  std::size_t count = 0;
  const io::Entry* first = nullptr;
  const io::Contents& file = *layers_[0].group.contents;
  for (const io::Entry& entry : file.tensors) {
    const std::string& name = entry.name;
    const bool beside = name.find(".lora_") != std::string::npos ||
                        name.ends_with("weight_scale") || name.ends_with("weight_scale_inv");
    const auto holds = [&](const Found& layer) { return name.starts_with(layer.group.prefix); };
    if (beside && std::ranges::none_of(layers_, holds) && count++ == 0) first = &entry;
  }
  if (count > 0)
    notes_.push_back(warning(fmt::format(
        "{}: passed over, though beside a weight: {}{}. The model is computed without: merge "
        "adapters, apply scales first",
        file.name, first->name, count > 1 ? fmt::format(" and {} more", count - 1) : "")));
}

void WholeModel::read_ends() {
  const Group& group = layers_[0].group;
  const ModelReader reader(group, record_);
  Embedding& e = embedding_;
  e.tokens = reader.table(record_.tokens, true);
  e.positions = reader.table(record_.positions,
                             group.configured("positional_embedding_type").value_or("standard") ==
                                 "standard");
  e.types =
      reader.table(record_.types, group.configured_number({"type_vocab_size"}).value_or(0) > 0);
  const std::size_t d = width();
  for (const Tensor* table : {&e.positions, &e.types})
    if (!table->empty() && table->shape()[1] != d)
      fail("{}: {} are {} wide, the tokens' vectors {}", group.contents->name,
           table == &e.positions ? "positions" : "types", table->shape()[1], d);
  if (record_.times_root_d) {
    // The factor has the weights' precision: √3072 = 55.4256 is 55.5 in bfloat16.
    const double root = std::sqrt(static_cast<double>(d));
    e.scale = value_at(convert(Tensor::of<double>({1}, std::span(&root, 1)), e.tokens.dtype()), 0);
  }
  if (record_.counts_from_pad) e.pad = pad().value_or(1);
  if (!record_.embedding_norm.empty())
    e.norm = reader.norm(reader.model() + std::string(record_.embedding_norm), d);
  if (!record_.last_norm.empty())
    last_norm_ = reader.norm(reader.model() + std::string(record_.last_norm), d);
  const std::string inner_bias = reader.block() + std::string(record_.before_mlp) + ".bias";
  if (last_norm_.kind == InputNorm::layer && last_norm_.bias.empty() && reader.find(inner_bias))
    fail("{}: {}{}.bias is missing, though the layers' norms have theirs", group.contents->name,
         reader.model(), record_.last_norm);

  const std::string dense = reader.head_name(record_.head_dense);
  if (!record_.head_dense.empty() && dense.empty()) return; // the base model alone
  const std::optional<std::string> said = group.configured("tie_word_embeddings");
  const bool tied = said ? *said == "true" : record_.tied;
  ModelHead head;
  if (const std::string name = reader.head_name(record_.head); !tied && !name.empty()) {
    head.decoder = reader.linear(name, d, 0, ModelReader::has_endings(name));
  } else if (tied) {
    head.decoder.W = e.tokens, head.decoder.out_in = true;
    tell_other_head(reader, said ? "config.json ties" : "models of this kind tie");
  } else {
    return;
  }
  if (!dense.empty()) {
    head.dense = reader.linear(dense, d, d, true);
    head.activation = reader.activation(record_.head_activation);
    head.norm = reader.norm(reader.head_name(record_.head_norm), d);
  }
  if (!record_.head_bias.empty())
    if (Tensor bias = reader.take(reader.head_name(record_.head_bias), {""}, 1, false);
        !bias.empty())
      head.decoder.b = std::move(bias);
  if (!record_.head_bias.empty() && head.decoder.b.empty() && !head.dense.b.empty())
    fail("{}: {} is missing, though the head has its other bias", group.contents->name,
         record_.head_bias);
  if (!head.decoder.b.empty() && head.decoder.b.count() != head.decoder.out())
    fail("{}: the head's bias has {}, but {} tokens", group.contents->name,
         counted(head.decoder.b.count(), "numbers"), head.decoder.out());
  if (!record_.softcap_key.empty())
    head.softcap = group.configured_number({record_.softcap_key}).value_or(0);
  head_ = std::move(head);
}

/// A head in the file that is not the embedding, although the two are one.
void WholeModel::tell_other_head(const ModelReader& reader, std::string_view said) {
  const std::string name = reader.head_name(record_.head);
  const io::Entry* entry = name.empty() ? nullptr : reader.find(name + ".weight");
  if (!entry) return;
  const Tensor there = entry->read(), &tokens = embedding_.tokens;
  if (there.dtype() == tokens.dtype() && there.shape() == tokens.shape() &&
      std::equal(there.raw(), there.raw() + there.bytes(), tokens.raw()))
    return;
  notes_.push_back(warning(fmt::format(
      "{}: {} is not the embedding, although {} the two: the embedding is the head here, as in "
      "Transformers. If the file is right, config.json must say \"tie_word_embeddings\": false",
      layers_[0].group.contents->name, entry->name, said)));
}

void WholeModel::check_config() const {
  const Group& group = layers_[0].group;
  const auto check = [&](std::initializer_list<std::string_view> keys, std::size_t there,
                         std::string_view what) {
    for (std::string_view key : keys)
      if (const std::optional<double> said = group.configured_number({key})) {
        if (*said != static_cast<double>(there))
          fail("{}: config.json says {} {}, but the tensors have {} {}", group.contents->name, key,
               *said, there, what);
        return;
      }
  };
  check({"num_hidden_layers", "n_layer", "n_layers"}, layers_.size(), "layers");
  check({"hidden_size", "n_embd", "d_model", "dim"}, width(), "numbers a token");
  check({"vocab_size", "d_vocab"}, vocabulary(), "tokens");
  if (const auto first = block(0); first->mlp.there())
    check({"intermediate_size", "n_inner", "d_mlp", "ffn_dim"}, first->mlp.in.out(),
          "numbers in the feed-forward");
}

void WholeModel::check_layer(const Layer& layer) const {
  for (std::string_view key : {"head_dim", "d_head"}) {
    const std::optional<double> said = layers_[0].group.configured_number({key});
    if (said && layer.dims.d_k > 0 && *said != static_cast<double>(layer.dims.d_k))
      fail("{}: config.json says {} {}, but the tensors' heads are {} wide",
           layers_[0].group.contents->name, key, *said, layer.dims.d_k);
  }
}

std::optional<std::size_t> WholeModel::trained_positions() const {
  const auto said = layers_[0].group.configured_number({"max_position_embeddings", "n_ctx"});
  if (!said || !(*said > 0) || !embedding_.positions.empty()) return std::nullopt;
  return static_cast<std::size_t>(*said);
}

std::optional<int> WholeModel::pad() const {
  if (const auto said = layers_[0].group.configured_number({"pad_token_id"}))
    return static_cast<int>(*said);
  return std::nullopt;
}

std::shared_ptr<const LayerBlock> WholeModel::block(std::size_t number) const {
  const ModelReader reader(layers_.at(number).group, record_);
  const std::size_t d = width();
  auto block = std::make_shared<LayerBlock>();
  block->shape = record_.shape;
  block->mlp = reader.feed_forward(d);
  block->behind_attention = reader.norm_in_block(record_.behind_attention, d);
  block->before_mlp = reader.norm_in_block(record_.before_mlp, d);
  block->behind_mlp = reader.norm_in_block(record_.behind_mlp, d);
  block->behind_block = reader.norm_in_block(record_.behind_block, d);
  return block;
}

} // namespace mha
