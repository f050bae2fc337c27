#include "methods.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

namespace returnn {
namespace {

struct Choice {
  int64_t units, batch;
  int method;
};

std::mutex &mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<Choice> &choices() {
  static std::vector<Choice> choices;
  return choices;
}

thread_local int last_method = RETURNN_BY_RULE;

// Between sizes: how often one has to be doubled to be the other.
double distance(int64_t a, int64_t b) {
  const auto log = [](int64_t size) { return std::log2(static_cast<double>(size < 1 ? 1 : size)); };
  return std::fabs(log(a) - log(b));
}

}  // namespace

int method_for(int64_t units, int64_t batch) {
  const std::lock_guard<std::mutex> lock(mutex());
  double nearest = std::numeric_limits<double>::infinity();
  int method = RETURNN_BY_RULE;
  for (const Choice &choice : choices()) {
    const double away = distance(choice.units, units) + distance(choice.batch, batch);
    if (away < nearest) {
      nearest = away;
      method = choice.method;
    }
  }
  return method;
}

void note_method(int method) { last_method = method; }

}  // namespace returnn

RETURNN_API void returnn_set_method(int64_t units, int64_t batch, int method) {
  const std::lock_guard<std::mutex> lock(returnn::mutex());
  for (returnn::Choice &choice : returnn::choices())
    if (choice.units == units && choice.batch == batch) {
      choice.method = method;
      return;
    }
  returnn::choices().push_back({units, batch, method});
}

RETURNN_API void returnn_clear_methods() {
  const std::lock_guard<std::mutex> lock(returnn::mutex());
  returnn::choices().clear();
}

RETURNN_API int returnn_last_method() { return returnn::last_method; }
