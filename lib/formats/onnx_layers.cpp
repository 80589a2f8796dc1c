#include <mha/formats/onnx_layers.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_columns.hpp>
#include <mha/system/one_of.hpp>
#include <mha/tensor/parts.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mha::io {

namespace {

using Flow = std::shared_ptr<const OnnxFlow>;

/// Columns of a matrix, in any order; where they lie side by side nothing is copied yet.
Tensor columns_of(const Tensor& matrix, const std::vector<std::size_t>& columns) {
  bool neighbours = true;
  for (std::size_t i = 1; i < columns.size(); ++i) neighbours &= columns[i] == columns[0] + i;
  if (neighbours && columns.size() == matrix.shape()[1]) return matrix;
  if (neighbours) return columns_when_read(matrix, columns[0], columns.size());
  return at_positions(matrix, 1, columns);
}

/// Rows of a matrix in another order.
Tensor rows_of(const Tensor& matrix, const std::vector<std::size_t>& rows) {
  return std::ranges::is_sorted(rows) ? matrix : at_positions(matrix, 0, rows);
}

class LayerReader {
public:
  LayerReader(Flow flow, const OnnxProjections& projections, const OnnxAttentionSite& site)
      : flow_(std::move(flow)), projections_(projections), site_(site) {}

  std::optional<OnnxLayer> read() {
    const OnnxFlow& flow = *flow_;
    auto q = onnx_operand(flow, projections_, site_.q, site_.groups, site_.T, site_.d_k, heads_);
    if (!q) return std::nullopt;
    auto k = onnx_operand(flow, projections_, site_.k, site_.groups, site_.S, site_.d_k, heads_);
    auto v = onnx_operand(flow, projections_, site_.v, site_.groups, site_.S, site_.d_v, heads_);
    if (!k || !v || v->norm || v->rope) return std::nullopt;
    layer_.node = flow.steps[static_cast<std::size_t>(site_.step)].name;
    share_heads(*k, *v);
    set("num_heads", std::to_string(heads_.size()));
    if (k->columns.heads != heads_.size()) set("num_kv_heads", std::to_string(k->columns.heads));
    add("q", q->columns), add("k", k->columns), add("v", v->columns);
    set_scale(*q, *k);
    if (site_.softcap != 0) set("softcap", number_text(site_.softcap));
    add_head_norms(*q, *k);
    if (q->rope) add_onnx_rope(*q->rope, q->columns.projection.dtype(flow) == DType::f64, layer_);
    if (q->rope.has_value() != k->rope.has_value())
      layer_.remarks.emplace_back("queries or keys alone are turned by their positions, which is "
                                  "not read");
    add_constant_keys(*k);
    add_onnx_mask(flow_, site_, heads_, layer_);
    add_output(*v);
    add_input_norm(q->columns.projection);
    note_sources(*q, *k, *v);
    layer_.path = path_of(q->columns.projection);
    return std::move(layer_);
  }

private:
  void set(const char* name, std::string value) {
    layer_.settings.emplace_back(name, std::move(value));
  }

