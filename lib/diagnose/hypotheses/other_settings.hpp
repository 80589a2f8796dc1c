#pragma once
// Windows and rotations, of which the layers of a model may have several.

#include <mha/layer/layer.hpp>

namespace mha {

/// What the settings of layers are compared and exchanged by.
enum class SettingGroup : std::uint8_t { windows, rotations };

/// Whether two layers have the same window, or rotate alike.
bool same_settings(const Layer& a, const Layer& b, SettingGroup group);
/// The layer gets the window, or the rotation, of another one.
void take_settings(Layer& layer, const Layer& from, SettingGroup group);

} // namespace mha
