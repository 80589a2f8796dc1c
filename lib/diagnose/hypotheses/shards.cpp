// Weights split over several ranks: parts joined in another order, cut at other places, or only one
// rank's part.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/shards.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace mha {

namespace {

struct ShardedProjection {
  char letter;
  Stage stage;
  Tensor Layer::*W, Layer::*bias;
  std::size_t Dims::*heads, Dims::*width;

  /// Whether the weight and its bias have a column for each dimension of each head; another change
  /// may have given them other sizes.
  bool fits(const Layer& layer) const {
    const Tensor &W = layer.*this->W, &b = layer.*bias;
    const std::size_t columns = layer.dims.*heads * layer.dims.*width;
    return W.shape().size() == 2 && W.shape()[1] == columns && (b.empty() || b.count() == columns);
  }
};
constexpr ShardedProjection sharded_projections[]{
    {'q', Stage::q, &Layer::W_q, &Layer::b_q, &Dims::H, &Dims::d_k},
    {'k', Stage::k, &Layer::W_k, &Layer::b_k, &Dims::H_kv, &Dims::d_k},
    {'v', Stage::v, &Layer::W_v, &Layer::b_v, &Dims::H_kv, &Dims::d_v}};

StageSet all_projections() {
  return StageSet{Stage::q, Stage::k, Stage::v};
}

/// The order of queries (0), keys (1) and values (2) side by side.
using PartOrder = std::array<std::size_t, 3>;
constexpr PartOrder plain_order{0, 1, 2}, values_second{0, 2, 1};

/// The correspondence between fused columns [q k v] and the columns [q_r k_r v_r] of ranks side by
/// side.
struct FusedColumns {
  std::array<std::size_t, 3> widths;
  std::size_t ranks;
  /// The order of each rank's parts, and the order in which the joined columns are read.
  PartOrder stored = plain_order, read = plain_order;

