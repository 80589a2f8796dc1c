// Kernels: right ones in other orders of sums and shorter types are no difference, and one row,
// tile or head that is off by 3 % is, in its place.

#include "support/kernels.hpp"
#include "support/sanitizers.hpp"
#include <mha/compare/diff.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <array>

using namespace mha;

namespace {

/// The numbers of the tests, and others for whoever changes a bound.
std::uint64_t first_kernel() {
  const char* const text = std::getenv("MHA_KERNELS_FROM");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}
std::uint64_t how_many_kernels() {
  const char* const text = std::getenv("MHA_KERNELS");
  return text ? std::strtoull(text, nullptr, 10) : sanitized ? 40 : 200;
}

std::string told_of_kernel(const Diff& found) {
  std::string text;
  for (const StageDiff& row : found.stages)
    text +=
        fmt::format("\n  {} {}: {} of {}, max {:.3g} at {}, head {}, allowed {:.3g}",
                    name_of(row.stage), name_of(row.status), row.difference.mismatched,
                    row.difference.count, row.difference.max_abs, fmt::join(row.difference.at, ","),
                    row.difference.worst_head.value_or(99), row.rounding);
  return text;
}

} // namespace

TEST_CASE("kernels: a right port is no difference", "[kernels]") {
  std::string wrong;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    const kernels::Kernel kernel = kernels::kernel_of(first_kernel() + i, i % 4 == 0);
    const kernels::Port port = kernels::port_of(kernel);
    Reference reference;
    reference.stages = port.stages;
    const Diff found = diff(port.layer, reference);
    if (found.equal()) continue;
    ++count;
    wrong += "\n" + kernel.text() + told_of_kernel(found);
  }
  INFO(wrong);
  CHECK(count == 0);
}

TEST_CASE("kernels: a row, tile or head that is off by 3 % is found in its place", "[kernels]") {
  std::string missed;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    const std::uint64_t number = 5000 + first_kernel() + i;
    kernels::Kernel kernel = kernels::kernel_of(number, i % 4 == 0);
    // Large scores that are kept in bfloat16 are off by more than 3 % themselves.
    if (kernel.scores != DType::f32) kernel.size = std::min(kernel.size, 1.0);
    const kernels::Mistake mistake = kernels::mistake_of(kernel, number);
    const kernels::Port port = kernels::port_of(kernel, mistake);
    Reference reference;
    reference.stages = port.stages;
    const Diff found = diff(port.layer, reference);
    const auto row = std::ranges::find(found.stages, Stage::head_out, &StageDiff::stage);
    const Difference& d = row->difference;
    // at: item, head, row, dimension
    const bool rows_right = mistake.of_keys || (d.at.size() == 4 && d.at[2] >= mistake.first &&
                                                d.at[2] < mistake.first + mistake.count);
    if (found.first == Stage::head_out && d.worst_head == mistake.head && d.at[0] == mistake.item &&
        rows_right)
      continue;
    ++count;
    missed += "\n" + kernel.text() + "\n" + mistake.text() + told_of_kernel(found);
  }
  INFO(missed);
  CHECK(count == 0);
}

TEST_CASE("kernels: a row of a half type's output is judged by the heads it is made of",
          "[kernels]") {
  std::string missed;
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    kernels::Kernel kernel = kernels::kernel_of(9000 + first_kernel() + i, true);
    kernel.stored = DType::bf16;
    kernels::Port port = kernels::port_of(kernel);
    const auto output = std::ranges::find(port.stages, Stage::output, &ReferenceStage::stage);
    Reference reference;
    const std::size_t rows = kernel.B * kernel.T, row = i % rows;
    std::vector<float> numbers(output->value.as<float>().begin(), output->value.as<float>().end());
    for (std::size_t d = 0; d < kernel.d_model; ++d) numbers[row * kernel.d_model + d] *= 1.03F;
    output->value = convert(convert(Tensor::of<float>(output->value.shape(), numbers), DType::bf16),
                            DType::f32);
    reference.stages = port.stages;
    const Diff found = diff(port.layer, reference);
    const Difference& d =
        std::ranges::find(found.stages, Stage::output, &StageDiff::stage)->difference;
    if (found.first == Stage::output && d.at[0] * kernel.T + d.at[1] == row) continue;
    ++count;
    missed += "\n" + kernel.text() + told_of_kernel(found);
  }
  INFO(missed);
  CHECK(count == 0);
}

