#include <mha/compare/compare.hpp>

#include <mha/compare/elements.hpp>
#include <mha/compare/precision.hpp>
#include <mha/layer/graph.hpp>
#include <mha/naming/infer_axes.hpp>
#include <mha/observe/trace.hpp>
#include <mha/tensor/parts.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

/// Whether a stage holds −inf or a mask's constant at masked places.
bool shows_masks(Stage stage) {
  return stage == Stage::masked || stage == Stage::shifted || stage == Stage::row_max ||
         stage == Stage::logsumexp;
}

/// A thousandth of the root mean square of the finite numbers, mask constants excluded. In a large
/// tensor, evenly spaced numbers are a sample of all.
double near_zero(const Tensor& tensor) {
  constexpr double share = 1e-3;
  constexpr std::size_t most = std::size_t{1} << 16;
  double sum = 0;
  std::size_t n = 0;
  const std::size_t step = tensor.count() / most + 1;
  by_precision(tensor.dtype(), [&]<class R>(R) {
    const auto numbers = tensor.as<R>();
    for (std::size_t i = 0; i < numbers.size(); i += step) {
      const auto value = static_cast<double>(numbers[i]);
      if (!std::isfinite(value) || is_mask(value)) continue;
      sum += value * value, ++n;
    }
  });
  return n > 0 ? share * std::sqrt(sum / static_cast<double>(n)) : 0;
}

} // namespace

struct Comparison::Partial : ComparedElements {
  RowsOfHead rows;
};

/// One stage of the reference, and its layout.
struct Comparison::Target {
  Tensor value, allowed;
  Tolerance tolerance;
  DType bits = DType::f32;               ///< the coarser type
  double small = 0;                      ///< numbers below are near zero
  std::size_t batch_stride = 0;          ///< in elements; 0 where there is no batch axis
  std::vector<std::size_t> strides;      ///< by axis of the stage table, without the batch
  std::size_t heads = 1, head_width = 0; ///< head_width: of the columns of concat
};

void Comparison::add(const ReferenceStage& reference, Tolerance tolerance, const Tensor& allowed) {
  auto target = std::make_shared<Target>();
  target->value = reference.value, target->allowed = allowed;
  if (reference.value.shape() != layer_.shape_of(reference.stage))
    fail("{}: {} is {}, not {}", reference.source, name_of(reference.stage),
         to_string(reference.value.shape()), to_string(layer_.shape_of(reference.stage)));
  target->tolerance = tolerance;
  target->bits = coarser_of(layer_.dtype, reference.stored);
  target->small = near_zero(reference.value);
  const StageInfo& info = info_of(reference.stage);
  Shape lengths;
  for (Dim letter : info.letters) lengths.push_back(layer_.dims.size_of(letter));
  std::vector<std::size_t> order(lengths.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (layer_.settings.columns && info.kind != Kind::row)
    std::swap(order.end()[-1], order.end()[-2]);
  target->strides.resize(order.size());
  std::size_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    target->strides[*axis] = stride;
    stride *= lengths[*axis];
  }
  if (layer_.dims.batched) target->batch_stride = stride;
  if (begins_with_heads(reference.stage)) target->heads = lengths[0];
  if (reference.stage == Stage::concat && layer_.dims.d_v > 0)
    target->heads = layer_.dims.H, target->head_width = layer_.dims.d_v;
  targets_[reference.stage] = std::move(target);
}

StageSet Comparison::wants() const {
  StageSet set;
  for (const auto& [stage, target] : targets_) set.add(stage);
  return set;
}

namespace {

/// The sum of the layer's float masks at one place.
double added_mask(const Layer& layer, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
  double sum = 0;
  for (const Broadcast& mask : layer.added) {
    if (j < mask.first_key || j >= mask.first_key + mask.keys) continue;
    const std::size_t at = b * mask.strides[0] + h * mask.strides[1] + t * mask.strides[2] +
                           (j - mask.first_key) * mask.strides[3];
    sum += value_at(mask.tensor, at);
  }
  return sum;
}

} // namespace

