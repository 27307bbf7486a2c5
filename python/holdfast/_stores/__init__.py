"""The store classes: a file a kind, on `base`, over the extension's handles."""
