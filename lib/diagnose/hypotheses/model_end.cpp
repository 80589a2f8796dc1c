// The model's end: the last norm and the head.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/shards.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mha {

namespace {

void add_last_norm(const Layer& layer, ChangeList& list) {
  const NormGroup last = last_norm(layer);
  if (last.rows.empty()) return;
  list.add("last_norm.missing", last.makes(),
           "does not normalise the last layer's stream, or saves it before the norm",
           "apply the last norm before the head, or save what it gives", missing(last).edit);
  list.add("last_norm.twice", last.makes(), "normalises the last layer's stream twice",
           "normalise it once", twice(last).edit);
  for (const OtherNorm& other : other_norms(layer.ends->final, true)) list.add(formed(last, other));
}

/// A layer's norm in place of the last norm.
void add_other_last_norms(const Subject& subject, ChangeList& list) {
  const ModelAround* model = subject.model;
  if (!model || !model->layer || model->layers == 0 || !subject.layer.ends->final.present()) return;
  const auto add = [&](std::size_t n, const char* name, Norm (*of)(const Layer&)) {
    list.add("last_norm.other", StageSet{Stage::final},
             n + 1 == model->layers
                 ? fmt::format(
                       "normalises the last layer's stream with that layer's norm before {}", name)
                 : fmt::format("normalises the last layer's stream with layer {}'s norm before {}",
                               n, name),
             "use the last norm's own weights",
             [model, n, of](Layer& edited) {
               const std::shared_ptr<const Layer> from = model->layer(n);
               const Norm norm = from && from->block ? of(*from) : Norm{};
               if (norm.weight.empty()) fail("layer {} has no such norm", n);
               give(edited, Stage::final, normed(norm, edited.ends->stream));
             })
        .rare = true;
  };
  std::vector<std::size_t> layers{model->layers - 1};
  if (model->layers > 1) layers.push_back(0);
  for (const std::size_t n : layers) {
    add(n, "attention", attention_norm);
    add(n, "the feed-forward", [](const Layer& layer) { return layer.block->pre_mlp_norm; });
  }
}

/// The head applied to another stream than the last layer's.
void add_head_inputs(const Layer& layer, ChangeList& list) {
  if (layer.ends->embed.empty()) return;
  const auto add = [&](const char* what, bool norms) {
    list.add("head.input", StageSet{Stage::logits}, fmt::format("gives the head {}", what),
             "give it the last layer's stream, normalised", [norms](Layer& edited) {
               Layer other = edited;
               const Tensor& first = edited.ends->embed;
               give(other, Stage::final, norms ? normed(edited.ends->final, first) : first);
               give(edited, Stage::logits, value_of(other, Stage::logits));
             });
  };
  add("the embedding, which no layer wrote back to", false);
  if (layer.ends->final.present())
    add("the embedding, normalised by the last norm: no layer wrote back to it", true);
}

/// Columns or rows of the logits in other places.
void add_logit_places(const ModelHead& head, std::size_t T, ChangeList& list) {
  const StageSet touched = StageSet{Stage::logits};
  for (const std::size_t ranks : rank_counts)
    if (head.decoder.out() > ranks * ranks) // otherwise the last part may be empty
      list.add("head.shards", touched,
               fmt::format("joins the logits of {} ranks from the last to the first", ranks),
               "join them from the first rank to the last",
               [ranks](Layer& edited) {
                 const Tensor own = value_of(edited, Stage::logits);
                 give(edited, Stage::logits,
                      columns_from(own, reversed_parts(own.shape().back(), ranks)));
               })
          .other_logits = true;
  if (T < 2) return;
  list.add("buffer.row", touched, "gives every token the last one's logits",
           "write each token's logits to its own row",
           [](Layer& edited) {
             const Tensor own = value_of(edited, Stage::logits);
             const std::size_t rows = own.shape()[1];
             give(edited, Stage::logits,
                  tokens_from(own, [rows](std::size_t) { return rows - 1; }));
           })
      .other_tokens = true;
}

/// What fills the gap when rows or columns of the logits move by one: the one from the other end,
/// zeros, or the adjacent one again.
enum class AtEnd : std::uint8_t { around, zeros, again };

Tensor moved_logits(const Tensor& logits, bool columns, bool later, AtEnd end) {
  const std::size_t n = logits.shape()[columns ? 2 : 1];
  const auto from = [=](std::size_t i) {
    if (end == AtEnd::again && i == (later ? 0 : n - 1)) return i;
    return later ? (i + n - 1) % n : (i + 1) % n;
  };
  Tensor moved = copied(columns ? columns_from(logits, from) : tokens_from(logits, from));
  if (end != AtEnd::zeros) return moved;
  const std::size_t empty = later ? 0 : n - 1, width = logits.shape()[2], rows = logits.shape()[1];
  by_precision(moved.dtype(), [&]<class T>(T) {
    const auto values = moved.as_mutable<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if ((columns ? i % width : i / width % rows) == empty) values[i] = 0;
  });
  return moved;
}

/// Logits moved by one token of the text or of the vocabulary.
void add_moved_logits(const ModelHead& head, std::size_t T, ChangeList& list) {
  const auto add = [&](bool columns, bool later, const char* did, const char* cure) {
    for (const AtEnd end : {AtEnd::around, AtEnd::zeros, AtEnd::again}) {
      Change& change =
          list.add(columns ? "head.columns" : "head.rows", StageSet{Stage::logits}, did, cure,
                   [=](Layer& edited) {
                     give(edited, Stage::logits,
                          moved_logits(value_of(edited, Stage::logits), columns, later, end));
                   });
      (columns ? change.other_logits : change.other_tokens) = true;
    }
  };
  const char* own_row = "save row t for token t: it predicts the next token";
  if (T > 1) {
    add(false, true, "has the logits of token t in row t + 1", own_row);
    add(false, false, "has the logits of token t + 1 in row t", own_row);
  }
  const char* own_column = "use each row of the head's weight for its own token number";
  if (head.decoder.out() > 1) {
    add(true, true, "has the logit of token number i in column i + 1", own_column);
    add(true, false, "has the logit of token number i + 1 in column i", own_column);
  }
}

/// A sampler's repetition penalty for tokens that occur in the text.
void add_repetition(const ModelAround* model, ChangeList& list) {
  if (!model || model->ids.empty()) return;
  for (const double penalty : {1.1, 1.05, 1.15, 1.2, 1.3, 1.5, 1.18, 1.02, 1.03, 2.0})
    list.add("head.repetition", StageSet{Stage::logits},
             fmt::format("divides the logits of tokens that the text has by {:g} where they are "
                         "positive, and multiplies them where they are negative: a repetition "
                         "penalty",
                         penalty),
             "save the logits before the sampler",
             [model, penalty](Layer& edited) {
               Tensor own = copied(value_of(edited, Stage::logits));
               const std::size_t n = own.shape()[2], rows = own.shape()[1];
               by_precision(own.dtype(), [&]<class T>(T) {
                 const auto values = own.as_mutable<T>();
                 for (std::size_t b = 0; b < model->ids.size(); ++b) {
                   std::vector<bool> in_text(n);
                   for (int id : model->ids[b])
                     if (id >= 0 && static_cast<std::size_t>(id) < n)
                       in_text[static_cast<std::size_t>(id)] = true;
                   for (std::size_t i = b * rows * n; i < (b + 1) * rows * n; ++i)
                     if (in_text[i % n])
                       values[i] *= static_cast<T>(values[i] > 0 ? 1 / penalty : penalty);
                 }
               });
               give(edited, Stage::logits, own);
             })
        .other_logits = true;
}

/// The softmax of each row, or its logarithm.
Tensor softmax_of(const Tensor& logits, bool log) {
  Tensor result = copied(logits);
  const std::size_t n = logits.shape().back();
  by_precision(logits.dtype(), [&]<class T>(T) {
    const auto values = result.as_mutable<T>();
    for (std::size_t first = 0; first + n <= values.size(); first += n) {
      const auto row = values.subspan(first, n);
      const double largest = static_cast<double>(*std::ranges::max_element(row));
      double sum = 0;
      for (T value : row) sum += std::exp(static_cast<double>(value) - largest);
      for (T& value : row) {
        const double y = static_cast<double>(value) - largest - std::log(sum);
        value = static_cast<T>(log ? y : std::exp(y));
      }
    }
  });
  return result;
}

/// Gives f(logits) of the model's own head without its cap.
void give_uncapped(Layer& edited, const std::function<double(double)>& f) {
  Layer uncapped = edited;
  own_ends(uncapped).head.softcap = 0;
  give(edited, Stage::logits, each_number(value_of(uncapped, Stage::logits), f));
}

/// The soft cap of the logits: left out, of another size, applied twice, in another form.
void add_head_cap(const ModelHead& head, ChangeList& list) {
  const StageSet touched = StageSet{Stage::logits};
  const double own = head.softcap;
  if (own != 0)
    list.add("head.softcap", touched, "does not cap the logits",
             fmt::format("cap them at {:g}", own),
             [](Layer& edited) { own_ends(edited).head.softcap = 0; });
  for (double cap : {30.0, 50.0, 15.0, 20.0, 10.0})
    if (cap != own)
      list.add("head.softcap", touched, fmt::format("caps the logits at {:g}", cap),
               own == 0 ? "do not cap them" : fmt::format("cap them at {:g}", own),
               [cap](Layer& edited) { own_ends(edited).head.softcap = cap; });
  if (own == 0) return;
  const std::string cure = fmt::format("cap them once: {0:g} · tanh(logits / {0:g})", own);
  list.add("head.softcap", touched, "caps the logits twice", cure, [own](Layer& edited) {
    give(edited, Stage::logits, each_number(value_of(edited, Stage::logits), [own](double y) {
           return own * std::tanh(y / own);
         }));
  });
  list.add("head.softcap", touched,
           fmt::format("multiplies the logits by tanh(logits / {:g})", own), cure,
           [own](Layer& edited) {
             give_uncapped(edited, [own](double y) { return y * std::tanh(y / own); });
           });
  list.add("head.softcap", touched,
           fmt::format("uses tanh(logits / {:g}) without multiplying by {:g}", own, own), cure,
           [own](Layer& edited) {
             give_uncapped(edited, [own](double y) { return std::tanh(y / own); });
           });
}

/// The head's first product, which precedes the decoder.
void add_head_dense(const ModelHead& head, ChangeList& list) {
  if (!head.dense.present()) return;
  const StageSet touched = StageSet{Stage::logits};
  for (const auto& [form, name] : {std::pair{Activation::gelu, "GELU by erf"},
                                   {Activation::gelu_tanh, "GELU by tanh"},
                                   {Activation::relu, "ReLU"},
                                   {Activation::identity, "no activation"}})
    if (form != head.activation)
      list.add("head.activation", touched, fmt::format("uses {} in the head", name),
               "use the model's activation",
               [form = form](Layer& edited) { own_ends(edited).head.activation = form; });
  if (head.norm.present()) {
    list.add("head.norm", touched, "leaves out the norm in the head",
             "normalise before the decoder",
             [](Layer& edited) { own_ends(edited).head.norm = {}; });
    for (OtherNorm& other : other_norms(head.norm, false)) {
      if (!other.form) continue;
      list.add("head.norm", touched, with_name(other.did, "the norm in the head"),
               with_name(other.cure, "the norm in the head"), [form = other.form](Layer& edited) {
                 Norm& own = own_ends(edited).head.norm;
                 own = form(own);
               });
    }
  }
  list.add("head.dense", touched, "leaves out the head's first product, its activation and norm",
           "apply them before the decoder", [](Layer& edited) {
             ModelHead& own = own_ends(edited).head;
             own.dense = {}, own.norm = {}, own.activation = Activation::identity;
           });
}

/// Tensors saved after the logits.
void add_saved_after_logits(ChangeList& list) {
  const StageSet touched = StageSet{Stage::logits};
  for (const bool log : {false, true})
    list.add("head.softmax", touched,
             fmt::format("gives {}probabilities for logits", log ? "logarithms of " : ""),
             "save the logits before the softmax",
             [log](Layer& edited) {
               give(edited, Stage::logits, softmax_of(value_of(edited, Stage::logits), log));
             })
        .other_logits = true;
  list.add("head.centred", touched,
           "subtracts each row's mean from the logits, as an unembedding with centred columns does",
           "nothing where probabilities are meant: a constant of a row does not change them; else "
           "use the head's weight uncentred",
           [](Layer& edited) {
             give(edited, Stage::logits, without_row_means(value_of(edited, Stage::logits)));
           })
      .other_logits = true;
}

void add_head(const Subject& subject, ChangeList& list) {
  const ModelHead& head = subject.layer.ends->head;
  if (!head.present()) return;
  const StageSet touched = StageSet{Stage::logits};
  const Embedding* embedding = subject.model ? subject.model->embedding : nullptr;
  const StoredMatrix* stored = head.decoder.W.stored();
  if (embedding && embedding->tokens.raw() != (stored ? stored->matrix : head.decoder.W).raw())
    list.add("head.tied", touched, "uses the embedding's rows as the head's weight",
             "use the head's own weight",
             [embedding](Layer& edited) {
               LinearMap& decoder = own_ends(edited).head.decoder;
               decoder.W = transposed_when_read(embedding->tokens);
               clear_given(edited, {Stage::logits});
             })
        .other_logits = true;
  if (subject.layer.ends->final.present())
    list.add("head.norm.missing", touched, "gives the head the stream before the last norm",
             "normalise the stream before the head", [](Layer& edited) {
               Layer plain = edited;
               give(plain, Stage::final, edited.ends->stream);
               give(edited, Stage::logits, value_of(plain, Stage::logits));
             });
  if (!head.decoder.b.empty()) {
    list.add("head.bias", touched, "leaves out the head's bias", "add the head's bias",
             [](Layer& edited) { own_ends(edited).head.decoder.b = {}; });
    list.add("head.bias", touched, "adds the head's bias twice", "add it once", [](Layer& edited) {
      Tensor& bias = own_ends(edited).head.decoder.b;
      bias = each_number(convert(bias, edited.dtype), [](double b) { return 2 * b; });
    });
  }
  add_head_inputs(subject.layer, list);
  ChangeList seldom;
  add_logit_places(head, subject.layer.dims.T, seldom);
  add_moved_logits(head, subject.layer.dims.T, seldom);
  add_repetition(subject.model, seldom);
  seldom.all_rare();
  for (Change& change : seldom.take()) list.add(std::move(change));
  add_head_cap(head, list);
  const double root = std::sqrt(static_cast<double>(subject.layer.dims.d_model));
  for (double scale : {1.0, root, 1 / root})
    if (scale != head.scale)
      list.add(
          "head.scale", touched,
          scale == 1 ? "does not scale the logits"
                     : fmt::format("multiplies the logits by {}√d_model", scale < 1 ? "1/" : ""),
          head.scale == 1 ? "do not scale them" : fmt::format("multiply them by {:g}", head.scale),
          [scale](Layer& edited) { own_ends(edited).head.scale = scale; });
  add_saved_after_logits(list);
  add_head_dense(head, list);
}

std::vector<Change> model_end_changes(const Subject& subject) {
  if (!subject.layer.ends) return {};
  ChangeList list;
  add_last_norm(subject.layer, list);
  add_other_last_norms(subject, list);
  add_head(subject, list);
  return list.take();
}

} // namespace

const Theme model_end_theme{
    "model_end",
    "last_norm.missing last_norm.twice last_norm.form last_norm.other "
    "head.tied head.norm head.norm.missing head.input head.shards head.bias "
    "head.softcap head.scale head.softmax head.centred head.activation head.dense "
    "head.rows head.columns head.repetition",
    model_end_changes};

} // namespace mha
