#pragma once
// State that copies of an object share.

#include <mha/system/error.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <utility>

namespace mha {

/// Matches {"q", "k"} where one name is expected: a std::string_view would treat the two pointers
/// as the ends of one text and read the memory between them. Such overloads are deleted.
using TwoNames = std::initializer_list<const char*>;

/// State that copies share. Using an object that was moved from is an Error.
template <class State> class Shared {
public:
  Shared() = default;
  template <std::convertible_to<std::shared_ptr<State>> Pointer> Shared(Pointer state)
      : state_(std::move(state)) {}
  ///@{
  /// The state. Throws Error if it was moved away.
  const std::shared_ptr<State>& get() const {
    if (!state_) fail("the object was moved from: use the one that has its contents now");
    return state_;
  }
  State* operator->() const { return get().get(); }
  State& operator*() const { return *get(); }
  ///@}

private:
  std::shared_ptr<State> state_;
};

} // namespace mha
