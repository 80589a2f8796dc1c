#include <mha/render/diff_exact.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha::render {

namespace {

std::string times_text(const FromExact& exact) {
  return std::isfinite(exact.ratio) ? fmt::format("{:.2g}", exact.ratio) : "∞";
}

} // namespace

std::vector<Table::Column> exact_columns() {
  return {{"ours − f64", true}, {"ref − f64", true}, {"ratio", true}};
}

std::vector<std::string> exact_cells(const std::optional<FromExact>& exact) {
  if (!exact) return {"", "", ""};
  return {fmt::format("{:.2g}", exact->ours), fmt::format("{:.2g}", exact->theirs),
          times_text(*exact)};
}

std::string exact_sentence(std::string_view stage, const FromExact& exact, DType precision) {
  const bool beyond = exact.ratio > 1;
  return fmt::format("Measured against float64, the reference's error in {} is {} times {} {} "
                     "rounding explains{}.",
                     stage, times_text(exact), beyond ? "what" : "the most that",
                     mha::name_of(precision),
                     exact.is_rounding ? ": rounding"
                     : beyond          ? ": more than rounding"
                                       : "");
}

} // namespace mha::render
