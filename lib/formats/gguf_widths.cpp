// Checks the numbers of heads and their widths in GGUF's keys against the tensors.

#include <mha/formats/gguf_settings.hpp>

#include <fmt/format.h>

namespace mha::io {

namespace {

class GgufWidths {
public:
  explicit GgufWidths(GgufSettings& settings) : settings_(settings) {
    heads_ = take("attention.head_count").value_or(0);
    key_heads_ = take("attention.head_count_kv").value_or(heads_);
    const bool latent = settings.is("deepseek2");
    key_ = latent ? take("attention.key_length_mla") : std::nullopt;
    if (!key_) key_ = take("attention.key_length");
    value_ = latent ? take("attention.value_length_mla") : std::nullopt;
    if (!value_) value_ = take("attention.value_length");
    if ((key_ && value_) || heads_ == 0) return;
    const std::optional<double> all = take("embedding_length");
    if (all && !key_) key_ = *all / heads_;
    if (all && !value_) value_ = *all / heads_;
  }

  void require() {
    if (settings_.is("gemma4")) return; // the first block's are those of layers with a window
    if (!key_ || !value_ || heads_ == 0) return;
    const double key = *key_, value = *value_;
    if (settings_.is("deepseek2")) return require_latent(key, value);
    require_rows("attn_q", heads_ * key);
    require_rows("attn_k", key_heads_ * key);
    require_rows("attn_v", key_heads_ * value);
    require_rows("attn_qkv", (heads_ + key_heads_) * key + key_heads_ * value);
  }

private:
  /// Reads a number, and adds it with its key to the message.
  std::optional<double> take(const char* key) {
    const std::optional<double> number = settings_.number(key);
    if (number)
      given_ += fmt::format("{}{} {}", given_.empty() ? "" : ", ", settings_.whole(key), *number);
    return number;
  }

  void require_latent(double key, double value) {
    require_rows("attn_q", heads_ * key);
    require_rows("attn_q_b", heads_ * key);
    const std::optional<double> rotated = take("rope.dimension_count");
    if (!rotated) return;
    require_rows("attn_kv_b", heads_ * (key - *rotated + value));
    const GgufTensor* const norm = settings_.tensor("blk.0.attn_kv_a_norm.weight");
    if (norm && norm->shape.size() == 1)
      require_rows("attn_kv_a_mqa", static_cast<double>(norm->shape[0]) + *rotated);
  }

  void require_rows(const char* name, double rows) {
    const std::string whole = fmt::format("blk.0.{}.weight", name);
    const GgufTensor* const tensor = settings_.tensor(whole);
    if (!tensor || tensor->shape.size() != 2 || static_cast<double>(tensor->shape[0]) == rows)
      return;
    settings_.refuse("attention.head_count",
                     fmt::format("but {} is {}: {} rows expected of {}", whole,
                                 to_string(tensor->shape), rows, given_));
  }

  GgufSettings& settings_;
  double heads_ = 0, key_heads_ = 0;
  std::optional<double> key_, value_;
  std::string given_; ///< the keys that were read, with their values
};

} // namespace

void require_gguf_widths(GgufSettings& settings) {
  GgufWidths(settings).require();
}

} // namespace mha::io
