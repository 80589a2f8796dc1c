#include <mha/load/whole_model.hpp>

#include <mha/load/families/positions.hpp>
#include <mha/load/families/size_keys.hpp>
#include <mha/load/known_models.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mha {

namespace {

using naming::Found;
using naming::Group;
using naming::ModelRecord;

[[noreturn]] void fail_of_both(const std::vector<Found>& found) {
  Message encoder; // which can be computed alone, where its family is read as a whole model
  for (const Found& layer : found)
    if (const std::size_t at = layer.group.prefix.find("encoder.");
        encoder.empty() && naming::has_whole_model(*layer.family) && at != std::string::npos)
      encoder = message("<prefix> {} computes the encoder alone; else ",
                        layer.group.prefix.substr(0, at + std::string_view("encoder").size()));
  fail("{}: an encoder and a decoder are not covered as a whole model yet; {}{}",
       found[0].group.contents->name, encoder, or_describe_it);
}

/// The layers of the text model: one family, under one prefix, from 0 on.
std::vector<Found> stack_of(const std::vector<Found>& found) {
  std::vector<Found> stack;
  const auto is_any = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(found, [&](const Found& one) { return one.group.within(parts); });
  };
  const bool both = is_any({"encoder."}) && is_any({"decoder."});
  for (const Found& layer : found) {
    const Group& group = layer.group;
    if (group.within({"vision", "visual", "audio"})) continue;
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

/// What a config that the record was not written for says about itself.
void require_covered(const Found& layer) {
  const Group& group = layer.group;
  const std::optional<std::string> type = group.configured("model_type");
  const std::vector<std::string_view> covered = words_of(naming::whole_models_of(*layer.family));
  if (!type || covered.empty() || !is_known_model(layer)) return; // which the user chose
  if (std::none_of(covered.begin(), covered.end(),
                   [&](std::string_view model) { return group.is_model({model}); }))
    fail("{}: model_type '{}' has {}'s names, but is not covered as a whole model yet; {}",
         group.contents->name, *type, layer.family->title, or_describe_it);
}

} // namespace

WholeModel::WholeModel(const std::vector<Found>& found) : layers_(stack_of(found)) {
  require_covered(layers_[0]);
  record_ = naming::record_of(*layers_[0].family, layers_[0].group);
  for (const Found& layer : layers_) ids_.push_back(layer.id);
  require_alike();
  read_ends();
  check_config();
}

/// A tensor that the other layers have and one has not is lost, not left out.
void WholeModel::require_alike() const {
  const io::Contents& file = *layers_[0].group.contents;
  const std::string first = block_prefix(layers_[0].group, record_.layers); // "transformer.h.0."
  const std::string stack = first.substr(0, first.rfind('.', first.size() - 2) + 1);
  std::map<std::string, std::vector<bool>> layers_with; // by the name behind "h.N."
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
    if (std::ranges::count(words_of(record_.not_in_all), name) > 0) continue;
    const auto without = static_cast<std::size_t>(std::ranges::find(with, false) - with.begin());
    fail("{}: {}{}.{} is missing, which {} of the {} layers have; {}", file.name, stack, without,
         name, count, layers_.size(), give_X_instead);
  }
}

void WholeModel::read_ends() {
  const ModelReader reader(layers_[0].group, record_);
  read_embedding(reader);
  read_last_norm(reader);
  read_head(reader);
}

