#include <mha/formats/onnx_columns.hpp>

#include <mha/formats/onnx_between.hpp>
#include <mha/formats/onnx_proof.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

class OutputReader {
public:
  OutputReader(const OnnxFlow& flow, const OnnxProjections& projections,
               const OnnxAttentionSite& site, const std::vector<std::int64_t>& heads)
      : flow_(flow), projections_(projections), site_(site), heads_(heads) {}

  /// The output projection, from head_out through steps that only move elements; `others` are the
  /// other steps on the way.
  const OnnxProjection* output_projection(std::vector<int>& others) const {
    std::vector<int> wave{site_.head_out};
    for (std::size_t i = 0; i < wave.size() && i < 64; ++i)
      for (const int consumer : flow_.at(flow_.resolved(wave[i])).consumers) {
        if (const OnnxProjection* found = projections_.of_step(consumer))
          if (flow_.resolved(found->x) == flow_.resolved(wave[i])) return found;
        const OnnxStep& next = flow_.steps[static_cast<std::size_t>(consumer)];
        if (next.outputs.empty() || next.outputs[0] < 0 || next.is("Shape")) continue;
        const OnnxForm on =
            flow_.shape(next.outputs[0]) ? flow_.form(next.outputs[0], 0) : OnnxForm{};
        if (on.terms.size() == 1 && std::abs(on.terms[0].factor - 1) < 1e-9 &&
            flow_.resolved(on.terms[0].value) == flow_.resolved(site_.head_out))
          wave.push_back(next.outputs[0]);
        else
          add_once(others, consumer);
      }
    return nullptr;
  }

  /// The row in the layer's order of heads for a column of W_o's input, if its row `row` has token
  /// `t`.
  std::optional<std::size_t> row_of(const OnnxProjection& to, std::int64_t column, std::int64_t row,
                                    std::int64_t t) const {
    const OnnxForm form = flow_.form(to.x, to.input_at(flow_, column, row));
    if (form.terms.size() != 1 || std::abs(form.terms[0].factor - 1) > 1e-9 || form.number != 0 ||
        flow_.resolved(form.terms[0].value) != flow_.resolved(site_.head_out))
      return std::nullopt;
    const auto [l, token, d] = site_.head_out_place(form.terms[0].at);
    const auto head = std::ranges::find(heads_, l);
    if (head == heads_.end() || token != t) return std::nullopt;
    return static_cast<std::size_t>((head - heads_.begin()) * site_.d_v + d);
  }

  /// For each row of W_o in the layer's order of heads, the row of the projection's weight. It must
  /// be the same for every token.
  std::optional<std::vector<std::size_t>> rows_by_head(const OnnxProjection& to,
                                                       std::vector<int>& roundings) const {
    const auto d_v = static_cast<std::size_t>(site_.d_v);
    if (to.in_width != heads_.size() * d_v || !flow_.shape(to.x)) return std::nullopt;
    const std::int64_t texts = site_.groups / static_cast<std::int64_t>(heads_.size());
    if (to.rows(flow_) != texts * site_.T) return std::nullopt;
    std::vector<std::size_t> rows(to.in_width, to.in_width), place(to.in_width);
    for (std::size_t c = 0; c < to.in_width; ++c) {
      const auto found = row_of(to, static_cast<std::int64_t>(c), 0, 0);
      if (!found) return std::nullopt;
      rows[*found] = c, place[c] = *found;
    }
    if (is_one_of(to.in_width, rows)) return std::nullopt;
    const auto width = static_cast<std::int64_t>(to.in_width);
    // The tokens of a text are adjacent, or the first tokens of all texts come first.
    for (const std::int64_t stride : {std::int64_t{1}, texts}) {
      const auto same = [&](const OnnxPlaces& at) {
        return row_of(to, at[1], at[0] * stride, at[0]) == place[static_cast<std::size_t>(at[1])];
      };
      flow_.take_passed_steps();
      if (!onnx_holds_at_places({site_.T, width}, same)) continue;
      const OnnxPassedSteps passed = flow_.take_passed_steps();
      roundings = passed.roundings;
      if ((passed.tables.empty() && passed.sums.empty()) ||
          onnx_holds_at_more_places({site_.T, width}, same))
        return rows;
    }
    return std::nullopt;
  }

private:
  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  const OnnxAttentionSite& site_;
  const std::vector<std::int64_t>& heads_;
};

} // namespace

std::optional<OnnxOutput> onnx_output(const OnnxFlow& flow, const OnnxProjections& projections,
                                      const OnnxAttentionSite& site,
                                      const std::vector<std::int64_t>& heads,
                                      std::vector<int>& others) {
  const OutputReader reader(flow, projections, site, heads);
  const OnnxProjection* to = reader.output_projection(others);
  if (!to) return std::nullopt;
  OnnxOutput output{to, {}, to->bias, {}};
  if (to->plain)
    if (auto rows = reader.rows_by_head(*to, output.roundings)) {
      output.rows = std::move(*rows);
      return output;
    }
  others = to->plain ? onnx_steps_before(flow, projections, to->x) : std::vector<int>{};
  add_once(others, to->step);
  return std::nullopt;
}

} // namespace mha::io
