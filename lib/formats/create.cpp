#include <mha/formats/create.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/formats.hpp>

#include <fmt/format.h>

#include <filesystem>

#include <sys/stat.h>

namespace mha::io {

namespace {

const Format& format_for(const std::string& path, std::size_t items) {
  const std::string extension = extension_of(path);
  for (const Format& format : formats())
    if (has_extension(format, extension)) return format;
  struct stat status {};
  const bool stream = path == "-" || (::stat(path.c_str(), &status) == 0 &&
                                      !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
  if (stream && items == 1) return format_named("npy");
  if (stream)
    fail("{}: {} tensors in which format? give <format> npz",
         path == "-" ? "standard output" : shown(path), items);
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
      format.empty() ? &format_for(path, output.items.size()) : &format_named(format);
  // A folder that is there, or several tensors as npy: a folder of them.
  std::error_code ignored;
  const bool several = output.items.size() + output.scalars.size() + output.labels.size() +
                           output.item_labels.size() >
                       1;
  if (chosen->name == "npy" && path != "-" && extension_of(path) != ".npy" &&
      (several || path.ends_with('/') || std::filesystem::is_directory(path, ignored)))
    chosen = &format_named("folder");
  if (!chosen->create) fail("format {} is only read", chosen->name);
  return *chosen;
}

std::unique_ptr<Writer> create(const std::string& path, std::string_view format,
                               const Output& output) {
  return format_to_write(path, format, output).create(path, output);
}

} // namespace mha::io
