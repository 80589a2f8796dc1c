#pragma once
// Edits of a model: of a stage, written PLACE OP VALUE like 'layers.3.head_out[0,-1] *= 0.5'
// (docs/models.md), of settings, and of tensors.

#include <mha/layer/settings.hpp>
#include <mha/layer/stage_place.hpp>
#include <mha/system/message.hpp>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mha {

/// Another run that a value is taken from: "from 'love'", "from ids 5,7", "from @FILE", or one that
/// a program names.
struct ValueSource {
  std::string text;
  std::optional<AxisPositions>
      tokens; ///< in its texts ("from 'love'[-1]"); none: those of the place
};

/// The value that an edit gives its place.
struct EditValue {
  enum class Kind : std::uint8_t { number, mean, file, tensor, run };
  std::string text; ///< as written
  Kind kind = Kind::number;
  double number = 0;
  std::string file; ///< FILE[:TENSOR][@AXES]
  Tensor tensor;
  ValueSource run;
  std::optional<ValueSource> less; ///< the run whose values are taken off those of `run`
  double factor = 1;               ///< multiplies all of it

  /// A number, 0, a tensor, what a run has, its mean.
  static EditValue of_number(double number);
  static EditValue zero();
  static EditValue of_tensor(Tensor tensor);
  static EditValue of_run(std::string run);
  static EditValue of_mean();
  /// Whether it is computed from other runs.
  bool is_of_runs() const { return kind == Kind::mean || kind == Kind::run; }
};

/// A place, and what is done with its numbers.
struct StageEdit {
  StagePlace place;
  PatchOp op = PatchOp::set;
  EditValue value;
  std::string text; ///< the whole edit, for messages

  /// Of a place and a value, with the text that is written for them.
  static StageEdit of(StagePlace place, PatchOp op, EditValue value);
};

/// A setting and its new value.
struct SettingEdit {
  std::string name;          ///< "rope_factor"
  std::string value;         ///< as the table reads it: "8", "true", "d_model"
  std::string shown = value; ///< for messages, in which fitted numbers are rounded

  SettingEdit(std::string_view of, std::string_view text) : name(of), value(text) {}
  template <class T>
  requires std::integral<T> || std::floating_point<T> SettingEdit(std::string_view of, T exact)
      : name(of), value(fmt::format("{}", exact)) {}
  /// An exact number, shown with so many digits.
  SettingEdit(std::string_view of, double exact, int digits)
      : SettingEdit(of, exact, fmt::format("{:.{}g}", exact, digits)) {}
  /// An exact number, shown as this text.
  SettingEdit(std::string_view of, double exact, std::string_view text)
      : name(of), value(fmt::format("{}", exact)), shown(text) {}
};

/// A tensor of a layer that gets other numbers, or is read with other axes.
struct TensorEdit {
  std::string name;            ///< as Layer::with takes it: "W_q"
  Tensor tensor = {};          ///< the numbers; empty: the file's
  std::string axes = {};       ///< "OI"
  std::string source = "FILE"; ///< where the tensor is stored, once it is known
  std::size_t layer = 0;       ///< of a whole model
};

/// A change of a layer.
using Edit = std::variant<StageEdit, SettingEdit, TensorEdit>;
/// As the reader types it: "--patch 'head_out[0] = zero'", "--rope-base 500", "--no-causal",
/// "W_q=FILE@OI"; of a program "rope_base 500", "causal false".
Message text_of(const Edit& edit);

/// Several edits in order: `Edits{{"rope_scaling", "linear"}, {"rope_factor", 8}}`.
class Edits {
public:
  Edits() = default;
  Edits(std::initializer_list<SettingEdit> settings) : list_(settings.begin(), settings.end()) {}

  void add(Edit edit) { list_.push_back(std::move(edit)); } ///< after the others
  bool empty() const { return list_.empty(); }
  /// Those of one kind.
  template <class T> std::vector<T> of() const {
    std::vector<T> found;
    for (const Edit& edit : list_)
      if (const T* own = std::get_if<T>(&edit)) found.push_back(*own);
    return found;
  }
  /// The edit of a tensor; null: there is none.
  TensorEdit* tensor();
  /// Gives the settings their new values. Throws Error as `set` does: "rope_base is '-1': a
  /// positive number expected".
  void apply(Settings& settings) const;
  Message text() const;

private:
  std::vector<Edit> list_;
};

/// Throws Error with what is expected where.
StageEdit parse_edit(const std::string& text);

/// The values of a stage in another run, batch axis first, and the number of tokens of each of its
/// texts; without lengths they have as many as this run's.
struct UnpatchedValues {
  Tensor values;
  std::vector<std::size_t> lengths;
  Layer tokens; ///< where its places are: sizes, lengths and labels; without sizes: this run's

  UnpatchedValues(Tensor of_stage, std::vector<std::size_t> of_texts = {},
                  Layer tokens_of_texts = {})
      : values(std::move(of_stage)),
        lengths(std::move(of_texts)),
        tokens(std::move(tokens_of_texts)) {}
};

/// The layer without its weights and input: enough to find the places of its stages.
Layer tokens_alone(const Layer& layer);

/// The values of an unpatched run: of this run's texts for `mean`, else of the texts that `run`
/// names.
using UnpatchedStage = std::function<UnpatchedValues(Stage stage, const std::string& run)>;

/// The edit as a patch of a layer: positions on its axes, its value in the layer's precision.
/// `number` is the layer's, for files with an axis of layers. Throws Error where a place or a value
/// does not fit.
ResolvedEdit patch_of(const StageEdit& edit, const Layer& layer, std::size_t number,
                      const UnpatchedStage& unpatched);

/// Whether an edit's place is in a tensor of a layer, 'layers.3.W_q[0] *= 2', not in a stage.
bool is_of_tensor(const StageEdit& edit);
/// Changes the layer's tensor, and adds a patch without a value to each stage that reads it, by
/// which it is known to have been read. Throws Error where the edit does not fit.
IsRead edit_tensor(Layer& layer, const StageEdit& edit, std::size_t number);

} // namespace mha
