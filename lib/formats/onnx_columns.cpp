#include <mha/formats/onnx_columns.hpp>

#include <mha/system/one_of.hpp>
#include <mha/tensor/parts.hpp>

#include <algorithm>
#include <tuple>

namespace mha::io {

namespace {

constexpr std::int64_t most_heads = 1 << 12, most_head_width = 1 << 14;

class OperandReader {
public:
  OperandReader(const OnnxFlow& flow, const OnnxProjections& projections,
                const OnnxOperandPlace& place, std::vector<int>& why)
      : flow_(flow),
        projections_(projections),
        place_(place),
        elements_(place.elements),
        length_(place.length),
        width_(place.width),
        why_(why) {}

  std::optional<OnnxOperand> read(std::vector<std::int64_t>& heads) {
    flow_.take_passed_steps();
    const bool found =
        read_parts(heads) && onnx_operand_holds(flow_, projections_, place_, operand_, heads, why_);
    if (found) return std::move(operand_);
    return std::nullopt;
  }

private:
  bool read_parts(std::vector<std::int64_t>& heads) {
    const std::int64_t groups = place_.groups;
    if (groups < 1 || width_ < 1 || groups > most_heads * 64 || width_ > most_head_width)
      return false;
    const OnnxForm first = elements_(0, 0, 0);
    for (const OnnxForm::Term& term : first.terms) note_maker(term.value);
    if (first.terms.size() != 1 || !find_source(first.terms[0].value)) return false;
    why_.clear();
    const auto origin = element(0, 0, 0);
    if (!origin) return false;
    if (heads.empty())
      for (std::int64_t l = 0; l < groups; ++l)
        if (const auto found = element(l, 0, 0); found && found->row == origin->row)
          heads.push_back(l);
    if (heads.empty() || heads.size() > static_cast<std::size_t>(most_heads)) return false;
    if (!find_columns(heads, *origin)) return false;
    while (operand_.constants + 1 < length_ &&
           onnx_constant(flow_, elements_(heads[0], length_ - 1 - operand_.constants, 0)))
      ++operand_.constants;
    length_ -= operand_.constants;
    return find_rope(heads[0]) && find_added(heads);
  }

  /// Records the step that computes a value which is not an element of a projection.
  void note_maker(int value) {
    if (const OnnxStep* made = flow_.maker(value); made && !projections_.of(flow_.resolved(value)))
      add_once(why_, static_cast<int>(made - flow_.steps.data()));
  }

  /// Finds the projection, and the normalisation between it and the value.
  bool find_source(int value) {
    const OnnxProjection* projection = projections_.of(flow_.resolved(value));
    if (!projection) {
      operand_.norm = onnx_norm(flow_, value);
      if (!operand_.norm) return false;
      const OnnxForm before = flow_.form(operand_.norm->x, 0);
      if (before.terms.size() != 1) return false;
      projection = projections_.of(flow_.resolved(before.terms[0].value));
      operand_.normed = flow_.resolved(value);
    }
    if (projection && !projection->plain) why_ = {projection->step};
    if (!projection || !projection->plain) return false;
    operand_.columns.projection = *projection;
    return true;
  }

  std::optional<OnnxColumnElement> element(const OnnxForm::Term& term) {
    const auto found = onnx_column_element(flow_, operand_, term);
    if (!found && flow_.resolved(term.value) != operand_.normed) note_maker(term.value);
    return found;
  }
  std::optional<OnnxColumnElement> element(std::int64_t l, std::int64_t t, std::int64_t d) {
    const OnnxForm form = elements_(l, t, d);
    if (form.terms.size() == 1) return element(form.terms[0]);
    for (const OnnxForm::Term& term : form.terms) element(term);
    return std::nullopt;
  }

  bool find_columns(const std::vector<std::int64_t>& heads, const OnnxColumnElement& origin) {
    std::vector<std::int64_t> of_head, of_place;
    std::vector<double> factors;
    for (const std::int64_t l : heads) {
      const auto found = element(l, 0, 0);
      if (!found || found->row != origin.row) return false;
      of_head.push_back(found->column);
    }
    for (std::int64_t d = 0; d < width_; ++d) {
      const auto found = element(heads[0], 0, d);
      if (!found || found->row != origin.row) return false;
      of_place.push_back(found->column - origin.column);
      factors.push_back(found->factor);
    }
    // All heads must have their columns in the order of the first head; some of each are checked.
    for (std::size_t h = 0; h < heads.size(); ++h)
      for (const std::int64_t d : {width_ - 1, width_ / 2, static_cast<std::int64_t>(h) % width_}) {
        const auto found = element(heads[h], 0, d);
        if (!found || found->row != origin.row ||
            found->column != of_head[h] + of_place[static_cast<std::size_t>(d)] ||
            std::abs(found->factor - factors[static_cast<std::size_t>(d)]) >
                1e-6 * std::abs(found->factor))
          return false;
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

  /// A common factor of all elements is part of the scale; factors that differ by place are a
  /// normalisation's weight.
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

  /// The factors in element `d` of a head in row 1: its own, and that of the element it turns with.
  struct FoundTurn {
    std::size_t partner = 0;
    double own = 0, other = 0;
  };
  std::optional<FoundTurn> turn_of(std::int64_t head, std::size_t d) {
    const std::vector<std::size_t>& columns = operand_.columns.columns;
    FoundTurn turn{.partner = d};
    const OnnxForm form = elements_(head, 1, static_cast<std::int64_t>(d));
    for (const OnnxForm::Term& term : form.terms) {
      const auto found = element(term);
      if (!found) return std::nullopt;
      const auto place = std::find(columns.begin(), columns.begin() + width_,
                                   static_cast<std::size_t>(found->column));
      if (place == columns.begin() + width_) return std::nullopt;
      const auto at = static_cast<std::size_t>(place - columns.begin());
      // A normalisation's weight stays with its element.
      const double factor = found->factor / weight_at(at);
      if (at == d)
        turn.own = factor;
      else if (turn.other == 0)
        turn.other = factor, turn.partner = at;
      else
        return std::nullopt;
    }
    return turn;
  }

  /// Finds the rotation from the second row.
  bool find_rope(std::int64_t head) {
    if (length_ < 2) return true;
    const auto width = static_cast<std::size_t>(width_);
    std::vector<std::size_t> partner(width);
    std::vector<double> turn(width, 0), length(width, 1);
    bool turns = false;
    const std::vector<std::size_t>& columns = operand_.columns.columns;
    std::size_t first = width, last = 0;
    for (std::size_t d = 0; d < width; ++d) {
      const std::optional<FoundTurn> found = turn_of(head, d);
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
    // Positions must count from 0: the next row has twice the angle.
    if (length_ > 2) {
      const auto width_at = static_cast<std::int64_t>(first);
      double own = 0;
      for (const OnnxForm::Term& term : elements_(head, 2, width_at).terms)
        if (const auto found = element(term);
            found && static_cast<std::size_t>(found->column) == columns[first])
          own = found->factor / weight_at(first);
      if (std::abs(own - rope.amplitude * std::cos(2 * turn[first])) > 1e-3) return false;
    }
    if (std::abs(rope.amplitude - 1) < 1e-5) rope.amplitude = 1;
    operand_.rope = std::move(rope);
    return true;
  }

  /// The factor of row 0 at a place: the weight of a normalisation that is spelt out.
  double weight_at(std::size_t d) const {
    if (operand_.norm && operand_.norm->weight.empty() && d < operand_.norm_weight.size())
      return operand_.norm_weight[d];
    return operand_.columns.factor;
  }

  /// Finds added numbers: a bias that is added after the heads are split.
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
  const OnnxOperandPlace& place_;
  const OnnxSiteElements& elements_;
  std::int64_t length_, width_;
  std::vector<int>& why_;
  OnnxOperand operand_;
};

} // namespace

std::optional<OnnxColumnElement>
onnx_column_element(const OnnxFlow& flow, const OnnxOperand& operand, const OnnxForm::Term& term) {
  int value = flow.resolved(term.value);
  OnnxColumnElement found{.factor = term.factor};
  std::int64_t at = term.at;
  if (operand.norm) {
    if (value != operand.normed) return std::nullopt;
    const OnnxForm before = flow.form(operand.norm->x, at);
    if (before.terms.size() != 1 || before.number != 0 ||
        std::abs(before.terms[0].factor - 1) > 1e-9)
      return std::nullopt;
    found.normed_at = at;
    value = flow.resolved(before.terms[0].value), at = before.terms[0].at;
  }
  // The bias may be added in another value, so the product alone may lack it.
  const OnnxProjection& projection = operand.columns.projection;
  if (value != flow.resolved(projection.out)) return std::nullopt;
  std::tie(found.row, found.column) = projection.place(flow, at);
  return found;
}

std::optional<OnnxOperand> onnx_operand(const OnnxFlow& flow, const OnnxProjections& projections,
                                        const OnnxOperandPlace& place,
                                        std::vector<std::int64_t>& heads, std::vector<int>& why) {
  return OperandReader(flow, projections, place, why).read(heads);
}

Tensor onnx_columns_of(const Tensor& matrix, const std::vector<std::size_t>& columns) {
  bool neighbours = true;
  for (std::size_t i = 1; i < columns.size(); ++i) neighbours &= columns[i] == columns[0] + i;
  if (neighbours && columns.size() == matrix.shape()[1]) return matrix;
  if (neighbours) return columns_when_read(matrix, columns[0], columns.size());
  return at_positions(matrix, 1, columns);
}

Tensor onnx_rows_of(const Tensor& matrix, const std::vector<std::size_t>& rows) {
  return std::ranges::is_sorted(rows) ? matrix : at_positions(matrix, 0, rows);
}

std::optional<double> onnx_constant(const OnnxFlow& flow, const OnnxForm& form) {
  double sum = form.number;
  for (const OnnxForm::Term& term : form.terms) {
    const auto number = flow.is_fixed(term.value) ? flow.number(term.value, term.at) : std::nullopt;
    if (!number) return std::nullopt;
    sum += term.factor * *number;
  }
  return sum;
}

std::vector<std::vector<double>> onnx_constant_rows(const OnnxFlow& flow,
                                                    const OnnxSiteElements& elements,
                                                    const std::vector<std::int64_t>& heads,
                                                    std::int64_t length, std::int64_t width,
                                                    std::int64_t count) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t s = length - count; s < length; ++s) {
    std::vector<double>& row = rows.emplace_back();
    for (const std::int64_t l : heads)
      for (std::int64_t d = 0; d < width; ++d)
        row.push_back(onnx_constant(flow, elements(l, s, d)).value_or(NAN));
  }
  return rows;
}

} // namespace mha::io
