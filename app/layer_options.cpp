#include "layer_options.hpp"

#include <mha/layer/names.hpp>
#include <mha/model/patcher.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

namespace mha::app {

namespace {

/// "--num-heads" for num_heads.
std::string option_for_setting(std::string_view setting) {
  std::string name = "--" + std::string(setting);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Whether the allowed values are literal words, "none|half", without placeholders such as NUMBER
/// and T,H,W.
bool are_words(std::string_view values) {
  return std::ranges::none_of(values, [](char c) { return c >= 'A' && c <= 'Z'; });
}

} // namespace

void add_settings(Cli& cli, RunRequest& request) {
  cli.shared_group("Settings of the layer, which override those in the files", true);
  for (const SettingInfo& info : settings_table()) {
    Option option;
    option.name = option_for_setting(info.name);
    option.value_name = info.values;
    option.help = info.text;
    if (info.kind == SettingKind::boolean) option.off = "--no-" + option.name.substr(2);
    if (info.kind == SettingKind::choice && are_words(info.values)) {
      option.choices = words_of<std::string>(info.values, "|");
      option.completes = Completes::choices;
    }
    option.set = [&request, &info, name = option.name](const std::string& text) {
      Settings unused; // set() reports an invalid value, with this option's name
      set(unused, info.name, text, name);
      request.settings.emplace_back(info.name, text);
    };
    cli.add(std::move(option));
  }
}

void move_settings_from_sources(RunRequest& request) {
  std::erase_if(request.sources, [&](const std::string& source) {
    const std::size_t equals = source.find('=');
    if (equals == std::string::npos) return false;
    std::string name = source.substr(0, equals);
    if (find_tensor_name(name) || find_stage(name)) return false;
    std::ranges::replace(name, '-', '_');
    const SettingInfo* info = find_setting(name);
    if (info == nullptr) return false;
    const std::string value = source.substr(equals + 1);
    for (const auto& [earlier_name, earlier_value] : request.settings)
      if (earlier_name == info->name && earlier_value != value)
        throw UsageError(
            fmt::format("{} is set to '{}' and to '{}', but takes one value; leave one out",
                        info->name, earlier_value, value));
    Settings unused; // set() reports an invalid value
    set(unused, info->name, value, source);
    request.settings.emplace_back(info->name, value);
    return true;
  });
}

void add_patches(Cli& cli, RunRequest& request) {
  Option option;
  option.name = "--patch";
  option.value_name = "PLACE=VALUE";
  option.help =
      "replace, add to (+=, -=) or multiply (*=) the values of a stage while it is computed, or of "
      "X or a weight before: 'layers.3.head_out[0] = zero', 'weights[2,-1,0] *= 0.5', "
      "'X[*,1,0] = 5'; VALUE: a number, zero, mean, a "
      "file, from 'another text', 4 * from 'one' - 'another'; may be repeated";
  option.repeats = true;
  option.set = [&request](const std::string& text) {
    if (!request.patches) request.patches = std::make_shared<Patcher>();
    request.patches->add(text);
  };
  cli.add(std::move(option));
  cli.at_end([&request] {
    if (request.patches) request.patches->require_read();
  });
}

std::vector<std::string> typed_patches(const RunRequest& request) {
  return request.patches ? request.patches->typed() : std::vector<std::string>();
}

} // namespace mha::app
