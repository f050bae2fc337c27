"""Formats of exported models, with their parameters."""

MODEL_FORMATS = {
    "saved_model": "SavedModel, a folder",
    "frozen": "frozen graph, a file .pb",
}
