#include <mha/formats/onnx_layers.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/formats/onnx_columns.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mha::io {

namespace {

using Flow = std::shared_ptr<const OnnxFlow>;

class LayerReader {
public:
  LayerReader(Flow flow, const OnnxProjections& projections, const OnnxAttentionSite& site)
      : flow_(std::move(flow)), projections_(projections), site_(site) {}

  std::variant<OnnxLayer, OnnxRefusal> read() {
    const auto q = operand("queries", site_.q, site_.q_value, site_.T, site_.d_k);
    auto k = operand("keys", site_.k, site_.k_value, site_.S, site_.d_k);
    auto v = operand("values", site_.v, site_.v_value, site_.S, site_.d_v);
    if (!q || !k || !v) return refused();
    if (v->norm || v->rope)
      return refused("its values are normalised or rotated" + computed_by({site_.v_value}));
    if (v->columns.factor != 1)
      return refused(fmt::format("its values are multiplied by {}{}",
                                 number_text(v->columns.factor), computed_by({site_.v_value})));
    if (!have_same_positions(*q, *k))
      return refused("its queries and keys are rotated differently" + before_both());
    layer_.node = flow_->steps[static_cast<std::size_t>(site_.step)].name;
    share_heads(*k, *v);
    set("num_heads", std::to_string(heads_.size()));
    if (k->columns.heads != heads_.size()) set("num_kv_heads", std::to_string(k->columns.heads));
    add("q", q->columns), add("k", k->columns), add("v", v->columns);
    set_scale(*q, *k);
    if (site_.softcap != 0) set("softcap", number_text(site_.softcap));
    if (!site_.sinks.empty())
      layer_.tensors.push_back(
          onnx_entry("sinks", site_.sinks, q->columns.projection.dtype(*flow_)));
    if (!add_head_norms(*q, *k))
      return refused("its queries and keys are normalised differently" + before_both());
    if (q->rope) add_onnx_rope(*q->rope, is_wide(*flow_, *q), layer_);
    if (!add_constant_keys(*k, *v))
      return refused("its keys are followed by constants that are neither a learned key nor zeros" +
                     before_both());
    if (!add_onnx_mask(flow_, site_, heads_, adding_steps(), layer_))
      return refused("what is added to its scores is not the same kind of number for every head, "
                     "query and key" +
                     computed_by({site_.scores_value}));
    add_output();
    add_input_norm(q->columns.projection);
    note_sources(*q, *k, *v);
    note_roundings(*q, *k, *v);
    layer_.path = path_of(q->columns.projection);
    layer_.heads = heads_;
    layer_.inputs = {q->columns.projection.x, k->columns.projection.x, v->columns.projection.x};
    return std::move(layer_);
  }

private:
  OnnxRefusal refused(std::string why) const { return {site_.step, std::move(why)}; }
  OnnxRefusal refused() const { return {site_.step, why_}; }

  /// ": 'a' (Mul), 'b' (Add)": the steps that caused a refusal, or those that compute the values.
  std::string computed_by(std::initializer_list<int> values) const {
    const std::vector<int> steps = onnx_steps_in_the_way(*flow_, projections_, steps_, values);
    return steps.empty() ? "" : ": " + onnx_steps_in_words(*flow_, steps);
  }
  std::string before_both() const { return computed_by({site_.q_value, site_.k_value}); }

  std::string adding_steps() const {
    const std::vector<int> steps = onnx_steps_before(*flow_, projections_, site_.scores_value);
    return steps.empty() ? onnx_step_in_words(*flow_, site_.step)
                         : onnx_steps_in_words(*flow_, steps);
  }
  /// Queries, keys or values; nothing, with the reason in why_, if they do not come from a
  /// projection.
  std::optional<OnnxOperand> operand(const char* name, const OnnxSiteElements& elements, int value,
                                     std::int64_t length, std::int64_t width) {
    if (!why_.empty()) return std::nullopt;
    const OnnxOperandPlace place{elements, site_.groups, length, width};
    auto found = onnx_operand(*flow_, projections_, place, heads_, steps_);
    if (!found)
      why_ = fmt::format("its {} are not a linear map of an input, split into heads{}", name,
                         computed_by({value, site_.q_value, site_.scores_value}));
    return found;
  }

