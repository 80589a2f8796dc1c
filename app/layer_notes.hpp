#pragma once
// The notes of several layers: each is told once, with the layers that it is about.

#include "console.hpp"
#include <mha/system/note.hpp>

namespace mha::app {

/// Notes that differ in nothing but the layer's number are one.
class LayerNotes {
public:
  void add(const std::vector<Note>& notes, const std::string& layer);
  /// In the order of their first layers: "layers 0–11: X must be … (the output of h.{layer}.ln_1)".
  std::vector<Note> take();

private:
  struct Group {
    Note first;         ///< as the first layer says it
    std::string common; ///< with {layer} for the number
    std::vector<std::string> layers;
  };
  std::vector<Group> groups_;
};

/// Keeps the notes of one layer of several until print_kept_notes().
void keep_notes(const std::vector<Note>& notes, const std::string& layer, Color color);
/// Prints what was kept, once; at the end of the program, and before what ends it early.
void print_kept_notes();

/// Throws Error for the first warning: --strict.
void require_no_warning(const std::vector<Note>& notes);

} // namespace mha::app
