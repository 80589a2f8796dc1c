// Writing safetensors: tensors of wide elements first, so that without holes each is aligned.

#include "io/json.hpp"
#include "io/output_file.hpp"
#include "io/pieces.hpp"
#include "io/safetensors.hpp"
#include "io/text.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace mha::io {

namespace {

class SafetensorsWriter : public Writer {
public:
  SafetensorsWriter(const std::string& path, const Output& output)
      : pieces_(path, output.items), places_(output.items.size()), file_(path) {
    const std::string text = header(path, output);
    start_ = 8 + text.size();
    std::string length;
    for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
    file_.write(0, length + text);
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    pieces_.check(item, offset, count);
    const std::size_t element = pieces_.element_size(item);
    file_.write(start_ + places_[item] + offset * element, data, count * element);
    pieces_.add(item, offset, count);
  }

  void finish() override {
    for (std::size_t i = 0; i < places_.size(); ++i) pieces_.whole(i);
    file_.commit();
  }

private:
  std::string header(const std::string& path, const Output& output) {
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
    for (const auto& [name, value] : output.scalars) {
      claim(name);
      text += fmt::format("{}{}:{}", text == "{" ? "\"__metadata__\":{" : ",", json_string(name),
                          json_string(value));
    }
    for (const auto& [name, labels] : output.labels) {
      claim(name);
      text += fmt::format("{}{}:{}", text == "{" ? "\"__metadata__\":{" : ",", json_string(name),
                          json_string(json_of_labels(labels)));
    }
    if (text != "{") text += "}";
    std::uint64_t at = 0;
    for (const std::size_t i : order) {
      const Item& item = output.items[i];
      claim(item.name);
      const std::uint64_t size = count_of(item.shape) * size_of(item.dtype);
      places_[i] = at;
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          text == "{" ? "" : ",", json_string(item.name),
                          safetensors_name(item.dtype), fmt::join(item.shape, ","), at, at + size);
      at += size;
    }
    text += "}";
    // Spaces at its end make the data start at a multiple of 64.
    text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
    return text;
  }

  PieceList pieces_;
  std::vector<std::uint64_t> places_; // of the items, from the header's end
  std::uint64_t start_ = 0;
  OutputFile file_;
};

} // namespace

std::unique_ptr<Writer> create_safetensors(const std::string& path, const Output& output) {
  return std::make_unique<SafetensorsWriter>(path, output);
}

} // namespace mha::io
