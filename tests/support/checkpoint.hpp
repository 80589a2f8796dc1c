#pragma once
// Small checkpoints of the model families, written from canonical weights as the families lay them
// out, and read back through the program's own door.

#include <mha/load/assemble.hpp>
#include <mha/load/load.hpp>

#include <map>
#include <string>
#include <vector>

struct LayerSizes {
  std::size_t T = 5, S = 0, d_model = 12, H = 3, H_kv = 3, d = 4; ///< S: of X_kv; 0: self-attention
};

/// A layer of random numbers under the canonical names.
class CanonicalLayer {
public:
  /// X, W_q … W_o, and b_q … b_o for the letters of `biases`.
  explicit CanonicalLayer(LayerSizes sizes = {}, const std::string& biases = "qkvo");

  /// One more random tensor.
  CanonicalLayer& add(const std::string& name, mha::Shape shape);
  CanonicalLayer& set(const std::string& setting, const std::string& value);
  /// Rounds every weight to what bfloat16 can hold.
  CanonicalLayer& round_to_bf16();

  const mha::Tensor& operator[](const std::string& name) const { return tensors.at(name); }
  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  mha::Layer layer() const;

  LayerSizes sizes;
  std::map<std::string, mha::Tensor> tensors;

private:
  std::vector<std::pair<std::string, std::string>> settings_;
};

/// The rows that nn.Linear has for some heads of a projection (in, H · d); a bias counts as (1, H ·
/// d).
mha::Tensor head_rows(const mha::Tensor& W, std::size_t d, const std::vector<std::size_t>& heads);
/// Matrices on top of each other.
mha::Tensor stacked(const std::vector<mha::Tensor>& matrices);

/// A checkpoint folder, gone with the object.
class Checkpoint {
public:
  explicit Checkpoint(std::string config = "");
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  Checkpoint& add(const std::string& name, const mha::Tensor& tensor);
  /// MODULE.weight (out, in) and MODULE.bias, if there is one, of q, k, v or o.
  Checkpoint& linear(const std::string& module, const CanonicalLayer& layer,
                     const std::string& letter);
  /// The four of them: PREFIX + "q_proj" …
  Checkpoint& linears(const std::string& prefix, const std::vector<std::string>& modules,
                      const CanonicalLayer& layer);
  /// MODULE.weight and MODULE.bias with the rows that `runs` names: (letter, head), in their order.
  Checkpoint& fused(const std::string& module, const CanonicalLayer& layer,
                    const std::vector<std::pair<char, std::size_t>>& runs);
  Checkpoint& store_as(mha::DType dtype);

  /// Writes the folder.
  void write();
  /// Writes X beside it too, and loads the layer; `more`: --layer, settings … of the
  /// request.
  mha::LoadedLayer load(const CanonicalLayer& layer, mha::Request more = {});
  mha::LoadedLayer load(const CanonicalLayer& layer, const std::string& id);
  /// The layers that the folder holds.
  std::vector<mha::LayerListing> layers();
  const std::string& path() const { return path_; }

private:
  std::string path_, config_;
  mha::DType dtype_ = mha::DType::f32;
  std::vector<std::pair<std::string, mha::Tensor>> tensors_;
};

/// A request with one setting, as an option gives it.
mha::Request with(const std::string& setting, const std::string& value);

/// All heads of some letters one after the other: "qkv".
std::vector<std::pair<char, std::size_t>> one_after_the_other(const std::string& letters,
                                                              const LayerSizes& sizes);
/// Per key/value head its queries, its key, its value.
std::vector<std::pair<char, std::size_t>> by_group(const LayerSizes& sizes);

/// "" if every stage of the two has the same bits; else the first that has not.
std::string difference(const mha::Layer& got, const CanonicalLayer& want);
/// Whether one of the notes contains this text.
bool notes_say(const mha::LoadedLayer& layer, const std::string& text);
