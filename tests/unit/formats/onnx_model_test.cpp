// Whole models by the paths of a graph's nodes: they compute the graph's logits, or are refused.

#include "support/files.hpp"
#include "support/onnx_forms.hpp"
#include "support/onnx_models.hpp"
#include "support/run.hpp"
#include "support/share.hpp"

#include <mha/mha.hpp>
#include <mha/model.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>

using namespace mha;
using namespace mha::test;
using onnx::Dims;
using onnx::Graph;
using onnx::ModelForm;
using onnx::Value;

namespace {

const std::vector<int> some_ids{3, 1, 4, 1, 5, 9, 2, 6};

/// The logits that the library computes of a graph, or why it does not.
struct ModelOutcome {
  std::string error;
  std::vector<double> logits;
};

ModelOutcome computed(const ModelForm& form, bool with_config, const std::vector<int>& ids) {
  const Folder folder;
  std::ofstream(folder.path("model.onnx"), std::ios::binary) << form.graph.bytes();
  if (with_config) std::ofstream(folder.path("config.json")) << form.config;
  ModelOutcome outcome;
  try {
    const Model model(folder.path("model.onnx"), {.dtype = DType::f64});
    const Tensor logits =
        model.run(model.tokens(ids), {.keep = {"logits"}, .threads = 1}).tensor("logits");
    for (std::size_t i = 0; i < logits.count(); ++i) outcome.logits.push_back(value_at(logits, i));
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

/// "" where these are the graph's numbers, or nothing was computed.
std::string judged(const ModelForm& form, const ModelOutcome& found) {
  if (!found.error.empty()) return "";
  const std::optional<Value> wanted = onnx::logits_of(form, some_ids);
  if (!wanted || wanted->count() != found.logits.size()) return "computed, and the graph is not";
  double size = 0, difference = 0;
  for (std::size_t i = 0; i < found.logits.size(); ++i) {
    size = std::max(size, std::abs(wanted->data[i]));
    difference = std::max(difference, std::abs(wanted->data[i] - found.logits[i]));
  }
  return difference <= 2e-6 * size ? "" : "differs by " + std::to_string(difference / size);
}

/// An operator that is put on an edge.
struct Put {
  const char* name;
  std::string (*make)(Graph& g, const std::string& x, const Dims& shape);
};
const Put puts[]{
    {"twice",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Mul", {x, g.number(1.25)});
     }},
    {"more",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Add", {x, g.number(0.25)});
     }},
    {"columns",
     [](Graph& g, const std::string& x, const Dims& shape) {
       return g.add("Mul", {x, g.constant(onnx::random_value({shape.back()}, 5))});
     }},
    {"tanh", [](Graph& g, const std::string& x, const Dims&) { return g.add("Tanh", {x}); }},
    {"itself",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Add", {x, x});
     }},
    {"tokens turned",
     [](Graph& g, const std::string& x, const Dims& shape) {
       const std::int64_t axis = static_cast<std::int64_t>(shape.size()) - 2;
       return g.add("Slice", {x, g.integers({-1}), g.integers({-1000}), g.integers({axis}),
                              g.integers({-1})});
     }},
    {"columns turned",
     [](Graph& g, const std::string& x, const Dims& shape) {
       const std::int64_t axis = static_cast<std::int64_t>(shape.size()) - 1;
       return g.add("Slice", {x, g.integers({-1}), g.integers({-1000}), g.integers({axis}),
                              g.integers({-1})});
     }},
    {"clip",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Clip", {x, g.number(-0.5), g.number(0.5)});
     }},
    {"norm",
     [](Graph& g, const std::string& x, const Dims& shape) {
       return g.add("LayerNormalization", {x, g.constant(onnx::random_value({shape.back()}, 6))});
     }},
    {"whole numbers",
     [](Graph& g, const std::string& x, const Dims&) {
       const std::string whole = g.add("Cast", {x}, {{"to", std::int64_t{7}}});
       return g.add("Cast", {whole}, {{"to", std::int64_t{1}}});
     }},
    {"its square",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Mul", {x, x});
     }},
    {"softmax",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Softmax", {x}, {{"axis", std::int64_t{-1}}});
     }},
    {"without its tokens' mean",
     [](Graph& g, const std::string& x, const Dims&) {
       return g.add("Sub", {x, g.add("ReduceMean", {x, g.integers({-2})})});
     }},
    {"another order",
     [](Graph& g, const std::string& x, const Dims& shape) {
       const std::string columns = g.add("Reshape", {x, g.integers({-1, shape.back() / 2, 2})});
       const std::string turned = g.add("Transpose", {columns}, {{"perm", Dims{0, 2, 1}}});
       return g.add("Reshape", {turned, g.add("Shape", {x})});
     }},
    {"nothing", [](Graph& g, const std::string& x, const Dims&) { return g.add("Identity", {x}); }},
};

