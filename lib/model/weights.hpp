#pragma once
// A whole model's weights, made once for all its runs: const, and read by many threads.

#include <mha/load/load.hpp>
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
  /// The weights of the whole model that sources hold. They are used in the precision of the
  /// request, by default in float32, or float64 for float64 weights. `memory`: bytes that the
  /// packed forms may take; none: half of what is free.
  explicit Weights(const Sources& sources, std::optional<std::size_t> memory = std::nullopt);

  const WholeModel& model() const { return *model_; }
  /// The sources' notes about every layer of a text, which follow the model's own.
  const std::vector<Note>& notes_of_sources() const { return notes_of_sources_; }
  /// The model's own notes and these.
  std::vector<Note> notes() const;
  /// The wording of messages that name where a text is from.
  Wording wording() const { return wording_; }
  /// The precision of every pass.
  DType dtype() const { return dtype_; }
  /// The packed forms, which all passes share.
  const std::shared_ptr<KeptWeights>& kept() const { return kept_; }

  /// Whether there are tokenizer files beside the weights.
  bool has_tokenizer() const { return tokenizers::has_tokenizer(folder_); }
  /// The tokenizer beside the weights, read at the first call. Throws Error where there is none, or
  /// it is not known here.
  const tokenizers::Tokenizer& tokenizer() const;

private:
  std::shared_ptr<const WholeModel> model_;
  std::vector<Note> notes_of_sources_;
  std::string folder_;
  DType dtype_;
  Wording wording_;
  std::shared_ptr<KeptWeights> kept_;
  mutable std::mutex reading_;
  mutable std::optional<tokenizers::Tokenizer> tokenizer_;
};

} // namespace mha
