#include <mha/formats/folder.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/npy.hpp>

#include <algorithm>
#include <filesystem>

namespace mha::io {

Contents read_folder(const Bytes& folder) {
  return read_folder(folder, false);
}

Contents read_folder(const Bytes& folder, bool void_is_bf16) {
  namespace fs = std::filesystem;
  const std::string& path = folder.name;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (!error) note_folder(path);
  if (error) fail("{}: cannot read the folder: {}", shown(path), error.message());
  std::ranges::sort(names);

  const auto ends_with = [](std::string_view end) {
    return [end](const std::string& name) { return name.ends_with(end) && !name.starts_with('.'); };
  };
  const bool arrays = std::ranges::any_of(names, ends_with(".npy"));
  const bool safetensors = std::ranges::any_of(names, ends_with(".safetensors")) ||
                           std::ranges::any_of(names, ends_with(".safetensors.index.json"));
  if (safetensors || (!arrays && holds_weights(names))) return read_checkpoint(path, names);

  Contents contents;
  contents.name = path;
  contents.format = "folder";
  for (const std::string& name : names) {
    if (!ends_with(".npy")(name)) continue;
    Contents one = read_npy(read_member((fs::path(path) / name).string()), void_is_bf16);
    std::ranges::move(one.tensors, std::back_inserter(contents.tensors));
    std::ranges::move(one.scalars, std::back_inserter(contents.scalars));
    std::ranges::move(one.labels, std::back_inserter(contents.labels));
    std::ranges::move(one.item_labels, std::back_inserter(contents.item_labels));
  }
  if (contents.tensors.empty() && contents.scalars.empty() && contents.labels.empty()) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::string more = views.empty() ? "; it is empty" : "; it holds " + listed(views);
    for (const std::string& name : names)
      if (const std::string cure = foreign_cure((fs::path(path) / name).string()); !cure.empty()) {
        more += fmt::format("; {}: {}", shown(name), cure);
        break;
      }
    fail("{}: a folder with neither .npy files nor a checkpoint's .safetensors or .bin{}",
         shown(path), more);
  }
  return contents;
}

} // namespace mha::io
