#pragma once
// Mistakes planted into the reference: what an implementation gives that got one convention wrong.
// Shares no code with the library's own hypotheses.

#include "support/random_layer.hpp"
#include "support/reference.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace planted {

using Stages = std::map<std::string, reference::Array>;

/// Another implementation of a layer. A mistake changes its layer, or replaces what a step gives.
struct Implementation {
  reference::Layer layer;
  /// Replaces a stage by a function of the stages before it; `self`: all of this implementation.
  struct Step {
    std::string stage;
    std::function<reference::Array(const Implementation& self, const Stages& before)> value;
  };
  std::vector<Step> steps;
  /// What is shown under which name in the end.
  std::vector<std::function<void(const Implementation& self, Stages& stages)>> shown;

  /// The same without what is replaced at a stage and after it.
  Implementation until(const std::string& stage) const;
  /// Every stage that it shows.
  Stages run() const;
};

struct Mistake {
  const char* id;
  const char* stage; ///< the first stage that it makes wrong
  /// Gives the layer what the mistake is about (a window, sinks …) where that is missing. False:
  /// the layer cannot have it.
  std::function<bool(reference::Layer&, Random&)> prepare;
  /// Makes the mistake.
  std::function<void(Implementation&)> plant;
};

/// Every mistake, in the order of the identifiers in the issue.
const std::vector<Mistake>& mistakes();

/// "plain" (biases), "grouped" (key/value heads shared, rotary, QK norm, causal), "cross" (masks).
struct Base {
  const char* name;
  reference::Layer layer;
  Form form;
};
/// `more` tokens than 7 to 10.
std::vector<Base> bases(std::uint64_t seed, bool single, std::size_t more = 0);

/// Random numbers; with `single`, a float's.
reference::Array numbers(Random& random, reference::Shape shape, double low, double high);

} // namespace planted