  static bool is_wide(const OnnxFlow& flow, const OnnxOperand& operand) {
    return operand.columns.projection.dtype(flow) == DType::f64;
  }

  /// Whether queries and keys have the same rotation.
  static bool have_same_positions(const OnnxOperand& q, const OnnxOperand& k) {
    if (!q.rope || !k.rope) return !q.rope && !k.rope;
    const auto close = [](double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(a); };
    return q.rope->neighbours == k.rope->neighbours && q.rope->dims == k.rope->dims &&
           q.rope->first == k.rope->first && close(q.rope->amplitude, k.rope->amplitude) &&
           std::ranges::equal(q.rope->frequencies, k.rope->frequencies, close);
  }

  void set(const char* name, std::string value) {
    layer_.settings.emplace_back(name, std::move(value));
  }

  /// Merges equal key/value heads that several query heads share.
  void share_heads(OnnxOperand& k, OnnxOperand& v) const {
    const auto shared_by = [](const OnnxColumns& columns) {
      std::size_t shared = 1;
      const auto same = [&](std::size_t a, std::size_t b) {
        const auto equal = [&](const auto& list) {
          const auto first = list.begin();
          const auto at = [&](std::size_t h) {
            return first + static_cast<std::ptrdiff_t>(h * columns.width);
          };
          return list.empty() || std::equal(at(a), at(a + 1), at(b));
        };
        return equal(columns.columns) && equal(columns.added);
      };
      while (shared < columns.heads && same(0, shared)) ++shared;
      if (columns.heads % shared != 0) return std::size_t{1};
      for (std::size_t h = 0; h < columns.heads; ++h)
        if (!same(h, h / shared * shared)) return std::size_t{1};
      return shared;
    };
    const std::size_t shared = std::gcd(shared_by(k.columns), shared_by(v.columns));
    if (shared < 2) return;
    for (OnnxColumns* columns : {&k.columns, &v.columns}) {
      const auto keep = [&](auto& list) {
        if (list.empty()) return;
        std::remove_reference_t<decltype(list)> kept;
        for (std::size_t h = 0; h < columns->heads; h += shared)
          for (std::size_t d = 0; d < columns->width; ++d)
            kept.push_back(list[h * columns->width + d]);
        list = std::move(kept);
      };
      keep(columns->columns), keep(columns->added);
      columns->heads /= shared;
    }
  }

  /// Adds the weight and bias of queries, keys or values: W_q and b_q for "q".
  void add(const char* letter, const OnnxColumns& of) {
    const OnnxProjection& projection = of.projection;
    Entry weight;
    weight.name = fmt::format("W_{}", letter);
    weight.dtype = projection.dtype(*flow_);
    weight.shape = {projection.in_width, of.columns.size()};
    weight.own_name = source_of(projection.weight);
    weight.read = [flow = flow_, projection, columns = of.columns] {
      return onnx_columns_of(projection.matrix(*flow), columns);
    };
    const DType dtype = weight.dtype;
    layer_.tensors.push_back(std::move(weight));
    if (projection.bias < 0 && of.added.empty()) return;
    Entry bias;
    bias.name = fmt::format("b_{}", letter);
    bias.dtype = projection.bias < 0 ? dtype : onnx_weight_dtype(*flow_, projection.bias);
    if (!of.added.empty() && bias.dtype != DType::f64) bias.dtype = DType::f32;
    bias.shape = {of.columns.size()};
    if (projection.bias >= 0) bias.own_name = source_of(projection.bias);
    bias.read = [flow = flow_, value = projection.bias, columns = of.columns, added = of.added,
                 dtype = bias.dtype] {
      Tensor sum = Tensor::uninitialised(DType::f64, {columns.size()});
      Tensor own;
      if (value >= 0) own = convert(flow->tensor(value), DType::f64);
      for (std::size_t i = 0; i < columns.size(); ++i)
        sum.as_mutable<double>()[i] =
            (own.empty() ? 0 : own.as<double>()[columns[i]]) + (added.empty() ? 0 : added[i]);
      return convert(sum, dtype);
    };
    layer_.tensors.push_back(std::move(bias));
  }

