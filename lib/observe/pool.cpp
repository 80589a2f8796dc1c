#include <mha/observe/pool.hpp>

#include <mha/forward/mask.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/hidden_keys.hpp>
#include <mha/observe/share_bytes.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The columns that are added up at once: whole cells, about as many as fit the first cache.
std::size_t strip_of(std::size_t factor) {
  return std::max<std::size_t>(1, 1024 / factor) * factor;
}

/// Largest of two, or NaN if there is one.
double larger(double a, double b) {
  return b > a || std::isnan(b) ? b : a;
}

/// How many of [first, last) lie in [from, to).
std::size_t overlap(std::size_t first, std::size_t last, std::size_t from, std::size_t to) {
  const std::size_t begin = std::max(first, from), end = std::min(last, to);
  return end > begin ? end - begin : 0;
}

} // namespace

Pool::Side Pool::side_of(Pick pick, std::size_t count, std::size_t most) {
  Side side;
  side.chosen = std::move(pick.indices);
  side.place.assign(count, -1);
  side.contiguous = true;
  for (std::size_t i = 0; i < side.chosen.size(); ++i) {
    side.place[side.chosen[i]] = static_cast<std::ptrdiff_t>(i);
    side.contiguous = side.contiguous && side.chosen[i] == side.chosen[0] + i;
  }
  const std::size_t n = side.chosen.size();
  side.factor = std::max<std::size_t>(1, (n + most - 1) / most);
  side.cells = (n + side.factor - 1) / side.factor;
  return side;
}

Pool::Pool(const Layer& layer, Stage stage, const Selection& selection, Size most, Pooling pooling)
    : layer_(layer), stage_(stage), pooling_(pooling) {
  if (info_of(stage).kind != Kind::map)
    fail("{} is no map of queries × keys: choose scores, scaled, capped, biased, masked, shifted, "
         "exp or weights",
         name_of(stage));
  require_stage(layer, stage);
  const Dims& dims = layer.dims;
  batches_ = side_of(resolved(selection.batch, dims.B, "batch items"), dims.B, dims.B);
  heads_ = side_of(resolved(selection.head, dims.H, "heads"), dims.H, dims.H);
  queries_ = side_of(resolved(selection.query, dims.T, "queries"), dims.T, most.rows);
  keys_ = side_of(resolved(selection.key, dims.S_all, "keys"), dims.S_all, most.cols);
  whole_.resize(batches_.chosen.size() * heads_.chosen.size(),
                std::vector<BlockSums>(queries_.cells));

  if (stage == Stage::masked || stage == Stage::shifted) masks_ = Masks::values;
  if (stage == Stage::exp || stage == Stage::weights) {
    const bool tensors = !layer.added.empty() || !layer.blocked.empty() || !layer.bias.empty() ||
                         layer.has_given(Stage::masked) || layer.has_given(Stage::shifted);
    const bool zeros = layer.settings.masked_rows == MaskedRows::zero &&
                       !layer.has_given(Stage::exp) && !layer.has_given(Stage::weights);
    masks_ = tensors || !zeros || !keys_.contiguous ? Masks::rows : Masks::ranges;
  }
}

StageSet Pool::wants() const {
  StageSet set;
  set.set(index_of(stage_));
  return set;
}

void Pool::observe(const Slice& block) {
  const std::ptrdiff_t b = batches_.place[block.batch], h = heads_.place[block.head];
  if (b < 0 || h < 0) return;
  const std::size_t map =
      static_cast<std::size_t>(b) * heads_.chosen.size() + static_cast<std::size_t>(h);
  if (layer_.dtype == DType::f64)
    pool<double>(block, map);
  else
    pool<float>(block, map);
}

/// The bands of a block arrive in order, in one thread: nobody else has its part.
Pool::BlockSums& Pool::part_at(const Place& place) {
  const std::lock_guard lock(mutex_);
  return parts_[place];
}

