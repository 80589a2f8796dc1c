#include <mha/layer/names.hpp>
#include <mha/load/description_parts.hpp>
#include <mha/load/read_description.hpp>

#include <nlohmann/json.hpp>

namespace mha {

namespace {

using Schema = nlohmann::ordered_json;

Schema property(const description::Key& key) {
  Schema schema = Schema::parse(key.schema);
  if (key.text.empty()) return schema;
  // Beside $ref other words are not read.
  if (schema.contains("$ref"))
    return {{"allOf", Schema::array({schema})}, {"description", key.text}};
  schema["description"] = key.text;
  return schema;
}

template <class... Keys> Schema object_of(const Keys&... keys) {
  Schema schema{{"type", "object"}, {"additionalProperties", false}};
  Schema& properties = schema["properties"] = Schema::object();
  const auto add = [&](const auto& list) {
    for (const description::Key& key : list) properties[std::string(key.name)] = property(key);
  };
  (add(keys), ...);
  return schema;
}

/// The value of a setting: of its kind, config:KEY, or one of each layer.
Schema settings_schema() {
  Schema schema{{"type", "object"}, {"additionalProperties", false}};
  Schema& properties = schema["properties"] = Schema::object();
  for (const SettingInfo& info : settings_table()) {
    if (!description::is_setting(info.name)) continue;
    const Schema value{{"$ref", "#/definitions/value"}};
    properties[std::string(info.name)] = {
        {"anyOf", Schema::array({value, {{"type", "array"}, {"items", value}, {"minItems", 1}}})},
        {"description", fmt::format("{}: {}", info.values, info.text)}};
  }
  return schema;
}

Schema tensors_schema() {
  Schema schema{{"type", "object"}, {"additionalProperties", false}};
  Schema& properties = schema["properties"] = Schema::object();
  for (const TensorInfo& info : tensor_names())
    if (description::is_tensor_key(info.name))
      properties[std::string(info.name)] =
          property({info.name, description::tensor_schema, info.text});
  for (const char* key : {"q_norm", "k_norm"})
    properties[key] = property({key, description::tensor_schema,
                                "weight of the norm of queries or keys, and its bias beside it"});
  for (const description::Key& key : description::layer_tensor_keys)
    properties[std::string(key.name)] = property(key);
  for (const description::Key& key : description::layer_norm_keys)
    properties[std::string(key.name)] = property(key);
  return schema;
}

} // namespace

std::string description_schema() {
  Schema schema =
      object_of(description::top_keys, description::family_keys, description::case_keys);
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "A model's description, for mha-inspect --naming FILE.json";
  // Of one model, or of a family.
  schema["anyOf"] = Schema::array(
      {{{"required", {"layers", "tensors"}}}, {{"required", {"like"}}}, {{"required", {"needs"}}}});
  schema["properties"]["settings"] = settings_schema();
  schema["properties"]["tensors"] = tensors_schema();
  Schema& definitions = schema["definitions"] = Schema::object();
  const Schema constant{{"type", {"number", "boolean", "string"}}};
  definitions["value"] = {
      {"description", "itself, or \"config:KEY\" or \"config:KEY|OTHER\" of config.json"},
      {"oneOf",
       Schema::array({constant,
                      {{"type", "object"},
                       {"properties", {{"config", {{"type", "string"}}}, {"default", constant}}},
                       {"required", {"config"}},
                       {"additionalProperties", false}}})}};
  definitions["tensor"] = {
      {"oneOf", Schema::array({{{"type", "string"}}, object_of(description::tensor_keys)})}};
  definitions["norm_form"] = object_of(description::norm_form_keys);
  definitions["norm_of"] = {
      {"oneOf", Schema::array({{{"type", {"string", "null"}}},
                               object_of(description::norm_keys, description::norm_form_keys)})}};
  definitions["embed_step"] = object_of(description::embed_keys);
  definitions["head"] = {
      {"oneOf", Schema::array({{{"type", "null"}}, object_of(description::head_keys)})}};
  return schema.dump(1) + "\n";
}

} // namespace mha
