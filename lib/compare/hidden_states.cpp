#include <mha/compare/hidden_states.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/family.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace mha {

namespace {

constexpr std::string_view hidden_states_word = "hidden_states";

/// What stands behind `hidden_states` at the end of a name: "" or ".3"; nothing if it is not there.
std::optional<std::string_view> behind_word(std::string_view name) {
  const std::size_t at = name.rfind(hidden_states_word);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = name.substr(0, at);
  if (!before.empty() && (!before.ends_with('.') || naming::layer_number(before)))
    return std::nullopt;
  return name.substr(at + hidden_states_word.size());
}

/// 3 of ".3", "_3", "/3", "[3]".
std::optional<std::size_t> state_number(std::string_view rest) {
  if (rest.empty()) return std::nullopt;
  if (rest.ends_with(']')) rest.remove_suffix(1);
  rest.remove_prefix(1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  return number;
}

/// State `i` of a stack.
io::Entry state_of(const io::Entry& stack, std::size_t i) {
  io::Entry one = stack;
  one.name = fmt::format("{}[{}]", stack.name, i);
  one.shape.erase(one.shape.begin());
  one.read = [read = stack.read, i] { return read().at(i); };
  return one;
}

} // namespace

bool holds_hidden_states(const std::string& name) {
  const std::optional<std::string_view> rest = behind_word(name);
  return rest && (rest->empty() || state_number(*rest));
}

std::vector<HiddenState> hidden_states_of(const io::Contents& contents,
                                          const WholeModelOfLayer& model, const std::string& id) {
  std::map<std::size_t, io::Entry> states;
  const std::size_t layers = model.layers;
  for (const io::Entry& entry : contents.tensors) {
    if (!holds_hidden_states(entry.name)) continue;
    const std::string_view rest = *behind_word(entry.name);
    if (const auto number = state_number(rest)) {
      states.emplace(*number, entry);
    } else {
      if (entry.shape.size() < 3 || (entry.shape[0] != layers && entry.shape[0] != layers + 1))
        fail("{}: {} is {}: {} states are expected, what enters each of the {} layers and what the "
             "last one hands on",
             io::shown(contents.name), io::shown(entry.name), to_string(entry.shape), layers + 1,
             layers);
      for (std::size_t i = 0; i < entry.shape[0]; ++i) states.emplace(i, state_of(entry, i));
    }
  }
  std::vector<HiddenState> found;
  if (states.empty()) return found;
  // Without the embedding, state n is what layer n hands on.
  const std::size_t first = states.size() == layers && states.count(layers) == 0 ? 1 : 0;
  const auto take = [&](Stage stage, std::size_t number) {
    if (number < first) return;
    if (const auto state = states.find(number - first); state != states.end())
      found.push_back({stage, state->second});
  };
  if (id.empty()) {
    if (model.last_norm) take(Stage::final, layers);
    return found;
  }
  const std::size_t number = naming::layer_number(id).value_or(0);
  take(Stage::resid_pre, number);
  if (number + 1 < layers || !model.last_norm) take(Stage::resid_post, number + 1);
  return found;
}

} // namespace mha
