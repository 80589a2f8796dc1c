// Kernels: nothing is blamed in right ports, and a small mistake in one place is explained by
// nothing.

#include "support/kernels.hpp"
#include "support/sanitizers.hpp"
#include <mha/diagnose/diagnose.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>

using namespace mha;

namespace {

std::string text_of_kernel(const kernels::Kernel& kernel, const Diagnosis& d) {
  std::string text = "\n" + kernel.text() + (d.explained ? ": explained by" : ": not explained");
  for (const Change& change : d.changes) text += " " + change.id + " (" + change.did + ")";
  for (const Diagnosis::Compared& one : d.stages)
    text +=
        fmt::format(" {} {:.2g} -> {:.2g}", name_of(one.stage), one.before.error, one.after.error);
  return text;
}

/// Those of the numbered kernels that a search is made for: of wrong ones it tries everything.
std::uint64_t kernels_to_explain(std::uint64_t many) {
  const char* const text = std::getenv("MHA_KERNELS");
  return text ? std::strtoull(text, nullptr, 10) : sanitized ? (many + 4) / 5 : many;
}

} // namespace

TEST_CASE("kernels: a right port is blamed for nothing", "[kernels][diagnose]") {
  std::string blamed;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < kernels_to_explain(200); ++i) {
    const kernels::Kernel kernel = kernels::kernel_of(1 + i, i % 4 == 0);
    const kernels::Port port = kernels::port_of(kernel);
    const Diagnosis d = diagnose(port.layer, port.stages, false, 1);
    const bool blames = std::ranges::any_of(
        d.changes, [](const Change& change) { return !change.id.starts_with("precision."); });
    if (d.explained && !blames) continue;
    ++count, blamed += text_of_kernel(kernel, d);
  }
  INFO(blamed);
  CHECK(count == 0);
}

TEST_CASE("kernels: a row, tile or head that is off by 3 % has no explanation",
          "[kernels][diagnose]") {
  std::string explained;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < kernels_to_explain(4); ++i) {
    kernels::Kernel kernel = kernels::kernel_of(5001 + i, false);
    if (kernel.scores != DType::f32) kernel.size = std::min(kernel.size, 1.0);
    const kernels::Port port = kernels::port_of(kernel, kernels::mistake_of(kernel, 5001 + i));
    const Diagnosis d = diagnose(port.layer, port.stages, false, 1);
    if (!d.explained) continue;
    ++count, explained += text_of_kernel(kernel, d);
  }
  INFO(explained);
  CHECK(count == 0);
}

TEST_CASE("kernels: a logsumexp in base 2 is told by its factor", "[kernels][diagnose]") {
  for (const std::uint64_t number : {3U, 8U, 12U}) {
    const kernels::Kernel kernel = kernels::kernel_of(number, false);
    kernels::Port port = kernels::port_of(kernel);
    const auto lse = std::ranges::find(port.stages, Stage::logsumexp, &ReferenceStage::stage);
    if (lse == port.stages.end()) continue;
    std::vector<float> numbers(lse->value.as<float>().begin(), lse->value.as<float>().end());
    for (float& x : numbers) x *= static_cast<float>(M_LOG2E);
    lse->value = Tensor::of<float>(lse->value.shape(), numbers);
    const Diagnosis d = diagnose(port.layer, port.stages, false, 1);
    INFO(text_of_kernel(kernel, d));
    REQUIRE(d.explained);
    REQUIRE(d.changes.size() == 1);
    CHECK(d.changes[0].id == "multiplied");
    CHECK(d.changes[0].did.find("1.4427 = 1/ln 2") != std::string::npos);
  }
}

TEST_CASE("kernels: a wrong row of a half type's output is not taken for rounding",
          "[kernels][diagnose]") {
  for (const std::uint64_t number : {9001U, 9004U, 9010U, 9012U}) {
    kernels::Kernel kernel = kernels::kernel_of(number, true);
    kernel.stored = DType::bf16;
    kernels::Port port = kernels::port_of(kernel);
    const auto output = std::ranges::find(port.stages, Stage::output, &ReferenceStage::stage);
    std::vector<float> numbers(output->value.as<float>().begin(), output->value.as<float>().end());
    for (std::size_t d = 0; d < kernel.d_model; ++d) numbers[d] *= 1.03F;
    output->value = convert(convert(Tensor::of<float>(output->value.shape(), numbers), DType::bf16),
                            DType::f32);
    const Diagnosis d = diagnose(port.layer, port.stages, false, 1);
    INFO(text_of_kernel(kernel, d));
    CHECK_FALSE(d.explained);
    CHECK(d.unexplained == Stage::output);
  }
}
