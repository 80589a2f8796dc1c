#pragma once
// The labels of a batch's items, which all copies of a layer share: a batch of thousands of texts
// has as many lists.

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mha {

/// A list of labels for each batch item, or nothing. Copies share the lists, which do not change.
class ItemLabels {
public:
  using List = std::vector<std::string>;

  ItemLabels() = default;
  /// One list a batch item; none: nothing.
  ItemLabels(std::vector<List> lists)
      : lists_(lists.empty() ? nullptr
                             : std::make_shared<const std::vector<List>>(std::move(lists))) {}

  bool empty() const { return lists_ == nullptr; }
  std::size_t size() const { return lists_ ? lists_->size() : 0; }
  /// The labels of an item; there are lists.
  const List& operator[](std::size_t item) const { return (*lists_)[item]; }
  /// All of them, to copy.
  std::vector<List> lists() const { return lists_ ? *lists_ : std::vector<List>(); }
  void clear() { lists_.reset(); }

private:
  std::shared_ptr<const std::vector<List>> lists_;
};

} // namespace mha