/// The graph's values of one text, for their shapes and types.
std::map<std::string, Value> values_of(const ModelForm& form) {
  const Value ids{{1, 5}, {1, 2, 3, 4, 5}, onnx::i64}, ones{{1, 5}, {1, 1, 1, 1, 1}, onnx::i64},
      zeros{{1, 5}, {0, 0, 0, 0, 0}, onnx::i64};
  return onnx::evaluate(form.graph,
                        {{"input_ids", ids}, {"attention_mask", ones}, {"token_type_ids", zeros}});
}

/// Puts each operator on every `each`-th edge of real numbers. How many were computed.
std::size_t put_on_edges(const ModelForm& form, std::size_t each, std::size_t& refused) {
  const auto values = values_of(form);
  std::size_t computed_rightly = 0, number = 0;
  for (std::size_t node = 0; node < form.graph.nodes.size(); ++node)
    for (std::size_t input = 0; input < form.graph.nodes[node].inputs.size(); ++input) {
      const Value& at = values.at(form.graph.nodes[node].inputs[input]);
      if (at.type != onnx::f32 || at.shape.size() < 2) continue;
      for (const Put& put : puts) {
        if (number++ % each != 0) continue;
        const ModelForm changed =
            onnx::inserted(form, {node, input}, [&](Graph& g, const std::string& x) {
              return put.make(g, x, at.shape);
            });
        INFO(form.name << ": " << put.name << " before " << form.graph.nodes[node].name
                       << ", input " << input);
        const ModelOutcome found = computed(changed, true, some_ids);
        CHECK(judged(changed, found) == "");
        (found.error.empty() ? computed_rightly : refused) += 1;
      }
    }
  return computed_rightly;
}

/// Changes every `each`-th of the graph's few numbers: factors, epsilons, axes, ends of slices.
void change_constants(const ModelForm& form, std::size_t each) {
  std::size_t number = 0;
  for (const auto& [name, value] : form.graph.constants)
    for (std::size_t i = 0; i < value.count() && value.count() <= 4; ++i) {
      if (number++ % each != 0) continue;
      ModelForm changed = form;
      double& one = changed.graph.constants[name].data[i];
      one = value.type == onnx::f32 ? one * 1.5 : one + 1;
      INFO(form.name << ": " << name << " = " << value.data[i]);
      const ModelOutcome found = computed(changed, true, some_ids);
      if (found.error.empty() && onnx::logits_of(changed, some_ids)) // else nothing runs it
        CHECK(judged(changed, found) == "");
    }
}

} // namespace

TEST_CASE("a whole model by the paths of a graph's nodes computes its logits", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms())
    for (const bool with_config : {true, false}) {
      INFO(form.name << (with_config ? "" : " without config.json"));
      const ModelOutcome found = computed(form, with_config, some_ids);
      if (form.name == "llama" && !with_config) // 1e-6 by default
        CHECK_THAT(found.error, Catch::Contains("another epsilon than the model's"));
      else
        CHECK(found.error == "");
      CHECK(judged(form, found) == "");
    }
}

TEST_CASE("a whole model of onnxruntime-genai's builder computes its logits", "[io][onnx]") {
  const ModelForm fused = onnx::genai_form(true), plain = onnx::genai_form(false);
  for (const ModelForm* form : {&plain, &fused}) {
    const ModelOutcome found = computed(*form, true, some_ids);
    CHECK(found.error == "");
    CHECK(judged(plain, found) == "");
  }
  ModelForm other = fused;
  for (onnx::Node& node : other.graph.nodes)
    if (node.op == "SkipSimplifiedLayerNormalization" &&
        node.name.starts_with("/model/layers.1/post_attention_layernorm/"))
      node.attributes["epsilon"] = 2e-5F;
  CHECK_THAT(computed(other, true, some_ids).error,
             Catch::Contains("another epsilon than the model's, at "
                             "'/model/layers.1/post_attention_layernorm/"));
  ModelForm quantised = fused;
  for (onnx::Node& node : quantised.graph.nodes)
    if (node.name.starts_with("/model/layers.1/mlp/down_proj/"))
      node.op = "MatMulNBits", node.domain = "com.microsoft";
  CHECK_THAT(computed(quantised, true, some_ids).error,
             Catch::Contains("node '/model/layers.1/mlp/down_proj/") &&
                 Catch::Contains("is MatMulNBits, a product of quantised numbers"));
}

TEST_CASE("a whole model of the dynamo exporter computes its logits", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms()) {
    INFO(form.name);
    const ModelForm exported = onnx::as_dynamo_exports(form);
    const ModelOutcome found = computed(exported, true, some_ids);
    CHECK(found.error == "");
    CHECK(judged(form, found) == "");
  }
}

