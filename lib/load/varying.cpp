// Refuses one tensor for several layers where layers have their own.

#include <mha/load/layer_source.hpp>

#include <mha/files/text.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/apply_axes.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

namespace mha {

namespace {

/// Tensors that layers of one model share: masks, lengths, positions, the encoder's output.
constexpr std::string_view shared_by_layers =
    "mask block_mask key_padding_mask attention_mask kv_lengths cu_seqlens cu_seqlens_k positions "
    "relative_bias bias X_kv";

bool varies(const std::string& name) {
  return !name.empty() && !has_word(shared_by_layers, name);
}

Message one_for_all(const std::string& where, const std::string& name, const std::string& layers,
                    const Message& cure) {
  return message("{}: the same {} for {}, each of which has its own: {}, or give <same_x> if it is "
                 "meant for all of them",
                 where, name, layers, cure);
}

} // namespace

Message FoundLayers::stack_of_maps() const {
  const auto hint = [](const std::string& name, const Shape& shape, const Message& typed) {
    const bool is_map = axes_of_name(name) == "BHTS" && find_stage(name) && !find_tensor_name(name);
    if (!is_map || shape.size() != 4 || shape[0] < 2) return Message();
    return message("; if the first axis of {} {} is the layer, write {}", name, to_string(shape),
                   typed);
  };
  for (const io::Source& binding : bindings)
    if (const std::string name = canonical_name(binding.name, false);
        binding.axes.empty() && !name.empty() && !io::mentions_layer(binding))
      if (Message text =
              hint(name, io::bound_entry(binding).shape, message("<{}=FILE@LHTS>", name));
          !text.empty())
        return text;
  for (const io::Contents* file : others())
    for (const io::Entry& entry : file->tensors)
      if (Message text = hint(canonical_name(entry.name, false), entry.shape,
                              fmt::format("{}={}:{}@LHTS", canonical_name(entry.name, false),
                                          io::shown(file->name), io::shown(entry.name)));
          !text.empty())
        return text;
  return {};
}

Message FoundLayers::why_not_varying() const {
  if (chosen.size() < 2) return {};
  const std::string layers = fmt::format("{} layers ({}, {}{})", chosen.size(), chosen[0],
                                         chosen.size() > 2 ? "…, " : "", chosen.back());
  for (const io::Source& binding : bindings) {
    if (io::mentions_layer(binding) || !label_name(binding.name).empty()) continue;
    if (binding.name.starts_with("layers.")) continue; // it names its layer
    const std::string name = canonical_name(binding.name, false);
    if (!varies(name) || binding.axes.find('L') != std::string::npos) continue;
    if (!binding.raw_shape && layers_of(name, io::bound_entry(binding).shape, binding.axes) > 0)
      continue;
    return one_for_all(
        binding.text, name, layers,
        message("write {{layer}} for its number (<{}=FILE:layers.{{layer}}>), or name its axis L "
                "(<{}=FILE@L…>)",
                binding.name, binding.name));
  }
  for (const io::Contents* file : others())
    for (const io::Entry& entry : file->tensors) {
      if (naming::layer_number(entry.name) || !label_name(entry.name).empty()) continue;
      const std::string name = canonical_name(entry.name, false);
      if (!varies(name) || layers_of(name, entry.shape, "") > 0) continue;
      return one_for_all(fmt::format("{}: {}", file->name, entry.name), name, layers,
                         fmt::format("call it layers.0.{0}, layers.1.{0} …", entry.name));
    }
  return {};
}

void FoundLayers::require_varying() const {
  if (request.same_x) return;
  if (const Message why = why_not_varying(); !why.empty()) throw Error(why);
}

} // namespace mha
