#include <mha/formats/zip.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

#include <zlib.h>

namespace mha::io {

namespace {

constexpr std::uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50, end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::size_t local_size = 30, central_size = 46, end_size = 22, end64_size = 56;
constexpr std::uint64_t unknown32 = 0xffffffff;
/// The most bytes that deflate can make of one byte, and a margin for the start of a block.
constexpr std::uint64_t most_ratio = 1032, most_extra = 64;

/// Reads little-endian numbers from an archive; callers check the offsets.
class ZipReader {
public:
  explicit ZipReader(const Bytes& archive) : text_(archive.text()) {}
  std::uint64_t number(std::uint64_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(text_[at + i]);
    return value;
  }
  std::uint64_t u16(std::uint64_t at) const { return number(at, 2); }
  std::uint64_t u32(std::uint64_t at) const { return number(at, 4); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }
  std::string_view text(std::uint64_t at, std::uint64_t size) const {
    return text_.substr(at, size);
  }
  /// Whether [at, at + size) is before `end`.
  static bool inside(std::uint64_t at, std::uint64_t size, std::uint64_t end) {
    return at <= end && size <= end - at;
  }

private:
  std::string_view text_;
};

struct ZipDirectory {
  std::uint64_t offset = 0, size = 0, members = 0;
};

/// The offset of the end record, after which only a comment of up to 64 KiB may follow.
std::uint64_t find_end(const Bytes& archive, const ZipReader& reader, const std::string& where) {
  if (archive.size < end_size)
    fail("{}: cut short: no ZIP archive has {} bytes", where, archive.size);
  std::uint64_t end = archive.size - end_size;
  const std::uint64_t first = end > 0xffff ? end - 0xffff : 0;
  while (reader.u32(end) != end_signature || reader.u16(end + 20) != archive.size - end - end_size)
    if (end-- == first)
      fail("{}: not a whole ZIP archive: no directory at its end (cut short?)", where);
  return end;
}

ZipDirectory find_directory(const Bytes& archive, const ZipReader& reader,
                            const std::string& where) {
  const std::uint64_t end = find_end(archive, reader, where);
  ZipDirectory directory{reader.u32(end + 16), reader.u32(end + 12), reader.u16(end + 10)};
  if (reader.u16(end + 4) != 0 || reader.u16(end + 8) != reader.u16(end + 10))
    fail("{}: part of a ZIP archive in several files, which is not read", where);
  std::uint64_t limit = end;
  if (end >= 20 && reader.u32(end - 20) == locator64_signature) {
    const std::uint64_t end64 = reader.u64(end - 12);
    if (!ZipReader::inside(end64, end64_size, end - 20) || reader.u32(end64) != end64_signature)
      fail("{}: the ZIP64 record is not at the given offset", where);
    directory = {reader.u64(end64 + 48), reader.u64(end64 + 40), reader.u64(end64 + 32)};
    limit = end64;
  }
  if (!ZipReader::inside(directory.offset, directory.size, limit))
    fail("{}: the ZIP directory claims {} bytes at {}, outside of the file", where, directory.size,
         directory.offset);
  if (directory.members > directory.size / central_size)
    fail("{}: the ZIP directory claims {} members in {} bytes", where, directory.members,
         directory.size);
  return directory;
}

/// Reads ZIP64's extra field, which has, in this order, the fields that do not fit into 32 bits.
void read_zip64(const ZipReader& reader, const ZipMember& member, std::uint64_t at,
                std::uint64_t size, std::initializer_list<std::uint64_t*> fields) {
  const bool wanted = std::ranges::any_of(fields, [](auto* f) { return *f == unknown32; });
  if (!wanted) return;
  while (size >= 4) {
    const std::uint64_t id = reader.u16(at), length = reader.u16(at + 2);
    if (length > size - 4) break;
    if (id == 1) {
      std::uint64_t next = at + 4, left = length;
      for (std::uint64_t* field : fields) {
        if (*field != unknown32) continue;
        if (left < 8) fail("{}: its ZIP64 field is too short", member.where);
        *field = reader.u64(next);
        next += 8;
        left -= 8;
      }
      return;
    }
    at += 4 + length;
    size -= 4 + length;
  }
  // Without the field the value is exactly 4 GiB - 1, which the callers check against the archive.
}

/// Checks the header before the member's bytes, and finds their offset.
void locate(const ZipReader& reader, ZipMember& member, std::uint64_t header, std::uint64_t limit) {
  if (!ZipReader::inside(header, local_size, limit) || reader.u32(header) != local_signature)
    fail("{}: no member at {}, the offset in the ZIP directory", member.where, header);
  const std::uint64_t names = reader.u16(header + 26), extra = reader.u16(header + 28);
  member.offset = header + local_size + names + extra;
  if (!ZipReader::inside(member.offset, member.packed, limit))
    fail("{}: claims {} bytes at {}, beyond the archive's directory", member.where, member.packed,
         header);
  if (reader.text(header + local_size, names) != member.name)
    fail("{}: is called '{}' in its own header", member.where,
         shown(reader.text(header + local_size, names)));
}

/// Inflates a member, and frees zlib's state at the end.
class Inflater {
public:
  Inflater(const Bytes& archive, const ZipMember& member) : member_(member) {
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<std::byte*>(archive.data.get() + member.offset));
    packed_left_ = member.packed;
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) fail("{}: not enough memory", member.where);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Inflates up to `size` bytes; fewer only at the member's end.
  std::size_t read(std::byte* to, std::size_t size) {
    constexpr std::size_t most = std::size_t{1} << 30; // zlib counts in 32 bits
    std::size_t done = 0;
    while (done < size && !ended_) {
      if (stream_.avail_in == 0) {
        stream_.avail_in = static_cast<uInt>(std::min<std::uint64_t>(packed_left_, most));
        packed_left_ -= stream_.avail_in;
      }
      const std::size_t room = std::min(size - done, most);
      stream_.next_out = reinterpret_cast<Bytef*>(to + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = room - stream_.avail_out;
      done += made;
      ended_ = result == Z_STREAM_END;
      if (result != Z_OK && !ended_)
        fail("{}: damaged: {}", member_.where, stream_.msg ? stream_.msg : "its bytes end early");
    }
    return done;
  }
  /// Whether the member ends here: there is neither more output nor input left.
  bool at_end() {
    std::byte more;
    return read(&more, 1) == 0 && packed_left_ == 0 && stream_.avail_in == 0;
  }

private:
  const ZipMember& member_;
  z_stream stream_{};
  std::uint64_t packed_left_ = 0;
  bool ended_ = false;
};

std::uint32_t crc_of(std::uint32_t crc, const std::byte* data, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(data), size));
}

