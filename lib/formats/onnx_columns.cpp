#include <mha/formats/onnx_columns.hpp>

#include <algorithm>

namespace mha::io {

namespace {

constexpr std::int64_t most_heads = 1 << 12, most_head_width = 1 << 14;

/// An element of a projection.
struct Element {
  std::int64_t row = 0, column = 0;
  double factor = 1;
};

class OperandReader {
public:
  OperandReader(const OnnxFlow& flow, const OnnxProjections& projections,
                const OnnxSiteElements& elements, std::int64_t length, std::int64_t width)
      : flow_(flow),
        projections_(projections),
        elements_(elements),
        length_(length),
        width_(width) {}

  std::optional<OnnxOperand> read(std::int64_t groups, std::vector<std::int64_t>& heads) {
    if (groups < 1 || width_ < 1 || groups > most_heads * 64 || width_ > most_head_width)
      return std::nullopt;
    const OnnxForm first = elements_(0, 0, 0);
    if (first.terms.size() != 1) return std::nullopt;
    if (!find_source(first.terms[0].value)) return std::nullopt;
    const auto origin = element(0, 0, 0);
    if (!origin) return std::nullopt;
    if (heads.empty())
      for (std::int64_t l = 0; l < groups; ++l)
        if (const auto one = element(l, 0, 0); one && one->row == origin->row) heads.push_back(l);
    if (heads.empty() || heads.size() > static_cast<std::size_t>(most_heads)) return std::nullopt;
    if (!find_columns(heads, *origin)) return std::nullopt;
    if (!find_rope(heads[0])) return std::nullopt;
    if (!find_added(heads)) return std::nullopt;
    return std::move(operand_);
  }

private:
  /// The projection, or the normalisation between.
  bool find_source(int value) {
    const OnnxProjection* projection = projections_.of(flow_.resolved(value));
    if (!projection) {
      operand_.norm = onnx_norm(flow_, value);
      if (!operand_.norm) return false;
      const OnnxForm before = flow_.form(operand_.norm->x, 0);
      if (before.terms.size() != 1) return false;
      projection = projections_.of(flow_.resolved(before.terms[0].value));
      normed_ = flow_.resolved(value);
    }
    if (!projection || !projection->plain) return false;
    operand_.columns.projection = *projection;
    return true;
  }

  /// The one element of the projection that a term is.
  std::optional<Element> element(const OnnxForm::Term& term) const {
    int value = flow_.resolved(term.value);
    std::int64_t at = term.at;
    double factor = term.factor;
    if (operand_.norm) {
      if (value != normed_) return std::nullopt;
      const OnnxForm before = flow_.form(operand_.norm->x, at);
      if (before.terms.size() != 1 || std::abs(before.terms[0].factor - 1) > 1e-9)
        return std::nullopt;
      value = flow_.resolved(before.terms[0].value), at = before.terms[0].at;
    }
    const OnnxProjection& projection = operand_.columns.projection;
    if (value != flow_.resolved(projection.out) && value != flow_.resolved(projection.product))
      return std::nullopt;
    // The product itself, where its biased form is another value, would lack the bias.
    if (value != flow_.resolved(projection.out)) return std::nullopt;
    const auto [row, column] = projection.place(flow_, at);
    return Element{row, column, factor};
  }
  std::optional<Element> element(std::int64_t l, std::int64_t t, std::int64_t d) const {
    const OnnxForm form = elements_(l, t, d);
    if (form.terms.size() != 1) return std::nullopt;
    return element(form.terms[0]);
  }

