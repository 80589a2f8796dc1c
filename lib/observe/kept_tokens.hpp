#pragma once
// Token stages of a computation, whole.

#include <mha/layer/layer.hpp>
#include <mha/schedule/observer.hpp>

#include <map>

namespace mha {

/// Keeps token stages as a layer can be given them: B, T, width; zeros where nothing is planned.
class KeptTokens : public Observer {
public:
  KeptTokens(const Layer& layer, const StageSet& wanted);
  StageSet wants() const override { return wanted_; }
  void observe(const Slice& block) override;
  const Tensor& tensor(Stage stage) const { return kept_.at(stage); }

private:
  StageSet wanted_;
  std::map<Stage, Tensor> kept_;
};

} // namespace mha
