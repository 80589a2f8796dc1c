#include <mha/formats/onnx_flow.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_shapes.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mha::io {

namespace {

/// The most nodes of an unfolded graph. Functions may call one another, so a short file could
/// unfold to a very long graph; real models have some tens of bytes for each unfolded node.
std::size_t most_onnx_nodes(const Bytes& bytes) {
  return 10'000 + bytes.size / 8;
}
constexpr int most_onnx_calls = 16;
/// The most numbers of a fixed value that are cached, and the most for which memory is allocated at
/// once: of a buffer for a long text only a corner is read.
constexpr std::int64_t most_known = 1 << 16, most_at_once = 1 << 10;

/// ONNX Runtime's Skip(Simplified)LayerNormalization as a function of standard steps. The first
/// output is the norm of the inputs' sum, the fourth the sum itself.
class SkipNorms {
public:
  /// The function for a node; nullptr for other operators.
  static const OnnxFunction* called_by(const OnnxNode& node) {
    static const std::array<OnnxFunction, 4> all{made(false, false), made(false, true),
                                                 made(true, false), made(true, true)};
    const bool rms = node.op == "SkipSimplifiedLayerNormalization";
    if (node.domain != "com.microsoft" || (!rms && node.op != "SkipLayerNormalization"))
      return nullptr;
    const std::size_t place = rms ? 3 : 4;
    const bool biased = node.inputs.size() > place && !node.inputs[place].empty();
    return &all[(rms ? 2 : 0) + (biased ? 1 : 0)];
  }

private:
  static OnnxNode add(std::string_view a, std::string_view b, std::string_view sum) {
    return {"Add", "", sum == "sum" ? "Add" : "AddBias", {a, b}, {sum}, {}};
  }
  static OnnxFunction made(bool rms, bool biased) {
    OnnxFunction skip;
    skip.inputs = {"input", "skip", "gamma"};
    if (!rms) skip.inputs.push_back("beta");
    skip.inputs.push_back("bias");
    skip.outputs = {"output", "mean", "inverse_deviation", "sum"};
    if (biased) skip.nodes.push_back(add("input", "bias", "biased"));
    skip.nodes.push_back(add(biased ? "biased" : "input", "skip", "sum"));
    OnnxAttribute epsilon, usual;
    epsilon.name = epsilon.reference = usual.name = "epsilon";
    usual.number = 1e-12F;
    skip.defaults = {usual};
    skip.nodes.push_back({rms ? "SimplifiedLayerNormalization" : "LayerNormalization",
                          "",
                          "Norm",
                          {"sum", "gamma"},
                          {"output"},
                          {epsilon}});
    if (!rms) skip.nodes.back().inputs.push_back("beta");
    return skip;
  }
};

} // namespace

/// Unfolds a model's graph into a list of steps and values.
class OnnxUnfolder {
public:
  OnnxUnfolder(const OnnxModel& model, OnnxStore& store, OnnxFlow& flow)
      : store_(store), flow_(flow) {
    for (const OnnxFunction& function : model.functions)
      functions_[{function.domain, function.name}] = &function;
    Scope top;
    unfold(model.graph, top, "");
  }

private:
  /// The names of a graph, and the enclosing graph.
  struct Scope {
    const Scope* outer = nullptr;
    std::unordered_map<std::string_view, int> names = {};
    std::shared_ptr<const std::map<std::string_view, const OnnxAttribute*>> call = nullptr;
    int calls = 0;
  };

  OnnxValue& value(int id) { return flow_.values[static_cast<std::size_t>(id)]; }

  int add(std::string_view name) {
    OnnxValue added;
    added.name = name;
    flow_.values.push_back(std::move(added));
    return static_cast<int>(flow_.values.size()) - 1;
  }

  int find(Scope& scope, std::string_view name) {
    if (name.empty()) return -1;
    for (const Scope* at = &scope; at; at = at->outer)
      if (const auto found = at->names.find(name); found != at->names.end()) return found->second;
    return scope.names[name] = add(name);
  }

