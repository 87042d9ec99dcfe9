// The exceptions native code raises; bindings map each to the Python class of the same name.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace paceline {

class Error : public std::runtime_error {  // NativeError in Python
 public:
  using std::runtime_error::runtime_error;
};

class ConfigError : public Error {  // a model or an option the engine cannot serve
 public:
  using Error::Error;
};

class WeightError : public Error {  // a missing, surplus or misshapen tensor
 public:
  using Error::Error;
};

class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

class RequestRefused : public Error {  // a request that can never fit, or a full queue
 public:
  using Error::Error;
};

class EngineClosed : public Error {
 public:
  using Error::Error;
};

// The parts written one after the other: concat("rows is ", 3, ", expected 4").
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// Throws E with the concatenated parts unless `condition` holds. The message is built only on failure.
template <typename E = Error, typename... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw E(concat(parts...));
}

}  // namespace paceline
