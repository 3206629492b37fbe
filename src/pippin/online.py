"""Online prediction: thresholds updated after each label, and sequential tests for distribution drift."""

from pippin._online.monitor import Alarm, Monitor
from pippin._online.risk_monitor import RiskMonitor
from pippin._online.stream import Stream, Ticket

__all__ = ["Alarm", "Monitor", "RiskMonitor", "Stream", "Ticket"]
