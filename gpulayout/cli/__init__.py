"""The command line `gpulayout`.  Only this package imports click and rich."""
