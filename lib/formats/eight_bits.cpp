#include <mha/formats/eight_bits.hpp>

#include <mha/files/text.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

/// "q_proj.weight_scale_inv", "q_proj.scale" and "k_scale", not the scale of a module's input.
bool is_scale(const Entry& entry) {
  const std::string_view last = last_part(entry.name);
  return last.find("scale") != last.npos && !last.starts_with("input") &&
         !last.starts_with("output");
}

} // namespace

Entry as_floats(Entry bytes, const BlockType& type) {
  const auto decode = [read = bytes.read](const BlockType& of, bool steps) {
    const Tensor stored = read();
    return steps ? steps_of(of, stored.raw(), stored.shape())
                 : decoded(of, stored.raw(), stored.shape());
  };
  bytes.dtype = DType::f32, bytes.blocks = &type;
  bytes.read = [decode, &type] { return decode(type, false); };
  bytes.steps = [decode, &type] { return decode(type, true); };
  return bytes;
}

void require_no_scales(Contents& contents) {
  std::vector<std::string_view> scales;
  for (const Entry& entry : contents.tensors)
    if (is_scale(entry)) scales.push_back(entry.name);
  std::size_t count = 0;
  for (const Entry& entry : contents.tensors) {
    if (!entry.blocks || entry.blocks->bytes > 1) continue;
    ++count;
    const std::string_view name = entry.name,
                           module = name.substr(0, name.size() - last_part(name).size());
    for (const std::string_view scale : scales)
      if (scale.starts_with(name) || (!module.empty() && scale.starts_with(module)))
        fail("{}: '{}' is {} beside its scales, '{}': multiply it by them and save it as bfloat16 "
             "or float32",
             shown(contents.name), shown(name), entry.blocks->name, shown(scale));
  }
  if (count > 0)
    contents.notes.emplace_back(
        fmt::format("{} of 8-bit floats, read without scales", counted(count, "tensors")));
}

} // namespace mha::io
