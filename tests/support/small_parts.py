"""Import this in a subprocess to reduce the size of output parts, so that small tables have several parts."""

from importlib import import_module

import_module("pippin.cli.predict").PART, import_module("pippin.tables.scanning").BATCH = 16, 8
