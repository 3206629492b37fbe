// Stub of std_msgs/Int32MultiArray, without its layout.
#pragma once

#include <memory>
#include <vector>

namespace std_msgs::msg
{
struct Int32MultiArray {
  using ConstSharedPtr = std::shared_ptr<const Int32MultiArray>;
  std::vector<int> data;
};
}  // namespace std_msgs::msg
