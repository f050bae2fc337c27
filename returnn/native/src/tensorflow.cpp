// One operation of TensorFlow for each kernel, by the C interface of TensorFlow, which is the same in all versions.
//
// Operation, shape function and checks follow from the signature. The operation of the kernel `lstm_grad` is
// `ReturnnLstmGrad`; if there are `real` arrays, its attribute `T` is their type.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernel.h"
#include "signature.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_tensor.h"

namespace returnn {
namespace {

constexpr int MAX_KERNELS = 64;

struct StatusDeleter {
  void operator()(TF_Status *status) const { TF_DeleteStatus(status); }
};
struct TensorDeleter {
  void operator()(TF_Tensor *tensor) const { TF_DeleteTensor(tensor); }
};
struct ShapeDeleter {
  void operator()(TF_ShapeHandle *shape) const { TF_DeleteShapeHandle(shape); }
};
using Status = std::unique_ptr<TF_Status, StatusDeleter>;
using TensorPointer = std::unique_ptr<TF_Tensor, TensorDeleter>;
using Shape = std::unique_ptr<TF_ShapeHandle, ShapeDeleter>;

bool is_ok(const Status &status) { return TF_GetCode(status.get()) == TF_OK; }

// `lstm_grad` -> `ReturnnLstmGrad`
std::string operation_name(const std::string &kernel) {
  std::string name = "Returnn";
  bool is_first = true;
  for (const char c : kernel) {
    if (c != '_') name += is_first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    is_first = c == '_';
  }
  return name;
}

std::string type_of(const ArraySpec &array) {
  if (array.type == "real" || array.type == "state") return "T";
  if (array.type == "float32") return "float";
  return array.type == "float64" ? "double" : array.type;
}

int32_t type_from(TF_DataType type) {
  switch (type) {
    case TF_FLOAT: return RETURNN_FLOAT32;
    case TF_DOUBLE: return RETURNN_FLOAT64;
    case TF_INT32: return RETURNN_INT32;
    case TF_INT64: return RETURNN_INT64;
    default: return RETURNN_UINT8;
  }
}

// A number from the session's configuration: `ConfigProto.intra_op_parallelism_threads`, its field 2. While the graph is
// optimized, operations on constants are computed outside of a step: then there is no session, and it must not be asked for.
int threads_of(TF_OpKernelContext *context) {
  if (TF_StepId(context) <= 0) return 1;
  int threads = 0;
  const Status status(TF_NewStatus());
  TF_Buffer *buffer = TF_NewBuffer();
  TF_GetSerializedConfigProto(context, buffer, status.get());
  const auto *bytes = static_cast<const unsigned char *>(buffer->data);
  size_t at = 0;
  const auto read_number = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < buffer->length; shift += 7) {
      const unsigned char byte = bytes[at++];
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (!(byte & 128)) break;
    }
    return value;
  };
  while (is_ok(status) && at < buffer->length) {
    const uint64_t tag = read_number();
    const uint64_t kind = tag & 7;
    if (kind == 0) {
      const uint64_t value = read_number();
      if (tag >> 3 == 2) threads = static_cast<int>(value);
    } else if (kind == 2) {
      const uint64_t length = read_number();
      at += length;
    } else {
      at += kind == 1 ? 8 : 4;
    }
  }
  TF_DeleteBuffer(buffer);
  return threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
}

struct Operation {
  int kernel;
  Signature signature;
  std::vector<double> options;
  int threads = 0;
};

void *create(int kernel, TF_OpKernelConstruction *construction) {
  auto *op = new Operation{kernel, parse_signature(returnn_kernel_signature(kernel)), {}, 0};
  const Status status(TF_NewStatus());
  for (const OptionSpec &option : op->signature.options) {
    double value = 0;
    if (option.type == "bool") {
      TF_Bool got = 0;
      TF_OpKernelConstruction_GetAttrBool(construction, option.name.c_str(), &got, status.get());
      value = got;
    } else if (option.type == "int") {
      int64_t got = 0;
      TF_OpKernelConstruction_GetAttrInt64(construction, option.name.c_str(), &got, status.get());
      value = static_cast<double>(got);
    } else {
      float got = 0;
      TF_OpKernelConstruction_GetAttrFloat(construction, option.name.c_str(), &got, status.get());
      value = got;
    }
    if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status.get());
    op->options.push_back(value);
  }
  return op;
}

