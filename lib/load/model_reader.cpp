#include <mha/load/model_reader.hpp>

#include <mha/load/families/description.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

using naming::Group;
using naming::ModelRecord;

namespace {

/// "model." of "model.text.".
std::string enclosing_prefix(std::string prefix) {
  prefix.pop_back();
  const std::size_t dot = prefix.rfind('.');
  return dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
}

Tensor times_factor(const Tensor& weight, double factor) {
  std::vector<double> numbers(weight.count());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = factor * value_at(weight, i);
  return Tensor::of<double>(weight.shape(), numbers);
}

const std::initializer_list<std::string_view> norm_weights{".weight", ".w", ".gamma"},
    norm_biases{".bias", ".b", ".beta"};

} // namespace

std::string block_prefix(const Group& group, std::string_view layers) {
  const std::string at = fmt::format("{}.{}.", layers, group.number().value_or(0));
  for (std::size_t from = 0; (from = group.prefix.find(at, from)) != std::string::npos; ++from)
    if (from == 0 || group.prefix[from - 1] == '.') return group.prefix.substr(0, from + at.size());
  return "";
}

ModelReader::ModelReader(const Group& group, const ModelRecord& record)
    : group_(group), record_(record), block_(block_prefix(group, record.layers)) {
  if (block_.empty())
    fail("{}: {} does not stand below {}.N, as in a whole model; {}", group.contents->name,
         group.prefix, record.layers, or_describe_it);
  model_ = block_.substr(0, block_.size() - record.layers.size() - 2 -
                                std::to_string(group.number().value_or(0)).size());
}

const io::Entry* ModelReader::first_of(const std::string& name, Endings endings) const {
  for (std::string_view ending : endings)
    if (const io::Entry* entry = find(name + std::string(ending))) return entry;
  return nullptr;
}

Tensor ModelReader::take(const std::string& name, Endings endings, std::size_t rank,
                         bool needed) const {
  if (const io::Entry* entry = first_of(name, endings)) {
    if (entry->shape.size() != rank)
      fail("{}: {} is {}: {} expected", group_.contents->name, entry->name, to_string(entry->shape),
           rank == 1 ? "one axis" : "a matrix");
    if (!is_floating(entry->dtype))
      fail("{}: {} is {}: quantised weights are not read here; dequantise them first",
           group_.contents->name, entry->name, name_of(entry->dtype));
    return group_.read(*entry);
  }
  if (needed)
    fail("{}: {}{} is missing, so that the layers' inputs cannot be computed; {}",
         group_.contents->name, name, has_endings(name) ? *endings.begin() : "", give_X_instead);
  return {};
}

std::string ModelReader::table_name(std::string_view name) const {
  const std::string whole = model_ + std::string(name);
  if (name != record_.tokens || find(whole + ".weight") || find(whole)) return whole;
  const std::string shared = head_name(record_.shared_tokens);
  return shared.empty() ? whole : shared;
}

Tensor ModelReader::table(std::string_view name, bool needed) const {
  if (name.empty()) return {};
  const std::string whole = table_name(name);
  return take(whole, {has_endings(whole) ? ".weight" : "", ".weight"}, 2, needed);
}

const io::Entry* ModelReader::table_entry(std::string_view name) const {
  const std::string whole = table_name(name);
  return first_of(whole, {has_endings(whole) ? ".weight" : "", ".weight"});
}

std::string ModelReader::bias_of(std::string name) {
  if (!has_endings(name)) name.replace(name.rfind("W_"), 2, "b_");
  return name;
}

ModelReader::Entries ModelReader::linear_entries(const std::string& name,
                                                 naming::Bias biased) const {
  const std::string_view weight = has_endings(name) ? ".weight" : "",
                         bias = has_endings(name) ? ".bias" : "";
  return {first_of(name, {weight}),
          biased == naming::Bias::never ? nullptr : first_of(bias_of(name), {bias})};
}

ModelReader::Entries ModelReader::norm_entries(const std::string& name) const {
  return {first_of(name, norm_weights), first_of(name, norm_biases)};
}

LinearMap ModelReader::linear(const std::string& name, std::size_t in, std::size_t out, bool out_in,
                              naming::Bias biased) const {
  LinearMap linear;
  const bool bare = !has_endings(name); // "mlp.W_in" and "mlp.b_in"
  const Tensor stored = take(name, {bare ? "" : ".weight"}, 2, true);
  linear.W = out_in ? transposed_when_read(stored) : stored;
  const std::string bias = bias_of(name);
  if (biased != naming::Bias::never)
    linear.b = take(bias, {bare ? "" : ".bias"}, 1, biased == naming::Bias::always);
  if (linear.in() != in || (out > 0 && linear.out() != out))
    fail("{}: {} is {}: it takes {} and gives {}, but {}{} expected", group_.contents->name, name,
         to_string(stored.shape()), linear.in(), linear.out(), in,
         out > 0 ? fmt::format(" and {} are", out) : " taken are");
  if (!linear.b.empty() && linear.b.count() != linear.out())
    fail("{}: {} is {}: {} expected", group_.contents->name, bias, to_string(linear.b.shape()),
         counted(linear.out(), "numbers"));
  return linear;
}

Norm ModelReader::norm(const std::string& name, std::size_t width) const {
  Norm norm = form();
  bool bare = record_.norm_is_bare;
  if (group_.description) naming::form_described_norm(group_, name, norm, bare);
  if (norm.kind == InputNorm::none) return norm;
  const bool needed = !bare;
  norm.weight = take(name, norm_weights, 1, needed);
  if (norm.kind != InputNorm::rms)
    norm.bias = take(name, norm_biases, 1, needed && record_.norm_bias == naming::Bias::always);
  for (const Tensor* tensor : {&norm.weight, &norm.bias})
    if (!tensor->empty() && tensor->count() != width)
      fail("{}: {} has {}, but {} expected", group_.contents->name, name,
           counted(tensor->count(), "numbers"), width);
  return norm;
}

