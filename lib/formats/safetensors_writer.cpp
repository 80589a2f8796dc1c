// Writing safetensors: tensors of wide elements first, so that without holes each is aligned.

#include <mha/files/text.hpp>
#include <mha/formats/json.hpp>
#include <mha/formats/safetensors.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace mha::io {

Layout safetensors_layout(const std::string& path, const Output& output) {
  Layout layout{"", std::vector<std::uint64_t>(output.items.size()), 0};
  std::set<std::string> names;
  const auto claim = [&](const std::string& name) {
    if (!names.insert(name).second || name == "__metadata__")
      fail("{}: '{}' would be there twice", shown(path), shown(name));
  };
  std::vector<std::size_t> order(output.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return size_of(output.items[i].dtype); });

  std::string text = "{";
  const auto add_metadata = [&](const std::string& name, const std::string& value) {
    claim(name);
    text += fmt::format("{}{}:{}", text == "{" ? "\"__metadata__\":{" : ",", json_string(name),
                        json_string(value));
  };
  for (const auto& [name, value] : output.scalars) add_metadata(name, value);
  for (const auto& [name, labels] : output.labels) add_metadata(name, json_of_labels(labels));
  for (const auto& [name, lists] : output.item_labels)
    add_metadata(name, json_of_item_labels(lists));
  if (!output.run.empty()) add_metadata(std::string(run_metadata), output.run);
  if (text != "{") text += "}";
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const Item& item = output.items[i];
    claim(item.name);
    const std::uint64_t size = count_of(item.shape) * size_of(item.dtype);
    layout.offsets[i] = at;
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text == "{" ? "" : ",", json_string(item.name),
                        safetensors_name(item.dtype), fmt::join(item.shape, ","), at, at + size);
    at += size;
  }
  text += "}";
  // Spaces at its end make the data start at a multiple of 64.
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  for (int i = 0; i < 8; ++i) layout.header += static_cast<char>(text.size() >> (8 * i) & 0xff);
  layout.header += text;
  for (std::uint64_t& offset : layout.offsets) offset += layout.header.size();
  layout.size = layout.header.size() + at;
  return layout;
}

std::unique_ptr<Writer> create_safetensors(const std::string& path, const Output& output) {
  return create_flat(path, output, safetensors_layout(path, output));
}

} // namespace mha::io
