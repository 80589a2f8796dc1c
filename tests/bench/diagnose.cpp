// How long a diagnosis of the output alone takes: T 512, d_model 768, 12 heads. Prints a row a
// case.
//   ninja -C build/release diagnose-bench && build/release/tests/diagnose-bench

#include <mha/diagnose/diagnose.hpp>
#include <mha/load/assemble.hpp>
#include <mha/observe/trace.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr std::size_t T = 512, d_model = 768, H = 12;

mha::NamedTensor random_part(std::mt19937& bits, const mha::Shape& shape, float size) {
  std::uniform_real_distribution<float> numbers(-size, size);
  mha::Tensor tensor(mha::DType::f32, shape);
  for (float& value : tensor.as_mutable<float>()) value = numbers(bits);
  return {tensor, "bench"};
}

mha::Layer layer_of(bool grouped) {
  std::mt19937 bits(1);
  const float size = 2 / std::sqrt(static_cast<float>(d_model));
  const std::size_t kv = grouped ? d_model / 3 : d_model;
  mha::NamedTensors parts{{"X", random_part(bits, {T, d_model}, 1.7F)},
                          {"W_q", random_part(bits, {d_model, d_model}, size)},
                          {"W_k", random_part(bits, {d_model, kv}, size)},
                          {"W_v", random_part(bits, {d_model, kv}, size)},
                          {"W_o", random_part(bits, {d_model, d_model}, size)}};
  mha::Settings settings;
  mha::set(settings, "num_heads", "12", "bench");
  mha::set(settings, "causal", "true", "bench");
  if (grouped) {
    mha::set(settings, "num_kv_heads", "4", "bench");
    mha::set(settings, "rope", "half", "bench");
    parts["q_norm.weight"] = random_part(bits, {d_model / H}, 1);
    parts["k_norm.weight"] = random_part(bits, {d_model / H}, 1);
  } else {
    for (const char* bias : {"b_q", "b_k", "b_v", "b_o"})
      parts[bias] = random_part(bits, {d_model}, 1);
  }
  return mha::make_layer(std::move(parts), settings);
}

void run(const char* name, const mha::Layer& layer, const mha::Tensor& output) {
  const auto start = std::chrono::steady_clock::now();
  const mha::Diagnosis d =
      mha::diagnose(layer, {{mha::Stage::output, output, mha::DType::f32, "", ""}}, false, 0);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-36s %6.2f s  %s", name, seconds, d.explained ? "explained" : "not explained");
  for (const mha::Change& change : d.changes) std::printf("  %s", change.id.c_str());
  std::printf("  %.1e -> %.1e\n", d.error_before, d.error_after);
}

} // namespace

int main() {
  for (const bool grouped : {false, true}) {
    const mha::Layer layer = layer_of(grouped);
    std::printf("T %zu, d_model %zu, %zu heads%s\n", T, d_model, H,
                grouped ? " over 4, rotary, QK norm, causal" : ", biases, causal");
    const auto output_of = [](const mha::Layer& one) {
      return mha::trace(one, {mha::Stage::output}).value(mha::Stage::output);
    };
    mha::Layer unscaled = layer;
    unscaled.settings.scale = mha::ScaleKind::none;
    run("one mistake", layer, output_of(unscaled));
    mha::Layer two = unscaled;
    std::swap(two.W_k, two.W_v), std::swap(two.b_k, two.b_v);
    run("two mistakes", layer, output_of(two));
    std::mt19937 bits(7);
    run("noise: every pair is tried", layer, random_part(bits, {T, d_model}, 1).tensor);
  }
}
