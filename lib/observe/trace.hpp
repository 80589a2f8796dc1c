#pragma once
// Keeps stages in memory.

#include <mha/observe/placement.hpp>
#include <mha/observe/shareable.hpp>

#include <map>

namespace mha {

class Trace : public Shareable {
public:
  /// Room for the selected parts of `wanted`. Throws Error before anything is computed if they
  /// would not fit into this machine's memory, with the size and the way out.
  Trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection = {});

  StageSet wants() const override;
  void observe(const Block& block) override;
  std::string packed(const Layer& layer, const Plan& part) const override;
  void unpack(const Layer& layer, const Plan& part, std::string_view bytes) override;

  /// The selected value of a stage, in the layer's dtype; shape as Placement says. Throws Error for
  /// a stage that was not asked for. Of a Trace that goes away, the tensor stays.
  const Tensor& value(Stage stage) const&;
  Tensor value(Stage stage) &&;
  const Placement& placement(Stage stage) const;

private:
  struct Kept {
    Placement placement;
    Tensor value;
  };
  std::map<Stage, Kept> kept_;
};

/// Computes some stages of a layer and keeps them.
Trace trace(const Layer& layer, const std::vector<Stage>& wanted, const Selection& selection = {},
            std::size_t threads = 0);

} // namespace mha