  /// The value that a step or a constant of this graph defines.
  int define(Scope& scope, std::string_view name) {
    if (name.empty()) return -1;
    const auto [at, added] = scope.names.emplace(name, -1);
    if (added) at->second = add(name);
    return at->second;
  }

  void add_constant(int id, const OnnxTensor& tensor, std::string_view name, bool of_node) {
    std::optional<OnnxArray> array = store_.array(tensor, std::string(name));
    if (!array) {
      flow_.set_aside.push_back(fmt::format("{} ({})", shown(name), onnx_type_name(tensor.type)));
      return;
    }
    if (value(id).constant >= 0)
      fail("{}: tensor '{}' appears twice", shown(store_.bytes().name), shown(name));
    value(id).constant = static_cast<int>(flow_.constants.size());
    value(id).fixed = true;
    flow_.constants.push_back({std::move(*array), id, of_node});
  }

  void unfold(const OnnxGraph& graph, Scope& scope, const std::string& path) {
    for (const OnnxTensor& tensor : graph.initializers)
      if (!tensor.name.empty())
        add_constant(define(scope, tensor.name), tensor, tensor.name, false);
    for (const std::string_view name : graph.sparse)
      flow_.set_aside.push_back(fmt::format("{} (sparse)", shown(name)));
    for (const OnnxValueInfo& info : graph.inputs)
      if (const int id = define(scope, info.name); id >= 0) {
        value(id).info = &info;
        value(id).is_input = scope.outer == nullptr && value(id).constant < 0;
      }
    for (const auto* list : {&graph.values, &graph.outputs})
      for (const OnnxValueInfo& info : *list) infos_.emplace(info.name, &info);
    for (const OnnxNode& node : graph.nodes) unfold(node, scope, path);
  }

