#include <mha/load/numbered_stack.hpp>

#include <mha/load/name_words.hpp>
#include <mha/system/parse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mha {

namespace {

/// The number at position `at` before a dot, whose position goes to `end`. Nothing where there is
/// none, or one that is larger than any count of layers.
std::optional<std::size_t> number_at(std::string_view name, std::size_t at, std::size_t& end) {
  constexpr std::size_t most = 4096;
  std::string_view rest = name.substr(at);
  const auto number = take_number<std::size_t>(rest);
  end = name.size() - rest.size();
  if (!number || *number > most || !rest.starts_with('.')) return std::nullopt;
  return number;
}

/// The tensors below a prefix by number: the names after the number, with shapes.
using Signatures = std::map<std::size_t, std::set<std::string>>;

struct Numbered {
  std::size_t tensors = 0;
  Signatures layers;
};

std::map<std::string, Numbered> numbered_prefixes(const io::Contents& file) {
  std::map<std::string, Numbered> found;
  for (const io::Entry& entry : file.tensors) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < entry.name.size();) {
      if (const auto number = number_at(entry.name, at, end)) {
        Numbered& of = found[entry.name.substr(0, at)];
        ++of.tensors;
        of.layers[*number].insert(
            fmt::format("{} {}", entry.name.substr(end), to_string(entry.shape)));
      }
      const std::size_t dot = entry.name.find_first_of("._", at); // "encoder_layer_0."
      if (dot == std::string::npos) break;
      at = dot + 1;
    }
  }
  return found;
}

/// Whether the numbers start at 0 or 1 and have no gap.
bool is_contiguous(const Signatures& layers) {
  std::size_t next = layers.begin()->first;
  if (next > 1) return false;
  for (const auto& [number, names] : layers)
    if (number != next++) return false;
  return true;
}

/// The number of modules in a layer: one, or two that take turns.
std::size_t modules_of_layer(const Signatures& layers) {
  const std::size_t first = layers.begin()->first;
  if (layers.size() < 2 || layers.size() % 2 != 0) return 1;
  // A layer with all tensors of the next and more is of the same kind: T5's first has a table.
  const std::set<std::string>&current = layers.at(first), &next = layers.at(first + 1);
  if (std::ranges::includes(current, next) || std::ranges::includes(next, current)) return 1;
  for (const auto& [number, names] : layers)
    if (names != layers.at(first + (number - first) % 2)) return 1;
  return 2;
}

/// Whether layers have at least four matrices, as a transformer's do.
bool has_layers(const Numbered& numbered) {
  const auto is_matrix = [](const std::string& tensor) { return tensor.find(", ") != tensor.npos; };
  return is_contiguous(numbered.layers) &&
         std::ranges::count_if(numbered.layers.begin()->second, is_matrix) >= 4;
}

/// "decoder." of "decoder.layers." where the chosen stack is "encoder.layers.": the prefix of
/// another part. "" where one is below the other.
std::string tower_of(std::string_view other, std::string_view chosen) {
  std::size_t begin = 0;
  while (begin < other.size() && begin < chosen.size()) {
    const std::size_t end = std::min(other.find('.', begin), other.size() - 1) + 1,
                      own = std::min(chosen.find('.', begin), chosen.size() - 1) + 1;
    if (other.substr(0, end) != chosen.substr(0, own)) return std::string(other.substr(0, end));
    begin = end;
  }
  return "";
}

} // namespace

bool NumberedStack::is_of_other_part(std::string_view name) const {
  const std::string_view mentioned = part_of_model(name);
  return mentioned != part && parts.contains(mentioned);
}

std::size_t NumberedStack::nearness(std::string_view name) const {
  const auto [end, unused] = std::ranges::mismatch(name, literal_prefix);
  return static_cast<std::size_t>(std::count(name.begin(), end, '.'));
}

std::string_view NumberedStack::other_tower(std::string_view name) const {
  const auto at = std::ranges::find_if(
      towers, [&](const std::string& tower) { return name.starts_with(tower); });
  return at != towers.end() ? std::string_view(*at) : std::string_view();
}

bool NumberedStack::holds(const std::string& name) const {
  std::size_t end = 0;
  return name.starts_with(literal_prefix) &&
         number_at(name, literal_prefix.size(), end).has_value();
}

std::string NumberedStack::prefix() const {
  if (modules > 1) return ""; // a layer's modules have different numbers: no prefix is common
  return fmt::format("{}{{layer{}}}.", literal_prefix, first > 0 ? fmt::format("+{}", first) : "");
}

std::string NumberedStack::name_in_layer(const std::string& name) const {
  std::size_t end = 0;
  const auto number = number_at(name, literal_prefix.size(), end);
  if (modules == 1) return name.substr(end + 1);
  const std::size_t offset = number.value_or(0);
  return fmt::format("{}{{{}*layer{}}}{}", literal_prefix, modules,
                     offset > 0 ? fmt::format("+{}", offset) : "", name.substr(end));
}

std::string NumberedStack::pattern(const std::string& name) const {
  std::size_t end = 0;
  if (!name.starts_with(literal_prefix)) return name;
  const auto number = number_at(name, literal_prefix.size(), end);
  if (!number) return name;
  if (modules > 1) // modules that take turns keep numbers of their own
    return fmt::format("{}{}{}", literal_prefix, first + (*number - first) % modules,
                       name.substr(end));
  return literal_prefix + "{layer}" + name.substr(end);
}

std::optional<NumberedStack> numbered_stack(const io::Contents& file) {
  const std::map<std::string, Numbered> found = numbered_prefixes(file);
  const std::string* best = nullptr;
  std::size_t most = 0;
  for (const bool decoders : {false, true}) {
    for (const auto& [prefix, numbered] : found)
      if ((prefix.find("decoder") != prefix.npos) == decoders && numbered.tensors > most &&
          is_contiguous(numbered.layers))
        best = &prefix, most = numbered.tensors;
    if (best) break;
  }
  if (!best) return std::nullopt;
  const Signatures& layers = found.at(*best).layers;
  NumberedStack stack;
  stack.literal_prefix = *best, stack.first = layers.begin()->first;
  stack.modules = modules_of_layer(layers);
  for (const auto& [prefix, numbered] : found)
    if (prefix != *best && has_layers(numbered))
      if (std::string tower = tower_of(prefix, *best); !tower.empty()) {
        // The parts are named where the prefixes of the stacks begin to differ.
        const auto part_at_branch = [](std::string_view of) {
          return part_of_model(of.substr(of.rfind('.', of.size() - 2) + 1));
        };
        if (const std::string own = tower_of(*best, prefix); stack.part.empty() && !own.empty())
          stack.part = part_at_branch(own);
        if (const std::string_view other = part_at_branch(tower); !other.empty())
          stack.parts.insert(other);
        stack.towers.push_back(std::move(tower));
      }
  stack.parts.erase(stack.part);
  for (const io::Entry& entry : file.tensors) {
    std::size_t end = 0;
    if (!stack.holds(entry.name)) continue;
    const std::size_t number = *number_at(entry.name, best->size(), end);
    if (number < stack.first + stack.modules) stack.of_first.push_back(&entry);
  }
  return stack;
}

} // namespace mha
