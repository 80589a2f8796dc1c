// What the library's tables say. Families and architectures of GGUF are asked for in two functions
// alone, so that they may become data without more than these two lines here.

#include "inventory/inventory.hpp"

#include "support/gguf_models.hpp"
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/formats/gguf_tables.hpp>
#include <mha/heads/measures.hpp>
#include <mha/layer/block.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/layer/stage.hpp>
#include <mha/lint/lint.hpp>
#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/family.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>
#include <mha/tensor/blocks.hpp>

namespace mha::test {

namespace {

struct FamilyWords {
  std::string name, title, models;
};
/// The one place that knows where families are listed.
std::vector<FamilyWords> families() {
  std::vector<FamilyWords> list;
  for (const naming::FamilyRow* family : naming::families())
    list.push_back(
        {std::string(family->name), std::string(family->title), std::string(family->models)});
  return list;
}
/// The one place that knows where architectures of GGUF are listed.
std::string model_type_of_gguf(const std::string& architecture) {
  const io::GgufArchitecture* found = io::find_gguf_architecture(architecture);
  return found ? std::string(found->model_type) : "";
}

Names words(std::string_view text) {
  const std::vector<std::string> list = words_of<std::string>(text, " ,()");
  return {list.begin(), list.end()};
}
/// A name of each row of a table.
template <class Rows> Names names_of(const Rows& rows) {
  Names names;
  for (const auto& row : rows) names.emplace(row.name);
  return names;
}
/// Every word that some member of each row has.
template <class Rows> Names words_in(const Rows& rows, auto member) {
  Names names;
  for (const auto& row : rows) names.merge(words(row.*member));
  return names;
}
std::string joined(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage stage : stages) text += (text.empty() ? "" : ", ") + std::string(name_of(stage));
  return text;
}

std::string stage_of(const std::string& name) {
  const auto stage = find_stage(name);
  return stage ? std::string(name_of(*stage)) : "";
}
std::string shape_of_stage(const std::string& name) {
  std::string text;
  for (const Dim letter : info_of(stage_named(name)).letters)
    text += (text.empty() ? "" : ", ") + std::string(info_of(letter).name);
  return text;
}
std::string tensor_of(const std::string& name) {
  const TensorInfo* info = find_tensor_name(name);
  return info ? std::string(info->name) : "";
}
std::string shape_of_tensor(const std::string& name) {
  const TensorInfo* info = find_tensor_name(name);
  return info ? shape_text(*info) : "";
}
std::string setting_of(const std::string& name) {
  const SettingInfo* info = find_setting(name);
  return info ? std::string(info->name) : "";
}
Names setting_values() {
  Names names;
  for (const SettingInfo& info : settings_table()) {
    const bool choices = info.kind == SettingKind::choice || info.kind == SettingKind::boolean;
    const auto values = choices && info.kind == SettingKind::boolean
                            ? std::vector<std::string>{"true", "false"}
                            : words_of<std::string>(info.values, "|");
    for (const std::string& value : values) names.insert(std::string(info.name) + " " + value);
  }
  return names;
}
/// What a setting has after it was given a value, or what kind of value is expected in its place.
std::string value_of_setting(const std::string& name_and_value) {
  const std::size_t space = name_and_value.find(' ');
  const std::string name = name_and_value.substr(0, space),
                    value = name_and_value.substr(space + 1);
  const SettingInfo* info = find_setting(name);
  if (!info) return "";
  if (value.empty() || (value[0] >= 'A' && value[0] <= 'Z')) // a kind: "NUMBER"
    return info->values.find(value) != std::string_view::npos ? "a value" : "";
  Settings settings;
  set(settings, name, value, "inventory");
  return info->get(settings);
}

Names families_with(auto entry) {
  Names names;
  for (const FamilyWords& family : families()) entry(family, names);
  return names;
}

std::vector<Section> layer_sections() {
  return {
      {"stages", [] { return names_of(stages()); }},
      asked(
          "shapes of stages", [] { return names_of(stages()); }, shape_of_stage),
      asked(
          "aliases of stages", [] { return words_in(stages(), &StageInfo::aliases); }, stage_of),
      asked(
          "words that mean several stages",
          [] {
            const auto list = ambiguous_words();
            return Names(list.begin(), list.end());
          },
          [](const std::string& word) { return joined(readings_of(word)); }),
      {"tensors", [] { return names_of(tensor_names()); }},
      asked(
          "shapes of tensors", [] { return names_of(tensor_names()); }, shape_of_tensor),
      asked(
          "axes of tensors", [] { return names_of(tensor_names()); },
          [](const std::string& name) { return axes_of_name(name); }),
      asked(
          "aliases of tensors", [] { return words_in(tensor_names(), &TensorInfo::aliases); },
          tensor_of),
      {"settings", [] { return names_of(settings_table()); }},
      asked("values of settings", setting_values, value_of_setting),
      asked(
          "defaults of settings", [] { return names_of(settings_table()); },
          [](const std::string& name) {
            const SettingInfo* info = find_setting(name);
            const std::string value = info ? info->get(Settings{}) : "";
            return value.empty() ? std::string("nothing") : value;
          }),
      asked(
          "aliases of settings", [] { return words_in(settings_table(), &SettingInfo::aliases); },
          setting_of),
      asked(
          "activations", [] { return words(activation_names()); },
          [](const std::string& name) {
            return activation_named(name) ? std::string("an activation") : "";
          }),
  };
}

std::vector<Section> model_sections() {
  return {
      {"families",
       [] {
         return families_with([](const FamilyWords& one, Names& to) { to.insert(one.name); });
       }},
      {"titles of families",
       [] {
         return families_with(
             [](const FamilyWords& one, Names& to) { to.insert(one.name + ": " + one.title); });
       }},
      {"model_types of families",
       [] {
         return families_with([](const FamilyWords& one, Names& to) {
           for (const std::string& model : words(one.models)) to.insert(one.name + ": " + model);
         });
       }},
      asked(
          "architectures of GGUF", [] { return names_of(gguf_traits()); }, model_type_of_gguf),
      asked(
          "spellings of sizes in config.json",
          [] {
            Names keys;
            for (const char* key :
                 {"num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
                  "num_hidden_layers", "intermediate_size", "vocab_size"})
              for (const std::string_view spelling : naming::size_spellings(key))
                keys.emplace(spelling);
            return keys;
          },
          [](const std::string& key) {
            const auto spellings = naming::size_spellings(key);
            return spellings.empty() ? std::string() : std::string(spellings.front());
          }),
  };
}

} // namespace

std::vector<Section> table_sections() {
  std::vector<Section> all = layer_sections();
  for (Section& section : model_sections()) all.push_back(std::move(section));
  const std::vector<Section> rest{
      {"measures", [] { return names_of(measures()); }},
      {"kinds of heads", [] { return names_of(head_kinds()); }},
      {"identifiers of diagnosis",
       [] {
         const std::vector<std::string> ids = change_ids();
         return Names(ids.begin(), ids.end());
       }},
      {"checks of info", [] { return names_of(checks()); }},
      {"types of blocks", [] { return names_of(block_types()); }},
  };
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

} // namespace mha::test
