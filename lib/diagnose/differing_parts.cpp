#include <mha/diagnose/differing_parts.hpp>

namespace mha {

Sides sides_of(const Layer& layer, const Target& target, Tensor ours) {
  Sides s;
  s.ours = std::move(ours);
  s.theirs = target.theirs;
  const Shape& shape = s.theirs.shape();
  const StageInfo& info = info_of(target.stage);
  s.map = info.kind == Kind::map;
  s.B = shape[0];
  if (info.kind == Kind::token) {
    const Axis first = axis_of(info.letters[0]);
    s.packed = true, s.T = shape[1];
    s.H = first == Axis::head ? layer.dims.H : first == Axis::kv_head ? layer.dims.H_kv : 1;
    if (target.stage == Stage::concat) s.H = layer.dims.H;
    s.n = shape[2] / s.H;
  } else {
    s.H = shape[1], s.T = shape[2], s.n = shape.size() > 3 ? shape[3] : 1;
    if (shape.size() > 4) s.n *= shape[4];
  }
  return s;
}

std::vector<double> row_differences(const Sides& s) {
  return differences(s, s.T,
                     [](std::size_t, std::size_t, std::size_t t, std::size_t) { return t; });
}

std::vector<std::size_t> differing_parts(const std::vector<double>& difference, double tolerance) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < difference.size(); ++i)
    if (difference[i] > 8 * tolerance) list.push_back(i);
  return list;
}

} // namespace mha