  void unfold(const OnnxNode& node, Scope& scope, const std::string& path) {
    if (++nodes_ > most_onnx_nodes(store_.bytes()))
      fail(
          "{}: more than {} nodes, with those of functions: more than a file of this size can mean",
          shown(store_.bytes().name), nodes_ - 1);
    OnnxStep step;
    step.node = &node, step.rule = &onnx_rule(node.op);
    step.call = scope.call;
    step.name = path + std::string(node.name);
    for (const std::string_view name : node.inputs) step.inputs.push_back(find(scope, name));
    if (node.op == "Constant" && node.domain.empty()) return add_constant_node(step, scope);
    const auto function = functions_.find({node.domain, node.op});
    if (function != functions_.end() && scope.calls < most_onnx_calls)
      return call(*function->second, step, scope);
    if (const OnnxFunction* skip = SkipNorms::called_by(node); skip && step.inputs.size() >= 3) {
      // The bias is added to the product, which may be either operand of the sum.
      if (is_product(step.inputs[1])) std::swap(step.inputs[0], step.inputs[1]);
      return call(*skip, step, scope);
    }
    if (node.op == "If" && node.domain.empty()) {
      step.then_outputs = body(node, "then_branch", {}, scope, step.name);
      step.else_outputs = body(node, "else_branch", {}, scope, step.name);
    }
    std::vector<int> carried;
    if (node.op == "Loop" && node.domain.empty()) {
      std::vector<int> given{-1, -1};
      for (std::size_t i = 2; i < step.inputs.size(); ++i) given.push_back(step.inputs[i]);
      carried = body(node, "body", given, scope, step.name);
      if (!carried.empty()) carried.erase(carried.begin()); // whether to go on
      carried.resize(std::min(carried.size(), given.size() - 2));
    }
    if (node.op == "Scan" && node.domain.empty()) carried = scan(node, step, scope);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const int id = define(scope, node.outputs[i]);
      step.outputs.push_back(id);
      if (id < 0 || value(id).step >= 0 || value(id).constant >= 0) continue;
      value(id).step = static_cast<int>(flow_.steps.size());
      value(id).output = static_cast<int>(i);
      if (i < carried.size() && carried[i] < id) value(id).alias = carried[i];
      if (const auto info = infos_.find(node.outputs[i]); info != infos_.end())
        value(id).info = info->second;
    }
    flow_.steps.push_back(std::move(step));
  }

  bool is_product(int id) {
    if (id < 0 || value(id).step < 0) return false;
    const OnnxStep& made = flow_.steps[static_cast<std::size_t>(value(id).step)];
    return made.is("MatMul") || made.is("Gemm");
  }

  /// Unfolds a graph inside of a node, with `given` as its inputs, and returns its outputs.
  std::vector<int> body(const OnnxNode& node, std::string_view attribute,
                        const std::vector<int>& given, Scope& scope, const std::string& path) {
    const OnnxAttribute* found = node.find(attribute);
    if (!found || !found->graph) return {};
    const OnnxGraph& graph = *found->graph;
    Scope inner{&scope, {}, scope.call, scope.calls};
    for (std::size_t i = 0; i < graph.inputs.size() && i < given.size(); ++i)
      if (const int id = define(inner, graph.inputs[i].name); id >= 0 && given[i] >= 0)
        value(id).alias = given[i];
    unfold(graph, inner, path.empty() ? "" : path + "/");
    std::vector<int> outputs;
    for (const OnnxValueInfo& info : graph.outputs) outputs.push_back(find(inner, info.name));
    return outputs;
  }

  /// Unfolds a Scan. Its states come first among its inputs and are carried; scanned inputs lose an
  /// axis.
  std::vector<int> scan(const OnnxNode& node, const OnnxStep& step, Scope& scope) {
    const std::int64_t scanned = node.integer("num_scan_inputs", 0);
    const auto inputs = static_cast<std::int64_t>(step.inputs.size());
    const std::int64_t states = std::clamp<std::int64_t>(inputs - scanned, 0, inputs);
    const std::vector<int> given(step.inputs.begin(), step.inputs.begin() + states);
    std::vector<int> carried = body(node, "body", given, scope, step.name);
    carried.resize(std::min(carried.size(), given.size()));
    return carried;
  }

  void add_constant_node(const OnnxStep& step, Scope& scope) {
    const OnnxNode& node = *step.node;
    if (node.outputs.empty() || node.outputs[0].empty()) return;
    const int id = define(scope, node.outputs[0]);
    // A function's body may be unfolded several times, with constants of its own each time.
    const std::string_view name = node.outputs[0];
    const OnnxAttribute* tensor = step.find("value");
    if (tensor && tensor->tensor) return add_constant(id, *tensor->tensor, name, true);
    if (tensor && tensor->sparse)
      flow_.set_aside.push_back(fmt::format("{} (sparse)", shown(name)));
    if (step.find("sparse_value"))
      flow_.set_aside.push_back(fmt::format("{} (sparse)", shown(name)));
    for (const char* attribute : {"value_float", "value_floats", "value_int", "value_ints"}) {
      const OnnxAttribute* found = step.find(attribute);
      if (!found) continue;
      const bool list = std::string_view(attribute).ends_with('s');
      const bool whole = std::string_view(attribute).starts_with("value_int");
      std::vector<float> numbers = found->numbers;
      std::vector<std::int64_t> integers = found->integers;
      if (!list && found->number) numbers = {*found->number};
      if (!list && found->integer) integers = {*found->integer};
      const std::size_t count = whole ? integers.size() : numbers.size();
      Tensor made =
          Tensor::uninitialised(whole ? DType::i64 : DType::f32, list ? Shape{count} : Shape{});
      if (made.count() != count) return;
      if (whole)
        std::ranges::copy(integers, made.as_mutable<std::int64_t>().begin());
      else
        std::ranges::copy(numbers, made.as_mutable<float>().begin());
      value(id).constant = static_cast<int>(flow_.constants.size());
      value(id).fixed = true;
      flow_.constants.push_back(
          {{std::string(name), made.dtype(), made.shape(), [made] { return made; }}, id, true});
      return;
    }
  }

  void call(const OnnxFunction& function, const OnnxStep& step, Scope& scope) {
    Scope inner; // a function sees only its own names
    inner.calls = scope.calls + 1;
    auto attributes = std::make_shared<std::map<std::string_view, const OnnxAttribute*>>();
    for (const OnnxAttribute& one : function.defaults) (*attributes)[one.name] = &one;
    for (const OnnxAttribute& one : step.node->attributes)
      (*attributes)[one.name] = step.find(one.name);
    inner.call = attributes;
    for (std::size_t i = 0; i < function.inputs.size(); ++i)
      inner.names[function.inputs[i]] = step.input(i);
    // Formal outputs are the outputs of the call.
    for (std::size_t i = 0; i < function.outputs.size() && i < step.node->outputs.size(); ++i)
      if (const int id = define(scope, step.node->outputs[i]); id >= 0)
        inner.names.emplace(function.outputs[i], id);
    const std::string path = step.name.empty() ? "" : step.name + "/";
    for (const OnnxNode& node : function.nodes) unfold(node, inner, path);
  }

  OnnxStore& store_;
  OnnxFlow& flow_;
  std::size_t nodes_ = 0;
  std::map<std::pair<std::string_view, std::string_view>, const OnnxFunction*> functions_;
  std::unordered_map<std::string_view, const OnnxValueInfo*> infos_;
};

