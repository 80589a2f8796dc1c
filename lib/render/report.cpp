#include <mha/render/report.hpp>

#include <mha/render/colormap.hpp>
#include <mha/render/encodings.hpp>
#include <mha/render/label.hpp>
#include <mha/render/numbers.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/references.hpp>

#include <nlohmann/json.hpp>

#include <cmath>

namespace mha::render {

namespace {

using PageJson = nlohmann::json;

/// JSON as text inside <script>: nothing in it can end the element or open a comment, and no line
/// separator is there that scripts of old would have stumbled over.
std::string for_script(const PageJson& value) {
  // ASCII: U+2028 is \u2028.
  return with_replaced(value.dump(-1, ' ', true, PageJson::error_handler_t::replace),
                       {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

std::string for_html(std::string_view text) {
  return with_replaced(visible(text), {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}});
}

/// A number, or null where it is missing or not finite.
PageJson number_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? PageJson(*value) : PageJson(nullptr);
}
/// Four digits are enough for bars and labels.
PageJson page_numbers(const std::vector<float>& values) {
  PageJson list = PageJson::array();
  for (float value : values)
    list.push_back(std::isfinite(value) ? PageJson::parse(fmt::format("{:.5g}", value))
                                        : PageJson(nullptr));
  return list;
}

std::string_view row_form_name(RowForm form) {
  constexpr std::array<std::string_view, 4> names{"exact", "rounded", "largest", "bits"};
  return names[static_cast<std::size_t>(form)];
}

/// Collects the chunks of all layers; JSON names them by number.
class PageData {
public:
  PageJson add(const PackedStage& stage) {
    PageJson heads = PageJson::array();
    for (const std::string& bytes : stage.heads) {
      heads.push_back(chunks_.size());
      chunks_.push_back(&bytes);
    }
    return {{"form", row_form_name(stage.form)},
            {"rows", stage.rows},
            {"cols", stage.cols},
            {"kept", stage.kept},
            {"factors", {stage.row_factor, stage.col_factor}},
            {"heads", std::move(heads)}};
  }
  void write(const Sink& sink) const {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      sink(fmt::format("<script type=\"text/plain\" id=\"chunk{}\">", i));
      sink(base64(*chunks_[i]));
      sink("</script>\n");
    }
  }

private:
  std::vector<const std::string*> chunks_;
};

std::vector<std::string> readable_all(const std::vector<std::string>& labels) {
  std::vector<std::string> texts;
  for (const std::string& label : labels) texts.push_back(readable(label));
  return texts;
}

PageJson measures_of(const LayerReport& layer) {
  PageJson list = PageJson::array();
  for (const HeadMeasures& head : layer.measures) {
    PageJson values = PageJson::array();
    for (const Measure& measure : measures()) values.push_back(number_or_null(measure.of(head)));
    for (const HeadNumbers& numbers : layer.effects)
      values.push_back(number_or_null(numbers.of_heads[list.size()]));
    list.push_back({{"kind", shown_kind(head.kind)}, {"values", std::move(values)}});
  }
  return list;
}

PageJson object_of(const LayerReport& layer, PageData& chunks) {
  PageJson stages = PageJson::object();
  for (const auto& [name, packed] : layer.stages) {
    stages[name] = chunks.add(packed);
    const auto form = layer.forms.find(name);
    if (form == layer.forms.end()) continue;
    stages[name]["stage"] = mha::name_of(form->second);
    stages[name]["given"] = contains(layer.given, form->second);
  }
  PageJson contributions = PageJson::array();
  for (const HeadContribution& head : layer.contributions)
    contributions.push_back(
        {{"norm", page_numbers(head.norm)}, {"share", page_numbers(head.share)}});
  PageJson object{{"id", layer.id},
                  {"dtype", mha::name_of(layer.dtype)},
                  {"headline", layer.headline},
                  {"heads", layer.heads},
                  {"kv", layer.kv_of},
                  {"T", layer.dims.T},
                  {"S", layer.dims.S_all},
                  {"d_k", layer.dims.d_k},
                  {"d_v", layer.dims.d_v},
                  {"tokens", readable_all(layer.tokens)},
                  {"scale", layer.scale},
                  {"softcap", layer.settings.softcap},
                  {"columns", layer.settings.columns},
                  {"biased", layer.has_b_q},
                  {"sinks", layer.has_sinks},
                  {"projects", layer.has_W_o},
                  {"result", layer.result_formula},
                  {"stages", std::move(stages)},
                  {"contributions", std::move(contributions)},
                  {"outputNorm", page_numbers(layer.output_norm)},
                  {"measures", measures_of(layer)}};
  for (const HiddenKeys::KeyRange& run : layer.visible) {
    object["visible"].push_back(run.first);
    object["visible"].push_back(run.end);
  }
  if (!layer.experts.numbers.empty())
    object["experts"] = {{"count", layer.dims.E},
                         {"chosen", layer.dims.n},
                         {"of", layer.experts.numbers},
                         {"weights", page_numbers(layer.experts.weights)}};
  if (!layer.temperatures.empty()) object["temperatures"] = page_numbers(layer.temperatures);
  if (layer.batch) object["batch"] = *layer.batch;
  if (layer.keys != layer.tokens) object["keys"] = readable_all(layer.keys);
  return object;
}

} // namespace

void report_page(const std::vector<LayerReport>& layers, const ReportTitle& title,
                 const Sink& sink) {
  PageData chunks;
  PageJson data{{"title", title.title}, {"program", title.program}, {"layers", PageJson::array()}};
  for (const char* name : {"viridis", "diverging"})
    for (std::uint32_t point : color_map_named(name).points)
      data["colors"][name].push_back(fmt::format("{:06x}", point));
  data["measures"] = PageJson::array();
  for (const LayerReport& layer : layers) data["layers"].push_back(object_of(layer, chunks));
  for (const Measure& measure : measures())
    data["measures"].push_back({{"name", measure.name},
                                {"text", typed(of_literal(measure.text))},
                                {"count", measure.form == Measure::Form::count}});
  for (const HeadNumbers& numbers : layers.empty() ? std::vector<HeadNumbers>() : layers[0].effects)
    data["measures"].push_back({{"name", numbers.name}, {"text", numbers.text}, {"count", false}});
  for (const HeadKind& kind : head_kinds())
    data["kinds"].push_back({{"name", shown_kind(kind.name)}, {"text", kind.text}});
  sink(page_start);
  sink(for_html(title.title));
  sink(page_middle);
  sink("<script type=\"application/json\" id=\"data\">");
  sink(for_script(data));
  sink("</script>\n");
  chunks.write(sink);
  sink(page_end);
}

} // namespace mha::render
