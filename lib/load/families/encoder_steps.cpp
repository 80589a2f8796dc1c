// Positions of BERT and similar encoders, which depend on config.json and on a table in the file.

#include <mha/files/text.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/families/steps.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mha::naming {

namespace {

/// BERT's position_embedding_type: absolute, relative_key or relative_key_query; nothing if
/// config.json has none. Throws Error for any other.
std::optional<std::string> position_embedding_type(const Group& group) {
  constexpr std::string_view known[]{"absolute", "relative_key", "relative_key_query"};
  const std::optional<std::string> type = group.configured("position_embedding_type");
  if (type && !is_one_of(*type, known))
    fail("{}: config.json's position_embedding_type is '{}', which is not computed here: absolute, "
         "relative_key or relative_key_query expected",
         group.contents->name, io::shown(*type));
  return type;
}

} // namespace

/// A vector for every distance, in every layer, which is multiplied with q (position_embedding_type
/// relative_key) or with q and k (relative_key_query). {"name": TENSOR, "by_config": false}: with
/// `by_config` the table is ignored unless config.json has one of these types.
void step_relative_key(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const std::string name = text_in(arguments, "name").value_or("distance_embedding.weight");
  const bool by_config = flag_in(arguments, "by_config");
  const std::optional<std::string> type = position_embedding_type(group);
  const bool relative = type && type->starts_with("relative_key");
  if (relative && !group.has(name))
    fail("{}: {}{} is missing, though config.json has {}", group.contents->name, group.prefix, name,
         *type);
  if (!group.has(name) || (by_config && !relative)) return;
  if (type == "absolute")
    return to.skip_with_warning(name, "config.json has position_embedding_type absolute");
  to.take("relative_key", name);
  if (!type)
    to.warn(message("config.json has no position_embedding_type: taken as relative_key; "
                    "<relative_key_query> chooses the other"));
  else
    to.set("relative_key_query", *type == "relative_key_query" ? "true" : "false", "config.json");
}

namespace {

/// Row i · M² + j of the result is the table's row for query i and key j of a window of M × M
/// tokens, (row difference + M − 1) · (2M − 1) + column difference + M − 1. Empty if there is no
/// such M.
std::vector<std::size_t> rows_of_window(std::size_t table_rows) {
  std::size_t M = 1;
  while ((2 * M - 1) * (2 * M - 1) < table_rows) ++M;
  if ((2 * M - 1) * (2 * M - 1) != table_rows) return {};
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < M * M; ++i)
    for (std::size_t j = 0; j < M * M; ++j)
      rows.push_back((i / M + M - 1 - j / M) * (2 * M - 1) + i % M + M - 1 - j % M);
  return rows;
}

/// The file's own index, (tokens, tokens).
std::vector<std::size_t> rows_of_index(const Tensor& index, const std::string& where,
                                       std::size_t table_rows) {
  if (index.rank() != 2 || index.shape()[0] != index.shape()[1])
    fail("{} is {}: a row for each token of a window and as many columns expected", where,
         to_string(index.shape()));
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < index.count(); ++i) {
    const double row = value_at(index, i);
    if (!(row >= 0 && row < static_cast<double>(table_rows)) || row != std::floor(row))
      fail("{} holds {} at {}: a row of the table expected, 0 to {}", where, row,
           place_text(index.shape(), i), table_rows - 1);
    rows.push_back(static_cast<std::size_t>(row));
  }
  return rows;
}

} // namespace

/// Swin's position bias: of each head, the table's row that the index has for a query and a key.
/// {"table": TENSOR, "index": TENSOR}: without an index, as newer files are, it is that of a square
/// window.
void step_window_bias(LayerReading& to, const JsonTree& arguments) {
  const Group& group = to.group();
  const std::string name = text_in(arguments, "table").value_or(""),
                    index = text_in(arguments, "index").value_or("");
  if (!group.has(name)) return;
  const Tensor table = to.read(name);
  if (table.rank() != 2 || table.count() == 0)
    fail("{} is {}: (rows, heads) expected", to.source_of(name), to_string(table.shape()));
  const std::size_t heads = table.shape()[1];
  std::vector<std::size_t> rows = rows_of_window(table.shape()[0]);
  if (const Shape shape = group.shape(index); group.outline && !shape.empty())
    rows.assign(count_of(shape), 0); // its numbers are not read
  else if (group.has(index))
    rows = rows_of_index(to.read(index), to.source_of(index), table.shape()[0]);
  if (rows.empty())
    fail("{} is {}: without {} a square window's (2 M - 1)² rows expected, as 169 of M = 7",
         to.source_of(name), to_string(table.shape()), index);
  const auto tokens = static_cast<std::size_t>(std::sqrt(static_cast<double>(rows.size())) + 0.5);
  Tensor bias = Tensor::uninitialised(table.dtype(), {heads, tokens, tokens});
  const std::size_t bytes = size_of(table.dtype());
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(bias.raw_mutable() + (h * rows.size() + i) * bytes,
                  table.raw() + (rows[i] * heads + h) * bytes, bytes);
  to.put("bias", std::move(bias), name);
  if (!to.count("num_heads")) to.set("num_heads", std::to_string(heads), name);
}

