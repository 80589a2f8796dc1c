#include <mha/formats/onnx.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/formats/onnx_graph.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_set>

namespace mha::io {

namespace {

/// Products of quantised numbers. A model with them computes other numbers than the trained model.
constexpr std::array<std::string_view, 12> quantised_products{
    "MatMulNBits",    "MatMulBnb4",           "MatMulFpQ4",
    "QLinearMatMul",  "QAttention",           "MatMulInteger",
    "QGemm",          "MatMulIntegerToFloat", "DynamicQuantizeMatMul",
    "QOrderedMatMul", "QOrderedAttention",    "QMoE"};

/// Whether an exporter generated the name: "onnx::MatMul_123", "123".
bool is_anonymous(std::string_view name) {
  return name.starts_with("onnx::") || is_number(name);
}

/// "encoder.layers.0.self_attn.MatMul" for "/encoder/layers.0/self_attn/MatMul".
std::string dotted_node(std::string_view name) {
  std::string dotted(name);
  std::ranges::replace(dotted, '/', '.');
  while (dotted.starts_with('.')) dotted.erase(0, 1);
  return dotted;
}

class OnnxContents {
public:
  explicit OnnxContents(const Bytes& bytes)
      : graph_(std::make_shared<KeptGraph>(
            KeptGraph{std::make_shared<const OnnxModel>(parse_onnx(bytes)),
                      std::make_shared<OnnxStore>(bytes)})) {
    contents_.name = bytes.name;
    contents_.format = "onnx";
    refuse_quantised(graph_->model->graph.nodes);
    for (const OnnxFunction& function : graph_->model->functions) refuse_quantised(function.nodes);
    flow_ = graph_->flow(OnnxFlow::usual_length);
    constexpr std::int64_t most = 4096;
    if (const std::int64_t wanted = flow_->required_length; wanted > 1 && wanted <= most)
      flow_ = graph_->flow(wanted);
    flow_->of_length = [graph = graph_](std::int64_t length, std::int64_t texts, bool padded) {
      return graph->flow(length, texts, padded);
    };
  }

  Contents read() {
    add_about();
    add_tensors();
    add_layers();
    contents_.graph = graph_;
    return std::move(contents_);
  }

private:
  void refuse_quantised(const std::vector<OnnxNode>& nodes) const {
    for (const OnnxNode& node : nodes) {
      if (is_one_of(node.op, quantised_products))
        fail("{}: node '{}' is {}, a product of quantised numbers, which is not read: export the "
             "model without quantisation",
             shown(contents_.name), shown(node.name.empty() ? node.op : node.name), node.op);
      for (const OnnxAttribute& attribute : node.attributes)
        if (attribute.graph) refuse_quantised(attribute.graph->nodes);
    }
  }

  void add_about() {
    std::string opsets;
    for (const auto& [domain, version] : graph_->model->opsets)
      opsets += fmt::format("{}{}{}", opsets.empty() ? "opset " : ", ",
                            domain.empty() ? "" : shown(domain) + " ", version);
    std::string about = fmt::format("ONNX {}", opsets.empty() ? "without an opset" : opsets);
    if (!graph_->model->producer.empty())
      about += fmt::format(", written by {} {}", shown(graph_->model->producer),
                           shown(graph_->model->producer_version));
    contents_.notes.push_back(std::move(about));
    const std::vector<std::string_view> aside(flow_->set_aside.begin(), flow_->set_aside.end());
    if (!aside.empty())
      contents_.notes.push_back("set aside, of types that are not read: " + listed(aside));
    for (const OnnxStep& step : flow_->steps)
      if (step.is("QuantizeLinear")) {
        contents_.notes.emplace_back("QuantizeLinear rounds what enters its products, which layers "
                                     "here leave out");
        break;
      }
    std::vector<std::string_view> masks, maps;
    for (const OnnxValue& value : flow_->values)
      if (value.is_input && value.name.find("mask") != std::string_view::npos) {
        const bool of_pairs = value.info && value.info->type == 9 && value.info->dims.size() > 2;
        (of_pairs ? maps : masks).push_back(value.name);
      }
    if (!maps.empty())
      contents_.notes.push_back(
          message("{} is a boolean mask of queries and keys, taken as true everywhere: give "
                  "<mask=FILE> (true = may attend) where it is not",
                  listed(maps)));
    if (!masks.empty())
      contents_.notes.push_back(
          message("{} is taken as all ones: give <attention_mask=FILE> where a text is padded",
                  listed(masks)));
  }