Norm ModelReader::form() const {
  Norm norm;
  norm.kind = record_.norm, norm.one_plus = record_.one_plus;
  norm.eps = epsilon();
  return norm;
}

double ModelReader::epsilon() const {
  for (std::string_view key : words_of(record_.eps_keys))
    if (const std::optional<double> eps = group_.configured_number({key})) return *eps;
  return record_.eps;
}

Activation ModelReader::activation(std::string_view fixed) const {
  std::string name(fixed.empty() ? record_.activation : fixed), key = "the activation";
  for (std::string_view word : words_of(fixed.empty() ? record_.activation_keys : ""))
    if (const std::optional<std::string> said = group_.configured(word)) {
      name = *said, key = word;
      break;
    }
  if (const std::optional<Activation> known = activation_named(name)) return *known;
  fail("config.json: {} is '{}', which is not known here: {}; {}", key, name, activation_names(),
       give_X_instead);
}

FeedForward ModelReader::feed_forward(std::size_t width) const {
  FeedForward mlp;
  if (record_.mlp_out.empty()) return mlp;
  const std::string in = block_ + std::string(record_.mlp_in),
                    out = block_ + std::string(record_.mlp_out);
  refuse_experts();
  mlp.activation = activation();
  if (!record_.mlp_gate_up.empty()) {
    const LinearMap both = linear(block_ + std::string(record_.mlp_gate_up), width);
    if (both.out() % 2 != 0)
      fail("{}: {}{} gives {} numbers: a gate and as many of the other factor expected",
           group_.contents->name, block_, record_.mlp_gate_up, both.out());
    const std::size_t half = both.out() / 2;
    mlp.in = mlp.up = both;
    mlp.in.W = columns_when_read(both.W, 0, half), mlp.up.W = columns_when_read(both.W, half, half);
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
    if (!group_.description) mlp.inner.kind = InputNorm::layer;
  }
  mlp.out = linear(out, mlp.in.out(), width);
  return mlp;
}

TransformerBlock ModelReader::block(std::size_t width) const {
  TransformerBlock block;
  block.shape = record_.shape;
  block.mlp = feed_forward(width);
  block.post_attention_norm = norm_in_block(record_.post_attention_norm, width);
  block.pre_mlp_norm = norm_in_block(record_.pre_mlp_norm, width);
  block.post_mlp_norm = norm_in_block(record_.post_mlp_norm, width);
  block.post_block_norm = norm_in_block(record_.post_block_norm, width);
  // A norm behind a sublayer that only multiplies.
  if (record_.residual_scale != 1) {
    block.shape = BlockShape::sandwich;
    const std::vector<double> factors(width, record_.residual_scale);
    Norm times;
    times.kind = InputNorm::affine;
    times.weight = Tensor::of<double>({width}, factors);
    for (Norm* norm : {&block.post_attention_norm, &block.post_mlp_norm})
      if (norm->weight.empty())
        *norm = times;
      else
        norm->weight = times_factor(norm->weight, record_.residual_scale);
  }
  return block;
}

std::optional<std::size_t> ModelReader::stream_width() const {
  const auto shape_of = [&](std::string_view name) {
    const std::string whole = table_name(name);
    for (const char* ending : {"", ".weight"})
      if (const io::Entry* entry = find(whole + ending); entry && entry->shape.size() == 2)
        return entry->shape;
    return Shape();
  };
  const bool projected = !record_.embedding_linear.empty();
  const Shape shape = shape_of(projected ? record_.embedding_linear : record_.tokens);
  return shape.empty() ? std::nullopt : std::optional(shape[projected ? 0 : 1]);
}

void ModelReader::require_always() const {
  for (std::string_view name : words_of(record_.always)) {
    const std::vector<std::string_view> spellings = words_of(name, "|");
    const auto is_there = [&](std::string_view own) { return find(block_ + std::string(own)); };
    if (std::ranges::any_of(spellings, is_there)) continue;
    fail("{}: {}{} is missing, which models of this kind have; {}", group_.contents->name, block_,
         spellings[0], give_X_instead);
  }
}

std::string ModelReader::head_name(std::string_view name,
                                   std::initializer_list<std::string_view> endings) const {
  if (name.empty()) return "";
  for (std::string at = model_;; at = enclosing_prefix(at)) {
    const std::string whole = at + std::string(name);
    for (const std::string_view ending : endings)
      if (find(whole + std::string(ending))) return whole;
    if (at.empty()) return "";
  }
}

std::string ModelReader::head_bias(bool tied) const {
  const std::string head(record_.head);
  std::string of_record = head_name(record_.head_bias, {""}), own;
  if (record_.head_has_bias != naming::Bias::never && !head.empty())
    own = head_name(bias_of(head) + (has_endings(head) ? ".bias" : ""), {""});
  return own.empty() || (tied && !of_record.empty()) ? of_record : own;
}

void ModelReader::refuse_experts() const {
  for (std::string_view router :
       {"block_sparse_moe.gate.weight", "mlp.gate.weight", "mlp.router.weight"})
    if (find(block_ + std::string(router)))
      fail("{}: {}{}: a mixture of experts is not covered as a whole model yet; {}",
           group_.contents->name, block_, router, give_X_instead);
}

} // namespace mha
