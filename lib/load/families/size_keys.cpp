#include <mha/load/families/size_keys.hpp>

#include <mha/system/one_of.hpp>

namespace mha::naming {

namespace {

// One row a size. A key that is another size in some family (embedding_size, padded_vocab_size)
// stands in none.
constexpr std::string_view heads[]{"num_attention_heads", "n_head", "n_heads", "num_heads",
                                   "nhead"};
constexpr std::string_view kv_heads[]{"num_key_value_heads", "num_kv_heads", "n_kv_heads",
                                      "n_head_kv", "n_key_value_heads"};
constexpr std::string_view head_width[]{"head_dim", "d_head", "d_kv", "kv_channels",
                                        "attention_head_size"};
constexpr std::string_view width[]{"hidden_size", "n_embd", "d_model", "dim"};
constexpr std::string_view layers[]{"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr std::string_view feed_forward[]{
    "intermediate_size", "n_inner", "d_mlp", "hidden_dim", "d_ff", "ffn_dim", "ffn_hidden_size"};
constexpr std::string_view vocabulary[]{"vocab_size", "d_vocab", "n_vocab"};

constexpr std::span<const std::string_view> sizes[]{heads,  kv_heads,     head_width, width,
                                                    layers, feed_forward, vocabulary};

} // namespace

std::span<const std::string_view> size_spellings(std::string_view key) {
  for (const std::span<const std::string_view> size : sizes)
    if (is_one_of(key, size)) return size;
  return {};
}

} // namespace mha::naming
