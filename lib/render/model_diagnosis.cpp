#include <mha/render/diagnose.hpp>
#include <mha/render/diff_parts.hpp>
#include <mha/render/overview.hpp>
#include <mha/render/table.hpp>
#include <mha/system/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::render {

namespace {

std::string name_of_place(const std::string& id) {
  return id.empty() ? "the model's end" : id == "embed" ? "embedding" : "layer " + id;
}

std::string causes_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Change& change : diagnosis.changes) ids.push_back(change.id);
  return joined(ids);
}

std::string sentences_of(const std::vector<OtherStep>& captures) {
  return joined_texts(captures, "; ", &OtherStep::sentence);
}

/// "agrees", the causes' names, or "nothing explains it".
std::string verdict_of_place(const Diagnosis& diagnosis) {
  if (!diagnosis.captures.empty() && diagnosis.explained)
    return fmt::format("{}{}", sentences_of(diagnosis.captures),
                       diagnosis.equal ? "" : ", and " + causes_of(diagnosis));
  if (diagnosis.equal) return "agrees";
  const std::string ids = causes_of(diagnosis);
  if (!diagnosis.explained)
    return ids.empty() ? fmt::format("differs in {}, and nothing explains it",
                                     mha::name_of(*diagnosis.unexplained))
                       : fmt::format("{}, which explain{} a part", ids,
                                     diagnosis.changes.size() == 1 ? "s" : "");
  return ids;
}

/// Whether two verdicts are the same one.
bool same_verdict(const Diagnosis& a, const Diagnosis& b) {
  if (a.equal != b.equal || a.explained != b.explained || a.unexplained != b.unexplained ||
      a.changes.size() != b.changes.size() || a.captures != b.captures)
    return false;
  for (std::size_t i = 0; i < a.changes.size(); ++i)
    if (a.changes[i].id != b.changes[i].id || a.changes[i].did != b.changes[i].did) return false;
  return true;
}

} // namespace

std::string model_diagnosis_text(const ModelDiagnosis& found, std::string_view title,
                                 const TextStyle& text_style) {
  Table grid({{""}, {"", false, true}});
  std::string details;
  for (std::size_t i = 0; i < found.places.size();) {
    const PlaceDiagnosis& place = found.places[i];
    std::vector<std::string> ids{place.id};
    std::size_t next = i + 1;
    const auto is_layer = [](const PlaceDiagnosis& one) {
      return !one.id.empty() && one.id != "embed";
    };
    while (next < found.places.size() && is_layer(place) && is_layer(found.places[next]) &&
           same_verdict(place.diagnosis, found.places[next].diagnosis))
      ids.push_back(found.places[next++].id);
    const std::string name = ids.size() == 1 ? name_of_place(place.id) : "layers " + ranges_of(ids);
    grid.add({name, verdict_of_place(place.diagnosis)});
    if (!place.diagnosis.equal || !place.diagnosis.captures.empty())
      details += "\n" + headline(title, place.words, text_style) + "\n" +
                 diagnosis_text(place.diagnosis, text_style);
    i = next;
  }
  std::string text = grid.text(text_style) + "\n";
  if (std::ranges::all_of(found.places, [](const PlaceDiagnosis& one) {
        return one.diagnosis.equal && one.diagnosis.captures.empty();
      }))
    text += found.coverage.lacks_steps()
                ? "What was compared agrees with the model within rounding; the rest is open.\n"
                : "The reference agrees with the model within rounding: nothing to explain.\n";
  if (!found.undecided.empty())
    for (const std::string& line : wrapped(found.undecided + ".", text_style.width))
      text += line + "\n";
  if (!found.not_judged.empty())
    for (const std::string& line : wrapped(
             fmt::format("Not judged: {}: the reference has no stream there, and what comes before "
                         "is not explained.",
                         found.not_judged),
             text_style.width))
      text += line + "\n";
  return text + coverage_text(found.coverage, text_style) + details;
}

} // namespace mha::render
