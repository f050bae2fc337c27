#include "signature.h"

#include <cctype>
#include <stdexcept>
#include <utility>

namespace returnn {
namespace {

std::string stripped(const std::string &text) {
  const char *spaces = " \n\t";
  const size_t begin = text.find_first_not_of(spaces);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

// What is before and behind the separator; all is before it if there is none.
std::pair<std::string, std::string> split_at(const std::string &text, const std::string &separator) {
  const size_t at = text.find(separator);
  if (at == std::string::npos) return {stripped(text), ""};
  return {stripped(text.substr(0, at)), stripped(text.substr(at + separator.size()))};
}

// By the commas that are not in brackets.
std::vector<std::string> parts_of(const std::string &text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      parts.push_back(stripped(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!stripped(part).empty()) parts.push_back(stripped(part));
  return parts;
}

bool is_number(const std::string &text) { return text.find_first_not_of("0123456789") == std::string::npos; }

DimExpression parse_dim(const std::string &text) {
  if (text.empty()) throw std::invalid_argument("signature: a dim is missing");
  if (is_number(text)) return {"", 0, std::stoll(text)};
  const auto sum = split_at(text, "+");
  const size_t digits = sum.first.find_first_not_of("0123456789");
  const int64_t factor = digits == 0 ? 1 : std::stoll(sum.first.substr(0, digits));
  return {sum.first.substr(digits), factor, sum.second.empty() ? 0 : std::stoll(sum.second)};
}

ArraySpec parse_array(const std::string &text) {
  ArraySpec array;
  const auto named = split_at(text, ":");
  const size_t begin = named.second.find('['), end = named.second.find(']');
  if (begin == std::string::npos || end == std::string::npos)
    throw std::invalid_argument("signature: an array is `name: type[dims]`, not " + text);
  array.name = named.first;
  array.type = stripped(named.second.substr(0, begin));
  for (const std::string &dim : parts_of(named.second.substr(begin + 1, end - begin - 1)))
    array.dims.push_back(parse_dim(dim));
  array.optional = stripped(named.second.substr(end + 1)) == "?";
  return array;
}

std::string as_text(const std::vector<int64_t> &sizes) {
  std::string text = "(";
  for (const int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + (size < 0 ? "?" : std::to_string(size));
  return text + ")";
}

std::string as_text(const ArraySpec &spec) {
  std::string text = "[";
  for (const DimExpression &dim : spec.dims) {
    if (text.size() > 1) text += ", ";
    if (dim.factor > 1) text += std::to_string(dim.factor);
    text += dim.name;
    if (dim.name.empty() || dim.plus) text += (dim.name.empty() ? "" : "+") + std::to_string(dim.plus);
  }
  return text + "]";
}

}  // namespace

bool Signature::has_real() const {
  for (const auto *arrays : {&inputs, &outputs})
    for (const ArraySpec &array : *arrays)
      if (array.type == "real" || array.type == "state") return true;
  return false;
}

Signature parse_signature(const std::string &text) {
  Signature signature;
  const auto sides = split_at(text, "->");
  const auto given = split_at(sides.first, ";");
  for (const std::string &array : parts_of(given.first)) signature.inputs.push_back(parse_array(array));
  for (const std::string &option : parts_of(given.second)) {
    const auto named = split_at(option, ":");
    signature.options.push_back({named.first, named.second});
  }
  for (const std::string &array : parts_of(sides.second)) signature.outputs.push_back(parse_array(array));
  return signature;
}

std::string match_sizes(const ArraySpec &spec, const std::vector<int64_t> &sizes, Sizes &known) {
  for (const int64_t size : sizes)
    if (spec.optional && size == 0) return "";
  if (spec.optional)
    for (const int64_t size : sizes)
      if (size == UNKNOWN) return "";
  bool fits = sizes.size() == spec.dims.size();
  for (size_t i = 0; fits && i < sizes.size(); ++i) {
    const DimExpression &dim = spec.dims[i];
    if (sizes[i] == UNKNOWN) continue;
    const bool is_free = !dim.name.empty() && !known.count(dim.name);
    if (is_free && sizes[i] >= dim.plus && (sizes[i] - dim.plus) % dim.factor == 0)
      known[dim.name] = (sizes[i] - dim.plus) / dim.factor;
    fits = size_of(dim, known) == sizes[i];
  }
  if (fits) return "";
  std::string where;
  for (const auto &entry : known) where += (where.empty() ? "" : ", ") + entry.first + " = " + std::to_string(entry.second);
  return spec.name + " has the shape " + as_text(sizes) + ", but " + as_text(spec) + " is expected" +
         (where.empty() ? "" : ", with " + where);
}

int64_t size_of(const DimExpression &dim, const Sizes &known) {
  if (dim.name.empty()) return dim.plus;
  const auto found = known.find(dim.name);
  return found == known.end() ? UNKNOWN : dim.factor * found->second + dim.plus;
}

}  // namespace returnn
