// Many threads against one engine: random lengths, cancels, stops, closing, a failing rank. What comes out is held against a
// serial engine, and the counters against their identities at every moment. Meant for the sanitizer presets; exits 1 on the first
// deviation.
//
//   stress [--requests N] [--threads N] [--seed N] [--tp N]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "ops/cpu/backend.h"
#include "runtime/stress_faults.h"
#include "runtime/stress_model.h"

namespace paceline::runtime {
namespace {

constexpr auto kDeadline = std::chrono::seconds(120);  // for one request: beyond it something hangs
constexpr int kNewTokens = 12;

struct Arguments {
  int requests = 400;  // of each engine
  int threads = 8;
  uint64_t seed = 1;
  int tp = 0;  // 0: 1, 2 and 4, one after the other
};

struct Expected {  // one prompt and what a serial engine makes of it
  std::vector<int32_t> prompt;
  std::vector<int32_t> tokens;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "stress: %s\n", what.c_str());
  std::_Exit(1);  // other threads are still at work
}

void require(bool condition, const std::string& what) {
  if (!condition) fail(what);
}

void require_sums(const Counters& c) {
  const uint64_t outcomes = c.finished + c.cancelled + c.closed + c.failed;
  require(c.submitted == c.refused + c.waiting + c.dropped + c.admitted, "submitted requests do not add up");
  require(c.admitted + c.dropped == c.running + outcomes, "admitted requests do not add up");
  require(c.steps == c.prefill_steps + c.decode_steps, "steps do not add up");
}

EngineOptions options_of(const char* mode, int tp, int threads) {
  EngineOptions options;
  options.mode = mode;
  options.tp = tp;
  options.threads = threads;
  options.context = 400;
  return options;
}

std::vector<Expected> serial_answers(const StressModel& model, int tp, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto engine = model.open(options_of("serial", tp, tp));
  std::vector<Expected> answers;
  for (const int length : {1, 2, 3, 5, 8, 16, 31, 64, 65, 100, 257, 300}) {
    Expected answer;
    for (int i = 0; i < length; ++i) answer.prompt.push_back(static_cast<int32_t>(random() % 101));
    RequestSpec spec;
    spec.prompt = answer.prompt;
    spec.max_new_tokens = kNewTokens;
    const auto request = engine->submit(std::move(spec));
    require(request->wait(kDeadline), "the serial engine hangs");
    answer.tokens = request->tokens();
    require(answer.tokens.size() == kNewTokens, "the serial engine did not finish: " + request->error());
    answers.push_back(std::move(answer));
  }
  return answers;
}

// What came out is a beginning of what the serial engine made, of the length that the reason asks for.
void require_answer(const Request& request, const Expected& expected) {
  const std::vector<int32_t> tokens = request.tokens();
  const RequestSpec& spec = request.spec();
  require(tokens.size() <= expected.tokens.size(), "too many tokens");
  for (size_t i = 0; i < tokens.size(); ++i)
    require(tokens[i] == expected.tokens[i], concat("request ", request.id(), ": token ", i, " is wrong"));
  for (size_t i = 0; i + 1 < tokens.size(); ++i) require(!spec.stops_at(tokens[i]), "a stop id did not stop");
  switch (request.finish_reason()) {
    case FinishReason::kLength:
      require(tokens.size() == static_cast<size_t>(spec.max_new_tokens), "finished at another length");
      break;
    case FinishReason::kStop:
      require(!tokens.empty() && spec.stops_at(tokens.back()), "stopped at no stop id");
      break;
    case FinishReason::kCancelled:
      require(request.cancel_requested(), "cancelled unasked");
      break;
    case FinishReason::kClosed:
      break;
    default:
      fail("no outcome: " + request.error());
  }
}

void client(Engine& engine, const std::vector<Expected>& answers, int requests, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::shared_ptr<Request>, const Expected*>> open;
  const auto settle = [&] {
    for (const auto& [request, expected] : open) {
      require(request->wait(kDeadline), concat("request ", request->id(), " hangs"));
      require_answer(*request, *expected);
    }
    open.clear();
  };
  for (int i = 0; i < requests; ++i) {
    const Expected& expected = answers[random() % answers.size()];
    RequestSpec spec;
    spec.prompt = expected.prompt;
    spec.max_new_tokens = 1 + static_cast<int>(random() % kNewTokens);
    spec.keep_logits = random() % 8 == 0;
    if (random() % 4 == 0) spec.stop_ids = {expected.tokens[random() % expected.tokens.size()]};
    try {
      open.emplace_back(engine.submit(std::move(spec)), &expected);
    } catch (const EngineClosed&) {
      break;
    }
    if (random() % 5 == 0) open[random() % open.size()].first->cancel();
    if (random() % 7 == 0) open.back().first->wait_tokens(random() % 3, std::chrono::milliseconds(random() % 4));
    if (open.size() >= 6) settle();
  }
  settle();
}

// `close_early`: another thread closes the engine in the middle.
void run_clients(const StressModel& model, int tp, const std::vector<Expected>& answers, const Arguments& arguments,
                 bool close_early) {
  const auto engine = model.open(options_of("batch", tp, tp + 1));
  std::atomic<bool> over{false};
  std::thread monitor([&] {
    while (!over) {
      require_sums(engine->stats());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < arguments.threads; ++i) {
    const uint64_t seed = arguments.seed + 100 + static_cast<uint64_t>(i);
    clients.emplace_back([&, seed] { client(*engine, answers, arguments.requests / arguments.threads, seed); });
  }
  if (close_early) {
    while (engine->stats().finished < static_cast<uint64_t>(arguments.requests) / 8) std::this_thread::yield();
    std::thread another([&] { engine->close(); });
    engine->close();
    another.join();
  }
  for (std::thread& each : clients) each.join();
  over = true;
  monitor.join();
  const Counters last = engine->stats();
  require_sums(last);
  require(last.running == 0 && last.waiting == 0, "requests are left over");
  require(close_early || last.peak_running > 1, "the slots were never shared");
  std::printf("  %s tp %d%s: %llu submitted, %llu finished, %llu cancelled, %llu closed, %llu steps\n",
              model.config().family.c_str(), tp, close_early ? " closed early" : "",
              static_cast<unsigned long long>(last.submitted), static_cast<unsigned long long>(last.finished),
              static_cast<unsigned long long>(last.cancelled), static_cast<unsigned long long>(last.closed),
              static_cast<unsigned long long>(last.steps));
}

void run_fault(const StressModel& model, int tp) {
  const int faulty = tp - 1;
  const auto engine = model.open(options_of("batch", tp, tp), [&](int rank) -> std::unique_ptr<ops::Ops> {
    auto real = ops::make_cpu_ops({.isa = "auto", .threads = 1, .oversubscribed = true});
    if (rank != faulty) return real;
    return std::make_unique<FailingOps>(std::move(real), 20);
  });
  std::vector<std::shared_ptr<Request>> requests;
  for (int i = 0; i < 20; ++i) {
    RequestSpec spec;
    spec.prompt = {1, 2, 3};
    spec.max_new_tokens = 200;
    requests.push_back(engine->submit(std::move(spec)));
  }
  const std::string expected = concat("rank ", faulty, ": a fault made for this test");
  for (const auto& request : requests) {
    require(request->wait(kDeadline), "a request outlives the fault of a rank");
    require(request->finish_reason() == FinishReason::kError && request->error() == expected,
            "not the rank's error: " + request->error());
  }
  bool refused = false;
  try {
    engine->submit(requests.front()->spec());
  } catch (const Error& error) {
    refused = std::strstr(error.what(), expected.c_str()) != nullptr;
  }
  require(refused, "a failed engine takes requests");
  require_sums(engine->stats());
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = values[i];
    const int value = static_cast<int>(std::strtol(values[i + 1], nullptr, 10));
    require(value > 0, name + ": a positive number is needed");
    if (name == "--requests") {
      arguments.requests = value;
    } else if (name == "--threads") {
      arguments.threads = value;
    } else if (name == "--seed") {
      arguments.seed = static_cast<uint64_t>(value);
    } else if (name == "--tp") {
      arguments.tp = value;
    } else {
      fail("unknown option " + name + ": --requests, --threads, --seed and --tp are known");
    }
  }
  require(count % 2 == 1, "an option without its value");
  return arguments;
}

int run(const Arguments& arguments) {
  for (const char* family : {"qwen3", "qwen3_5"}) {
    const StressModel model(family, arguments.seed);
    for (const int tp : arguments.tp != 0 ? std::vector<int>{arguments.tp} : std::vector<int>{1, 2, 4}) {
      const std::vector<Expected> answers = serial_answers(model, tp, arguments.seed);
      run_clients(model, tp, answers, arguments, /*close_early=*/false);
      run_clients(model, tp, answers, arguments, /*close_early=*/true);
      run_fault(model, tp);
    }
  }
  std::printf("stress: all as it should be\n");
  return 0;
}

}  // namespace
}  // namespace paceline::runtime

int main(int count, char** values) {
  try {
    return paceline::runtime::run(paceline::runtime::parse(count, values));
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "stress: %s\n", exception.what());
    return 1;
  }
}
