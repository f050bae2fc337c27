// The table of plans of operations, see `returnn/tensor/plans.py`: `PythonPlanTable` there does the same.
//
// An operation by a plan is: find the plan by the layouts of the operands, make views of their raw tensors, call one
// function, and make a tensor of the result. In Python this takes longer than a small operation of PyTorch itself.

#include <Python.h>
#include <structmember.h>

#include <cstdint>
#include <string>

namespace {

constexpr Py_ssize_t kMaxOperands = 8;
constexpr const char* kLayout[] = {
    "_dims", "dtype", "sparse_dim", "_feature_dim_axis", "_time_dim_axis", "version"};
constexpr int kNumLayout = sizeof(kLayout) / sizeof(kLayout[0]);
constexpr Py_ssize_t kMaxObjects = 1 + kMaxOperands * (kNumLayout + 1);

// Owns one reference.
class Ref {
 public:
  explicit Ref(PyObject* object = nullptr) : object_(object) {}
  ~Ref() { Py_XDECREF(object_); }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  void reset(PyObject* object) {
    PyObject* old = object_;
    object_ = object;
    Py_XDECREF(old);
  }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

struct Table {
  PyObject_HEAD
  PyTypeObject* tensor_base;  // what operands are tensors by
  PyTypeObject* tensor_class;  // of results
  PyObject* raw_name;
  PyObject* layout_names[kNumLayout];
  PyObject* plans;  // dict: bytes of addresses -> (attributes, main, function, views, held objects)
};

// The objects that a plan depends on, by identity; the one who keeps a plan holds them, so addresses stay theirs.
struct Key {
  PyObject* objects[kMaxObjects];
  Py_ssize_t size = 0;

