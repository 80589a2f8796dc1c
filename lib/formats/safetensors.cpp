#include <mha/formats/safetensors.hpp>

#include <mha/files/pointer.hpp>
#include <mha/files/text.hpp>
#include <mha/formats/json.hpp>
#include <mha/formats/json_scanner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

namespace mha::io {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are mapped as they lie");

constexpr std::uint64_t most_header = 100'000'000; // as the reference implementation
constexpr std::size_t most_safetensors_axes = 32;

constexpr std::pair<std::string_view, DType> dtypes[] = {
    {"F64", DType::f64},     {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
    {"I64", DType::i64},     {"I32", DType::i32}, {"I16", DType::i16}, {"I8", DType::i8},
    {"U64", DType::u64},     {"U32", DType::u32}, {"U16", DType::u16}, {"U8", DType::u8},
    {"BOOL", DType::boolean}};

/// One tensor of the header; begin and end count from the first byte after it.
struct Place {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

class HeaderReader {
public:
  HeaderReader(std::string where, std::string_view text) : scanner_(std::move(where), text) {}

  std::vector<Place> places;
  std::vector<std::pair<std::string, std::string>> metadata;

  void read() {
    std::set<std::string> names;
    each_member([&](const std::string& name, const char* at) {
      if (!names.insert(name).second)
        scanner_.refuse(fmt::format("tensor '{}' is there twice", shown(name)), at);
      if (name == "__metadata__")
        read_metadata();
      else
        places.push_back(tensor(name, at));
    });
    scanner_.finish();
  }

private:
  template <class Use> void each_member(Use use) {
    scanner_.expect('{', "an object");
    if (scanner_.accept('}')) return;
    do {
      scanner_.next();
      const char* at = scanner_.place();
      const std::string key = scanner_.string();
      scanner_.expect(':', "':'");
      use(key, at);
    } while (scanner_.accept(','));
    scanner_.expect('}', "',' or '}'");
  }

  void read_metadata() {
    std::set<std::string> keys;
    each_member([&](const std::string& key, const char* at) {
      if (!keys.insert(key).second)
        scanner_.refuse(fmt::format("metadata '{}' is there twice", shown(key)), at);
      if (scanner_.next() != '"') scanner_.refuse("metadata must be text");
      metadata.emplace_back(key, scanner_.string());
    });
  }

  Place tensor(const std::string& name, const char* begin) {
    Place place;
    place.name = name;
    std::set<std::string> keys;
    each_member([&](const std::string& key, const char* at) {
      if (!keys.insert(key).second)
        scanner_.refuse(fmt::format("'{}' is there twice", shown(key)), at);
      if (key == "dtype") {
        place.dtype = dtype(name);
      } else if (key == "shape") {
        place.shape = numbers<Shape>("the length of an axis");
      } else if (key == "data_offsets") {
        const auto offsets = numbers<std::vector<std::uint64_t>>("an offset");
        if (offsets.size() != 2) scanner_.refuse("data_offsets are two numbers", at);
        place.begin = offsets[0];
        place.end = offsets[1];
      } else {
        scanner_.refuse(fmt::format("'{}' is no key of a tensor", shown(key)), at);
      }
    });
    if (keys.size() != 3)
      scanner_.refuse(fmt::format("'{}' needs dtype, shape and data_offsets", shown(name)), begin);
    return place;
  }

  DType dtype(const std::string& tensor) {
    scanner_.next();
    const char* at = scanner_.place();
    const std::string name = scanner_.string();
    for (const auto& [known, dtype] : dtypes)
      if (name == known) return dtype;
    std::vector<std::string_view> names;
    for (const auto& row : dtypes) names.push_back(row.first);
    scanner_.refuse(fmt::format("'{}' has dtype {}; {} are read: save it as one of them",
                                shown(tensor), shown(name), fmt::join(names, ", ")),
                    at);
  }

  template <class List> List numbers(std::string_view what) {
    List list;
    scanner_.expect('[', "a list of numbers");
    if (scanner_.accept(']')) return list;
    do {
      if (list.size() == most_safetensors_axes)
        scanner_.refuse(fmt::format("more than {} axes", most_safetensors_axes));
      list.push_back(scanner_.integer<std::uint64_t>(what));
    } while (scanner_.accept(','));
    scanner_.expect(']', "',' or ']'");
    return list;
  }

  JsonScanner scanner_;
};

/// Throws Error unless every tensor has as many bytes as its shape says and the tensors fill the
/// rest of the file without gaps or overlaps.
void check_places(const std::string& where, std::vector<Place> places, std::uint64_t size) {
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Place& place : places) {
    const std::string name = shown(place.name);
    require_sensible(fmt::format("{}: {}", where, name), place.shape);
    const auto bytes = bytes_of(place.shape, size_of(place.dtype));
    if (place.end < place.begin || place.end > size)
      fail("{}: {} lies at bytes {} to {}; the file holds {}", where, name, place.begin, place.end,
           size);
    if (!bytes || *bytes != place.end - place.begin)
      fail("{}: {} is {} of {}, {} bytes, yet lies in {}", where, name, to_string(place.shape),
           name_of(place.dtype), bytes ? std::to_string(*bytes) : "more than 2^62",
           place.end - place.begin);
    if (place.begin != at)
      fail("{}: {} starts at byte {}, where the tensor before it ends at {}", where, name,
           place.begin, at);
    at = place.end;
  }
  if (at != size) fail("{}: {} bytes too many after the last tensor", where, size - at);
}

Tensor tensor_at(const Place& place, const Bytes& bytes, std::size_t start) {
  const std::shared_ptr<const std::byte> data =
      in_place(bytes, start + place.begin, place.end - place.begin);
  if (reinterpret_cast<std::uintptr_t>(data.get()) % size_of(place.dtype) == 0)
    return {place.dtype, place.shape, data};
  Tensor copy(place.dtype, place.shape);
  if (copy.bytes() > 0) std::memcpy(copy.raw_mutable(), data.get(), copy.bytes());
  return copy;
}

} // namespace

std::string_view safetensors_name(DType dtype) {
  return std::ranges::find(dtypes, dtype, &std::pair<std::string_view, DType>::second)->first;
}

Contents read_safetensors(const Bytes& bytes) {
  const std::string where = shown(bytes.name);
  refuse_pointer(bytes);
  std::uint64_t length = 0;
  if (bytes.size < sizeof length)
    fail("{}: cut short: {} bytes are no safetensors file", where, bytes.size);
  std::memcpy(&length, bytes.data.get(), sizeof length);
  if (length > most_header)
    fail("{}: a header of {} bytes is no safetensors header; at most {} are read", where, length,
         most_header);
  if (length > bytes.size - sizeof length)
    fail("{}: cut short: the header claims {} bytes, {} are left", where, length,
         bytes.size - sizeof length);
  const std::string_view text = bytes.text().substr(sizeof length, length);
  if (!text.starts_with('{')) fail("{}: the header must start with '{{'", where);

  HeaderReader header(where + ": header", text);
  header.read();
  const std::size_t start = sizeof length + length;
  check_places(where, header.places, bytes.size - start);

  Contents contents;
  contents.name = bytes.name;
  contents.format = "safetensors";
  for (Place& place : header.places) {
    std::string name = place.name;
    const DType dtype = place.dtype;
    Shape shape = place.shape;
    contents.tensors.push_back(
        {std::move(name), dtype, std::move(shape), false,
         [place = std::move(place), bytes, start] { return tensor_at(place, bytes, start); }});
  }
  for (auto& [key, text_value] : header.metadata) {
    if (key == "format") continue; // "pt": which library wrote the file, no setting
    if (key == run_metadata)
      contents.run = text_value;
    else if (auto labels = labels_of_json(text_value))
      contents.labels.emplace_back(key, std::move(*labels));
    else if (auto lists = item_labels_of_json(text_value))
      contents.item_labels.emplace_back(key, std::move(*lists));
    else
      contents.scalars.emplace_back(key, text_value);
  }
  return contents;
}

} // namespace mha::io
