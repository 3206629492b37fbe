"""Calibration of rows that are distributed over files, processes or machines."""

from pippin._distributed.calibration import Calibration
from pippin.tables.scanning import Scan

__all__ = ["Calibration", "Scan"]
