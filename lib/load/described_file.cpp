#include <mha/load/described_file.hpp>

#include <mha/load/described_names.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

using naming::DescribedNorm;
using naming::DescribedTensor;
using naming::Description;
using naming::Group;

namespace {

using Endings = std::initializer_list<std::string_view>;
const Endings whole{""}, of_map{".weight"}, of_table{"", ".weight"},
    of_norm{".weight", ".w", ".gamma", ""}, of_norm_bias{".bias", ".b", ".beta"};

/// "model." of "model.text.".
std::string enclosing_prefix(std::string prefix) {
  prefix.pop_back();
  const std::size_t dot = prefix.rfind('.');
  return dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
}

/// TransformerLens' W_in is the whole name of a weight.
bool is_bare(std::string_view name) {
  const std::size_t at = name.rfind("W_"), dot = name.rfind('.');
  return at != name.npos && (dot == name.npos || at > dot);
}

bool is_table(std::string_view key) {
  return key == "embed.token" || key == "embed.position" || key == "embed.type";
}

} // namespace

std::string_view layers_word(std::string_view layers) {
  return layers.substr(0, layers.find(".{"));
}

std::string_view layers_word(const Description& description) {
  return description.layers.empty() ? std::string_view() : layers_word(description.layers[0]);
}

std::string block_prefix(const Group& group, std::string_view layers) {
  const std::string at = fmt::format("{}.{}.", layers, group.number().value_or(0));
  for (std::size_t from = 0; (from = group.prefix.find(at, from)) != std::string::npos; ++from)
    if (from == 0 || group.prefix[from - 1] == '.') return group.prefix.substr(0, from + at.size());
  return "";
}

std::string block_prefix(const Group& group, const Description& description) {
  return description.is_family ? block_prefix(group, layers_word(description)) : group.prefix;
}

bool is_of_either_feed_forward(const Description& description, std::string_view name) {
  if (!description.tensor("W_router")) return false;
  for (const auto& [key, tensor] : description.tensors)
    if (key.starts_with("mlp.") || naming::is_of_mixture(key))
      for (const std::string_view one : split_at(tensor.name, '|'))
        if (name.starts_with(one.substr(0, head_mark_in(one)))) return true;
  return false;
}

DescribedFile::DescribedFile(const Description& description, const Group& group)
    : description_(description),
      group_(group),
      layer_(group.number().value_or(0)),
      block_(block_prefix(group, description)) {
  if (description.is_family && !block_.empty())
    model_ = block_.substr(0, block_.size() - layers_word(description).size() - 2 -
                                  std::to_string(layer_).size());
}

std::string DescribedFile::whole_name(std::string_view key, std::string_view name) const {
  if (layer_mark_in(name)) return with_layer(std::string(name), layer_);
  if (!naming::is_of_layer(key)) return model_ + std::string(name);
  for (const auto& [mark, prefix] :
       {std::pair<std::string_view, std::string>(attention_mark, group_.prefix),
        {above_mark, group_.parent()}})
    if (name.starts_with(mark)) return prefix + std::string(name.substr(mark.size()));
  const bool alone = description_.is_family && block_.empty();
  return (alone ? group_.parent(description_.attention_depth) : block_) + std::string(name);
}

const io::Entry* DescribedFile::find(std::string_view key, std::string_view names,
                                     Endings endings) const {
  const auto first_of = [&](const std::string& name) -> const io::Entry* {
    for (const std::string_view ending : endings)
      if (const io::Entry* entry = group_.elsewhere(name + std::string(ending))) return entry;
    return nullptr;
  };
  for (const std::string_view name : split_at(names, '|')) {
    const io::Entry* entry = nullptr;
    if (description_.is_family && naming::is_of_attention(key)) {
      entry = group_.find(name);
    } else if (description_.is_family && key.starts_with("head")) { // at the top, or below any part
      for (std::string at = model_; !entry; at = enclosing_prefix(at)) {
        entry = first_of(at + std::string(name));
        if (at.empty()) break;
      }
    } else {
      entry = first_of(whole_name(key, name));
    }
    if (entry) return entry;
  }
  return nullptr;
}

