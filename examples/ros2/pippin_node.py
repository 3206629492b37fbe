"""ROS 2 node: prediction sets, actions and a monitor for the images of a camera, by a pippin field model.

    ros2 run YOUR_PACKAGE pippin_node --ros-args -p model:=/path/to/MODEL -r image:=/camera/image_raw

Subscribes to
    image (sensor_msgs/Image): encodings rgb8, bgr8, rgba8, bgra8, mono8 and mono16.
Publishes
    sets (vision_msgs/Classification): one message per window, row by row from the top left. Its hypotheses are the
        classes of the prediction set, most probable first; the score of a hypothesis is its conformal p-value.
    actions (std_msgs/String): one message per image, JSON with stamp, frame and the records of `Look.records`.
    /diagnostics (diagnostic_msgs/DiagnosticArray): OK; WARN if windows are novel; ERROR after an alarm of the
        monitor or if an image cannot be used.
Parameters
    model: the folder that `pippin field make` wrote.
    runtime: auto (torch if it is installed) or onnxruntime.
    state: file of the monitor's state, to continue after a restart; "" for none.
    delta: probability of any false alarm of the monitor.
    stop_after_alarm: True for the careful action in all windows after an alarm, until the state file is deleted.
"""

import json
from pathlib import Path
from time import perf_counter

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
from std_msgs.msg import String
from vision_msgs.msg import Classification, ObjectHypothesis

from pippin import InputError
from pippin.images import FieldModel
from pippin.online import Monitor

CHANNELS = {  # positions of red, green and blue
    "rgb8": (3, [0, 1, 2]),
    "bgr8": (3, [2, 1, 0]),
    "rgba8": (4, [0, 1, 2]),
    "bgra8": (4, [2, 1, 0]),
    "mono8": (1, [0, 0, 0]),
}
SAVED_EVERY = 100  # images between two writes of the monitor's state


def to_rgb(message):
    """Convert a sensor_msgs/Image to an array (height, width, 3) of red, green and blue from 0 to 255.

    Rows may be padded (`step`). Of mono16, the high byte is used, as for 16-bit files.

    Raises:
        InputError: the encoding is not supported, or the data are too short.
    """
    is_mono16 = message.encoding == "mono16"
    if message.encoding not in CHANNELS and not is_mono16:
        known = ", ".join([*CHANNELS, "mono16"])
        raise InputError(
            f"Expected an encoding among {known}, got {message.encoding}", "convert it, e.g. by image_proc"
        )
    channels, order = CHANNELS["mono8"] if is_mono16 else CHANNELS[message.encoding]
    data = np.frombuffer(bytes(message.data), np.uint8)
    used = message.width * channels * (2 if is_mono16 else 1)
    if message.step < used or len(data) < message.step * message.height:
        what = f"Expected {message.height} rows of at least {used} bytes, got {len(data)} bytes, {message.step} per row"
        raise InputError(what, "check the driver of the camera")
    rows = data[: message.step * message.height].reshape(message.height, message.step)[:, :used]
    if is_mono16:
        rows = rows[:, 0 if message.is_bigendian else 1 :: 2]
    return np.ascontiguousarray(rows.reshape(message.height, message.width, channels)[:, :, order])


class PippinNode(Node):
    """Node that applies a field model to every image."""

    def __init__(self):
        super().__init__("pippin")
        defaults = {"model": "", "runtime": "auto", "state": "", "delta": 0.01, "stop_after_alarm": True}
        for name, value in defaults.items():
            self.declare_parameter(name, value)
        given = {name: self.get_parameter(name).value for name in defaults}
        self.model = FieldModel.load(given["model"], runtime=given["runtime"])
        self.state, self.stops = Path(given["state"]) if given["state"] else None, given["stop_after_alarm"]
        if self.state is not None and self.state.exists():
            self.monitor = Monitor.load(self.state)
        else:
            self.monitor = self.model.monitor(given["delta"])
        self.sets = self.create_publisher(Classification, "sets", 100)
        self.actions = self.create_publisher(String, "actions", 10)
        self.diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_subscription(Image, "image", self.on_image, qos_profile_sensor_data)
        self.get_logger().info(self.model.describe())

    def on_image(self, message):
        """Publish the results of one image; an image that cannot be used is reported, and no action published."""
        began = perf_counter()
        try:
            look = self.model.look(to_rgb(message))
        except InputError as error:
            self.get_logger().error(str(error))
            self.publish_status(message.header, DiagnosticStatus.ERROR, str(error), {})
            return
        before = self.monitor.n_alarms
        self.model.observe(self.monitor, look)
        if self.monitor.n_alarms and self.stops:
            look = self.model.stop_acting(look)
        if self.monitor.n_alarms > before or self.monitor.n_rows % SAVED_EVERY == 0:
            self.save()
        for names, p_values in zip(look.sets.labels(), look.p_values, strict=True):
            self.sets.publish(self.classification(message.header, names, p_values))
        record = {
            "stamp": [message.header.stamp.sec, message.header.stamp.nanosec],
            "frame": message.header.frame_id,
            "windows": look.records(),
        }
        self.actions.publish(String(data=json.dumps(record)))
        novel = 0 if look.novel is None else int(look.novel.sum())
        level = DiagnosticStatus.WARN if novel else DiagnosticStatus.OK
        level = DiagnosticStatus.ERROR if self.monitor.n_alarms else level
        values = {
            "windows": len(look),
            "novel windows": novel,
            "alarms": self.monitor.n_alarms,
            "evidence": f"{self.monitor.evidence:.3g}",
            "milliseconds": f"{1000 * (perf_counter() - began):.1f}",
        }
        self.publish_status(message.header, level, self.monitor.describe(), values)

    def classification(self, header, names, p_values):
        """Make a message with the classes of a prediction set and their p-values."""
        values = dict(zip(self.model.classes, p_values.tolist(), strict=True))
        results = [ObjectHypothesis(class_id=name, score=values[name]) for name in names]
        return Classification(header=header, results=results)

    def publish_status(self, header, level, text, values):
        """Publish the state of the node and of its monitor."""
        pairs = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        status = DiagnosticStatus(level=level, name="pippin", message=text, hardware_id="", values=pairs)
        self.diagnostics.publish(DiagnosticArray(header=header, status=[status]))

    def save(self):
        """Write the state of the monitor, if a file was given."""
        if self.state is not None:
            self.monitor.save(self.state)


def main():
    """Run the node until it is shut down."""
    rclpy.init()
    node = PippinNode()
    try:
        rclpy.spin(node)
    except KeyboardInterrupt:
        pass
    finally:
        node.save()
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
