// Ops that a partition puts where a value crosses from one device to another. Internal: they occur
// in the parts of a placed graph only, and plans run them with a rendezvous.
//
//   Send       input 0, if there is one, goes to the device `destination` as transfer `transfer`;
//              without an input only the news that the control inputs have run
//   Recv       output 0 is what the Send of this number on the device `source` was given; without
//              an input there, an empty uint8 vector
//   ShapeOnly  stands for a value of which another device needs nothing but the shape
#pragma once

#include <string_view>

namespace lockstep::op {

inline constexpr std::string_view kSend = "Send";
inline constexpr std::string_view kRecv = "Recv";
inline constexpr std::string_view kShapeOnly = "ShapeOnly";

}  // namespace lockstep::op