  /// Adds constant keys and values after the input's: a learned one, one of zeros, or both. False
  /// if they are others.
  bool add_constant_keys(const OnnxOperand& k, const OnnxOperand& v) {
    if (k.constants != v.constants) return false;
    if (k.constants == 0) return true;
    std::vector<std::int64_t> heads;
    for (std::size_t h = 0; h < heads_.size(); h += heads_.size() / k.columns.heads)
      heads.push_back(heads_[h]);
    auto keys = onnx_constant_rows(*flow_, site_.k, heads, site_.S, site_.d_k, k.constants);
    auto values = onnx_constant_rows(*flow_, site_.v, heads, site_.S, site_.d_v, v.constants);
    for (const auto* rows : {&keys, &values})
      for (const std::vector<double>& row : *rows)
        if (std::ranges::any_of(row, [](double number) { return std::isnan(number); }))
          return false;
    const auto is_zero = [](const std::vector<double>& row) {
      return std::ranges::all_of(row, [](double number) { return number == 0; });
    };
    if (is_zero(keys.back()) && is_zero(values.back())) {
      set("zero_attn", "true");
      keys.pop_back(), values.pop_back();
    }
    if (keys.empty()) return true;
    if (keys.size() != 1 || k.rope || k.norm || k.columns.factor == 0) return false;
    for (double& number : keys[0]) number /= k.columns.factor;
    const DType dtype = k.columns.projection.dtype(*flow_);
    layer_.tensors.push_back(onnx_entry("k_extra", keys[0], dtype));
    layer_.tensors.push_back(onnx_entry("v_extra", values[0], dtype));
    return true;
  }

  /// The file's name of the constant that a weight is computed from.
  std::string source_of(int value) const {
    for (int i = 0; i < 64 && value >= 0; ++i) {
      value = flow_->resolved(value);
      if (flow_->at(value).constant >= 0) return std::string(flow_->at(value).name);
      const OnnxStep* made = flow_->maker(value);
      if (!made) break;
      const int first = made->input(0);
      value = flow_->is_fixed(first) && flow_->shape(first) &&
                      onnx_count(*flow_->shape(first)) < onnx_count(*flow_->shape(value))
                  ? made->input(1)
                  : first;
    }
    return "";
  }

  void set_scale(const OnnxOperand& q, const OnnxOperand& k) {
    const double usual = 1 / std::sqrt(static_cast<double>(site_.d_k));
    const double scale =
        (site_.default_scale ? usual : site_.scale) * q.columns.factor * k.columns.factor;
    // A float32 graph has 1 / √d_k rounded once or twice.
    const bool wide = q.columns.projection.dtype(*flow_) == DType::f64;
    const bool is_usual = std::abs(scale - usual) <= (wide ? 1e-14 : 4e-7) * usual;
    set("scale", is_usual ? "d_k" : number_text(scale));
  }

