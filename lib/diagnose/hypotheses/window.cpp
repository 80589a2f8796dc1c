// Sliding windows: left out, off by one, of another length.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

Change window_change(const Layer& layer, std::int64_t left) {
  const bool none = layer.settings.window_left < 0;
  return settings_change(none ? "window.added" : "window.length", StageSet{Stage::masked},
                         fmt::format("lets a query see its own key and the {} before it", left),
                         none ? "apply no window: this layer has none"
                              : fmt::format("let a query see its own key and the {} before it",
                                            layer.settings.window_left),
                         {{"window_left", left}});
}

namespace {

std::vector<Change> window_changes(const Subject& subject) {
  const Settings& s = subject.layer.settings;
  const bool bounds_left = s.window_left >= 0, bounds_right = s.window_right >= 0;
  const StageSet masked = StageSet{Stage::masked};
  ChangeList list;
  const auto edit = [](bool left, std::int64_t of_left, bool right, std::int64_t of_right) {
    Edits windows;
    if (left) windows.add(SettingEdit("window_left", of_left));
    if (right) windows.add(SettingEdit("window_right", of_right));
    return windows;
  };
  if (bounds_left || bounds_right)
    list.add_settings(
        "window.missing", masked,
        "applies no window: a query sees all keys that the other masks leave",
        !bounds_left ? fmt::format("let a query see {} keys after its own", s.window_right)
        : !bounds_right
            ? fmt::format("let a query see {} keys before its own, not more", s.window_left)
            : fmt::format("let a query see {} keys before and {} after its own", s.window_left,
                          s.window_right),
        edit(bounds_left, -1, bounds_right, -1));
  if (s.window_chunk > 0) {
    const auto chunk = static_cast<std::int64_t>(s.window_chunk);
    list.add_settings("window.missing", masked, "lets a query see all keys before it, not its chunk",
                      fmt::format("let a query see the keys of its own chunk of {}", chunk),
                      {SettingEdit("window_chunk", 0)});
    list.add_settings("window.chunks", masked,
                      "has a window that moves with the query where there are chunks",
                      fmt::format("let a query see the keys of its own chunk of {}", chunk),
                      {SettingEdit("window_chunk", 0), SettingEdit("window_left", chunk - 1)});
  }
  for (int by : {1, -1}) {
    const auto add = [&](bool left, bool right) {
      if ((left && (!bounds_left || s.window_left + by < 0)) ||
          (right && (!bounds_right || s.window_right + by < 0)))
        return;
      const char* const side = left && right ? "on both sides"
                               : left        ? "to the left"
                                             : "to the right";
      list.add_settings(
          by > 0 ? "window.plus_one" : "window.minus_one", masked,
          fmt::format("lets a query see one key {} {}", by > 0 ? "more" : "less", side),
          fmt::format("count the window {}: {} keys beside the query's own", side,
                      left ? s.window_left : s.window_right),
          edit(left, s.window_left + by, right, s.window_right + by));
    };
    add(true, false), add(false, true), add(true, true);
  }
  return list.take();
}

} // namespace

const Theme window_theme{
    "window", "window.missing window.plus_one window.minus_one window.added window.length window.chunks",
    window_changes};

} // namespace mha
