// The stream before the first layer: the scale of the token embeddings, positions, types and norm.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/shards.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/forward/embedding.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mha {

namespace {

/// The table with row i + by moved to row i.
Tensor moved(const Tensor& table, std::ptrdiff_t by) {
  Tensor result = copied(table);
  const auto rows = static_cast<std::ptrdiff_t>(table.shape()[0]);
  const std::size_t bytes = table.bytes() / table.shape()[0];
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const std::ptrdiff_t from = std::clamp<std::ptrdiff_t>(row + by, 0, rows - 1);
    std::memcpy(result.raw_mutable() + static_cast<std::size_t>(row) * bytes,
                table.raw() + static_cast<std::size_t>(from) * bytes, bytes);
  }
  return result;
}

class EmbeddingChanges {
public:
  explicit EmbeddingChanges(const ModelAround& model) : model_(model) {}

  /// `other` turns the model's embedding into the reference's; `then` is applied to the rows that
  /// it gives.
  Change& add(const char* id, std::string did, std::string cure,
              std::function<void(Embedding&)> other,
              std::function<Tensor(const Tensor&)> then = {}) {
    return list_.add(
        id, StageSet{Stage::embed}, std::move(did), std::move(cure),
        [&model = model_, other = std::move(other), then = std::move(then)](Layer& edited) {
          Embedding changed = *model.embedding;
          other(changed);
          Tensor value = embed(changed, model.ids, edited.dtype);
          if (then) value = then(value);
          const Shape& shape = value.shape(); // padding stays zero
          const std::size_t row = shape[2] * size_of(edited.dtype);
          for (std::size_t b = 0; b < model.lengths.size(); ++b)
            std::memset(value.raw_mutable() + (b * shape[1] + model.lengths[b]) * row, 0,
                        (shape[1] - model.lengths[b]) * row);
          own_ends(edited).embed = value;
        });
  }
  /// Left-padded texts of a batch whose positions count the padding.
  void add_through_padding() {
    const std::vector<std::size_t>& lengths = model_.lengths;
    const std::size_t T = model_.ids.empty() ? 0 : model_.ids[0].size();
    if (std::ranges::all_of(lengths, [T](std::size_t n) { return n == T; })) return;
    constexpr std::size_t rows_more_at_most = 4; // more than the longest text has
    for (std::size_t more = 0; more <= rows_more_at_most; ++more)
      add(
          "embed.positions.offset", "counts positions through the padding before each text",
          "count them from each text's first token, as in attention_mask", [](Embedding&) {},
          [&model = model_, T, more](const Tensor& own) {
            Tensor all = copied(own);
            const std::size_t bytes = own.bytes() / model.ids.size();
            for (std::size_t b = 0; b < model.ids.size(); ++b) {
              Embedding later = *model.embedding;
              later.positions =
                  moved(later.positions, static_cast<std::ptrdiff_t>(T - model.lengths[b] + more));
              const Tensor moved_rows = embed(later, {model.ids[b]}, own.dtype());
              std::memcpy(all.raw_mutable() + b * bytes, moved_rows.raw(), bytes);
            }
            return all;
          });
  }
  const ModelAround& model() const { return model_; }
  std::vector<Change> take() { return list_.take(); }

private:
  const ModelAround& model_;
  ChangeList list_;
};

void add_scales(const Embedding& own, EmbeddingChanges& to) {
  const double root = std::sqrt(static_cast<double>(own.tokens.shape()[1]));
  if (own.scale != 1)
    to.add("embed.scale", "does not scale the tokens' rows",
           fmt::format("multiply them by {:g}", own.scale), [](Embedding& e) { e.scale = 1; });
  if (own.scale != 1)
    to.add("embed.scale",
           fmt::format("scales the tokens' rows twice, by {:g} in all", own.scale * own.scale),
           fmt::format("multiply them by {:g} once", own.scale),
           [](Embedding& e) { e.scale *= e.scale; });
  for (double scale : {root, 1 / root})
    if (std::fabs(scale - own.scale) > 0.01 * scale)
      to.add("embed.scale",
             fmt::format("multiplies the tokens' rows by {}√d_model", scale < 1 ? "1/" : ""),
             own.scale == 1 ? "do not scale them" : fmt::format("multiply them by {:g}", own.scale),
             [scale](Embedding& e) { e.scale = scale; });
  if (std::fabs(root - own.scale) <= 0.01 * root && root != own.scale)
    to.add("embed.scale", "multiplies the tokens' rows by √d_model without rounding it",
           fmt::format("round it to the weights' precision, {:g}", own.scale),
           [root](Embedding& e) { e.scale = root; });
}

