// A word ends where the script changes. Blanks belong to every script, kana to Han.

#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <algorithm>
#include <array>

#include <oniguruma.h>

namespace mha::tokenizers {

namespace {

constexpr std::array<std::string_view, 161> names{"Han",
                                                  "Hiragana",
                                                  "Katakana",
                                                  "Common",
                                                  "Inherited",
                                                  "Latin",
                                                  "Greek",
                                                  "Cyrillic",
                                                  "Arabic",
                                                  "Hebrew",
                                                  "Devanagari",
                                                  "Bengali",
                                                  "Thai",
                                                  "Hangul",
                                                  "Adlam",
                                                  "Ahom",
                                                  "Anatolian_Hieroglyphs",
                                                  "Armenian",
                                                  "Avestan",
                                                  "Balinese",
                                                  "Bamum",
                                                  "Bassa_Vah",
                                                  "Batak",
                                                  "Bhaiksuki",
                                                  "Bopomofo",
                                                  "Brahmi",
                                                  "Braille",
                                                  "Buginese",
                                                  "Buhid",
                                                  "Canadian_Aboriginal",
                                                  "Carian",
                                                  "Caucasian_Albanian",
                                                  "Chakma",
                                                  "Cham",
                                                  "Cherokee",
                                                  "Chorasmian",
                                                  "Coptic",
                                                  "Cuneiform",
                                                  "Cypriot",
                                                  "Cypro_Minoan",
                                                  "Deseret",
                                                  "Dives_Akuru",
                                                  "Dogra",
                                                  "Duployan",
                                                  "Egyptian_Hieroglyphs",
                                                  "Elbasan",
                                                  "Elymaic",
                                                  "Ethiopic",
                                                  "Georgian",
                                                  "Glagolitic",
                                                  "Gothic",
                                                  "Grantha",
                                                  "Gujarati",
                                                  "Gunjala_Gondi",
                                                  "Gurmukhi",
                                                  "Hanifi_Rohingya",
                                                  "Hanunoo",
                                                  "Hatran",
                                                  "Imperial_Aramaic",
                                                  "Inscriptional_Pahlavi",
                                                  "Inscriptional_Parthian",
                                                  "Javanese",
                                                  "Kaithi",
                                                  "Kannada",
                                                  "Kayah_Li",
                                                  "Kharoshthi",
                                                  "Khitan_Small_Script",
                                                  "Khmer",
                                                  "Khojki",
                                                  "Khudawadi",
                                                  "Lao",
                                                  "Lepcha",
                                                  "Limbu",
                                                  "Linear_A",
                                                  "Linear_B",
                                                  "Lisu",
                                                  "Lycian",
                                                  "Lydian",
                                                  "Mahajani",
                                                  "Makasar",
                                                  "Malayalam",
                                                  "Mandaic",
                                                  "Manichaean",
                                                  "Marchen",
                                                  "Masaram_Gondi",
                                                  "Medefaidrin",
                                                  "Meetei_Mayek",
                                                  "Mende_Kikakui",
                                                  "Meroitic_Cursive",
                                                  "Meroitic_Hieroglyphs",
                                                  "Miao",
                                                  "Modi",
                                                  "Mongolian",
                                                  "Mro",
                                                  "Multani",
                                                  "Myanmar",
                                                  "Nabataean",
                                                  "Nandinagari",
                                                  "New_Tai_Lue",
                                                  "Newa",
                                                  "Nko",
                                                  "Nushu",
                                                  "Nyiakeng_Puachue_Hmong",
                                                  "Ogham",
                                                  "Ol_Chiki",
                                                  "Old_Hungarian",
                                                  "Old_Italic",
                                                  "Old_North_Arabian",
                                                  "Old_Permic",
                                                  "Old_Persian",
                                                  "Old_Sogdian",
                                                  "Old_South_Arabian",
                                                  "Old_Turkic",
                                                  "Old_Uyghur",
                                                  "Oriya",
                                                  "Osage",
                                                  "Osmanya",
                                                  "Pahawh_Hmong",
                                                  "Palmyrene",
                                                  "Pau_Cin_Hau",
                                                  "Phags_Pa",
                                                  "Phoenician",
                                                  "Psalter_Pahlavi",
                                                  "Rejang",
                                                  "Runic",
                                                  "Samaritan",
                                                  "Saurashtra",
                                                  "Sharada",
                                                  "Shavian",
                                                  "Siddham",
                                                  "SignWriting",
                                                  "Sinhala",
                                                  "Sogdian",
                                                  "Sora_Sompeng",
                                                  "Soyombo",
                                                  "Sundanese",
                                                  "Syloti_Nagri",
                                                  "Syriac",
                                                  "Tagalog",
                                                  "Tagbanwa",
                                                  "Tai_Le",
                                                  "Tai_Tham",
                                                  "Tai_Viet",
                                                  "Takri",
                                                  "Tamil",
                                                  "Tangsa",
                                                  "Tangut",
                                                  "Telugu",
                                                  "Thaana",
                                                  "Tibetan",
                                                  "Tifinagh",
                                                  "Tirhuta",
                                                  "Toto",
                                                  "Ugaritic",
                                                  "Vai",
                                                  "Vithkuqi",
                                                  "Wancho",
                                                  "Warang_Citi",
                                                  "Yezidi",
                                                  "Yi",
                                                  "Zanabazar_Square"};
constexpr int han = 0, last_kana = 2, any = -1;

/// Oniguruma's numbers of the scripts' properties; the names that it does not know stay out.
std::vector<int> properties() {
  std::vector<int> list;
  for (const std::string_view name : names) {
    const auto* first = reinterpret_cast<const OnigUChar*>(name.data());
    OnigUChar* begin = const_cast<OnigUChar*>(first); // the library only reads it
    list.push_back(
        ONIG_ENCODING_UTF8->property_name_to_ctype(ONIG_ENCODING_UTF8, begin, begin + name.size()));
  }
  return list;
}

/// The place of a character's script in `names`; `any` of a blank and of what has no script.
int script_of(char32_t c, int likely) {
  static const std::vector<int> ctypes = properties();
  if (c == ' ') return any;
  if (c == 0x30fc) return han; // the mark of a long vowel
  const auto has = [&](std::size_t script) {
    return ctypes[script] >= 0 &&
           ONIG_ENCODING_UTF8->is_code_ctype(c, static_cast<OnigCtype>(ctypes[script]));
  };
  if (likely > last_kana && has(static_cast<std::size_t>(likely))) return likely;
  for (std::size_t script = 0; script < names.size(); ++script)
    if (has(script)) return script <= last_kana ? han : static_cast<int>(script);
  return any;
}

std::vector<Match> runs_of_scripts(std::string_view text) {
  std::vector<Match> list;
  int last = any;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const int script = script_of(next_character(text, at), last);
    if (list.empty() && script == any) continue; // before the first script: in no word
    if (list.empty() || (script != any && script != last))
      list.push_back({first, at, true});
    else
      list.back().end = at;
    if (script != any) last = script;
  }
  return list;
}

} // namespace

PreTokenizer unicode_scripts(Fields&) {
  return {split_at(runs_of_scripts, Behavior::isolated)};
}

} // namespace mha::tokenizers
