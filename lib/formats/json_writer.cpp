// Writing JSON: all numbers are kept in memory, then written in order.

#include <mha/files/output_file.hpp>
#include <mha/files/text.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/json.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/limits.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>

namespace mha::io {

namespace {

class JsonWriter : public Writer {
public:
  JsonWriter(const std::string& path, const Output& output)
      : output_(output), pieces_(path, output_.items), file_(path) {
    std::size_t bytes = 0;
    for (const Item& item : output_.items) bytes += count_of(item.shape) * size_of(item.dtype);
    require_memory(bytes, fmt::format("{}: the numbers of a JSON file", shown(path)),
                   "write .npz, .safetensors or a folder, which are streamed");
    std::set<std::string> names;
    const auto claim = [&](const std::string& name) {
      if (!names.insert(name).second) fail("{}: '{}' would appear twice", shown(path), shown(name));
    };
    for (const Item& item : output_.items) {
      claim(item.name);
      tensors_.emplace_back(item.dtype, item.shape);
    }
    for (const auto& scalar : output_.scalars) claim(scalar.first);
    for (const auto& labels : output_.labels) claim(labels.first);
    for (const auto& lists : output_.item_labels) claim(lists.first);
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    pieces_.check(item, offset, count);
    const std::size_t element = pieces_.element_size(item);
    if (count > 0)
      std::memcpy(tensors_[item].raw_mutable() + offset * element, data, count * element);
    pieces_.add(item, offset, count);
  }

  void finish() override {
    text_ = "{";
    for (const auto& [name, value] : output_.scalars) {
      begin(name);
      const bool bare = kind_of(value) != TextKind::words && value.back() != 'y' && value != "NaN";
      text_ += bare ? value : json_string(value);
    }
    for (const auto& [name, labels] : output_.labels) {
      begin(name);
      text_ += json_of_labels(labels);
    }
    for (const auto& [name, lists] : output_.item_labels) {
      begin(name);
      text_ += json_of_item_labels(lists);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      pieces_.whole(i);
      begin(output_.items[i].name);
      text_ +=
          fmt::format("{{\"shape\": [{}], \"dtype\": \"{}\", \"data\": ",
                      fmt::join(output_.items[i].shape, ", "), name_of(output_.items[i].dtype));
      std::size_t index = 0;
      rows(tensors_[i], 0, index);
      text_ += "}";
      tensors_[i] = Tensor();
    }
    text_ += text_.size() == 1 && written_ == 0 ? "}\n" : "\n}\n";
    flush(0);
    file_.commit();
  }

private:
  void begin(const std::string& name) {
    text_ += (written_ == 0 && text_.size() == 1 ? "\n  " : ",\n  ") + json_string(name) + ": ";
  }

  /// Writes the elements from `index` on as nested lists from `axis` on.
  void rows(const Tensor& tensor, std::size_t axis, std::size_t& index) {
    if (axis == tensor.rank()) {
      number(tensor, index++);
      flush(std::size_t{1} << 20);
      return;
    }
    text_ += '[';
    for (std::size_t i = 0; i < tensor.shape()[axis]; ++i) {
      if (i > 0) text_ += ", ";
      rows(tensor, axis + 1, index);
    }
    text_ += ']';
  }

  void number(const Tensor& tensor, std::size_t index) {
    if (is_floating(tensor.dtype()) && !std::isfinite(value_at(tensor, index)))
      text_ += '"' + element_text(tensor, index) + '"';
    else
      text_ += element_text(tensor, index);
  }

  void flush(std::size_t most) {
    if (text_.size() <= most) return;
    file_.write(written_, text_);
    written_ += text_.size();
    text_.clear();
  }

  Output output_;
  WrittenRanges pieces_;
  std::vector<Tensor> tensors_;
  OutputFile file_;
  std::string text_;
  std::uint64_t written_ = 0;
};

} // namespace

std::unique_ptr<Writer> create_json(const std::string& path, const Output& output) {
  return std::make_unique<JsonWriter>(path, output);
}

} // namespace mha::io
