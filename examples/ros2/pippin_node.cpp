// ROS 2 node: certified actions from the logits of another node, by a header that pippin exported.
//
//   pippin export decider.json --c decider.h
//
// Subscribes to
//   logits (std_msgs/Float32MultiArray): the logits of the windows of one image, one row of PIPPIN_CLASSES numbers
//     per window, such as from a node that runs the network in TensorRT.
// Publishes
//   actions (std_msgs/Int32MultiArray): the number of the action of each window; -1 if its logits are not finite, and
//     then no action may be taken. The names are logged at the start.
//   certificates (std_msgs/Float32MultiArray): lower bounds of the utilities of the actions; -inf without certificate.
//
// The node makes no novelty test and has no monitor: these are in pippin_node.py.

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "rclcpp/rclcpp.hpp"
#include "std_msgs/msg/float32_multi_array.hpp"
#include "std_msgs/msg/int32_multi_array.hpp"

#include "decider.h"

// Computes the softmax in double precision as pippin does: the largest logit is subtracted first.
inline bool softmax(const float *logits, double *probs)
{
  double largest = logits[0];
  double sum = 0;
  for (int k = 0; k < PIPPIN_CLASSES; ++k) {
    if (!std::isfinite(logits[k])) {
      return false;
    }
    largest = logits[k] > largest ? logits[k] : largest;
  }
  for (int k = 0; k < PIPPIN_CLASSES; ++k) {
    probs[k] = std::exp(logits[k] - largest);
    sum += probs[k];
  }
  for (int k = 0; k < PIPPIN_CLASSES; ++k) {
    probs[k] /= sum;
  }
  return true;
}

class PippinNode : public rclcpp::Node
{
public:
  PippinNode() : rclcpp::Node("pippin_actions")
  {
    actions_ = create_publisher<std_msgs::msg::Int32MultiArray>("actions", 10);
    certificates_ = create_publisher<std_msgs::msg::Float32MultiArray>("certificates", 10);
    logits_ = create_subscription<std_msgs::msg::Float32MultiArray>(
      "logits", rclcpp::SensorDataQoS(),
      [this](std_msgs::msg::Float32MultiArray::ConstSharedPtr message) { decide(*message); });
    for (int a = 0; a < PIPPIN_ACTIONS; ++a) {
      RCLCPP_INFO(get_logger(), "action %d: %s", a, pippin_action_name(a));
    }
  }

private:
  void decide(const std_msgs::msg::Float32MultiArray &message)
  {
    if (message.data.size() % PIPPIN_CLASSES != 0) {
      RCLCPP_ERROR(
        get_logger(), "Expected rows of %d logits, got %d numbers: check the network.", PIPPIN_CLASSES,
        static_cast<int>(message.data.size()));
      return;
    }
    const std::size_t windows = message.data.size() / PIPPIN_CLASSES;
    std_msgs::msg::Int32MultiArray actions;
    std_msgs::msg::Float32MultiArray certificates;
    for (std::size_t i = 0; i < windows; ++i) {
      double probs[PIPPIN_CLASSES];
      double certificate = -std::numeric_limits<double>::infinity();
      const bool finite = softmax(message.data.data() + i * PIPPIN_CLASSES, probs);
      actions.data.push_back(finite ? pippin_decide(probs, &certificate) : -1);
      certificates.data.push_back(static_cast<float>(certificate));
    }
    actions_->publish(actions);
    certificates_->publish(certificates);
  }

  rclcpp::Publisher<std_msgs::msg::Int32MultiArray>::SharedPtr actions_;
  rclcpp::Publisher<std_msgs::msg::Float32MultiArray>::SharedPtr certificates_;
  rclcpp::Subscription<std_msgs::msg::Float32MultiArray>::SharedPtr logits_;
};

int main(int argc, char **argv)
{
  rclcpp::init(argc, argv);
  rclcpp::spin(std::make_shared<PippinNode>());
  rclcpp::shutdown();
  return 0;
}
