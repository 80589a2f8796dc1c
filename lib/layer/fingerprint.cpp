#include <mha/layer/fingerprint.hpp>

#include <mha/system/error.hpp>

#include <cstring>

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
  const auto word_at = [](const unsigned char* place) {
    std::uint64_t word = 0;
    std::memcpy(&word, place, 8);
    return word;
  };
  // Four chains beside each other: a multiplication waits for the one before it in its own. As
  // variables, which stay in registers; an array does not, with some compilers.
  if (size >= 32) {
    std::uint64_t a = state_, b = 1, c = 2, d = 3;
    for (; size >= 32; from += 32, size -= 32) {
      a = stirred(a, word_at(from)), b = stirred(b, word_at(from + 8));
      c = stirred(c, word_at(from + 16)), d = stirred(d, word_at(from + 24));
    }
    state_ = a;
    for (const std::uint64_t chain : {b, c, d}) add_word(chain);
  }
  for (; size >= 8; from += 8, size -= 8) add_word(word_at(from));
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
  for (const std::size_t size :
       {dims.B, dims.T, dims.S, dims.past, dims.extra, dims.zero, dims.H, dims.H_kv, dims.d_model,
        dims.d_k, dims.d_v, dims.d_out, dims.r_q, dims.r_kv, dims.d_pe})
    add_word(size);
  for (const Tensor* value : {&layer.X,
                              &layer.X_k,
                              &layer.X_v,
                              &layer.W_q,
                              &layer.W_k,
                              &layer.W_v,
                              &layer.W_o,
                              &layer.b_q,
                              &layer.b_k,
                              &layer.b_v,
                              &layer.b_o,
                              &layer.norm_weight,
                              &layer.norm_bias,
                              &layer.q_norm_weight,
                              &layer.k_norm_weight,
                              &layer.positions,
                              &layer.k_past,
                              &layer.v_past,
                              &layer.k_extra,
                              &layer.v_extra,
                              &layer.sinks,
                              &layer.relative_bias,
                              &layer.relative_key,
                              &layer.q_norm_bias,
                              &layer.k_norm_bias,
                              &layer.rope_short_factor,
                              &layer.rope_long_factor,
                              &layer.W_c_q,
                              &layer.W_c_kv,
                              &layer.W_k_pe,
                              &layer.b_c_q,
                              &layer.b_c_kv,
                              &layer.b_k_pe,
                              &layer.c_q_norm_weight,
                              &layer.c_kv_norm_weight})
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