  std::size_t all() const { return widths[0] + widths[1] + widths[2]; }
  /// The first column of part `which` in an order, within one of `of_ranks` ranks.
  std::size_t first_of(std::size_t which, const PartOrder& order, std::size_t of_ranks = 1) const {
    std::size_t before = 0;
    for (const std::size_t part : order) {
      if (part == which) break;
      before += widths[part] / of_ranks;
    }
    return before;
  }
  /// The part to which column `at` of [q k v] belongs.
  std::size_t part_at(std::size_t at) const {
    return at < widths[0] ? 0 : at < widths[0] + widths[1] ? 1 : 2;
  }
  /// The place of column `at` of [q k v] among the ranks' columns.
  std::size_t of_ranks(std::size_t at) const {
    const std::size_t part = part_at(at), own = widths[part] / ranks,
                      within = at - first_of(part, plain_order);
    return within / own * (all() / ranks) + first_of(part, stored, ranks) + within % own;
  }
  /// The column of [q k v] that is stored where column `at` of [q k v] is read from the ranks'
  /// columns.
  std::size_t of_whole(std::size_t at) const {
    const std::size_t read_part = part_at(at),
                      place = first_of(read_part, read) + at - first_of(read_part, plain_order),
                      each = all() / ranks, within = place % each;
    std::size_t part = stored[2];
    for (const std::size_t candidate : {stored[1], stored[0]})
      if (within < first_of(candidate, stored, ranks) + widths[candidate] / ranks) part = candidate;
    return first_of(part, plain_order) + place / each * (widths[part] / ranks) + within -
           first_of(part, stored, ranks);
  }
};

Tensor side_by_side(const Tensor (&parts)[3]) {
  std::size_t columns = 0;
  for (const Tensor& part : parts) columns += part.shape().back();
  const std::size_t rows = parts[0].count() / parts[0].shape().back(),
                    element = size_of(parts[0].dtype());
  Shape shape = parts[0].shape();
  shape.back() = columns;
  Tensor all = Tensor::uninitialised(parts[0].dtype(), shape);
  for (std::size_t row = 0, to = 0; row < rows; ++row)
    for (const Tensor& part : parts) {
      const std::size_t n = part.shape().back();
      std::memcpy(all.raw_mutable() + to * element, part.raw() + row * n * element, n * element);
      to += n;
    }
  return all;
}

/// Whether q, k and v are products of the same rows, so that one fused weight may hold them.
bool has_all(const Layer& layer) {
  for (const ShardedProjection& one : sharded_projections)
    if (!one.fits(layer) || (layer.*one.W).shape()[0] != layer.W_q.shape()[0]) return false;
  return layer.X_k.empty() && layer.X_v.empty();
}

/// Replaces fused column i of q, k and v side by side by column from(i).
template <class F> void take_fused(Layer& layer, F from) {
  if (!has_all(layer)) fail("another change removed a projection or changed its size");
  const auto take = [&](Tensor& q, Tensor& k, Tensor& v) {
    const Tensor all = columns_from(side_by_side({q, k, v}), from);
    std::size_t first = 0;
    for (Tensor* part : {&q, &k, &v}) {
      const std::size_t n = part->shape().back();
      *part = columns_from(all, n, [first](std::size_t i) { return first + i; });
      first += n;
    }
  };
  take(layer.W_q, layer.W_k, layer.W_v);
  if (layer.b_q.empty() && layer.b_k.empty() && layer.b_v.empty()) return;
  for (const ShardedProjection& one : sharded_projections)
    if ((layer.*one.bias).empty())
      layer.*one.bias = Tensor(layer.dtype, {(layer.*one.W).shape()[1]});
  take(layer.b_q, layer.b_k, layer.b_v);
}

void add_projections(const Layer& layer, ChangeList& list) {
  const Dims& dims = layer.dims;
  for (const std::size_t ranks : rank_counts) {
    // More ranks have too many orders; these are fitted.
    for (const ShardedProjection& one : sharded_projections)
      if (ranks < 4 && dims.*one.heads % ranks == 0 && one.fits(layer))
        list.add(fmt::format("weight.shards.{}", one.letter), StageSet{one.stage},
                 fmt::format("joins the parts of W_{} of {} ranks from the last to the first",
                             one.letter, ranks),
                 "join them from the first rank to the last", [one, ranks](Layer& edited) {
                   Tensor &W = edited.*one.W, &bias = edited.*one.bias;
                   if (!one.fits(edited)) return;
                   const auto from = reversed_parts(W.shape()[1], ranks);
                   W = columns_from(W, from), bias = columns_from(bias, from);
                 });
    if (!has_all(layer) || dims.H_kv % ranks != 0) continue;
    if (ranks < 8)
      list.add("weight.shards", all_projections(),
               fmt::format("loads the first of {} ranks' parts of W_q, W_k and W_v in every rank",
                           ranks),
               "load each rank's own part", [ranks](Layer& edited) {
                 for (const ShardedProjection& one : sharded_projections) {
                   Tensor &W = edited.*one.W, &bias = edited.*one.bias;
                   if (!one.fits(edited)) continue;
                   const auto from = first_part(W.shape()[1], ranks);
                   W = columns_from(W, from), bias = columns_from(bias, from);
                 }
               });
    const FusedColumns columns{{dims.H * dims.d_k, dims.H_kv * dims.d_k, dims.H_kv * dims.d_v},
                               ranks};
    const auto add_joined = [&](FusedColumns joined, const char* stored, const char* read) {
      list.add("weight.shards", all_projections(),
               fmt::format("joins the fused weight's parts of {} ranks, each {}, as if they were "
                           "one {}",
                           ranks, stored, read),
               "join the queries of all ranks, then their keys, then their values",
               [joined](Layer& edited) {
                 take_fused(edited, [joined](std::size_t i) { return joined.of_whole(i); });
               });
    };
    add_joined(columns, "[q k v]", "[q k v]");
    FusedColumns other = columns; // CodeGen's
    other.stored = values_second;
    add_joined(other, "[q v k]", "[q k v]");
    other.read = values_second;
    add_joined(other, "[q v k]", "[q v k]");
    list.add(
        "weight.shards", all_projections(),
        fmt::format("cuts the fused weight [q k v] into {} equal parts, each of which its rank "
                    "reads as its own [q k v]",
                    ranks),
        "cut queries, keys and values each by itself, and give each rank its part of the three",
        [columns](Layer& edited) {
          take_fused(edited, [columns](std::size_t i) { return columns.of_ranks(i); });
        });
  }
}

/// A weight with the rows of other ranks set to zero. Empty for an empty weight, which another
/// change removed.
Tensor rows_of_rank(const Tensor& W, std::size_t rank, std::size_t ranks) {
  if (W.empty()) return W;
  Tensor part = Tensor(W.dtype(), W.shape());
  const std::size_t bytes = W.count() / ranks * size_of(W.dtype());
  std::memcpy(part.raw_mutable() + rank * bytes, W.raw() + rank * bytes, bytes);
  return part;
}

/// Second products, whose inputs are split over the ranks.
struct RowParallel {
  std::string id, name;
  StageSet touched;
  bool attention, feed_forward;

