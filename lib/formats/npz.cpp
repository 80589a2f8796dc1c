#include <mha/formats/npz.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/npy.hpp>
#include <mha/formats/zip.hpp>

#include <set>

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
    if (!member.name.ends_with(end)) continue; // a folder's entry, a note: no array
    std::string name = member.name.substr(0, member.name.size() - end.size());
    if (!names.insert(name).second) fail("{}: twice in the archive", member.where);

    const std::string spoken = shown(name);
    const NpyPlace place{bytes.name, shown(bytes.name) + ": " + spoken,
                         fmt::format("{}={}:{}", spoken, shown(path), spoken), void_is_bf16};
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

} // namespace mha::io
