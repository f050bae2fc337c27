import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
import tensorflow as tf

from returnn.tf.util.basic import OpCodeCompiler, TFNativeUtilCompiler

CODE = """
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
using namespace tensorflow;

REGISTER_OP("TestAddConstant").Input("x: float").Output("y: float").Attr("value: int").SetShapeFn(
    [](shape_inference::InferenceContext* c) { c->set_output(0, c->input(0)); return absl::OkStatus(); });

class AddConstant : public OpKernel {
 public:
  explicit AddConstant(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("value", &value_));
  }
  void Compute(OpKernelContext* context) override {
    Tensor* out = nullptr;
    const Tensor& in = context->input(0);
    OP_REQUIRES_OK(context, context->allocate_output(0, in.shape(), &out));
    for (int64_t i = 0; i < in.NumElements(); ++i) out->flat<float>()(i) = in.flat<float>()(i) + value_;
  }
 private:
  int value_;
};
REGISTER_KERNEL_BUILDER(Name("TestAddConstant").Device(DEVICE_CPU), AddConstant);
"""


@pytest.mark.slow
def test_an_operation_from_code_in_a_config(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path))
    compiler = OpCodeCompiler(base_name="test_add_constant", code_version=1, code=CODE, use_cuda_if_available=False)
    module = compiler.load_tf_module()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(module.test_add_constant(x=[1.0, 2.0], value=3)).tolist() == [4, 5]
    assert compiler.load_tf_module() is module


def test_code_beside_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path))
    lib = TFNativeUtilCompiler(base_name="test_util", code='extern "C" int three() { return 3; }').load_lib_ctypes()
    assert lib.three() == 3
