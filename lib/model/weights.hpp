#pragma once
// A whole model's weights, made once for all its runs: const, and read by many threads.

#include <mha/load/whole_model.hpp>
#include <mha/schedule/weight.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mha {

class Weights {
public:
  /// Of the layers found in a checkpoint. `precision`: to compute in; none: float32, float64 for
  /// float64 weights. `memory`: bytes that packed weights kept from one pass to the next may take;
  /// none: half of what is free. Throws Error as WholeModel does.
  Weights(const io::Contents& checkpoint, const std::vector<naming::Found>& found,
          std::optional<DType> precision, std::optional<std::size_t> memory);

  const WholeModel& model() const { return model_; }
  /// The precision of every pass.
  DType dtype() const { return dtype_; }
  /// The packed forms, which all passes share.
  const std::shared_ptr<KeptWeights>& kept() const { return kept_; }

  /// Whether files of a tokenizer lie beside the weights.
  bool has_tokenizer() const { return tokenizers::has_tokenizer(folder_); }
  /// The tokenizer beside the weights, read at the first call. Throws Error where there is none, or
  /// it is not known here.
  const tokenizers::Tokenizer& tokenizer() const;

private:
  WholeModel model_;
  std::string folder_;
  DType dtype_;
  std::shared_ptr<KeptWeights> kept_;
  mutable std::mutex reading_;
  mutable std::optional<tokenizers::Tokenizer> tokenizer_;
};

} // namespace mha
