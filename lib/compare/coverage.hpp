#pragma once
// Coverage of a whole model's reference: compared and not compared, said under every verdict.

#include <mha/compare/reference.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

class Coverage {
public:
  /// What was compared of the layer `id` ("" for the model's ends), of a reference read for it.
  void add(const std::string& id, const std::vector<Stage>& compared, const Reference& reference);

  /// A stage of a layer turned out to be another step.
  void remove(const std::string& id, Stage stage);

  /// "x, q and output of layers 0–3; final, logits".
  std::string compared() const;
  /// A name each, with why; those that differ in the layer's number once, with N.
  std::vector<std::string> not_compared() const { return counted(left_); }
  /// Likewise what is known to be no step.
  std::vector<std::string> passed_over() const { return counted(passed_over_); }
  /// How names and axes were read, each once for all layers.
  std::vector<std::string> notes() const { return counted(notes_); }
  /// ", but …": the first of all these, for a message; or "".
  std::string what_is_left() const;
  /// Whether steps of the model are among them: then what was compared is not all.
  bool lacks_steps() const { return lacks_steps_; }
  /// Whether one of them is of another shape than the model's.
  bool has_misshapen() const { return misshapen_; }

private:
  struct Counted {
    std::string text; ///< numbers of layers as N
    std::string first;
    std::size_t times = 1;
  };
  using Counts = std::vector<Counted>;
  static void count(const std::vector<std::string>& texts, Counts& counts);
  static std::vector<std::string> counted(const Counts& counts);

  std::map<Stage, std::vector<std::string>> layers_; ///< that a stage was compared of
  Counts left_, passed_over_, notes_;
  bool lacks_steps_ = false, misshapen_ = false;
};

/// Throws Error: a reference, as typed, has no stage of this "model" or "layer".
[[noreturn]] void fail_without_stage(const std::string& against, std::string_view of,
                                     const Coverage& coverage);

/// "0–3, 7" of 0, 1, 2, 3 and 7.
std::string ranges_of(const std::vector<std::string>& layers);

} // namespace mha
