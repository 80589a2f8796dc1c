#pragma once
// One routine for float32 products of every size, until the end of the test.

#include <mha/kernels/routine.hpp>

#include <optional>

struct WithRoutine {
  explicit WithRoutine(mha::Routine routine) { mha::set_routine(routine); }
  ~WithRoutine() { mha::set_routine(std::nullopt); }
  WithRoutine(const WithRoutine&) = delete;
  WithRoutine& operator=(const WithRoutine&) = delete;
};
