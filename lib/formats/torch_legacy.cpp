
#include <mha/files/text.hpp>
#include <mha/formats/torch_values.hpp>

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

namespace mha::io {

namespace {

/// 0x1950a86a20f9469cfc6c, as a long of pickle protocol 2 and in decimal.
constexpr std::string_view mark_bytes = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::string_view mark_decimal = "119547037146038801333356";
constexpr std::int64_t legacy_protocol = 1001;

/// The size of the count before the numbers of each storage.
constexpr std::size_t count_size = sizeof(std::uint64_t);

struct LegacyStorage {
  TorchType type;
  std::uint64_t count = 0;
  std::shared_ptr<const TorchStorage> storage;
};

class LegacyFile {
public:
  LegacyFile(const Bytes& bytes, std::size_t start) : bytes_(bytes), at_(start) {}

  Contents read() {
    const Pickle protocol = next("protocol");
    if (!protocol.is(protocol.root(), PickleKind::integer) ||
        protocol.integer(protocol.root()) != legacy_protocol)
      fail("{}: not of PyTorch's protocol {}, the only one before 1.6", where_, legacy_protocol);
    next("system"); // its byte order is not used: read_storage() finds the order of each storage
    auto file = std::make_shared<PickleFile>(PickleFile{bytes_.data, next("object")});
    const Pickle keys = next("keys");
    collect(file->pickle);
    read_storages(keys);

    Contents contents;
    contents.name = bytes_.name;
    contents.format = "pytorch";
    add_values(contents, file,
               [this](const std::string& where, const std::string& key, const TorchType& type,
                      std::uint64_t count) { return found(where, key, type, count); });
    return contents;
  }

private:
  Pickle next(std::string_view what) {
    Pickle pickle = read_pickle(fmt::format("{}: {}", where_, what), bytes_.text(), at_);
    at_ = pickle.end();
    return pickle;
  }

  /// Collects the type and size of each storage from the persistent ids.
  void collect(const Pickle& pickle) {
    for (PickleRef at = 0; at < pickle.count(); ++at) {
      if (!pickle.is(at, PickleKind::stored)) continue;
      const StoredId id = stored_id(pickle, at, pickle.where());
      const auto [known, added] =
          storages_.try_emplace(id.key, LegacyStorage{id.type, id.count, nullptr});
      if (known->second.type.name != id.type.name || known->second.count != id.count)
        fail("{}: storage {} is declared as {} {} and {} {}", where_, shown(id.key),
             known->second.count, known->second.type.name, id.count, id.type.name);
    }
  }

  void read_storages(const Pickle& keys) {
    for (const PickleRef key : keys.items(keys.root())) {
      std::string name(keys.is_string(key) ? keys.text(key) : std::string_view());
      if (keys.is(key, PickleKind::integer)) name = std::to_string(keys.integer(key));
      const auto known = storages_.find(name);
      if (known == storages_.end())
        fail("{}: storage {} belongs to no tensor, so its size is not known", where_, shown(name));
      if (known->second.storage) fail("{}: storage {} appears twice", where_, shown(name));
      read_storage(name, known->second);
    }
    if (at_ != bytes_.size)
      fail("{}: {} bytes too many after the last storage", where_, bytes_.size - at_);
  }

  /// PyTorch writes the numbers in the same byte order as the count before them.
  void read_storage(const std::string& key, LegacyStorage& to) {
    if (bytes_.size - at_ < count_size)
      fail("{}: cut short: no storage {} at byte {}", where_, shown(key), at_);
    std::uint64_t count = 0, bytes = 0;
    std::memcpy(&count, bytes_.data.get() + at_, count_size);
    const bool swapped = count != to.count && __builtin_bswap64(count) == to.count;
    if (!swapped && count != to.count)
      fail("{}: storage {} has {} numbers at byte {}, but is declared with {}", where_, shown(key),
           count, at_, to.count);
    at_ += count_size;
    if (__builtin_mul_overflow(to.count, to.type.size, &bytes) || bytes > bytes_.size - at_)
      fail("{}: cut short: storage {} has {} numbers of {} bytes, {} bytes are left", where_,
           shown(key), to.count, to.type.size, bytes_.size - at_);
    auto storage = std::make_shared<TorchStorage>();
    storage->dtype = to.type.dtype;
    storage->bytes = bytes;
    storage->swapped = swapped;
    storage->read = [all = bytes_, start = at_](std::uint64_t first, std::uint64_t size) {
      return in_place(all, start + first, size);
    };
    to.storage = std::move(storage);
    at_ += bytes;
  }

  std::shared_ptr<const TorchStorage> found(const std::string& where, const std::string& key,
                                            const TorchType&, std::uint64_t) const {
    const auto known = storages_.find(key);
    if (known == storages_.end() || !known->second.storage)
      fail("{}: its numbers are missing: storage {} is not in the file", where, shown(key));
    return known->second.storage;
  }

  const Bytes& bytes_;
  std::string where_ = shown(bytes_.name);
  std::size_t at_;
  std::unordered_map<std::string, LegacyStorage> storages_;
};

} // namespace

bool is_legacy_mark(const Pickle& pickle) {
  if (!pickle.is(pickle.root(), PickleKind::bytes)) return false;
  const std::string_view text = pickle.text(pickle.root());
  return text == mark_bytes || text == mark_decimal;
}

Contents read_legacy_torch(const Bytes& bytes, std::size_t start) {
  return LegacyFile(bytes, start).read();
}

} // namespace mha::io
