#pragma once
// The words of a family's file beyond a user's description: rules of biases, steps, and the parts
// around attention under the names that the checkpoint has. Inside of read_description.

#include <mha/load/families/description.hpp>
#include <mha/load/json_tree.hpp>

#include <span>

namespace mha::description {

class FamilyRecord {
public:
  FamilyRecord(const JsonTree& tree, const naming::DescribedNorm& form, BlockShape shape,
               naming::Description& to)
      : tree_(tree), form_(form), shape_(shape), to_(to), record_(to.record) {}

  void make();

private:
  void read_rules();
  void read_steps();
  void read_texts();
  void read_returns();
  void take_embedding();
  void take_norms();
  void take_feed_forward();
  void take_head();

  std::string_view name_of_tensor(const char* key) const;
  std::string_view name_of_norm(const char* key) const;

  const JsonTree& tree_;
  const naming::DescribedNorm& form_;
  BlockShape shape_;
  naming::Description& to_;
  naming::ModelRecord& record_;
};

} // namespace mha::description
