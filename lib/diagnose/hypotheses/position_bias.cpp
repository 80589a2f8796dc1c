// Position biases: ALiBi in other forms or with other slopes, T5's and explicit biases left out or
// read in another way.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/diagnose/hypotheses/written_out.hpp>
#include <mha/forward/bias.hpp>
#include <mha/load/buckets.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mha {

Change alibi_slopes_change(const std::vector<double>& slopes, const std::string& description) {
  const auto edit = [slopes](Layer& layer) {
    write_bias(layer, "alibi", [&](std::size_t h, std::ptrdiff_t distance) {
      return slopes[h] * static_cast<double>(distance);
    });
    layer.settings.alibi = Alibi::none;
  };
  return {"alibi.slopes", StageSet{Stage::biased},
          fmt::format("adds ALiBi with other slopes: {}", description),
          "use the slopes 2^(−8 (h + 1) / H) of ALiBi, in the order of the heads", edit};
}

namespace {

void add_slopes(const Layer& layer, ChangeList& list) {
  const std::size_t H = layer.dims.H;
  const std::vector<double> now = alibi_slopes(H, layer.settings.alibi);
  const auto add = [&](const char* id, const std::vector<double>& slopes,
                       const std::string& description) {
    if (slopes == now) return;
    Change& change = list.add(alibi_slopes_change(slopes, description));
    change.id = id, change.rare = true;
  };
  const auto series = [&](auto f) {
    std::vector<double> slopes;
    for (std::size_t h = 0; h < H; ++h) slopes.push_back(f(static_cast<double>(h)));
    return slopes;
  };
  const auto n = static_cast<double>(H);
  std::vector<double> turned = now;
  std::reverse(turned.begin(), turned.end());
  add("alibi.sign", series([&](double h) { return -now[static_cast<std::size_t>(h)]; }),
      "those of this layer with the other sign, which favours distant keys");
  add("alibi.slopes", turned, "those of this layer in the opposite order of the heads");
  add("alibi.slopes", series([n](double h) { return std::exp2(-8 * (h + 1) / n); }),
      "2^(−8 (h + 1) / H), though H is not a power of two");
  add("alibi.slopes", series([n](double h) { return std::exp2(-8 * h / n); }),
      "2^(−8 h / H), from h = 0");
  const std::size_t power =
      std::bit_floor(H); // the other heads have every second slope of 2 P heads
  add("alibi.slopes", series([&](double h) {
        const double p = static_cast<double>(power);
        return h < p ? std::exp2(-8 * h / p) : std::exp2(-8 * (h - p) / p);
      }),
      "2^(−8 h / P), from h = 0, P the power of two below H; after them every second of 2 P");
  add("alibi.slopes", series([](double h) { return std::exp2(-(h + 1)); }), "2^−(h + 1)");
  add("alibi.slopes", series([](double h) { return std::exp2(-h); }), "2^−h");
  add("alibi.slopes", series([](double h) { return 1 / (h + 1); }), "1 / (h + 1)");
  add("alibi.slopes", series([n](double h) { return std::exp2(-(h + 1) / n); }),
      "2^(−(h + 1) / H), without the 8");
  add("alibi.slopes", series([](double) { return 1.0; }), "1 in every head");
}

/// Throws if another change removed it.
void require_relative_bias(const Layer& layer) {
  if (layer.relative_bias.empty()) fail("no relative bias");
}

/// Recomputes T5's buckets for other settings.
void set_relative(Layer& layer, bool bidirectional, std::size_t max_distance) {
  require_relative_bias(layer);
  const std::size_t farthest = std::min(max_distance, layer.dims.T + layer.dims.S_all);
  const std::size_t rows = layer.relative_bias.shape()[0],
                    buckets = bidirectional ? rows / 2 : rows;
  if (buckets < 2 || max_distance <= buckets / 2) fail("no such buckets");
  layer.settings.relative_bidirectional = bidirectional;
  layer.settings.relative_max_distance = max_distance;
  layer.relative_buckets.clear();
  for (std::size_t distance = 0; distance <= farthest; ++distance)
    layer.relative_buckets.push_back(relative_bucket(distance, buckets, max_distance));
}

/// Writes the relative bias out as if a key at this distance were at another(distance).
template <class F> void write_relative(Layer& layer, const F& another) {
  require_relative_bias(layer);
  const std::size_t half =
      layer.settings.relative_bidirectional ? layer.relative_bias.shape()[0] / 2 : 0;
  write_bias(layer, "relative_bias", [&](std::size_t h, std::ptrdiff_t distance) {
    const std::ptrdiff_t ahead = another(distance);
    const auto away =
        static_cast<std::size_t>(half > 0 ? std::abs(ahead) : std::max<std::ptrdiff_t>(-ahead, 0));
    const std::size_t bucket =
        layer.relative_buckets[std::min(away, layer.relative_buckets.size() - 1)];
    return value_at(layer.relative_bias, (bucket + (ahead > 0 ? half : 0)) * layer.dims.H + h);
  });
  layer.relative_bias = {};
}

void add_relative(const Layer& layer, ChangeList& list) {
  const Settings& s = layer.settings;
  const StageSet biased = StageSet{Stage::biased};
  const bool two = s.relative_bidirectional;
  const std::size_t now = s.relative_max_distance;
  list.add("relative.direction", biased,
           two ? "uses all buckets of the relative bias for earlier keys (a decoder's)"
               : "gives half of the buckets of the relative bias to later keys (an encoder's)",
           "let the relative bias be bidirectional in encoders and only there",
           [two, now](Layer& edited) { set_relative(edited, !two, now); },
           {{"relative_bidirectional", !two}});
  for (std::size_t distance : {128U, 20U, 64U, 256U, 512U})
    if (distance != now)
      list.add("relative.distance", biased,
               fmt::format("puts distances beyond {} into one bucket", distance),
               fmt::format("let the last bucket begin at distance {}", now),
               [two, distance](Layer& edited) { set_relative(edited, two, distance); },
               {{"relative_max_distance", distance}})
          .rare = true;
  list.add("relative.sign", biased, "counts distances from the key to the query",
           "count distances as key − query",
           [](Layer& edited) {
             write_relative(edited, [](std::ptrdiff_t distance) { return -distance; });
           })
      .rare = true;
  if (layer.dims.past > 0)
    list.add("relative.past", biased,
             "counts the queries' positions of the relative bias from 0, though keys are cached",
             "let query t of the relative bias be at the position of its own key",
             [](Layer& edited) {
               write_relative(edited, [past = static_cast<std::ptrdiff_t>(edited.dims.past)](
                                          std::ptrdiff_t distance) { return distance + past; });
             })
        .rare = true;
  if (const Shape& shape = layer.relative_bias.shape(); shape[0] > 1 && shape[1] > 1)
    list.add(
            "relative.transposed", biased,
            "reads the memory of the relative bias (buckets, H) as (H, buckets)",
            fmt::format("let a row of the relative bias be a bucket: ({}, {})", shape[0], shape[1]),
            [](Layer& edited) {
              require_relative_bias(edited);
              edited.relative_bias = read_transposed(edited.relative_bias);
            })
        .rare = true;
}

std::vector<Change> position_bias_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& d = layer.dims;
  ChangeList list;
  const bool explicit_bias = !layer.bias.empty(), relative = !layer.relative_bias.empty();
  const StageSet biased = StageSet{Stage::biased};
  if (explicit_bias || relative) {
    list.add("bias.position", biased,
             relative ? "adds no relative position bias" : "adds no position bias",
             relative && !layer.X_k.empty()
                 ? "add it, or give this layer none: T5's cross-attention has no relative bias"
                 : "add the position bias to the scaled scores",
             [](Layer& edited) {
               edited.bias.clear();
               edited.relative_bias = {};
             });
    list.add_rows("bias.position.twice", biased, "adds the position bias twice",
                  "add the position bias once",
                  [](Layer& edited) {
                    const std::vector<Tensor> values =
                        values_of(edited, {step_for(edited, Stage::capped), Stage::biased});
                    const Tensor added =
                        sum_of(values[1], each_number(values[0], [](double a) { return -a; }));
                    give(edited, Stage::biased, sum_of(values[1], added));
                  })
        .rare = true;
    list.add_rows("bias.position.scaled", StageSet{Stage::scaled, Stage::biased},
                  "adds the position bias before the scale: (q kᵀ + bias) · scale",
                  "add the position bias to the scaled scores",
                  [](Layer& edited) {
                    const std::vector<Tensor> values =
                        values_of(edited, {step_for(edited, Stage::capped), Stage::biased});
                    const double scale = edited.scale();
                    Tensor result = copied(values[0]);
                    by_precision(result.dtype(), [&]<class T>(T) {
                      const auto to = result.as_mutable<T>();
                      const auto with = values[1].as<T>();
                      for (std::size_t i = 0; i < to.size(); ++i)
                        to[i] += (with[i] - to[i]) * static_cast<T>(scale);
                    });
                    give(edited, Stage::biased, std::move(result));
                  })
        .rare = true;
  }
  if (explicit_bias && layer.bias[0].strides[2] != 0 && layer.bias[0].strides[3] != 0 &&
      layer.bias[0].keys == d.T && d.T > 1)
    list.add("bias.position.transposed", biased, "reads the bias with queries and keys exchanged",
             "let the rows of the bias be queries and its columns keys", [](Layer& edited) {
               if (!edited.bias.empty())
                 std::swap(edited.bias[0].strides[2], edited.bias[0].strides[3]);
             });
  if (relative) add_relative(layer, list);
  if (layer.settings.alibi != Alibi::none) add_slopes(layer, list);
  return list.take();
}

} // namespace