void add_positions(const Embedding& own, EmbeddingChanges& to) {
  if (own.positions.empty()) return;
  to.add("embed.positions.missing", "adds no positions", "add the positions' rows",
         [](Embedding& e) { e.positions = {}; });
  std::vector<int> offsets{1, 2, -1, -2};
  constexpr int padding_at_most = 64; // counted by code that pads on the left
  for (int by = 3; by <= padding_at_most && by < static_cast<int>(own.positions.shape()[0]); ++by)
    offsets.push_back(by);
  for (int by : offsets)
    to.add("embed.positions.offset",
           fmt::format("counts positions from {} too {}", std::abs(by), by > 0 ? "high" : "low"),
           own.pad ? fmt::format("count them from {}", *own.pad + 1)
                   : fmt::format("count them from {}", own.first_position),
           [by](Embedding& e) { e.positions = moved(e.positions, by); })
        .rare = by > 2;
  to.add_through_padding();
  to.add("embed.positions.twice", "adds the positions twice", "add them once", [](Embedding& e) {
    e.positions = each_number(convert(e.positions, DType::f32), [](double a) { return 2 * a; });
  });
  to.add(
      "embed.positions.same", "gives every token the first position", "count the positions on",
      [](Embedding& e) {
        const std::size_t first = e.pad ? static_cast<std::size_t>(*e.pad) + 1 : e.first_position;
        const std::size_t bytes = e.positions.bytes() / e.positions.shape()[0];
        Tensor same = copied(e.positions);
        for (std::size_t row = 0; row < same.shape()[0]; ++row)
          std::memcpy(same.raw_mutable() + row * bytes, e.positions.raw() + first * bytes, bytes);
        e.positions = same;
      });
}

void add_types(const Embedding& own, EmbeddingChanges& to) {
  if (own.types.empty()) return;
  to.add("embed.types", "adds no token types", "add the row of type 0",
         [](Embedding& e) { e.types = {}; });
  if (own.types.shape()[0] > 1)
    to.add("embed.types", "adds the row of token type 1", "add the row of type 0",
           [](Embedding& e) { e.types = moved(e.types, 1); });
}

void add_norm(const Embedding& own, EmbeddingChanges& to) {
  if (!own.norm.present()) return;
  to.add("embed.norm.missing", "does not normalise the embedding", "normalise the sum",
         [](Embedding& e) { e.norm = {}; });
  const auto without_norm = [](Embedding& e) { e.norm = {}; };
  to.add(
      "embed.norm.twice", "normalises the embedding twice", "normalise it once", [](Embedding&) {},
      [norm = own.norm](const Tensor& rows) { return normed(norm, rows); });
  if (!own.positions.empty() && !own.projection.present())
    to.add(
        "embed.norm.place", "normalises the tokens' rows before positions are added",
        "normalise the sum of tokens, positions and types",
        [](Embedding& e) { e.positions = {}, e.types = {}; },
        [&model = to.model()](const Tensor& rows) {
          Embedding others = *model.embedding;
          others.scale = 0, others.norm = {};
          return sum_of(rows, embed(others, model.ids, rows.dtype()));
        });
  for (OtherNorm& other : other_norms(own.norm, true)) {
    std::string did = with_name(other.did, "the embedding's norm"),
                cure = with_name(other.cure, "the embedding's norm");
    if (other.form)
      to.add("embed.norm.form", std::move(did), std::move(cure),
             [form = std::move(other.form)](Embedding& e) { e.norm = form(e.norm); });
    else
      to.add("embed.norm.form", std::move(did), std::move(cure), without_norm,
             [norm = own.norm, rows = std::move(other.rows)](const Tensor& sum) {
               return rows(norm, sum);
             });
  }
}

