#pragma once
// One computation, several observers.

#include <mha/observe/mergeable.hpp>
#include <mha/observe/share_bytes.hpp>

#include <utility>
#include <vector>

namespace mha {

/// Shows every block to each of its observers that wants the stage.
class Several : public Observer {
public:
  void add(Observer& observer) { observers_.emplace_back(&observer, observer.wants()); }

  StageSet wants() const override {
    StageSet all;
    for (const auto& [observer, stages] : observers_) all |= stages;
    return all;
  }
  void observe(const Slice& block) override {
    for (const auto& [observer, stages] : observers_)
      if (contains(stages, block.stage)) observer->observe(block);
  }

private:
  std::vector<std::pair<Observer*, StageSet>> observers_;
};

/// The same of observers whose parts can be put together.
class SeveralShareable : public Mergeable {
public:
  void add(Mergeable& observer) {
    shown_.add(observer);
    observers_.push_back(&observer);
  }

  StageSet wants() const override { return shown_.wants(); }
  void observe(const Slice& block) override { shown_.observe(block); }
  std::string part_bytes(const Layer& layer, const Plan& part) const override {
    ShareWriter bytes;
    for (const Mergeable* observer : observers_) bytes.add_text(observer->part_bytes(layer, part));
    return bytes.take();
  }
  void merge_part(const Layer& layer, const Plan& part, std::string_view bytes) override {
    ShareReader reader(bytes);
    for (Mergeable* observer : observers_) observer->merge_part(layer, part, reader.take_text());
    reader.end();
  }

private:
  Several shown_;
  std::vector<Mergeable*> observers_;
};

} // namespace mha