void WholeModel::read_embedding(const ModelReader& reader) {
  const Group& group = layers_[0].group;
  Embedding& e = embedding_;
  e.tokens = reader.table(record_.tokens, true);
  e.positions = reader.table(record_.positions, true);
  e.types =
      reader.table(record_.types, group.configured_number({"type_vocab_size"}).value_or(0) > 0);
  const std::size_t narrow = e.tokens.shape()[1];
  if (!record_.embedding_linear.empty()) {
    e.projection = reader.linear(reader.model() + std::string(record_.embedding_linear), narrow, 0,
                                 true, record_.embedding_linear_bias);
    e.projection_place = record_.embedding_linear_place;
  }
  const std::size_t d = width(),
                    summed = e.projection_place == ProjectionPlace::tokens ? d : narrow,
                    normed = e.projection_place == ProjectionPlace::normed ? narrow : d;
  for (const Tensor* table : {&e.positions, &e.types})
    if (!table->empty() && table->shape()[1] != summed)
      fail("{}: {} are {} wide, the tokens' vectors {}", group.contents->name,
           table == &e.positions ? "positions" : "types", table->shape()[1], summed);
  if (!record_.first_rows.empty()) first_rows_ = reader.table(record_.first_rows, true);
  set_token_scale();
  e.first_position = record_.first_position;
  if (record_.counts_from_pad) {
    const auto said = group.configured({"pad_token_id"});
    if (said && !pad())
      fail("{}: config.json says pad_token_id {}, from which positions count: a token's number "
           "expected, 0 to {}",
           group.contents->name, *said, vocabulary() - 1);
    e.pad = pad().value_or(1);
  }
  if (record_.drops_mask) e.mask_token = mask_token();
  if (!record_.embedding_norm.empty())
    e.norm = reader.norm(reader.model() + std::string(record_.embedding_norm), normed);
}

void WholeModel::read_last_norm(const ModelReader& reader) {
  if (!record_.last_norm.empty())
    last_norm_ = reader.norm(reader.model() + std::string(record_.last_norm), width());
  const std::string inner_bias = reader.prefix() + std::string(record_.pre_mlp_norm) + ".bias";
  if (last_norm_.kind == InputNorm::layer && last_norm_.bias.empty() && reader.find(inner_bias))
    fail("{}: {}{}.bias is missing, though the layers' norms have theirs",
         layers_[0].group.contents->name, reader.model(), record_.last_norm);
}

/// What makes logits of the last norm's result, unless the files lack it: a base model.
void WholeModel::read_head(const ModelReader& reader) {
  const Group& group = layers_[0].group;
  const std::string dense = reader.head_name(record_.head_dense);
  if (!record_.head_dense.empty() && dense.empty()) return note_lost_head(record_.head_dense);
  ModelHead head;
  head.scale = record_.head_scale;
  std::size_t into_decoder = width();
  if (!dense.empty()) {
    head.dense = reader.linear(dense, into_decoder, 0, true, record_.head_dense_bias);
    head.activation = reader.activation(record_.head_activation);
    into_decoder = head.dense.out();
    if (!record_.head_norm.empty())
      head.norm = reader.norm(group.description ? reader.model() + std::string(record_.head_norm)
                                                : reader.head_name(record_.head_norm),
                              into_decoder);
  }
  if (!read_decoder(reader, into_decoder, head)) return note_lost_head(record_.head);
  read_decoder_bias(reader, head);
  head.softcap = record_.softcap_key.empty() ? record_.softcap : 0;
  if (!record_.softcap_key.empty())
    head.softcap = group.configured_number({record_.softcap_key}).value_or(record_.softcap);
  if (!record_.softcap_key.empty() && group.configured({record_.softcap_key}) &&
      !(head.softcap > 0) && group.contents->format != "gguf")
    fail("config.json: {} is {}: a number above 0 expected", record_.softcap_key, head.softcap);
  head_ = std::move(head);
}

std::optional<bool> WholeModel::said_tied() const {
  const Group& group = layers_[0].group;
  return group.description ? std::nullopt : group.flag({"tie_word_embeddings"});
}

/// The decoder's own weight, or the embedding's where they are tied; false where the files have
/// neither.
bool WholeModel::read_decoder(const ModelReader& reader, std::size_t in, ModelHead& head) {
  const Group& group = layers_[0].group;
  const std::optional<bool> said = said_tied();
  if (said.value_or(record_.tied)) {
    head.decoder.W = transposed_when_read(embedding_.tokens);
    if (const std::size_t narrow = embedding_.tokens.shape()[1]; narrow != in)
      fail("{}: the head is the embedding, whose rows have {}, but it gets {}",
           group.contents->name, counted(narrow, "numbers"), in);
    note_other_head(reader, said ? "config.json ties" : "models of this kind tie");
    return true;
  }
  const std::string name = reader.head_name(record_.head);
  if (name.empty()) return false;
  head.decoder = reader.linear(name, in, 0, ModelReader::has_endings(name), record_.head_has_bias);
  if (const std::size_t rows = head.decoder.out(); !record_.own_vocabulary && rows != vocabulary())
    fail("{}: {} gives {}, but the embedding has {} tokens", group.contents->name, name,
         counted(rows, "logits"), vocabulary());
  return true;
}