/// The embedding normalised by a layer's norm or by the last norm.
void add_other_norms(const ModelAround& model, const Norm& last, EmbeddingChanges& to) {
  if (!model.embedding->norm.present()) return;
  const auto add = [&](std::string whose, std::function<Norm()> norm) {
    to.add("embed.norm.other", fmt::format("normalises the embedding with {}", whose),
           "use the weights of the embedding's own norm",
           [norm = std::move(norm), whose](Embedding& e) {
             const Norm other = norm();
             if (other.weight.empty() || other.weight.shape() != e.norm.weight.shape())
               fail("{} is none of the embedding's width", whose);
             e.norm = other;
           });
  };
  if (last.present()) add("the last norm", [last] { return last; });
  if (!model.layer) return;
  std::vector<std::size_t> layers{0};
  for (const std::size_t n : {std::size_t{1}, model.layers - 1})
    if (n < model.layers && n > layers.back()) layers.push_back(n);
  for (const std::size_t n : layers) {
    const auto of_layer = [&](const char* name, Norm (*of)(const Layer&)) {
      add(fmt::format("layer {}'s norm {}", n, name), [&model, n, of] {
        const std::shared_ptr<const Layer> from = model.layer(n);
        return from && from->block ? of(*from) : Norm{};
      });
    };
    of_layer("before attention", attention_norm);
    of_layer("around the feed-forward", [](const Layer& one) { return one.block->pre_mlp_norm; });
    of_layer("after the block", [](const Layer& one) { return one.block->post_block_norm; });
  }
}

/// Rows of tokens that other ranks hold are zero if the ranks' rows are not summed.
void add_embedding_shards(const ModelAround& model, EmbeddingChanges& to) {
  const std::size_t vocabulary = model.embedding->tokens.shape()[0];
  for (const std::size_t ranks : rank_counts)
    for (const std::size_t rank : {std::size_t{0}, ranks - 1}) {
      if (rank != 0 && ranks != 2) continue;
      const std::size_t part = (vocabulary + ranks - 1) / ranks;
      to.add(
          "embed.shards",
          fmt::format("has only the rows of rank {} of {}: other tokens' rows are zero", rank,
                      ranks),
          "sum the rows over all ranks (all-reduce)", [](Embedding&) {},
          [&model, rank, part](const Tensor& own) {
            Embedding without = *model.embedding;
            without.scale = 0;
            const Tensor none = embed(without, model.ids, own.dtype());
            Tensor rows = copied(own);
            const std::size_t T = own.shape()[1], bytes = own.bytes() / (own.shape()[0] * T);
            for (std::size_t b = 0; b < model.ids.size(); ++b)
              for (std::size_t t = 0; t < model.ids[b].size(); ++t)
                if (static_cast<std::size_t>(model.ids[b][t]) / part != rank)
                  std::memcpy(rows.raw_mutable() + (b * T + t) * bytes,
                              none.raw() + (b * T + t) * bytes, bytes);
            return rows;
          });
    }
}

std::vector<Change> embedding_changes(const Subject& subject) {
  if (!subject.layer.ends || !subject.model || !subject.model->embedding) return {};
  EmbeddingChanges to(*subject.model);
  const Embedding& own = *subject.model->embedding;
  add_scales(own, to);
  add_positions(own, to);
  add_types(own, to);
  add_norm(own, to);
  add_other_norms(*subject.model, subject.layer.ends->final, to);
  add_embedding_shards(*subject.model, to);
  return to.take();
}

} // namespace

Change embed_scale_change(const ModelAround& model, double factor) {
  EmbeddingChanges to(model);
  to.add("embed.scale", fmt::format("multiplies the tokens' rows by {:.4g}", factor),
         model.embedding->scale == 1 ? "do not scale them"
                                     : fmt::format("multiply them by {:g}", model.embedding->scale),
         [factor](Embedding& own) { own.scale = factor; })
      .fitted = true;
  return std::move(to.take().front());
}

const Theme embedding_theme{
    "embedding",
    "embed.scale embed.positions.missing embed.positions.offset embed.positions.twice "
    "embed.positions.same embed.types embed.norm.missing embed.norm.twice embed.norm.form "
    "embed.norm.place embed.norm.other embed.shards",
    embedding_changes};

} // namespace mha
