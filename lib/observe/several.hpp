#pragma once
// One computation, several observers.

#include "attention.hpp"

#include <utility>
#include <vector>

namespace mha {

/// Shows every block to each of its observers that wants the stage.
class Several : public Observer {
public:
  void add(Observer& observer) { observers_.emplace_back(&observer, observer.wants()); }

  StageSet wants() const override {
    StageSet all;
    for (const auto& [observer, stages] : observers_) all |= stages;
    return all;
  }
  void observe(const Block& block) override {
    for (const auto& [observer, stages] : observers_)
      if (contains(stages, block.stage)) observer->observe(block);
  }

private:
  std::vector<std::pair<Observer*, StageSet>> observers_;
};

} // namespace mha
