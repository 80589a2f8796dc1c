#include <mha/formats/formats.hpp>

#include <mha/files/stream.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/folder.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/json.hpp>
#include <mha/formats/npy.hpp>
#include <mha/formats/npy_writer.hpp>
#include <mha/formats/npz.hpp>
#include <mha/formats/open.hpp>
#include <mha/formats/safetensors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace mha::io {

namespace {

using First = std::span<const std::byte>;

std::string_view text_of(First first) {
  return {reinterpret_cast<const char*>(first.data()), first.size()};
}
bool is_npz(First first) {
  return text_of(first).starts_with("PK\3\4") || text_of(first).starts_with("PK\5\6");
}
bool is_npy(First first) {
  return text_of(first).starts_with("\x93NUMPY");
}
bool is_safetensors(First first) {
  // A header's length of less than 4 GiB, then the header.
  const std::string_view text = text_of(first);
  return text.size() > 8 && text.substr(4, 4) == std::string_view("\0\0\0\0", 4) && text[8] == '{';
}
bool is_json(First first) {
  std::string_view text = text_of(first);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != text.npos && (text[start] == '{' || text[start] == '[');
}
bool is_folder(First) {
  return false;
}

Contents npz(const Bytes& bytes) {
  return read_npz(bytes, false);
}
Contents npy(const Bytes& bytes) {
  return read_npy(bytes, false);
}

constexpr std::array<Format, 5> all{{
    {"npz", ".npz", "NumPy archive", is_npz, npz, create_npz},
    {"npy", ".npy", "NumPy array", is_npy, npy, create_npy, npy_layout},
    {"safetensors", ".safetensors", "safetensors", is_safetensors, read_safetensors,
     create_safetensors, safetensors_layout},
    {"json", ".json", "JSON", is_json, read_json, create_json},
    {"folder", "", "folder of .npy files", is_folder, read_folder, create_folder},
}};

std::string choices() {
  std::vector<std::string_view> extensions;
  for (const Format& format : all)
    if (!format.extensions.empty()) extensions.push_back(format.extensions);
  return fmt::format("{}", fmt::join(extensions, ", "));
}

const Format* by_bytes(First first) {
  const auto found =
      std::ranges::find_if(all, [&](const Format& format) { return format.recognises(first); });
  return found == all.end() ? nullptr : &*found;
}

/// The format of a file: by its extension, else by its first bytes.
const Format& format_of(const Bytes& bytes) {
  const First first(bytes.data.get(), std::min<std::size_t>(bytes.size, 64));
  const std::string extension = extension_of(bytes.name);
  const auto named = std::ranges::find_if(all, [&](const Format& format) {
    return !extension.empty() && format.extensions == extension;
  });
  const Format* found = by_bytes(first);
  if (bytes.size == 0) fail("{}: the file is empty", shown(bytes.name));
  if (named == all.end()) {
    refuse_foreign(bytes);
    if (found) return *found;
    fail("{}: of no format that is read ({}, or raw bytes as NAME=FILE:DTYPE[SHAPE])",
         shown(bytes.name), choices());
  }
  if (!named->recognises(first)) {
    if (found)
      fail("{}: named {}, but it is {}: rename it", shown(bytes.name), extension, found->title);
    refuse_foreign(bytes);
  } else if (named->name == "npz") {
    refuse_foreign(bytes); // PyTorch's files are ZIP archives too
  }
  return *named;
}

/// Whether a pipe that begins so can be read, or is told by its first bytes what it is.
bool can_be_read(First first) {
  return by_bytes(first.first(std::min<std::size_t>(first.size(), 64))) != nullptr;
}

Contents open_as(const std::string& path, bool void_is_bf16) {
  std::error_code ignored;
  if (path != "-" && std::filesystem::is_directory(path, ignored))
    return read_folder({path, nullptr, 0}, void_is_bf16);
  const Bytes bytes = read_bytes(path, {0, "tensors", can_be_read});
  const Format& format = format_of(bytes);
  if (format.name == "npz") return read_npz(bytes, void_is_bf16);
  if (format.name == "npy") return read_npy(bytes, void_is_bf16);
  return format.read(bytes);
}

} // namespace

std::span<const Format> formats() {
  return all;
}

const Format& format_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Format& format : all) {
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  fail("unknown format '{}'{} (choices: {})", shown(name), did_you_mean(name, names),
       fmt::join(names, ", "));
}

Contents open(const std::string& path) {
  return open_as(path, false);
}
Contents open_bfloat16(const std::string& path) {
  return open_as(path, true);
}

} // namespace mha::io