void Comparison::observe(const Slice& block) {
  const std::shared_ptr<Target> target = targets_.at(block.stage);
  const std::vector<Dim>& letters = info_of(block.stage).letters;
  const Shape& shape = block.values.shape;
  const bool with_heads = begins_with_heads(block.stage);
  const bool rows = info_of(block.stage).kind == Kind::row,
             of_keys = !rows && axis_of(letters.back()) == Axis::key;
  // Numbers of keys, or of other heads, that belong to a head are one row.
  const std::size_t n = has_rows(block.stage) ? shape[with_heads ? 1 : 0] : 1,
                    width = rows ? 1 : shape.back();
  const std::size_t head_parts = target->head_width > 0 ? target->heads : 1;
  const auto stride = [&](std::size_t axis) { return target->strides[axis]; };
  const auto strides = [&](std::size_t axis) { return block.values.strides[axis]; };
  const std::size_t tokens = with_heads ? 1 : 0, // the axis of tokens
      numbers = shape.size() - 1;                // the axis of a row's numbers

  const auto work = [&](auto a_type, auto r_type) {
    using A = decltype(a_type);
    using R = decltype(r_type);
    const R* theirs = target->value.template as<R>().data();
    for (std::size_t h = 0; h < (with_heads ? shape[0] : 1); ++h)
      for (std::size_t part = 0; part < head_parts; ++part) {
        auto partial = std::make_shared<Partial>();
        const std::size_t head = block.head + h, columns = width / head_parts;
        // Rows after the end of a shorter text are not compared: implementations leave anything
        // there.
        for (std::size_t i = 0; i < n && block.token + i < block.length; ++i) {
          const std::size_t token = block.token + i, wrong = partial->mismatched;
          Elements<A, R> some{};
          some.ours = reinterpret_cast<const A*>(block.values.data) +
                      (with_heads ? static_cast<std::ptrdiff_t>(h) * strides(0) : 0) +
                      static_cast<std::ptrdiff_t>(i) * strides(tokens) +
                      (rows ? 0 : static_cast<std::ptrdiff_t>(part * columns) * strides(numbers));
          some.our_step = rows ? 1 : strides(numbers);
          some.theirs = theirs;
          some.allowed = target->allowed.empty() ? nullptr : target->allowed.as<float>().data();
          some.step = rows ? 1 : stride(numbers);
          some.first = block.batch * target->batch_stride + (with_heads ? head * stride(0) : 0) +
                       token * stride(tokens) + part * columns * some.step;
          some.count = of_keys ? std::min(columns, block.length) : columns;
          compare_elements(
              some, {target->tolerance, target->bits, target->small, shows_masks(block.stage)},
              [&](std::size_t j) {
                return !rows && is_mask(added_mask(layer_, block.batch, head, token, j));
              },
              *partial);
          ++partial->rows.count;
          if (partial->mismatched > wrong) append(partial->rows.wrong, {token, token});
        }
        const std::size_t place = target->head_width > 0 ? part : head;
        const std::lock_guard lock(mutex_);
        parts_[{block.stage, block.batch, place, block.token}] = std::move(partial);
      }
  };
  by_precision(block.values.dtype, [&]<class A>(A a) {
    by_precision(target->value.dtype(), [&]<class R>(R r) { work(a, r); });
  });
}

