#include <mha/model/stage_means.hpp>

#include <mha/layer/select.hpp>
#include <mha/observe/trace.hpp>

namespace mha {

void StageMeans::add(const Layer& layer, Stage stage, const Tensor& values, Sum& to) const {
  const Shape& shape = values.shape(); // B, (heads,) rows, columns
  const bool with_heads = shape.size() == 4;
  const std::size_t heads = with_heads ? shape[1] : 1, rows = shape[shape.size() - 2],
                    columns = shape.back();
  if (to.sum.empty()) {
    to.shape = with_heads ? Shape{1, heads, 1, columns} : Shape{1, 1, columns};
    to.sum.resize(heads * columns);
  }
  if (to.sum.size() != heads * columns)
    fail("{}: the texts' layers have different sizes, so they have no mean", name_of(stage));
  for (std::size_t b = 0; b < shape[0]; ++b) {
    const std::vector<std::size_t> own =
        own_positions(layer, info_of(stage).letters[with_heads ? 1 : 0], b);
    for (std::size_t h = 0; h < heads; ++h)
      for (const std::size_t t : own) {
        const std::size_t first = ((b * heads + h) * rows + t) * columns;
        double* const sum = to.sum.data() + h * columns;
        for (std::size_t c = 0; c < columns; ++c) sum[c] += value_at(values, first + c);
      }
    to.count += own.size();
  }
}

void StageMeans::add(const TextLayers& texts, const StagesOfLayer& stages, std::size_t threads) {
  Advance pass;
  pass.threads = threads;
  std::optional<Trace> kept;
  std::optional<Layer> layer;
  std::vector<Stage> wanted;
  pass.observer = [&](const Layer& of, std::size_t n) -> Observer* {
    wanted.clear();
    for (const Stage stage : stages(of, n)) // maps have no mean, since their keys differ in number
      if (const Kind kind = info_of(stage).kind; kind != Kind::map && kind != Kind::row)
        wanted.push_back(stage);
    layer = of;
    kept.emplace(of, wanted);
    return &*kept;
  };
  pass.arrived = [&](const Residual& at) {
    for (const Stage stage : wanted)
      add(*layer, stage, with_batch_axis(*layer, kept->value(stage)), sums_[{at.layer - 1, stage}]);
  };
  advance(texts, texts.embedded(), texts.count(), pass);
}

Tensor StageMeans::mean(std::size_t layer, Stage stage) const {
  const auto at = sums_.find({layer, stage});
  if (at == sums_.end()) fail("layers.{}.{}: no text's values were added", layer, name_of(stage));
  const auto& [shape, sum, count] = at->second;
  Tensor mean(DType::f64, shape);
  double* to = mean.as_mutable<double>().data();
  for (const double one : sum) *to++ = one / static_cast<double>(count);
  return mean;
}

} // namespace mha