TEST_CASE("a layer of a graph with paths has its family's block", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms()) {
    INFO(form.name);
    const Folder folder;
    const std::string file = folder.path("model.onnx");
    std::ofstream(file, std::ios::binary) << form.graph.bytes();
    std::ofstream(folder.path("config.json")) << form.config;
    const Model model(file, {.dtype = DType::f64});
    const Run whole =
        model.run(model.tokens(some_ids), {.keep = {"layers.1.resid_pre", "layers.1.resid_post"}});
    Tensors given;
    given.emplace_back("X", whole.tensor("layers.1.resid_pre"));
    const Layer alone = load(file, 1, std::move(given), {.dtype = DType::f64});
    const Tensor found = mha::run(alone, {Stage::resid_post}).tensor("resid_post"),
                 wanted = whole.tensor("layers.1.resid_post");
    REQUIRE(found.count() == wanted.count());
    for (std::size_t i = 0; i < found.count(); ++i)
      CHECK(value_at(found, i) == Approx(value_at(wanted, i)).margin(1e-12));
  }
}

TEST_CASE("a whole model that a graph computes otherwise is refused", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms()) {
    std::size_t refused = 0;
    const std::size_t right = put_on_edges(form, sanitized ? 67 * 5 : 67, refused);
    CHECK(refused > 0);
    if (!sanitized) CHECK(right > 0);
  }
}

TEST_CASE("a whole model that a graph computes otherwise is refused, at every edge",
          "[.every-edge]") {
  for (const ModelForm& form : onnx::model_forms()) {
    std::size_t refused = 0;
    const std::size_t right = put_on_edges(form, 1, refused);
    change_constants(form, 1);
    WARN(form.name << ": " << right << " computed, " << refused << " refused");
  }
}

TEST_CASE("a whole model with other constants in its graph is refused", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms()) change_constants(form, sanitized ? 55 : 11);
}

TEST_CASE("a whole model whose positions end otherwise than its table is refused", "[io][onnx]") {
  for (const ModelForm& form : onnx::model_forms()) {
    const auto table = std::ranges::find_if(form.graph.nodes, [](const onnx::Node& node) {
      return node.op == "Gather" && node.inputs[0].find("pe.weight") != std::string::npos;
    });
    if (table == form.graph.nodes.end()) continue;
    const auto node = static_cast<std::size_t>(table - form.graph.nodes.begin());
    for (const double last : {20.0, 100.0}) {
      const ModelForm changed =
          onnx::inserted(form, onnx::Edge{node, 1}, [&](Graph& g, const std::string& x) {
            return g.add("Min", {x, g.constant({{}, {last}, onnx::i64})});
          });
      CHECK((computed(changed, true, some_ids).error == "") == (last == 100));
    }
  }
}

TEST_CASE("a whole model whose nodes have another's paths is refused", "[io][onnx]") {
  Share share;
  for (const ModelForm& form : onnx::model_forms())
    for (std::size_t i = 0; i < form.graph.nodes.size(); ++i)
      for (std::size_t j = i + 1; j < form.graph.nodes.size(); ++j) {
        const onnx::Node &a = form.graph.nodes[i], &b = form.graph.nodes[j];
        if (a.op != "MatMul" || b.op != "MatMul" || !a.inputs[1].starts_with("onnx::") ||
            !b.inputs[1].starts_with("onnx::"))
          continue;
        if (form.graph.constants.at(a.inputs[1]).shape !=
            form.graph.constants.at(b.inputs[1]).shape)
          continue;
        if (!share.takes()) continue;
        ModelForm changed = form;
        std::swap(changed.graph.nodes[i].name, changed.graph.nodes[j].name);
        INFO(form.name << ": " << a.name << " and " << b.name);
        CHECK(judged(changed, computed(changed, true, some_ids)) == "");
      }
}

TEST_CASE("a whole model whose graph chooses by its tokens is refused", "[io][onnx]") {
  ModelForm form = onnx::model_forms().at(0);
  const auto branch = [&](const std::string& op, const std::string& x) {
    auto body = std::make_shared<Graph>();
    body->path = op + "/";
    body->outputs = {body->add(op, {x})};
    return std::shared_ptr<const Graph>(std::move(body));
  };
  const auto node = static_cast<std::size_t>(
      std::ranges::find(form.graph.nodes, "Gemm", &onnx::Node::op) - form.graph.nodes.begin());
  for (const bool by_tokens : {true, false}) {
    const ModelForm changed =
        onnx::inserted(form, onnx::Edge{node, 0}, [&](Graph& g, const std::string& x) {
          const std::string first =
              g.add("Gather",
                    {by_tokens ? "input_ids" : g.constant({{1, 1}, {3}, onnx::i64}),
                     g.constant({{}, {0}, onnx::i64})},
                    {{"axis", std::int64_t{1}}});
          const std::string chosen = g.add("Greater", {first, g.constant({{1}, {2}, onnx::i64})});
          return g.add("If", {chosen},
                       {{"then_branch", branch("Identity", x)}, {"else_branch", branch("Neg", x)}});
        });
    const std::string error = computed(changed, true, some_ids).error;
    INFO(error);
    CHECK((error.find("its inputs decide what is computed") != error.npos) == by_tokens);
    CHECK(error.empty() != by_tokens);
  }
}
