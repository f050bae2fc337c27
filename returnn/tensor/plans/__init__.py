"""
Plans: what an operation on operands of given layouts comes down to.

Which dims come out, in which order, and how operands are broadcast depends on the dims, dtypes and roles of the
operands alone. The rules for that (`returnn.frontend._ops`) take several times as long as a small tensor takes to
compute. So a backend can keep what they have found out: the attributes of the result, and views and a function for the
raw tensors. The next operation on operands of these layouts goes by that, before a backend is even looked for.

A layout is known by the very objects it consists of: the tuple of dims, which results of plans share, the dtype, the
roles. Tensors that come from elsewhere get the shared objects when an operation sees them first (`Plans.share_layout`).
When dims are declared to be the same, nothing of what was found out may hold, so all is forgotten; likewise when there
is much, as it keeps dims alive.

The table of plans exists twice: here, and in C++ (`returnn/native/src/python/plan_table.cpp`), which a backend puts in
its place if it could be compiled (`Plans.use_table`).
"""

from returnn.tensor.plans.known import Plans, plans
from returnn.tensor.plans.table import Function, Plan, PlanTable, PythonPlanTable, attributes_of

__all__ = ["Function", "Plan", "PlanTable", "Plans", "PythonPlanTable", "attributes_of", "plans"]
