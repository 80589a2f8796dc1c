#pragma once
// Sliding windows as config.json describes them, and the layers that have one.

#include <mha/load/families/family.hpp>

namespace mha::naming {

/// Whether a family's layer of this number sees a window only; nullptr: each does, whatever
/// layer_types says.
using Slides = bool (*)(const Group& group, std::size_t layer);

/// Whether layer_types (or `slides`, by the layer's number, where config.json has none) says that
/// this layer sees a window only; nothing where the layer's number is not known.
std::optional<bool> is_sliding(const Group& group, Slides slides);

/// Sets window_left for sliding_window W: a query sees W keys, its own and W − 1 before.
/// `otherwise`: W where config.json is silent; 0 = no window, as null is. `by_itself`: it is in use
/// where nothing says use_sliding_window.
void set_window(LayerReading& to, Slides slides, std::size_t otherwise = 0, bool by_itself = true);

/// Every layer; every second, from the first; from max_window_layers on, Qwen's 28 where
/// config.json is silent; all but the fourth, eighth …
bool every_layer(const Group& group, std::size_t layer);
bool even_layers(const Group& group, std::size_t layer);
bool upper_layers(const Group& group, std::size_t layer);
bool all_but_every_fourth(const Group& group, std::size_t layer);

} // namespace mha::naming
