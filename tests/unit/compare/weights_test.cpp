// Orders of rows and their names, and weights in steps of block types.

#include <mha/compare/weight_order.hpp>
#include <mha/compare/weights.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace mha;

namespace {

std::vector<float> random_numbers(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(n);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

std::vector<float> with_rows(const std::vector<float>& numbers, const RowPermutation& order) {
  const std::size_t columns = numbers.size() / order.size();
  std::vector<float> result;
  for (const std::size_t row : order)
    for (std::size_t j = 0; j < columns; ++j) result.push_back(numbers[row * columns + j]);
  return result;
}

Weight weight_of(std::vector<float> numbers, const Shape& shape) {
  Weight weight;
  weight.name = weight.role = "w", weight.type = "float32", weight.shape = shape;
  weight.read = [numbers = std::move(numbers), shape] { return Tensor::of<float>(shape, numbers); };
  return weight;
}

} // namespace

TEST_CASE("weights: pairs of halves become neighbours") {
  // One head of six rows: 0 1 2 | 3 4 5.
  CHECK(half_to_interleaved(6, 1) == RowPermutation{0, 3, 1, 4, 2, 5});
  CHECK(half_to_interleaved(8, 2) == RowPermutation{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(inverse(half_to_interleaved(6, 1)) == RowPermutation{0, 2, 4, 1, 3, 5});
}

TEST_CASE("weights: a permutation is found by the rows, and named") {
  constexpr std::size_t rows = 48, columns = 7;
  const std::vector<float> numbers = random_numbers(rows * columns, 1);
  const auto named = [&](const RowPermutation& order) {
    const std::vector<float> moved = with_rows(numbers, order);
    const auto found = matching_rows({numbers, rows, columns}, {moved, rows, columns});
    REQUIRE(found);
    CHECK(*found == order);
    return name_of_order(order, {3}, "rows");
  };
  CHECK(named(half_to_interleaved(rows, 3)) == "half to interleaved, in 3 heads");
  CHECK(named(half_to_interleaved(rows, 6)) == "half to interleaved, in 6 heads");
  CHECK(named(inverse(half_to_interleaved(rows, 1))) == "interleaved to half, in 1 head");
  RowPermutation heads(rows); // of 12 rows, in the order 2 0 3 1
  for (std::size_t i = 0; i < rows; ++i)
    heads[i] = std::vector<std::size_t>{2, 0, 3, 1}[i / 12] * 12 + i % 12;
  CHECK(named(heads) == "heads of 12 rows in the order 2, 0, 3, 1");
  RowPermutation both(rows); // the same, then neighbours in 4 heads
  const RowPermutation turn = half_to_interleaved(rows, 4);
  for (std::size_t i = 0; i < rows; ++i) both[i] = heads[turn[i]];
  CHECK(named(both) == "half to interleaved, and heads of 12 rows in the order 2, 0, 3, 1");
  RowPermutation any(rows);
  std::iota(any.begin(), any.end(), std::size_t{0});
  std::shuffle(any.begin(), any.end(), std::mt19937(3));
  CHECK(named(any).starts_with("rows in another order: "));
}

TEST_CASE("weights: close is within the steps of a block type") {
  constexpr std::size_t n = 4000;
  const std::vector<float> numbers = random_numbers(n, 2);
  const float step = 0.05F;
  const auto stepped = [&](double scale) { // rounded to levels, then moved by some steps
    std::vector<float> levels;
    for (std::size_t i = 0; i < n; ++i) {
      const float level = std::round(numbers[i] / step) * step;
      levels.push_back(level + static_cast<float>(scale) * step * (i % 2 == 0 ? 1.0F : -1.0F));
    }
    Weight weight = weight_of(levels, {40, 100});
    weight.type = "Q8_0";
    weight.steps = [] { return Tensor::of<float>({40, 100}, std::vector<float>(4000, 0.05F)); };
    return weight;
  };
  const Weight a = weight_of(numbers, {40, 100});
  const WeightDiff close = diff_weight(a, stepped(0), {});
  CHECK(close.status == WeightStatus::close);
  REQUIRE(close.steps);
  CHECK(close.steps->median == Approx(0.25).margin(0.02));
  CHECK(close.steps->p99 == Approx(0.495).margin(0.01));
  CHECK(close.steps->above_half < 0.001);
  // Half a step off: the median of what rounding leaves beside it is half a step.
  const WeightDiff off = diff_weight(a, stepped(0.5), {});
  CHECK(off.status == WeightStatus::differs);
  CHECK(off.steps->median == Approx(0.5).margin(0.03));
  CHECK(off.steps->above_half == Approx(0.5).margin(0.03));
  CHECK(off.steps->above_one < 0.001);
}

TEST_CASE("weights: rounding to half precision is exact, to nearest even") {
  const Shape shape{3, 5};
  const std::vector<float> numbers = random_numbers(15, 4);
  const Weight a = weight_of(numbers, shape);
  for (const DType type : {DType::f16, DType::bf16}) {
    Weight b = weight_of(numbers, shape);
    b.read = [&] { return convert(Tensor::of<float>(shape, numbers), type); };
    CHECK(diff_weight(a, b, {}).status == WeightStatus::equal);
    // The neighbour of one number is not what rounding gives.
    b.read = [&] {
      std::vector<float> other = numbers;
      other[7] *= type == DType::f16 ? 1.002F : 1.02F;
      return convert(Tensor::of<float>(shape, other), type);
    };
    CHECK(diff_weight(a, b, {}).status == WeightStatus::differs);
  }
}

TEST_CASE("weights: NaN is equal to itself, and nothing else") {
  std::vector<float> numbers = random_numbers(12, 5);
  numbers[3] = std::numeric_limits<float>::quiet_NaN();
  const Weight a = weight_of(numbers, {12});
  CHECK(diff_weight(a, weight_of(numbers, {12}), {}).status == WeightStatus::equal);
  numbers[3] = 1;
  CHECK(diff_weight(a, weight_of(numbers, {12}), {}).status == WeightStatus::differs);
}

TEST_CASE("weights: empty tensors and single numbers") {
  CHECK(diff_weight(weight_of({}, {0, 4}), weight_of({}, {0, 4}), {}).status ==
        WeightStatus::equal);
  CHECK(diff_weight(weight_of({2}, {}), weight_of({3}, {}), {}).status == WeightStatus::offset);
  CHECK(diff_weight(weight_of({0, 0, 0}, {3}), weight_of({0, 1, 0}, {3}), {}).status ==
        WeightStatus::differs);
}

TEST_CASE("weights: another tensor in a tensor's place is named, and rows that a table gained") {
  const auto matrix = [](const std::string& name, std::size_t rows, double seed) {
    std::vector<double> numbers(rows * 6);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::sin(seed * 2.9 + static_cast<double>(i * i) * 1.3);
    const Tensor tensor = convert(Tensor::of<double>({rows, 6}, numbers), DType::f32);
    return Weight{name, name, "float32", tensor.shape(), [tensor] { return tensor; }, {}, {}};
  };
  const auto as = [](Weight weight, const std::string& name) {
    weight.name = weight.role = name;
    return weight;
  };
  const Weight gate = matrix("gate", 5, 1), up = matrix("up", 5, 2), table = matrix("table", 8, 3);
  WeightFile a{"a", "", {gate, up, table}, {}}, b{"b", "", {as(up, "gate"), as(gate, "up")}, {}};
  b.weights.push_back(as(matrix("table", 11, 3), "table"));
  const WeightsDiff diff = diff_weights(a, b);
  CHECK(diff.tensors[0].status == WeightStatus::differs);
  CHECK(diff.tensors[0].detail == "is A's up");
  CHECK(diff.tensors[1].detail == "is A's gate");
  CHECK(diff.tensors[2].status == WeightStatus::shape);
  CHECK(diff.tensors[2].detail == "3 rows more in B; of the other 8 all are equal");
  const WeightsDiff back = diff_weights(b, a);
  CHECK(back.tensors[2].detail == "3 rows more in A; of the other 8 all are equal");
  a.weights[2] = matrix("table", 8, 4);
  CHECK(diff_weights(a, b).tensors[2].detail == "3 rows more in B; of the other 8 rows 8 differ");
}

TEST_CASE("weights that have nothing in common are read once") {
  int reads = 0;
  const auto counted = [&](const char* name, unsigned seed) {
    Weight weight = weight_of(random_numbers(96, seed), {8, 12});
    weight.name = weight.role = name;
    weight.read = [&reads, read = weight.read] { return ++reads, read(); };
    return weight;
  };
  WeightFile a, b;
  a.weights = {counted("gate", 1), counted("up", 2)};
  b.weights = {counted("gate", 3), counted("up", 4)};
  for (const WeightDiff& one : diff_weights(a, b).tensors)
    CHECK(one.status == WeightStatus::differs);
  CHECK(reads == 4);
}
