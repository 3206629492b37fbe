// Stub of the parts of rclcpp that the example uses: spin delivers rows from standard input, publish prints.
#pragma once

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "std_msgs/msg/float32_multi_array.hpp"

#define RCLCPP_INFO(logger, ...) (static_cast<void>(logger), std::fprintf(stderr, __VA_ARGS__), std::fputs("\n", stderr))
#define RCLCPP_ERROR RCLCPP_INFO

namespace rclcpp
{
struct SensorDataQoS {};
struct Logger {};

template <typename Message>
struct Publisher {
  using SharedPtr = std::shared_ptr<Publisher>;
  std::string topic;
  void publish(const Message &message)
  {
    std::printf("%s", topic.c_str());
    for (auto value : message.data) {
      std::printf(" %.9g", static_cast<double>(value));
    }
    std::printf("\n");
  }
};

template <typename Message>
struct Subscription {
  using SharedPtr = std::shared_ptr<Subscription>;
};

class Node
{
public:
  explicit Node(const std::string &) {}
  Logger get_logger() const { return {}; }
  std::function<void(std_msgs::msg::Float32MultiArray::ConstSharedPtr)> callback;

protected:
  template <typename Message>
  std::shared_ptr<Publisher<Message>> create_publisher(const std::string &topic, int)
  {
    return std::make_shared<Publisher<Message>>(Publisher<Message>{topic});
  }
  template <typename Message, typename Callback>
  std::shared_ptr<Subscription<Message>> create_subscription(const std::string &, SensorDataQoS, Callback given)
  {
    callback = given;
    return std::make_shared<Subscription<Message>>();
  }
};

inline void init(int, char **) {}
inline void shutdown() {}
inline void spin(std::shared_ptr<Node> node)
{
  for (std::string line; std::getline(std::cin, line);) {
    auto message = std::make_shared<std_msgs::msg::Float32MultiArray>();
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      message->data.push_back(std::stof(word));
    }
    node->callback(message);
  }
}
}  // namespace rclcpp
