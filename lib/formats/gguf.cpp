#include <mha/formats/gguf.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/unaligned.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <set>

namespace mha::io {

namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF values are read without byte swaps, so the machine must be little-endian");

constexpr std::uint32_t max_gguf_axes = 4, string_type = 8, array_type = 9;
constexpr int max_array_depth = 8;

/// The size in bytes of each GGUF value type, by type number; 0 for strings and arrays, which store
/// their own length.
constexpr std::array<std::size_t, 13> gguf_value_sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// The tensor types of GGUF by number. An unquantised type has a dtype; a block-quantised one is
/// looked up by name with find_block_type; any other is listed only for the error message.
struct GgufElementType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> dtype = std::nullopt;
};
constexpr std::array<GgufElementType, 41> gguf_element_types{{
    {0, "F32", DType::f32},
    {1, "F16", DType::f16},
    {2, "Q4_0"},
    {3, "Q4_1"},
    {4, "Q4_2"},
    {5, "Q4_3"},
    {6, "Q5_0"},
    {7, "Q5_1"},
    {8, "Q8_0"},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K"},
    {13, "Q5_K"},
    {14, "Q6_K"},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8", DType::i8},
    {25, "I16", DType::i16},
    {26, "I32", DType::i32},
    {27, "I64", DType::i64},
    {28, "F64", DType::f64},
    {29, "IQ1_M"},
    {30, "BF16", DType::bf16},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"},
    {39, "MXFP4"},
    {40, "NVFP4"},
}};

/// Reads a header from its front; every step is checked against the end.
class GgufReader {
public:
  explicit GgufReader(const Bytes& bytes)
      : file_name_(shown(bytes.name)),
        begin_(bytes.text().data()),
        at_(begin_),
        end_(begin_ + bytes.size) {}

  const char* current() const { return at_; }
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }
  const std::string& file_name() const { return file_name_; }

  const char* skip(std::uint64_t size, std::string_view what) {
    if (size > bytes_left())
      fail("{}: cut short in {}: {} bytes wanted at byte {}, {} are left", file_name_, what, size,
           offset(), bytes_left());
    const char* first = at_;
    at_ += size;
    return first;
  }
  template <class T> T take(std::string_view what) { return unaligned<T>(skip(sizeof(T), what)); }
  std::string_view text(std::string_view what) {
    const auto size = take<std::uint64_t>(what);
    return {skip(size, what), size};
  }
  /// Reads a string that must be valid UTF-8.
  std::string name(std::string_view what) {
    const std::size_t first = offset();
    std::string text(this->text(what));
    if (invalid_utf8(text) != std::string::npos)
      fail("{}: {} at byte {} is not UTF-8", file_name_, what, first);
    return text;
  }

  /// Records the type, element count and position of a key's value, and skips its bytes.
  GgufValue skip_value(const std::string& key) {
    const std::string what = fmt::format("the value of '{}'", shown(key));
    auto type = take<std::uint32_t>(what);
    GgufValue value;
    value.is_array = type == array_type;
    if (value.is_array) {
      type = take<std::uint32_t>(what);
      value.count = take<std::uint64_t>(what);
    }
    value.at = at_;
    check_and_skip(type, value.count, what, 0);
    value.type = static_cast<GgufType>(type);
    return value;
  }

private:
  void check_and_skip(std::uint32_t type, std::uint64_t count, const std::string& what, int depth) {
    if (type >= gguf_value_sizes.size())
      fail("{}: {} has type {}; types are 0 to {}", file_name_, what, type,
           gguf_value_sizes.size() - 1);
    const std::size_t size = gguf_value_sizes[type];
    if (size > 0) {
      if (count > bytes_left() / size)
        fail("{}: cut short: {} has {} elements of {} bytes, {} bytes are left", file_name_, what,
             count, size, bytes_left());
      const char* first = skip(count * size, what);
      if (type == static_cast<std::uint32_t>(GgufType::boolean))
        for (std::uint64_t i = 0; i < count; ++i)
          if (static_cast<unsigned char>(first[i]) > 1)
            fail("{}: {} is a bool of {}; 0 or 1 expected", file_name_, what,
                 static_cast<int>(static_cast<unsigned char>(first[i])));
      return;
    }
    if (depth > max_array_depth)
      fail("{}: {} is nested more than {} deep", file_name_, what, max_array_depth);
    // A string stores at least its length, an array its type and its length.
    if (count > bytes_left() / 8)
      fail("{}: cut short: {} has {} elements, {} bytes are left", file_name_, what, count,
           bytes_left());
    for (std::uint64_t i = 0; i < count; ++i)
      if (type == string_type) {
        text(what);
      } else {
        const auto inner = take<std::uint32_t>(what);
        const auto length = take<std::uint64_t>(what);
        check_and_skip(inner, length, what, depth + 1);
      }
  }

  std::string file_name_;
  const char *begin_, *at_, *end_;
};