void WholeModel::read_decoder_bias(const ModelReader& reader, ModelHead& head) const {
  const std::string& file = layers_[0].group.contents->name;
  Tensor& b = head.decoder.b;
  if (const std::string name = reader.head_bias(said_tied().value_or(record_.tied)); !name.empty())
    b = reader.take(name, {""}, 1, true);
  if (b.empty() && !record_.head_bias.empty() && !head.dense.b.empty())
    fail("{}: {} is missing, though the head has its other bias", file, record_.head_bias);
  if (!b.empty() && b.count() != head.decoder.out())
    fail("{}: the head's bias has {}, but {} tokens", file, counted(b.count(), "numbers"),
         head.decoder.out());
}

void WholeModel::set_token_scale() {
  Embedding& e = embedding_;
  e.scale = record_.embedding_scale;
  if (!record_.times_root_d) return;
  const double root = std::sqrt(static_cast<double>(width()));
  e.scale = root;
  // The factor has the weights' precision: √3072 = 55.4256 is 55.5 in bfloat16.
  if (record_.rounds_root_d)
    e.scale = value_at(convert(Tensor::of<double>({1}, std::span(&root, 1)), e.tokens.dtype()), 0);
}

/// A base model saved alone has no head; one that is to predict tokens has lost it.
void WholeModel::note_lost_head(std::string_view lost) {
  const std::string type = layers_[0].group.configured("architectures").value_or("");
  for (const char* kind : {"ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration"})
    if (type.find(kind) != std::string::npos) {
      notes_.push_back(warning(
          fmt::format("{}: there is no {}, though config.json says {}: no logits are computed",
                      layers_[0].group.contents->name, lost, type)));
      return;
    }
}

/// A head in the file that is not the embedding, although the two are one.
void WholeModel::note_other_head(const ModelReader& reader, std::string_view said) {
  const std::string name = reader.head_name(record_.head);
  const io::Entry* entry = name.empty() ? nullptr : reader.find(name + ".weight");
  if (!entry) return;
  const Tensor there = layers_[0].group.read(*entry), &tokens = embedding_.tokens;
  if (there.dtype() == tokens.dtype() && there.shape() == tokens.shape() &&
      std::equal(there.raw(), there.raw() + there.bytes(), tokens.raw()))
    return;
  notes_.push_back(warning(fmt::format(
      "{}: {} is not the embedding, although {} the two: the embedding is the head here, as in "
      "Transformers. If the file is right, config.json must say \"tie_word_embeddings\": false",
      layers_[0].group.contents->name, entry->name, said)));
}

namespace {

/// Whether a size's spelling is another family's: one beside it says what the tensors have. Those
/// that Transformers knows in every family are none.
bool is_left_over(const Group& group, std::string_view key, std::size_t there) {
  if (key == "hidden_size" || key == "num_hidden_layers" || key == "vocab_size" || !group.reads)
    return false;
  for (std::string_view other : naming::size_spellings(key)) {
    if (other == key || !group.says_value(other)) continue;
    if (group.configured_number({other}) != static_cast<double>(there)) continue;
    group.reads->overrule(key);
    return true;
  }
  return false;
}

} // namespace

