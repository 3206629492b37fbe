"""Imported by a process that is to be killed: a few rows make a part there, so that small tables have many."""

from importlib import import_module

import_module("pippin.cli.predict").PART, import_module("pippin.tables.scanning").BATCH = 16, 8
