// The settings of a layer: what the files say, then what the options say.

#include <mha/load/model_state.hpp>

#include <mha/files/text.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/spelling.hpp>

#include <algorithm>

namespace mha {

/// Whether the number of heads needs no width of one: a setting or a tensor per head says it.
bool Model::State::says_heads(const Settings& settings, const NamedTensors& parts) const {
  const auto said = [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& entry) {
      const SettingInfo* info = find_setting(entry.first);
      return info && info->name == "num_heads";
    });
  };
  return settings.num_heads > 0 || said(request.settings) ||
         std::any_of(contents.begin(), contents.end(),
                     [&](const io::Contents& file) { return said(file.scalars); }) ||
         std::any_of(parts.begin(), parts.end(), [](const auto& part) {
           const std::string& name = part.first;
           const std::size_t rank = part.second.tensor.rank();
           return (name.starts_with("W_") && rank == 3) || (!find_tensor_name(name) && rank >= 3);
         });
}

/// Files' settings, then options. A later one wins over an earlier one and over what the model's
/// family says; where they differ, a note says so.
void Model::State::add_settings(Settings& settings, const NamedTensors& parts,
                                std::vector<Note>& notes) const {
  const bool knows_heads = says_heads(settings, parts);
  const auto overrule = [&](const std::string& name, const std::string& value,
                            const std::string& origin) {
    const SettingInfo* info = find_setting(name);
    const auto before = info ? settings.origins.find(info->name) : settings.origins.end();
    const bool said = before != settings.origins.end();
    const std::string old = said ? info->get(settings) : "", from = said ? before->second : "";
    set(settings, name, value, origin);
    if (!said || info->get(settings) == old) return;
    const std::string what =
        origin.starts_with("--") ? origin : fmt::format("{}: {}", origin, info->name);
    notes.push_back(fmt::format("{} {} wins over {} ({})", what, info->get(settings), old, from));
  };
  for (const io::Contents& file : contents) {
    // The one setting that may be a list of numbers.
    for (const io::Entry& entry : file.tensors)
      if (entry.name == "mrope_section" && count_of(entry.shape) == 3) {
        const Tensor list = entry.read();
        overrule(entry.name,
                 fmt::format("{},{},{}", value_at(list, 0), value_at(list, 1), value_at(list, 2)),
                 file.name);
      }
    for (const auto& [name, value] : file.scalars) {
      if (find_setting(name) || !label_name(name).empty()) {
        if (find_setting(name)) overrule(name, value, file.name);
        continue;
      }
      if (file.format == "safetensors" || file.format == "checkpoint")
        continue; // metadata may be anything
      if (const TensorInfo* tensor = find_tensor_name(name))
        fail("{}: {} is a tensor ({}), not one value: {} is given", file.name, name, tensor->shape,
             io::shown(value));
      if (const std::string same = same_setting(name); !same.empty()) {
        overrule(same, value, file.name);
        continue;
      }
      if (const std::string cure = about_setting(name); !cure.empty()) {
        if (!knows_heads) fail("{}: no setting is called '{}': {}", file.name, name, cure);
        notes.emplace_back(fmt::format("{}: passed over, no setting: {}", file.name, name));
        continue;
      }
      std::vector<std::string_view> names;
      for (const SettingInfo& info : settings_table()) names.push_back(info.name);
      const std::string meant = closest(name, names);
      if (!meant.empty())
        fail("{}: no setting is called '{}'; did you mean '{}'?{}", file.name, name, meant,
             names_hint);
      notes.push_back(fmt::format("{}: passed over, no setting: {}", file.name, name));
    }
  }
  for (const auto& [name, value] : request.settings) {
    const SettingInfo* info = find_setting(name);
    const std::string option = info ? "--" + std::string(info->name) : "--" + name;
    std::string dashed = option;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    overrule(name, value, dashed);
  }
}

} // namespace mha
