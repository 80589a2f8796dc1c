#pragma once
// Several observers of one computation.

#include <mha/observe/mergeable.hpp>

#include <unordered_map>
#include <utility>
#include <vector>

namespace mha {

/// Shows every block to each of its observers that wants the stage and the batch item. Observers of
/// one batch item are found by the item, since there may be many.
class Several : public Observer {
public:
  void add(Observer& observer) {
    const std::optional<std::size_t> batch = observer.batch();
    (batch ? of_item_[*batch] : of_all_).emplace_back(&observer, observer.wants());
    wants_ |= observer.wants();
  }

  StageSet wants() const override { return wants_; }
  void observe(const Slice& block) override {
    pass_on(of_all_, block);
    if (const auto own = of_item_.find(block.batch); own != of_item_.end())
      pass_on(own->second, block);
  }

private:
  using Observers = std::vector<std::pair<Observer*, StageSet>>;
  static void pass_on(const Observers& observers, const Slice& block) {
    for (const auto& [observer, stages] : observers)
      if (contains(stages, block.stage)) observer->observe(block);
  }
  Observers of_all_;
  std::unordered_map<std::size_t, Observers> of_item_;
  StageSet wants_;
};

/// The same for Mergeable observers.
class SeveralMergeable : public Mergeable {
public:
  void add(Mergeable& observer) {
    all_of_them_.add(observer);
    observers_.push_back(&observer);
  }

  StageSet wants() const override { return all_of_them_.wants(); }
  void observe(const Slice& block) override { all_of_them_.observe(block); }
  void share(const Layer& layer, const Plan& part, ShareBytes& bytes) override {
    for (Mergeable* observer : observers_) observer->share(layer, part, bytes);
  }

private:
  Several all_of_them_;
  std::vector<Mergeable*> observers_;
};

} // namespace mha
