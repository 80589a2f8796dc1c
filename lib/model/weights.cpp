#include <mha/model/weights.hpp>

namespace mha {

Weights::Weights(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
                 std::optional<DType> precision, std::optional<std::size_t> memory)
    : model_(found),
      folder_(checkpoint.name),
      dtype_(precision.value_or(model_.embedding().tokens.dtype() == DType::f64 ? DType::f64
                                                                                : DType::f32)),
      kept_(std::make_shared<KeptWeights>(memory)) {
  if (dtype_ != DType::f32 && dtype_ != DType::f64)
    fail("dtype is {}: models are computed in float32 or float64", name_of(dtype_));
}

const tokenizers::Tokenizer& Weights::tokenizer() const {
  const std::lock_guard hold(reading_);
  if (!tokenizer_) tokenizer_ = tokenizers::load_tokenizer(folder_);
  return *tokenizer_;
}

} // namespace mha
