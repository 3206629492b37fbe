"""Objects that arrive one after another: thresholds that follow the data, and tests for drift."""

from pippin._online.alarm import Alarm
from pippin._online.monitor import Monitor
from pippin._online.risk_monitor import RiskMonitor
from pippin._online.stream import Stream, Ticket

__all__ = ["Alarm", "Monitor", "RiskMonitor", "Stream", "Ticket"]
