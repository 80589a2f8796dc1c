#include "support/requests.hpp"

#include <mha/observe/dump.hpp>

#include <algorithm>
#include <cstring>

MemoryWriter::MemoryWriter(std::vector<mha::io::Item> items) {
  for (const mha::io::Item& item : items) {
    tensors_.emplace_back(item.dtype, item.shape);
    written_.emplace_back(tensors_.back().count(), false);
  }
}

void MemoryWriter::write(std::size_t item, std::size_t offset, const std::byte* data,
                         std::size_t count) {
  const std::lock_guard lock(mutex_);
  mha::Tensor& tensor = tensors_[item];
  const std::size_t element = mha::size_of(tensor.dtype());
  if (offset + count > tensor.count()) mha::fail("written beyond the end");
  std::memcpy(tensor.raw_mutable() + offset * element, data, count * element);
  for (std::size_t i = offset; i < offset + count; ++i) {
    if (written_[item][i]) mha::fail("element {} is written twice", i);
    written_[item][i] = true;
  }
}

void MemoryWriter::finish() {
  for (const std::vector<bool>& item : written_)
    if (std::find(item.begin(), item.end(), false) != item.end())
      mha::fail("an element is never written");
}

Asked random_request(Random& random, const mha::Layer& layer,
                     const std::vector<mha::Stage>& stages) {
  Asked asked;
  for (std::size_t n = random.count(1, 3); n > 0; --n) {
    const mha::Stage stage = stages[random.count(0, stages.size() - 1)];
    if (std::find(asked.stages.begin(), asked.stages.end(), stage) == asked.stages.end())
      asked.stages.push_back(stage);
  }
  // Keys count S in some stages and S_all in others: an index may only be one that all of them
  // have.
  std::map<mha::Axis, std::size_t> axes;
  for (mha::Stage stage : asked.stages) {
    asked.description += std::string(name_of(stage)) + " ";
    for (const mha::SelectedAxis& axis : selected_axes(layer, stage, {})) {
      const mha::Axis which = axis.axis == mha::Axis::kv_head ? mha::Axis::head : axis.axis;
      const std::size_t count = which == mha::Axis::head ? layer.dims.H : axis.count;
      axes[which] = axes.count(which) ? std::min(axes[which], count) : count;
    }
  }
  const auto select = [&](mha::Axis axis, const char* option, std::optional<mha::IndexList>& list) {
    if (!axes.count(axis) || random.chance(0.5)) return;
    const std::size_t n = axes[axis];
    std::string text = fmt::format("{}", random.count(0, n - 1));
    if (random.chance(0.3)) text += fmt::format(",{}", random.count(0, n - 1));
    if (random.chance(0.3)) text += fmt::format(",{}:", random.count(0, n - 1));
    asked.description += fmt::format("{} {} ", option, text);
    list = mha::IndexList(text, option);
  };
  select(mha::Axis::batch, "--batch", asked.selection.batch);
  select(mha::Axis::head, "--head", asked.selection.head);
  select(mha::Axis::query, "--query", asked.selection.query);
  select(mha::Axis::key, "--key", asked.selection.key);
  return asked;
}

mha::Tensor cut(const mha::Layer& layer, mha::Stage stage, const mha::Selection& selection,
                const mha::Tensor& whole) {
  std::vector<mha::SelectedAxis> axes = selected_axes(layer, stage, selection);
  if (layer.settings.columns && info_of(stage).kind != mha::Kind::row)
    std::swap(axes.end()[-1], axes.end()[-2]);
  mha::Shape shape;
  std::vector<std::size_t> positions{0}; // of the elements taken, in the whole
  for (const mha::SelectedAxis& axis : axes) {
    if (!axis.pick.drops_axis) shape.push_back(axis.pick.indices.size());
    std::vector<std::size_t> next;
    for (std::size_t position : positions)
      for (std::size_t index : axis.pick.indices) next.push_back(position * axis.count + index);
    positions = std::move(next);
  }
  mha::Tensor part(whole.dtype(), shape);
  const std::size_t element = mha::size_of(whole.dtype());
  for (std::size_t i = 0; i < positions.size(); ++i)
    std::memcpy(part.raw_mutable() + i * element, whole.raw() + positions[i] * element, element);
  return part;
}

std::map<mha::Stage, mha::Tensor> streamed(const mha::Layer& layer, const Asked& asked,
                                           std::size_t threads) {
  std::vector<mha::io::Item> items;
  std::vector<mha::Dump::Target> targets;
  for (mha::Stage stage : asked.stages) {
    targets.push_back({stage, items.size(), 0, layer.dtype_of(stage)});
    items.push_back({std::string(name_of(stage)), layer.dtype_of(stage),
                     mha::Placement(layer, stage, asked.selection).shape()});
  }
  MemoryWriter writer(items);
  mha::Dump dump(layer, targets, asked.selection, writer);
  mha::compute(layer, mha::make_plan(layer, dump.wants(), asked.selection), dump, threads);
  writer.finish();
  std::map<mha::Stage, mha::Tensor> values;
  for (const mha::Dump::Target& target : targets) values[target.stage] = writer.item(target.item);
  return values;
}
