// Wrong ways to split, share and join heads.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

struct Split {
  char letter;
  Stage stage;
  Tensor Layer::*W, Layer::*bias;
};

/// Column h · d + i becomes column i · heads + h.
void interleave(Layer& layer, const Split& split, std::size_t heads, std::size_t d) {
  const auto from = [=](std::size_t column) { return column % d * heads + column / d; };
  Tensor& W = layer.*split.W;
  Tensor& bias = layer.*split.bias;
  if (layer.has_given(split.stage) || W.empty()) {
    give(layer, split.stage, columns_from(value_of(layer, split.stage), from));
    return;
  }
  W = columns_from(W, from);
  if (!bias.empty()) bias = columns_from(bias, from);
}

/// The memory of (in, heads, d) read as (heads, in, d), each back as (in, heads · d); or the
/// reverse.
Tensor reread(const Tensor& W, std::size_t heads, bool heads_first) {
  const std::size_t in = W.shape()[0], d = W.shape()[1] / heads;
  const Shape from = heads_first ? Shape{heads, in, d} : Shape{in, heads, d};
  const Tensor turned = permuted(W.reshaped(from), {1, 0, 2});
  return turned.reshaped(W.shape());
}

constexpr Split splits[]{{'q', Stage::q, &Layer::W_q, &Layer::b_q},
                         {'k', Stage::k, &Layer::W_k, &Layer::b_k},
                         {'v', Stage::v, &Layer::W_v, &Layer::b_v}};

/// Weights with a heads axis at another place: in memory (H, d_model, d_k), as some keep a matrix
/// for each head, or (d_model, H, d_k).
void add_kernels(const Layer& layer, ChangeList& list) {
  const auto can = [&](const Split& split) {
    const Tensor& W = layer.*split.W;
    return !W.empty() && W.shape()[0] > 1 &&
           (split.letter == 'q' ? layer.dims.H : layer.dims.H_kv) > 1;
  };
  const auto add = [&](const std::string& id, const std::vector<Split>& which,
                       const std::string& name) {
    StageSet touched;
    for (const Split& split : which) {
      if (!can(split)) return;
      touched.add(split.stage);
    }
    for (const bool heads_first : {true, false})
      list.add(id, touched,
               heads_first
                   ? fmt::format("reads the memory of {} as (H, d_model, d), heads first", name)
                   : fmt::format("reads {}, which has its heads first, as (d_model, H, d)", name),
               fmt::format("{} for each head: the columns of head h are those from h · d",
                           heads_first ? "view the weight as (d_model, H, d)"
                                       : "transpose (H, d_model, d) to (d_model, H, d)"),
               [which, heads_first](Layer& edited) {
                 for (const Split& split : which)
                   edited.*split.W =
                       reread(edited.*split.W,
                              split.letter == 'q' ? edited.dims.H : edited.dims.H_kv, heads_first);
               })
          .rare = true;
  };
  add("weight.heads", {std::begin(splits), std::end(splits)}, "W_q, W_k and W_v");
  for (const Split& split : splits)
    add(fmt::format("weight.heads.{}", split.letter), {split}, fmt::format("W_{}", split.letter));
}

/// The heads of each item in another order in memory: (B, H) read as (H, B), or the reverse.
Tensor regrouped(const Tensor& x, std::size_t heads, bool heads_first) { // B, T, H · d
  const Shape& s = x.shape();
  const std::size_t B = s[0], T = s[1], d = s[2] / heads;
  const Tensor by_head = permuted(x.reshaped({B, T, heads, d}), {0, 2, 1, 3});
  const Tensor memory = heads_first ? permuted(by_head, {1, 0, 2, 3}) : by_head;
  const Tensor read = heads_first ? memory.reshaped({B, heads, T, d})
                                  : permuted(memory.reshaped({heads, B, T, d}), {1, 0, 2, 3});
  return permuted(read, {0, 2, 1, 3}).reshaped(s);
}

std::vector<Change> heads_changes(const Subject& subject) {
  const Dims& dims = subject.layer.dims;
  ChangeList list;
  for (const Split& split : splits) {
    const std::size_t heads = split.letter == 'q' ? dims.H : dims.H_kv;
    const std::size_t d = split.letter == 'v' ? dims.d_v : dims.d_k;
    if (heads < 2 || d < 2) continue;
    list.add(
        fmt::format("heads.interleaved.{}", split.letter), StageSet{split.stage},
        fmt::format("splits {} into heads column by column: head h has the columns h, h + H, …",
                    split.letter),
        fmt::format("split the columns of {} as (heads, width), not as (width, heads): head h has "
                    "the {} columns from h · {}",
                    split.letter, d, d),
        [=](Layer& edited) { interleave(edited, split, heads, d); });
  }
  if (dims.H > 1 && dims.T > 1)
    list.add("heads.unmerged", StageSet{Stage::concat},
             "joins the heads without bringing tokens first: (H, T, d_v) is read as (T, H · d_v)",
             "transpose (H, T, d_v) to (T, H, d_v) before joining the heads", [](Layer& edited) {
               give(edited, Stage::concat,
                    unmerged(value_of(edited, Stage::head_out), edited.dims.H));
             });
  if (dims.H > 1 && dims.B > 1)
    for (const bool heads_first : {true, false})
      list.add("heads.batch", StageSet{Stage::concat},
               heads_first
                   ? "joins heads and batch items as (H · B) and takes them apart as (B · H)"
                   : "joins heads and batch items as (B · H) and takes them apart as (H · B)",
               "take the axis apart in the order in which it was joined",
               [heads_first](Layer& edited) {
                 give(edited, Stage::concat,
                      regrouped(value_of(edited, Stage::head_out), edited.dims.H, heads_first));
               })
          .rare = true;
  add_kernels(subject.layer, list);
  if (dims.H_kv > 1 && dims.H_kv < dims.H)
    list.add("gqa.tiled", StageSet{Stage::scores, Stage::head_out},
             "lets query head h read key/value head h mod H_kv (the heads are tiled)",
             "repeat each key/value head for its group: query head h reads key/value head "
             "⌊h · H_kv / H⌋",
             [](Layer& edited) {
               edited.kv_heads.resize(edited.dims.H);
               for (std::size_t h = 0; h < edited.dims.H; ++h)
                 edited.kv_heads[h] = h % edited.dims.H_kv;
             });
  return list.take();
}

} // namespace

const Theme heads_theme{"heads",
                        "heads.interleaved.q heads.interleaved.k heads.interleaved.v "
                        "heads.unmerged heads.batch weight.heads weight.heads.q weight.heads.k "
                        "weight.heads.v gqa.tiled",
                        heads_changes};

} // namespace mha
