// Finds the attention layers among the tensors of a file, with their families and numbers.

#include <mha/load/families/family.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace mha::naming {

namespace {

/// A tensor's name in the form of the families: dots between the parts, without TensorFlow's ":0".
std::string dotted(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

/// The length of the prefix of `name` before `ending`, if the name equals the ending or has it
/// after a dot. A # at the end of `ending` is any number.
std::optional<std::size_t> prefix_of(std::string_view name, std::string_view ending) {
  if (ending.ends_with('#')) {
    ending.remove_suffix(1);
    if (name.empty() || !is_digit(name.back())) return std::nullopt;
    while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  }
  if (!name.ends_with(ending)) return std::nullopt;
  name.remove_suffix(ending.size());
  if (!name.empty() && name.back() != '.') return std::nullopt;
  return name.size();
}

/// The last two parts of a name: "q_proj.weight".
std::string_view last_parts(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos || dot == 0 ? name : name.substr(name.rfind('.', dot - 1) + 1);
}

/// The endings that a family knows, indexed by their last parts because a checkpoint has thousands
/// of names.
class Endings {
public:
  explicit Endings(const std::vector<std::string_view>& list) {
    for (std::string_view ending : list)
      if (ending.ends_with('#'))
        numbered_.push_back(ending);
      else
        by_last_parts_.emplace(last_parts(ending), ending);
  }
  /// Calls `use` with the length of the prefix before each ending that `name` has.
  template <class F> void each_in(std::string_view name, const F& use) const {
    const std::string_view two = last_parts(name), one = last_part(name);
    for (std::string_view parts : {two, one}) {
      const auto [first, end] = by_last_parts_.equal_range(parts);
      for (auto at = first; at != end; ++at)
        if (const auto length = prefix_of(name, at->second)) use(*length);
      if (one == two) break;
    }
    for (std::string_view ending : numbered_)
      if (const auto length = prefix_of(name, ending)) use(*length);
  }

private:
  std::unordered_multimap<std::string_view, std::string_view> by_last_parts_;
  std::vector<std::string_view> numbered_;
};

/// All endings that a family knows.
std::vector<std::string_view> endings_of(const FamilyRow& family) {
  std::vector<std::string_view> list = words_of(family.knows);
  for (std::string_view needed : words_of(family.needs))
    for (std::string_view name : words_of(needed, "|")) list.push_back(name);
  return list;
}

/// Indices of names in a file, in its order.
using Places = std::vector<std::size_t>;

/// The families indexed by the last parts of the endings that they know, so that a name is compared
/// with the endings of few families.
class FamiliesByEnding {
public:
  explicit FamiliesByEnding(std::span<const FamilyRow* const> rows) : families_(rows.size()) {
    for (std::size_t family = 0; family < rows.size(); ++family)
      for (std::string_view ending : endings_of(*rows[family])) {
        std::vector<std::size_t>& list =
            ending.ends_with('#') ? numbered_ : by_last_parts_[last_parts(ending)];
        if (list.empty() || list.back() != family) list.push_back(family);
      }
  }
  /// For each family, the names that may be its tensors.
  std::vector<Places> places(const std::vector<std::string>& names) const {
    std::vector<Places> places(families_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string_view name = names[i], two = last_parts(name), one = last_part(name);
      const auto add = [&](const std::vector<std::size_t>& list) {
        for (const std::size_t family : list)
          if (places[family].empty() || places[family].back() != i) places[family].push_back(i);
      };
      for (std::string_view parts : {two, one})
        if (const auto at = by_last_parts_.find(parts); at != by_last_parts_.end()) add(at->second);
      if (!name.empty() && is_digit(name.back())) add(numbered_);
    }
    return places;
  }

private:
  std::size_t families_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_last_parts_;
  std::vector<std::size_t> numbered_;
};

/// The groups of one family, by prefix. `names` are the dotted names of the tensors, `places` those
/// that the family may know.
std::map<std::string, Group> groups_of(const FamilyRow& family, const io::Contents& contents,
                                       const std::vector<std::string>& names, const Places& places,
                                       const Config& config) {
  const Endings endings(endings_of(family));
  std::map<std::string, Group> groups;
  for (const std::size_t i : places) {
    const io::Entry& entry = contents.tensors[i];
    const std::string& name = names[i];
    endings.each_in(name, [&](std::size_t length) {
      Group& group = groups[entry.name.substr(0, length)];
      group.prefix = entry.name.substr(0, length);
      group.contents = &contents, group.config = &config;
      group.tensors.emplace(name.substr(length), &entry);
    });
  }
  return groups;
}

bool is_complete(const FamilyRow& family, const Group& group) {
  const auto has = [&](std::string_view name) {
    return std::any_of(group.tensors.begin(), group.tensors.end(),
                       [&](const auto& tensor) { return prefix_of(tensor.first, name) == 0; });
  };
  const std::vector<std::string_view> needs = words_of(family.needs);
  return std::all_of(needs.begin(), needs.end(), [&](std::string_view needed) {
    const std::vector<std::string_view> names = words_of(needed, "|");
    return std::any_of(names.begin(), names.end(), has);
  });
}

/// Modules of hybrid models that mix tokens without attention. The attention layers of these models
/// belong to no family here, whatever their names.
constexpr std::string_view of_hybrids[]{".A_log.",       ".linear_attn.", ".mamba.",
                                        ".output_gate.", ".short_conv.",  ".temporal_block."};

/// The first tensor that only hybrid models have; "": none.
std::string tensor_of_hybrid(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const std::string_view part : of_hybrids)
      if ((name + '.').find(part) != std::string::npos) return name;
  return "";
}

std::string numbered_id(const Found& found) {
  const std::optional<std::size_t> number = found.group.number();
  return number ? std::to_string(*number) : std::string();
}

/// "encoder.0", "decoder.3", "decoder.3.cross", "vision.0".
std::string qualified_id(const Found& found) {
  const Group& group = found.group;
  std::string id = group.within({"vision", "visual"})       ? "vision."
                   : group.within({"decoder.", "decoder/"}) ? "decoder."
                   : group.within({"encoder.", "encoder/"}) ? "encoder."
                                                            : "";
  id += numbered_id(found);
  if (group.within(
          {"encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "multihead_attn"})) {
    if (!id.empty() && id.back() != '.') id += '.';
    id += "cross";
  }
  for (const std::string_view sublayer : words_of(found.family->sublayers)) {
    const std::size_t is = sublayer.find('=');
    if (is == sublayer.npos || !group.prefix.ends_with(fmt::format(".{}.", sublayer.substr(0, is))))
      continue;
    id += fmt::format("{}{}", id.empty() || id.back() == '.' ? "" : ".", sublayer.substr(is + 1));
  }
  if (id.ends_with('.')) id.pop_back();
  return id;
}

std::string whole_prefix(const Found& found) {
  const std::string& prefix = found.group.prefix;
  return prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1);
}

/// Gives the layers the shortest kind of id that distinguishes them.
void name_layers(std::vector<Found>& layers) {
  for (const auto id_of : {numbered_id, qualified_id, whole_prefix}) {
    std::set<std::string> ids;
    for (Found& found : layers) found.id = id_of(found), ids.insert(found.id);
    if (ids.size() == layers.size() && (layers.size() == 1 || !ids.count(""))) return;
  }
}

} // namespace

std::optional<std::size_t> layer_number(std::string_view prefix) {
  while (!prefix.empty()) {
    const std::size_t end = std::min(prefix.find_first_of("./"), prefix.size());
    const std::string_view part = prefix.substr(0, end);
    // "12", or Flax's and Keras' "layer_12".
    std::size_t digits = 0;
    while (digits < part.size() && is_digit(part[part.size() - 1 - digits])) ++digits;
    const bool number = digits > 0 && digits < 9 &&
                        (digits == part.size() || part[part.size() - 1 - digits] == '_');
    if (number) {
      std::size_t value = 0;
      for (char digit : part.substr(part.size() - digits))
        value = value * 10 + static_cast<std::size_t>(digit - '0');
      return value;
    }
    prefix.remove_prefix(std::min(end + 1, prefix.size()));
  }
  return std::nullopt;
}

std::vector<Found> find_layers(const io::Contents& contents, const Config& config,
                               const FamilyRow* only) {
  std::vector<Found> layers;
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const io::Entry& entry : contents.tensors) names.push_back(dotted(entry.name));
  static const FamiliesByEnding of_all(families());
  const std::span<const FamilyRow* const> rows = only ? std::span(&only, 1) : families();
  const std::vector<Places> places =
      only ? FamiliesByEnding(rows).places(names) : of_all.places(names);
  std::map<std::pair<std::string_view, std::string_view>, std::map<std::string, Group>> groups;
  for (std::size_t f = 0; f < rows.size(); ++f) {
    const FamilyRow* family = rows[f];
    // The graph defines the layers; the names beside it would only repeat them.
    if (contents.format == "onnx" && !layers.empty()) break;
    // Families with the same names share their groups, but each has its own record of reads.
    const auto [known, is_new] = groups.try_emplace({family->needs, family->knows});
    if (is_new) {
      known->second = groups_of(*family, contents, names, places[f], config);
      std::erase_if(known->second,
                    [&](const auto& group) { return !is_complete(*family, group.second); });
    }
    const auto reads = std::make_shared<Reads>();
    for (auto& [prefix, group] : known->second) {
      if (taken.count(prefix)) continue;
      group.reads = reads;
      if (!only && !is_of(*family, group)) continue;
      taken.insert(prefix);
      layers.push_back({"", std::move(group), family, only != nullptr});
    }
  }
  if (!only && !layers.empty() && layers[0].group.model_types().empty())
    for (const std::string tensor = tensor_of_hybrid(names); Found & found : layers)
      found.foreign_tensor = tensor;
  // By number, not as text, so that 2 comes before 10.
  std::stable_sort(layers.begin(), layers.end(), [](const Found& a, const Found& b) {
    const auto first = a.group.number(), second = b.group.number();
    return first != second ? first < second : a.group.prefix < b.group.prefix;
  });
  name_layers(layers);
  return layers;
}

} // namespace mha::naming
