#include <mha/load/whole_model.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace mha {

namespace {

using naming::Found;
using naming::Group;
using naming::ModelRecord;

constexpr std::string_view cure = "give a layer's input instead of a text: X=FILE";

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    list.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(list.back().size() + 1, text.size()));
  }
  return list;
}

/// "transformer.h.0." of "transformer.h.0.attn." and the record's "h"; "" if it does not stand
/// there.
std::string block_prefix(const Group& group, std::string_view layers) {
  const std::string at = fmt::format("{}.{}.", layers, group.number().value_or(0));
  for (std::size_t from = 0; (from = group.prefix.find(at, from)) != std::string::npos; ++from)
    if (from == 0 || group.prefix[from - 1] == '.') return group.prefix.substr(0, from + at.size());
  return "";
}

/// The layers of the text model: one family, under one prefix, from 0 on.
std::vector<Found> stack_of(const std::vector<Found>& found) {
  std::vector<Found> stack;
  for (const Found& layer : found) {
    const Group& group = layer.group;
    if (group.within({"vision", "visual", "audio"})) continue;
    if (group.within({"decoder.", "crossattention", "encoder_attn", "EncDecAttention"}))
      fail("{}: an encoder and a decoder are not covered as a whole model yet; {}",
           group.contents->name, cure);
    stack.push_back(layer);
  }
  if (stack.empty()) fail("a text needs a checkpoint with a model's layers; {}", cure);
  for (std::size_t n = 0; n < stack.size(); ++n) {
    const Found& layer = stack[n];
    const std::string& file = layer.group.contents->name;
    if (layer.family != stack[0].family || !layer.family->model)
      fail("{}: {} is not covered as a whole model yet; {}", file, layer.family->title, cure);
    if (layer.group.number().value_or(0) != n)
      fail(
          "{}: layer {} is missing, or a projection of it: the layers of a whole model are needed; "
          "{}",
          file, n, cure);
  }
  return stack;
}

/// What a config that the record was not written for says about itself.
void require_covered(const Group& group, const ModelRecord& record, std::string_view title) {
  const std::optional<std::string> type = group.configured("model_type");
  const std::vector<std::string_view> covered = words(record.models);
  if (!type || covered.empty()) return;
  if (std::none_of(covered.begin(), covered.end(),
                   [&](std::string_view model) { return group.is_model({model}); }))
    fail("{}: model_type '{}' has {}'s names, but is not covered as a whole model yet; {}",
         group.contents->name, *type, title, cure);
}

} // namespace

/// Takes a model's tensors by the names of its record.
class WholeModel::Reader {
public:
  Reader(const Group& group, const ModelRecord& record)
      : group_(group), record_(record), block_(block_prefix(group, record.layers)) {
    if (block_.empty())
      fail("{}: {} does not stand below {}.N, as in a whole model; {}", group.contents->name,
           group.prefix, record.layers, cure);
    model_ = block_.substr(0, block_.size() - record.layers.size() - 2 -
                                  std::to_string(group.number().value_or(0)).size());
  }

  const std::string& block() const { return block_; }
  const std::string& model() const { return model_; }

  const io::Entry* find(const std::string& name) const { return group_.elsewhere(name); }

  /// A tensor under one of its endings; throws Error if it has to be there.
  Tensor take(const std::string& name, std::initializer_list<std::string_view> endings,
              std::size_t rank, bool needed) const {
    for (std::string_view ending : endings)
      if (const io::Entry* entry = find(name + std::string(ending))) {
        if (entry->shape.size() != rank)
          fail("{}: {} is {}: {} expected", group_.contents->name, entry->name,
               to_string(entry->shape), rank == 1 ? "one axis" : "a matrix");
        return entry->read();
      }
    if (needed)
      fail("{}: {}{} is missing, so that the layers' inputs cannot be computed; {}",
           group_.contents->name, name, has_endings(name) ? *endings.begin() : "", cure);
    return {};
  }

  Tensor table(std::string_view name, bool needed) const {
    if (name.empty()) return {};
    const std::string whole = model_ + std::string(name);
    return take(whole, {has_endings(whole) ? ".weight" : "", ".weight"}, 2, needed);
  }

  LinearMap linear(const std::string& name, std::size_t in, std::size_t out = 0) const {
    return linear(name, in, out, !record_.in_out);
  }
  LinearMap linear(const std::string& name, std::size_t in, std::size_t out, bool out_in) const {
    LinearMap linear;
    linear.out_in = out_in;
    const bool bare = !has_endings(name); // "mlp.W_in" and "mlp.b_in"
    linear.W = take(name, {bare ? "" : ".weight"}, 2, true);
    std::string bias = name;
    if (bare) bias.replace(bias.rfind("W_"), 2, "b_");
    linear.b = take(bias, {bare ? "" : ".bias"}, 1, false);
    if (linear.in() != in || (out > 0 && linear.out() != out))
      fail("{}: {} is {}: it takes {} and gives {}, but {}{} expected", group_.contents->name, name,
           to_string(linear.W.shape()), linear.in(), linear.out(), in,
           out > 0 ? fmt::format(" and {} are", out) : " taken are");
    if (!linear.b.empty() && linear.b.count() != linear.out())
      fail("{}: {} is {}: {} expected", group_.contents->name, bias, to_string(linear.b.shape()),
           counted(linear.out(), "numbers"));
    return linear;
  }

