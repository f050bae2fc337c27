// Signatures of kernels, as `x: real[T, N, 4F], d: real[N, F]?; backward: bool -> y: real[T, N, F]`.
//
// Dims are a number, a name, a multiple of a name, or one of these plus a number: `4F`, `T+1`. All arrays that are `real`
// have the same type. So have those that are `state`, but float32 where the others have 16 bits. After `?`, an array may be
// left out: then it has no elements. After `;` come options.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace returnn {

constexpr int64_t UNKNOWN = -1;

struct DimExpression {
  std::string name;  // empty: only `plus`
  int64_t factor = 1;
  int64_t plus = 0;
};

struct ArraySpec {
  std::string name;
  std::string type;  // real, state, float32, float64, int32, int64, uint8
  std::vector<DimExpression> dims;
  bool optional = false;
};

struct OptionSpec {
  std::string name;
  std::string type;  // bool, int, float
};

struct Signature {
  std::vector<ArraySpec> inputs;
  std::vector<OptionSpec> options;
  std::vector<ArraySpec> outputs;

  bool has_real() const;
};

using Sizes = std::map<std::string, int64_t>;

// Throws std::invalid_argument if the text is none.
Signature parse_signature(const std::string &text);

// Adds what the sizes of an array say about names; sizes can be UNKNOWN. Returns what is wrong, or an empty text.
std::string match_sizes(const ArraySpec &spec, const std::vector<int64_t> &sizes, Sizes &known);

// UNKNOWN if a name is.
int64_t size_of(const DimExpression &dim, const Sizes &known);

}  // namespace returnn
