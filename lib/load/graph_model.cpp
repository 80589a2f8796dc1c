#include <mha/load/graph_names.hpp>

#include <mha/files/text.hpp>
#include <mha/formats/onnx_between.hpp>
#include <mha/load/graph_reader.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

using io::OnnxLayer;
using io::OnnxProjection;
using io::OnnxStep;

namespace {

constexpr std::int64_t another_length = 11;

/// Compares a graph with a model from the token numbers to the logits, for one length.
class GraphWalk {
public:
  GraphWalk(const WholeModel& model, std::shared_ptr<io::OnnxFlow> flow)
      : model_(model),
        file_(io::shown(model.file().name)),
        shared_(flow),
        graph_(file_, flow),
        flow_(*flow),
        width_(static_cast<std::int64_t>(model.width())) {}

  void hold() {
    find_layers();
    const int end = start_of_end();
    GraphSum stream = hold_embedding(layers_.front());
    for (std::size_t n = 0; n < layers_.size(); ++n) {
      const bool last = n + 1 == layers_.size();
      stream = hold_block(n, stream, last ? end : layers_[n + 1].inputs[0],
                          last ? model_.last_norm() : norms_[n + 1]);
    }
    hold_end(end, stream);
  }

  /// Compares the whole table of positions, in the graph for a text of that length.
  void hold_positions(std::shared_ptr<io::OnnxFlow> far) const {
    GraphReader reader(file_, std::move(far));
    reader.require_sum(begin_, width_, embedded_);
  }

  std::vector<Note> notes() const {
    std::vector<Note> notes;
    if (!types_.empty())
      notes.emplace_back(fmt::format("{}: {} is taken as all zeros", file_, types_));
    if (!graph_.roundings().empty())
      notes.push_back(
          warning(fmt::format("{}: numbers are rounded in the graph and not here, by {}", file_,
                              io::onnx_steps_in_words(flow_, graph_.roundings()))));
    return notes;
  }

private:
  /// Finds the layers of attention in the order of their numbers, with the norms before them.
  void find_layers() {
    for (std::size_t i = 0; i < flow_.steps.size(); ++i) {
      refuse_choice(flow_.steps[i]);
      auto found = io::onnx_layer_at(shared_, graph_.projections(), static_cast<int>(i));
      if (!found) continue;
      if (const auto* refusal = std::get_if<io::OnnxRefusal>(&*found))
        fail("{}: attention at {} is not read: {}; {}", file_,
             io::onnx_step_in_words(flow_, refusal->step), refusal->why, give_X_instead);
      layers_.push_back(std::get<OnnxLayer>(std::move(*found)));
      if (const auto& needs = layers_.back().needs) fail("{}: {}", file_, *needs);
    }
    const auto number = [](const OnnxLayer& layer) { return naming::layer_number(layer.path); };
    std::ranges::stable_sort(layers_, {}, number);
    bool in_order = layers_.size() == model_.layers().size();
    for (std::size_t n = 0; in_order && n < layers_.size(); ++n)
      in_order = number(layers_[n]).value_or(n) == n;
    if (!in_order)
      fail("{}: the graph has {}, but its names give {}; {}", file_,
           counted(layers_.size(), "layers of attention"), model_.layers().size(), give_X_instead);
    for (const OnnxLayer& layer : layers_) norms_.push_back(norm_before(layer));
  }

  /// Throws Error where a graph's inputs choose what it computes, or how often.
  void refuse_choice(const OnnxStep& step) const {
    const bool chooses = step.is("If") && !flow_.is_fixed(step.input(0)),
               repeats = step.is("Loop") || step.is("Scan");
    if ((chooses || repeats) && !step.outputs.empty() && !flow_.is_fixed(step.outputs[0]))
      graph_.refuse(step.outputs[0], "its inputs decide what is computed, or how often");
  }

  /// The norm that a layer takes from the graph.
  static Norm norm_before(const OnnxLayer& layer) {
    Norm norm;
    for (const auto& [name, value] : layer.settings) {
      if (name == "norm") norm.kind = value == "rms" ? InputNorm::rms : InputNorm::layer;
      if (name == "input_norm_eps") norm.eps = std::stod(value);
    }
    for (const io::Entry& entry : layer.tensors) {
      if (entry.name == "norm.weight") norm.weight = entry.read();
      if (entry.name == "norm.bias") norm.bias = entry.read();
    }
    return norm;
  }

