#include <mha/load/numbered_heads.hpp>

#include <mha/files/text.hpp>
#include <mha/load/described_tensors.hpp>
#include <mha/naming/spelling.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace mha {

namespace {

/// The heads of one weight in a file, by their numbers.
using Heads = std::map<std::size_t, const io::Entry*>;

bool are_heads(const Heads& heads) {
  const std::size_t first = heads.begin()->first, last = heads.rbegin()->first;
  const Shape& shape = heads.begin()->second->shape;
  return heads.size() > 1 && first < 2 && last - first + 1 == heads.size() &&
         std::ranges::all_of(heads, [&](const auto& head) { return head.second->shape == shape; });
}

/// Whether the heads' matrices are (out, in): only their columns are as many as the input's.
bool are_turned(const std::string& weight, const Shape& shape, const NamedTensors& parts) {
  const auto X = parts.find("X");
  if (weight == "W_o" || shape.size() != 2 || X == parts.end() || X->second.tensor.rank() < 2)
    return false;
  const std::size_t width = X->second.tensor.shape().back();
  return shape[0] != width && shape[1] == width;
}

} // namespace

void join_numbered_heads(const std::vector<io::Contents>& files, NamedTensors& parts,
                         std::vector<UnknownTensor>& unknown_tensors, std::vector<Note>& notes) {
  std::map<std::pair<std::string, std::string>, Heads> found; // by file and weight
  for (const UnknownTensor& tensor : unknown_tensors) {
    const auto head = numbered_head(tensor.name);
    const auto file = std::ranges::find(files, tensor.file, &io::Contents::name);
    if (!head || file == files.end() || tensor.shape.size() != (head->weight[0] == 'b' ? 1u : 2u))
      continue;
    found[{tensor.file, head->weight}].emplace(head->number, file->find(tensor.name));
  }
  for (const auto& [place, heads] : found) {
    const auto& [file, weight] = place;
    const std::string fused = weight.substr(0, 1) + "_qkv";
    if (parts.contains(weight) || parts.contains(fused) || !are_heads(heads)) continue;
    const Shape& shape = heads.begin()->second->shape;
    const bool turned = are_turned(weight, shape, parts);
    std::vector<io::Entry> entries;
    std::vector<std::string> names;
    for (const auto& [number, entry] : heads) {
      entries.push_back(turned ? turned_entry(*entry, "oi", "io") : *entry);
      names.push_back(io::shown(entry->name));
    }
    const std::string list = fmt::format("{}", fmt::join(names, ", "));
    parts[weight] = {.tensor = stacked_entry(entries).read(),
                     .source = fmt::format("{}: {}", io::shown(file), list),
                     .weak = heads.begin()->second->weak_dtype};
    notes.emplace_back(fmt::format("{}: {} are the heads of {}{}", io::shown(file), list, weight,
                                   turned ? ", each (out, in)" : ""));
    std::erase_if(unknown_tensors, [&file = file, &heads = heads](const UnknownTensor& tensor) {
      return tensor.file == file && std::ranges::any_of(heads, [&](const auto& head) {
               return head.second->name == tensor.name;
             });
    });
  }
}

} // namespace mha