// Arrays for a kernel, with the sizes and strides that they point to.
class Arrays {
 public:
  void add(void *data, int32_t type, const std::vector<int64_t> &sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
    numbers_.push_back(std::make_unique<std::pair<std::vector<int64_t>, std::vector<int64_t>>>(sizes, strides));
    arrays_.push_back({data, numbers_.back()->first.data(), numbers_.back()->second.data(),
                       static_cast<int32_t>(sizes.size()), type});
  }

  const returnn_array *data() const { return arrays_.data(); }

 private:
  std::vector<returnn_array> arrays_;
  std::vector<std::unique_ptr<std::pair<std::vector<int64_t>, std::vector<int64_t>>>> numbers_;
};

void fail(TF_OpKernelContext *context, const Operation &op, const std::string &message) {
  const Status status(TF_NewStatus());
  TF_SetStatus(status.get(), TF_INVALID_ARGUMENT, (operation_name(returnn_kernel_name(op.kernel)) + ": " + message).c_str());
  TF_OpKernelContext_Failure(context, status.get());
}

void compute(void *data, TF_OpKernelContext *context) {
  auto &op = *static_cast<Operation *>(data);
  const Status status(TF_NewStatus());
  std::vector<TensorPointer> tensors;
  Arrays inputs, outputs;
  Sizes known;
  TF_DataType real = TF_FLOAT;
  for (size_t i = 0; i < op.signature.inputs.size(); ++i) {
    TF_Tensor *tensor = nullptr;
    TF_GetInput(context, static_cast<int>(i), &tensor, status.get());
    if (!is_ok(status)) return TF_OpKernelContext_Failure(context, status.get());
    tensors.emplace_back(tensor);
    std::vector<int64_t> sizes(TF_NumDims(tensor));
    for (size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis] = TF_Dim(tensor, static_cast<int>(axis));
    const std::string error = match_sizes(op.signature.inputs[i], sizes, known);
    if (!error.empty()) return fail(context, op, error);
    inputs.add(TF_TensorData(tensor), type_from(TF_TensorType(tensor)), sizes);
  }
  for (size_t i = 0; i < op.signature.outputs.size(); ++i) {
    std::vector<int64_t> sizes;
    for (const DimExpression &dim : op.signature.outputs[i].dims) sizes.push_back(size_of(dim, known));
    real = TF_ExpectedOutputDataType(context, static_cast<int>(i));
    size_t bytes = TF_DataTypeSize(real);
    for (const int64_t size : sizes) bytes *= size;
    TF_Tensor *tensor = TF_AllocateOutput(context, static_cast<int>(i), real, sizes.data(), static_cast<int>(sizes.size()),
                                          bytes, status.get());
    if (!is_ok(status)) return TF_OpKernelContext_Failure(context, status.get());
    tensors.emplace_back(tensor);
    outputs.add(TF_TensorData(tensor), type_from(real), sizes);
  }
  if (op.threads == 0) op.threads = threads_of(context);
  const returnn_call call{inputs.data(), outputs.data(), op.options.data(), op.threads};
  const char *error = returnn_run(op.kernel, &call);
  if (error != nullptr) fail(context, op, error);
}

// Sizes of an input as far as they are known. False: not even the rank is.
bool sizes_of_input(TF_ShapeInferenceContext *context, int input, std::vector<int64_t> &sizes, const Status &status) {
  const Shape shape(TF_NewShapeHandle());
  TF_ShapeInferenceContextGetInput(context, input, shape.get(), status.get());
  if (!is_ok(status) || !TF_ShapeInferenceContextRankKnown(context, shape.get())) return false;
  TF_DimensionHandle *dim = TF_NewDimensionHandle();
  for (int64_t axis = 0; axis < TF_ShapeInferenceContextRank(context, shape.get()); ++axis) {
    TF_ShapeInferenceContextDim(context, shape.get(), axis, dim);
    sizes.push_back(TF_DimensionHandleValueKnown(dim) ? TF_DimensionHandleValue(dim) : UNKNOWN);
  }
  TF_DeleteDimensionHandle(dim);
  return true;
}

