#include <mha/observe/pool.hpp>

#include <mha/forward/mask.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/hidden_keys.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The columns that are added up at once: whole cells, about as many as fit the first cache.
std::size_t strip_of(std::size_t factor) {
  return std::max<std::size_t>(1, 1024 / factor) * factor;
}

/// The larger number; NaN wins.
double larger(double a, double b) {
  return b > a || std::isnan(b) ? b : a;
}

/// How many of [first, last) are in [from, to).
std::size_t overlap(std::size_t first, std::size_t last, std::size_t from, std::size_t to) {
  const std::size_t begin = std::max(first, from), end = std::min(last, to);
  return end > begin ? end - begin : 0;
}

} // namespace

Pool::Side Pool::side_of(Pick pick, std::size_t count, std::size_t most, std::size_t factor) {
  Side side;
  side.chosen = std::move(pick.indices);
  side.place.assign(count, -1);
  side.contiguous = true;
  for (std::size_t i = 0; i < side.chosen.size(); ++i) {
    side.place[side.chosen[i]] = static_cast<std::ptrdiff_t>(i);
    side.contiguous = side.contiguous && side.chosen[i] == side.chosen[0] + i;
  }
  const std::size_t n = side.chosen.size();
  side.factor = std::max({std::size_t{1}, factor, (n + most - 1) / most});
  side.cells = (n + side.factor - 1) / side.factor;
  return side;
}

Pool::Size Pool::of_one_scale(const Layer& layer, const std::vector<Selection>& texts, Size size) {
  if (texts.size() < 2) return size;
  const auto factor = [](const Pick& pick, std::size_t most) {
    return (pick.indices.size() + most - 1) / most;
  };
  for (const Selection& text : texts) {
    size.query_factor = std::max(size.query_factor, factor(chosen_queries(layer, text), size.rows));
    size.key_factor = std::max(size.key_factor, factor(chosen_keys(layer, text), size.cols));
  }
  return size;
}

Pool::Pool(const Layer& layer, Stage stage, const Selection& selection, Size most, Pooling pooling)
    : layer_(layer), stage_(stage), pooling_(pooling) {
  if (info_of(stage).kind != Kind::map)
    fail("{} is not a map of queries × keys: choose scores, scaled, capped, biased, masked, "
         "shifted, "
         "exp or weights",
         name_of(stage));
  require_stage(layer, stage);
  const Dims& dims = layer.dims;
  batches_ = side_of(chosen_items(layer, selection), dims.B, dims.B);
  heads_ = side_of(resolved(selection.head, dims.H, "heads"), dims.H, dims.H);
  queries_ = side_of(chosen_queries(layer, selection), dims.T, most.rows, most.query_factor);
  keys_ = side_of(chosen_keys(layer, selection), dims.S_all, most.cols, most.key_factor);
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
  return {stage_};
}

void Pool::observe(const Slice& block) {
  const std::ptrdiff_t b = batches_.place[block.batch], h = heads_.place[block.head];
  if (b < 0 || h < 0) return;
  const std::size_t map =
      static_cast<std::size_t>(b) * heads_.chosen.size() + static_cast<std::size_t>(h);
  by_precision(layer_.dtype, [&]<class T>(T) { pool<T>(block, map); });
}

/// The bands of a block arrive in order, in one thread, so that no other thread uses its part.
Pool::BlockSums& Pool::part_at(const Place& place) {
  const std::lock_guard lock(mutex_);
  return parts_[place];
}

