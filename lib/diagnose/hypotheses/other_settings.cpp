// The window or the rotation of another layer, for models whose layers differ in them.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <memory>

namespace mha {

namespace {

/// Adds a change for each other kind of layer.
void add_group(const Subject& subject, SettingGroup group, ChangeList& list) {
  const bool windows = group == SettingGroup::windows;
  const StageSet touched = windows ? StageSet{Stage::masked} : rotary_stages();
  std::vector<std::shared_ptr<const Layer>> kinds;
  for (std::size_t n = 0; n < subject.model->layers; ++n) {
    if (n == subject.model->number) continue;
    const std::shared_ptr<const Layer> other = subject.model->layer(n);
    if (!other || other->dims.d_k != subject.layer.dims.d_k ||
        same_settings(subject.layer, *other, group))
      continue;
    if (std::ranges::any_of(kinds,
                            [&](const auto& kind) { return same_settings(*kind, *other, group); }))
      continue;
    kinds.push_back(other);
    list.add(windows ? "window.layers" : "rope.layers", touched,
             windows ? fmt::format("gives this layer the window of layer {}", n)
                     : fmt::format("rotates q and k as layer {} does", n),
             fmt::format("give each layer its own {}", windows ? "window" : "rotation"),
             [other, group](Layer& edited) { take_settings(edited, *other, group); });
  }
}

std::vector<Change> other_settings_changes(const Subject& subject) {
  ChangeList list;
  if (!subject.model || !subject.model->layer) return {};
  for (const SettingGroup group : {SettingGroup::windows, SettingGroup::rotations})
    add_group(subject, group, list);
  return list.take();
}

} // namespace

const Theme other_settings_theme{"other_settings", "window.layers rope.layers",
                                 other_settings_changes};

} // namespace mha
