#include <mha/layer/settings_edit.hpp>

namespace mha {

namespace {

Message text_of_value(const SettingValue& one) {
  const SettingInfo* info = find_setting(one.name);
  if (!info || info->kind != SettingKind::boolean) return message("<{}> {}", one.name, one.shown);
  Settings edited;
  info->set(edited, one.value); // which has more words for true
  return info->get(edited) == "true" ? message("<{}>", one.name) : message("<{} false>", one.name);
}

} // namespace

void SettingsEdit::apply(Settings& settings) const {
  for (const SettingValue& one : values_) set(settings, one.name, one.value, one.name);
}

Message SettingsEdit::text() const {
  Message all;
  for (const SettingValue& one : values_) {
    if (!all.empty()) all += " ";
    all += text_of_value(one);
  }
  return all;
}

} // namespace mha
