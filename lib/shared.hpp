#pragma once
// State that copies of an object share.

#include <mha/system/error.hpp>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <utility>

namespace mha {

/// {"q", "k"} where one name is taken: a std::string_view would take the two for the ends of one
/// text, and read what lies between them. Such overloads are deleted.
using TwoNames = std::initializer_list<const char*>;

/// State that copies share. An object that was moved from has none; to use it then is an Error.
template <class State> class Shared {
public:
  Shared() = default;
  template <std::convertible_to<std::shared_ptr<State>> Pointer> Shared(Pointer state)
      : state_(std::move(state)) {}
  ///@{
  /// The state. Throws Error where it was moved away.
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