  /// Adds the norms of queries and keys; false if they are of different kinds.
  bool add_head_norms(const OnnxOperand& q, const OnnxOperand& k) {
    if (!q.norm && !k.norm) return true;
    const OnnxNorm& one = q.norm ? *q.norm : *k.norm;
    set("qk_norm", one.rms ? "rms" : "layer");
    set("qk_norm_eps", number_text(one.eps));
    for (const auto& [name, operand] : {std::pair("q_norm", &q), std::pair("k_norm", &k)}) {
      if (!operand->norm) continue;
      if (operand->norm->rms != one.rms || operand->norm->eps != one.eps) return false;
      const DType dtype = operand->columns.projection.dtype(*flow_);
      layer_.tensors.push_back(
          onnx_entry(fmt::format("{}.weight", name), operand->norm_weight, dtype));
      if (!operand->norm_bias.empty())
        layer_.tensors.push_back(
            onnx_entry(fmt::format("{}.bias", name), operand->norm_bias, dtype));
    }
    return true;
  }

  void add_output() {
    std::vector<int> others;
    const auto found = onnx_output(*flow_, projections_, site_, heads_, others);
    if (!found) {
      std::string words = "what follows its heads is not a linear map: the layer ends at concat";
      if (!others.empty()) words += ", before " + onnx_steps_in_words(*flow_, others);
      layer_.remarks.emplace_back(std::move(words));
      return;
    }
    const OnnxProjection* to = found->projection;
    roundings_ = found->roundings;
    Entry weight;
    weight.name = "W_o";
    weight.dtype = to->dtype(*flow_);
    weight.shape = {to->in_width, to->out_width};
    weight.own_name = source_of(to->weight);
    weight.read = [flow = flow_, projection = *to, rows = found->rows] {
      return onnx_rows_of(projection.matrix(*flow), rows);
    };
    layer_.tensors.push_back(std::move(weight));
    const int bias = found->bias;
    if (bias == to->bias) layer_.output = to->out;
    if (bias < 0) return;
    Entry entry;
    entry.name = "b_o";
    entry.dtype = onnx_weight_dtype(*flow_, bias);
    entry.shape = {to->out_width};
    entry.own_name = source_of(bias);
    entry.read = [flow = flow_, bias, width = to->out_width] {
      return flow->tensor(bias).reshaped({width});
    };
    layer_.tensors.push_back(std::move(entry));
  }

  /// Adds the normalisation before the layer, if its input is also used by a residual connection.
  void add_input_norm(const OnnxProjection& of) {
    const auto& shape = flow_->shape(of.x);
    if (!shape) return;
    std::vector<double> weight, bias;
    const OnnxForm first = flow_->form(of.x, of.input_at(*flow_, 0));
    if (first.terms.size() != 1) return;
    const auto norm = onnx_norm(*flow_, first.terms[0].value);
    if (!norm || norm->width != of.in_width) return;
    // The input of the normalisation must be the graph's input, or be used by a later Add.
    std::vector<int> sources{flow_->resolved(norm->x)};
    bool goes_on = flow_->at(sources[0]).is_input;
    for (std::size_t i = 0; i < sources.size() && i < 8; ++i)
      for (const int consumer : flow_->at(sources[i]).consumers) {
        const OnnxStep& next = flow_->steps[static_cast<std::size_t>(consumer)];
        goes_on |= next.is("Add");
        if (next.is("Cast") && !next.outputs.empty() && next.outputs[0] >= 0)
          sources.push_back(flow_->resolved(next.outputs[0]));
      }
    if (!goes_on) return;
    weight = norm->weight, bias = norm->bias;
    if (weight.empty())
      for (std::size_t c = 0; c < of.in_width; ++c) {
        const OnnxForm form = flow_->form(of.x, of.input_at(*flow_, static_cast<std::int64_t>(c)));
        if (form.terms.size() != 1) return;
        weight.push_back(form.terms[0].factor), bias.push_back(form.number);
      }
    if (norm->rms || std::ranges::all_of(bias, [](double b) { return b == 0; })) bias.clear();
    const DType dtype = of.dtype(*flow_);
    layer_.tensors.push_back(onnx_entry("norm.weight", weight, dtype));
    if (!bias.empty()) layer_.tensors.push_back(onnx_entry("norm.bias", bias, dtype));
    set("norm", norm->rms ? "rms" : "layer"); // the kind for input_norm = checkpoint
    set("input_norm_eps", number_text(norm->eps));
  }

