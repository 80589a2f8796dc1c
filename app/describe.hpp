#pragma once
// A layer in one line.

#include <mha/model/opened_model.hpp>
#include <mha/render/text.hpp>

namespace mha::app {

/// "data/induction layer 1 (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal", with a line
/// break; between its parts it is cut to the columns that the look has.
std::string headline(const OpenedModel& model, const LoadedLayer& loaded,
                     const render::TextStyle& text_style);
/// The same in one line, however long, without a break.
std::string headline_text(const OpenedModel& model, const LoadedLayer& loaded);
/// What it says behind the source's name: "layer 1 (LLaMA names) · 4 heads × 16 · …".
std::string description(const LoadedLayer& loaded);
/// A path as it is shown to others: an absolute one, or one of dots alone, by its last part.
std::string shown_path(const std::string& text);
/// What a picture or a page that travels is called: the sources as they were typed, but of an
/// absolute path the last part alone, since its folders are this machine's.
std::string title_of(const OpenedModel& model);

} // namespace mha::app
