#include <mha/formats/torch.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/torch_values.hpp>
#include <mha/formats/zip.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace mha::io {

namespace {

constexpr std::string_view data_pickle = "data.pkl";
/// A compressed pickle is unpacked as a whole.
constexpr std::uint64_t most_unpacked = std::uint64_t{256} << 20;

/// "archive/" for a member "archive/data.pkl"; "" for any other.
std::string_view top_of(std::string_view member) {
  const std::size_t slash = member.find('/');
  if (slash == member.npos || member.substr(slash + 1) != data_pickle) return "";
  return member.substr(0, slash + 1);
}

/// An archive with its members by name.
struct TorchArchive {
  Bytes bytes;
  std::vector<ZipMember> members;
  std::unordered_map<std::string_view, const ZipMember*> by_name;
  std::string top; ///< "archive/"
  bool swapped = false;
  std::unordered_map<std::string, std::shared_ptr<const TorchStorage>> storages = {};

  const ZipMember* find(std::string_view name) const {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  }
};

std::shared_ptr<TorchArchive> opened_archive(const Bytes& bytes) {
  auto archive = std::make_shared<TorchArchive>();
  archive->bytes = bytes;
  archive->members = zip_members(bytes);
  for (const ZipMember& member : archive->members) {
    if (!archive->by_name.emplace(member.name, &member).second)
      fail("{}: appears twice in the archive", member.where);
    const std::string_view top = top_of(member.name);
    if (top.empty()) continue;
    if (!archive->top.empty())
      fail("{}: two models in one archive: {}{} and {}", shown(bytes.name), shown(archive->top),
           data_pickle, shown(member.name));
    archive->top = top;
  }
  if (archive->top.empty())
    fail("{}: a ZIP archive without a NAME/data.pkl: not from PyTorch", shown(bytes.name));
  if (const ZipMember* order = archive->find(archive->top + "byteorder")) {
    const std::string text = zip_start(bytes, *order, 16);
    if (text != "little" && text != "big")
      fail("{}: '{}' is not a byte order; little or big expected", order->where, shown(text));
    archive->swapped = text == "big";
  }
  return archive;
}

/// The bytes of a member; those of a stored member are used in place. Checksums are verified only
/// for compressed members: PyTorch itself may write none, and the check would slow reading down.
std::shared_ptr<const std::byte> member_bytes(const Bytes& bytes, const ZipMember& member) {
  if (member.deflated) return zip_read(bytes, member, 0, 1);
  return in_place(bytes, member.offset, member.size);
}

/// Finds storages in one folder of an archive, where each is a member of its own.
FindStorage storages_of(const std::shared_ptr<TorchArchive>& archive, std::string_view folder) {
  return [archive, folder = std::string(folder)](
             const std::string& where, const std::string& key, const TorchType& type,
             std::uint64_t count) -> std::shared_ptr<const TorchStorage> {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, type.size, &bytes))
      fail("{}: a storage of {} numbers", where, count);
    std::shared_ptr<const TorchStorage>& known = archive->storages[folder + key];
    if (!known) {
      const std::string name = fmt::format("{}{}{}", archive->top, folder, key);
      const ZipMember* member = archive->find(name);
      if (!member) fail("{}: its numbers are missing: no {} in the archive", where, shown(name));
      auto storage = std::make_shared<TorchStorage>();
      storage->dtype = type.dtype;
      storage->bytes = member->size;
      storage->swapped = archive->swapped;
      storage->read = [bytes = archive->bytes, member = *member](std::uint64_t first,
                                                                 std::uint64_t size) {
        if (!member.deflated) return in_place(bytes, member.offset + first, size);
        const std::shared_ptr<const std::byte> all = zip_read(bytes, member, 0, 64);
        return std::shared_ptr<const std::byte>(all, all.get() + first);
      };
      known = std::move(storage);
    }
    if (known->bytes != bytes)
      fail("{}: a storage of {} numbers, {} bytes, yet {}{}{} has {}", where, count, bytes,
           shown(archive->top), folder, shown(key), known->bytes);
    return known;
  };
}

std::shared_ptr<PickleFile> pickle_of(const Bytes& bytes, const ZipMember& member) {
  if (member.deflated && member.size > most_unpacked)
    fail("{}: a packed pickle of {} bytes; at most {} are read", member.where, member.size,
         most_unpacked);
  const std::shared_ptr<const std::byte> data = member_bytes(bytes, member);
  const std::string_view text(reinterpret_cast<const char*>(data.get()), member.size);
  return std::make_shared<PickleFile>(PickleFile{data, read_pickle(member.where, text)});
}

/// Adds the weights of a frozen TorchScript module, which are constants of its code and have their
/// names there: CONSTANTS.c0, CONSTANTS.c1 …
void add_constants(Contents& contents, const std::shared_ptr<TorchArchive>& archive,
                   const ZipMember& member) {
  Contents constants;
  constants.name = contents.name;
  add_values(constants, pickle_of(archive->bytes, member), storages_of(archive, "constants/"));
  for (Entry& entry : constants.tensors) {
    entry.name.insert(0, "CONSTANTS.c");
    contents.tensors.push_back(std::move(entry));
  }
}

Contents read_archive(const Bytes& bytes) {
  const std::shared_ptr<TorchArchive> archive = opened_archive(bytes);
  Contents contents;
  contents.name = bytes.name;
  const ZipMember* constants = archive->find(archive->top + "constants.pkl");
  contents.format = constants ? "torchscript" : "pytorch";
  add_values(contents, pickle_of(bytes, *archive->find(archive->top + std::string(data_pickle))),
             storages_of(archive, "data/"));
  if (constants && contents.tensors.empty()) add_constants(contents, archive, *constants);
  return contents;
}

Contents read_plain(const Bytes& bytes, Pickle pickle) {
  if (pickle.end() != bytes.size)
    fail("{}: {} bytes too many after the pickle", shown(bytes.name), bytes.size - pickle.end());
  Contents contents;
  contents.name = bytes.name;
  contents.format = "pickle";
  const auto file = std::make_shared<PickleFile>(PickleFile{bytes.data, std::move(pickle)});
  add_values(contents, file,
             [](const std::string& where, const std::string&, const TorchType&,
                std::uint64_t) -> std::shared_ptr<const TorchStorage> {
               fail("{}: its numbers are not in the pickle: save it with torch.save", where);
             });
  return contents;
}

} // namespace

bool begins_as_torch(std::span<const std::byte> first) {
  const std::string_view text(reinterpret_cast<const char*>(first.data()), first.size());
  if (text.starts_with("PK\3\4")) return true;
  return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
}

bool is_torch_archive(const Bytes& bytes) {
  return bytes.text().starts_with("PK\3\4") &&
         std::ranges::any_of(zip_members(bytes),
                             [](const ZipMember& member) { return !top_of(member.name).empty(); });
}

bool may_be_old_pickle(const Bytes& bytes) {
  const std::string extension = extension_of(bytes.name);
  const bool named = extension == ".pkl" || extension == ".pickle";
  return named && bytes.size > 0 &&
         std::string_view("(c]}").find(bytes.text()[0]) != std::string_view::npos;
}

Contents read_torch(const Bytes& bytes) {
  if (bytes.text().starts_with("PK\3\4")) return read_archive(bytes);
  Pickle first = read_pickle(shown(bytes.name), bytes.text());
  if (is_legacy_mark(first)) return read_legacy_torch(bytes, first.end());
  return read_plain(bytes, std::move(first));
}

} // namespace mha::io
