#include <mha/observe/placement.hpp>

#include <mha/schedule/tiles.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mha {

Placement::Placement(const Layer& layer, Stage stage, const Selection& selection)
    : stage_(stage), batched_(layer.dims.batched) {
  const std::vector<SelectedAxis> axes = selected_axes(layer, stage, selection);
  targets_.resize(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::vector<std::size_t>& chosen = axes[a].pick.indices;
    targets_[a].count = axes[a].count;
    if (chosen.size() == 1) {
      targets_[a].only = chosen[0];
      continue;
    }
    targets_[a].position.assign(axes[a].count, -1);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      targets_[a].position[chosen[i]] = static_cast<std::ptrdiff_t>(i);
  }

  // The order in which the result has the axes: the table's, its last two exchanged in `columns`.
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
    axes_.push_back(axes[a]);
    shape_.push_back(axes[a].pick.indices.size());
  }
}

namespace {

/// Neighbours along an axis of the result.
struct Run {
  std::size_t first = 0, count = 0;
  bool contiguous = true; ///< in the source, too
};

std::vector<Run> runs_of(const std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < to.size(); i += runs.back().count) {
    Run& run = runs.emplace_back(Run{i, 1, true});
    for (std::size_t& n = run.count; i + n < to.size(); ++n) {
      if (to[i + n] != to[i] + n) break;
      run.contiguous = run.contiguous && from[i + n] == from[i] + n;
    }
  }
  return runs;
}

} // namespace

void Placement::require_within(std::size_t axis, std::size_t end) const {
  if (axis >= targets_.size() || end > targets_[axis].count)
    fail("{} of another layer is computed than what was made room for", name_of(stage_));
}

std::vector<Placement::Chosen> Placement::chosen_of(const Slice& block) const {
  const ArrayView& values = block.values;
  const std::size_t first_axis = batched_ ? 1 : 0;
  const std::vector<Dim>& letters = info_of(stage_).letters;
  std::vector<Chosen> chosen(values.shape.size());
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    const Axis axis = axis_of(letters[a]);
    std::size_t start = 0;
    if (axis == Axis::head || axis == Axis::kv_head) start = block.head;
    // A block of a token stage or a map starts at its token; the key axis of a map is whole.
    const bool token_axis =
        axis == Axis::query || (axis == Axis::key && info_of(stage_).kind == Kind::token);
    if (token_axis) start = block.token;
    require_within(first_axis + a, start + values.shape[a]);
    const Target& target = targets_[first_axis + a];
    for (std::size_t i = 0; i < values.shape[a]; ++i)
      if (const std::ptrdiff_t position = target.position_of(start + i); position >= 0) {
        chosen[a].to.push_back(static_cast<std::size_t>(position) * target.stride);
        chosen[a].from.push_back(i * static_cast<std::size_t>(values.strides[a]));
      }
    if (chosen[a].to.empty()) return {};
  }
  return chosen;
}

template <class Emit> void Placement::cut(const Slice& block, const Emit& emit) const {
  const std::size_t first_axis = batched_ ? 1 : 0, rank = block.values.shape.size();
  std::size_t base = 0;
  if (batched_) {
    require_within(0, block.batch + 1);
    const std::ptrdiff_t position = targets_[0].position_of(block.batch);
    if (position < 0) return;
    base = static_cast<std::size_t>(position) * targets_[0].stride;
  }
  const std::vector<Chosen> chosen = chosen_of(block);
  if (chosen.empty()) return;

  // The run goes along the axis that is contiguous in the result.
  std::size_t inner = rank - 1;
  for (std::size_t a = 0; a < rank; ++a)
    if (targets_[first_axis + a].stride == 1 && chosen[a].to.size() >= chosen[inner].to.size())
      inner = a;
  if (targets_[first_axis + inner].stride != 1)
    inner = rank - 1; // a dropped axis: runs of one element

  // The same runs in every row: looked for once.
  const Chosen& along = chosen[inner];
  const std::vector<Run> runs = runs_of(along.to, along.from);
  const auto emit_row = [&](std::size_t to, std::size_t from) {
    for (const auto& [first, count, contiguous] : runs)
      emit(to + along.to[first], from, &along.from[first], count, contiguous);
  };

  // The other axes, one index after the other.
  std::vector<std::size_t> others;
  for (std::size_t a = 0; a < rank; ++a)
    if (a != inner) others.push_back(a);
  std::vector<std::size_t> index(others.size(), 0);
  for (;;) {
    std::size_t to = base, from = 0;
    for (std::size_t o = 0; o < others.size(); ++o) {
      to += chosen[others[o]].to[index[o]];
      from += chosen[others[o]].from[index[o]];
    }
    emit_row(to, from);
    std::size_t o = others.size();
    while (o > 0 && ++index[o - 1] == chosen[others[o - 1]].to.size()) index[--o] = 0;
    if (o == 0) return;
  }
}

void Placement::scatter(const Slice& block, const Put& put) const {
  const std::size_t element = size_of(block.values.dtype);
  std::vector<std::byte> gathered;
  cut(block, [&](std::size_t to, std::size_t begin, const std::size_t* from, std::size_t n,
                 bool contiguous) {
    const std::byte* source = block.values.data + begin * element;
    if (contiguous) return put(to, source + from[0] * element, n);
    gathered.resize(n * element);
    for (std::size_t j = 0; j < n; ++j)
      std::memcpy(gathered.data() + j * element, source + from[j] * element, element);
    put(to, gathered.data(), n);
  });
}

std::vector<std::pair<std::size_t, std::size_t>> Placement::filled_by(const Layer& layer,
                                                                      const Plan& plan) const {
  const std::vector<Dim>& letters = info_of(stage_).letters;
  const bool with_heads = axis_of(letters[0]) == Axis::head || axis_of(letters[0]) == Axis::kv_head;
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (const Place& place : places_of(layer, plan, stage_)) {
    Shape shape{place.count};
    if (with_heads) shape.insert(shape.begin(), 1);
    if (letters.size() == shape.size() + 1) shape.push_back(layer.dims.size_of(letters.back()));
    const std::vector<std::ptrdiff_t> nowhere(shape.size(), 0);
    Slice block;
    block.stage = stage_, block.batch = place.batch, block.head = place.head;
    block.token = place.token, block.values = {layer.dtype, nullptr, shape, nowhere};
    cut(block, [&](std::size_t to, std::size_t, const std::size_t*, std::size_t n, bool) {
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
