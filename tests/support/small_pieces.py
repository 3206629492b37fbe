"""Imported by a process that is to be killed: a few rows make a piece there, so that small tables have many."""

import pippin.cli.predict_tables
import pippin.tables.scanning

pippin.cli.predict_tables.PIECE, pippin.tables.scanning.BATCH = 16, 8
