#pragma once
// Predictions of a whole model: the most probable tokens at a position, and the loss of the text's
// own next token.

#include <mha/load/load.hpp>
#include <mha/model/opened_model.hpp>
#include <mha/model/token_of_texts.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// One token that may come next.
struct Candidate {
  int id = 0;
  double logit = 0, probability = 0;
};

/// The text's own next token, and how the model ranked it.
struct ActualToken {
  int id = 0;
  double probability = 0;
  double surprise = 0;  ///< −log probability
  std::size_t rank = 0; ///< 1: it was the most probable
};

/// A token that is followed, wherever it ranks.
struct FollowedToken : Candidate {
  std::size_t rank = 0; ///< 1: it is the most probable
};

/// The prediction at one position: the next token of a causal model, else the hidden one.
struct Prediction {
  std::size_t batch = 0, position = 0;
  std::optional<std::size_t> layer;    ///< of the stream that it was made of; none: the model's end
  bool finite = true;                  ///< the softmax is defined; else nothing is predicted
  std::vector<Candidate> candidates;   ///< the most probable first
  std::optional<ActualToken> actual;   ///< of causal models: the token after the position
  std::vector<FollowedToken> followed; ///< those asked for, in their order
};

struct PredictRequest {
  std::vector<std::size_t> positions; ///< of each text; those after its end are ignored
  std::size_t top = 10;
  bool each_layer = false; ///< what the stream of each layer would predict (the logit lens)
  std::size_t threads = 0;
  std::size_t first_text = 0; ///< number of the first text in messages, and in `followed`
  /// Tokens whose logits are reported wherever they rank.
  std::vector<TokenOfTexts> followed = {};
};

struct Predictions {
  std::vector<Prediction> list;        ///< in the order of texts, positions and layers
  std::vector<LayerWarnings> warnings; ///< of the layers that were computed
};

/// What a model predicts for its texts. Throws Error for a model without a head, and where logits
/// are not numbers: the message then names a tensor with NaN or infinity, if there is one.
Predictions predict(OpenedModel& model, const PredictRequest& request);

/// Throws Error where the softmax of a row of logits is undefined (a NaN, +∞, or −∞ alone), with
/// predict()'s message. Row i is of place i; `first_text`: number of the first text in messages.
void require_finite_predictions(const WholeModel& model, const PredictionRows& rows,
                                const std::vector<TextPosition>& places,
                                std::size_t first_text = 0);

/// The token that follows a place in its text. None for masked models, at the text's end, and where
/// it has no logit.
std::optional<std::size_t> next_token_at(const Texts& texts, const TextPosition& place);

/// Throws Error for an answer, or a token it is compared with, that has no logit.
void require_logits_of(const WholeModel& model, const std::optional<int>& answer,
                       const std::optional<int>& versus);

/// Candidates, the text's next token and those `followed`, of one position's logits. `actual`: its
/// id; < 0: none.
template <class T> Prediction prediction_of(const T* logits, std::size_t vocabulary,
                                            std::size_t top, int actual,
                                            const std::vector<int>& followed = {});

} // namespace mha
