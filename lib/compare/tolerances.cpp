#include <mha/compare/compare.hpp>
#include <mha/compare/diff.hpp>

namespace mha {

Tolerance Tolerances::of(Stage stage, DType coarser) const {
  const Tolerance usual = default_tolerance(coarser);
  const auto chosen = [&](const std::map<Stage, double>& by_stage, std::optional<double> all,
                          double otherwise) {
    const auto at = by_stage.find(stage);
    return at != by_stage.end() ? at->second : all.value_or(otherwise);
  };
  return {chosen(stage_absolute, absolute, usual.absolute),
          chosen(stage_relative, relative, usual.relative)};
}

bool Tolerances::asked_for(Stage stage) const {
  return absolute || relative || stage_absolute.contains(stage) || stage_relative.contains(stage);
}

} // namespace mha
