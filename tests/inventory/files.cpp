// What files may hold: every element type in every format, written by the library and read back, or
// read from a file that is put together here, byte by byte.

#include "inventory/inventory.hpp"

#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/formats/formats.hpp>
#include <mha/system/words.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

namespace mha::test {

namespace {

/// As the file has it, little-endian.
template <class T> std::string bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
std::string sized(const std::string& text) {
  return bytes(std::uint64_t{text.size()}) + text;
}

std::string safetensors_of(const std::string& type, std::size_t size) {
  return sized(R"({"X":{"dtype":")" + type + R"(","shape":[2],"data_offsets":[0,)" +
               std::to_string(2 * size) + "]}}") +
         std::string(2 * size, '\0');
}

std::string npy_of(const std::string& type, std::size_t size) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (2,), }";
  header.resize(118 - 1, ' ');
  return std::string("\x93NUMPY\x01", 7) + std::string(1, '\0') +
         bytes(static_cast<std::uint16_t>(118)) + header + "\n" + std::string(2 * size, '\0');
}

/// One tensor of 256 elements; no type takes more than eight bytes an element.
std::string gguf_of(std::uint32_t type) {
  constexpr std::uint32_t text_type = 8;
  std::string file = "GGUF" + bytes(std::uint32_t{3}) + bytes(std::uint64_t{1}) +
                     bytes(std::uint64_t{1}) + sized("general.architecture") + bytes(text_type) +
                     sized("none") + sized("X") + bytes(std::uint32_t{1}) +
                     bytes(std::uint64_t{256}) + bytes(type) + bytes(std::uint64_t{0});
  file.resize((file.size() + 31) / 32 * 32);
  return file + std::string(256 * 8, '\0');
}

/// A field of a protocol buffer that is a text, a message or bytes.
std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}
std::string number_field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}
std::string onnx_of(int type, std::size_t size) {
  const std::string tensor = number_field(1, 2) + number_field(2, type) + field(8, "X") +
                             field(9, std::string(2 * size, '\0'));
  return number_field(1, 8) + field(7, field(5, tensor));
}

/// The type of the element that the file gives, "" where it is not read.
std::string type_in(const Folder& folder, const std::string& name, const std::string& file) {
  try {
    const io::Contents contents = io::open(folder.write(name, file));
    const io::Entry* entry = contents.find("X");
    if (!entry && !contents.tensors.empty()) entry = &contents.tensors.front();
    return entry ? std::string(name_of(entry->read().dtype())) : "";
  } catch (const Error&) {
    return "";
  }
}

/// Types as each format spells them, and the bytes of an element; of GGUF and ONNX by their
/// numbers.
const std::map<std::string, std::vector<std::pair<std::string, std::size_t>>>& spellings() {
  static const std::map<std::string, std::vector<std::pair<std::string, std::size_t>>> all{
      {"safetensors",
       {{"F64", 8},
        {"F32", 4},
        {"F16", 2},
        {"BF16", 2},
        {"I64", 8},
        {"I32", 4},
        {"I16", 2},
        {"I8", 1},
        {"U64", 8},
        {"U32", 4},
        {"U16", 2},
        {"U8", 1},
        {"BOOL", 1},
        {"F8_E4M3", 1},
        {"F8_E5M2", 1}}},
      {"npy", {{"<f8", 8}, {"<f4", 4}, {"<f2", 2}, {">f8", 8}, {">f4", 4}, {">f2", 2},
               {"=f4", 4}, {"<i8", 8}, {"<i4", 4}, {"<i2", 2}, {"|i1", 1}, {">i8", 8},
               {">i4", 4}, {">i2", 2}, {"<u8", 8}, {"<u4", 4}, {"<u2", 2}, {"|u1", 1},
               {">u8", 8}, {">u4", 4}, {">u2", 2}, {"|b1", 1}}},
      {"gguf", {}},
      {"onnx",
       {{"1", 4},
        {"2", 1},
        {"3", 1},
        {"4", 2},
        {"5", 2},
        {"6", 4},
        {"7", 8},
        {"9", 1},
        {"10", 2},
        {"11", 8},
        {"12", 4},
        {"13", 8},
        {"16", 2}}},
  };
  return all;
}

Names types_read() {
  const Folder folder;
  Names entries;
  const auto note = [&](const std::string& format, const std::string& type,
                        const std::string& file) {
    const std::string found = type_in(folder, "file." + format, file);
    if (!found.empty()) entries.insert(format + ": " + type + " as " + found);
  };
  for (const auto& [format, types] : spellings())
    for (const auto& [type, size] : types)
      note(format, type,
           format == "safetensors" ? safetensors_of(type, size)
           : format == "npy"       ? npy_of(type, size)
                                   : onnx_of(std::stoi(type), size));
  for (std::uint32_t type = 0; type <= 40; ++type)
    note("gguf", std::to_string(type), gguf_of(type));
  // PyTorch's and NumPy's pickles, as they were written by them.
  for (const auto& file :
       std::filesystem::directory_iterator(source_folder() + "/tests/data/pytorch")) {
    const std::string extension = file.path().extension();
    if (extension != ".pt" && extension != ".pkl" && extension != ".pth") continue;
    try {
      for (const io::Entry& entry : io::open(file.path()).tensors)
        entries.insert("pytorch: " + file.path().filename().string() + ": " +
                       std::string(name_of(entry.read().dtype())));
    } catch (const Error&) { // one of those that are refused
    }
  }
  return entries;
}

Names types_written() {
  const Folder folder;
  Names entries;
  for (const io::Format& format : io::formats())
    for (const DType dtype :
         {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
          DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean})
      try {
        io::Output output;
        output.items = {{"X", dtype, {2}}};
        const std::string extension = format.name == "folder" ? "" : "." + std::string(format.name);
        const std::string path =
            folder.path(std::string(name_of(dtype)) + std::string(format.name) + extension);
        const auto writer = io::create(path, "", output);
        const std::string zeros(16, '\0');
        writer->write(0, 0, reinterpret_cast<const std::byte*>(zeros.data()), 2);
        writer->finish();
        const io::Contents back = io::open(path);
        if (back.tensors.size() == 1 && back.tensors.front().read().dtype() == dtype)
          entries.insert(std::string(format.name) + ": " + std::string(name_of(dtype)));
      } catch (const Error&) { // not written in this format
      }
  return entries;
}

Names formats_known() {
  Names entries;
  for (const io::Format& format : io::formats()) {
    entries.insert(std::string(format.name) + ": " + std::string(format.title));
    for (const std::string& extension : words_of<std::string>(format.extensions, ","))
      entries.insert(std::string(format.name) + " " + extension);
  }
  return entries;
}

} // namespace

std::vector<Section> file_sections() {
  return {{"formats", formats_known}, {"types read", types_read}, {"types written", types_written}};
}

} // namespace mha::test
