#include "layer_notes.hpp"

#include <mha/compare/coverage.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/error.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace mha::app {

namespace {

constexpr std::string_view number_mark = "{layer}"; // in place of a layer's number

LayerNotes kept_notes;
Color kept_notes_color = Color::automatic;

/// "12" for "decoder.12.cross".
std::string number_in(const std::string& layer) {
  const auto first = std::find_if(layer.begin(), layer.end(), is_digit);
  return {first, std::find_if_not(first, layer.end(), is_digit)};
}

/// `text` with {layer} in place of a layer's number in paths and dotted names: "h.3.ln_1" becomes
/// "h.{layer}.ln_1".
std::string without_number(const std::string& text, const std::string& number) {
  if (number.empty()) return text;
  std::string common = text;
  for (std::size_t at = 0; (at = common.find(number, at)) != std::string::npos;) {
    const std::size_t end = at + number.size();
    const char before = at == 0 ? ' ' : common[at - 1],
               after = end == common.size() ? ' ' : common[end];
    const auto separates = [](char c) { return c == '.' || c == '/' || c == '_'; };
    if (separates(before) && (separates(after) || after == ':')) {
      common.replace(at, number.size(), number_mark);
      at += number_mark.size();
    } else {
      at = end;
    }
  }
  return common;
}

/// "layers 0–3, 5: " or "layer 2: ", with consecutive numbers as a range. "" if the only layer
/// has no name.
std::string list_of_layers(const std::vector<std::string>& layers) {
  if (layers.size() == 1 && layers[0].empty()) return "";
  return fmt::format("layer{} {}: ", layers.size() == 1 ? "" : "s", ranges_of(layers));
}

} // namespace

void LayerNotes::add(const std::vector<Note>& notes, const std::string& layer) {
  const std::string number = number_in(layer);
  for (const Note& note : notes) {
    std::string common = without_number(console_text(note), number);
    const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& existing) {
      return existing.common == common && existing.first.severity == note.severity;
    });
    if (group == groups_.end())
      groups_.push_back({note, std::move(common), {layer}});
    else if (group->layers.back() != layer)
      group->layers.push_back(layer);
  }
}

std::vector<Note> LayerNotes::take() {
  std::vector<Note> notes;
  for (const Group& group : groups_)
    notes.emplace_back(
        fmt::format("{}{}", list_of_layers(group.layers),
                    group.layers.size() == 1 ? console_text(group.first) : group.common),
        group.first.severity);
  groups_.clear();
  return notes;
}

void keep_notes(const std::vector<Note>& notes, const std::string& layer, Color color) {
  kept_notes.add(notes, layer);
  kept_notes_color = color;
}

void print_deferred_notes() {
  for (const Note& note : kept_notes.take())
    print_note(console_text(note), kept_notes_color, note.severity);
}

void require_no_warning(const std::vector<Note>& notes) {
  for (const Note& note : notes)
    if (note.is_warning()) fail("{} (an error by --strict)", note.message);
}

} // namespace mha::app