/// A row of cells after the other, each with the rows of the block that belong to it.
template <class T> void Pool::pool(const Slice& block, std::size_t map) {
  std::vector<std::pair<std::size_t, std::size_t>> rows; // row of cells, row of the block
  for (std::size_t i = 0; i < block.values.shape[1]; ++i)
    if (const std::ptrdiff_t place = queries_.place[block.token + i];
        place >= 0 && block.token + i < block.length) // padding is left blank
      rows.emplace_back(static_cast<std::size_t>(place) / queries_.factor, i);
  std::sort(rows.begin(), rows.end());
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    members.push_back(rows[i].second);
    const std::size_t cell = rows[i].first;
    if (i + 1 < rows.size() && rows[i + 1].first == cell) continue;
    BlockSums part = pool_rows<T>(block, members);
    const std::size_t first = cell * queries_.factor;
    if (members.size() == std::min(queries_.factor, queries_.chosen.size() - first)) {
      whole_[map][cell] = std::move(part);
    } else {
      add(part_at({map, cell, block.token / block_queries}), part);
    }
    members.clear();
  }
}

template <class T>
Pool::BlockSums Pool::pool_rows(const Slice& block, std::span<const std::size_t> rows) const {
  const std::size_t n = keys_.chosen.size(), factor = keys_.factor, all = layer_.dims.S_all;
  const bool mean = pooling_ == Pooling::mean;
  const double nothing = mean ? 0 : -std::numeric_limits<double>::infinity();
  const auto row_of = [&](std::size_t row) {
    return reinterpret_cast<const T*>(block.values.data) +
           static_cast<std::ptrdiff_t>(row) * block.values.strides[1];
  };

  // The numbers, and the mask, of the chosen keys side by side.
  const std::size_t first_key = keys_.contiguous && n > 0 ? keys_.chosen[0] : 0;
  std::vector<T> gathered, masks;
  if (!keys_.contiguous) {
    gathered.resize(rows.size() * n);
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t j = 0; j < n; ++j) gathered[r * n + j] = row_of(rows[r])[keys_.chosen[j]];
  }
  if (masks_ == Masks::rows) {
    std::vector<T> mask(all);
    masks.resize(rows.size() * n);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      mask_row(layer_, {block.batch, block.head, block.token + rows[r]}, mask.data());
      for (std::size_t j = 0; j < n; ++j) masks[r * n + j] = mask[keys_.chosen[j]];
    }
  }
  std::vector<Visible> seen(rows.size(), Visible{0, all});
  if (masks_ == Masks::ranges)
    for (std::size_t r = 0; r < rows.size(); ++r)
      seen[r] = visible_keys(layer_, block.batch, block.token + rows[r]);
  const std::size_t positioned = layer_.dims.past + layer_.dims.S; // extra keys are always seen

  BlockSums part{std::vector<double>(keys_.cells, nothing),
                 std::vector<std::uint32_t>(keys_.cells)};
  const std::size_t strip = strip_of(factor);
  std::vector<double> sums(std::min(strip, n));
  std::vector<std::uint32_t> counts(sums.size());
  for (std::size_t begin = 0; begin < n; begin += strip) {
    const std::size_t end = std::min(begin + strip, n);
    if (masks_ == Masks::ranges && positioned == all &&
        std::none_of(seen.begin(), seen.end(), [&](const Visible& keys) {
          return keys.first < first_key + end && keys.last > first_key + begin;
        }))
      continue; // above the diagonal
    std::fill(sums.begin(), sums.end(), nothing);
    std::fill(counts.begin(), counts.end(), 0u);
    const auto add_range = [&](const T* row, std::size_t from, std::size_t to) {
      if (mean)
        for (std::size_t j = from; j < to; ++j) sums[j - begin] += static_cast<double>(row[j]);
      else
        for (std::size_t j = from; j < to; ++j)
          sums[j - begin] = larger(sums[j - begin], static_cast<double>(row[j]));
      for (std::size_t c = from / factor; c * factor < to; ++c)
        part.counts[c] +=
            static_cast<std::uint32_t>(overlap(from, to, c * factor, (c + 1) * factor));
    };
    const auto add_unmasked = [&](const T* row, const T* mask) {
      for (std::size_t j = begin; j < end; ++j) {
        const T value = row[j];
        const bool hidden = mask ? is_hidden(mask[j], value) : is_masked(value);
        const double sum = sums[j - begin], number = static_cast<double>(value);
        sums[j - begin] = hidden ? sum : mean ? sum + number : larger(sum, number);
        counts[j - begin] += !hidden;
      }
    };
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const T* row = keys_.contiguous ? row_of(rows[r]) + first_key : gathered.data() + r * n;
      if (masks_ == Masks::rows || masks_ == Masks::values) {
        add_unmasked(row, masks_ == Masks::rows ? masks.data() + r * n : nullptr);
        continue;
      }
      // Of the keys [first, last), those of this strip; counted from the first chosen one.
      const auto add_keys = [&](std::size_t first, std::size_t last) {
        const std::size_t from = std::max(first, first_key + begin),
                          to = std::min(last, first_key + end);
        if (from < to) add_range(row, from - first_key, to - first_key);
      };
      if (masks_ == Masks::nowhere && block.length < all) {
        for (std::size_t j = begin; j < end; ++j)
          if (keys_.chosen[j] < block.length) add_range(row, j, j + 1);
      } else if (masks_ == Masks::nowhere) {
        add_range(row, begin, end);
      } else {
        add_keys(seen[r].first, seen[r].last);
        add_keys(positioned, all);
      }
    }
    for (std::size_t c = begin / factor; c * factor < end; ++c)
      for (std::size_t j = c * factor; j < std::min((c + 1) * factor, end); ++j) {
        part.sums[c] =
            mean ? part.sums[c] + sums[j - begin] : larger(part.sums[c], sums[j - begin]);
        part.counts[c] += counts[j - begin];
      }
  }
  return part;
}

