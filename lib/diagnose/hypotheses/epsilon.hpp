#pragma once
// The ε of norms, of any size.

#include <mha/diagnose/hypotheses/change.hpp>

#include <functional>
#include <vector>

namespace mha {

/// An ε that a layer has, and what takes another in its place.
struct Epsilon {
  double own = 0;
  std::function<Change(double eps)> change;
};

/// Another ε in the norm before the projections, and in the norms of q and k.
Change input_norm_eps_change(const Layer& layer, double eps);
Change qk_norm_eps_change(const Layer& layer, double eps);
/// Those of the norms around attention and the feed-forward, and of every norm of the layer at
/// once.
std::vector<Epsilon> block_epsilons(const Layer& layer);
/// That of a model's last norm; none: it has none.
std::vector<Epsilon> end_epsilons(const Layer& layer);

} // namespace mha
