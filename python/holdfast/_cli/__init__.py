"""The commands of `holdfast`, built with click and rich: `commands` lists them.

`reading`, `export`, `maintenance`, `verify` and `doctor` each have a group of commands; `options`,
`keys`, `output` and `whole_file` are what they share.
"""
