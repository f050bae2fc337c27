// Runs a SavedModel on one sequence, by the C API of TensorFlow: no Python, no toolkit.
//
//   run_saved_model MODEL OUTPUT < FRAMES
//
// FRAMES has a line for each frame, with the same number of features in each. Written is the output of that name in the
// same way, as the layer has it for a single sequence.
//
// The library and the header of the C API are in the Python package of TensorFlow:
//
//   TF=$(python -c "import os, tensorflow; print(os.path.dirname(tensorflow.__file__))")
//   g++ -std=c++17 -O2 -I$TF/include run_saved_model.cpp -o run_saved_model \
//       -L$TF -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,$TF

#include <tensorflow/c/c_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& message) {
  std::cerr << "error: " << message << "\n";
  std::exit(1);
}

void check(TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) fail(TF_Message(status));
}

// The tensors of a signature by name, from the serialized MetaGraphDef, as the C API has no function for it. Of protocol
// buffers, only what is on the way is read: fields of bytes, by their numbers in meta_graph.proto.
using Fields = std::multimap<int, std::string>;

Fields parse(const std::string& bytes) {
  Fields fields;
  size_t at = 0;
  auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < bytes.size(); shift += 7) {
      const uint8_t byte = bytes[at++];
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    if ((key & 7) == 2) {
      const uint64_t size = varint();
      fields.emplace(int(key >> 3), bytes.substr(at, size));
      at += size;
    } else if ((key & 7) == 0) {
      varint();
    } else {
      at += (key & 7) == 1 ? 8 : 4;
    }
  }
  return fields;
}

std::string field(const std::string& bytes, int number) {
  const Fields fields = parse(bytes);
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

enum { kSignatures = 5, kInputs = 1, kOutputs = 2, kKey = 1, kValue = 2, kTensorName = 1 };

std::map<std::string, std::string> tensors(const std::string& meta_graph, int inputs_or_outputs) {
  std::map<std::string, std::string> result;
  const Fields fields = parse(meta_graph);
  for (auto [it, end] = fields.equal_range(kSignatures); it != end; ++it) {
    if (field(it->second, kKey) != "serving_default") continue;
    const Fields signature = parse(field(it->second, kValue));
    for (auto [entry, last] = signature.equal_range(inputs_or_outputs); entry != last; ++entry)
      result[field(entry->second, kKey)] = field(field(entry->second, kValue), kTensorName);
  }
  return result;
}

TF_Output output(TF_Graph* graph, const std::string& name) {
  const size_t colon = name.rfind(':');
  return {TF_GraphOperationByName(graph, name.substr(0, colon).c_str()), std::atoi(name.c_str() + colon + 1)};
}

TF_Tensor* tensor(TF_DataType type, const std::vector<int64_t>& shape, const void* data, size_t size) {
  TF_Tensor* result = TF_AllocateTensor(type, shape.data(), int(shape.size()), size);
  std::memcpy(TF_TensorData(result), data, size);
  return result;
}

// The values of one sequence. The axis of the batch, of size 1, makes no difference to their order.
void print(const TF_Tensor* values) {
  int64_t columns = 1, total = 1;
  for (int i = 0; i < TF_NumDims(values); ++i) total *= columns = TF_Dim(values, i);
  if (TF_NumDims(values) < 3) columns = 1;  // labels
  for (int64_t i = 0; i < total; ++i) {
    if (TF_TensorType(values) == TF_FLOAT)
      std::cout << static_cast<const float*>(TF_TensorData(values))[i];
    else if (TF_TensorType(values) == TF_INT32)
      std::cout << static_cast<const int32_t*>(TF_TensorData(values))[i];
    else
      fail("the output is neither float32 nor int32");
    std::cout << ((i + 1) % columns ? " " : "\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: run_saved_model MODEL OUTPUT < FRAMES");
  std::vector<float> data;
  int64_t num_frames = 0;
  for (std::string line; std::getline(std::cin, line); ++num_frames) {
    std::istringstream numbers(line);
    for (float number; numbers >> number;) data.push_back(number);
  }
  if (data.empty() || data.size() % num_frames) fail("each line has to have the same number of features");

  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Buffer* meta_graph = TF_NewBuffer();
  const char* tag = "serve";
  TF_Session* session = TF_LoadSessionFromSavedModel(options, nullptr, argv[1], &tag, 1, graph, meta_graph, status);
  check(status);
  const std::string meta(static_cast<const char*>(meta_graph->data), meta_graph->length);

  std::vector<TF_Output> inputs;
  std::vector<TF_Tensor*> values;
  for (const auto& [name, where] : tensors(meta, kInputs)) {
    const int32_t length = int32_t(num_frames);
    const int64_t num_features = int64_t(data.size()) / num_frames;
    inputs.push_back(output(graph, where));
    if (name == "data")
      values.push_back(tensor(TF_FLOAT, {1, num_frames, num_features}, data.data(), data.size() * sizeof(float)));
    else if (name == "data:size1")
      values.push_back(tensor(TF_INT32, {1}, &length, sizeof length));
    else
      fail("there is no value for the input " + name);
  }
  const auto outputs = tensors(meta, kOutputs);
  if (!outputs.count(argv[2])) fail("the model has no output " + std::string(argv[2]));
  const TF_Output wanted = output(graph, outputs.at(argv[2]));
  TF_Tensor* result = nullptr;
  TF_SessionRun(session, nullptr, inputs.data(), values.data(), int(inputs.size()), &wanted, &result, 1, nullptr, 0,
                nullptr, status);
  check(status);
  print(result);
  for (TF_Tensor* value : values) TF_DeleteTensor(value);
  TF_DeleteTensor(result);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
}
