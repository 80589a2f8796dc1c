#include <mha/formats/torch_values.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/npy.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

namespace {

/// The parts of a pickled array.
struct PickledArray {
  PickleRef shape = 0, dtype = 0, data = 0;
  bool fortran = false;
};

[[noreturn]] void refuse_array(const std::string& where) {
  fail("{}: not an array as NumPy pickles it", where);
}

PickledArray array_of(const Pickle& pickle, const std::string& where, PickleRef value) {
  const auto given = pickle.arguments(value);
  switch (pickle.call(value)) {
  case PickleCall::number: // scalar(dtype, bytes)
    if (given.size() != 2) refuse_array(where);
    return {0, given[0], given[1]};
  case PickleCall::flat_array: { // _frombuffer(bytes, dtype, shape, order)
    if (given.size() != 4 || !pickle.is_string(given[3])) refuse_array(where);
    return {given[2], given[1], given[0], pickle.text(given[3]) == "F"};
  }
  default: { // _reconstruct(…), then (version, shape, dtype, fortran, bytes)
    auto state = pickle.items(pickle.state(value));
    if (state.size() == 5) state = state.subspan(1);
    if (state.size() != 4) refuse_array(where);
    const bool fortran =
        (pickle.is(state[2], PickleKind::boolean) && pickle.truth(state[2])) ||
        (pickle.is(state[2], PickleKind::integer) && pickle.integer(state[2]) != 0);
    return {state[0], state[1], state[3], fortran};
  }
  }
}

/// "<f4" for dtype("f4") with the state (3, "<", …).
std::string pickled_descr(const Pickle& pickle, const std::string& where, PickleRef dtype,
                          bool& structured) {
  const bool is_dtype =
      pickle.is(dtype, PickleKind::call) && pickle.call(dtype) == PickleCall::dtype;
  if (!is_dtype) refuse_array(where);
  const PickleRef code = pickle.arguments(dtype)[0];
  if (!pickle.is_string(code)) refuse_array(where);
  const auto state = pickle.items(pickle.state(dtype));
  const bool has_order = state.size() > 1 && pickle.is_string(state[1]);
  structured = state.size() > 3 && !pickle.is(state[3], PickleKind::none);
  return std::string(has_order ? pickle.text(state[1]) : "=") + std::string(pickle.text(code));
}

Shape shape_of_array(const Pickle& pickle, const std::string& where, PickleRef tuple) {
  constexpr std::size_t most = 1024; // the array's own limit is far below
  Shape shape;
  if (tuple == 0) return shape; // a number
  if (!pickle.is(tuple, PickleKind::tuple) || pickle.items(tuple).size() > most)
    refuse_array(where);
  for (const PickleRef length : pickle.items(tuple)) {
    if (!pickle.is(length, PickleKind::integer) || pickle.integer(length) < 0) refuse_array(where);
    shape.push_back(static_cast<std::size_t>(pickle.integer(length)));
  }
  return shape;
}

/// The number of characters in a UTF-8 text, or nothing if one is 256 or above.
std::optional<std::size_t> count_latin1(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i, ++count) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) continue;
    const bool two =
        (byte == 0xc2 || byte == 0xc3) && i + 1 < text.size() && continues_utf8(text[i + 1]);
    if (!two) return std::nullopt;
    ++i;
  }
  return count;
}

std::shared_ptr<const std::byte> bytes_of_latin1(std::string_view text, std::size_t count) {
  const std::shared_ptr<std::byte> data = memory(count);
  std::byte* to = data.get();
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80)
      byte = static_cast<unsigned char>(byte << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    *to++ = static_cast<std::byte>(byte);
  }
  return data;
}

} // namespace

void add_pickled_array(Contents& contents, const std::shared_ptr<const PickleFile>& file,
                       std::string name, PickleRef value) {
  const Pickle& pickle = file->pickle;
  const std::string printed = shown(name), path = shown(contents.name);
  const NpyPlace place{contents.name, fmt::format("{}: {}", path, printed),
                       fmt::format("{}={}:{}", printed, path, printed), false};
  const PickledArray array = array_of(pickle, place.where, value);
  NpyLiteral literal;
  literal.descr = pickled_descr(pickle, place.where, array.dtype, literal.structured);
  literal.fortran = array.fortran;
  literal.shape = shape_of_array(pickle, place.where, array.shape);

  const bool has_bytes = pickle.is(array.data, PickleKind::bytes);
  const std::string_view data = has_bytes ? pickle.text(array.data) : std::string_view();
  const bool latin1 = has_bytes && pickle.is_latin1(array.data);
  std::optional<std::size_t> size = data.size();
  if (latin1) {
    // A pickle may use one text as the bytes of very many arrays.
    const auto [known, added] = file->latin1_sizes.try_emplace(data.data());
    if (added) known->second = count_latin1(data);
    size = known->second;
  }
  if (!size) fail("{}: bytes written as text, with a character beyond Latin-1", place.where);
  const NpyHeader header = npy_header(place, literal, *size);
  if (!has_bytes) refuse_array(place.where);
  add_npy(contents, place, std::move(name), header, [file, data, latin1, size = *size] {
    if (latin1) return bytes_of_latin1(data, size);
    return std::shared_ptr<const std::byte>(file, reinterpret_cast<const std::byte*>(data.data()));
  });
}

} // namespace mha::io