const OnnxAttribute* OnnxStep::find(std::string_view attribute) const {
  const OnnxAttribute* found = node->find(attribute);
  if (!found || found->reference.empty()) return found;
  if (!call) return nullptr;
  const auto given = call->find(found->reference);
  return given == call->end() ? nullptr : given->second;
}

std::int64_t OnnxStep::integer(std::string_view attribute, std::int64_t otherwise) const {
  const OnnxAttribute* found = find(attribute);
  return found && found->integer ? *found->integer : otherwise;
}

std::optional<double> OnnxStep::number(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  if (!found || !found->number) return std::nullopt;
  return static_cast<double>(*found->number);
}

std::string_view OnnxStep::text(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  return found && found->text ? *found->text : std::string_view();
}

const OnnxDims& OnnxStep::integers(std::string_view attribute) const {
  static const OnnxDims none;
  const OnnxAttribute* found = find(attribute);
  return found ? found->integers : none;
}

OnnxFlow::OnnxFlow(std::shared_ptr<const OnnxModel> model, OnnxStore& store,
                   std::int64_t input_length, std::int64_t input_texts, bool hides_last)
    : length(input_length),
      texts(input_texts),
      padded(hides_last),
      model_(std::move(model)),
      bytes_(store.shared_bytes()),
      where_(shown(store.bytes().name)) {
  // The limit is lower for small files, whose graphs are short.
  visits_ = std::min<std::int64_t>(
      visits_,
      2'000'000 + 200 * static_cast<std::int64_t>(std::min<std::size_t>(bytes_->size, 1 << 20)));
  for (const auto& [domain, version] : model_->opsets)
    if (domain.empty() || domain == "ai.onnx") opset = version;
  OnnxUnfolder(*model_, store, *this);
  read_.resize(constants.size());
  stops.resize(values.size(), false), known_.resize(values.size()),
      known_of_large_.resize(values.size());
  infer_onnx_shapes(*this);
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const int input : steps[i].inputs)
      if (input >= 0)
        values[static_cast<std::size_t>(resolved(input))].consumers.push_back(static_cast<int>(i));
}

void OnnxFlow::add_passed_steps(const OnnxPassedSteps& passed) const {
  for (const int step : passed.tables) add_once(passed_.tables, step);
  for (const int step : passed.sums) add_once(passed_.sums, step);
  for (const int step : passed.roundings) add_once(passed_.roundings, step);
}

double* OnnxFlow::known(int value, std::int64_t flat) const {
  const auto place = static_cast<std::size_t>(value);
  if (!at(value).fixed || !at(value).shape || place >= known_.size()) return nullptr;
  const std::int64_t count = onnx_count(*at(value).shape);
  if (count > most_known || flat >= count) return nullptr;
  if (count > most_at_once) return &known_of_large_[place].try_emplace(flat, NAN).first->second;
  std::vector<double>& numbers = known_[place];
  if (numbers.empty()) numbers.assign(static_cast<std::size_t>(count), NAN);
  return &numbers[static_cast<std::size_t>(flat)];
}

std::int64_t onnx_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape)
    if (length < 0 || __builtin_mul_overflow(count, length, &count)) return -1;
  return count;
}

} // namespace mha::io
