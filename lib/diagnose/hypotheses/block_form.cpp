// The block as a whole: its sums, the feed-forward's input, the weights of another layer, and the
// result.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

/// The terms that attention and the feed-forward add to the stream.
Tensor attention_adds(const Layer& layer) {
  return value_of(layer, Stage::attn_add);
}
Tensor feed_forward_adds(const Layer& layer) {
  return value_of(layer, Stage::mlp_add);
}

/// The layer run on another stream.
Tensor run_on(const Layer& layer, const Tensor& stream) {
  Layer again = layer;
  again.X = stream;
  const StageSet of_model = given_by_model(layer);
  for (const StageInfo& info : stages())
    if (!contains(of_model, info.stage)) clear_given(again, {info.stage});
  return value_of(again, Stage::resid_post);
}

/// Mistakes in the sum after attention.
void add_middle_sums(const Layer& layer, ChangeList& list) {
  if (!has_step(layer, Stage::residual)) return;
  const StageSet at_middle = StageSet{Stage::residual};
  const bool pre = layer.block->shape == BlockShape::pre;
  if (layer.settings.input_norm != InputNorm::none)
    list.add("block.residual.normalised", at_middle,
             "adds attention's result to the normalised input, not to the stream",
             "add it to the stream before the norm", [](Layer& edited) {
               give(edited, Stage::residual,
                    sum_of(value_of(edited, Stage::x), attention_adds(edited)));
             });
  if (layer.settings.input_norm != InputNorm::none && pre)
    list.add("block.residual.normalised", at_middle,
             "adds attention's result to the input normalised without the norm's weight, as a "
             "norm that writes into its own input leaves it",
             "add it to the stream before the norm: let the norm write into memory of its own",
             [](Layer& edited) {
               NormForm bare;
               bare.centres = edited.settings.input_norm == InputNorm::layer;
               bare.adds_bias = false;
               Norm norm = attention_norm(edited);
               norm.weight = {};
               give(edited, Stage::residual,
                    sum_of(normed(norm, edited.X, bare), attention_adds(edited)));
             });
  if (layer.settings.input_norm != InputNorm::none && pre && layer.block->has_feed_forward())
    list.add("block.residual.normalised", StageSet{Stage::residual, Stage::resid_post},
             "adds both results to the normalised inputs, not to the stream",
             "add them to the stream before each norm", [](Layer& edited) {
               give(edited, Stage::residual,
                    sum_of(value_of(edited, Stage::x), attention_adds(edited)));
               give(edited, Stage::resid_post,
                    sum_of(value_of(edited, Stage::mlp_x), feed_forward_adds(edited)));
             });
  list.add("block.residual.missing", at_middle,
           "does not add attention's result to the stream, but replaces it",
           "add the stream before the layer",
           [](Layer& edited) { give(edited, Stage::residual, attention_adds(edited)); });
  list.add("block.attention.missing", at_middle, "leaves out attention's result",
           "add attention's result to the stream",
           [](Layer& edited) { give(edited, Stage::residual, edited.X); });
}

/// Mistakes in the sum after the feed-forward.
void add_last_sums(const Layer& layer, ChangeList& list) {
  if (!layer.block->has_feed_forward()) return;
  const StageSet at_end = StageSet{Stage::resid_post};
  if (layer.block->shape == BlockShape::pre) {
    list.add("block.residual.normalised", at_end,
             "adds the feed-forward's result to its normalised input, not to the stream",
             "add it to the stream before the norm", [](Layer& edited) {
               give(edited, Stage::resid_post,
                    sum_of(value_of(edited, Stage::mlp_x), feed_forward_adds(edited)));
             });
    list.add("block.residual.original", at_end,
             "adds the feed-forward's result to the stream before attention",
             "add it to the stream after attention", [](Layer& edited) {
               give(edited, Stage::resid_post, sum_of(edited.X, feed_forward_adds(edited)));
             });
  }
  if (layer.block->shape == BlockShape::post) return;
  list.add("block.residual.twice", at_end,
           "adds the stream before the layer a second time, after the feed-forward",
           "add only the stream after attention", [](Layer& edited) {
             give(edited, Stage::resid_post, sum_of(edited.X, value_of(edited, Stage::resid_post)));
           });
  if (has_step(layer, Stage::residual))
    list.add("block.residual.twice", at_end,
             "adds attention's result a second time, after the feed-forward",
             "add it to the stream once", [](Layer& edited) {
               give(edited, Stage::resid_post,
                    sum_of(attention_adds(edited), value_of(edited, Stage::resid_post)));
             });
  list.add("block.residual.apart", at_end,
           "returns the feed-forward's result without the residual, which it leaves out or keeps "
           "separate",
           "add the residual; or save the sum of the two",
           [](Layer& edited) { give(edited, Stage::resid_post, feed_forward_adds(edited)); });
  if (has_step(layer, Stage::residual))
    list.add("block.handed.residual", at_end, "returns the stream before the feed-forward is added",
             "add the feed-forward's result, or save the layer's output", [](Layer& edited) {
               give(edited, Stage::resid_post, value_of(edited, Stage::residual));
             });
}

