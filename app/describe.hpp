#pragma once
// One-line descriptions of layers and models.

#include <mha/model/opened_model.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

/// "data/induction layer 1 (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal" and a line
/// break. Parts that exceed the width are dropped.
std::string headline(const OpenedModel& model, const LoadedLayer& loaded,
                     const render::TextStyle& text_style);
/// The full headline without a line break.
std::string headline_text(const OpenedModel& model, const LoadedLayer& loaded);
/// The headline without the source's name: "layer 1 (LLaMA names) · 4 heads × 16 · …".
std::string description(const LoadedLayer& loaded);
/// A path for results that others read: only the last part of an absolute path or of one that
/// consists of dots.
std::string shown_path(const std::string& text);
/// The title of a picture or a page: the sources as typed, but only the last part of an absolute
/// path, because its folders mean nothing on another machine.
std::string title_of(const OpenedModel& model);

} // namespace mha::app
