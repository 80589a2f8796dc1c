#pragma once
// Layers and models that are opened for their weights: no text and no X.

#include "options.hpp"
#include <mha/model/pass.hpp>

#include <memory>
#include <optional>

namespace mha::app {

/// The sources of a command that computes nothing of a text. A checkpoint that is a whole model is
/// opened as one, so that its norms, embedding and unembedding are there; other sources are layers.
class OpenedWeights {
public:
  /// All layers, unless the request chooses some, in float64. Throws UsageError where a text,
  /// patches or a precision are given, which change nothing.
  OpenedWeights(const Request& request, std::string_view command, Common& common);

  const Sources& sources() const { return *sources_; }
  /// The model, or null.
  const WholeModel* model() const { return pass_ ? &pass_->model() : nullptr; }
  const std::string& why_no_model() const { return why_; }
  /// The number of a word that is one token, with a blank before it if it is none without. Throws
  /// Error that shows the pieces of others. Only of a model.
  int token_of(const std::string& word, std::string_view option) const;
  /// A token's label.
  std::string label(int token) const { return pass_->label(token); }

private:
  std::shared_ptr<ModelPass> pass_;
  std::optional<Sources> sources_;
  std::string why_;
};

/// Options that change nothing of the weights' own circuits, where `weights_alone`: labels, masks
/// and steps behind the scores.
void add_unused_of_weights(Cli& cli, std::function<bool()> weights_alone);

} // namespace mha::app
