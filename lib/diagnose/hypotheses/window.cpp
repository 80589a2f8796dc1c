// Sliding windows: never applied, off by one, of another length.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/hypotheses/window.hpp>

namespace mha {

Change window_change(const Layer& layer, std::int64_t left) {
  const bool none = layer.settings.window_left < 0;
  Change change;
  change.id = none ? "window.added" : "window.length";
  change.touches = StageSet{Stage::masked};
  change.did = fmt::format("lets a query see its own key and the {} before it", left);
  change.cure = none ? "apply no window: this layer has none"
                     : fmt::format("let a query see its own key and the {} before it",
                                   layer.settings.window_left);
  change.option = fmt::format("--window-left {}", left);
  change.edit = [left](Layer& edited) { edited.settings.window_left = left; };
  return change;
}

namespace {

Change missing_window(const Settings& s) {
  Change change;
  change.id = "window.missing";
  change.touches = StageSet{Stage::masked};
  change.did = "applies no window: a query sees all keys that the other masks leave";
  change.cure = fmt::format("let a query see {} keys before and {} after its own", s.window_left,
                            s.window_right);
  if (s.window_left < 0)
    change.cure = fmt::format("let a query see {} keys after its own", s.window_right);
  if (s.window_right < 0)
    change.cure = fmt::format("let a query see {} keys before its own, not more", s.window_left);
  if (s.window_left >= 0) change.option = "--window-left -1";
  if (s.window_right >= 0)
    change.option += change.option.empty() ? "--window-right -1" : " --window-right -1";
  change.edit = [](Layer& edited) {
    edited.settings.window_left = edited.settings.window_right = -1;
  };
  return change;
}

std::vector<Change> window_changes(const Subject& subject) {
  const Settings& s = subject.layer.settings;
  std::vector<Change> list;
  if (s.window_left >= 0 || s.window_right >= 0) list.push_back(missing_window(s));
  for (int by : {1, -1}) {
    const auto add = [&](bool left, bool right) {
      if ((left && (s.window_left < 0 || s.window_left + by < 0)) ||
          (right && (s.window_right < 0 || s.window_right + by < 0)))
        return;
      Change change;
      change.id = by > 0 ? "window.plus_one" : "window.minus_one";
      change.touches = StageSet{Stage::masked};
      const char* const side = left && right ? "on both sides"
                               : left        ? "to the left"
                                             : "to the right";
      change.did = fmt::format("lets a query see one key {} {}", by > 0 ? "more" : "less", side);
      change.cure = fmt::format("count the window {}: {} keys beside the query's own", side,
                                left ? s.window_left : s.window_right);
      if (left) change.option = fmt::format("--window-left {}", s.window_left + by);
      if (right)
        change.option += fmt::format("{}--window-right {}", left ? " " : "", s.window_right + by);
      change.edit = [left, right, by](Layer& edited) {
        if (left) edited.settings.window_left += by;
        if (right) edited.settings.window_right += by;
      };
      list.push_back(change);
    };
    add(true, false), add(false, true), add(true, true);
  }
  return list;
}

} // namespace

const Theme window_theme{
    "window", "window.missing window.plus_one window.minus_one window.added window.length",
    window_changes};

} // namespace mha
