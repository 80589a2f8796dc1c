#pragma once
// Layers and models that are opened for their weights alone, without a text or X.

#include "options.hpp"
#include <mha/model/opened_model.hpp>

#include <memory>
#include <optional>

namespace mha::app {

/// The sources of a command that needs no text. A checkpoint of a whole model is opened as one, so
/// that its norms, embedding and unembedding are available; other sources are layers.
class OpenedWeights {
public:
  /// Opens the chosen layers, or all, in float64. Throws UsageError for a text, patches or a
  /// precision, which have no effect.
  OpenedWeights(const RunRequest& request, std::string_view command, Common& common);

  /// The layers; those of a whole model are opened for a text of one token.
  OpenedModel& layers() { return *opened_; }
  /// The model, or null.
  const WholeModel* model() const {
    return opened_->texts() ? &opened_->texts()->model() : nullptr;
  }
  /// Why the sources are not a whole model, or "".
  const std::string& why_no_model() const { return why_no_model_; }
  /// The id of the token `word`, or of `word` after a blank. For a word of several tokens, throws
  /// Error that lists its pieces. Needs a model.
  int token_of(const std::string& word, std::string_view option) const;
  /// A token's label.
  std::string label(int token) const { return opened_->texts()->label(token); }

private:
  std::optional<OpenedModel> opened_;
  std::string why_no_model_;
};

/// Declares the options without effect on circuits of the weights (labels, masks and steps after
/// the scores) as errors if `weights_alone`.
void add_unused_of_weights(Cli& cli, std::function<bool()> weights_alone);

} // namespace mha::app
