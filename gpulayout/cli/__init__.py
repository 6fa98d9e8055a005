"""The command line `gpulayout`, the only part of the package that imports click and rich."""