  /// Whether two projections read the same input.
  bool same_input(const OnnxProjection& a, const OnnxProjection& b) const {
    if (flow_->resolved(a.x) == flow_->resolved(b.x)) return true;
    const OnnxForm x = flow_->form(a.x, a.input_at(*flow_, 0)),
                   y = flow_->form(b.x, b.input_at(*flow_, 0));
    return x.terms.size() == 1 && y.terms.size() == 1 && x.number == y.number &&
           flow_->resolved(x.terms[0].value) == flow_->resolved(y.terms[0].value) &&
           x.terms[0].factor == y.terms[0].factor && x.terms[0].at == y.terms[0].at;
  }

  void note_sources(const OnnxOperand& q, const OnnxOperand& k, const OnnxOperand& v) {
    const OnnxProjection &of_q = q.columns.projection, &of_k = k.columns.projection,
                         &of_v = v.columns.projection;
    if (!same_input(of_k, of_v))
      layer_.remarks.emplace_back(
          message("keys and values are projected from two inputs: give <X_k=FILE> "
                  "and <X_v=FILE> where they are not X"));
    else if (!same_input(of_q, of_k))
      layer_.remarks.emplace_back(message(
          "keys and values are projected from another input than queries: give <X_kv=FILE>"));
  }

  /// "encoder.layer.0.attention.self." from the node's path, or else from the weight's name.
  std::string path_of(const OnnxProjection& of_q) const {
    std::string path;
    if (const std::size_t slash = layer_.node.rfind('/'); slash != std::string::npos && slash > 0)
      path = layer_.node.substr(0, slash);
    if (path.empty()) {
      path = source_of(of_q.weight);
      for (int i = 0; i < 2 && !path.empty(); ++i) {
        const std::size_t dot = path.rfind('.');
        path.resize(dot == std::string::npos ? 0 : dot);
      }
    }
    std::ranges::replace(path, '/', '.');
    while (path.starts_with('.')) path.erase(0, 1);
    return path.empty() ? path : path + ".";
  }

  /// Adds a remark on steps that round to fewer bits than the weights have.
  void note_roundings(const OnnxOperand& q, const OnnxOperand& k, const OnnxOperand& v) {
    std::vector<int> steps;
    const auto bits_of = [](std::int64_t type) { return type == 11 ? 3 : type == 1 ? 2 : 1; };
    const DType dtype = q.columns.projection.dtype(*flow_);
    const int own = dtype == DType::f64 ? 3 : dtype == DType::f32 ? 2 : 1;
    for (const std::vector<int>* list : std::initializer_list<const std::vector<int>*>{
             &q.roundings, &k.roundings, &v.roundings, &site_.roundings, &roundings_})
      for (const int step : *list) {
        const OnnxStep& at = flow_->steps[static_cast<std::size_t>(step)];
        if (!at.is("Cast") || bits_of(at.integer("to", 1)) < own) add_once(steps, step);
      }
    if (!steps.empty())
      layer_.remarks.emplace_back("numbers between its products are rounded in the graph and not "
                                  "here, by " +
                                  onnx_steps_in_words(*flow_, steps));
  }

  Flow flow_;
  const OnnxProjections& projections_;
  const OnnxAttentionSite& site_;
  std::vector<std::int64_t> heads_;
  std::string why_;
  std::vector<int> steps_, roundings_;
  OnnxLayer layer_;
};

} // namespace

std::variant<OnnxLayer, OnnxRefusal> onnx_layer(const std::shared_ptr<const OnnxFlow>& flow,
                                                const OnnxProjections& projections,
                                                const OnnxAttentionSite& site) {
  return LayerReader(flow, projections, site).read();
}

} // namespace mha::io
