// By which method a recurrent unit is computed on this GPU: what was measured, or else a rule.
#pragma once

#include "../kernel.h"

// In the order of `METHODS` in `returnn/native/cuda.py`.
enum returnn_method { RETURNN_BY_RULE = 0, RETURNN_STEPWISE = 1, RETURNN_PERSISTENT = 2 };

// For units of about this size and batches of about this size, from now on. A method that is not possible is not taken.
RETURNN_API void returnn_set_method(int64_t units, int64_t batch, int method);

// As if none had been set.
RETURNN_API void returnn_clear_methods();

// Which one was taken by the last call of this thread.
RETURNN_API int returnn_last_method();

namespace returnn {

// The one that is set for the nearest sizes; RETURNN_BY_RULE if there is none.
int method_for(int64_t units, int64_t batch);
void note_method(int method);

}  // namespace returnn
