"""The record of a store: one SQLite database and the lock of its one writer."""