  /// A name for a value from the node that reads it.
  std::string name_by_node(int value) const {
    for (const int consumer : flow_->at(value).consumers) {
      const OnnxStep& step = flow_->steps[static_cast<std::size_t>(consumer)];
      std::string name = dotted_node(step.name);
      if (name.empty() && !step.outputs.empty() && step.outputs[0] >= 0)
        name = dotted_node(flow_->at(step.outputs[0]).name);
      if (!name.empty()) return name;
    }
    return "";
  }

  std::string unique(std::string name) {
    std::string numbered = name;
    for (std::size_t i = 2; !names_.insert(numbered).second; ++i)
      numbered = fmt::format("{}_{}", name, i);
    return numbered;
  }

  void add_tensors() {
    std::set<std::string_view> own;
    for (const OnnxFlow::Constant& constant : flow_->constants) {
      if (is_anonymous(constant.array.name)) continue;
      own.insert(constant.array.name);
    }
    for (const OnnxFlow::Constant& constant : flow_->constants) {
      Entry entry;
      const std::string& file_name = constant.array.name;
      entry.name = file_name;
      if (is_anonymous(file_name))
        if (std::string named = name_by_node(constant.value); !named.empty()) {
          entry.name = named;
          for (std::size_t i = 2; own.contains(entry.name); ++i)
            entry.name = fmt::format("{}_{}", named, i);
        }
      entry.name = unique(std::move(entry.name));
      if (entry.name != file_name) entry.own_name = file_name;
      entry.dtype = constant.array.dtype, entry.shape = constant.array.shape;
      entry.read = constant.array.read;
      if (!constant.of_node) add_parameter(entry, constant.value);
      contents_.tensors.push_back(std::move(entry));
    }
  }

  /// Adds a weight under its module's path, if its own name or the name of the node that reads it
  /// has this path. onnxruntime-genai's builder names weights after nodes,
  /// "model.layers.0.attn.q_proj.MatMul.weight", and stores them as (in, out).
  void add_parameter(const Entry& entry, int value) {
    if (!is_floating(entry.dtype) || is_anonymous(entry.name) ||
        entry.name.find('/') != std::string::npos)
      return;
    Entry parameter = entry;
    const bool of_node = entry.own_name.empty() && (entry.name.ends_with(".MatMul.weight") ||
                                                    entry.name.ends_with(".Add.bias"));
    if (!entry.own_name.empty() || of_node) {
      const std::string node = of_node ? entry.name.substr(0, entry.name.rfind('.')) : entry.name;
      const std::size_t dot = node.rfind('.');
      if (dot == std::string::npos) return;
      const std::string module = node.substr(0, dot + 1);
      const std::vector<int>& readers = flow_->at(value).consumers;
      if (readers.empty()) return;
      const OnnxStep& reader = flow_->steps[static_cast<std::size_t>(readers.front())];
      if (reader.is("MatMul") && entry.shape.size() == 2) {
        parameter.name = module + "weight";
        parameter.shape = {entry.shape[1], entry.shape[0]};
        parameter.read = [read = entry.read] { return transposed_when_read(read()); };
      } else if (reader.is("Add") && entry.shape.size() == 1) {
        parameter.name = module + "bias";
      } else {
        return;
      }
      if (of_node) parameter.own_name = entry.name;
    }
    constexpr std::string_view last_norm = "final_norm_layernorm."; // "model.layers.32." before it
    if (const std::size_t at = parameter.name.find(last_norm); at != std::string::npos) {
      parameter.own_name = parameter.name;
      parameter.name = "model.norm." + parameter.name.substr(at + last_norm.size());
    }
    graph_->parameters.push_back(std::move(parameter));
  }

  void add_layers() {
    const OnnxProjections projections(*flow_);
    std::vector<OnnxLayer> layers;
    std::vector<OnnxRefusal> refused;
    OnnxOtherLengths other_lengths(*flow_);
    for (std::size_t i = 0; i < flow_->steps.size(); ++i) {
      const int step = static_cast<int>(i);
      auto found = onnx_layer_at(flow_, projections, step);
      if (!found) continue;
      std::variant<OnnxLayer, OnnxRefusal>& read = *found;
      if (auto* layer = std::get_if<OnnxLayer>(&read)) {
        if (auto why = other_lengths.refusal(step, *layer); !why.empty())
          read = OnnxRefusal{step, std::move(why)};
      }
      if (auto* layer = std::get_if<OnnxLayer>(&read))
        layers.push_back(std::move(*layer));
      else
        refused.push_back(std::get<OnnxRefusal>(std::move(read)));
    }
    for (const int step : steps_instead_of_softmax(*flow_, projections))
      refused.push_back({step, "it is between two products, in the place of a Softmax"});
    if (layers.empty() && refused.empty()) refuse_nearest(projections, refused);
    note_refused(refused);
    std::set<std::string> paths;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      OnnxLayer& layer = layers[i];
      std::string path = layer.path.empty() ? fmt::format("layers.{}.", i) : layer.path;
      for (std::size_t n = 1; !paths.insert(path).second; ++n)
        path = fmt::format("{}{}.", layer.path.empty() ? "layers." : layer.path, n);
      add_layer(std::move(layer), path);
    }
    if (flow_->exhausted())
      contents_.notes.emplace_back(
          "its graph is larger than is searched for attention: some layers "
          "may be missing");
    if (layers.empty()) contents_.notes.push_back(advice(refused));
    flow_->of_length = nullptr; // breaks a cycle: tensors that are read later hold the flow
  }