  /// Key/value heads that several query heads read.
  void share_heads(OnnxOperand& k, OnnxOperand& v) const {
    const auto shared_by = [](const OnnxColumns& columns) {
      std::size_t shared = 1;
      const auto same = [&](std::size_t a, std::size_t b) {
        return std::equal(columns.columns.begin() + static_cast<std::ptrdiff_t>(a * columns.width),
                          columns.columns.begin() +
                              static_cast<std::ptrdiff_t>((a + 1) * columns.width),
                          columns.columns.begin() + static_cast<std::ptrdiff_t>(b * columns.width));
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

  /// W_q and b_q of queries, likewise of keys and values.
  void add(const char* letter, const OnnxColumns& of) {
    const OnnxProjection& projection = of.projection;
    Entry weight;
    weight.name = fmt::format("W_{}", letter);
    weight.dtype = projection.dtype(*flow_);
    weight.shape = {projection.in_width, of.columns.size()};
    weight.own_name = source_of(projection.weight);
    weight.read = [flow = flow_, projection, columns = of.columns] {
      return columns_of(projection.matrix(*flow), columns);
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

  /// Keys and values that stand behind the input's: a learned one, one of zeros, or both.
  void add_constant_keys(const OnnxOperand& k) {
    std::vector<std::int64_t> heads;
    for (std::size_t h = 0; h < heads_.size(); h += heads_.size() / k.columns.heads)
      heads.push_back(heads_[h]);
    auto keys = onnx_constant_rows(*flow_, site_.k, heads, site_.S, site_.d_k);
    auto values = onnx_constant_rows(*flow_, site_.v, heads, site_.S, site_.d_v);
    if (keys.empty() && values.empty()) return;
    const auto is_zero = [](const std::vector<double>& row) {
      return std::ranges::all_of(row, [](double number) { return number == 0; });
    };
    if (keys.size() == values.size() && is_zero(keys.back()) && is_zero(values.back())) {
      set("zero_attn", "true");
      keys.pop_back(), values.pop_back();
    }
    if (keys.empty() && values.empty()) return;
    if (keys.size() != 1 || values.size() != 1 || k.rope || k.norm || k.columns.factor == 0) {
      layer_.remarks.push_back(fmt::format(
          "behind its keys stand {} that are constants, which is not read", keys.size()));
      return;
    }
    for (double& number : keys[0]) number /= k.columns.factor;
    const DType dtype = k.columns.projection.dtype(*flow_);
    layer_.tensors.push_back(onnx_entry("k_extra", keys[0], dtype));
    layer_.tensors.push_back(onnx_entry("v_extra", values[0], dtype));
  }

  /// The constant that a weight is made of, as the file names it.
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
    // The number of a float32 graph is 1 / √d_k, rounded once or twice.
    const bool wide = q.columns.projection.dtype(*flow_) == DType::f64;
    const bool is_usual = std::abs(scale - usual) <= (wide ? 1e-14 : 4e-7) * usual;
    set("scale", is_usual ? "d_k" : number_text(scale));
  }

  void add_head_norms(const OnnxOperand& q, const OnnxOperand& k) {
    if (!q.norm && !k.norm) return;
    const OnnxNorm& one = q.norm ? *q.norm : *k.norm;
    set("qk_norm", one.rms ? "rms" : "layer");
    set("qk_norm_eps", number_text(one.eps));
    for (const auto& [name, operand] : {std::pair("q_norm", &q), std::pair("k_norm", &k)}) {
      if (!operand->norm) continue;
      if (operand->norm->rms != one.rms || operand->norm->eps != one.eps)
        layer_.remarks.emplace_back("queries and keys are normalised differently: the queries' "
                                    "normalisation is taken for both");
      const DType dtype = operand->columns.projection.dtype(*flow_);
      layer_.tensors.push_back(
          onnx_entry(fmt::format("{}.weight", name), operand->norm_weight, dtype));
      if (!operand->norm_bias.empty())
        layer_.tensors.push_back(
            onnx_entry(fmt::format("{}.bias", name), operand->norm_bias, dtype));
    }
  }

  /// From head_out on through what only moves, to the output projection.
  const OnnxProjection* output_projection() const {
    std::vector<int> wave{site_.head_out};
    const auto first = flow_->form(site_.head_out, 0);
    for (std::size_t i = 0; i < wave.size() && i < 64; ++i)
      for (const int consumer : flow_->at(flow_->resolved(wave[i])).consumers) {
        if (const OnnxProjection* found = projections_.of_step(consumer))
          if (flow_->resolved(found->x) == flow_->resolved(wave[i])) return found;
        const OnnxStep& next = flow_->steps[static_cast<std::size_t>(consumer)];
        if (next.outputs.empty() || next.outputs[0] < 0 || !flow_->shape(next.outputs[0])) continue;
        const OnnxForm on = flow_->form(next.outputs[0], 0);
        if (on.terms.size() == 1 && std::abs(on.terms[0].factor - 1) < 1e-9 &&
            flow_->resolved(on.terms[0].value) == flow_->resolved(site_.head_out))
          wave.push_back(next.outputs[0]);
      }
    return nullptr;
  }

  /// Of each row of W_o in the layer's order of heads, the row of the projection's weight.
  std::optional<std::vector<std::size_t>> rows_by_head(const OnnxProjection& to) const {
    const auto d_v = static_cast<std::size_t>(site_.d_v);
    if (to.in_width != heads_.size() * d_v || !flow_->shape(to.x)) return std::nullopt;
    std::vector<std::size_t> rows(to.in_width, to.in_width);
    for (std::size_t c = 0; c < to.in_width; ++c) {
      const OnnxForm form = flow_->form(to.x, to.input_at(*flow_, static_cast<std::int64_t>(c)));
      if (form.terms.size() != 1 || std::abs(form.terms[0].factor - 1) > 1e-9 ||
          flow_->resolved(form.terms[0].value) != flow_->resolved(site_.head_out))
        return std::nullopt;
      const auto [l, t, d] = site_.head_out_place(form.terms[0].at);
      const auto head = std::ranges::find(heads_, l);
      if (head == heads_.end() || t != 0) return std::nullopt;
      rows[static_cast<std::size_t>(head - heads_.begin()) * d_v + static_cast<std::size_t>(d)] = c;
    }
    if (is_one_of(to.in_width, rows)) return std::nullopt;
    return rows;
  }

  void add_output(const OnnxOperand& v) {
    const OnnxProjection* to = output_projection();
    const auto rows = to && to->plain ? rows_by_head(*to) : std::nullopt;
    if (!rows || v.columns.factor != 1) {
      layer_.remarks.push_back(
          v.columns.factor != 1
              ? fmt::format("its values are multiplied by {}, which is not read",
                            number_text(v.columns.factor))
              : std::string("what follows its heads is no linear map: the layer ends at concat"));
      return;
    }
    Entry weight;
    weight.name = "W_o";
    weight.dtype = to->dtype(*flow_);
    weight.shape = {to->in_width, to->out_width};
    weight.own_name = source_of(to->weight);
    weight.read = [flow = flow_, projection = *to, rows = *rows] {
      return rows_of(projection.matrix(*flow), rows);
    };
    layer_.tensors.push_back(std::move(weight));
    int bias = to->bias;
    if (bias < 0) bias = bias_of_norm(*to);
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

  /// ONNX Runtime moves the output's bias into SkipLayerNormalization (input, skip, gamma, beta,
  /// bias), or (input, skip, gamma, bias) without beta.
  int bias_of_norm(const OnnxProjection& to) const {
    for (const int consumer : flow_->at(flow_->resolved(to.product)).consumers) {
      const OnnxStep& step = flow_->steps[static_cast<std::size_t>(consumer)];
      const int bias = step.is("SkipLayerNormalization")             ? step.input(4)
                       : step.is("SkipSimplifiedLayerNormalization") ? step.input(3)
                                                                     : -1;
      if (bias >= 0 && flow_->has_tensor(bias) && flow_->shape(bias) &&
          onnx_count(*flow_->shape(bias)) == static_cast<std::int64_t>(to.out_width))
        return bias;
    }
    return -1;
  }

  /// The normalisation before the layer, where what it normalises goes on beside it.
  void add_input_norm(const OnnxProjection& of) {
    const auto& shape = flow_->shape(of.x);
    if (!shape) return;
    std::vector<double> weight, bias;
    const OnnxForm first = flow_->form(of.x, of.input_at(*flow_, 0));
    if (first.terms.size() != 1) return;
    const auto norm = onnx_norm(*flow_, first.terms[0].value);
    if (!norm || norm->width != of.in_width) return;
    // Where nothing comes before the normalisation, or what it normalises is added to later.
    std::vector<int> sources{flow_->resolved(norm->x)};
    bool goes_on = flow_->at(sources[0]).is_input;
    for (std::size_t i = 0; i < sources.size() && i < 8; ++i)
      for (const int consumer : flow_->at(sources[i]).consumers) {
        const OnnxStep& next = flow_->steps[static_cast<std::size_t>(consumer)];
        goes_on |= next.is("Add") || next.is("SkipLayerNormalization") ||
                   next.is("SkipSimplifiedLayerNormalization");
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
    set("norm", norm->rms ? "rms" : "layer"); // what input_norm = checkpoint is
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

  /// "encoder.layer.0.attention.self." of the node's path, else of the weight's name.
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

  Flow flow_;
  const OnnxProjections& projections_;
  const OnnxAttentionSite& site_;
  std::vector<std::int64_t> heads_;
  OnnxLayer layer_;
};

} // namespace

std::optional<OnnxLayer> onnx_layer(const std::shared_ptr<const OnnxFlow>& flow,
                                    const OnnxProjections& projections,
                                    const OnnxAttentionSite& site) {
  return LayerReader(flow, projections, site).read();
}

} // namespace mha::io
