#include <mha/load/model_reader.hpp>

#include <algorithm>

namespace mha {

using naming::Group;
using naming::ModelRecord;

namespace {

/// "model." of "model.text.".
std::string above(std::string prefix) {
  prefix.pop_back();
  const std::size_t dot = prefix.rfind('.');
  return dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
}

} // namespace

std::vector<std::string_view> words_of_record(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    list.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(list.back().size() + 1, text.size()));
  }
  return list;
}

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
         group.prefix, record.layers, give_X_instead);
  model_ = block_.substr(0, block_.size() - record.layers.size() - 2 -
                                std::to_string(group.number().value_or(0)).size());
}

Tensor ModelReader::take(const std::string& name, std::initializer_list<std::string_view> endings,
                         std::size_t rank, bool needed) const {
  for (std::string_view ending : endings)
    if (const io::Entry* entry = find(name + std::string(ending))) {
      if (entry->shape.size() != rank)
        fail("{}: {} is {}: {} expected", group_.contents->name, entry->name,
             to_string(entry->shape), rank == 1 ? "one axis" : "a matrix");
      if (!is_floating(entry->dtype))
        fail("{}: {} is {}: quantised weights are not read here; dequantise them first",
             group_.contents->name, entry->name, name_of(entry->dtype));
      return entry->read();
    }
  if (needed)
    fail("{}: {}{} is missing, so that the layers' inputs cannot be computed; {}",
         group_.contents->name, name, has_endings(name) ? *endings.begin() : "", give_X_instead);
  return {};
}

Tensor ModelReader::table(std::string_view name, bool needed) const {
  if (name.empty()) return {};
  const std::string whole = model_ + std::string(name);
  return take(whole, {has_endings(whole) ? ".weight" : "", ".weight"}, 2, needed);
}

LinearMap ModelReader::linear(const std::string& name, std::size_t in, std::size_t out,
                              bool out_in) const {
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

Norm ModelReader::norm(const std::string& name, std::size_t width) const {
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

double ModelReader::epsilon() const {
  for (std::string_view key : words_of_record(record_.eps_keys))
    if (const std::optional<double> eps = group_.configured_number({key})) return *eps;
  return record_.eps;
}

Activation ModelReader::activation(std::string_view fixed) const {
  std::string name(fixed.empty() ? record_.activation : fixed), key = "the activation";
  for (std::string_view word : words_of_record(fixed.empty() ? record_.activation_keys : ""))
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

std::string ModelReader::head_name(std::string_view name) const {
  if (name.empty()) return "";
  for (std::string at = model_;; at = above(at)) {
    const std::string whole = at + std::string(name);
    if (find(whole + ".weight") || find(whole + ".gamma") || find(whole)) return whole;
    if (at.empty()) return "";
  }
}

void ModelReader::refuse_experts() const {
  for (std::string_view router :
       {"block_sparse_moe.gate.weight", "mlp.gate.weight", "mlp.router.weight"})
    if (find(block_ + std::string(router)))
      fail("{}: {}{}: a mixture of experts is not covered as a whole model yet; {}",
           group_.contents->name, block_, router, give_X_instead);
}

} // namespace mha
