// Softmaxes of parts of the keys (flash-decoding, tiles), joined wrongly in every way that is
// known, from what a kernel returns: the heads' outputs and the log-sum-exps.

#include <mha/diagnose/diagnose.hpp>

#include "support/library_input.hpp"
#include "support/planted_edits.hpp"
#include "support/reference_positions.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace mha;
using planted::PartOfKeys;
using Parts = std::vector<PartOfKeys>;

namespace {

struct Way {
  const char* did; ///< how the sentence begins
  bool sums;       ///< of the log-sum-exps; else of the outputs: by what part `p` is multiplied
  std::function<double(const Parts& parts, std::size_t p)> value;
};

double over(const Parts& parts, const std::function<double(std::size_t)>& f) {
  double sum = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) sum += f(p);
  return sum;
}
double lse_of(const Parts& parts) {
  return std::log(over(parts, [&](std::size_t p) { return std::exp(parts[p].lse); }));
}
/// The greatest score of the first p + 1 parts.
double max_until(const Parts& parts, std::size_t p) {
  double max = parts[0].max;
  for (std::size_t i = 1; i <= p; ++i) max = std::max(max, parts[i].max);
  return max;
}
/// Σ e^(score − greatest score so far), of one part.
double stale(const Parts& parts, std::size_t p) {
  return std::exp(parts[p].lse - max_until(parts, p));
}
double all_stale(const Parts& parts) {
  return over(parts, [&](std::size_t p) { return stale(parts, p); });
}

const Way ways[]{
    {"takes the mean of the parts' outputs", false,
     [](const Parts& parts, std::size_t) { return 1 / reference::real(parts.size()); }},
    {"adds the parts' outputs", false, [](const Parts&, std::size_t) { return 1.0; }},
    {"weighs the parts' outputs by their maxima", false,
     [](const Parts& parts, std::size_t p) {
       return std::exp(parts[p].max) /
              over(parts, [&](std::size_t i) { return std::exp(parts[i].max); });
     }},
    {"weighs the parts' outputs by 2^LSE", false,
     [](const Parts& parts, std::size_t p) {
       return std::exp2(parts[p].lse) /
              over(parts, [&](std::size_t i) { return std::exp2(parts[i].lse); });
     }},
    {"weighs the parts' outputs by e^LSE", false,
     [](const Parts& parts, std::size_t p) {
       return std::exp(M_LOG2E * parts[p].lse) /
              over(parts, [&](std::size_t i) { return std::exp(M_LOG2E * parts[i].lse); });
     }},
    {"weighs the parts' outputs by e^(LSE − greatest LSE)", false,
     [](const Parts& parts, std::size_t p) {
       const auto most = std::ranges::max_element(parts, {}, &PartOfKeys::lse);
       return std::exp(parts[p].lse - most->lse);
     }},
    {"returns the last part's output", false,
     [](const Parts& parts, std::size_t p) { return p + 1 == parts.size() ? 1.0 : 0.0; }},
    {"returns the first part's output", false,
     [](const Parts&, std::size_t p) { return p == 0 ? 1.0 : 0.0; }},
    {"rescales neither", false,
     [](const Parts& parts, std::size_t p) { return stale(parts, p) / all_stale(parts); }},
    {"does not rescale the output", false,
     [](const Parts& parts, std::size_t p) {
       return stale(parts, p) / std::exp(lse_of(parts) - max_until(parts, parts.size() - 1));
     }},
    {"does not rescale the sum when", false,
     [](const Parts& parts, std::size_t p) {
       return std::exp(parts[p].lse - max_until(parts, parts.size() - 1)) / all_stale(parts);
     }},
    {"adds the parts' log-sum-exps", true,
     [](const Parts& parts, std::size_t) {
       return over(parts, [&](std::size_t p) { return parts[p].lse; });
     }},
    {"takes the greatest of the parts' log-sum-exps", true,
     [](const Parts& parts, std::size_t) {
       return std::ranges::max_element(parts, {}, &PartOfKeys::lse)->lse;
     }},
    {"takes the mean of the parts' log-sum-exps", true,
     [](const Parts& parts, std::size_t) {
       return over(parts, [&](std::size_t p) { return parts[p].lse; }) /
              reference::real(parts.size());
     }},
    {"returns the last part's log-sum-exp", true,
     [](const Parts& parts, std::size_t) { return parts.back().lse; }},
    {"returns the first part's log-sum-exp", true,
     [](const Parts& parts, std::size_t) { return parts.front().lse; }},
    {"does not rescale the sum of the log-sum-exp", true,
     [](const Parts& parts, std::size_t) {
       return max_until(parts, parts.size() - 1) + std::log(all_stale(parts));
     }},
};

ReferenceStage known(Stage stage, const reference::Array& value, bool single) {
  const DType type = single ? DType::f32 : DType::f64;
  return {stage, tensor_of(value, type), type, "", ""};
}

} // namespace

TEST_CASE("parts of the keys that are joined wrongly are named", "[diagnose][ports]") {
  for (const Way& way : ways)
    for (const auto& [base_number, size] : {std::pair(0, 4), {1, 5}, {2, 4}, {2, 16}}) {
      const bool single = base_number == 2;
      const planted::Base base =
          planted::bases(6, single, size == 16 ? 40 : 0)[static_cast<std::size_t>(base_number)];
      planted::Stages stages = reference::compute(base.layer);
      const auto width = static_cast<std::size_t>(size);
      if (way.sums)
        for (std::size_t row = 0; row < stages["logsumexp"].values.size(); ++row) {
          const std::size_t T = base.layer.T(), H = base.layer.H;
          const Parts parts =
              planted::parts_of_keys(stages, width, row / T / H, row / T % H, row % T);
          stages["logsumexp"].values[row] = way.value(parts, 0);
        }
      else
        stages["head_out"] = reference::each(stages["head_out"], [&](double, std::size_t b,
                                                                     std::size_t h, std::size_t t,
                                                                     std::size_t i) {
          const Parts parts = planted::parts_of_keys(stages, width, b, h, t);
          return over(parts, [&](std::size_t p) { return way.value(parts, p) * parts[p].out[i]; });
        });
      const Diagnosis d = diagnose(library_layer(base.layer, base.form),
                                   {known(Stage::logsumexp, stages["logsumexp"], single),
                                    known(Stage::head_out, stages["head_out"], single)},
                                   false, 1);
      INFO(way.did << " on " << base.name << ", of " << size << ": "
                   << (d.changes.empty() ? "nothing" : d.changes[0].did));
      REQUIRE(d.explained);
      REQUIRE(d.changes.size() == 1);
      CHECK(d.changes[0].id == "parts.joined");
      CHECK_THAT(d.changes[0].did, Catch::StartsWith(way.did));
      CHECK_THAT(d.changes[0].did, Catch::EndsWith(fmt::format(", of parts of {} keys", size)));
    }
}
