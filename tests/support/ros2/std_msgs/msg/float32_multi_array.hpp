// Stub of std_msgs/Float32MultiArray, without its layout.
#pragma once

#include <memory>
#include <vector>

namespace std_msgs::msg
{
struct Float32MultiArray {
  using ConstSharedPtr = std::shared_ptr<const Float32MultiArray>;
  std::vector<float> data;
};
}  // namespace std_msgs::msg