/// Other tensors as the feed-forward's input, such as older contents of its buffer.
void add_inputs(const Layer& layer, ChangeList& list) {
  if (!has_step(layer, Stage::residual) || !layer.block->has_feed_forward()) return;
  const auto add = [&](const char* what, Tensor (*of)(const Layer&)) {
    list.add("block.mlp.input", StageSet{Stage::mlp_x},
             fmt::format("gives the feed-forward {}", what),
             "give it the stream after attention, normalised by its own norm",
             [of](Layer& edited) { give(edited, Stage::mlp_x, of(edited)); });
  };
  if (layer.settings.input_norm != InputNorm::none)
    add("attention's input, the normalised stream before it",
        [](const Layer& own) { return value_of(own, Stage::x); });
  add("attention's result, without stream and norm", attention_adds);
  if (layer.block->pre_mlp_norm.present())
    add("attention's result, normalised, without the stream",
        [](const Layer& own) { return normed(own.block->pre_mlp_norm, attention_adds(own)); });
}

/// Results of the previous layer in a buffer that is read before this layer writes it, either when
/// saved or when added.
void add_previous(const Subject& subject, ChangeList& list) {
  if (!subject.model || !subject.model->previous) return;
  const auto previous = subject.model->previous;
  const auto add = [&](const char* id, const char* whose, Stage made,
                       std::function<Tensor(const Layer&, const Layer&)> value) {
    if (!has_step(subject.layer, made) || !has_step(*previous, made)) return;
    list.add(id, StageSet{made},
             fmt::format("uses {} result of the previous layer for this layer's", whose),
             "read the buffer after this layer's result is written to it",
             [previous, made, value = std::move(value)](Layer& edited) {
               const Tensor before = value(*previous, edited);
               if (before.shape() != given_shape(edited, made)) fail("the layers' sizes differ");
               give(edited, made, before);
             });
  };
  const auto result = [](Stage stage) {
    return [stage](const Layer& before, const Layer&) { return value_of(before, stage); };
  };
  const char *attention = "block.attention.previous", *mlp = "block.mlp.previous";
  add(attention, "attention's", Stage::output, result(Stage::output));
  add(attention, "attention's", Stage::residual,
      [](const Layer& before, const Layer& own) { return sum_of(own.X, attention_adds(before)); });
  if (!subject.layer.block->has_feed_forward() || !previous->block->has_feed_forward()) return;
  add(mlp, "the feed-forward's", Stage::mlp_out, result(Stage::mlp_out));
  if (subject.layer.block->shape == BlockShape::pre)
    add(mlp, "the feed-forward's", Stage::resid_post, [](const Layer& before, const Layer& own) {
      return sum_of(value_of(own, Stage::residual), feed_forward_adds(before));
    });
}

void add_shapes(const Layer& layer, ChangeList& list) {
  const StageSet touched = StageSet{Stage::mlp_x, Stage::resid_post};
  const BlockShape shape = layer.block->shape;
  if (shape == BlockShape::pre && layer.block->has_feed_forward())
    list.add("block.parallel", touched,
             "gives the feed-forward the stream before attention (a parallel block)",
             "give it the stream after attention", [](Layer& edited) {
               own_block(edited).shape = BlockShape::parallel;
               clear_given(edited, {Stage::residual});
             });
  add_inputs(layer, list);
  if (shape == BlockShape::parallel)
    list.add("block.sequential", touched,
             "gives the feed-forward the stream after attention (a sequential block)",
             "give it the stream before attention, and add both results",
             [](Layer& edited) { own_block(edited).shape = BlockShape::pre; });
}

/// The number that multiplies the stream after the layer.
void add_stream_scale(const TransformerBlock& block, ChangeList& list) {
  if (block.stream_scale == 1) return;
  list.add("block.stream_scale", StageSet{Stage::resid_post},
           fmt::format("does not multiply the stream after the layer by {:.4g}", block.stream_scale),
           "multiply the sum of residual and feed-forward by it",
           [](Layer& edited) { own_block(edited).stream_scale = 1; });
}

void add_runs(ChangeList& list) {
  const StageSet at_end = StageSet{Stage::resid_post};
  list.add(
      "block.skipped", at_end,
      "returns what entered the layer: the layer is skipped, or an earlier layer's state is saved",
      "run the layer, and save what it returns",
      [](Layer& edited) { give(edited, Stage::resid_post, edited.X); });
  list.add("block.twice", at_end, "runs the layer twice", "run it once", [](Layer& edited) {
    give(edited, Stage::resid_post, run_on(edited, value_of(edited, Stage::resid_post)));
  });
}

