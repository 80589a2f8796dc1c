#include <mha/load/named_layers.hpp>

#include <mha/formats/onnx_graph.hpp>
#include <mha/load/described_names.hpp>
#include <mha/load/families/family_text.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

using naming::Found;
using naming::Group;

void refuse_undescribable(const Group& group, std::string_view what) {
  fail("{}: a description cannot express {}", group.contents->name, what);
}

/// The group's prefix in the file's own names.
std::string NamedLayers::own_prefix(const Group& group) const {
  for (const auto& [name, entry] : group.tensors) {
    const std::string& own = name_in_file(*entry);
    if (own.ends_with(name)) return own.substr(0, own.size() - name.size());
  }
  refuse_undescribable(group, "where its layers are");
}

void NamedLayers::add_layer(const Found& found, std::string block) {
  ReadAs layer;
  layer.group = found.group;
  layer.group.outline = true;
  const std::string own = own_prefix(found.group);
  layer.block = std::move(block);
  layer.block_in_file =
      own.substr(0, own.size() - (found.group.prefix.size() - layer.block.size()));
  layers_.push_back(std::move(layer));
  ReadAs& kept = layers_.back();
  kept.read.emplace(kept.group, *family_, options_);
  naming::read_layer(*family_, kept.group, *kept.read);
}

std::vector<std::string> NamedLayers::layers_pattern() const {
  const std::string& first = layers_[0].block_in_file;
  const std::size_t number = layers_[0].group.number().value_or(0);
  for (std::size_t at = 0; (at = first.find(std::to_string(number), at)) != first.npos; ++at) {
    const std::string before = first.substr(0, at),
                      after = first.substr(at + std::to_string(number).size());
    if (std::ranges::all_of(layers_, [&](const ReadAs& layer) {
          return layer.block_in_file ==
                 fmt::format("{}{}{}", before, layer.group.number().value_or(0), after);
        }))
      return {before + "{layer}" + after};
  }
  std::vector<std::string> list;
  for (const ReadAs& layer : layers_) list.push_back(layer.block_in_file);
  return list;
}

std::string NamedLayers::below_block(const io::Entry& entry, const ReadAs& layer) {
  claim(entry);
  const std::string& own = name_in_file(entry);
  const std::string& block = layer.block_in_file;
  if (!own.starts_with(block)) refuse_undescribable(layer.group, own + ", outside of its layer");
  return own.substr(block.size());
}

const NamedLayers::ReadAs& NamedLayers::layer_with_norm() const {
  const auto has_norm = [](const ReadAs& layer) { return layer.read->norm.weight.has_value(); };
  const auto at = std::ranges::find_if(layers_, has_norm);
  return at == layers_.end() ? layers_[0] : *at;
}

void NamedLayers::claim(const io::Entry& entry) {
  const std::string& own = name_in_file(entry);
  claimed_.insert(own);
  for (const ReadAs& of : layers_) {
    if (!own.starts_with(of.block_in_file)) continue;
    for (const ReadAs& layer : layers_)
      claimed_.insert(layer.block_in_file + own.substr(of.block_in_file.size()));
    return;
  }
}

const io::Entry* NamedLayers::in_file(std::string_view own) const {
  for (const io::Entry& entry : layers_[0].group.contents->tensors)
    if (name_in_file(entry) == own) return &entry;
  return nullptr;
}

std::vector<std::string> NamedLayers::unclaimed() const {
  std::vector<std::string> list;
  std::set<std::string> once;
  const io::Contents& file = *layers_[0].group.contents;
  for (const io::Entry& entry : file.tensors) {
    const std::string& own = name_in_file(entry);
    if (claimed_.contains(own) || (file.graph && !file.graph->is_of_module(entry))) continue;
    std::string pattern = own;
    for (const ReadAs& layer : layers_)
      if (const std::string number = fmt::format(".{}.", layer.group.number().value_or(0));
          own.starts_with(layer.block_in_file) && own.find(number) != own.npos)
        pattern.replace(own.find(number), number.size(), ".{layer}.");
    if (once.insert(pattern).second) list.push_back(pattern);
  }
  return list;
}

namespace {

/// The letters of an attention weight's stored axes, "" for "oi"; nothing where none fit.
std::optional<std::string> layout_of(const Tensor& read, const Shape& stored_shape) {
  const Shape& shape = read.shape();
  if (shape.size() == 3 && shape == stored_shape) return "hio";
  if (shape.size() == 3 && stored_shape == Shape{shape[1], shape[0], shape[2]}) return "iho";
  const StoredMatrix* stored = read.stored();
  const bool transposed = stored && stored->transposed;
  const Shape reversed(stored_shape.rbegin(), stored_shape.rend());
  if (shape.size() != 2 || shape != (transposed ? reversed : stored_shape)) return std::nullopt;
  return transposed ? "" : "io";
}

} // namespace

std::optional<std::string> NamedAttention::named_bias(const io::Entry& weight,
                                                      const io::Entry* bias, const ReadAs* of) {
  const std::string beside = bias_beside(name_in_file(weight));
  if (bias) claim(*bias);
  if (bias && name_in_file(*bias) != beside)
    return of ? below_block(*bias, *of) : name_in_file(*bias);
  if (!bias && !beside.empty() && in_file(beside)) return "";
  return std::nullopt;
}

const io::Entry* NamedAttention::entry_of(const NamedTensor& part) const {
  const std::string file = layers_[0].group.contents->name + ": ";
  if (!part.from.starts_with(file)) return nullptr;
  return in_file(part.from.substr(file.size()));
}

