"""Formats of exported models, with their parameters."""

MODEL_FORMATS = {
    "saved_model": "SavedModel, a folder",
    "tflite": "TensorFlow Lite, a file .tflite",
    "frozen": "frozen graph, a file .pb",
}
