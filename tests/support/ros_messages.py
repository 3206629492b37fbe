"""Stubs of the ROS 2 modules that the example node uses, with the fields of the real messages."""

import sys
from dataclasses import dataclass, field, make_dataclass
from types import ModuleType, SimpleNamespace
from typing import ClassVar


@dataclass
class Header:
    """std_msgs/Header."""

    stamp: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(sec=12, nanosec=34))
    frame_id: str = "camera"


FIELDS = {
    "std_msgs.msg": {"String": ["data"]},
    "sensor_msgs.msg": {"Image": ["header", "height", "width", "encoding", "is_bigendian", "step", "data"]},
    "vision_msgs.msg": {"Classification": ["header", "results"], "ObjectHypothesis": ["class_id", "score"]},
    "diagnostic_msgs.msg": {
        "DiagnosticArray": ["header", "status"],
        "DiagnosticStatus": ["level", "name", "message", "hardware_id", "values"],
        "KeyValue": ["key", "value"],
    },
}


class Publisher:
    """Publisher that keeps its messages."""

    def __init__(self, kind, topic):
        self.kind, self.topic, self.messages = kind, topic, []

    def publish(self, message):
        assert type(message) is self.kind
        self.messages.append(message)


class Node:
    """rclpy.node.Node with the parameters of the class attribute `given`."""

    given: ClassVar = {}

    def __init__(self, name):
        self.name, self.parameters, self.publishers, self.callbacks, self.logged = name, {}, {}, {}, []

    def declare_parameter(self, name, value):
        self.parameters[name] = self.given.get(name, value)

    def get_parameter(self, name):
        return SimpleNamespace(value=self.parameters[name])

    def create_publisher(self, kind, topic, depth):
        self.publishers[topic] = Publisher(kind, topic)
        return self.publishers[topic]

    def create_subscription(self, kind, topic, callback, qos):
        self.callbacks[topic] = callback

    def get_logger(self):
        return SimpleNamespace(info=self.logged.append, error=self.logged.append)

    def destroy_node(self):
        self.publishers.clear()


def install(monkeypatch):
    """Put the stubs into `sys.modules` for one test; return the modules by name."""
    modules = {name: ModuleType(name) for name in (*FIELDS, "rclpy", "rclpy.node", "rclpy.qos")}
    for name in list(modules):
        modules.setdefault(name.split(".")[0], ModuleType(name.split(".")[0]))
    for name, messages in FIELDS.items():
        for message, fields in messages.items():
            setattr(modules[name], message, make_dataclass(message, fields))
    status = modules["diagnostic_msgs.msg"].DiagnosticStatus
    status.OK, status.WARN, status.ERROR = b"\x00", b"\x01", b"\x02"
    modules["rclpy.node"].Node, modules["rclpy.qos"].qos_profile_sensor_data = Node, object()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules
