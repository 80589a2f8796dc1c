// Checks an operand's elements against its columns, rotation and rows.

#include <mha/formats/onnx_columns.hpp>
#include <mha/formats/onnx_proof.hpp>
#include <mha/system/one_of.hpp>

#include <cmath>

namespace mha::io {

namespace {

class OperandProof {
public:
  OperandProof(const OnnxFlow& flow, const OnnxProjections& projections,
               const OnnxOperandPlace& place, const OnnxOperand& operand,
               const std::vector<std::int64_t>& heads, std::vector<int>& why)
      : flow_(flow),
        projections_(projections),
        place_(place),
        operand_(operand),
        heads_(heads),
        why_(why),
        tokens_(place.length - operand.constants) {}

  bool holds() {
    if (!find_texts() || !find_rows()) return false;
    const OnnxDims lengths{static_cast<std::int64_t>(texts_.size()),
                           static_cast<std::int64_t>(heads_.size()), tokens_, place_.width};
    const auto as_described = [&](const OnnxPlaces& at) {
      return holds_at(at[0], at[1], at[2], at[3]);
    };
    if (!onnx_holds_at_places(lengths, as_described)) return false;
    const OnnxPassedSteps passed = flow_.take_passed_steps();
    const bool closely = !passed.tables.empty() || !passed.sums.empty();
    const bool found = !closely || onnx_holds_at_more_places(lengths, as_described);
    for (const int step : passed.roundings) add_once(roundings_, step);
    return found;
  }
  const std::vector<int>& roundings() const { return roundings_; }

private:
  /// Finds the l of each text's heads by the row of their first token.
  bool find_texts() {
    std::vector<std::int64_t> rows;
    for (std::int64_t l = 0; l < place_.groups; ++l) {
      const OnnxForm form = place_.elements(l, 0, 0);
      const auto found = form.terms.size() == 1
                             ? onnx_column_element(flow_, operand_, form.terms[0])
                             : std::nullopt;
      if (!found) return note(form);
      const auto text =
          static_cast<std::size_t>(std::ranges::find(rows, found->row) - rows.begin());
      if (text == rows.size()) rows.push_back(found->row), texts_.emplace_back();
      texts_[text].push_back(l);
    }
    text_stride_ = rows.size() > 1 ? rows[1] : 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (texts_[i].size() != heads_.size() ||
          rows[i] != static_cast<std::int64_t>(i) * text_stride_)
        return false;
    return texts_.front() == heads_;
  }

  /// Checks that each token of each text has its own row of the projection: all tokens of a text in
  /// adjacent rows, or the first tokens of all texts first.
  bool find_rows() {
    const auto texts = static_cast<std::int64_t>(texts_.size());
    if (operand_.columns.projection.rows(flow_) != texts * tokens_) return false;
    stride_ = texts > 1 && text_stride_ == 1 ? texts : 1;
    return texts == 1 || text_stride_ == (stride_ == 1 ? tokens_ : 1);
  }

  bool note(const OnnxForm& form) {
    for (const OnnxForm::Term& term : form.terms)
      if (const OnnxStep* made = flow_.maker(term.value);
          made && !projections_.of(flow_.resolved(term.value)) &&
          flow_.resolved(term.value) != operand_.normed)
        add_once(why_, static_cast<int>(made - flow_.steps.data()));
    return false;
  }

  /// The rotation at a place: the cosine of its angle, the signed sine, and its partner.
  struct ExpectedTurn {
    double own = 1, other = 0;
    std::size_t partner;
  };
  ExpectedTurn turn_of(std::int64_t t, std::size_t d) const {
    ExpectedTurn turn{.partner = d};
    const std::optional<OnnxRope>& rope = operand_.rope;
    if (!rope || d < rope->first || d >= rope->first + rope->dims) return turn;
    const std::size_t place = d - rope->first, half = rope->dims / 2;
    const std::size_t pair = rope->neighbours ? place / 2 : place % half;
    const bool leads = rope->neighbours ? place % 2 == 0 : place < half;
    const double angle = static_cast<double>(t) * rope->frequencies[pair];
    turn.own = rope->amplitude * std::cos(angle);
    turn.other = (leads ? -1 : 1) * rope->amplitude * std::sin(angle);
    turn.partner = leads ? d + (rope->neighbours ? 1 : half) : d - (rope->neighbours ? 1 : half);
    return turn;
  }

