#include <mha/bench/roofline.hpp>

#include <algorithm>
#include <tuple>

namespace mha {

std::pair<double, std::string> bound_of(const Work& work, double kept_bytes, MemoryLevel read_from,
                                        MemoryLevel kept_in, const MachineRates& rates) {
  constexpr double operations_of_exponential = 22; // eleven multiply-adds
  const auto seconds = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
  const double multiplying = seconds(work.operations, rates.products),
               exponentiating =
                   seconds(work.exponentials * operations_of_exponential, rates.vectors),
               reading = seconds(work.read_bytes, rates.of(read_from).read),
               keeping = seconds(kept_bytes, rates.of(kept_in).copy);
  const std::pair<double, std::string> roofs[] = {
      {multiplying, "multiply-adds"},
      {exponentiating, "exponentials"},
      {reading, std::string("reading from ") + name_of(read_from)},
      {keeping, std::string("writing to ") + name_of(kept_in)}};
  const double all = std::max(multiplying + exponentiating, reading) + keeping;
  return {all, all > 0 ? std::ranges::max(roofs).second : ""};
}

std::vector<StageSpeed> timed_stages(const StageSeconds& of_a_thread, const StageWork& work) {
  std::vector<StageSpeed> list;
  for (const StageInfo& info : stages()) {
    const std::size_t i = index_of(info.stage);
    if (of_a_thread[i] <= 0) continue;
    StageSpeed& stage = list.emplace_back();
    stage.stage = info.stage, stage.seconds = of_a_thread[i], stage.work = work[i];
  }
  return list;
}

template <class T>
Roofline roofline(Machine<T>& machine, std::vector<StageSpeed> stages, Ranks& ranks) {
  std::vector<double> sizes;
  for (const StageSpeed& stage : stages)
    sizes.insert(sizes.end(), {stage.work.read_bytes, stage.kept_bytes});
  machine.measure_rest(sizes);
  Roofline result{std::move(stages), 0, machine.rates()};
  MachineRates& rates = result.machine;
  for (double* rate : {&rates.products, &rates.vectors, &rates.exponentials})
    *rate = ranks.sum(*rate);
  for (Bandwidth& place : rates.bytes)
    place.read = ranks.sum(place.read), place.copy = ranks.sum(place.copy);
  for (StageSpeed& stage : result.stages) {
    std::tie(stage.bound_s, stage.bound_by) =
        bound_of(stage.work, stage.kept_bytes, machine.level_of(stage.work.read_bytes),
                 machine.level_of(stage.kept_bytes), rates);
    result.bound_s += stage.bound_s;
  }
  return result;
}

template Roofline roofline(Machine<float>&, std::vector<StageSpeed>, Ranks&);
template Roofline roofline(Machine<double>&, std::vector<StageSpeed>, Ranks&);

} // namespace mha