  bool find_columns(const std::vector<std::int64_t>& heads, const Element& origin) {
    std::vector<std::int64_t> of_head, of_place;
    std::vector<double> factors;
    for (const std::int64_t l : heads) {
      const auto one = element(l, 0, 0);
      if (!one || one->row != origin.row) return false;
      of_head.push_back(one->column);
    }
    for (std::int64_t d = 0; d < width_; ++d) {
      const auto one = element(heads[0], 0, d);
      if (!one || one->row != origin.row) return false;
      of_place.push_back(one->column - origin.column);
      factors.push_back(one->factor);
    }
    // A head's columns lie as the first one's do; some of every head are asked for.
    for (std::size_t h = 0; h < heads.size(); ++h)
      for (const std::int64_t d : {width_ - 1, width_ / 2, static_cast<std::int64_t>(h) % width_}) {
        const auto one = element(heads[h], 0, d);
        if (!one || one->row != origin.row ||
            one->column != of_head[h] + of_place[static_cast<std::size_t>(d)] ||
            std::abs(one->factor - factors[static_cast<std::size_t>(d)]) >
                1e-6 * std::abs(one->factor))
          return false;
      }
    // The next token is the next row of the same input.
    if (length_ > 1) {
      const OnnxForm next = elements_(heads[0], length_ - 1, 0);
      for (const OnnxForm::Term& term : next.terms)
        if (const auto one = element(term); !one || one->row == origin.row) return false;
    }
    OnnxColumns& columns = operand_.columns;
    columns.heads = heads.size(), columns.width = static_cast<std::size_t>(width_);
    const auto most = static_cast<std::int64_t>(columns.projection.out_width);
    for (const std::int64_t head : of_head)
      for (const std::int64_t place : of_place) {
        if (head + place < 0 || head + place >= most) return false;
        columns.columns.push_back(static_cast<std::size_t>(head + place));
      }
    return take_factors(factors);
  }

  /// One factor for all elements is part of the scale; one a place is a normalisation's weight.
  bool take_factors(std::vector<double> factors) {
    const auto [least, most] = std::ranges::minmax(factors);
    const bool even = std::abs(most - least) <= 1e-6 * std::abs(most);
    if (!operand_.norm) {
      operand_.columns.factor = factors[0];
      return even && factors[0] != 0;
    }
    const OnnxNorm& norm = *operand_.norm;
    const bool of_head = norm.width == operand_.columns.width;
    if (!of_head && norm.width != operand_.columns.columns.size()) return false;
    if (!norm.weight.empty()) {
      if (!even) return false;
      operand_.columns.factor = factors[0];
      operand_.norm_weight = norm.weight, operand_.norm_bias = norm.bias;
    } else if (of_head) {
      operand_.norm_weight = std::move(factors);
    } else {
      return false;
    }
    return true;
  }

  /// Row 1's element `d` of a head: its own factor, and that of the element which turns with it.
  struct Turn {
    std::size_t partner = 0;
    double own = 0, other = 0;
  };
  std::optional<Turn> turn_of(std::int64_t head, std::size_t d) const {
    const std::vector<std::size_t>& columns = operand_.columns.columns;
    Turn turn{.partner = d};
    const OnnxForm form = elements_(head, 1, static_cast<std::int64_t>(d));
    for (const OnnxForm::Term& term : form.terms) {
      const auto one = element(term);
      if (!one) return std::nullopt;
      const auto place = std::find(columns.begin(), columns.begin() + width_,
                                   static_cast<std::size_t>(one->column));
      if (place == columns.begin() + width_) return std::nullopt;
      const auto at = static_cast<std::size_t>(place - columns.begin());
      // A normalisation's weight stays with its element.
      const double factor = one->factor / weight_at(at);
      if (at == d)
        turn.own = factor;
      else if (turn.other == 0)
        turn.other = factor, turn.partner = at;
      else
        return std::nullopt;
    }
    return turn;
  }

