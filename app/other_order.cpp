#include "other_order.hpp"

#include "console.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace mha::app {

namespace {

/// One order is believed where it points the reference's way and the other does not.
constexpr double alike = 0.5, clearly = 0.2;

/// The request with these bindings in the place of those without axes, or beside its files.
RunRequest with_bindings(RunRequest request, const std::vector<std::string>& bindings) {
  for (const std::string& binding : bindings) {
    const std::string typed = binding.substr(0, binding.rfind('@'));
    const auto at = std::ranges::find(request.sources, typed);
    if (at == request.sources.end())
      request.sources.push_back(binding);
    else
      *at = binding;
  }
  return request;
}

/// How far the stage that points the least in the reference's direction does; 1: all agree.
double likeness(const Diff& found) {
  if (found.equal()) return 1;
  double least = 1;
  for (const StageDiff& row : found.stages) least = std::min(least, row.difference.cosine);
  return least;
}

} // namespace

bool takes_other_order(OpenedModel& model, RunRequest& request, const LoadedLayer& loaded,
                       const Diff* found, const ReferenceFiles& against, Common& common) {
  if (model.texts() || loaded.other_order.empty() || (found && found->equal())) return false;
  const double here = found ? likeness(*found) : -1;
  try {
    RunRequest other = with_bindings(request, loaded.other_order);
    OpenedModel other_model(other);
    const LoadedLayer turned = other_model.load(loaded.id);
    CommonEffort effort(common);
    const Reference reference = load_readings(turned, against, effort).front();
    const double there = likeness(diff(turned.layer, reference, {}, common.threads));
    if (there == 1 || (there > alike && there > here + clearly)) {
      print_note(
          fmt::format("the reference has heads and tokens in the other order, which is read: "
                      "{}",
                      fmt::join(loaded.other_order, " ")),
          common);
      request = std::move(other);
      model = std::move(other_model);
      return true;
    }
  } catch (const Error&) { // the other order fits nothing else that there is
  }
  if (here < alike)
    print_note(fmt::format("if heads and tokens lie in the other order, say so: {}",
                           fmt::join(loaded.other_order, " ")),
               common);
  return false;
}

} // namespace mha::app
