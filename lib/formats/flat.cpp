#include <mha/formats/flat.hpp>

#include <mha/files/output_file.hpp>
#include <mha/files/text.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/formats.hpp>

namespace mha::io {

namespace {

class FlatWriter : public Writer {
public:
  FlatWriter(const std::string& path, const Output& output, Layout layout)
      : layout_(std::move(layout)), pieces_(path, output.items), file_(path) {
    file_.resize(layout_.size);
    file_.write(0, layout_.header);
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    pieces_.check(item, offset, count);
    const std::size_t element = pieces_.element_size(item);
    file_.write(layout_.offsets[item] + offset * element, data, count * element);
    pieces_.add(item, offset, count);
  }

  void finish() override {
    for (std::size_t i = 0; i < layout_.offsets.size(); ++i) pieces_.whole(i);
    file_.commit();
  }

private:
  Layout layout_;
  WrittenRanges pieces_;
  OutputFile file_;
};

} // namespace

std::unique_ptr<Writer> create_flat(const std::string& path, const Output& output, Layout layout) {
  return std::make_unique<FlatWriter>(path, output, std::move(layout));
}

Layout layout_for(const std::string& path, std::string_view format, const Output& output) {
  const Format& chosen = format_to_write(path, format, output);
  if (path == "-" || !chosen.layout)
    fail("{}: several processes write .npy or .safetensors together, not {}; give such an <output>",
         path == "-" ? "standard output" : shown(path), path == "-" ? "a stream" : chosen.name);
  return chosen.layout(path, output);
}

} // namespace mha::io