std::map<std::string, naming::DescribedTensor> NamedAttention::attention() {
  std::map<std::string, naming::DescribedTensor> to;
  const naming::LayerReading& read = *layers_[0].read;
  const std::string fused = add_fused(to, {"q", "k", "v"}) ? "qkv"
                            : add_fused(to, {"k", "v"})    ? "kv"
                                                           : "";
  for (const auto& [key, part] : read.parts) {
    const bool projection = key.size() == 3 && (key[0] == 'W' || key[0] == 'b');
    if (key.starts_with("norm.") || (projection && fused.find(key[2]) != fused.npos)) continue;
    if (key.starts_with("b_") && read.parts.contains("W" + key.substr(1))) continue;
    naming::DescribedTensor tensor = tensor_of(key, part);
    for (const auto& setting : read.settings) {
      if (key != "W_qkv" || setting.name != "qkv_order") continue;
      tensor.by_head = setting.value == "per_group";
      if (tensor.by_head || setting.value == "qkv") continue;
      for (const char letter : setting.value) tensor.split.emplace_back(1, letter);
    }
    to[key] = std::move(tensor);
  }
  return to;
}

naming::DescribedTensor NamedAttention::tensor_of(const std::string& key, const NamedTensor& part) {
  const Group& group = layers_[0].group;
  const io::Entry* const entry = entry_of(part);
  naming::DescribedTensor tensor;
  if (!entry && part.tensor.rank() == 1 && key.starts_with("rope_")) {
    for (std::size_t i = 0; i < part.tensor.count(); ++i)
      tensor.values.push_back(value_at(part.tensor, i));
    return tensor;
  }
  if (!entry) refuse_undescribable(group, fmt::format("{}, {}", key, part.source));
  if (const std::optional<naming::DescribedTensor> stacked = tensor_of_heads(*entry, part))
    return *stacked;
  tensor.name = name_of_part(key, *entry);
  if (!key.starts_with("W_")) {
    if (count_of(part.tensor.shape()) != count_of(entry->shape))
      refuse_undescribable(group, part.source);
    return tensor;
  }
  const naming::DescribedTensor* const own =
      naming::description_of(*family_, group, false).tensor(key);
  if (own && own->layout.size() == entry->shape.size()) {
    tensor.layout = own->layout == "oi" ? "" : own->layout;
  } else {
    const std::optional<std::string> layout = layout_of(part.tensor, entry->shape);
    if (!layout) refuse_undescribable(group, fmt::format("how {} is stored", name_in_file(*entry)));
    tensor.layout = *layout;
  }
  const auto& parts = layers_[0].read->parts;
  const auto bias = parts.find("b" + key.substr(1));
  tensor.bias =
      named_bias(*entry, bias == parts.end() ? nullptr : entry_of(bias->second), &layers_[0]);
  return tensor;
}

std::string NamedAttention::name_of_part(const std::string& key, const io::Entry& entry) {
  const std::string own = below_block(entry);
  if (key != "relative_bias" || layers_.size() == 1) return own;
  if (in_file(layers_[1].block_in_file + own)) return own;
  std::string whole = name_in_file(entry);
  const std::string number = fmt::format(".{}.", layers_[0].group.number().value_or(0));
  const std::size_t at = whole.find(number);
  if (number != ".0." || at == whole.npos)
    refuse_undescribable(layers_[1].group, whole + ", of another layer");
  return whole.replace(at, number.size(), ".{0*layer}.");
}

std::optional<naming::DescribedTensor> NamedAttention::tensor_of_heads(const io::Entry& first,
                                                                       const NamedTensor& part) {
  if (count_of(first.shape) == count_of(part.tensor.shape())) return std::nullopt;
  for (const auto& [number, pattern] :
       {std::pair<std::string_view, std::string>(".0.", ".{head}."), {"head_1", "head_{head+1}"}}) {
    const std::string own = below_block(first);
    const std::size_t at = own.rfind(number);
    if (at == own.npos) continue;
    naming::DescribedTensor tensor;
    tensor.name = std::string(own).replace(at, number.size(), pattern);
    if (first.shape.size() == 2) tensor.layout = "io";
    std::size_t head = 0;
    while (const io::Entry* const entry =
               in_file(layers_[0].block_in_file + with_head(tensor.name, head++)))
      claim(*entry);
    return tensor;
  }
  return std::nullopt;
}

bool NamedAttention::add_fused(std::map<std::string, naming::DescribedTensor>& to,
                               const std::vector<std::string>& letters) {
  const auto& parts = layers_[0].read->parts;
  const io::Entry* entry = nullptr;
  for (const std::string& letter : letters) {
    const auto part = parts.find("W_" + letter);
    const io::Entry* const of = part == parts.end() ? nullptr : entry_of(part->second);
    if (!of || (entry && entry != of)) return false;
    entry = of;
  }
  const Tensor& first = parts.at("W_" + letters[0]).tensor;
  if (first.rank() != 2 || count_of(entry->shape) != letters.size() * first.count()) return false;
  naming::DescribedTensor tensor;
  tensor.name = below_block(*entry);
  if (entry->shape[0] == first.shape()[0] && entry->shape[1] != first.shape()[0])
    tensor.layout = "io";
  const std::string key = "W_" + joined_texts(letters, "");
  const auto& described = naming::description_of(*family_, layers_[0].group, false).tensors;
  if (const auto own = described.find(key); own != described.end() && own->second.groups > 0)
    tensor.split = own->second.split, tensor.groups = own->second.groups;
  const auto bias = parts.find("b_" + letters[0]);
  tensor.bias =
      named_bias(*entry, bias == parts.end() ? nullptr : entry_of(bias->second), &layers_[0]);
  to[key] = std::move(tensor);
  return true;
}

} // namespace mha
