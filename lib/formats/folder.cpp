#include <mha/formats/folder.hpp>

#include <mha/files/inputs.hpp>
#include <mha/files/output_file.hpp>
#include <mha/files/paths.hpp>
#include <mha/files/temporaries.hpp>
#include <mha/files/text.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/foreign.hpp>
#include <mha/formats/npy.hpp>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

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

namespace {

/// Creates the missing folders of a path, and removes them again unless the writing succeeds.
class NewFolders {
public:
  explicit NewFolders(const std::string& path) {
    std::error_code error;
    std::vector<std::filesystem::path> missing;
    for (std::filesystem::path at = std::filesystem::path(path + "/").parent_path();
         !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path())
      missing.push_back(at);
    for (; !missing.empty(); missing.pop_back()) {
      const Uninterrupted making;
      if (std::filesystem::create_directory(missing.back(), error))
        made_.emplace_front(missing.back().string(), Temporary::Kind::folder);
      else if (error)
        fail("{}: cannot make the folder: {}", shown(missing.back().string()), error.message());
    }
    if (!std::filesystem::is_directory(path, error))
      fail("{}: cannot write: not a folder", shown(path));
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  void keep() {
    for (Temporary& folder : made_) folder.keep();
  }

private:
  std::deque<Temporary> made_; // inner folders first, since only empty folders can be removed
};

class FolderWriter : public Writer {
public:
  FolderWriter(const std::string& path, const Output& output)
      : path_(path), pieces_(path, output.items), folders_(path) {
    require_no_input(path, true);
    const auto extras = npy_extras(output);
    parked_ =
        output.items.size() + extras.size() > 64; // the system limits how many files may be open
    for (const Item& item : output.items) {
      headers_.push_back(npy_header(path, item).size());
      add(item.name, npy_header(path, item));
    }
    for (const auto& [name, npy] : extras) add(name, npy);
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    pieces_.check(item, offset, count);
    const std::size_t element = pieces_.element_size(item);
    files_[item]->write(headers_[item] + offset * element, data, count * element);
    pieces_.add(item, offset, count);
  }

  void finish() override {
    for (std::size_t i = 0; i < headers_.size(); ++i) pieces_.whole(i);
    for (const auto& file : files_) file->close();
    const Uninterrupted together;
    try {
      for (const auto& file : files_) file->publish();
    } catch (...) {
      for (const auto& file : files_) file->withdraw();
      throw;
    }
    for (const auto& file : files_) file->settle();
    folders_.keep();
  }

private:
  void add(const std::string& name, const std::string& start) {
    if (name.empty() || name != path_component(name))
      fail("{}: '{}' cannot be a file's name: write .npz, .safetensors or .json", shown(path_),
           shown(name));
    if (!names_.insert(name).second) fail("{}: '{}' would appear twice", shown(path_), shown(name));
    files_.push_back(std::make_unique<OutputFile>(
        (std::filesystem::path(path_) / (name + ".npy")).string(), parked_));
    files_.back()->write(0, start);
  }

  std::string path_;
  WrittenRanges pieces_;
  NewFolders folders_; // declared before the files, which must be removed first
  bool parked_ = false;
  std::set<std::string> names_;
  std::vector<std::size_t> headers_; // sizes of the items' headers
  std::vector<std::unique_ptr<OutputFile>> files_;
};

} // namespace

std::unique_ptr<Writer> create_folder(const std::string& path, const Output& output) {
  if (path == "-") fail("standard output: a folder cannot be written there; choose another format");
  return std::make_unique<FolderWriter>(path, output);
}

} // namespace mha::io