/// Warns if RoFormer's table of sines and cosines in the file differs from the computed one.
void step_roformer_table(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  const io::Entry* const entry = group.elsewhere(
      group.prefix.substr(0, group.prefix.find("layer.")) + "embed_positions.weight");
  if (!entry || entry->shape.size() != 2 || !is_floating(entry->dtype)) return;
  const Tensor table = group.read(*entry);
  const std::size_t dims = entry->shape[1], half = dims / 2;
  for (std::size_t i = 0; !group.outline && i < std::min<std::size_t>(4, entry->shape[0]) * dims;
       ++i) {
    const std::size_t column = i % dims, pair = column % std::max<std::size_t>(half, 1);
    const double angle =
        static_cast<double>(i / dims) *
        maths::pow(10000, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
    if (std::abs(value_at(table, i) - (column < half ? maths::sin(angle) : maths::cos(angle))) <
        0.01)
      continue;
    return to.warn(fmt::format("{}: {} is not the sines and cosines of 10000^(-2i/{}), which are "
                               "computed with",
                               group.contents->name, entry->name, dims));
  }
}

/// {"key", "words"}: refuses the layer because config.json's key has none of these two words.
void step_word(LayerReading& to, const JsonTree& arguments) {
  const std::string key = text_in(arguments, "key").value_or("");
  std::string words = text_in(arguments, "words").value_or("");
  if (const std::size_t blank = words.find(' '); blank != words.npos)
    words.replace(blank, 1, " or ");
  fail("{}: config.json has {} {}: {} expected", to.group().contents->name, key,
       to.group().configured(key).value_or(""), words);
}

/// A stack without its own number of heads uses num_attention_heads.
void step_bart_heads(LayerReading& to, const JsonTree&) {
  if (!to.count("num_heads"))
    to.set_from_config("num_heads",
                       {"num_attention_heads", "attention_heads", "model.encoder_attention_heads"});
}

/// Most layers see a window on both sides and rotate with a base of their own.
void step_modernbert_positions(LayerReading& to, const JsonTree&) {
  const Group& group = to.group();
  const auto sees_window = [](const Group& of, std::size_t layer) {
    return layer % of.configured_count({"global_attn_every_n_layers"}, 1).value_or(3) != 0;
  };
  const bool window = is_sliding(group, sees_window).value_or(false);
  // A local base of null is the global one.
  const double whole = to.positive_number({"global_rope_theta"}).value_or(160000);
  to.positive_number({"local_rope_theta"});
  set_rotary(to, {.style = "half",
                  .base_keys = {window ? "local_rope_theta" : "global_rope_theta"},
                  .base = !window || group.has_key("local_rope_theta") ? whole : 10000,
                  .layer_type = window ? "sliding_attention" : "full_attention"});
  if (const std::size_t width = group.configured_count({"local_attention"}, 1).value_or(128);
      window) {
    to.set("window_left", std::to_string(width / 2), "config.json");
    to.set("window_right", std::to_string(width / 2), "config.json");
  }
}

/// The head's activation has a key of its own.
void settle_modernbert_head(const Group& group, Description& description, const JsonTree&) {
  const std::string act = group.configured("classifier_activation").value_or("gelu");
  if (!is_one_of(act, {"gelu", "relu", "silu", "gelu_new", "gelu_pytorch_tanh"}))
    fail("{}: config.json has classifier_activation {}, which is not known here",
         group.contents->name, act);
  description.head_activation.constant = act;
}

} // namespace mha::naming