namespace {

/// A few queries of a head or two, as in decoding, in a half type.
kernels::Kernel few_rows(std::uint64_t number) {
  kernels::Kernel kernel = kernels::kernel_of(number, false);
  kernel.B = kernel.H_kv = 1, kernel.H = 1 + number % 2, kernel.T = 1 + number / 2 % 3;
  kernel.S = 5 + number * 13 % 140;
  kernel.causal = kernel.masked = kernel.padded = false, kernel.window = -1;
  if (kernel.stored == DType::f32) kernel.stored = DType::bf16;
  return kernel;
}

} // namespace

TEST_CASE("kernels: of few rows in a half type, right ones are none and a scaled one is found",
          "[kernels]") {
  std::string told;
  std::size_t blamed = 0, missed = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    kernels::Kernel kernel = few_rows(17000 + first_kernel() + i);
    Reference reference;
    kernels::Port port = kernels::port_of(kernel);
    reference.stages = port.stages;
    if (const Diff found = diff(port.layer, reference); !found.equal())
      ++blamed, told += "\nblamed " + kernel.text() + told_of_kernel(found);
    kernel.scores = DType::f32;
    kernels::Mistake mistake;
    const std::array<double, 4> factors{0.9, 0.97, 1.03, 1.05};
    mistake.factor = factors[i % factors.size()], mistake.count = 1;
    mistake.head = i % kernel.H, mistake.first = i / 2 % kernel.T;
    port = kernels::port_of(kernel, mistake);
    reference.stages = port.stages;
    const Diff found = diff(port.layer, reference);
    const auto row = std::ranges::find(found.stages, Stage::head_out, &StageDiff::stage);
    const Difference& d = row->difference;
    if (!found.equal() && d.worst_head.value_or(mistake.head) == mistake.head &&
        d.at[2] == mistake.first)
      continue;
    ++missed, told += "\nmissed " + kernel.text() + "\n" + mistake.text() + told_of_kernel(found);
  }
  INFO(told);
  CHECK(blamed == 0);
  CHECK(missed == 0);
}

TEST_CASE("kernels: a float32 log-sum-exp is of queries and keys in the outputs' type",
          "[kernels]") {
  std::string wrong;
  std::size_t blamed = 0, missed = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    kernels::Kernel kernel = kernels::kernel_of(21000 + first_kernel() + i, true);
    kernel.stored = i % 2 == 0 ? DType::bf16 : DType::f16, kernel.scores = DType::f32;
    if (kernel.weights != DType::f32) kernel.weights = kernel.stored;
    // Rounded queries turn rows of sharp weights by one error, which few numbers tell from a
    // mistake.
    kernel.size = std::min(kernel.size, 1.0);
    kernels::Port port = kernels::port_of(kernel);
    std::erase_if(port.stages, [](const ReferenceStage& one) { return one.stage < Stage::scores; });
    Reference reference;
    reference.stages = port.stages;
    if (const Diff found = diff(port.layer, reference); !found.equal())
      ++blamed, wrong += "\nblamed " + kernel.text() + told_of_kernel(found);
    ReferenceStage& lse = reference.stages.front();
    REQUIRE(lse.stage == Stage::logsumexp);
    std::vector<float> numbers(lse.value.as<float>().begin(), lse.value.as<float>().end());
    for (float& one : numbers) one *= 1.4427F; // of base 2
    lse.value = Tensor::of<float>(lse.value.shape(), numbers);
    if (const Diff found = diff(port.layer, reference); found.first != Stage::logsumexp)
      ++missed, wrong += "\nmissed " + kernel.text() + told_of_kernel(found);
  }
  INFO(wrong);
  CHECK(blamed == 0);
  CHECK(missed == 0);
}

TEST_CASE("kernels: large scores that are kept in a half type show in the later of few tokens",
          "[kernels]") {
  std::string wrong;
  std::size_t blamed = 0;
  for (std::uint64_t i = 0; i < how_many_kernels(); ++i) {
    kernels::Kernel kernel = kernels::kernel_of(25000 + first_kernel() + i, false);
    kernel.T = kernel.S = 5 + i % 5, kernel.d_k = kernel.d_v = i % 2 == 0 ? 5 : 16;
    kernel.causal = true, kernel.padded = false, kernel.window = -1, kernel.size = 4;
    if (kernel.stored == DType::f32) kernel.stored = DType::bf16;
    kernel.weights = kernel.scores = kernel.stored;
    if (kernel.order == kernels::Order::online) kernel.order = kernels::Order::forward;
    const kernels::Port port = kernels::port_of(kernel);
    Reference reference;
    reference.stages = port.stages;
    if (const Diff found = diff(port.layer, reference); !found.equal())
      ++blamed, wrong += "\nblamed " + kernel.text() + told_of_kernel(found);
  }
  INFO(wrong);
  // Where rounded scores move one number of one row alone, no other row shows that they are
  // rounded.
  CHECK(blamed * 200 <= how_many_kernels());
}
