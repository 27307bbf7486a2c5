"""The commands of `holdfast`, built with click and rich: `commands` lists them.

`reading`, `export`, `operating` and `doctor` have the commands, and share `options`, `keys`,
`output`, `progress` and `whole_file`. `run` runs a command line.
"""