  void append(PyObject* object) { objects[size++] = object; }
  PyObject* bytes() const {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(objects), size * sizeof(PyObject*));
  }
};

bool is_tensor(const Table* table, PyObject* x) {
  return Py_TYPE(x) == table->tensor_class || PyType_IsSubtype(Py_TYPE(x), table->tensor_base);
}

// Returns a new reference. A parameter has a property there, so this is not looked up in the dict.
PyObject* raw_of(const Table* table, PyObject* tensor) { return PyObject_GetAttr(tensor, table->raw_name); }

// False: there can be no plan for these operands. Raw tensors go to `raws`, other operands as they are.
bool make_key(const Table* table, PyObject* const* args, Py_ssize_t num_args, Key* key, Ref* raws) {
  if (num_args < 1 || num_args > 1 + kMaxOperands) return false;
  key->append(args[0]);
  for (Py_ssize_t i = 1; i < num_args; ++i) {
    PyObject* x = args[i];
    if (!is_tensor(table, x)) {
      Py_INCREF(x);
      raws[i - 1].reset(x);
      const bool is_number = PyFloat_CheckExact(x) || PyLong_CheckExact(x);
      key->append(is_number ? reinterpret_cast<PyObject*>(Py_TYPE(x)) : x);
      continue;
    }
    Ref dict(PyObject_GenericGetDict(x, nullptr));
    if (!dict) return false;
    for (PyObject* name : table->layout_names) {
      PyObject* value = PyDict_GetItemWithError(dict.get(), name);
      if (value == nullptr) return false;
      key->append(value);
    }
    raws[i - 1].reset(raw_of(table, x));
    if (!raws[i - 1]) return false;
    key->append(reinterpret_cast<PyObject*>(Py_TYPE(raws[i - 1].get())));
  }
  return true;
}

// Returns a new tensor, like another one but for some attributes and its value.
PyObject* tensor_like(const Table* table, PyObject* tensor, PyObject* attributes, PyObject* raw) {
  Ref dict(PyObject_GenericGetDict(tensor, nullptr));
  if (!dict) return nullptr;
  Ref copy(PyDict_Copy(dict.get()));
  if (!copy || PyDict_Update(copy.get(), attributes) < 0) return nullptr;
  if (PyDict_SetItem(copy.get(), table->raw_name, raw) < 0) return nullptr;
  Ref result(table->tensor_class->tp_alloc(table->tensor_class, 0));
  if (!result || PyObject_GenericSetDict(result.get(), copy.get(), nullptr) < 0) return nullptr;
  return result.release();
}

PyObject* table_run(PyObject* self, PyObject* const* args, Py_ssize_t num_args) {
  Table* table = reinterpret_cast<Table*>(self);
  Key key;
  Ref raws[kMaxOperands];
  if (!make_key(table, args, num_args, &key, raws)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref bytes(key.bytes());
  if (!bytes) return nullptr;
  PyObject* found = PyDict_GetItemWithError(table->plans, bytes.get());
  if (found == nullptr) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Py_INCREF(found);
  Ref plan(found);  // what is called can clear the table
  PyObject* main = PyTuple_GET_ITEM(found, 1);
  PyObject* views = PyTuple_GET_ITEM(found, 3);
  const Py_ssize_t num_raws = PyTuple_GET_SIZE(views);
  PyObject* given[kMaxOperands];
  for (Py_ssize_t i = 0; i < num_raws; ++i) {
    PyObject* view = PyTuple_GET_ITEM(views, i);
    if (view != Py_None) {
      raws[i].reset(PyObject_CallOneArg(view, raws[i].get()));
      if (!raws[i]) return nullptr;
    }
    given[i] = raws[i].get();
  }
  Ref raw(PyObject_Vectorcall(PyTuple_GET_ITEM(found, 2), given, num_raws, nullptr));
  if (!raw) return nullptr;
  PyObject* like = PyLong_CheckExact(main) ? args[1 + PyLong_AsSsize_t(main)] : main;
  return tensor_like(table, like, PyTuple_GET_ITEM(found, 0), raw.get());
}

PyObject* table_add(PyObject* self, PyObject* args) {
  Table* table = reinterpret_cast<Table*>(self);
  PyObject *operation, *operands, *plan;
  if (!PyArg_ParseTuple(args, "UOO", &operation, &operands, &plan)) return nullptr;
  Ref list(PySequence_Tuple(operands));
  if (!list) return nullptr;
  const Py_ssize_t num_operands = PyTuple_GET_SIZE(list.get());
  PyObject* call[1 + kMaxOperands] = {operation};
  for (Py_ssize_t i = 0; i < num_operands && i < kMaxOperands; ++i) call[1 + i] = PyTuple_GET_ITEM(list.get(), i);
  Key key;
  Ref raws[kMaxOperands];
  if (!make_key(table, call, 1 + num_operands, &key, raws)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "these operands can have no plan");
    return nullptr;
  }
  Ref held(PyTuple_New(key.size));
  if (!held) return nullptr;
  for (Py_ssize_t i = 0; i < key.size; ++i) {
    Py_INCREF(key.objects[i]);
    PyTuple_SET_ITEM(held.get(), i, key.objects[i]);
  }
  Ref attributes(PyObject_GetAttrString(plan, "attributes"));
  Ref main(PyObject_GetAttrString(plan, "main"));
  Ref function(PyObject_GetAttrString(plan, "function"));
  Ref views(PyObject_GetAttrString(plan, "views"));
  if (!attributes || !main || !function || !views) return nullptr;
  if (!PyDict_Check(attributes.get()) || !PyTuple_Check(views.get()) || PyTuple_GET_SIZE(views.get()) > num_operands) {
    PyErr_SetString(PyExc_TypeError, "a plan has a dict of attributes, and at most one view for each operand");
    return nullptr;
  }
  if (PyLong_CheckExact(main.get())) {
    const Py_ssize_t index = PyLong_AsSsize_t(main.get());
    if (index < 0 || index >= num_operands) {
      PyErr_SetString(PyExc_IndexError, "the main operand is none of them");
      return nullptr;
    }
  }
  Ref entry(PyTuple_Pack(5, attributes.get(), main.get(), function.get(), views.get(), held.get()));
  Ref bytes(key.bytes());
  if (!entry || !bytes || PyDict_SetItem(table->plans, bytes.get(), entry.get()) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* table_clear(PyObject* self, PyObject*) {
  PyDict_Clear(reinterpret_cast<Table*>(self)->plans);
  Py_RETURN_NONE;
}

Py_ssize_t table_length(PyObject* self) { return PyDict_Size(reinterpret_cast<Table*>(self)->plans); }

PyObject* table_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyTypeObject *tensor_base, *tensor_class;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &tensor_base, &PyType_Type, &tensor_class)) return nullptr;
  Ref self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  Table* table = reinterpret_cast<Table*>(self.get());
  Py_INCREF(tensor_base);
  table->tensor_base = tensor_base;
  Py_INCREF(tensor_class);
  table->tensor_class = tensor_class;
  table->raw_name = PyUnicode_InternFromString("_raw_tensor");
  for (int i = 0; i < kNumLayout; ++i) table->layout_names[i] = PyUnicode_InternFromString(kLayout[i]);
  table->plans = PyDict_New();
  return PyErr_Occurred() ? nullptr : self.release();
}

void table_dealloc(PyObject* self) {
  Table* table = reinterpret_cast<Table*>(self);
  Py_XDECREF(table->tensor_base);
  Py_XDECREF(table->tensor_class);
  Py_XDECREF(table->raw_name);
  for (PyObject* name : table->layout_names) Py_XDECREF(name);
  Py_XDECREF(table->plans);
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef kMethods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(table_run)), METH_FASTCALL,
     "run(operation, *operands): the result, if there is a plan for operands like these; otherwise None"},
    {"add", table_add, METH_VARARGS, "add(operation, operands, plan): keeps a plan for operands like these"},
    {"clear", table_clear, METH_NOARGS, "Forgets all plans."},
    {nullptr, nullptr, 0, nullptr}};

PySequenceMethods kSequence = {};
PyTypeObject kTableType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "plan_table", "Plans of operations, by operands.", -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_plan_table() {
  kSequence.sq_length = table_length;
  kTableType.tp_name = "plan_table.PlanTable";
  kTableType.tp_basicsize = sizeof(Table);
  kTableType.tp_flags = Py_TPFLAGS_DEFAULT;
  kTableType.tp_doc = "PlanTable(base class of tensors, class of results): see returnn.tensor.plans";
  kTableType.tp_new = table_new;
  kTableType.tp_dealloc = table_dealloc;
  kTableType.tp_methods = kMethods;
  kTableType.tp_as_sequence = &kSequence;
  Ref module(PyModule_Create(&kModule));
  if (!module || PyModule_AddType(module.get(), &kTableType) < 0) return nullptr;
  return module.release();
}
