#include <mha/model/unpatched_pass.hpp>

#include <mha/observe/trace.hpp>

namespace mha {

Residual UnpatchedPass::before(std::size_t layer) {
  const std::lock_guard hold(lock_);
  if (streams_.empty()) streams_.push_back(layers_->embedded());
  if (streams_.size() <= layer) {
    Advance keep;
    keep.threads = threads_;
    keep.arrived = [&](const Residual& at) { streams_.push_back(at); };
    advance(*layers_, streams_.back(), layer, keep);
  }
  return streams_[layer];
}

Layer UnpatchedPass::layer(std::size_t number) {
  const Residual at = before(number);
  return number < layers_->count() ? layers_->layer(number, at.x) : layers_->ends(at.x);
}

Tensor UnpatchedPass::stage(std::size_t number, Stage stage) {
  return whole_stage(layer(number), stage, threads_);
}

} // namespace mha
