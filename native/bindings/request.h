// The handle of a request, as Python holds it.
#pragma once

#include <memory>

#include "runtime/request.h"

namespace paceline::bindings {

struct PyRequest {  // outlives its engine
  std::shared_ptr<runtime::Request> request;
  int vocab_size;
};

}  // namespace paceline::bindings
