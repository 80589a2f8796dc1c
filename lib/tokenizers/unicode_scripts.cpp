// The pre-tokenizer UnicodeScripts, which ends a word where the script of the characters changes. A
// space does not end a word, and kana count as Han.

#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <iterator>
#include <string_view>
#include <vector>

#include <oniguruma.h>

namespace mha::tokenizers {

namespace {

// clang-format off
constexpr std::string_view script_names[] = {
    "Han", "Hiragana", "Katakana", "Common", "Inherited", "Latin", "Greek", "Cyrillic", "Arabic",
    "Hebrew", "Devanagari", "Bengali", "Thai", "Hangul", "Adlam", "Ahom", "Anatolian_Hieroglyphs",
    "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah", "Batak", "Bhaiksuki", "Bopomofo",
    "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal", "Carian", "Caucasian_Albanian",
    "Chakma", "Cham", "Cherokee", "Chorasmian", "Coptic", "Cuneiform", "Cypriot", "Cypro_Minoan",
    "Deseret", "Dives_Akuru", "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic",
    "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Grantha", "Gujarati", "Gunjala_Gondi",
    "Gurmukhi", "Hanifi_Rohingya", "Hanunoo", "Hatran", "Imperial_Aramaic", "Inscriptional_Pahlavi",
    "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Kayah_Li", "Kharoshthi",
    "Khitan_Small_Script", "Khmer", "Khojki", "Khudawadi", "Lao", "Lepcha", "Limbu", "Linear_A",
    "Linear_B", "Lisu", "Lycian", "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic",
    "Manichaean", "Marchen", "Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui",
    "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian", "Mro", "Multani",
    "Myanmar", "Nabataean", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu",
    "Nyiakeng_Puachue_Hmong", "Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic",
    "Old_North_Arabian", "Old_Permic", "Old_Persian", "Old_Sogdian", "Old_South_Arabian",
    "Old_Turkic", "Old_Uyghur", "Oriya", "Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene",
    "Pau_Cin_Hau", "Phags_Pa", "Phoenician", "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan",
    "Saurashtra", "Sharada", "Shavian", "Siddham", "SignWriting", "Sinhala", "Sogdian",
    "Sora_Sompeng", "Soyombo", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa",
    "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana",
    "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai", "Vithkuqi", "Wancho",
    "Warang_Citi", "Yezidi", "Yi", "Zanabazar_Square"};
// clang-format on
constexpr int han = 0, last_kana = 2, no_script = -1;

/// Oniguruma's number of the property of each script; negative for a name that it does not know.
std::vector<int> script_properties() {
  std::vector<int> list;
  for (const std::string_view name : script_names) {
    const auto* first = reinterpret_cast<const OnigUChar*>(name.data());
    OnigUChar* begin = const_cast<OnigUChar*>(first); // the library only reads it
    list.push_back(
        ONIG_ENCODING_UTF8->property_name_to_ctype(ONIG_ENCODING_UTF8, begin, begin + name.size()));
  }
  return list;
}

/// The index of a character's script in `script_names`; `no_script` of a space and of a character
/// without one. The script of the character before, `previous`, is tried first.
int script_of(char32_t c, int previous) {
  static const std::vector<int> properties = script_properties();
  if (c == ' ') return no_script;
  if (c == 0x30fc) return han; // the mark of a long vowel
  const auto has = [&](std::size_t script) {
    return properties[script] >= 0 &&
           ONIG_ENCODING_UTF8->is_code_ctype(c, static_cast<OnigCtype>(properties[script]));
  };
  if (previous > last_kana && has(static_cast<std::size_t>(previous))) return previous;
  for (std::size_t script = 0; script < std::size(script_names); ++script)
    if (has(script)) return script <= last_kana ? han : static_cast<int>(script);
  return no_script;
}

std::vector<Match> runs_of_scripts(std::string_view text) {
  std::vector<Match> list;
  int last = no_script;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const int script = script_of(next_character(text, at), last);
    if (list.empty() && script == no_script) continue; // before the first script: in no word
    if (list.empty() || (script != no_script && script != last))
      list.push_back({first, at, true});
    else
      list.back().end = at;
    if (script != no_script) last = script;
  }
  return list;
}

} // namespace

PreTokenizer unicode_scripts(Fields&) {
  return {split_at(runs_of_scripts, Behavior::isolated)};
}

} // namespace mha::tokenizers
