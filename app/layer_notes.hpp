#pragma once
// Notes of several layers: equal ones are printed once, with the list of their layers.

#include "console.hpp"
#include <mha/system/note.hpp>

namespace mha::app {

/// Merges notes that differ only in the layer's number.
class LayerNotes {
public:
  void add(const std::vector<Note>& notes, const std::string& layer);
  /// Removes and returns the merged notes in the order of their first layers, as "layers 0–11: X
  /// must be … (the output of h.{layer}.ln_1)".
  std::vector<Note> take();

private:
  struct Group {
    Note first;         ///< the first layer's
    std::string common; ///< its text, with {layer} in the number's place
    std::vector<std::string> layers;
  };
  std::vector<Group> groups_;
};

/// Keeps a layer's notes until print_deferred_notes().
void keep_notes(const std::vector<Note>& notes, const std::string& layer, Color color);
/// Prints the kept notes once, at the end of the program or before an error ends it.
void print_deferred_notes();

/// For --strict: throws Error with the text of the first warning.
void require_no_warning(const std::vector<Note>& notes);

} // namespace mha::app