  double weight_at(std::size_t d) const {
    if (operand_.norm && operand_.norm->weight.empty()) return operand_.norm_weight[d];
    return operand_.columns.factor;
  }
  double added_at(std::int64_t head, std::size_t d) const {
    if (operand_.norm && operand_.norm->weight.empty())
      return operand_.norm_bias.empty() ? 0 : operand_.norm_bias[d];
    if (operand_.columns.added.empty()) return 0;
    const auto place = static_cast<std::size_t>(head * place_.width) + d;
    return operand_.columns.added[place] * operand_.columns.factor;
  }

  bool holds_at(std::int64_t text, std::int64_t head, std::int64_t t, std::int64_t at) {
    const auto d = static_cast<std::size_t>(at);
    const std::int64_t l = texts_[static_cast<std::size_t>(text)][static_cast<std::size_t>(head)];
    const OnnxForm form = place_.elements(l, t, at);
    const ExpectedTurn turn = turn_of(t, d);
    const std::int64_t row = text * text_stride_ + t * stride_;
    const std::size_t* columns =
        &operand_.columns.columns[static_cast<std::size_t>(head) * operand_.columns.width];
    double own = 0, other = 0;
    for (const OnnxForm::Term& term : form.terms) {
      const auto found = onnx_column_element(flow_, operand_, term);
      if (!found || found->row != row || !is_in_place(*found, columns, head)) return note(form);
      const auto column = static_cast<std::size_t>(found->column);
      if (column == columns[d])
        own += found->factor;
      else if (column == columns[turn.partner])
        other += found->factor;
      else
        return note(form);
    }
    const double of_own = turn.own * added_at(head, d),
                 of_other = turn.other * added_at(head, turn.partner), added = of_own + of_other,
                 size_of_added = std::abs(of_own) + std::abs(of_other);
    // Angles were computed from the second row, and tables may be in float32.
    const double rounding = 1e-5 + 3e-7 * static_cast<double>(t);
    const auto close = [&](double found, double wanted, double size) {
      return std::abs(found - wanted) <= rounding * size;
    };
    const double size = std::abs(weight_at(d)) + std::abs(weight_at(turn.partner));
    return (close(own, turn.own * weight_at(d), size) &&
            close(other, turn.other * weight_at(turn.partner), size) &&
            close(form.number, added, size_of_added)) ||
           note(form);
  }

  /// Whether a normalised element has the position of its weight: among the elements of its head,
  /// or of all heads.
  bool is_in_place(const OnnxColumnElement& one, const std::size_t* columns,
                   std::int64_t head) const {
    if (!operand_.norm) return true;
    const auto width = static_cast<std::int64_t>(operand_.norm->width);
    std::int64_t place = one.normed_at % width;
    if (width != place_.width) place -= head * place_.width;
    return place >= 0 && place < place_.width &&
           columns[place] == static_cast<std::size_t>(one.column);
  }

  const OnnxFlow& flow_;
  const OnnxProjections& projections_;
  const OnnxOperandPlace& place_;
  const OnnxOperand& operand_;
  const std::vector<std::int64_t>& heads_;
  std::vector<int>& why_;
  std::vector<int> roundings_;
  std::int64_t tokens_, stride_ = 1, text_stride_ = 0;
  std::vector<std::vector<std::int64_t>> texts_;
};

} // namespace

bool onnx_operand_holds(const OnnxFlow& flow, const OnnxProjections& projections,
                        const OnnxOperandPlace& place, OnnxOperand& operand,
                        const std::vector<std::int64_t>& heads, std::vector<int>& why) {
  OperandProof proof(flow, projections, place, operand, heads, why);
  const bool holds = proof.holds();
  operand.roundings = proof.roundings();
  return holds;
}

} // namespace mha::io