void require_crc(const ZipMember& member, std::uint32_t crc) {
  if (crc != member.crc)
    fail("{}: damaged: its checksum is {:08x}, not {:08x}", member.where, crc, member.crc);
}

} // namespace

std::string zip_comment(const Bytes& archive) {
  const std::uint64_t end = find_end(archive, ZipReader(archive), shown(archive.name));
  return std::string(archive.text().substr(end + end_size));
}

std::vector<ZipMember> zip_members(const Bytes& archive) {
  const ZipReader reader(archive);
  const std::string where = shown(archive.name);
  const ZipDirectory directory = find_directory(archive, reader, where);

  std::vector<ZipMember> members;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places; // first and last byte + 1
  std::uint64_t at = directory.offset;
  const std::uint64_t limit = directory.offset + directory.size;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    if (!ZipReader::inside(at, central_size, limit) || reader.u32(at) != central_signature)
      fail("{}: entry {} of the ZIP directory is damaged", where, i);
    const std::uint64_t flags = reader.u16(at + 8), method = reader.u16(at + 10);
    const std::uint64_t names = reader.u16(at + 28), extra = reader.u16(at + 30);
    const std::uint64_t comment = reader.u16(at + 32);
    if (!ZipReader::inside(at + central_size, names + extra + comment, limit))
      fail("{}: entry {} of the ZIP directory is damaged", where, i);

    ZipMember member;
    member.name = reader.text(at + central_size, names);
    member.where = fmt::format("{}: {}", where, shown(member.name));
    member.crc = static_cast<std::uint32_t>(reader.u32(at + 16));
    member.packed = reader.u32(at + 20);
    member.size = reader.u32(at + 24);
    std::uint64_t header = reader.u32(at + 42);
    read_zip64(reader, member, at + central_size + names, extra,
               {&member.size, &member.packed, &header});
    if ((flags & 1) != 0) fail("{}: encrypted, which is not read", member.where);
    if (method != 0 && method != 8)
      fail("{}: compressed by method {}; stored (0) and deflated (8) are read", member.where,
           method);
    member.deflated = method == 8;
    locate(reader, member, header, directory.offset);
    if (!member.deflated && member.packed != member.size)
      fail("{}: stored in {} bytes, yet {} long", member.where, member.packed, member.size);
    if (member.deflated && member.size / most_ratio > member.packed + most_extra)
      fail("{}: {} bytes out of {}: more than deflate can pack", member.where, member.size,
           member.packed);
    places.emplace_back(header, member.offset + member.packed);
    members.push_back(std::move(member));
    at += central_size + names + extra + comment;
  }
  if (at != limit) fail("{}: the ZIP directory has {} bytes too many", where, limit - at);

  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].first < places[i - 1].second)
      fail("{}: two members of the ZIP archive overlap at byte {}", where, places[i].first);
  return members;
}

