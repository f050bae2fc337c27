// Runs one recorded call of a kernel, in a program that is compiled with sanitizers. Arrays have exactly their size in
// memory, so what is read or written beyond is found.
//
// The file: name of the kernel; number of threads; options; inputs; outputs. Counts and sizes are int64.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernel.h"

namespace {

int64_t read_number(FILE *file) {
  int64_t value = 0;
  if (std::fread(&value, sizeof(value), 1, file) != 1) std::exit(3);
  return value;
}

struct OwnedArray {
  std::vector<int64_t> sizes, strides;
  int32_t type = 0;
  size_t bytes = 0;
  void *data = nullptr;

  explicit OwnedArray(FILE *file) : sizes(read_number(file)), type(static_cast<int32_t>(read_number(file))) {
    size_t num = 1;
    for (int64_t &size : sizes) num *= size = read_number(file);
    strides.assign(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
    const size_t item[] = {4, 8, 4, 8, 1, 2, 2};
    bytes = num * item[type];
    data = std::malloc(bytes);
    std::memset(data, 0xFF, bytes);  // NaN
  }

  returnn_array array() const {
    return {data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), type};
  }
};

// What kernels of GPUs ask for. All of it is freed at the end.
struct Workspace {
  std::vector<void *> memory;

  ~Workspace() {
    for (void *data : memory) std::free(data);
  }

  static void *allocate(void *workspace, int64_t bytes) {
    void *data = std::malloc(bytes);
    std::memset(data, 0xFF, bytes);  // NaN
    static_cast<Workspace *>(workspace)->memory.push_back(data);
    return data;
  }
};

}  // namespace

int main(int, char **argv) {
  FILE *file = std::fopen(argv[1], "rb");
  if (file == nullptr) return 3;
  std::string name(read_number(file), ' ');
  if (std::fread(name.data(), 1, name.size(), file) != name.size()) return 3;
  const auto threads = static_cast<int32_t>(read_number(file));
  std::vector<double> options(read_number(file));
  for (double &option : options)
    if (std::fread(&option, sizeof(option), 1, file) != 1) return 3;
  std::vector<OwnedArray> owned;
  std::vector<returnn_array> inputs, outputs;
  const int64_t num_inputs = read_number(file), num_outputs = read_number(file);
  for (int64_t i = 0; i < num_inputs; ++i) {
    owned.emplace_back(file);
    if (std::fread(owned.back().data, 1, owned.back().bytes, file) != owned.back().bytes) return 3;
  }
  for (int64_t i = 0; i < num_outputs; ++i) owned.emplace_back(file);
  std::fclose(file);
  for (int64_t i = 0; i < num_inputs + num_outputs; ++i) (i < num_inputs ? inputs : outputs).push_back(owned[i].array());
  Workspace workspace;
  const returnn_call call{inputs.data(), outputs.data(), options.data(), threads, nullptr, Workspace::allocate, &workspace};
  for (int kernel = 0; kernel < returnn_num_kernels(); ++kernel) {
    if (name != returnn_kernel_name(kernel)) continue;
    const char *error = returnn_run(kernel, &call);
    if (error != nullptr) std::printf("error: %s\n", error);
    for (const OwnedArray &array : owned) std::free(array.data);
    return error != nullptr;
  }
  return 4;
}