  /// The sum that enters the norm before `reader`; without a norm, `reader`.
  int sum_before(int reader, const Norm& norm) const {
    return norm.present() ? graph_.normalised_from(reader) : reader;
  }

  /// The input of the graph that chooses the rows of a Gather. Throws Error.
  std::string_view rows_chosen_by(int gathered) const {
    const OnnxStep* step = flow_.maker(gathered);
    graph_.require(step && step->is("Gather") && step->integer("axis", 0) == 0, gathered,
                   "no row of a table is chosen where the model has one");
    const int index = graph_.before_moves(step->input(1));
    graph_.require(index >= 0 && flow_.at(index).is_input && flow_.shape(index) &&
                       io::onnx_count(*flow_.shape(index)) == graph_.tokens(),
                   gathered, "its rows are chosen by others than token numbers");
    return flow_.at(index).name;
  }

  GraphSum hold_embedding(const OnnxLayer& first) {
    const Embedding& e = model_.embedding();
    if (e.projection.present() || e.mask_token || e.pad || !model_.first_rows().empty())
      fail("{}: a graph with an embedding of this kind is not read as a whole model; {}", file_,
           give_X_instead);
    const int reader = first.inputs[0];
    const int begin = e.norm.present() ? sum_before(sum_before(reader, norms_[0]), e.norm)
                                       : sum_before(reader, norms_[0]);
    GraphSum sum;
    bool types_chosen = false;
    for (const int term : graph_.terms_of(begin)) {
      const std::string_view input = rows_chosen_by(term);
      const bool of_types = lowered(input).find("type") != std::string::npos ||
                            lowered(input).find("segment") != std::string::npos;
      GraphSum::Term chosen{term};
      if (of_types) {
        types_ = input, types_chosen = true;
        graph_.require_numbers(flow_.maker(term)->input(0), e.types);
      } else {
        graph_.require(ids_.empty(), term, "tokens are looked up twice");
        ids_ = input;
        graph_.require_numbers(flow_.maker(term)->input(0), e.tokens);
        chosen.factors.assign(static_cast<std::size_t>(width_), e.scale);
      }
      sum.terms.push_back(std::move(chosen));
    }
    graph_.require(!ids_.empty(), begin, "no tokens are looked up");
    sum.number = [&e, types_chosen, width = width_](std::int64_t t, std::int64_t c) {
      double number = 0;
      if (!e.positions.empty())
        number += value_at(e.positions,
                           static_cast<std::size_t>(
                               (t + static_cast<std::int64_t>(e.first_position)) * width + c));
      if (!e.types.empty() && !types_chosen)
        number += value_at(e.types, static_cast<std::size_t>(c));
      return number;
    };
    const int stream = sum_before(reader, norms_[0]);
    graph_.require_normed(stream, e.norm, sum, width_);
    begin_ = begin, embedded_ = std::move(sum);
    return graph_.settle(stream, width_);
  }

  static GraphSum joined(GraphSum a, const GraphSum& b) {
    a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
    return a;
  }

  /// The part of the stream's sum that a term adds: the term, or the result of a norm after it.
  /// `made` gets the value that enters the norm.
  GraphSum added(int term, const Norm& norm, int* made) {
    *made = norm.present() ? graph_.only_term_of(graph_.normalised_from(term)) : term;
    if (!norm.present()) return {{{term}}};
    graph_.require(norm.bias.empty(), term, "a norm with a bias is added");
    return graph_.require_norm(term, norm, {{{*made}}}, width_);
  }

