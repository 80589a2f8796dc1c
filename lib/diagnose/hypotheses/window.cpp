// Sliding windows, off by one.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

std::vector<Change> changes(const Subject& subject) {
  const Settings& s = subject.layer.settings;
  std::vector<Change> list;
  for (int by : {1, -1}) {
    const auto add = [&](bool left, bool right) {
      if ((left && (s.window_left < 0 || s.window_left + by < 0)) ||
          (right && (s.window_right < 0 || s.window_right + by < 0)))
        return;
      Change change;
      change.id = by > 0 ? "window.plus_one" : "window.minus_one";
      change.touches = set_of({Stage::masked});
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

const Theme window_theme{"window", "window.plus_one window.minus_one", changes};

} // namespace mha
