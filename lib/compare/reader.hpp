#pragma once
// Reading of a reference for one layer: from names, shapes and axes to stages.

#include <mha/compare/captures.hpp>
#include <mha/compare/reference.hpp>
#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/source.hpp>

namespace mha {

/// Reads the stages of one layer, or of the ends of a whole model. reader.cpp reads a tensor,
/// whole_reader.cpp decides which layer it belongs to.
class Reader {
public:
  Reader(const Layer& layer, std::string layer_id, const WholeModelOfLayer* model)
      : layer_(layer),
        model_(model),
        id_(std::move(layer_id)),
        available_(available_stages(layer)) {
    around_.block = layer.block.get();
    around_.results = layer.results;
    around_.qkv_order = find_setting("qkv_order")->get(layer.settings);
    if (!model) return;
    around_.bare_embedding = model->bare_embedding, around_.last_norm = model->last_norm;
    around_.one_layer = model->one_layer;
    around_.attention_returns = model->attention_returns, around_.mlp_returns = model->mlp_returns;
  }

  /// `own`: the file belongs to this layer only, because its path contains {layer}.
  void bind(const io::Source& source, bool own);
  void read(const ReferenceFile& file, bool own);
  Reference finish(const std::vector<std::string>& sources);

private:
  struct Named {
    std::string name;
    std::string where; ///< "z=out.npy" or "ref.npz: attn.hook_z", with the file as typed
    const io::Entry* entry = nullptr;
    std::string axes;
    bool bound = false;
    std::optional<Stage> stage{}; ///< the stage, if it is known
    std::string origin{};         ///< the file and its tensor; "" means `where`
    double factor = 1;            ///< what the stage is of the tensor, by its name
    std::string factor_name{};
  };
  void take(const Named& named);
  void take_result(Named named, const Capture& capture);
  void take_capture(const io::Contents& contents, const io::Entry& entry, const Capture& capture);
  std::optional<Stage> stage_beside(const io::Contents& contents, const io::Entry& entry,
                                    const Capture& capture) const;
  std::string why_not_a_step(const io::Contents& contents, const io::Entry& entry,
                             const Capture& capture) const;
  void skip(const Named& named, const std::string& why, bool meant);
  std::optional<ReferenceStage> part_of(const Named& named, Stage stage);
  std::optional<ReferenceStage> read_otherwise(const Named& named, Stage stage);
  Stage stage_of_axes(const Named& named, Stage stage) const;
  void misfit(const Named& named, Stage stage, const Tensor& tensor);
  std::string place_of(const std::string& name) const;
  bool number_is_mine(std::size_t number) const {
    return !id_.empty() && number == layer_number() + first_number_;
  }
  bool is_duplicate(ReferenceStage& first, ReferenceStage& second, const std::string& name);
  void add(ReferenceStage stage, const std::string& name, bool bound);
  Capture of_lone_layer(Capture capture) const;
  std::vector<Stage> possible(const Named& named);
  double resolution_as_typed(const Named& named, const Tensor& tensor);
  std::optional<Stage> element_of_pair(const io::Contents& contents, const io::Entry& entry) const;
  ReferenceStage value_of(const Named& named, Stage stage, const Tensor& tensor);
  std::size_t layer_number() const { return naming::layer_number(id_).value_or(0); }

  void set_own(bool own) { around_.one_layer = model_ && (own || model_->one_layer); }
  /// Whether a name belongs to another layer, or to the model's ends while a layer is read.
  bool is_elsewhere(const std::string& name) const;

  const Layer& layer_;
  const WholeModelOfLayer* model_;
  std::string id_;
  Surroundings around_;
  StageSet available_, bound_;
  std::size_t first_number_ = 0; ///< of the file's layers: 1 if it counts from 1
  std::map<std::string, std::vector<std::string>> rearranged_; ///< names by their reading
  std::vector<std::string> twice_; ///< tensors whose stage the reference has by another name
  Reference reference_;
};

} // namespace mha
