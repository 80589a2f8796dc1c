#pragma once
// Coverage of a whole model's reference: the tensors that were compared, and those that were not.
// Every verdict lists both.

#include <mha/compare/reference.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

class Coverage {
public:
  /// Adds the compared stages of the layer `id` ("" for the model's ends) and the rest of its
  /// reference.
  void add(const std::string& id, const std::vector<Stage>& compared, const Reference& reference);

  /// Removes a stage that turned out to be another step.
  void remove(const std::string& id, Stage stage);

  /// "x, q and output of layers 0–3; final, logits".
  std::string compared() const;
  /// Each name with its reason; names that differ only in the layer's number once, with N.
  std::vector<std::string> not_compared() const { return counted(not_compared_); }
  /// The same for tensors that are known not to be steps.
  std::vector<std::string> skipped() const { return counted(skipped_); }
  /// Notes on how names and axes were read, each once for all layers.
  std::vector<std::string> notes() const { return counted(notes_); }
  /// ", but …" with the first tensor that was not compared, for a message; or "".
  std::string rest_in_words() const;
  /// Whether steps of the model were not compared.
  bool lacks_steps() const { return lacks_steps_; }
  /// Whether a tensor has another shape than in the model.
  bool has_misshapen() const { return misshapen_; }

private:
  struct Counted {
    std::string text; ///< with N for layer numbers
    std::string first;
    std::size_t times = 1;
  };
  using Counts = std::vector<Counted>;
  static void count(const std::vector<std::string>& texts, Counts& counts);
  static std::vector<std::string> counted(const Counts& counts);

  std::map<Stage, std::vector<std::string>> layers_; ///< the layers in which it was compared
  Counts not_compared_, skipped_, notes_;
  bool lacks_steps_ = false, misshapen_ = false;
};

/// Throws Error: the reference `against` has no stage of this "model" or "layer".
[[noreturn]] void fail_without_stage(const std::string& against, std::string_view of,
                                     const Coverage& coverage);

/// "0–3, 7" of 0, 1, 2, 3 and 7.
std::string ranges_of(const std::vector<std::string>& layers);

} // namespace mha