  /// If nothing looks like attention, reports the first Softmax with the steps around it.
  void refuse_nearest(const OnnxProjections& projections, std::vector<OnnxRefusal>& refused) const {
    const auto found =
        std::ranges::find_if(flow_->steps, [](const OnnxStep& step) { return step.is("Softmax"); });
    if (found == flow_->steps.end() || found->outputs.empty() || found->outputs[0] < 0) return;
    std::vector<int> around = onnx_steps_before(*flow_, projections, found->input(0));
    for (const int next : flow_->at(flow_->resolved(found->outputs[0])).consumers)
      add_once(around, next);
    refused.push_back(
        {static_cast<int>(found - flow_->steps.begin()),
         "it is not between two products that are computed at run time, but between " +
             onnx_steps_in_words(*flow_, around)});
  }

  std::string in_words(const OnnxRefusal& refusal) const {
    return fmt::format("attention at {} is not read: {}", onnx_step_in_words(*flow_, refusal.step),
                       refusal.why);
  }

  /// Adds notes on attention that is not read as a layer.
  void note_refused(const std::vector<OnnxRefusal>& refused) {
    constexpr std::size_t most = 8;
    for (std::size_t i = 0; i < refused.size() && i < most; ++i)
      contents_.notes.push_back(Message(in_words(refused[i])) +
                                message("; its steps can be computed from what enters it: "
                                        "<start from q, k and v>"));
    if (refused.size() > most)
      contents_.notes.emplace_back(
          fmt::format("and {} more that are not read", refused.size() - most));
  }

  Message advice(const std::vector<OnnxRefusal>& refused) const {
    Message found = message("no attention layer was found in the graph");
    if (!refused.empty()) found = found + Message(": " + in_words(refused.front()));
    return found + message("; its tensors can be bound by name: <W_q={0}:TENSOR> "
                           "<W_k={0}:TENSOR> …, with <num_heads>",
                           shown(contents_.name));
  }

  void add_layer(OnnxLayer layer, const std::string& path) {
    for (Entry& entry : layer.tensors) {
      entry.name = path + entry.name;
      if (!names_.insert(entry.name).second) { // may differ: a norm may multiply by 1 + the weight
        const auto same = std::ranges::find(contents_.tensors, entry.name, &Entry::name);
        if (same->own_name.empty()) same->own_name = same->name;
        same->name = unique(same->name);
      }
      contents_.tensors.push_back(std::move(entry));
    }
    for (auto& [name, value] : layer.settings)
      contents_.scalars.emplace_back(path + name, std::move(value));
    contents_.scalars.emplace_back(path + "node", layer.node);
    if (layer.needs) {
      contents_.scalars.emplace_back(path + "needs", layer.needs->in_words(Wording::command_line));
      contents_.remarks.emplace(path + "needs", std::move(*layer.needs));
    }
    for (std::size_t i = 0; i < layer.remarks.size(); ++i) {
      const std::string name = i == 0 ? path + "note" : fmt::format("{}note_{}", path, i);
      contents_.scalars.emplace_back(name, layer.remarks[i].in_words(Wording::command_line));
      contents_.remarks.emplace(name, std::move(layer.remarks[i]));
    }
  }

  std::shared_ptr<KeptGraph> graph_;
  std::shared_ptr<OnnxFlow> flow_;
  Contents contents_;
  std::unordered_set<std::string> names_;
};

} // namespace

bool begins_as_onnx(std::span<const std::byte> first) {
  // ir_version (field 1, a small number), then producer_name, opset_import or graph.
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(first[i]); };
  if (first.size() < 4 || byte(0) != 0x08 || byte(1) == 0 || byte(1) > 0x7F) return false;
  return byte(2) == 0x12 || byte(2) == 0x3A || byte(2) == 0x42;
}

Contents read_onnx(const Bytes& bytes) {
  return OnnxContents(bytes).read();
}

} // namespace mha::io
