#include <mha/observe/packed_rows.hpp>

#include <mha/layer/graph.hpp>
#include <mha/tensor/precision.hpp>

#include <cstring>

namespace mha {

PackedRows::PackedRows(const Layer& layer, const std::vector<Target>& targets,
                       const Selection& selection, std::size_t batch, std::size_t limit)
    : dtype_(layer.dtype), batch_(batch), limit_(limit) {
  const StageSet available = available_stages(layer);
  for (const auto& [stage, form] : targets) {
    require_stage(layer, stage, available);
    Kept& kept = kept_[stage];
    kept.form = form;
    for (const SelectedAxis& axis : selected_axes(layer, stage, selection))
      if (axis.axis == Axis::head || axis.axis == Axis::kv_head) kept.numbers = axis.pick.indices;
    const std::vector<Dim>& letters = info_of(stage).letters;
    if (kept.numbers.empty() || letters.size() != 3) fail("{} has no heads", name_of(stage));
    kept.rows = layer.dims.size_of(letters[1]);
    kept.cols = layer.dims.size_of(letters[2]);
    for (std::size_t i = 0; i < kept.numbers.size(); ++i) {
      kept.heads.push_back(std::make_unique<Head>());
      kept.heads.back()->missing = kept.rows;
    }
  }
}

StageSet PackedRows::wants() const {
  StageSet set;
  for (const auto& [stage, kept] : kept_) set.add(stage);
  return set;
}

std::size_t PackedRows::head_bytes(const Kept& kept) const {
  const std::size_t count = kept.rows * kept.cols;
  return kept.form == RowForm::exact ? count * size_of(dtype_)
                                     : kept.rows * sizeof(RowScale) + count * sizeof(std::uint16_t);
}

void PackedRows::observe(const Slice& block) {
  if (block.batch != batch_) return;
  Kept& kept = kept_.at(block.stage);
  if (kept.packed > limit_) return;
  by_precision(dtype_, [&]<class T>(T) { observe_as<T>(block, kept); });
}

/// block.values: heads, n, cols.
template <class T> void PackedRows::observe_as(const Slice& block, Kept& kept) {
  const ArrayView& values = block.values;
  const std::size_t rows = values.shape.at(1);
  for (std::size_t i = 0; i < kept.numbers.size(); ++i) {
    if (kept.numbers[i] < block.head || kept.numbers[i] >= block.head + values.shape[0]) continue;
    Head& head = *kept.heads[i];
    {
      const std::lock_guard lock(mutex_);
      if (head.bytes.empty()) head.bytes.resize(head_bytes(kept));
    }
    const T* first = reinterpret_cast<const T*>(values.data) +
                     static_cast<std::ptrdiff_t>(kept.numbers[i] - block.head) * values.strides[0];
    for (std::size_t r = 0; r < rows; ++r) {
      const T* row = first + static_cast<std::ptrdiff_t>(r) * values.strides[1];
      const std::size_t at = (block.token + r) * kept.cols;
      if (kept.form == RowForm::exact) {
        for (std::size_t c = 0; c < kept.cols; ++c)
          std::memcpy(head.bytes.data() + (at + c) * sizeof(T),
                      row + static_cast<std::ptrdiff_t>(c) * values.strides[2], sizeof(T));
      } else {
        std::vector<std::uint16_t> codes(kept.cols);
        const RowScale scale = round_row(row, values.strides[2], codes.data(), kept.cols);
        std::memcpy(head.bytes.data() + (block.token + r) * sizeof scale, &scale, sizeof scale);
        std::memcpy(head.bytes.data() + kept.rows * sizeof scale + at * sizeof(std::uint16_t),
                    codes.data(), codes.size() * sizeof(std::uint16_t));
      }
    }
    if (head.missing.fetch_sub(rows) != rows) continue;
    const std::size_t scales = kept.form == RowForm::exact ? 0 : kept.rows * sizeof(RowScale);
    std::string planes = head.bytes.substr(0, scales);
    append_planes(planes, head.bytes.data() + scales, kept.rows * kept.cols,
                  kept.form == RowForm::exact ? sizeof(T) : sizeof(std::uint16_t));
    head.bytes = deflated(planes);
    kept.packed += head.bytes.size();
  }
}

std::optional<PackedStage> PackedRows::take(Stage stage) {
  Kept& kept = kept_.at(stage);
  if (kept.packed > limit_) return std::nullopt;
  PackedStage packed{kept.form, kept.rows, kept.cols, kept.cols, 1, 1, {}};
  for (const std::unique_ptr<Head>& head : kept.heads)
    packed.heads.push_back(std::move(head->bytes));
  return packed;
}

} // namespace mha
