#pragma once
// One reading of a reference, for one layer: from names, shapes and axes to stages.

#include <mha/compare/captures.hpp>
#include <mha/compare/reference.hpp>
#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>

namespace mha {

/// Reads for one layer, or for the ends of a whole model. reader.cpp reads a tensor,
/// whole_reader.cpp decides whose it is.
class Reader {
public:
  Reader(const Layer& layer, std::string layer_id, const WholeModelOfLayer* model)
      : layer_(layer),
        model_(model),
        id_(std::move(layer_id)),
        available_(available_stages(layer)) {
    around_.block = layer.block.get();
    if (!model) return;
    around_.bare_embedding = model->bare_embedding, around_.last_norm = model->last_norm;
    around_.one_layer = model->one_layer;
    around_.attention_returns = model->attention_returns, around_.mlp_returns = model->mlp_returns;
  }

  /// `own`: {layer} in its path makes a file this layer's alone.
  void bind(const io::Source& source, bool own);
  void read(const ReferenceFile& file, bool own);
  Reference finish(const std::vector<std::string>& sources);

private:
  struct Named {
    std::string name;
    std::string where; ///< "z=out.npy" or "ref.npz: attn.hook_z", with the file as it was typed
    const io::Entry* entry = nullptr;
    std::string axes;
    bool bound = false;
    std::optional<Stage> stage{}; ///< what it is, where that is known
    std::string origin{};         ///< the file and its tensor; "": `where`
  };
  void take(const Named& named);
  void take_capture(const io::Contents& contents, const io::Entry& entry, const Capture& capture);
  std::optional<Stage> stage_beside(const io::Contents& contents, const io::Entry& entry,
                                    const Capture& capture) const;
  std::string why_none(const io::Contents& contents, const io::Entry& entry,
                       const Capture& capture) const;
  void pass_over(const Named& named, const std::string& why, bool meant);
  std::optional<ReferenceStage> part_of(const Named& named, Stage stage);
  std::optional<ReferenceStage> read_otherwise(const Named& named, Stage stage);
  Stage stage_of_axes(const Named& named, Stage stage) const;
  void misfit(const Named& named, Stage stage, const Tensor& tensor);
  std::string place_of(const std::string& name) const;
  bool number_is_mine(std::size_t number) const {
    return !id_.empty() && number == layer_number() + first_number_;
  }
  bool is_same_again(ReferenceStage& there, ReferenceStage& again, const std::string& name);
  void add(ReferenceStage stage, const std::string& name, bool bound);
  std::vector<Stage> possible(const Named& named);
  double resolution_as_typed(const Named& named, const Tensor& tensor);
  std::optional<Stage> element_of_pair(const io::Contents& contents, const io::Entry& entry) const;
  ReferenceStage value_of(const Named& named, Stage stage, const Tensor& tensor);
  std::size_t layer_number() const { return naming::layer_number(id_).value_or(0); }

  void say_own(bool own) { around_.one_layer = model_ && (own || model_->one_layer); }
  /// Whether a name is another layer's, or the model's where a layer is read.
  bool is_elsewhere(const std::string& name) const;

  const Layer& layer_;
  const WholeModelOfLayer* model_;
  std::string id_;
  Surroundings around_;
  StageSet available_, bound_;
  std::size_t first_number_ = 0; ///< of the file's layers: 1 where it counts them from 1
  std::map<std::string, std::vector<std::string>> rearranged_; ///< names by how they are read
  std::vector<std::string> twice_; ///< tensors whose stage is there by another name
  Reference reference_;
};

} // namespace mha