void Pool::add(BlockSums& to, const BlockSums& from) const {
  if (to.sums.empty()) {
    to = from;
    return;
  }
  for (std::size_t c = 0; c < to.sums.size(); ++c) {
    to.sums[c] =
        pooling_ == Pooling::mean ? to.sums[c] + from.sums[c] : larger(to.sums[c], from.sums[c]);
    to.counts[c] += from.counts[c];
  }
}

std::string Pool::packed(const Layer&, const Plan&) const {
  ShareWriter bytes;
  const auto add = [&](const Place& place, const BlockSums& row) {
    const auto& [map, cell, block] = place;
    bytes.add(map), bytes.add(cell), bytes.add(block);
    bytes.add(std::span(row.sums)), bytes.add(std::span(row.counts));
  };
  for (std::size_t m = 0; m < whole_.size(); ++m)
    for (std::size_t cell = 0; cell < whole_[m].size(); ++cell)
      if (!whole_[m][cell].sums.empty()) add({m, cell, no_block}, whole_[m][cell]);
  for (const auto& [place, row] : parts_) add(place, row);
  return bytes.take();
}

void Pool::unpack(const Layer&, const Plan&, std::string_view bytes) {
  ShareReader reader(bytes);
  while (!reader.at_end()) {
    const auto map = reader.take<std::size_t>(), cell = reader.take<std::size_t>(),
               block = reader.take<std::size_t>();
    if (map >= whole_.size() || cell >= queries_.cells)
      fail("a rank has sent row {} of map {}: there are {} maps of {} rows", cell, map,
           whole_.size(), queries_.cells);
    BlockSums row{std::vector<double>(keys_.cells), std::vector<std::uint32_t>(keys_.cells)};
    reader.take(std::span(row.sums)), reader.take(std::span(row.counts));
    if (block == no_block)
      whole_[map][cell] = std::move(row);
    else
      parts_.insert_or_assign(Place{map, cell, block}, std::move(row));
  }
}

std::vector<PooledMap> Pool::maps() const {
  std::vector<PooledMap> maps;
  for (std::size_t m = 0; m < whole_.size(); ++m) {
    PooledMap map;
    map.batch = batches_.chosen[m / heads_.chosen.size()];
    map.head = heads_.chosen[m % heads_.chosen.size()];
    map.rows = queries_.cells, map.cols = keys_.cells;
    map.values.assign(map.rows * map.cols, std::numeric_limits<double>::quiet_NaN());
    map.masked.assign(map.rows * map.cols, 1);
    for (std::size_t r = 0; r < map.rows; ++r) {
      BlockSums row = whole_[m][r];
      for (auto part = parts_.lower_bound({m, r, 0});
           part != parts_.end() && std::get<0>(part->first) == m && std::get<1>(part->first) == r;
           ++part)
        add(row, part->second);
      for (std::size_t c = 0; c < row.sums.size(); ++c) {
        if (row.counts[c] == 0) continue;
        map.masked[r * map.cols + c] = 0;
        map.values[r * map.cols + c] =
            pooling_ == Pooling::mean ? row.sums[c] / row.counts[c] : row.sums[c];
      }
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

} // namespace mha