  /// The parts that attention and the feed-forward add to the stream.
  struct Added {
    GraphSum attention, mlp;
    int mlp_out = -1;
  };
  Added parts_of(int value, const GraphSum& stream, int output, const TransformerBlock& block) {
    Added added;
    for (const int term : graph_.terms_of(value)) {
      if (!stream.terms.empty() && term == stream.terms[0].value) continue;
      int made = -1;
      const bool of_attention =
          added.attention.terms.empty() && comes_from(term, output, block.post_attention_norm);
      const Norm& norm = of_attention ? block.post_attention_norm : block.post_mlp_norm;
      (of_attention ? added.attention : added.mlp) = this->added(term, norm, &made);
      if (!of_attention) {
        graph_.require(added.mlp_out < 0, value, "more is added to the stream than the model does");
        added.mlp_out = made;
      }
    }
    graph_.require(!added.attention.terms.empty(), value,
                   "attention's output is not added to the stream");
    graph_.require((added.mlp_out >= 0) == block.mlp.present(), value,
                   "other parts are added to the stream than the model's");
    return added;
  }
  bool comes_from(int term, int output, const Norm& norm) const {
    if (!norm.present()) return term == output;
    const auto found = io::onnx_norm(flow_, term);
    const std::vector<int> from = found ? graph_.terms_of(found->x) : std::vector<int>{};
    return from.size() == 1 && from[0] == output;
  }

  GraphSum hold_block(std::size_t n, const GraphSum& stream, int next, const Norm& next_norm) {
    const auto block = model_.block(n);
    const OnnxLayer& layer = layers_[n];
    for (const int input : layer.inputs) graph_.require_normed(input, norms_[n], stream, width_);
    const int output = flow_.resolved(layer.output);
    graph_.require(output >= 0, layer.inputs[0], "attention has no output projection");
    const int end = sum_before(next, next_norm);
    if (block->shape == BlockShape::post) return hold_post(*block, stream, output, end);
    const Added added = parts_of(end, stream, output, *block);
    const GraphSum middle = joined(stream, added.attention);
    if (block->mlp.present())
      hold_mlp(block->mlp, added.mlp_out, block->pre_mlp_norm,
               block->shape == BlockShape::parallel ? stream : middle);
    graph_.require_sum(end, width_, joined(middle, added.mlp));
    return graph_.settle(end, width_);
  }

  /// residual = x + A(x), r = n1 residual; resid_post = n2(r + F(r))
  GraphSum hold_post(const TransformerBlock& block, const GraphSum& stream, int output, int end) {
    const int sum = graph_.normalised_from(end);
    for (const int term : graph_.terms_of(sum)) {
      const OnnxProjection* out = graph_.projections().of(term);
      if (!out || !graph_.is_linear(*out, block.mlp.out)) continue;
      const int reader = in_of(block.mlp, out->x).x;
      graph_.require_normed(reader, block.pre_mlp_norm, joined(stream, {{{output}}}), width_);
      const GraphSum middle = graph_.settle(reader, width_);
      hold_mlp(block.mlp, term, {}, middle);
      graph_.require_normed(end, block.post_block_norm, joined(middle, {{{term}}}), width_);
      return graph_.settle(end, width_);
    }
    graph_.refuse(sum, "there is no feed-forward where the model has one");
  }

  /// The projection by a feed-forward's `in`, whose output an activation reads.
  const OnnxProjection& in_of(const FeedForward& mlp, int value) {
    for (const int leaf : graph_.leaves_of(value))
      if (const OnnxProjection* found = graph_.projections().of(leaf);
          found && graph_.is_linear(*found, mlp.in))
        return graph_.require_linear(leaf, mlp.in);
    graph_.refuse(value, "there is no feed-forward where the model has one");
  }

  /// mlp_out = act(x W_in + b_in) (· (x W_up + b_up)) W_out + b_out, x the norm of `of`
  void hold_mlp(const FeedForward& mlp, int term, const Norm& norm, const GraphSum& of) {
    if (mlp.inner.present() || !mlp.product_bias.empty() || mlp.activation == Activation::solu)
      fail("{}: a graph with a feed-forward of this kind is not read as a whole model; {}", file_,
           give_X_instead);
    const int made = graph_.require_linear(term, mlp.out).x;
    const OnnxProjection& in = in_of(mlp, made);
    const int gate = flow_.resolved(in.out);
    std::vector<int> leaves = graph_.leaves_of(made);
    std::erase(leaves, gate);
    graph_.require(leaves.size() == (mlp.gated() ? 1 : 0), made,
                   "the feed-forward is gated otherwise than the model's");
    graph_.require_normed(in.x, norm, of, width_);
    if (mlp.gated())
      graph_.require_normed(graph_.require_linear(leaves[0], mlp.up).x, norm, of, width_);
    graph_.require_activation(made, mlp.activation, gate, mlp.gated() ? leaves[0] : -1);
  }

