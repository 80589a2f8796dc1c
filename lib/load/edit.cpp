#include <mha/load/edit.hpp>

#include <mha/naming/place_names.hpp>
#include <mha/system/parse.hpp>

namespace mha {

namespace {

constexpr std::string_view form = "PLACE = VALUE expected, with =, +=, -= or *=, such as "
                                  "'layers.3.head_out[0] = zero' or 'weights[2,-1,0] *= 0.5'";

} // namespace

EditValue EditValue::of_number(double number) {
  EditValue value;
  value.text = fmt::format("{}", number), value.number = number;
  return value;
}

EditValue EditValue::zero() {
  EditValue value;
  value.text = "zero";
  return value;
}

EditValue EditValue::of_tensor(Tensor tensor) {
  EditValue value;
  value.text = "tensor " + to_string(tensor.shape());
  value.kind = Kind::tensor, value.tensor = std::move(tensor);
  return value;
}

EditValue EditValue::of_run(std::string run) {
  EditValue value;
  value.text = run, value.kind = Kind::run, value.run.text = std::move(run);
  return value;
}

EditValue EditValue::of_mean() {
  EditValue value;
  value.text = "mean", value.kind = Kind::mean;
  return value;
}

StageEdit StageEdit::of(StagePlace place, PatchOp op, EditValue value) {
  const std::string_view sign = op == PatchOp::add ? "+=" : op == PatchOp::multiply ? "*=" : "=";
  StageEdit edit;
  edit.text = fmt::format("{} {} {}", place.text(), sign, value.text);
  edit.place = std::move(place), edit.op = op, edit.value = std::move(value);
  return edit;
}

namespace {

/// Parses a run, which may have tokens in brackets at the end: "'love'[-1]".
ValueSource parse_run(std::string_view written, const std::string& edit_text) {
  ValueSource run;
  const std::size_t bracket = written.starts_with('@') ? written.npos : find_outside(written, "[");
  if (bracket != written.npos) {
    if (written.back() != ']') fail("{}: {}: ] expected at the end", edit_text, written);
    run.tokens.emplace(trimmed(written.substr(bracket + 1, written.size() - bracket - 2)),
                       edit_text);
    written = trimmed(written.substr(0, bracket));
  }
  run.text = fmt::format("from {}", written);
  return run;
}

/// The position of the '-' between two runs: "'love' - 'hate'".
std::size_t find_less(std::string_view runs) {
  for (std::size_t at = 0; at < runs.size();) {
    const std::size_t minus = find_outside(runs.substr(at), "-");
    if (minus == runs.npos) return runs.npos;
    at += minus;
    const std::string_view rest = trimmed(runs.substr(at + 1));
    for (const std::string_view begin : {"'", "@", "ids ", "from "})
      if (at > 0 && runs[at - 1] == ' ' && rest.starts_with(begin)) return at;
    ++at;
  }
  return runs.npos;
}

EditValue parse_value(std::string_view text, const std::string& edit_text) {
  EditValue value;
  value.text = text;
  if (const std::size_t star = find_outside(text, "*"); star != text.npos)
    if (const auto factor = parse_number<double>(trimmed(text.substr(0, star)))) {
      value.factor = *factor;
      text = trimmed(text.substr(star + 1));
      if (text.empty()) fail("{}: a value expected after {} *", edit_text, *factor);
    }
  if (const auto number = parse_number<double>(text)) {
    value.number = *number;
  } else if (text == "mean") {
    value.kind = EditValue::Kind::mean;
  } else if (text.starts_with("from ")) {
    value.kind = EditValue::Kind::run;
    std::string_view runs = trimmed(text.substr(5));
    if (const std::size_t minus = find_less(runs); minus != runs.npos) {
      std::string_view less = trimmed(runs.substr(minus + 1));
      if (less.starts_with("from ")) less = trimmed(less.substr(5));
      value.less = parse_run(less, edit_text);
      runs = trimmed(runs.substr(0, minus));
    }
    value.run = parse_run(runs, edit_text);
  } else if (text != "zero") {
    value.kind = EditValue::Kind::file, value.file = text;
  }
  return value;
}

} // namespace

StageEdit parse_edit(const std::string& text) {
  StageEdit edit;
  edit.text = text;
  const std::size_t equals = find_outside(text, "=");
  if (equals == std::string::npos || equals == 0) fail("patch '{}': {}", text, form);
  std::string_view left(text.data(), equals);
  const bool takes_off = left.back() == '-';
  if (left.back() == '+' || takes_off) edit.op = PatchOp::add;
  if (left.back() == '*' && !trimmed(left.substr(0, left.size() - 1)).ends_with('.'))
    edit.op = PatchOp::multiply;
  if (edit.op != PatchOp::set) left.remove_suffix(1);
  left = trimmed(left);
  const std::string_view value = trimmed(std::string_view(text).substr(equals + 1));
  if (left.empty() || left.front() == '[' || value.empty()) fail("patch '{}': {}", text, form);
  edit.place = parse_place(left, text, stage_or_tensor_named);
  edit.value = parse_value(value, text);
  if (takes_off) edit.value.factor = -edit.value.factor;
  return edit;
}

namespace {

Message text_of_one(const StageEdit& edit) {
  return message("<patch> '{}'", edit.text);
}

Message text_of_one(const SettingEdit& edit) {
  const SettingInfo* info = find_setting(edit.name);
  if (!info || info->kind != SettingKind::boolean) return message("<{}> {}", edit.name, edit.shown);
  Settings edited;
  info->set(edited, edit.value); // accepts other words for true
  return info->get(edited) == "true" ? message("<{}>", edit.name)
                                     : message("<{} false>", edit.name);
}

Message text_of_one(const TensorEdit& edit) {
  return message("<{}={}{}{}>", edit.name, edit.source, edit.axes.empty() ? "" : "@", edit.axes);
}

} // namespace

Message text_of(const Edit& edit) {
  return std::visit([](const auto& one) { return text_of_one(one); }, edit);
}

TensorEdit* Edits::tensor() {
  for (Edit& edit : list_)
    if (TensorEdit* own = std::get_if<TensorEdit>(&edit)) return own;
  return nullptr;
}

void Edits::apply(Settings& settings) const {
  for (const SettingEdit& edit : of<SettingEdit>()) set(settings, edit.name, edit.value, edit.name);
}

Message Edits::text() const {
  Message all;
  for (const Edit& edit : list_) {
    if (!all.empty()) all += " ";
    all += text_of(edit);
  }
  return all;
}

} // namespace mha
