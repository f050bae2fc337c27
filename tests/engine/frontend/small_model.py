"""A model of the frontend that trains within a second, as options of a config, for all backends."""

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim, batch_dim

time_dim = Dim(None, name="time")
feature_dim = Dim(9, name="feature")
classes_dim = Dim(2, name="classes")
TRAIN = {"class": "Task12AXDataset", "num_seqs": 20}
EXTERN_DATA = {
    "data": {"dims": [batch_dim, time_dim, feature_dim], "feature_dim": feature_dim},
    "classes": {"dims": [batch_dim, time_dim], "sparse_dim": classes_dim},
}


class Model(rf.Module):
    """Convolution, LSTM, softmax."""

    def __init__(self, hidden=4, dropout=0.2):
        super().__init__()
        hidden_dim = Dim(hidden, name="hidden")
        self.dropout = dropout
        self.conv = rf.Conv1d(feature_dim, hidden_dim, 3, padding="same")
        self.norm = rf.LayerNorm(hidden_dim)
        self.lstm = rf.LSTM(hidden_dim, hidden_dim)
        self.output = rf.Linear(hidden_dim, classes_dim)
        self.hidden_dim = hidden_dim

    def __call__(self, x, *, spatial_dim):
        x, _ = self.conv(x, in_spatial_dim=spatial_dim, out_spatial_dim=spatial_dim)
        x = rf.dropout(rf.tanh(self.norm(x)), self.dropout)
        state = self.lstm.default_initial_state(batch_dims=[batch_dim])
        x, _ = self.lstm(x, state=state, spatial_dim=spatial_dim)
        return self.output(x)


def get_model(*, epoch, step, **kwargs):
    return Model()


def train_step(*, model, extern_data, **kwargs):
    logits = model(extern_data["data"], spatial_dim=time_dim)
    targets = extern_data["classes"]
    loss = rf.cross_entropy(target=targets, estimated=logits, estimated_type="logits", axis=classes_dim)
    loss.mark_as_loss("ce") if hasattr(loss, "mark_as_loss") else rf.get_run_ctx().mark_as_loss(loss, "ce")
    errors = rf.cast(rf.reduce_argmax(logits, axis=classes_dim) != targets, "float32")
    rf.get_run_ctx().mark_as_loss(errors, "fer", as_error=True)


def forward_step(*, model, extern_data, **kwargs):
    logits = model(extern_data["data"], spatial_dim=time_dim)
    log_probs = rf.log_softmax(logits, axis=classes_dim)
    rf.get_run_ctx().mark_as_default_output(log_probs, shape=[batch_dim, time_dim, classes_dim])
    best = rf.reduce_argmax(logits, axis=classes_dim)
    rf.get_run_ctx().mark_as_output(best, "best", dims=[batch_dim, time_dim])


def config(folder, **options):
    """:return: of a training of an epoch"""
    base = {
        "backend": "torch",
        "task": "train",
        "behavior_version": 30,
        "train": TRAIN,
        "dev": {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1},
        "extern_data": EXTERN_DATA,
        "get_model": get_model,
        "train_step": train_step,
        "forward_step": forward_step,
        "batch_size": 1000,
        "max_seqs": 10,
        "optimizer": {"class": "adam"},
        "learning_rate": 0.01,
        "num_epochs": 1,
        "model": str(folder / "net"),
        "device": "cpu",
    }
    return Config({**base, **options})
