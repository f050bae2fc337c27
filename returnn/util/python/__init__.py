"""Python itself: nested values, what functions take, what is optional to import, what code of users finds."""
