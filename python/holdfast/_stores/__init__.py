"""The store classes, one file per kind: they extend `base` and wrap the extension's handles."""
