// Inputs and outputs read or written with tokens as columns, batch items taken for tokens.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

namespace mha {

namespace {

/// The memory of each batch item, (rows, width), read as (width, rows) and transposed.
Tensor read_as_columns(const Tensor& X) {
  const Shape& s = X.shape(); // B, rows, width
  return transposed(X.reshaped({s[0], s[2], s[1]}));
}

/// The output written as (width, rows) and read as (rows, width).
Tensor written_as_columns(const Tensor& output) {
  return transposed(output).reshaped(output.shape());
}

void read_inputs(Layer& layer) {
  for (Tensor Layer::*X : {&Layer::X, &Layer::X_k, &Layer::X_v})
    if (!(layer.*X).empty()) layer.*X = read_as_columns(layer.*X);
}

/// Lets each token attend to the tokens at its place in the other batch items.
void attend_over_items(Layer& layer) {
  const Stage inputs[]{Stage::q, Stage::k, Stage::v};
  const std::vector<Tensor> values = values_of(layer, {std::begin(inputs), std::end(inputs)});
  Layer turned = layer;
  for (const StageInfo& info : stages()) clear_given(turned, {info.stage});
  std::swap(turned.dims.B, turned.dims.T);
  turned.dims.S = turned.dims.S_all = turned.dims.T;
  if (!turned.X.empty()) turned.X = permuted(turned.X, {1, 0, 2});
  turned.X_k = turned.X_v = {};
  for (std::size_t i = 0; i < values.size(); ++i)
    give(turned, inputs[i], permuted(values[i], {1, 0, 2}));
  give(layer, Stage::head_out, permuted(value_of(turned, Stage::head_out), {1, 0, 2}));
}

/// Whether every key is of a token of the layer, and nothing but the places of tokens decides which
/// are seen.
bool may_exchange_items(const Layer& layer) {
  return layer.dims.T == layer.dims.S && layer.dims.S == layer.dims.S_all && layer.dims.T > 1 &&
         layer.dims.d_k > 0 && layer.dims.d_v > 0 && layer.added.empty() && layer.blocked.empty() &&
         layer.bias.empty() && layer.kv_lengths.empty() && layer.lengths.empty() &&
         layer.positions.empty() && layer.W_c_kv.empty() && !layer.block;
}

std::vector<Change> layout_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const Dims& dims = layer.dims;
  const Stage last = layer.settings.residual ? Stage::residual : Stage::output;
  ChangeList list;
  const auto add = [&](StageSet touches, std::string did, std::string cure, bool input,
                       bool output) {
    Change& change = list.add("layout.columns", touches, std::move(did), std::move(cure),
                              [input](Layer& edited) {
                                if (input) read_inputs(edited);
                              });
    if (output) {
      change.edit_rows = [last](Layer& edited) {
        give(edited, last, written_as_columns(value_of(edited, last)));
      };
      change.undo = read_as_columns;
    }
  };
  StageSet inputs = StageSet{Stage::x, Stage::residual};
  if (!layer.X_k.empty()) inputs |= StageSet{Stage::k, Stage::v};
  const bool turns_input = !layer.X.empty() && dims.T > 1 && dims.d_model > 1;
  const bool turns_output = dims.T > 1 && dims.d_out > 1;
  if (turns_input)
    add(inputs, "uses the columns of X as tokens",
        "read X with a token in each row: (T, d_model), row by row", true, false);
  if (turns_output)
    add(StageSet{last}, "writes the output with tokens as columns",
        "write the output with a token in each row: (T, d_model), row by row", false, true);
  if (turns_input && turns_output)
    add(inputs | StageSet{last}, "reads X and writes the output with tokens as columns",
        "keep a token in each row, of X and of the output", true, true);
  if (may_exchange_items(layer))
    list.add("layout.batch", StageSet{Stage::head_out},
             dims.B > 1
                 ? "takes batch items for tokens: each token attends to those at its place in "
                   "the other items"
                 : "takes tokens for batch items: each token attends to itself alone",
             "give (T, B, d_model), or (B, T, d_model) with batch_first=True (PyTorch)",
             attend_over_items)
        .rare = true;
  return list.take();
}

} // namespace

const Theme layout_theme{"layout", "layout.columns layout.batch", layout_changes};

} // namespace mha
