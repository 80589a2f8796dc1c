#include "fingerprint.hpp"

#include "error.hpp"

#include <cstring>

namespace mha {

void Fingerprint::add_word(std::uint64_t word) {
  // Multiply and fold: each bit of a word reaches every bit of the state in two steps.
  state_ = (state_ ^ word) * 0xd6e8feb86659fd93;
  state_ ^= state_ >> 32;
}

Fingerprint& Fingerprint::add(const void* bytes, std::size_t size) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  add_word(size);
  for (; size >= 8; from += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    add_word(word);
  }
  std::uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, from, size);
  add_word(rest);
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view text) {
  return add(text.data(), text.size());
}

Fingerprint& Fingerprint::add(const Layer& layer) {
  const auto tensor = [&](const Tensor& value) {
    if (value.empty()) {
      add("none");
      return;
    }
    add(name_of(value.dtype()));
    for (const std::size_t length : value.shape()) add_word(length);
    add(value.raw(), value.bytes());
  };
  const auto masks = [&](const std::vector<Broadcast>& list) {
    add_word(list.size());
    for (const Broadcast& mask : list) {
      tensor(mask.tensor);
      for (const std::size_t stride : mask.strides) add_word(stride);
      add_word(mask.first_key), add_word(mask.keys);
    }
  };
  add(name_of(layer.dtype));
  for (const SettingInfo& info : settings_table()) add(info.get(layer.settings));
  const Dims& dims = layer.dims;
  for (const std::size_t size : {dims.B, dims.T, dims.S, dims.past, dims.extra, dims.zero, dims.H,
                                 dims.H_kv, dims.d_model, dims.d_k, dims.d_v, dims.d_out})
    add_word(size);
  for (const Tensor* value :
       {&layer.X,         &layer.X_k,           &layer.X_v,           &layer.W_q,
        &layer.W_k,       &layer.W_v,           &layer.W_o,           &layer.b_q,
        &layer.b_k,       &layer.b_v,           &layer.b_o,           &layer.norm_weight,
        &layer.norm_bias, &layer.q_norm_weight, &layer.k_norm_weight, &layer.positions,
        &layer.k_past,    &layer.v_past,        &layer.k_extra,       &layer.v_extra,
        &layer.sinks,     &layer.relative_bias})
    tensor(*value);
  masks(layer.added), masks(layer.blocked), masks(layer.bias);
  for (const std::size_t length : layer.kv_lengths) add_word(length);
  for (const Tensor& given : layer.given) tensor(given);
  return *this;
}

std::string Fingerprint::text() const {
  return fmt::format("f-{:016x}", state_);
}

} // namespace mha
