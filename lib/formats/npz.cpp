// NPZ. In written archives all members are stored, and their elements start at multiples of 64
// bytes, so that they can be mapped. All offsets are known before the first byte is written; the
// checksums of pieces are combined at the end.

#include <mha/files/output_file.hpp>
#include <mha/files/paths.hpp>
#include <mha/files/text.hpp>
#include <mha/files/writer.hpp>
#include <mha/formats/npy.hpp>
#include <mha/formats/zip.hpp>

#include <algorithm>
#include <set>

#include <zlib.h>

namespace mha::io {

Contents read_npz(const Bytes& bytes, bool void_is_bf16) {
  Contents contents;
  contents.name = bytes.name;
  contents.format = "npz";
  contents.run = zip_comment(bytes);
  const std::string path = bytes.name == "standard input" ? "-" : bytes.name;

  std::set<std::string> names;
  for (const ZipMember& member : zip_members(bytes)) {
    constexpr std::string_view end = ".npy";
    if (!member.name.ends_with(end)) continue; // a folder or another file, not an array
    std::string name = member.name.substr(0, member.name.size() - end.size());
    if (!names.insert(name).second) fail("{}: appears twice in the archive", member.where);

    const std::string printed = shown(name);
    const NpyPlace place{bytes.name, shown(bytes.name) + ": " + printed,
                         fmt::format("{}={}:{}", printed, shown(path), printed), void_is_bf16};
    const std::string first = zip_start(bytes, member, 12);
    const std::size_t header_size = npy_header_size(place, first, member.size);
    const NpyHeader header = parse_npy(place, zip_start(bytes, member, header_size), member.size);
    add_npy(contents, place, std::move(name), header,
            [bytes, member, skip = header.offset, alignment = size_of(header.dtype)] {
              return zip_read(bytes, member, skip, alignment);
            });
  }
  return contents;
}

namespace {

constexpr std::uint64_t four_gib = 0xffffffff; // sizes from here on need ZIP64
constexpr std::uint32_t no_date = 0x00210000;  // 1 January 1980: the same bytes on every day
constexpr std::uint16_t padding_id = 0xd935;   // an extra field that means alignment

class ZipFields {
public:
  ZipFields& u16(std::uint64_t value) { return put(value, 2); }
  ZipFields& u32(std::uint64_t value) { return put(value, 4); }
  ZipFields& u64(std::uint64_t value) { return put(value, 8); }
  ZipFields& add(std::string_view more) {
    text.append(more);
    return *this;
  }
  std::string text;

private:
  ZipFields& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
};

struct ZipEntry {
  std::string name;         ///< "W_q.npy"
  std::string start;        ///< NPY header, and the elements if they are known
  std::uint64_t header = 0; ///< offset of the local header
  std::uint64_t data = 0;   ///< offset of `start`
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool is_big() const { return size >= four_gib; }
};

std::uint32_t checksum_of(const void* data, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), size));
}