/// Another layer's weights and settings on this layer's inputs.
Layer other_layer(const ModelAround& model, std::size_t other, const Layer& own) {
  const std::shared_ptr<const Layer> from = model.layer(other);
  const Dims& dims = own.dims;
  if (!from || from->dims.H != dims.H || from->dims.H_kv != dims.H_kv ||
      from->dims.d_k != dims.d_k || from->dims.d_ff != dims.d_ff)
    fail("layer {} has other sizes", other);
  Layer taken = *from;
  taken.dims = dims, taken.settings.columns = own.settings.columns;
  taken.X = own.X, taken.given = own.given, taken.given_set = own.given_set;
  taken.lengths = own.lengths, taken.blocked = own.blocked;
  return taken;
}

/// The weight and bias of one projection from another layer, loaded by a name with the wrong
/// number.
void add_single_weights(const Layer& layer, std::size_t other, const ModelAround& model,
                        ChangeList& list) {
  const auto add = [&](Stage makes, const char* name,
                       std::function<void(Layer&, const Layer&)> take) {
    list.add("block.weights.other", StageSet{makes},
             fmt::format("uses layer {}'s {} projection in this layer", other, name),
             fmt::format("load this layer's own {} projection", name),
             [&model, other, take = std::move(take)](Layer& edited) {
               take(edited, other_layer(model, other, edited));
             });
  };
  const auto add_own = [&](Stage makes, const char* name, Tensor Layer::*W, Tensor Layer::*b) {
    if ((layer.*W).empty()) return;
    add(makes, name,
        [W, b](Layer& edited, const Layer& taken) { edited.*W = taken.*W, edited.*b = taken.*b; });
  };
  add_own(Stage::q, "query", &Layer::W_q, &Layer::b_q);
  add_own(Stage::k, "key", &Layer::W_k, &Layer::b_k);
  add_own(Stage::v, "value", &Layer::W_v, &Layer::b_v);
  add_own(Stage::output, "output", &Layer::W_o, &Layer::b_o);
  const auto add_mlp = [&](Stage makes, const char* name, LinearMap FeedForward::*map) {
    if (!(layer.block->mlp.*map).present()) return;
    add(makes, name, [map](Layer& edited, const Layer& taken) {
      own_block(edited).mlp.*map = taken.block->mlp.*map;
    });
  };
  const bool gated = layer.block->mlp.gated();
  add_mlp(Stage::mlp_pre, gated ? "gate" : "first feed-forward", &FeedForward::in);
  add_mlp(Stage::mlp_up, "up", &FeedForward::up);
  add_mlp(Stage::mlp_out, gated ? "down" : "second feed-forward", &FeedForward::out);
}

/// Weights and settings of another layer: all, only attention's, or only the feed-forward's.
void add_other_layers(const Subject& subject, ChangeList& list) {
  if (!subject.model || !subject.model->layer) return;
  const StageSet of_attention = StageSet{Stage::q, Stage::k, Stage::v, Stage::output},
                 of_mlp = StageSet{Stage::mlp_pre, Stage::mlp_up, Stage::mlp_out};
  const StageSet of_block =
      of_attention | of_mlp | StageSet{Stage::x, Stage::mlp_x, Stage::resid_post};
  for (std::size_t other = 0; other < subject.model->layers; ++other) {
    if (other == subject.model->number) continue;
    const auto add = [&](const StageSet& touched, const char* whose,
                         std::function<void(Layer&, Layer)> take) {
      list.add("block.weights.other", touched,
               fmt::format("runs layer {}'s {}weights in this layer", other, whose),
               fmt::format("load this layer's own {}weights", whose),
               [model = subject.model, other, take = std::move(take)](Layer& edited) {
                 take(edited, other_layer(*model, other, edited));
               });
    };
    add(of_block, "", [](Layer& edited, Layer taken) { edited = std::move(taken); });
    add(of_attention, "attention ", [](Layer& edited, Layer taken) {
      taken.block = edited.block; // the norms stay this layer's
      taken.norm_weight = edited.norm_weight, taken.norm_bias = edited.norm_bias;
      edited = std::move(taken);
    });
    if (subject.layer.block->has_feed_forward())
      add(of_mlp, "feed-forward ", [](Layer& edited, const Layer& taken) {
        own_block(edited).mlp = taken.block->mlp;
        own_block(edited).mixture = taken.block->mixture;
      });
    const std::size_t n = subject.model->number, last = subject.model->layers - 1;
    if (other + 1 == n || other == n + 1 || other == 0 || other == last)
      add_single_weights(subject.layer, other, *subject.model, list);
  }
}

std::vector<Change> block_form_changes(const Subject& subject) {
  if (!subject.layer.block) return {};
  ChangeList list;
  add_middle_sums(subject.layer, list);
  add_last_sums(subject.layer, list);
  add_shapes(subject.layer, list);
  add_runs(list);
  add_stream_scale(*subject.layer.block, list);
  add_other_layers(subject, list);
  add_previous(subject, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme block_form_theme{
    "block_form",
    "block.residual.normalised block.residual.missing block.residual.original block.residual.apart "
    "block.residual.twice block.residual.scaled block.attention.missing block.handed.residual "
    "block.parallel "
    "block.sequential block.mlp.input block.skipped block.twice block.weights.other "
    "block.attention.previous block.mlp.previous block.stream_scale",
    block_form_changes};

} // namespace mha
