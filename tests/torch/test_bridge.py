import torch

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.torch.frontend.bridge import (
    pt_module_to_rf_module,
    rf_module_to_pt_module,
    wrapped_module_to_rf_module,
)


def test_modules_of_both_kinds_have_the_same_parameters():
    rf.select_backend_torch()
    dim = Dim(3, name="dim")
    shared = rf.Linear(dim, dim)
    model = rf.Sequential({"one": shared, "list": rf.ModuleList([rf.Linear(dim, dim), shared])})
    module = rf_module_to_pt_module(model)
    names = dict(module.named_parameters())
    assert list(names) == [name for name, _ in model.named_parameters()]
    assert all(names[name] is param.raw_tensor for name, param in model.named_parameters())
    assert pt_module_to_rf_module(module) is model
    assert wrapped_module_to_rf_module(module) is wrapped_module_to_rf_module(model) is model
    x = rf.ones([dim])
    assert torch.equal(module.one(x).raw_tensor, shared(x).raw_tensor)
    other = pt_module_to_rf_module(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    assert [name for name, _ in other.named_parameters()] == ["0.weight", "0.bias"]
    assert other(torch.ones(3)).shape == (2,)
    rf.select_backend_numpy()