std::string zip_start(const Bytes& archive, const ZipMember& member, std::size_t count) {
  std::string start(static_cast<std::size_t>(std::min<std::uint64_t>(count, member.size)), '\0');
  if (member.deflated) {
    Inflater inflater(archive, member);
    start.resize(inflater.read(reinterpret_cast<std::byte*>(start.data()), start.size()));
  } else {
    start = archive.text().substr(member.offset, start.size());
  }
  return start;
}

namespace {

/// Verifies a stored member, and uses it in place if it is aligned. One pass checks and copies it,
/// and drops the pages of a mapped archive from memory.
std::shared_ptr<const std::byte> stored(const Bytes& archive, const ZipMember& member,
                                        std::size_t skip, std::size_t alignment) {
  constexpr std::size_t step = std::size_t{1} << 20;
  const std::byte* const data = archive.data.get() + member.offset;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data + skip) % alignment == 0;
  const std::shared_ptr<std::byte> copy = aligned ? nullptr : memory(member.size - skip);
  std::uint32_t crc = crc_of(0, data, skip);
  for (std::size_t at = skip; at < member.size; at += step) {
    const std::size_t n = std::min<std::size_t>(step, member.size - at);
    crc = crc_of(crc, data + at, n);
    if (copy) std::memcpy(copy.get() + (at - skip), data + at, n);
    const auto* const first = reinterpret_cast<const char*>(data + at);
    forget(archive, first, first + n);
  }
  require_crc(member, crc);
  if (copy) return copy;
  return in_place(archive, member.offset + skip, member.size - skip);
}

} // namespace

std::shared_ptr<const std::byte> zip_read(const Bytes& archive, const ZipMember& member,
                                          std::size_t skip, std::size_t alignment) {
  if (!member.deflated) return stored(archive, member, skip, alignment);
  Inflater inflater(archive, member);
  std::string start(skip, '\0');
  const std::size_t size = member.size - skip;
  const std::shared_ptr<std::byte> data = memory(size);
  auto* first = reinterpret_cast<std::byte*>(start.data());
  if (inflater.read(first, skip) != skip || inflater.read(data.get(), size) != size ||
      !inflater.at_end())
    fail("{}: damaged: not {} bytes, as given in the ZIP directory", member.where, member.size);
  require_crc(member, crc_of(crc_of(0, first, skip), data.get(), size));
  return data;
}

} // namespace mha::io