  /// The output of the graph with `columns` numbers for each token. Throws Error.
  int output_of(std::int64_t columns) const {
    std::vector<int> found;
    for (const io::OnnxValueInfo& info : model_.file().graph->model->graph.outputs)
      for (std::size_t i = 0; i < flow_.values.size(); ++i) {
        const int value = static_cast<int>(i);
        if (flow_.values[i].name != info.name || !flow_.shape(value)) continue;
        const auto& shape = *flow_.shape(value);
        if (!shape.empty() && shape.back() == columns &&
            io::onnx_count(shape) == graph_.tokens() * columns)
          found.push_back(value);
      }
    if (found.size() != 1)
      fail("{}: the graph has {} of {} for each token, but its names give one; {}", file_,
           counted(found.size(), "outputs"), counted(static_cast<std::size_t>(columns), "numbers"),
           give_X_instead);
    return found[0];
  }

  /// The value that reads the last stream.
  int start_of_end() {
    const ModelHead& head = model_.head();
    if (!head.present()) return output_of(width_);
    logits_ = output_of(static_cast<std::int64_t>(head.decoder.out()));
    const std::vector<int> leaves = graph_.leaves_of(logits_);
    graph_.require(leaves.size() == 1, logits_, "logits are made of several linear maps");
    decoder_ = leaves[0];
    reader_ = graph_.require_linear(decoder_, head.decoder).x;
    if (!head.dense.present()) return reader_;
    before_norm_ = sum_before(reader_, head.norm);
    const std::vector<int> of_dense = graph_.leaves_of(before_norm_);
    graph_.require(of_dense.size() == 1, reader_, "the head's linear map is not the model's");
    dense_ = &graph_.require_linear(of_dense[0], head.dense);
    return dense_->x;
  }

  void hold_end(int end, const GraphSum& stream) {
    const ModelHead& head = model_.head();
    graph_.require_normed(end, model_.last_norm(), stream, width_);
    if (!head.present()) return;
    graph_.require_function(
        logits_, decoder_,
        [&](double x) {
          const double scaled = head.scale * x;
          return head.softcap > 0 ? head.softcap * std::tanh(scaled / head.softcap) : scaled;
        },
        "logits are scaled or capped otherwise than the model's");
    if (!dense_) return;
    graph_.require_activation(before_norm_, head.activation, flow_.resolved(dense_->out));
    const auto into = static_cast<std::int64_t>(head.dense.out());
    graph_.require_normed(reader_, head.norm, graph_.settle(before_norm_, into), into);
  }

  const WholeModel& model_;
  std::string file_;
  std::shared_ptr<io::OnnxFlow> shared_;
  GraphReader graph_;
  const io::OnnxFlow& flow_;
  std::int64_t width_;
  std::vector<OnnxLayer> layers_;
  std::vector<Norm> norms_; ///< before each
  std::string ids_, types_; ///< inputs of the graph
  int begin_ = -1;          ///< the embedding before its norm, and as a sum below
  GraphSum embedded_;
  int logits_ = -1, decoder_ = -1;
  int reader_ = -1, before_norm_ = -1;    ///< what the decoder reads, and the same before the norm
  const OnnxProjection* dense_ = nullptr; ///< the head's map before it
};

} // namespace

std::vector<Note> hold_against_graph(const WholeModel& model) {
  const io::KeptGraph& graph = *model.file().graph;
  std::vector<Note> notes;
  std::vector<std::int64_t> lengths{io::OnnxFlow::usual_length, another_length};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto flow = graph.flow(lengths[i]);
    // A graph of a fixed length is only compared for that one.
    if (const std::int64_t wanted = flow->required_length; wanted > 1 && wanted <= 4096)
      flow = graph.flow(wanted), lengths.resize(i + 1);
    GraphWalk walk(model, std::move(flow));
    walk.hold();
    notes = walk.notes();
    const Embedding& e = model.embedding();
    if (const bool last = i + 1 == lengths.size(); last && i > 0 && !e.positions.empty())
      walk.hold_positions(
          graph.flow(static_cast<std::int64_t>(e.positions.shape()[0] - e.first_position)));
  }
  return notes;
}

} // namespace mha
