
#include <mha/diagnose/passes_of_model.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/some_tokens.hpp>
#include <mha/diagnose/trials.hpp>

#include <algorithm>
#include <numeric>

namespace mha {

namespace {

SettingGroup group_of(WholeChange::Kind kind) {
  return kind == WholeChange::Kind::windows ? SettingGroup::windows : SettingGroup::rotations;
}

} // namespace

std::vector<std::size_t> up_to(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

PassesOfModel::PassesOfModel(std::vector<Layer> layers, Tensor embed, bool fused,
                             std::size_t threads)
    : layers_(std::move(layers)), embed_(std::move(embed)), threads_(threads) {
  for (Layer& layer : layers_) {
    layer = on_stream(layer, embed_);
    changes_.push_back(changes_for({layer, StageSet::all(), fused, nullptr}));
  }
}

std::optional<PassesOfModel> PassesOfModel::of_first(const PassesOfModel& whole, std::size_t tokens,
                                                     bool fused) {
  std::vector<Layer> layers;
  for (const Layer& layer : whole.layers_) {
    std::optional<Layer> some = of_first_tokens(layer, tokens);
    if (!some) return std::nullopt;
    layers.push_back(std::move(*some));
  }
  return PassesOfModel(std::move(layers), token_rows(whole.embed_, up_to(tokens)), fused, 1);
}

bool PassesOfModel::same_settings(std::size_t a, std::size_t b, WholeChange::Kind kind) const {
  return mha::same_settings(layers_[a], layers_[b], group_of(kind));
}

std::vector<Tensor> PassesOfModel::streams(std::optional<DType> half) const {
  return streams_through(layers_, half ? rounded_to(embed_, *half) : embed_, threads_, half);
}

Tensor PassesOfModel::after_layer(std::size_t n, const Tensor& stream, const Change* change) const {
  Layer layer = on_stream(layers_[n], stream);
  if (change)
    if (const Change* own = own_change(n, *change)) layer = changed(std::move(layer), {own});
  return stream_after(layer, threads_);
}

/// The stream after one place in the order of layers.
Tensor PassesOfModel::after_place(std::size_t place, const Tensor& stream,
                                  const WholeChange& tried) const {
  using Kind = WholeChange::Kind;
  switch (tried.kind) {
  case Kind::of_order:
    return after_layer(tried.order[place], stream, nullptr);
  case Kind::windows:
  case Kind::rotations: {
    Layer layer = on_stream(layers_[place], stream);
    take_settings(layer, layers_[tried.order[place]], group_of(tried.kind));
    return stream_after(layer, threads_);
  }
  case Kind::of_layers: {
    const bool has_it = tried.alone ? place == *tried.alone : tried.in.empty() || tried.in[place];
    if (!has_it || !tried.made) return after_layer(place, stream, has_it ? &tried.change : nullptr);
    const Layer layer = on_stream(layers_[place], stream);
    const Change own = tried.made(layer);
    return stream_after(changed(layer, {&own}), threads_);
  }
  case Kind::of_embedding:
    break;
  }
  return after_layer(place, stream, nullptr);
}

Tensor PassesOfModel::after_all(const WholeChange& tried, const Tensor& embed) const {
  Tensor stream = embed_;
  if (tried.kind == WholeChange::Kind::of_embedding)
    stream = embed.shape()[1] == tokens() ? embed : token_rows(embed, up_to(tokens()));
  const bool other_order = tried.kind == WholeChange::Kind::of_order;
  const std::size_t places = other_order ? tried.order.size() : layers();
  std::size_t place = 0;
  if (tried.alone && !own_.empty()) place = *tried.alone, stream = own_[place];
  for (; place < places; ++place) stream = after_place(place, stream, tried);
  return stream;
}

std::size_t PassesOfModel::first_with(const Change& change) const {
  std::size_t n = 0;
  while (n < layers() && !own_change(n, change)) ++n;
  return n;
}

const Change* PassesOfModel::own_change(std::size_t n, const Change& change) const {
  for (const Change& own : changes_[n])
    if (is_same(own, change)) return &own;
  return nullptr;
}

} // namespace mha
