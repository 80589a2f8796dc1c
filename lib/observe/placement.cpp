#include <mha/observe/placement.hpp>

#include <mha/schedule/tiles.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

namespace mha {

Placement::Placement(const Layer& layer, Stage stage, const Selection& selection)
    : stage_(stage), batched_(layer.dims.batched) {
  const std::vector<SelectedAxis> axes = selected_axes(layer, stage, selection);
  for (const SelectedAxis& axis : axes) {
    const std::vector<std::size_t>& chosen = axis.pick.indices;
    std::vector<Run> runs;
    for (std::size_t i = 0; i < chosen.size(); i += runs.back().count) {
      Run& run = runs.emplace_back(Run{chosen[i], i, 1});
      while (i + run.count < chosen.size() && chosen[i + run.count] == chosen[i] + run.count)
        ++run.count;
    }
    std::ranges::sort(runs, {}, &Run::index);
    targets_.push_back({axis.count, 0, std::move(runs)});
  }

  // The order of the result's axes: the stage table's, with the last two exchanged in `columns`.
  std::vector<std::size_t> order(axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (layer.settings.columns && info_of(stage).kind != Kind::row)
    std::swap(order.end()[-1], order.end()[-2]);
  std::size_t stride = 1;
  for (auto a = order.rbegin(); a != order.rend(); ++a) {
    targets_[*a].stride = stride;
    stride *= axes[*a].pick.indices.size();
  }
  for (std::size_t a : order) {
    if (axes[a].pick.drops_axis) continue;
    const std::size_t experts =
        a + 1 == axes.size() ? experts_side_by_side(layer, stage) : std::size_t{0};
    if (experts > 0) {
      add_whole({Axis::chosen, experts, {}});
      add_whole({Axis::width, axes[a].count / experts, {}});
      continue;
    }
    axes_.push_back(axes[a]);
    shape_.push_back(axes[a].pick.indices.size());
  }
}

/// Adds an axis of the result, all of whose positions are chosen.
void Placement::add_whole(SelectedAxis axis) {
  axis.pick.indices.resize(axis.count);
  std::iota(axis.pick.indices.begin(), axis.pick.indices.end(), std::size_t{0});
  shape_.push_back(axis.count);
  axes_.push_back(std::move(axis));
}

std::vector<Placement::Run> Placement::Target::within(std::size_t first, std::size_t end) const {
  std::vector<Run> parts;
  for (const Run& run : runs) {
    const std::size_t from = std::max(run.index, first), to = std::min(run.index + run.count, end);
    if (from < to) parts.push_back({from - first, run.position + (from - run.index), to - from});
  }
  return parts;
}

void Placement::require_within(std::size_t axis, std::size_t end) const {
  if (axis >= targets_.size() || end > targets_[axis].count)
    fail("{} of another layer is computed than what was made room for", name_of(stage_));
}

std::vector<std::vector<Placement::Run>> Placement::held_by(const Slice& block) const {
  const ArrayView& values = block.values;
  const std::size_t first_axis = batched_ ? 1 : 0;
  const std::vector<Dim>& letters = info_of(stage_).letters;
  std::vector<std::vector<Run>> held(values.shape.size());
  for (std::size_t a = 0; a < held.size(); ++a) {
    const Axis axis = axis_of(letters[a]);
    std::size_t start = 0;
    if (axis == Axis::head || axis == Axis::kv_head) start = block.head;
    // A block of a token stage or a map starts at its token; a map's axis of keys is whole.
    const bool token_axis =
        axis == Axis::query || (axis == Axis::key && info_of(stage_).kind == Kind::token);
    if (token_axis) start = block.token;
    const std::size_t end = start + values.shape[a];
    require_within(first_axis + a, end);
    held[a] = targets_[first_axis + a].within(start, end);
    if (held[a].empty()) return {};
  }
  return held;
}

std::size_t Placement::contiguous_axis(const std::vector<std::vector<Run>>& held) const {
  const auto count = [&](std::size_t a) {
    std::size_t sum = 0;
    for (const Run& run : held[a]) sum += run.count;
    return sum;
  };
  const Target* const targets = targets_.data() + (batched_ ? 1 : 0);
  std::size_t inner = held.size() - 1;
  for (std::size_t a = 0; a < held.size(); ++a)
    if (targets[a].stride == 1 && count(a) >= count(inner)) inner = a;
  return targets[inner].stride == 1 ? inner : held.size() - 1;
}

template <class Emit> void Placement::cut(const Slice& block, const Emit& emit) const {
  std::size_t base = 0;
  if (batched_) {
    require_within(0, block.batch + 1);
    const std::vector<Run> item = targets_[0].within(block.batch, block.batch + 1);
    if (item.empty()) return;
    base = item[0].position * targets_[0].stride;
  }
  const std::vector<std::vector<Run>> held = held_by(block);
  if (held.empty()) return;
  const Target* const targets = targets_.data() + (batched_ ? 1 : 0);
  const auto step = [&](std::size_t a) {
    return static_cast<std::size_t>(block.values.strides[a]);
  };

  // Consecutive runs in the result are joined; a dropped axis has runs of one element.
  const std::size_t inner = contiguous_axis(held), stride = targets[inner].stride;
  const std::vector<Run>& along = held[inner];
  const auto emit_row = [&](std::size_t to, std::size_t from) {
    for (std::size_t i = 0, end = 0; i < along.size(); i = end) {
      for (end = i + 1; stride == 1 && end < along.size(); ++end)
        if (along[end].position != along[end - 1].position + along[end - 1].count) break;
      if (stride == 1)
        emit(to + along[i].position, from, std::span(along).subspan(i, end - i), step(inner));
      else
        for (Run single{along[i].index, along[i].position, 1};
             single.index < along[i].index + along[i].count; ++single.index, ++single.position)
          emit(to + single.position * stride, from, std::span(&single, 1), step(inner));
    }
  };

  // All combinations of the other axes' indices.
  struct Offsets {
    std::vector<std::size_t> to, from;
  };
  std::vector<Offsets> others;
  for (std::size_t a = 0; a < held.size(); ++a) {
    if (a == inner) continue;
    Offsets& offsets = others.emplace_back();
    for (const Run& run : held[a])
      for (std::size_t i = 0; i < run.count; ++i) {
        offsets.to.push_back((run.position + i) * targets[a].stride);
        offsets.from.push_back((run.index + i) * step(a));
      }
  }
  std::vector<std::size_t> index(others.size(), 0);
  for (;;) {
    std::size_t to = base, from = 0;
    for (std::size_t o = 0; o < others.size(); ++o)
      to += others[o].to[index[o]], from += others[o].from[index[o]];
    emit_row(to, from);
    std::size_t o = others.size();
    while (o > 0 && ++index[o - 1] == others[o - 1].to.size()) index[--o] = 0;
    if (o == 0) return;
  }
}

void Placement::scatter(const Slice& block, const Put& put) const {
  const std::size_t element = size_of(block.values.dtype);
  std::vector<std::byte> gathered;
  cut(block, [&](std::size_t to, std::size_t from, std::span<const Run> runs, std::size_t step) {
    const auto source = [&](std::size_t index) {
      return block.values.data + (from + index * step) * element;
    };
    if (runs.size() == 1 && (step == 1 || runs[0].count == 1))
      return put(to, source(runs[0].index), runs[0].count);
    gathered.clear();
    for (const Run& run : runs)
      for (std::size_t i = 0; i < run.count; ++i)
        gathered.insert(gathered.end(), source(run.index + i), source(run.index + i) + element);
    put(to, gathered.data(), gathered.size() / element);
  });
}

std::vector<std::pair<std::size_t, std::size_t>> Placement::filled_by(const Layer& layer,
                                                                      const Plan& plan) const {
  const std::vector<Dim>& letters = info_of(stage_).letters;
  const bool with_heads = begins_with_heads(stage_);
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (const Place& place : places_of(layer, plan, stage_)) {
    Shape shape{place.count};
    if (with_heads) shape.insert(shape.begin(), 1);
    if (letters.size() == shape.size() + 1) shape.push_back(layer.dims.size_of(letters.back()));
    const std::vector<std::ptrdiff_t> nowhere(shape.size(), 0);
    Slice block;
    block.stage = stage_, block.batch = place.batch, block.head = place.head;
    block.token = place.token, block.values = {layer.dtype, nullptr, shape, nowhere};
    cut(block, [&](std::size_t to, std::size_t, std::span<const Run> row, std::size_t) {
      const std::size_t n = row.back().position + row.back().count - row.front().position;
      if (!runs.empty() && runs.back().first + runs.back().second == to)
        runs.back().second += n;
      else
        runs.emplace_back(to, n);
    });
  }
  std::sort(runs.begin(), runs.end());
  std::size_t last = 0;
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (runs[last].first + runs[last].second == runs[i].first)
      runs[last].second += runs[i].second;
    else
      runs[++last] = runs[i];
  if (!runs.empty()) runs.resize(last + 1);
  return runs;
}

} // namespace mha