std::uint32_t read_gguf_version(GgufReader& reader) {
  if (!is_gguf(std::string_view(reader.current(), std::min<std::size_t>(reader.bytes_left(), 4))))
    fail("{}: not a GGUF file: it must start with 'GGUF'", reader.file_name());
  reader.skip(4, "the header");
  const auto version = reader.take<std::uint32_t>("the header");
  if (version == 2 || version == 3) return version;
  if (__builtin_bswap32(version) == 3 || __builtin_bswap32(version) == 2)
    fail("{}: written on a big-endian machine, which is not read; convert the model again on a "
         "little-endian one",
         reader.file_name());
  fail("{}: GGUF version {}; 2 and 3 are read: convert the model again with today's llama.cpp",
       reader.file_name(), version);
}

/// Sets the tensor's type and its dtype or block type; throws Error that names a type this program
/// cannot read.
void set_gguf_type(const GgufReader& reader, GgufTensor& tensor, std::uint32_t number) {
  const std::string what = fmt::format("{}: {}", reader.file_name(), shown(tensor.name));
  const auto* type = std::ranges::find(gguf_element_types, number, &GgufElementType::number);
  if (type == gguf_element_types.end())
    fail("{} has the type number {}, which is not known here", what, number);
  tensor.type = type->name;
  if (type->dtype) {
    tensor.dtype = *type->dtype;
    return;
  }
  tensor.blocks = find_block_type(type->name);
  if (tensor.blocks) return;
  std::vector<std::string_view> read;
  for (const GgufElementType& known : gguf_element_types)
    if (known.dtype || find_block_type(known.name)) read.push_back(known.name);
  fail("{} is {}, which is not read; {} are: quantise the model as one of them", what, type->name,
       fmt::join(read, ", "));
}

/// Reads name, type and shape of a tensor, and its offset in the data.
std::pair<GgufTensor, std::uint64_t> read_gguf_tensor(GgufReader& reader) {
  GgufTensor tensor;
  tensor.name = reader.name("a tensor's name");
  const std::string what = fmt::format("the place of tensor '{}'", shown(tensor.name));
  const auto axes = reader.take<std::uint32_t>(what);
  if (axes > max_gguf_axes)
    fail("{}: {} has {} axes; at most {} are read", reader.file_name(), shown(tensor.name), axes,
         max_gguf_axes);
  tensor.shape.resize(axes);
  // GGUF lists the fastest-varying axis first, Shape lists it last.
  for (std::size_t i = axes; i-- > 0;) tensor.shape[i] = reader.take<std::uint64_t>(what);
  set_gguf_type(reader, tensor, reader.take<std::uint32_t>(what));
  return {std::move(tensor), reader.take<std::uint64_t>(what)};
}

/// The bytes of a tensor.
std::uint64_t bytes_of_tensor(const std::string& file_name, const GgufTensor& tensor) {
  const std::string name = shown(tensor.name);
  require_sensible(fmt::format("{}: {}", file_name, name), tensor.shape);
  if (!tensor.blocks) {
    const auto bytes = bytes_of(tensor.shape, size_of(tensor.dtype));
    if (!bytes)
      fail("{}: {} is {}: more bytes than a file can have", file_name, name,
           to_string(tensor.shape));
    return *bytes;
  }
  const BlockType& blocks = *tensor.blocks;
  if (tensor.shape.empty() || tensor.shape.back() % blocks.elements != 0)
    fail("{}: {} is {} of {}: its rows are not a whole number of blocks of {}", file_name, name,
         to_string(tensor.shape), blocks.name, blocks.elements);
  Shape in_blocks = tensor.shape;
  in_blocks.back() /= blocks.elements;
  const auto bytes = bytes_of(in_blocks, blocks.bytes);
  if (!bytes)
    fail("{}: {} is {}: more bytes than a file can have", file_name, name, to_string(tensor.shape));
  return *bytes;
}

/// Reads the tensor list after the keys, checks that every tensor is aligned, is within the data
/// and overlaps no other, and appends them to `into`.
void read_gguf_tensors(GgufReader& reader, const Bytes& bytes, std::uint64_t count,
                       const Gguf& file, std::vector<GgufTensor>& into) {
  const std::int64_t alignment = file.integer("general.alignment").value_or(32);
  if (alignment < 8 || alignment % 8 != 0 || alignment > (1 << 20))
    fail("{}: general.alignment is {}: a multiple of 8 expected", reader.file_name(), alignment);
  const auto alignment_bytes = static_cast<std::uint64_t>(alignment);
  std::vector<std::pair<GgufTensor, std::uint64_t>> tensors_and_offsets;
  for (std::uint64_t i = 0; i < count; ++i) tensors_and_offsets.push_back(read_gguf_tensor(reader));
  const std::uint64_t data_begin =
      (reader.offset() + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  const std::uint64_t data_size = bytes.size > data_begin ? bytes.size - data_begin : 0;
  const auto shared_file = std::make_shared<const Bytes>(bytes);
  struct TensorBytes {
    std::uint64_t begin, end;
    std::string_view name;
  };
  std::vector<TensorBytes> places;
  for (auto& [tensor, offset] : tensors_and_offsets) {
    const std::uint64_t length = bytes_of_tensor(reader.file_name(), tensor);
    if (offset % alignment_bytes != 0)
      fail("{}: {} is at byte {} of the data, not a multiple of {}", reader.file_name(),
           shown(tensor.name), offset, alignment_bytes);
    if (offset > data_size || length > data_size - offset)
      fail("{}: cut short: {} is {} of {}, {} bytes from byte {} of the data on, which has {}",
           reader.file_name(), shown(tensor.name), to_string(tensor.shape), tensor.type, length,
           offset, data_size);
    if (length > 0) places.push_back({offset, offset + length, tensor.name});
    tensor.file = shared_file, tensor.first = data_begin + offset, tensor.bytes = length;
  }
  std::ranges::sort(places, {}, &TensorBytes::begin);
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end)
      fail("{}: {} begins at byte {} of the data, before {} ends", reader.file_name(),
           shown(places[i].name), places[i].begin, shown(places[i - 1].name));
  for (auto& [tensor, offset] : tensors_and_offsets) into.push_back(std::move(tensor));
}