/// Rows of one block as a row of cells, one strip of keys after the other, so that strips above the
/// diagonal are skipped.
template <class T> class Pool::PooledRows {
public:
  PooledRows(const Pool& pool, const Slice& block, std::span<const std::size_t> rows)
      : pool_(pool),
        block_(block),
        rows_(rows),
        chosen_(pool.keys_.chosen),
        factor_(pool.keys_.factor),
        all_(pool.layer_.dims.S_all),
        // Extra keys come after the last position and are always seen.
        positioned_(pool.layer_.dims.past + pool.layer_.dims.S),
        first_key_(pool.keys_.contiguous && !chosen_.empty() ? chosen_[0] : 0),
        mean_(pool.pooling_ == Pooling::mean),
        nothing_(mean_ ? 0 : -std::numeric_limits<double>::infinity()),
        seen_(rows.size(), Visible{0, all_}),
        cells_{std::vector<double>(pool.keys_.cells, nothing_),
               std::vector<std::uint32_t>(pool.keys_.cells)} {
    if (!pool.keys_.contiguous) gather_values();
    if (pool.masks_ == Masks::rows) gather_masks();
    if (pool.masks_ == Masks::ranges)
      for (std::size_t r = 0; r < rows.size(); ++r)
        seen_[r] = visible_keys(pool.layer_, block.batch, block.token + rows[r]);
  }

  BlockSums take() {
    const std::size_t strip = strip_of(factor_);
    sums_.resize(std::min(strip, chosen_.size())), counts_.resize(sums_.size());
    for (begin_ = 0; begin_ < chosen_.size(); begin_ += strip) {
      end_ = std::min(begin_ + strip, chosen_.size());
      if (is_unseen()) continue;
      std::fill(sums_.begin(), sums_.end(), nothing_);
      std::fill(counts_.begin(), counts_.end(), 0u);
      for (std::size_t r = 0; r < rows_.size(); ++r) add_row(r);
      add_strip_to_cells();
    }
    return std::move(cells_);
  }

private:
  /// The numbers of the chosen keys side by side.
  void gather_values() {
    values_.reserve(rows_.size() * chosen_.size());
    for (const std::size_t row : rows_)
      for (const std::size_t key : chosen_) values_.push_back(block_.template row<T>(row)[key]);
  }

  void gather_masks() {
    std::vector<T> mask(all_);
    masks_.reserve(rows_.size() * chosen_.size());
    for (const std::size_t row : rows_) {
      mask_row(pool_.layer_, {block_.batch, block_.head, block_.token + row}, mask.data());
      for (const std::size_t key : chosen_) masks_.push_back(mask[key]);
    }
  }

  /// Whether no row sees a key of the strip, because it is above the diagonal.
  bool is_unseen() const {
    return pool_.masks_ == Masks::ranges && positioned_ == all_ &&
           std::none_of(seen_.begin(), seen_.end(), [&](const Visible& keys) {
             return keys.first < first_key_ + end_ && keys.last > first_key_ + begin_;
           });
  }

  void add_row(std::size_t r) {
    const std::size_t n = chosen_.size();
    const T* row = pool_.keys_.contiguous ? block_.template row<T>(rows_[r]) + first_key_
                                          : values_.data() + r * n;
    switch (pool_.masks_) {
    case Masks::rows:
      return add_unmasked(row, masks_.data() + r * n);
    case Masks::values:
      return add_unmasked(row, nullptr);
    case Masks::ranges:
      add_keys(row, seen_[r].first, seen_[r].last);
      return add_keys(row, positioned_, all_);
    case Masks::nowhere:
      break;
    }
    if (block_.length >= all_) return add_range(row, begin_, end_);
    for (std::size_t j = begin_; j < end_; ++j)
      if (chosen_[j] < block_.length) add_range(row, j, j + 1);
  }

  /// Adds those of the keys [first, last) that are in this strip.
  void add_keys(const T* row, std::size_t first, std::size_t last) {
    const std::size_t from = std::max(first, first_key_ + begin_),
                      to = std::min(last, first_key_ + end_);
    if (from < to) add_range(row, from - first_key_, to - first_key_);
  }

  void add_range(const T* row, std::size_t from, std::size_t to) {
    double* sums = sums_.data();
    if (mean_)
      for (std::size_t j = from; j < to; ++j) sums[j - begin_] += static_cast<double>(row[j]);
    else
      for (std::size_t j = from; j < to; ++j)
        sums[j - begin_] = larger(sums[j - begin_], static_cast<double>(row[j]));
    for (std::size_t c = from / factor_; c * factor_ < to; ++c)
      cells_.counts[c] +=
          static_cast<std::uint32_t>(overlap(from, to, c * factor_, (c + 1) * factor_));
  }

  /// `mask`: the row's mask, or null if the numbers themselves are masked.
  void add_unmasked(const T* row, const T* mask) {
    for (std::size_t j = begin_; j < end_; ++j) {
      const T value = row[j];
      const bool hidden = mask ? is_hidden(mask[j], value) : is_masked(value);
      const double sum = sums_[j - begin_], number = static_cast<double>(value);
      sums_[j - begin_] = hidden ? sum : mean_ ? sum + number : larger(sum, number);
      counts_[j - begin_] += !hidden;
    }
  }

  void add_strip_to_cells() {
    for (std::size_t c = begin_ / factor_; c * factor_ < end_; ++c)
      for (std::size_t j = c * factor_; j < std::min((c + 1) * factor_, end_); ++j) {
        double& cell = cells_.sums[c];
        cell = mean_ ? cell + sums_[j - begin_] : larger(cell, sums_[j - begin_]);
        cells_.counts[c] += counts_[j - begin_];
      }
  }

  const Pool& pool_;
  const Slice& block_;
  const std::span<const std::size_t> rows_; ///< of the block
  const std::vector<std::size_t>& chosen_;
  const std::size_t factor_, all_, positioned_, first_key_;
  const bool mean_;
  const double nothing_;
  std::vector<Visible> seen_;       ///< by each row
  std::vector<T> values_, masks_;   ///< rows × chosen keys, if these are not contiguous
  BlockSums cells_;                 ///< the result
  std::size_t begin_ = 0, end_ = 0; ///< of the strip, among the chosen keys
  std::vector<double> sums_;        ///< of the strip's keys
  std::vector<std::uint32_t> counts_;
};

/// Pools one row of cells after the other, each from its rows of the block.
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
    BlockSums part = PooledRows<T>(*this, block, members).take();
    const std::size_t first = cell * queries_.factor;
    if (members.size() == std::min(queries_.factor, queries_.chosen.size() - first)) {
      whole_[map][cell] = std::move(part);
    } else {
      add(part_at({map, cell, block.token / block_queries}), part);
    }
    members.clear();
  }
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

void Pool::share(const Layer&, const Plan&, ShareBytes& bytes) {
  std::map<Place, BlockSums> rows;
  if (bytes.writes()) {
    for (std::size_t m = 0; m < whole_.size(); ++m)
      for (std::size_t cell = 0; cell < whole_[m].size(); ++cell)
        if (!whole_[m][cell].sums.empty()) rows[{m, cell, no_block}] = whole_[m][cell];
    rows.insert(parts_.begin(), parts_.end());
  }
  bytes.entries(rows, [&](Place& place, BlockSums& row) {
    std::apply([&](auto&... part) { (bytes.field(part), ...); }, place);
    row.sums.resize(keys_.cells), row.counts.resize(keys_.cells);
    bytes.fields(std::span(row.sums)), bytes.fields(std::span(row.counts));
  });
  if (bytes.writes()) return;
  for (auto& [place, row] : rows) {
    const auto& [map, cell, block] = place;
    if (map >= whole_.size() || cell >= queries_.cells)
      fail("a rank has sent row {} of map {}: there are {} maps of {} rows", cell, map,
           whole_.size(), queries_.cells);
    if (block == no_block)
      whole_[map][cell] = std::move(row);
    else
      parts_.insert_or_assign(place, std::move(row));
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
