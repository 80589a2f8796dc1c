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

std::vector<Change> heads_changes(const Subject& subject) {
  const Dims& dims = subject.layer.dims;
  ChangeList list;
  for (const Split& split : {Split{'q', Stage::q, &Layer::W_q, &Layer::b_q},
                             Split{'k', Stage::k, &Layer::W_k, &Layer::b_k},
                             Split{'v', Stage::v, &Layer::W_v, &Layer::b_v}}) {
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
                        "heads.unmerged gqa.tiled",
                        heads_changes};

} // namespace mha
