// A point in a stream.
#pragma once
#include "work.hpp"

namespace standin {

struct Event {
  WorkPointer work;                                // where it was recorded, or null before that
  std::weak_ptr<Capture> capture;                  // the capture that it was recorded in,
  WorkPointer captured;                            // and where
  bool timed = true;
  std::shared_ptr<double> seconds = std::make_shared<double>(0);
};

}  // namespace standin
