// All kernels, by number. Of those compiled for several levels, the best that the CPU can run is taken.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernel.h"

namespace returnn {
namespace {

struct Kernel {
  std::string signature;
  std::map<std::string, returnn_function> levels;
  returnn_function function = nullptr;
};

std::map<std::string, Kernel> &registered() {
  static std::map<std::string, Kernel> kernels;
  return kernels;
}

bool runs_here(const std::string &level) {
#if defined(__x86_64__)
  if (level == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  if (level == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return level == "plain";
}

const char *const LEVELS[] = {"avx512", "avx2", "plain"};

// The environment variable RETURNN_NATIVE_LEVEL can ask for a lower level than the best.
std::string best_level(const std::map<std::string, returnn_function> &compiled) {
  for (const char *level : {"cuda", "host"})  // kernels of GPUs are in a library of their own
    if (compiled.count(level)) return level;
  const char *wanted = std::getenv("RETURNN_NATIVE_LEVEL");
  bool allowed = wanted == nullptr || *wanted == 0;
  for (const char *level : LEVELS) {
    allowed = allowed || std::strcmp(level, wanted) == 0;
    if (allowed && compiled.count(level) && runs_here(level)) return level;
  }
  return "";
}

struct Table {
  std::vector<std::string> names;
  std::vector<const Kernel *> kernels;
  std::string level;

  Table() {
    for (auto &entry : registered()) {
      const std::string best = best_level(entry.second.levels);
      if (best.empty()) continue;
      level = best;
      entry.second.function = entry.second.levels[best];
      names.push_back(entry.first);
      kernels.push_back(&entry.second);
    }
  }
};

const Table &table() {
  static const Table table;
  return table;
}

}  // namespace

Registration::Registration(const char *name, const char *signature, const char *level, returnn_function function) {
  Kernel &kernel = registered()[name];
  kernel.signature = signature;
  kernel.levels[level] = function;
}

}  // namespace returnn

RETURNN_API int returnn_num_kernels() { return static_cast<int>(returnn::table().kernels.size()); }

RETURNN_API const char *returnn_kernel_name(int kernel) { return returnn::table().names[kernel].c_str(); }

RETURNN_API const char *returnn_kernel_signature(int kernel) {
  return returnn::table().kernels[kernel]->signature.c_str();
}

RETURNN_API const char *returnn_level() { return returnn::table().level.c_str(); }

RETURNN_API const char *returnn_run(int kernel, const returnn_call *call) {
  return returnn::table().kernels[kernel]->function(call);
}
