#pragma once
// The checks of lint that look at masks. A check is one function here and one line in lint.cpp.

#include <mha/lint/lint.hpp>

namespace mha {

using Texts = std::vector<Message>;

void find_mask_named_bias(const LintSubject& subject, Texts& texts);
void find_inverted_mask(const LintSubject& subject, Texts& texts);
void find_masked_rows(const LintSubject& subject, Texts& texts);
void find_small_mask_constant(const LintSubject& subject, Texts& texts);

} // namespace mha
