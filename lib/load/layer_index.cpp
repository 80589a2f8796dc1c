#include <mha/load/layer_index.hpp>

#include <mha/load/known_models.hpp>
#include <mha/load/opened_files.hpp>

#include <mha/layer/names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/named.hpp>

#include <algorithm>
#include <iterator>

namespace mha {

LayerIndex::LayerIndex(const std::vector<io::Contents>& contents,
                       const std::vector<naming::Found>& found,
                       const std::vector<std::string>& ids) {
  for (const naming::Found& layer : found) {
    checkpoints_.insert(layer.group.contents);
    found_[layer.id].push_back(&layer);
    for (const auto& [name, entry] : layer.group.tensors) of_family_.insert(entry);
  }
  const std::set<std::string, std::less<>> asked(ids.begin(), ids.end());
  for (const io::Contents& file : contents)
    files_.emplace(&file, places_in(file, is_checkpoint(file), asked));
}

LayerIndex::File LayerIndex::places_in(const io::Contents& file, bool checkpoint,
                                       const std::set<std::string, std::less<>>& ids) {
  std::size_t longest = 0;
  for (const std::string& id : ids) longest = std::max(longest, id.size());
  File places;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const std::string_view name = file.tensors[i].name;
    if (name.rfind('.') == std::string_view::npos || find_tensor_name(name)) {
      places.shared.push_back(i);
      continue;
    }
    // "layers.ID.…": an id may have dots in it.
    constexpr std::string_view layers = "layers.";
    std::string own;
    if (name.starts_with(layers))
      for (std::size_t dot = name.find('.', layers.size());
           dot != std::string_view::npos && dot - layers.size() <= longest;
           dot = name.find('.', dot + 1))
        if (const auto id = ids.find(name.substr(layers.size(), dot - layers.size()));
            id != ids.end()) {
          // Beside a family's layers, "layers.0.mlp.down_proj.bias" belongs to another module.
          const std::string_view rest = name.substr(dot + 1);
          if (!checkpoint || rest.find('.') == std::string_view::npos || find_tensor_name(rest))
            places.own[own = *id].push_back(i);
        }
    if (checkpoint) continue; // "bias" belongs to other modules
    const std::optional<std::size_t> number = naming::layer_number(name);
    if (!number)
      places.shared.push_back(i);
    else if (std::to_string(*number) != own)
      places.own[std::to_string(*number)].push_back(i);
  }
  return places;
}

const std::vector<const naming::Found*>& LayerIndex::found_as(const std::string& id) const {
  static const std::vector<const naming::Found*> none;
  const auto at = found_.find(id);
  return at == found_.end() ? none : at->second;
}

const std::vector<std::string_view>& LayerIndex::sorted_names(const io::Contents& file) const {
  std::vector<std::string_view>& names = sorted_[&file];
  if (names.empty()) {
    names = names_of_rows(file.tensors);
    std::ranges::sort(names);
  }
  return names;
}

std::vector<std::string> LayerIndex::unknown(const naming::Found& layer) const {
  const naming::Group& group = layer.group;
  const std::string& prefix = group.prefix;
  // A number contains a whole block.
  if (prefix.size() < 2 || is_digit(prefix[prefix.size() - 2])) return {};
  std::vector<std::string> unknown;
  const std::vector<std::string_view>& names = sorted_names(*group.contents);
  for (auto at = std::ranges::lower_bound(names, prefix);
       at != names.end() && at->starts_with(prefix); ++at) {
    // BERT's norm of the sum is in attention's module, after attention; so are GPT-2's masks.
    const bool norm_of_sum = at->find("LayerNorm", prefix.size()) != std::string_view::npos,
               mask = at->ends_with("attn.bias") || at->ends_with("masked_bias");
    if (group.contents->find(*at) && !norm_of_sum && !mask) unknown.emplace_back(*at);
  }
  // Tensors of a GGUF beyond its architecture's names keep their own names.
  const std::string own = fmt::format("blk.{}.attn", group.number().value_or(0));
  if (group.contents->format == "gguf")
    for (auto at = std::ranges::lower_bound(names, own); at != names.end() && at->starts_with(own);
         ++at)
      unknown.emplace_back(*at);
  return unknown;
}

std::vector<std::string_view> LayerIndex::names_of_block(const naming::Found& layer) const {
  const std::string block = block_of(layer);
  if (block.empty()) return {};
  const std::vector<std::string_view>& names = sorted_names(*layer.group.contents);
  const auto first = std::ranges::lower_bound(names, block);
  const auto end = std::find_if_not(first, names.end(),
                                    [&](std::string_view name) { return name.starts_with(block); });
  return {first, end};
}

std::vector<std::string> LayerIndex::unread(const naming::Found& layer) const {
  const naming::Group& group = layer.group;
  const std::vector<std::string_view>& names = sorted_names(*group.contents);
  std::set<std::string> modules, found;
  for (const auto& [name, entry] : group.tensors)
    if (const std::size_t dot = name.rfind('.'); dot != std::string::npos)
      modules.insert(name.substr(0, dot + 1));
  for (const std::string& module : modules) {
    const std::string begin = group.prefix + module;
    for (auto at = std::ranges::lower_bound(names, begin);
         at != names.end() && at->starts_with(begin); ++at)
      if (std::string own(at->substr(group.prefix.size())); !group.has(own))
        found.insert(std::move(own));
  }
  return {found.begin(), found.end()};
}

void LayerIndex::keep_first_unknown(const io::Contents& file,
                                    const std::vector<const io::Entry*>& unknown_tensors) const {
  constexpr std::size_t kept = 64;
  const auto at = files_.find(&file);
  if (at == files_.end() || unknown_tensors.size() <= kept) return;
  const std::set<const io::Entry*> skipped(unknown_tensors.begin() + kept, unknown_tensors.end());
  std::erase_if(at->second.shared,
                [&](std::size_t place) { return skipped.contains(&file.tensors[place]); });
}

std::vector<const io::Entry*> LayerIndex::tensors(const io::Contents& file,
                                                  const std::string& id) const {
  const auto at = files_.find(&file);
  if (at == files_.end()) return {};
  const auto own = at->second.own.find(id);
  Places both = at->second.shared;
  if (own != at->second.own.end()) {
    both.clear();
    std::ranges::set_union(at->second.shared, own->second, std::back_inserter(both));
  }
  std::vector<const io::Entry*> entries;
  entries.reserve(both.size());
  for (const std::size_t place : both) entries.push_back(&file.tensors[place]);
  return entries;
}

const std::string& LayerIndex::canonical(const io::Entry& entry) const {
  const auto [at, is_new] = canonical_.try_emplace(&entry);
  if (is_new) at->second = canonical_name(entry.name, false);
  return at->second;
}

} // namespace mha