void infer_shapes(int kernel, TF_ShapeInferenceContext *context, TF_Status *result) {
  const Signature signature = parse_signature(returnn_kernel_signature(kernel));
  const Status status(TF_NewStatus());
  Sizes known;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    std::vector<int64_t> sizes;
    if (!sizes_of_input(context, static_cast<int>(i), sizes, status)) continue;
    const std::string error = match_sizes(signature.inputs[i], sizes, known);
    if (!error.empty()) return TF_SetStatus(result, TF_INVALID_ARGUMENT, error.c_str());
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    Shape shape(TF_ShapeInferenceContextScalar(context));
    for (const DimExpression &dim : signature.outputs[i].dims) {
      const Shape axis(TF_ShapeInferenceContextVectorFromSize(context, static_cast<size_t>(size_of(dim, known))));
      Shape longer(TF_NewShapeHandle());
      TF_ShapeInferenceContextConcatenateShapes(context, shape.get(), axis.get(), longer.get(), status.get());
      shape = std::move(longer);
    }
    TF_ShapeInferenceContextSetOutput(context, static_cast<int>(i), shape.get(), status.get());
  }
  TF_SetStatus(result, TF_GetCode(status.get()), TF_Message(status.get()));
}

// TensorFlow calls functions without data of ours, so there is one of each for each number of a kernel.
template <int I>
struct Functions {
  static void *create_it(TF_OpKernelConstruction *construction) { return create(I, construction); }
  static void infer_it(TF_ShapeInferenceContext *context, TF_Status *status) { infer_shapes(I, context, status); }
};

void delete_it(void *data) { delete static_cast<Operation *>(data); }

void check(const Status &status) {
  if (!is_ok(status)) std::fprintf(stderr, "native kernels: %s\n", TF_Message(status.get()));
}

template <int I>
void register_kernel(const std::string &name, TF_DataType real, bool has_real) {
  const Status status(TF_NewStatus());
  TF_KernelBuilder *builder = TF_NewKernelBuilder(name.c_str(), "CPU", Functions<I>::create_it, compute, delete_it);
  if (has_real) TF_KernelBuilder_TypeConstraint(builder, "T", real, status.get());
  TF_RegisterKernelBuilder(name.c_str(), builder, status.get());
  check(status);
}

template <int I>
void register_operation() {
  if (I >= returnn_num_kernels()) return;
  const std::string name = operation_name(returnn_kernel_name(I));
  const Signature signature = parse_signature(returnn_kernel_signature(I));
  TF_OpDefinitionBuilder *builder = TF_NewOpDefinitionBuilder(name.c_str());
  for (const ArraySpec &array : signature.inputs)
    TF_OpDefinitionBuilderAddInput(builder, (array.name + ": " + type_of(array)).c_str());
  for (const ArraySpec &array : signature.outputs)
    TF_OpDefinitionBuilderAddOutput(builder, (array.name + ": " + type_of(array)).c_str());
  if (signature.has_real()) TF_OpDefinitionBuilderAddAttr(builder, "T: {float, double}");
  for (const OptionSpec &option : signature.options)
    TF_OpDefinitionBuilderAddAttr(builder, (option.name + ": " + option.type).c_str());
  TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, Functions<I>::infer_it);
  const Status status(TF_NewStatus());
  TF_RegisterOpDefinition(builder, status.get());
  check(status);
  register_kernel<I>(name, TF_FLOAT, signature.has_real());
  if (signature.has_real()) register_kernel<I>(name, TF_DOUBLE, true);
}

template <int... I>
void register_operations(std::integer_sequence<int, I...>) {
  (register_operation<I>(), ...);
}

// When the library is loaded. It is linked last, so all kernels are registered by then.
__attribute__((constructor)) void register_all() {
  register_operations(std::make_integer_sequence<int, MAX_KERNELS>());
}

}  // namespace
}  // namespace returnn
