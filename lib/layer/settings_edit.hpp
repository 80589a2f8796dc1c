#pragma once
// Settings that get other values, as data: applied to settings, and said in a reader's words.

#include <mha/layer/settings.hpp>
#include <mha/system/message.hpp>

#include <concepts>
#include <initializer_list>

namespace mha {

/// A setting and its new value.
struct SettingValue {
  std::string name;          ///< "rope_factor"
  std::string value;         ///< as the table reads it: "8", "true", "d_model"
  std::string shown = value; ///< as messages have it: fitted numbers are rounded there

  SettingValue(std::string_view of, std::string_view text) : name(of), value(text) {}
  template <class T>
  requires std::integral<T> || std::floating_point<T> SettingValue(std::string_view of, T exact)
      : name(of), value(fmt::format("{}", exact)) {}
  /// An exact number, shown with so many digits.
  SettingValue(std::string_view of, double exact, int digits)
      : SettingValue(of, exact, fmt::format("{:.{}g}", exact, digits)) {}
  /// An exact number, shown as this text.
  SettingValue(std::string_view of, double exact, std::string_view text)
      : name(of), value(fmt::format("{}", exact)), shown(text) {}
};

/// Some settings' new values: `SettingsEdit{{"rope_scaling", "linear"}, {"rope_factor", 8}}`.
class SettingsEdit {
public:
  SettingsEdit() = default;
  SettingsEdit(std::initializer_list<SettingValue> values) : values_(values) {}

  void add(SettingValue value) { values_.push_back(std::move(value)); } ///< behind the others
  bool empty() const { return values_.empty(); }                        ///< whether it is none
  const std::vector<SettingValue>& values() const { return values_; }   ///< in their order
  /// Gives the settings their new values. Throws Error as `set` does: "rope_base is '-1': a
  /// positive number expected".
  void apply(Settings& settings) const;
  /// "rope_base 500", "causal false" of a program; "--rope-base 500", "--no-causal" as it is typed.
  Message text() const;

private:
  std::vector<SettingValue> values_;
};

} // namespace mha
