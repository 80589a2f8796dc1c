// The place of a block's norms: before attention and the feed-forward, after them, or after the
// sums.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <utility>

namespace mha {

namespace {

/// The norms of a block with one for attention and one for the feed-forward.
struct TwoNorms {
  Norm attention, feed_forward;
};

TwoNorms two_norms(const Layer& layer) {
  const TransformerBlock& block = *layer.block;
  switch (block.shape) {
  case BlockShape::pre:
    return {attention_norm(layer), block.pre_mlp_norm};
  case BlockShape::post:
    return {block.pre_mlp_norm, block.post_block_norm};
  default:
    return {block.post_attention_norm, block.post_mlp_norm};
  }
}

/// The place of a norm.
enum class NormPlace : std::uint8_t {
  before, ///< of the input
  after,  ///< of the result, before it is added
  sum,    ///< of the sum
};

NormPlace own_place(BlockShape shape) {
  return shape == BlockShape::pre    ? NormPlace::before
         : shape == BlockShape::post ? NormPlace::sum
                                     : NormPlace::after;
}

/// Removes the norms that place_norms applies itself: all but those of results, which have stages
/// of their own.
void without_norms(Layer& layer, bool attention, bool feed_forward) {
  TransformerBlock& block = own_block(layer);
  switch (block.shape) {
  case BlockShape::pre:
    layer.settings.input_norm = InputNorm::none, block.pre_mlp_norm = {};
    break;
  case BlockShape::post:
    block.pre_mlp_norm = {}, block.post_block_norm = {}, block.shape = BlockShape::pre;
    break;
  default:
    if (attention) block.post_attention_norm = {};
    if (feed_forward) block.post_mlp_norm = {};
  }
}

/// Computes the layer step by step with each of the two norms in the given place. Sandwich blocks
/// keep the norms before attention and the feed-forward.
void place_norms(Layer& layer, NormPlace attention, NormPlace feed_forward) {
  const auto [first, second] = two_norms(layer);
  const bool results = own_place(layer.block->shape) == NormPlace::after;
  without_norms(layer, attention != NormPlace::after, feed_forward != NormPlace::after);
  if (attention == NormPlace::before) give(layer, Stage::x, normed(first, layer.X));
  const auto added = [&](Stage result, NormPlace place, const Norm& norm) {
    const Tensor value = value_of(layer, result);
    return place == NormPlace::after && !results ? normed(norm, value) : value;
  };
  const Tensor middle = sum_of(layer.X, added(Stage::attn_add, attention, first));
  give(layer, Stage::residual, middle);
  const Tensor stream = attention == NormPlace::sum ? normed(first, middle) : middle;
  const Norm& before = layer.block->pre_mlp_norm;
  if (feed_forward == NormPlace::before)
    give(layer, Stage::mlp_x, normed(second, stream));
  else
    give(layer, Stage::mlp_x, before.present() ? normed(before, stream) : stream);
  const Tensor last = sum_of(stream, added(Stage::mlp_add, feed_forward, second));
  give(layer, Stage::resid_post, feed_forward == NormPlace::sum ? normed(second, last) : last);
}

/// Which norms are moved.
enum class Moved : std::uint8_t { both, attention, feed_forward };

struct MovedNames {
  const char *both, *attention, *feed_forward;

  const char* of(Moved moved) const {
    return moved == Moved::both ? both : moved == Moved::attention ? attention : feed_forward;
  }
};

constexpr const char* place_of(NormPlace place) {
  return place == NormPlace::before ? "before attention and before the feed-forward"
         : place == NormPlace::sum  ? "after the sums"
                                    : "after the results, before the sums";
}

/// Moves the two norms, or one of them, to the place `to`.
void add_moved(const Layer& layer, NormPlace own, NormPlace to, ChangeList& list) {
  constexpr MovedNames whose{"both norms", "attention's norm", "the feed-forward's norm"};
  const StageSet all = StageSet{Stage::x, Stage::residual, Stage::mlp_x, Stage::resid_post};
  for (const Moved moved : {Moved::both, Moved::attention, Moved::feed_forward}) {
    // A layer without a feed-forward has only attention's norm.
    if (moved != Moved::attention && !layer.block->has_feed_forward()) continue;
    const NormPlace attention = moved == Moved::feed_forward ? own : to,
                    feed_forward = moved == Moved::attention ? own : to;
    list.add("block_norm.place",
             moved == Moved::feed_forward ? StageSet{Stage::mlp_x, Stage::resid_post} : all,
             fmt::format("has {} {}", whose.of(moved), place_of(to)),
             fmt::format("normalise {}", place_of(own)),
             [=](Layer& edited) { place_norms(edited, attention, feed_forward); });
  }
}

std::vector<Change> norm_place_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (!layer.block || !has_step(layer, Stage::residual)) return {};
  const auto [first, second] = two_norms(layer);
  if (!first.present() || !second.present()) return {};
  const BlockShape shape = layer.block->shape;
  const NormPlace own = own_place(shape);
  ChangeList list;
  for (const NormPlace to : {NormPlace::sum, NormPlace::before, NormPlace::after}) {
    if (to == own || (shape == BlockShape::sandwich && to == NormPlace::before)) continue;
    add_moved(layer, own, to, list);
  }
  list.all_rare();
  return list.take();
}

} // namespace

const Theme norm_place_theme{"norm_place", "block_norm.place", norm_place_changes};

} // namespace mha
