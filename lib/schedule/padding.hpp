#pragma once
// Padding of a batch of texts: what lies behind the end of a shorter one is handed out as zeros.

#include <mha/layer/layer.hpp>
#include <mha/schedule/observer.hpp>

namespace mha {

/// Shows another observer every block with zeros at the padding of layer.lengths, so that a dump
/// does not depend on what a padding token happens to compute to. In `masked` and `shifted` the
/// padded keys of a token stay −inf, as the mask makes them.
class BlankPadding : public Observer {
public:
  /// `observer` outlives this; the layer's sizes are copied.
  BlankPadding(const Layer& layer, Observer& observer)
      : lengths_(layer.lengths), dims_(layer.dims), observer_(observer) {}

  StageSet wants() const override { return observer_.wants(); }
  void observe(const Slice& block) override;

private:
  std::vector<std::size_t> lengths_;
  Dims dims_;
  Observer& observer_;
};

} // namespace mha