  Norm norm(const std::string& name, std::size_t width) const {
    Norm norm;
    norm.kind = record_.norm, norm.one_plus = record_.one_plus;
    norm.eps = epsilon();
    if (norm.kind == InputNorm::none) return norm;
    const bool needed = !record_.norm_is_bare;
    norm.weight = take(name, {".weight", ".w", ".gamma"}, 1, needed);
    if (norm.kind == InputNorm::layer) norm.bias = take(name, {".bias", ".b", ".beta"}, 1, false);
    for (const Tensor* tensor : {&norm.weight, &norm.bias})
      if (!tensor->empty() && tensor->count() != width)
        fail("{}: {} has {}, but {} expected", group_.contents->name, name,
             counted(tensor->count(), "numbers"), width);
    return norm;
  }
  Norm norm_in_block(std::string_view name, std::size_t width) const {
    return name.empty() ? Norm{} : norm(block_ + std::string(name), width);
  }

  double epsilon() const {
    for (std::string_view key : words(record_.eps_keys))
      if (const std::optional<double> eps = group_.configured_number({key})) return *eps;
    return record_.eps;
  }

  Activation activation(std::string_view fixed = {}) const {
    std::string name(fixed.empty() ? record_.activation : fixed), key = "the activation";
    for (std::string_view word : words(fixed.empty() ? record_.activation_keys : ""))
      if (const std::optional<std::string> said = group_.configured(word)) {
        name = *said, key = word;
        break;
      }
    if (const std::optional<Activation> known = activation_named(name)) return *known;
    fail("config.json: {} is '{}', which is not known here: {}; {}", key, name, activation_names(),
         cure);
  }

  FeedForward feed_forward(std::size_t width) const {
    FeedForward mlp;
    if (record_.mlp_out.empty()) return mlp;
    const std::string in = block_ + std::string(record_.mlp_in),
                      out = block_ + std::string(record_.mlp_out);
    refuse_experts();
    mlp.activation = activation();
    if (!record_.mlp_gate_up.empty()) {
      const LinearMap both = linear(block_ + std::string(record_.mlp_gate_up), width);
      const std::size_t half = both.out() / 2;
      mlp.in = mlp.up = both;
      const Tensor rows = both.W.reshaped({2, half, width});
      mlp.in.W = rows.at(0), mlp.up.W = rows.at(1);
      if (!both.b.empty()) {
        const Tensor biases = both.b.reshaped({2, half});
        mlp.in.b = biases.at(0), mlp.up.b = biases.at(1);
      }
    } else {
      mlp.in = linear(in, width);
      if (!record_.mlp_up.empty())
        mlp.up = linear(block_ + std::string(record_.mlp_up), width, mlp.in.out());
    }
    if (record_.bias_of_product) std::swap(mlp.product_bias, mlp.up.b);
    if (!record_.mlp_norm.empty()) {
      mlp.inner = norm(block_ + std::string(record_.mlp_norm), mlp.in.out());
      mlp.inner.kind = InputNorm::layer;
    }
    mlp.out = linear(out, mlp.in.out(), width);
    if (group_.configured("mlp_bias") == "true" && mlp.out.b.empty())
      fail("{}: {}.bias is missing, though config.json says mlp_bias", group_.contents->name, out);
    return mlp;
  }

  /// The head's name, below a part of the model's prefix or at the top; "" if it is not there.
  std::string head_name(std::string_view name) const {
    if (name.empty()) return "";
    for (std::string at = model_;; at = parent(at)) {
      const std::string whole = at + std::string(name);
      if (find(whole + ".weight") || find(whole + ".gamma") || find(whole)) return whole;
      if (at.empty()) return "";
    }
  }

  /// Whether ".weight" stands behind the name; TransformerLens' W_in is the whole of it.
  static bool has_endings(const std::string& name) {
    return name.rfind("W_") == std::string::npos || name.rfind("W_") < name.rfind('.');
  }

private:
  static std::string parent(std::string prefix) {
    prefix.pop_back();
    const std::size_t dot = prefix.rfind('.');
    return dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
  }
  void refuse_experts() const {
    for (std::string_view router :
         {"block_sparse_moe.gate.weight", "mlp.gate.weight", "mlp.router.weight"})
      if (find(block_ + std::string(router)))
        fail("{}: {}{}: a mixture of experts is not covered as a whole model yet; {}",
             group_.contents->name, block_, router, cure);
  }

  const Group& group_;
  const ModelRecord& record_;
  std::string block_, model_; ///< "transformer.h.0.", "transformer."
};

WholeModel::WholeModel(const std::vector<Found>& found) : layers_(stack_of(found)) {
  record_ = *layers_[0].family->model;
  const Group& group = layers_[0].group;
  require_covered(group, record_, layers_[0].family->title);
  if (record_.settle) record_.settle(group, record_);
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
         name, count, layers_.size(), cure);
  }
}

void WholeModel::read_ends() {
  const Group& group = layers_[0].group;
  const Reader reader(group, record_);
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
    head.decoder = reader.linear(name, d, 0, Reader::has_endings(name));
  } else if (tied) {
    head.decoder.W = e.tokens, head.decoder.out_in = true;
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
  const Reader reader(layers_.at(number).group, record_);
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
