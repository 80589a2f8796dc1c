#pragma once
// Traces a Softmax's input back to the scores. Private to onnx_spelt_out.cpp.

#include <mha/formats/onnx_projection.hpp>

#include <array>
#include <unordered_map>

namespace mha::io {

/// The result of tracing an element back to its score.
struct OnnxScorePath {
  const OnnxStep* product = nullptr;
  std::int64_t at = 0; ///< flat index of its output
  double factor = 1;   ///< of the score, before a cap
  double softcap = 0;
  double added = 0;
  bool known = true;   ///< whether `added` has all added numbers
  std::string unknown; ///< the node that adds unknown numbers
};

class OnnxScores {
public:
  /// `input` is the input of the Softmax.
  OnnxScores(const OnnxFlow& flow, const OnnxProjections& projections, int input)
      : flow_(flow), projections_(projections), input_(input) {}

  /// Follows an element of the Softmax's input to its product, or to no product if it is masked.
  /// Returns nothing if other steps compute it, which untraced_steps() then has. With `unmasked`,
  /// masks are ignored.
  std::optional<OnnxScorePath> follow(std::int64_t flat, bool unmasked = true) const;
  /// The same with a cache, for elements that are requested often.
  const std::optional<OnnxScorePath>& followed(std::int64_t flat, bool unmasked = true) const;
  const std::vector<int>& untraced_steps() const { return untraced_steps_; }

private:
  const OnnxForm::Term* product_in(const OnnxForm& form) const;
  bool is_product(int value) const;
  std::optional<int> capped(const OnnxStep& made, const OnnxForm::Term& term,
                            OnnxScorePath& path) const;
  bool take_others(const OnnxForm& form, const OnnxForm::Term& score, OnnxScorePath& path) const;
  std::optional<int> unmasked_by(const OnnxStep& made, const OnnxForm::Term& term,
                                 OnnxScorePath& path) const;
  void note_maker(int value) const;
  std::string name_of(int value) const;

  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  int input_;
  mutable std::vector<int> untraced_steps_;
  struct Followed {
    std::optional<OnnxScorePath> path;
    OnnxPassedSteps passed; ///< on the way
  };
  mutable std::array<std::unordered_map<std::int64_t, Followed>, 2> followed_; ///< masked, unmasked
};

} // namespace mha::io
