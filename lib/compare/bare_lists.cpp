#include <mha/compare/bare_lists.hpp>

#include <mha/compare/hidden_states.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha {

namespace {

/// {3, 1} of "3.1"; empty for a name that is no numbers.
std::vector<std::size_t> numbers_of(std::string_view name) {
  std::vector<std::size_t> numbers;
  for (std::string_view word : split_at(name, '.')) {
    const auto number = parse_number<std::size_t>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// How deep the lists of a file are, all of whose arrays are alike and have numbers for names; 0:
/// they are not.
std::size_t depth_of(const io::Contents& contents) {
  if (contents.tensors.size() < 2) return 0;
  const io::Entry& first = contents.tensors[0];
  const std::size_t depth = numbers_of(first.name).size();
  const bool alike = std::ranges::all_of(contents.tensors, [&](const io::Entry& entry) {
    return numbers_of(entry.name).size() == depth && is_floating(entry.dtype) &&
           entry.shape.size() == first.shape.size();
  });
  return alike ? depth : 0;
}

/// Whether every list within the list is a pair.
bool are_pairs(const io::Contents& contents) {
  return std::ranges::all_of(contents.tensors,
                             [](const io::Entry& entry) { return numbers_of(entry.name)[1] < 2; });
}

bool is_attentions(std::string_view name) {
  return name.find("attentions") != std::string_view::npos;
}

} // namespace

void name_bare_list(io::Contents& contents) {
  const std::size_t depth = depth_of(contents);
  if (depth == 0 || depth > 2) return;
  const std::size_t axes = contents.tensors[0].shape.size();
  const bool pairs = depth == 2 && axes == 4 && are_pairs(contents);
  if (depth == 2 && !pairs && axes > 2)
    fail("{}: a list of lists of arrays, as generate() returns them, a list for each new token: "
         "save those of one pass, model(ids, output_hidden_states=True)",
         io::shown(contents.name));
  if (axes < 2 || axes > 4 || (depth == 2 && !pairs)) return;
  const Shape& shape = contents.tensors[0].shape;
  const bool same = std::ranges::all_of(
      contents.tensors, [&](const io::Entry& entry) { return entry.shape == shape; });
  if (!pairs && !same) return; // what a module returns: its output, weights …
  const char* word = pairs ? "past_key_values" : axes == 4 ? "attentions" : "hidden_states";
  for (io::Entry& entry : contents.tensors) {
    entry.own_name = entry.name;
    entry.name = fmt::format("{}.{}", word, entry.name);
  }
}

io::Contents states_named(const io::Source& source) {
  io::Contents contents = io::open(source.path);
  const auto only = [&](io::Entry entry) {
    entry.name = source.name;
    contents.tensors = {std::move(entry)};
    return contents;
  };
  if (!source.tensor.empty()) return only(io::bound_entry(source));
  const bool bare = depth_of(contents) == 1;
  std::vector<io::Entry> kept;
  for (io::Entry entry : contents.tensors) {
    if (bare)
      entry.name = fmt::format("{}.{}", source.name, entry.name);
    else if (!holds_states(entry.name) || is_attentions(entry.name) != is_attentions(source.name))
      continue;
    kept.push_back(std::move(entry));
  }
  if (kept.empty()) return only(io::bound_entry(source)); // its one array, or the error that asks
  contents.tensors = std::move(kept);
  return contents;
}

} // namespace mha
