#include <mha/formats/create.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>

#include <fmt/format.h>

#include <filesystem>

#include <sys/stat.h>

namespace mha::io {

namespace {

/// The format that the extension of the path names. Without such an extension, a stream (standard
/// output, a pipe, a device) holds one tensor as npy, and any other path is a folder.
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
  fail("{}: '{}' is no extension of a format that is written ({}; none is a folder); give <format>",
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
  if (!chosen->create) fail("format {} is only read", chosen->name);
  return *chosen;
}

std::unique_ptr<Writer> create(const std::string& path, std::string_view format,
                               const Output& output) {
  return format_to_write(path, format, output).create(path, output);
}

} // namespace mha::io
