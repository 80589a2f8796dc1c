#pragma once
// Layers and models that are opened for their weights: no text and no X.

#include "options.hpp"
#include <mha/model/opened_model.hpp>

#include <memory>
#include <optional>

namespace mha::app {

/// The sources of a command that computes nothing of a text. A checkpoint that is a whole model is
/// opened as one, so that its norms, embedding and unembedding are there; other sources are layers.
class OpenedWeights {
public:
  /// All layers, unless the request chooses some, in float64. Throws UsageError where a text,
  /// patches or a precision are given, which change nothing.
  OpenedWeights(const RunRequest& request, std::string_view command, Common& common);

  /// The layers; of a whole model as for a text of one token.
  OpenedModel& layers() { return *opened_; }
  /// The model, or null.
  const WholeModel* model() const {
    return opened_->texts() ? &opened_->texts()->model() : nullptr;
  }
  /// Why the sources are no whole model; "" where they are.
  const std::string& why_no_model() const { return why_no_model_; }
  /// The id of the token `word`, or of the token that is `word` behind a blank. Throws Error with
  /// the pieces of a word of several tokens. Only of a model.
  int token_of(const std::string& word, std::string_view option) const;
  /// A token's label.
  std::string label(int token) const { return opened_->texts()->label(token); }

private:
  std::optional<OpenedModel> opened_;
  std::string why_no_model_;
};

/// Options that change nothing of the weights' own circuits, where `weights_alone`: labels, masks
/// and steps behind the scores.
void add_unused_of_weights(Cli& cli, std::function<bool()> weights_alone);

} // namespace mha::app