/// Reads one file: its keys into `file`, its tensors appended to `tensors`.
void read_gguf_file(const Bytes& bytes, Gguf& file, std::vector<GgufTensor>& tensors) {
  GgufReader reader(bytes);
  read_gguf_version(reader);
  const auto tensor_count = reader.take<std::uint64_t>("the header"),
             key_count = reader.take<std::uint64_t>("the header");
  // The smallest tensor entry takes 24 bytes, the smallest key 13.
  if (tensor_count > reader.bytes_left() / 24 || key_count > reader.bytes_left() / 13)
    fail("{}: cut short: {} tensors and {} keys in {} bytes", reader.file_name(), tensor_count,
         key_count, reader.bytes_left());
  for (std::uint64_t i = 0; i < key_count; ++i) {
    std::string key = reader.name("a key");
    const GgufValue value = reader.skip_value(key);
    if (!file.keys.emplace(key, value).second)
      fail("{}: the key '{}' appears twice", reader.file_name(), shown(key));
  }
  read_gguf_tensors(reader, bytes, tensor_count, file, tensors);
}

/// "model-00002-of-00003.gguf" as "model-" and "-of-00003.gguf"; nothing if the file is not named
/// as one of `count` shards.
std::optional<std::pair<std::string, std::string>> around_number(const std::string& path,
                                                                 std::int64_t count) {
  const std::string of = fmt::format("-of-{:05}", count);
  const std::size_t end = path.rfind(of);
  if (end == std::string::npos || end < 5 || path.find('/', end) != std::string::npos)
    return std::nullopt;
  if (!is_number(path.substr(end - 5, 5))) return std::nullopt;
  return std::pair(path.substr(0, end - 5), path.substr(end));
}

/// Reads all shards of a model, one of which is `bytes`. The keys of the first shard are used.
void read_gguf_shards(const Bytes& bytes, std::int64_t count, Gguf& file) {
  const auto around = around_number(bytes.name, count);
  if (!around)
    fail("{}: one of {} shards, which is not named as such: NAME-00001-of-{:05}.gguf expected",
         shown(bytes.name), count, count);
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::string path = fmt::format("{}{:05}{}", around->first, i, around->second);
    std::error_code ignored; // any other error is reported when the shard is opened
    if (path != bytes.name &&
        std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found)
      fail("{}: shard {} of {} is missing: {}", shown(bytes.name), i, count, shown(path));
    Gguf shard;
    shard.name = path;
    file.files.push_back(path == bytes.name ? bytes : read_member(path));
    read_gguf_file(file.files.back(), shard, file.tensors);
    if (shard.integer("split.count").value_or(0) != count ||
        shard.integer("split.no").value_or(-1) != i - 1)
      fail("{}: shard {} of {} by its name, but not by split.no and split.count in it", shown(path),
           i, count);
    if (i == 1) file.keys = std::move(shard.keys);
  }
}

} // namespace

bool is_gguf(std::string_view first_bytes) {
  return first_bytes.starts_with("GGUF");
}

Gguf open_gguf(const Bytes& bytes) {
  Gguf file;
  file.name = bytes.name;
  {
    // Reads this file for its split.count. If it is one of several shards, all of them are then
    // read in shard order.
    Gguf this_file;
    this_file.name = bytes.name;
    read_gguf_file(bytes, this_file, this_file.tensors);
    const std::int64_t shards = this_file.integer("split.count").value_or(1);
    if (shards < 1 || shards > 99999)
      fail("{}: split.count is {}: 1 to 99999 expected", shown(bytes.name), shards);
    if (shards == 1)
      file.files.push_back(bytes), file.keys = std::move(this_file.keys),
                                   file.tensors = std::move(this_file.tensors);
    else
      read_gguf_shards(bytes, shards, file);
  }
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : file.tensors)
    if (!names.insert(tensor.name).second)
      fail("{}: tensor '{}' appears twice", shown(bytes.name), shown(tensor.name));
  if (const auto wanted = file.integer("split.tensors.count");
      wanted && *wanted != static_cast<std::int64_t>(file.tensors.size()))
    fail("{}: split.tensors.count is {}, but the shards have {} tensors", shown(bytes.name),
         *wanted, file.tensors.size());
  return file;
}

} // namespace mha::io
