#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <array>
#include <sstream>

namespace mha {

namespace {

#define MHA_ADDRESS_OF_THEME(name) &name##_theme,
const std::array list{MHA_THEMES(MHA_ADDRESS_OF_THEME)};
#undef MHA_ADDRESS_OF_THEME

} // namespace

std::span<const Theme* const> themes() {
  return list;
}

std::vector<Change> changes_for(const Subject& subject) {
  std::vector<Change> all;
  for (const Theme* theme : themes()) {
    const bool of_ends = theme == &embedding_theme || theme == &model_end_theme;
    if (of_ends != (subject.layer.ends != nullptr)) continue;
    for (Change& change : theme->changes(subject)) all.push_back(std::move(change));
  }
  return all;
}

std::vector<std::string> change_ids() {
  std::vector<std::string> ids;
  for (const Theme* theme : themes()) {
    std::istringstream list_of_ids{std::string(theme->ids)};
    for (std::string id; list_of_ids >> id;) ids.push_back(id);
  }
  return ids;
}

Stage stage_of(const Change& change) {
  const auto first = std::find_if(stages().begin(), stages().end(), [&](const StageInfo& info) {
    return contains(change.touches, info.stage);
  });
  return first == stages().end() ? Stage::output : first->stage;
}

} // namespace mha
