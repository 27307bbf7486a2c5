"""The operators, a file each; `holdfast.spark` has them all."""
