#include <mha/diagnose/best_reading.hpp>

#include <mha/system/named.hpp>

#include <optional>

namespace mha {

std::pair<Diagnosis, Reference> best_reading(const Layer& layer,
                                             const std::vector<Reference>& readings,
                                             StagesOfReading compared,
                                             const DiagnoseContext& context) {
  std::optional<std::pair<Diagnosis, Reference>> best;
  for (const Reference& reading : readings) {
    if (best && best->first.explained && best->first.changes.size() <= 1) break;
    Diagnosis one = diagnose(layer, compared(reading), context);
    if (!best || (one.explained &&
                  (!best->first.explained || one.changes.size() < best->first.changes.size())))
      best.emplace(std::move(one), reading);
  }
  return std::move(*best);
}

std::pair<Diagnosis, Reference> best_reading(const LoadedLayer& loaded,
                                             const std::vector<Reference>& readings,
                                             std::size_t threads) {
  return best_reading(loaded.layer, readings,
                      [](const Reference& reading) { return reading.stages; },
                      {is_fused(loaded), threads, nullptr, nullptr});
}

bool is_fused(const LoadedLayer& loaded) {
  return find_named(loaded.origins, "W_qkv") != nullptr;
}

} // namespace mha