const Theme position_bias_theme{
    "position_bias",
    "bias.position bias.position.scaled bias.position.twice bias.position.transposed "
    "bias.position.heads bias.position.added relative.direction relative.distance relative.sign "
    "relative.past relative.transposed alibi.sign alibi.slopes",
    position_bias_changes};

namespace {

/// −slope · |key − query|, as in implementations without a causal mask.
void both_ways(Layer& layer) {
  const std::vector<double> slopes = alibi_slopes(layer.dims.H, layer.settings.alibi);
  write_bias(layer, "alibi", [&](std::size_t h, std::ptrdiff_t distance) {
    return -slopes[h] * std::fabs(static_cast<double>(distance));
  });
  layer.settings.alibi = Alibi::none;
}

std::vector<Change> alibi_changes(const Subject& subject) {
  const Settings& s = subject.layer.settings;
  const StageSet biased = StageSet{Stage::biased};
  ChangeList list;
  if (s.alibi != Alibi::none)
    list.add_settings("alibi.missing", biased, "adds no ALiBi",
                      "add ALiBi's slope · distance to the scaled scores", {{"alibi", "false"}});
  struct AlibiForm {
    Alibi form;
    const char *word, *text;
  };
  for (const AlibiForm& form :
       {AlibiForm{Alibi::paper, "true", "slope · (key − query), as in the paper"},
        {Alibi::bloom, "bloom", "slope · key, as BLOOM does"},
        {Alibi::falcon, "falcon", "(q kᵀ + slope · key) · scale, as Falcon does"},
        {Alibi::mpt, "mpt", "MPT's slopes and distances"}}) {
    if (form.form == s.alibi) continue;
    const std::string cure = s.alibi == Alibi::none ? "leave out ALiBi: this layer has none"
                                                    : "use the form of ALiBi that the layer names";
    list.add_settings("alibi.form", biased, fmt::format("adds {}", form.text), cure,
                      {{"alibi", form.word}});
  }
  if (s.alibi != Alibi::none && !s.causal)
    list.add("alibi.form", biased, "adds −slope · |key − query|, the same both ways",
             "add slope · (key − query), which favours later keys", both_ways);
  return list.take();
}

} // namespace

const Theme alibi_theme{"alibi", "alibi.missing alibi.form", alibi_changes};

} // namespace mha
