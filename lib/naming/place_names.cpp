#include <mha/naming/place_names.hpp>

#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>

namespace mha {

const TensorInfo* tensor_of_place(std::string_view name) {
  if (find_stage(name)) return nullptr;
  while (true) {
    if (const TensorInfo* const info = find_tensor_name(name)) return info;
    const std::size_t dot = name.find('.'); // names of tensors have points of their own
    if (dot == name.npos) return nullptr;
    name.remove_prefix(dot + 1);
  }
}

StageOfPlace stage_or_tensor_named(std::string_view name) {
  const TensorInfo* const info = tensor_of_place(name);
  if (!info) return stage_of_place_named(name);
  const StageSet& readers = info->in_layer.readers;
  return {readers.any() ? *readers.begin() : Stage::weights};
}

} // namespace mha
