#pragma once
// The token labels of a batch's items. Copies of a layer share them: a batch of thousands of texts
// has as many lists.

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// A list of labels for each batch item, one label a token; or no list at all. Copies share the
/// lists, which do not change.
class ItemLabels {
public:
  using List = std::vector<std::string>;

  ItemLabels() = default;
  /// `lists` has one list for each batch item, or is empty.
  ItemLabels(std::vector<List> lists)
      : lists_(lists.empty() ? nullptr
                             : std::make_shared<const std::vector<List>>(std::move(lists))) {}

  bool empty() const { return lists_ == nullptr; }
  std::size_t size() const { return lists_ ? lists_->size() : 0; }
  /// The labels of an item, of which there are `size`.
  const List& operator[](std::size_t item) const { return (*lists_)[item]; }
  /// A copy of all lists.
  std::vector<List> lists() const { return lists_ ? *lists_ : std::vector<List>(); }
  void clear() { lists_.reset(); }

private:
  std::shared_ptr<const std::vector<List>> lists_;
};

} // namespace mha
