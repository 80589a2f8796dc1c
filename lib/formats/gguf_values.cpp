// Reads the values of GGUF's keys from the file.

#include <mha/formats/gguf.hpp>

#include <mha/files/text.hpp>
#include <mha/system/unaligned.hpp>

#include <cstring>

namespace mha::io {

std::optional<std::int64_t> GgufValue::integer(std::uint64_t index) const {
  if (index >= count) return std::nullopt;
  switch (type) {
  case GgufType::u8:
    return unaligned<std::uint8_t>(at + index);
  case GgufType::i8:
    return unaligned<std::int8_t>(at + index);
  case GgufType::u16:
    return unaligned<std::uint16_t>(at + 2 * index);
  case GgufType::i16:
    return unaligned<std::int16_t>(at + 2 * index);
  case GgufType::u32:
    return unaligned<std::uint32_t>(at + 4 * index);
  case GgufType::i32:
    return unaligned<std::int32_t>(at + 4 * index);
  case GgufType::i64:
    return unaligned<std::int64_t>(at + 8 * index);
  case GgufType::u64: {
    const auto value = unaligned<std::uint64_t>(at + 8 * index);
    if (value >> 63 == 0) return static_cast<std::int64_t>(value);
    return std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

std::optional<double> GgufValue::number(std::uint64_t index) const {
  if (const auto whole = integer(index)) return static_cast<double>(*whole);
  if (index >= count) return std::nullopt;
  if (type == GgufType::f32) return static_cast<double>(unaligned<float>(at + 4 * index));
  if (type == GgufType::f64) return unaligned<double>(at + 8 * index);
  return std::nullopt;
}

std::optional<bool> GgufValue::boolean(std::uint64_t index) const {
  if (type != GgufType::boolean || index >= count) return std::nullopt;
  return at[index] != 0;
}

std::optional<std::string_view> GgufValue::text() const {
  if (type != GgufType::text || is_array) return std::nullopt;
  return std::string_view(at + 8, unaligned<std::uint64_t>(at));
}

bool GgufValue::each_text(const std::function<void(std::string_view)>& use) const {
  if (type != GgufType::text || !is_array) return false;
  const char* from = at;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto size = unaligned<std::uint64_t>(from);
    use({from + 8, size});
    from += 8 + size;
  }
  return true;
}

std::string GgufValue::written() const {
  if (const auto whole_text = text()) return std::string(*whole_text);
  std::string list;
  const auto add = [&](std::string_view word) {
    if (!list.empty()) list += ',';
    list += word;
  };
  each_text(add);
  if (type == GgufType::text || type == GgufType::array) return list;
  for (std::uint64_t i = 0; i < count; ++i)
    if (const auto truth = boolean(i))
      add(*truth ? "true" : "false");
    else if (type == GgufType::f32)
      add(number_text(unaligned<float>(at + 4 * i)));
    else if (type == GgufType::f64)
      add(number_text(unaligned<double>(at + 8 * i)));
    else if (const auto whole = integer(i))
      add(std::to_string(*whole));
    else
      add(std::to_string(unaligned<std::uint64_t>(at + 8 * i)));
  return list;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto at = keys.find(key);
  return at == keys.end() ? nullptr : &at->second;
}

namespace {

template <class T>
std::optional<T> gguf_value(const Gguf& file, std::string_view key, std::string_view kind,
                            const std::function<std::optional<T>(const GgufValue&)>& read) {
  const GgufValue* value = file.find(key);
  if (!value) return std::nullopt;
  std::optional<T> result = value->is_array ? std::nullopt : read(*value);
  if (!result) fail("{}: {} must be {}", shown(file.name), key, kind);
  return result;
}

} // namespace

std::optional<std::int64_t> Gguf::integer(std::string_view key) const {
  return gguf_value<std::int64_t>(*this, key, "a whole number",
                                  [](const GgufValue& value) { return value.integer(); });
}
std::optional<double> Gguf::number(std::string_view key) const {
  return gguf_value<double>(*this, key, "a number",
                            [](const GgufValue& value) { return value.number(); });
}
std::optional<bool> Gguf::boolean(std::string_view key) const {
  return gguf_value<bool>(*this, key, "true or false",
                          [](const GgufValue& value) { return value.boolean(); });
}
std::optional<std::string_view> Gguf::text(std::string_view key) const {
  return gguf_value<std::string_view>(*this, key, "text",
                                      [](const GgufValue& value) { return value.text(); });
}

} // namespace mha::io