void WholeModel::check_config() const {
  const Group& group = layers_[0].group;
  if (group.description) return; // which says what its keys mean
  const auto check = [&](std::initializer_list<std::string_view> keys, std::size_t there,
                         std::string_view what) {
    for (std::string_view key : group.spellings(keys)) {
      const std::optional<double> said = group.configured_number({key});
      if (!said || *said == static_cast<double>(there) || !group.says_value(key)) continue;
      if (is_left_over(group, key, there)) continue;
      fail("{}: config.json says {} {}, but the tensors have {} {}", group.contents->name, key,
           *said, there, what);
    }
  };
  // Of ALBERT, a layer is inner_group_num layers.
  std::size_t inner = 1;
  if (layers_[0].family->present)
    inner = group.configured_count({"inner_group_num"}, 1).value_or(inner);
  check({"num_hidden_layers"}, layers_.size() / inner, "layers");
  check({"embedding_size"}, embedding_.tokens.shape()[1], "numbers in a token's row");
  check({"hidden_size"}, width(), "numbers a token");
  check({"vocab_size"}, vocabulary(), "tokens");
  group.configured("head_dim"); // each layer's are compared; another spelling's is left over
  if (const auto first = block(0); first->mlp.present())
    check({"intermediate_size"}, first->mlp.in.out(), "numbers in the feed-forward");
  if (!embedding_.positions.empty())
    // Beside n_positions nothing reads n_ctx.
    check({"n_positions", "max_position_embeddings", "block_size",
           group.configured("n_positions") ? "n_positions" : "n_ctx"},
          embedding_.positions.shape()[0] -
              std::min(embedding_.first_position, embedding_.positions.shape()[0]),
          "positions");
  if (!embedding_.types.empty())
    check({"type_vocab_size"}, embedding_.types.shape()[0], "types of tokens");
  if (record_.own_vocabulary && head_.present())
    check({"d_vocab_out"}, head_.decoder.out(), "logits");
  // An entry a layer, whether the family reads it or not: another length is another model's.
  for (const auto& [key, value] : *group.config) {
    std::string_view own = key;
    for (std::string_view section : naming::text_sections)
      if (own.starts_with(section)) own.remove_prefix(section.size());
    if (own == "layer_types" && naming::element(value, layers_.size()))
      fail("{}: config.json's {} go beyond the {} layers", group.contents->name, key,
           layers_.size());
  }
}

void WholeModel::check_layer(const Layer& layer) const {
  if (layer.dims.d_out != width())
    fail("{}: the output of a layer's attention is {} wide, the stream that it is added to {}: a "
         "W_o or output of another width",
         layers_[0].group.contents->name, layer.dims.d_out, width());
  if (layers_[0].group.description) return;
  if (layer.dims.d_v != layer.dims.d_k)
    fail("{}: a layer's queries and keys are {} wide a head, its values {}: one width expected in "
         "models of this kind",
         layers_[0].group.contents->name, layer.dims.d_k, layer.dims.d_v);
  const Group& group = layers_[0].group;
  for (std::string_view key : group.spellings({"head_dim"})) {
    const std::optional<double> said = group.configured_number({key});
    if (said && layer.dims.d_k > 0 && *said != static_cast<double>(layer.dims.d_k) &&
        group.says_value(key))
      fail("{}: config.json says {} {}, but the tensors' heads are {} wide", group.contents->name,
           key, *said, layer.dims.d_k);
  }
}

std::optional<std::size_t> WholeModel::trained_positions() const {
  const auto said = layers_[0].group.configured_number({"max_position_embeddings", "n_ctx"});
  constexpr double most = 9007199254740992; // 2^53
  if (!said || !(*said > 0 && *said < most) || !embedding_.positions.empty()) return std::nullopt;
  return static_cast<std::size_t>(*said);
}

std::optional<int> WholeModel::pad() const {
  const auto said = layers_[0].group.configured_number({"pad_token_id"});
  if (said && *said != std::floor(*said))
    fail("config.json: pad_token_id is {}: a token's number expected", *said);
  // Some configs say −1, or a number behind the vocabulary: there is none.
  if (!said || *said < 0 || *said >= static_cast<double>(vocabulary())) return std::nullopt;
  return static_cast<int>(*said);
}

std::optional<int> WholeModel::mask_token() const {
  const Group& group = layers_[0].group;
  const auto said = group.configured_count({"mask_token_id"});
  if (!said || *said >= vocabulary())
    fail("{}: config.json says token_dropout, which needs mask_token_id, a token's number",
         group.contents->name);
  return static_cast<int>(*said);
}

std::shared_ptr<const TransformerBlock> WholeModel::block(std::size_t number) const {
  const ModelReader reader(layers_.at(number).group, record_);
  return std::make_shared<TransformerBlock>(reader.block(width()));
}

} // namespace mha
