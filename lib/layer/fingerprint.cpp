#include <mha/layer/fingerprint.hpp>

#include <mha/layer/members.hpp>
#include <mha/system/error.hpp>
#include <mha/system/unaligned.hpp>

#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

namespace mha {

namespace {

/// Multiply and fold: each bit of a word reaches every bit of the state in two steps.
std::uint64_t stirred(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0xd6e8feb86659fd93;
  return state ^ (state >> 32);
}

} // namespace

void Fingerprint::add_word(std::uint64_t word) {
  state_ = stirred(state_, word);
}

Fingerprint& Fingerprint::add(const void* bytes, std::size_t size) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  add_word(size);
  // Four chains beside each other: a multiplication waits for the one before it in its own. As
  // variables, which stay in registers; an array does not, with some compilers.
  if (size >= 32) {
    std::uint64_t a = state_, b = 1, c = 2, d = 3;
    for (; size >= 32; from += 32, size -= 32) {
      a = stirred(a, unaligned<std::uint64_t>(from)),
      b = stirred(b, unaligned<std::uint64_t>(from + 8));
      c = stirred(c, unaligned<std::uint64_t>(from + 16)),
      d = stirred(d, unaligned<std::uint64_t>(from + 24));
    }
    state_ = a;
    for (const std::uint64_t chain : {b, c, d}) add_word(chain);
  }
  for (; size >= 8; from += 8, size -= 8) add_word(unaligned<std::uint64_t>(from));
  std::uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, from, size);
  add_word(rest);
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view text) {
  return add(text.data(), text.size());
}

void Fingerprint::add(const Tensor& tensor) {
  if (tensor.empty()) {
    add("none");
    return;
  }
  add(name_of(tensor.dtype()));
  for (const std::size_t length : tensor.shape()) add_word(length);
  const StoredMatrix* const stored = tensor.stored();
  if (!stored) {
    add(tensor.raw(), tensor.bytes());
    return;
  }
  // Where it is stored: a contiguous or converted copy would take memory of its own.
  add_word(stored->transposed ? 1 : 0), add_word(stored->first);
  add(stored->matrix);
}

void Fingerprint::add(const Settings& settings) {
  for (const SettingInfo& info : settings_table()) add(info.get(settings));
}

/// Any part of a layer: numbers and enums by value, lists with their lengths, structures by
/// their members.
template <class T> void Fingerprint::add_part(const T& part) {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Settings>)
    add(part);
  else if constexpr (std::is_same_v<T, std::string>)
    add(std::string_view(part));
  else if constexpr (std::is_same_v<T, double>)
    add_word(std::bit_cast<std::uint64_t>(part));
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
    add_word(static_cast<std::uint64_t>(part));
  else if constexpr (std::is_same_v<T, StageSet>)
    for (const Stage stage : part) add(name_of(stage));
  else if constexpr (std::is_same_v<T, std::optional<int>>)
    add_part(part.value_or(-1));
  else if constexpr (requires { part.size(); }) { // a list
    add_word(part.size());
    for (const auto& element : part) add_part(element);
  } else if constexpr (requires { part.use_count(); }) { // shared
    add_word(part ? 1 : 0);
    if (part) add_part(*part);
  } else
    each_member(part, [&](const auto& member) { add_part(member); });
}

Fingerprint& Fingerprint::add(const Layer& layer) {
  each_part_of_layer(layer, [&](std::string_view name, const auto& part) {
    add(name);
    add_part(part);
  });
  return *this;
}

Fingerprint& Fingerprint::add(const Embedding& embedding) {
  add_part(embedding);
  return *this;
}

std::string Fingerprint::text() const {
  return fmt::format("f-{:016x}", state_);
}

} // namespace mha
