#include <mha/formats/formats.hpp>

#include <mha/files/bytes.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/gguf.hpp>
#include <mha/formats/json.hpp>
#include <mha/formats/npy.hpp>
#include <mha/formats/onnx.hpp>
#include <mha/formats/safetensors.hpp>
#include <mha/formats/text.hpp>
#include <mha/formats/text_numbers.hpp>
#include <mha/formats/torch.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <sys/stat.h>

namespace mha::io {

namespace {

using First = std::span<const std::byte>;

std::string_view as_text(First first) {
  return {reinterpret_cast<const char*>(first.data()), first.size()};
}
bool is_npz(First first) {
  return as_text(first).starts_with("PK\3\4") || as_text(first).starts_with("PK\5\6");
}
bool is_npy(First first) {
  return as_text(first).starts_with("\x93NUMPY");
}
bool is_safetensors(First first) {
  // A header's length of less than 4 GiB, then the header.
  const std::string_view text = as_text(first);
  return text.size() > 8 && text.substr(4, 4) == std::string_view("\0\0\0\0", 4) && text[8] == '{';
}
bool is_json(First first) {
  std::string_view text = as_text(first);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != text.npos && (text[start] == '{' || text[start] == '[');
}
/// Whether what may be JSON may also be a print of Python: a list, or a dictionary with names in
/// single quotes.
bool begins_as_printed(std::string_view text) {
  const std::string_view begun = trimmed(text);
  if (!begun.starts_with('{')) return begun.starts_with('[');
  return trimmed(begun.substr(1)).starts_with('\'');
}
bool is_text(First first) {
  return begins_as_text(as_text(first));
}
bool is_folder(First) {
  return false;
}

Contents npz(const Bytes& bytes) {
  return read_npz(bytes, false);
}
bool gguf_begins(First first) {
  return is_gguf(as_text(first));
}
Contents gguf(const Bytes& bytes) {
  return read_gguf(bytes, false);
}
Contents npy(const Bytes& bytes) {
  return read_npy(bytes, false);
}
Contents text(const Bytes& bytes) {
  return read_text(bytes, false);
}

constexpr std::array<Format, 9> all{{
    {"npz", ".npz", "NumPy archive", is_npz, npz, create_npz},
    {"npy", ".npy", "NumPy array", is_npy, npy, create_npy, npy_layout},
    {"safetensors", ".safetensors", "safetensors", is_safetensors, read_safetensors,
     create_safetensors, safetensors_layout},
    {"gguf", ".gguf", "GGUF", gguf_begins, gguf, nullptr},
    {"onnx", ".onnx", "ONNX", begins_as_onnx, read_onnx, nullptr},
    {"text", ".csv,.tsv,.txt,.dat,.log,.ndjson,.jsonl", "CSV, TSV or printed numbers", is_text,
     text, nullptr},
    {"json", ".json", "JSON", is_json, read_json, create_json},
    {"pytorch", ".pt,.pth,.ckpt,.pkl,.pickle", "PyTorch checkpoint or pickle", begins_as_torch,
     read_torch, nullptr},
    {"folder", "", "folder of .npy files", is_folder, read_folder, create_folder},
}};

std::string choices() {
  std::string extensions;
  for (const Format& format : all)
    for (const char c : format.extensions.empty() ? "" : "," + std::string(format.extensions))
      extensions += c == ',' ? ", " : std::string(1, c);
  return extensions.substr(2);
}

/// The format with these first bytes. An archive may be NumPy's or PyTorch's: see by_content().
const Format* by_bytes(First first) {
  const auto found =
      std::ranges::find_if(all, [&](const Format& format) { return format.recognises(first); });
  return found == all.end() ? nullptr : &*found;
}

/// The bytes by which a format is recognised.
constexpr std::size_t sample_of_format = 64;

/// The format of a file by its bytes, or nullptr.
const Format* by_content(const Bytes& bytes) {
  const First first(bytes.data.get(), std::min(bytes.size, sample_of_format));
  const Format* const found = by_bytes(first);
  const bool torch =
      found ? found->recognises == is_npz && is_torch_archive(bytes) : may_be_old_pickle(bytes);
  return torch ? &format_named("pytorch") : found;
}

/// The format of a file: by its extension, else by its bytes.
const Format& format_of(const Bytes& bytes) {
  const std::string extension = extension_of(bytes.name);
  const auto named = std::ranges::find_if(
      all, [&](const Format& format) { return has_extension(format, extension); });
  if (bytes.size == 0) fail("{}: the file is empty", shown(bytes.name));
  const Format* const found = by_content(bytes);
  if (named == all.end()) {
    // PyTorch files have many extensions: pytorch_model.bin, checkpoint.pth.tar.
    if (found && found->read == read_torch) return *found;
    refuse_foreign(bytes);
    if (found) return *found;
    fail("{}: unsupported file format (supported: {}, or raw bytes as <NAME=FILE:DTYPE[SHAPE]>)",
         shown(bytes.name), choices());
  }
  if (!found || found->read == text) refuse_foreign(bytes);
  // The first bytes of text prove nothing: lists of numbers are JSON as well as printed ones. Names
  // of texts promise nothing: model.dat may be of any format.
  const bool is_named_text = named->read == text;
  const bool is_printed = found && found->read == read_json &&
                          begins_as_printed(bytes.text().substr(0, sample_of_format));
  if (is_named_text && found && found->read != text && !is_printed) return *found;
  const bool by_name = found && (is_named_text ? found->read == read_json : found->read == text);
  if (found && found != &*named && !by_name)
    fail("{}: named {}, but it is {}: rename it", shown(bytes.name), extension, found->title);
  return *named;
}

/// Whether the first bytes of a pipe belong to a supported format.
bool can_be_read(First first) {
  return by_bytes(first.first(std::min<std::size_t>(first.size(), 64))) != nullptr;
}

} // namespace

Contents open(const std::string& path, const OpenOptions& options) {
  std::error_code ignored;
  if (path != "-" && std::filesystem::is_directory(path, ignored))
    return read_folder({path, nullptr, 0}, options.void_is_bf16);
  const Bytes bytes = read_bytes(path, {0, "tensors", can_be_read});
  const Format& format = format_of(bytes);
  if (format.name == "npz") return read_npz(bytes, options.void_is_bf16);
  if (format.name == "npy") return read_npy(bytes, options.void_is_bf16);
  if (format.name == "gguf") return read_gguf(bytes, options.gguf_order);
  if (format.name == "text") return read_text(bytes, options.token_lines);
  return format.read(bytes);
}

std::span<const Format> formats() {
  return all;
}

bool has_extension(const Format& format, std::string_view extension) {
  return is_one_of(extension, words_of(format.extensions, ","));
}

const Format& format_named(std::string_view name) {
  if (const Format* format = find_named(all, name)) return *format;
  const std::vector<std::string_view> names = names_of_rows(all);
  fail("unknown format '{}'{} (choices: {})", shown(name), did_you_mean(name, names),
       fmt::join(names, ", "));
}

namespace {

/// The format by the extension of the path. Without such an extension, a stream (standard output, a
/// pipe, a device) holds one tensor as npy, and any other path is a folder.
const Format& format_by_path(const std::string& path, std::size_t tensor_count) {
  const std::string extension = extension_of(path);
  for (const Format& format : formats())
    if (has_extension(format, extension)) return format;
  struct stat status {};
  const bool is_stream = path == "-" || (::stat(path.c_str(), &status) == 0 &&
                                         !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
  if (is_stream && tensor_count == 1) return format_named("npy");
  if (is_stream)
    fail("{}: {} tensors in which format? give <format> npz",
         path == "-" ? "standard output" : shown(path), tensor_count);
  if (extension.empty() || path.ends_with('/')) return format_named("folder");
  std::vector<std::string_view> extensions;
  for (const Format& format : formats())
    if (!format.extensions.empty() && format.create) extensions.push_back(format.extensions);
  fail("{}: '{}' is not the extension of a writable format ({}; without one: a folder); give "
       "<format>",
       shown(path), shown(extension), fmt::join(extensions, ", "));
}

} // namespace

const Format& format_to_write(const std::string& path, std::string_view format,
                              const Output& output) {
  if (path.empty()) fail("an empty path cannot be written");
  const Format* chosen =
      format.empty() ? &format_by_path(path, output.items.size()) : &format_named(format);
  // A .npy file holds one array. If there are several arrays, or the path is a folder, npy
  // therefore means a folder of such files, except for a path that itself ends in .npy.
  std::error_code ignored;
  const bool has_several_arrays = output.items.size() + output.scalars.size() +
                                      output.labels.size() + output.item_labels.size() >
                                  1;
  if (chosen->name == "npy" && path != "-" && extension_of(path) != ".npy" &&
      (has_several_arrays || path.ends_with('/') || std::filesystem::is_directory(path, ignored)))
    chosen = &format_named("folder");
  if (!chosen->create) fail("format {} cannot be written, only read", chosen->name);
  return *chosen;
}

std::unique_ptr<Writer> create(const std::string& path, std::string_view format,
                               const Output& output) {
  return format_to_write(path, format, output).create(path, output);
}

Entry read_raw(const std::string& path, std::string name, DType dtype, const Shape& shape) {
  const auto wanted = bytes_of(shape, size_of(dtype));
  const std::string what = fmt::format("{} of {}", name_of(dtype), to_string(shape));
  // A stream that is longer than the expected size is refused while it is read; the size of a file
  // is compared below.
  const StreamLimit exactly{wanted.value_or(0), what, nullptr};
  const Bytes bytes = wanted && *wanted > 0 ? read_bytes(path, exactly) : read_bytes(path);
  require_sensible(shown(bytes.name), shape);
  if (!wanted || *wanted != bytes.size)
    fail("{}: {} bytes; {} of {} needs {}", shown(bytes.name), bytes.size, name_of(dtype),
         to_string(shape), wanted ? std::to_string(*wanted) : "more than 2^62");
  return {std::move(name), dtype, shape, false,
          [=] { return Tensor(dtype, shape, in_place(bytes, 0, bytes.size)); }};
}

} // namespace mha::io