  /// How elements turn from the first row on.
  bool find_rope(std::int64_t head) {
    if (length_ < 2) return true;
    const auto width = static_cast<std::size_t>(width_);
    std::vector<std::size_t> partner(width);
    std::vector<double> turn(width, 0), length(width, 1);
    bool turns = false;
    const std::vector<std::size_t>& columns = operand_.columns.columns;
    std::size_t first = width, last = 0;
    for (std::size_t d = 0; d < width; ++d) {
      const std::optional<Turn> found = turn_of(head, d);
      if (!found) return false;
      partner[d] = found->partner;
      if (found->other == 0) continue;
      turns = true, first = std::min(first, d), last = d;
      turn[d] = std::atan2(std::abs(found->other), found->own);
      length[d] = std::hypot(found->own, found->other);
      const bool leads = partner[d] > d;
      if ((found->other < 0) != leads) return false; // x cos − y sin, and y cos + x sin
    }
    if (!turns) return true;
    OnnxRope rope;
    rope.first = first, rope.dims = last - first + 1;
    rope.neighbours = partner[first] == first + 1 && rope.dims > 2;
    rope.amplitude = length[first];
    if (rope.dims % 2 != 0) return false;
    for (std::size_t j = 0; j < rope.dims / 2; ++j) {
      const std::size_t d = first + (rope.neighbours ? 2 * j : j);
      const std::size_t wanted = d + (rope.neighbours ? 1 : rope.dims / 2);
      if (partner[d] != wanted || std::abs(length[d] - rope.amplitude) > 1e-4) return false;
      rope.frequencies.push_back(turn[d]);
    }
    // Positions count from 0: twice the angle at the next one.
    if (length_ > 2) {
      const auto width_at = static_cast<std::int64_t>(first);
      double own = 0;
      for (const OnnxForm::Term& term : elements_(head, 2, width_at).terms)
        if (const auto one = element(term);
            one && static_cast<std::size_t>(one->column) == columns[first])
          own = one->factor / weight_at(first);
      if (std::abs(own - rope.amplitude * std::cos(2 * turn[first])) > 1e-3) return false;
    }
    if (std::abs(rope.amplitude - 1) < 1e-5) rope.amplitude = 1;
    operand_.rope = std::move(rope);
    return true;
  }

  /// What row 0 is multiplied by at a place: the weight of a normalisation that is spelt out.
  double weight_at(std::size_t d) const {
    if (operand_.norm && operand_.norm->weight.empty() && d < operand_.norm_weight.size())
      return operand_.norm_weight[d];
    return operand_.columns.factor;
  }

  /// Numbers beside the terms: a bias that was added after the heads were split.
  bool find_added(const std::vector<std::int64_t>& heads) {
    bool some = false;
    for (std::int64_t d = 0; d < width_ && !some; ++d)
      some = elements_(heads[0], 0, d).number != 0 || elements_(heads.back(), 0, d).number != 0;
    if (!some) return true;
    if (operand_.norm) { // the bias of one that is spelt out
      if (!operand_.norm->weight.empty() || operand_.norm->rms) return false;
      for (std::int64_t d = 0; d < width_; ++d)
        operand_.norm_bias.push_back(elements_(heads[0], 0, d).number);
      return true;
    }
    for (const std::int64_t l : heads)
      for (std::int64_t d = 0; d < width_; ++d)
        operand_.columns.added.push_back(elements_(l, 0, d).number / operand_.columns.factor);
    return true;
  }

  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  const OnnxSiteElements& elements_;
  std::int64_t length_, width_;
  int normed_ = -1;
  OnnxOperand operand_;
};

} // namespace

std::optional<OnnxOperand> onnx_operand(const OnnxFlow& flow, const OnnxProjections& projections,
                                        const OnnxSiteElements& elements, std::int64_t groups,
                                        std::int64_t length, std::int64_t width,
                                        std::vector<std::int64_t>& heads) {
  return OperandReader(flow, projections, elements, length, width).read(groups, heads);
}

std::vector<std::vector<double>> onnx_constant_rows(const OnnxFlow& flow,
                                                    const OnnxSiteElements& elements,
                                                    const std::vector<std::int64_t>& heads,
                                                    std::int64_t length, std::int64_t width) {
  const auto constant = [&](const OnnxForm& form) -> std::optional<double> {
    double sum = form.number;
    for (const OnnxForm::Term& term : form.terms) {
      const auto number =
          flow.is_fixed(term.value) ? flow.number(term.value, term.at) : std::nullopt;
      if (!number) return std::nullopt;
      sum += term.factor * *number;
    }
    return sum;
  };
  std::vector<std::vector<double>> rows;
  for (std::int64_t s = length - 1; s > 0 && constant(elements(heads[0], s, 0)); --s) {
    std::vector<double>& row = rows.emplace_back();
    for (const std::int64_t l : heads)
      for (std::int64_t d = 0; d < width; ++d)
        row.push_back(constant(elements(l, s, d)).value_or(NAN));
  }
  std::ranges::reverse(rows);
  return rows;
}

} // namespace mha::io