  /// Replaces each of these weights W by f(W).
  template <class F> void edit(Layer& layer, F f) const {
    if (attention) layer.W_o = f(layer.W_o);
    if (!feed_forward) return;
    Tensor& W = own_block(layer).mlp.out.W;
    W = f(W);
  }
};

void add_row_parallel(const Layer& layer, ChangeList& list) {
  const bool attends = !layer.W_o.empty(), feeds = layer.block && layer.block->mlp.present();
  const StageSet at_output = StageSet{Stage::output, Stage::head_result},
                 at_mlp = StageSet{Stage::mlp_out};
  const RowParallel products[]{
      {"weight.shards.o", "W_o", at_output, true, false},
      {"mlp.shards", "the feed-forward's second weight", at_mlp, false, true},
      {"mlp.shards", "W_o and the feed-forward's second weight", at_output | at_mlp, true, true}};
  for (const std::size_t ranks : rank_counts)
    for (const RowParallel& one : products) {
      if ((one.attention && (!attends || layer.dims.H % ranks != 0)) ||
          (one.feed_forward && (!feeds || layer.block->mlp.out.in() % ranks != 0)))
        continue;
      const bool both = one.attention && one.feed_forward;
      if (!both && ranks < 4)
        list.add(one.id, one.touched,
                 fmt::format("multiplies by the parts of {} of {} ranks from the last to the first",
                             one.name, ranks),
                 "let each rank's part multiply what that rank made", [one, ranks](Layer& edited) {
                   one.edit(edited, [ranks](const Tensor& W) {
                     return W.empty() ? W : rows_from(W, reversed_parts(W.shape()[0], ranks));
                   });
                 });
      for (const std::size_t rank : {std::size_t{0}, ranks - 1}) {
        if (rank != 0 && ranks != 2) continue;
        list.add(one.id, one.touched,
                 fmt::format("adds only what rank {} of {} computes with its part of {}", rank,
                             ranks, one.name),
                 "sum over all ranks (all-reduce)", [one, rank, ranks](Layer& edited) {
                   one.edit(edited, [rank, ranks](const Tensor& W) {
                     return rows_of_rank(W, rank, ranks);
                   });
                 });
      }
    }
}

/// The feed-forward's first products, whose outputs are split over the ranks.
void add_first_products(const Layer& layer, ChangeList& list) {
  if (!layer.block || !layer.block->mlp.present()) return;
  const FeedForward& mlp = layer.block->mlp;
  const StageSet touched =
      mlp.gated() ? StageSet{Stage::mlp_pre, Stage::mlp_up} : StageSet{Stage::mlp_pre};
  for (const std::size_t ranks : rank_counts)
    if (ranks < 8 && mlp.in.out() % ranks == 0)
      list.add(
          "mlp.shards", touched,
          fmt::format("loads the first of {} ranks' parts of the feed-forward's first weight{} "
                      "in every rank",
                      ranks, mlp.gated() ? "s" : ""),
          "load each rank's own part", [ranks](Layer& edited) {
            FeedForward& own = own_block(edited).mlp;
            const auto from = first_part(own.in.out(), ranks);
            for (LinearMap* map : {&own.in, &own.up})
              if (map->present()) *map = with_outputs(*map, from);
          });
}

std::vector<Change> shards_changes(const Subject& subject) {
  ChangeList list;
  add_projections(subject.layer, list);
  add_row_parallel(subject.layer, list);
  add_first_products(subject.layer, list);
  list.all_rare();
  return list.take();
}

} // namespace

const Theme shards_theme{"shards",
                         "weight.shards weight.shards.q weight.shards.k weight.shards.v "
                         "weight.shards.o mlp.shards",
                         shards_changes};

} // namespace mha