/// Adds the fields that local and central headers share, from "version needed" on.
void add_common(ZipFields& record, const ZipEntry& member, std::uint64_t version,
                std::uint64_t extra) {
  const std::uint64_t size = member.is_big() ? four_gib : member.size;
  const bool ascii =
      std::ranges::all_of(member.name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  record.u16(version).u16(ascii ? 0 : 1u << 11).u16(0).u32(no_date).u32(member.crc);
  record.u32(size).u32(size).u16(member.name.size()).u16(extra);
}

/// The local header, padded so that the data after it starts at a multiple of 64.
std::string local_header(const ZipEntry& member) {
  ZipFields extra;
  if (member.is_big()) extra.u16(1).u16(16).u64(member.size).u64(member.size);
  const std::uint64_t before = member.header + 30 + member.name.size() + extra.text.size();
  const std::uint64_t gap = (64 - (before + 4) % 64) % 64;
  extra.u16(padding_id).u16(gap).add(std::string(gap, '\0'));
  ZipFields record;
  record.u32(0x04034b50);
  add_common(record, member, member.is_big() ? 45 : 20, extra.text.size());
  return record.add(member.name).add(extra.text).text;
}

std::string central_header(const ZipEntry& member) {
  const bool far = member.header >= four_gib;
  ZipFields fields;
  if (member.is_big()) fields.u64(member.size).u64(member.size);
  if (far) fields.u64(member.header);
  ZipFields extra;
  if (!fields.text.empty()) extra.u16(1).u16(fields.text.size()).add(fields.text);
  const std::uint64_t version = extra.text.empty() ? 20 : 45;
  ZipFields record;
  record.u32(0x02014b50).u16(3u << 8 | version); // made on Unix
  add_common(record, member, version, extra.text.size());
  record.u16(0).u16(0).u16(0).u32(0100644u << 16).u32(far ? four_gib : member.header);
  return record.add(member.name).add(extra.text).text;
}

std::string end_records(std::uint64_t members, std::uint64_t offset, std::uint64_t size,
                        const std::string& comment) {
  ZipFields record;
  if (members >= 0xffff || offset >= four_gib || size >= four_gib) {
    record.u32(0x06064b50).u64(44).u16(3u << 8 | 45).u16(45).u32(0).u32(0);
    record.u64(members).u64(members).u64(size).u64(offset);
    record.u32(0x07064b50).u32(0).u64(offset + size).u32(1);
  }
  const std::uint64_t count = std::min<std::uint64_t>(members, 0xffff);
  record.u32(0x06054b50).u16(0).u16(0).u16(count).u16(count);
  record.u32(std::min(size, four_gib)).u32(std::min(offset, four_gib)).u16(comment.size());
  return record.add(comment).text;
}

class NpzWriter : public Writer {
public:
  NpzWriter(const std::string& path, const Output& output)
      : pieces_(path, output.items), items_(output.items.size()), run_(output.run), file_(path) {
    for (const Item& item : output.items)
      add(path, item.name, npy_header(path, item), count_of(item.shape) * size_of(item.dtype));
    for (auto& [name, npy] : npy_extras(output)) add(path, name, std::move(npy), 0);
    for (const ZipEntry& member : members_) file_.write(member.data, member.start);
  }

  void write(std::size_t item, std::size_t offset, const std::byte* data,
             std::size_t count) override {
    pieces_.check(item, offset, count);
    const std::size_t element = pieces_.element_size(item);
    const ZipEntry& member = members_[item];
    file_.write(member.data + member.start.size() + offset * element, data, count * element);
    pieces_.add(item, offset, count, checksum_of(data, count * element));
  }

  void finish() override {
    std::string directory;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      ZipEntry& member = members_[i];
      uLong crc = checksum_of(member.start.data(), member.start.size());
      if (i < items_)
        for (const WrittenRange& piece : pieces_.whole(i))
          crc = crc32_combine64(crc, piece.crc, static_cast<off64_t>(piece.size));
      member.crc = static_cast<std::uint32_t>(crc);
      file_.write(member.header, local_header(member));
      directory += central_header(member);
    }
    const std::uint64_t size = directory.size();
    file_.write(end_, directory + end_records(members_.size(), end_, size, run_));
    file_.commit();
  }

private:
  void add(const std::string& path, const std::string& name, std::string start,
           std::uint64_t elements) {
    if (!names_.insert(name).second) fail("{}: '{}' would appear twice", shown(path), shown(name));
    if (leads_outside(name))
      fail("{}: '{}' leads out of the folder where an archive is unpacked: write .safetensors or "
           ".json",
           shown(path), shown(name));
    if (name.size() > 60'000) fail("{}: a name of {} bytes", shown(path), name.size());
    ZipEntry member;
    member.name = name + ".npy";
    member.size = start.size() + elements;
    member.start = std::move(start);
    member.header = end_;
    member.data = end_ + local_header(member).size();
    end_ = member.data + member.size;
    members_.push_back(std::move(member));
  }

  WrittenRanges pieces_;
  std::size_t items_; // the first members are items, the others settings and labels
  std::string run_;   // the archive's comment
  OutputFile file_;
  std::set<std::string> names_;
  std::vector<ZipEntry> members_;
  std::uint64_t end_ = 0; // where the directory starts
};

} // namespace

std::unique_ptr<Writer> create_npz(const std::string& path, const Output& output) {
  return std::make_unique<NpzWriter>(path, output);
}

} // namespace mha::io