Difference Comparison::of(Stage stage) const {
  const std::shared_ptr<Target> target = targets_.at(stage);
  std::vector<Partial> heads(target->heads);
  RowsByHead rows;
  Partial total;
  for (auto part = parts_.lower_bound({stage, 0, 0, 0});
       part != parts_.end() && std::get<0>(part->first) == stage; ++part) {
    const auto [of_stage, item, place, token] = part->first;
    const std::size_t head = target->heads == 1 ? 0 : place;
    total.add(*part->second);
    heads[head].add(*part->second);
    RowsOfHead& of_head = rows[{item, head}];
    of_head.count += part->second->rows.count;
    for (const IndexRange& range : part->second->rows.wrong) append(of_head.wrong, range);
  }
  Difference result;
  result.same_bits = total.same_bits;
  result.within = total.mismatched == 0;
  result.count = total.count, result.mismatched = total.mismatched;
  result.ulp = total.ulp;
  if (!result.within)
    result.regions = regions_of(rows, layer_.dims.batched ? layer_.dims.B : 1, target->heads);
  const auto of_interest = [](const Partial& part) {
    return part.mismatched > 0 ? part.wrong : part.all;
  };
  const Partial::Worst worst = of_interest(total);
  result.max_abs = worst.abs, result.max_rel = worst.rel;
  result.ours = worst.ours, result.theirs = worst.theirs;
  const Shape& shape = target->value.shape();
  result.at.resize(shape.size());
  if (total.count > 0) result.at = place_of(shape, worst.index);
  if (total.finite > 0) result.rms = std::sqrt(total.rr / static_cast<double>(total.finite));
  if (!result.within) result.nearest = static_cast<float>(std::sqrt(std::max(0.0, total.nearest)));
  const double norms = std::sqrt(total.aa) * std::sqrt(total.rr);
  if (total.all.abs == 0)
    result.cosine = 1; // the same numbers
  else if (norms > 0)
    result.cosine = std::clamp(total.dot / norms, -1.0, 1.0);
  else
    result.cosine = total.finite > 0 && total.aa == 0 && total.rr == 0 ? 1 : 0;
  if (target->heads > 1 && total.count > 0 && worst.abs > 0) {
    std::size_t head = 0; // the most wrong elements, then the largest error
    for (std::size_t h = 1; h < heads.size(); ++h) {
      const std::size_t wrong = heads[h].mismatched, most = heads[head].mismatched;
      if (wrong != most ? wrong > most : of_interest(heads[h]).abs > of_interest(heads[head]).abs)
        head = h;
    }
    result.worst_head = head;
  }
  return result;
}

Difference compare(const Layer& layer, Stage stage, const Tensor& shown, const Tensor& reference,
                   Tolerance tolerance, std::optional<DType> stored, const Tensor& allowed) {
  const Tensor ours = shown.reshaped(side_by_side(layer, stage, shown.shape()));
  if (ours.shape() != layer.shape_of(stage))
    fail("{} is {}, not {}", name_of(stage), to_string(ours.shape()),
         to_string(layer.shape_of(stage)));
  Comparison comparison(layer);
  const bool floating = is_floating(reference.dtype());
  ReferenceStage theirs{stage, reference,
                        stored.value_or(floating ? reference.dtype() : layer.dtype),
                        "the reference", ""};
  if (reference.dtype() != DType::f64) theirs.value = convert(reference, DType::f32);
  comparison.add(theirs, tolerance, allowed);
  // Observed as in a computation: one block a batch item, axes in the order of the stage table.
  ArrayView whole = view_of(ours.dtype() == DType::f64 ? ours : convert(ours, DType::f32));
  if (layer.settings.columns && info_of(stage).kind != Kind::row) {
    std::swap(whole.shape.end()[-1], whole.shape.end()[-2]);
    std::swap(whole.strides.end()[-1], whole.strides.end()[-2]);
  }
  Slice block;
  block.stage = stage, block.values = whole;
  if (!layer.dims.batched) {
    if (ours.count() > 0) comparison.observe(block);
    return comparison.of(stage);
  }
  block.values.shape.erase(block.values.shape.begin());
  block.values.strides.erase(block.values.strides.begin());
  for (std::size_t b = 0; b < layer.dims.B && ours.count() > 0; ++b) {
    block.batch = b;
    if (!layer.lengths.empty()) block.length = layer.lengths[b];
    block.values.data =
        whole.data + b * static_cast<std::size_t>(whole.strides[0]) * size_of(whole.dtype);
    comparison.observe(block);
  }
  return comparison.of(stage);
}

bool may_be_rounding(const Difference& found, DType precision) {
  constexpr double least_cosine = 0.9, least_cosine_in_float = 0.999;
  constexpr float no_rounding_in_float = 0.02F;
  if (!std::isfinite(found.max_abs)) return false;
  if (is_short(precision)) return found.cosine >= least_cosine;
  return found.cosine >= least_cosine_in_float && found.nearest < no_rounding_in_float;
}

} // namespace mha