const io::Entry* DescribedFile::weight(const DescribedTensor& tensor) const {
  if (!description_.is_family || tensor.key == "head.bias" || tensor.key == "mlp.product_bias" ||
      tensor.key == "mlp.stream_scale")
    return find(tensor.key, with_head(tensor.name, 0), whole);
  if (is_table(tensor.key)) return table(tensor);
  if (naming::is_of_mixture(tensor.key)) // experts of several in one tensor have no module
    return find(tensor.key, with_head(tensor.name, 0), of_table);
  return find(tensor.key, tensor.name, is_bare(tensor.name) ? whole : of_map);
}

const io::Entry* DescribedFile::table(const DescribedTensor& tensor) const {
  const Endings& endings = !description_.is_family ? whole
                           : is_bare(tensor.name)  ? of_table
                                                   : of_map;
  const io::Entry* const own = find(tensor.key, tensor.name, endings);
  if (own || tensor.key != "embed.token" || description_.shared_tokens.empty()) return own;
  return find("head", description_.shared_tokens, of_map);
}

naming::Bias DescribedFile::biased(const DescribedTensor& tensor) const {
  if (tensor.needs_bias) return naming::Bias::always;
  if (tensor.bias) return tensor.bias->empty() ? naming::Bias::never : naming::Bias::if_there;
  return tensor.key.starts_with("mlp.") ? description_.mlp_bias.of(group_) : naming::Bias::if_there;
}

std::string DescribedFile::bias_name(const DescribedTensor& tensor) const {
  if (tensor.bias) return *tensor.bias;
  return description_.is_family && !is_bare(tensor.name) && !tensor.name.ends_with(".weight")
             ? tensor.name + ".bias"
             : bias_beside(tensor.name);
}

const io::Entry* DescribedFile::bias(const DescribedTensor& tensor) const {
  if (tensor.bias)
    return tensor.bias->empty() ? nullptr : find(tensor.key, with_head(*tensor.bias, 0), whole);
  if (description_.is_family && naming::is_of_attention(tensor.key)) { // names of its module
    for (const std::string_view name : split_at(tensor.name, '|'))
      if (group_.has(name)) return group_.find(bias_beside(std::string(name)));
    return nullptr;
  }
  const std::string beside = bias_name(tensor);
  return beside.empty() ? nullptr : find(tensor.key, with_head(beside, 0), whole);
}

const io::Entry* DescribedFile::weight(const DescribedNorm& norm) const {
  if (norm.weight.empty()) return nullptr;
  return find(norm.key, norm.weight, description_.is_family ? of_norm : whole);
}

const io::Entry* DescribedFile::bias(const DescribedNorm& norm) const {
  if (description_.is_family) return find(norm.key, norm.weight, of_norm_bias);
  if (norm.bias) return norm.bias->empty() ? nullptr : find(norm.key, *norm.bias, whole);
  const std::string beside = bias_beside(whole_name(norm.key, norm.weight));
  return beside.empty() ? nullptr : group_.elsewhere(beside);
}

const io::Entry& DescribedFile::needed(const std::string& name, const std::string& who) const {
  const io::Entry* const entry = group_.elsewhere(name);
  if (!entry)
    fail("{}: {} has no tensor {}{}", who, group_.contents->name, name,
         did_you_mean(name, names_of_rows(group_.contents->tensors)));
  return *entry;
}

const io::Entry& DescribedFile::needed(const DescribedTensor& tensor,
                                       const io::Entry* entry) const {
  if (entry) return *entry;
  const bool of_module = description_.is_family && naming::is_of_attention(tensor.key);
  const std::string name =
      of_module ? group_.prefix + tensor.name : whole_name(tensor.key, tensor.name);
  if (description_.is_users(tensor)) needed(with_head(name, 0), tensor.where);
  fail("{}: {}{} is missing, so that the layers' inputs cannot be computed; {}",
       group_.contents->name, name, is_bare(name) ? "" : ".weight", give_X_instead);
}

void DescribedFile::mark_skipped(std::string_view key, const std::string& name) const {
  if (!group_.reads || name.empty()) return;
  const std::string own = whole_name(key, name);
  if (head_mark_in(own) == std::string::npos) return group_.reads->skip(own);
  for (std::size_t head = 0; group_.contents->find(with_head(own, head)); ++head)
    group_.reads->skip(with_head(own, head));
}

} // namespace mha
