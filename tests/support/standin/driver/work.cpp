// The order of work within a stream and between streams.
#include "work.hpp"

#include <map>
#include <random>
#include <utility>

namespace standin {

int context_error = 0;

namespace {

std::vector<std::unique_ptr<Stream>> streams;      // created streams, oldest first

struct DefaultStreams {
  Stream legacy[DEVICES];
  std::map<std::pair<const Thread*, int>, Stream> per_thread;          // one per thread and device
  DefaultStreams() {
    for (int device = 0; device < DEVICES; ++device) {
      legacy[device].device = device;
      legacy[device].legacy = true;
    }
  }
} defaults;

template <class Call> void for_each_blocking(int device, Call call) {
  for (auto& stream : streams)
    if (stream->device == device && !stream->non_blocking) call(*stream);
  for (auto& [key, stream] : defaults.per_thread)
    if (stream.device == device) call(stream);
}

// ---- other orders than the latest ----
const unsigned LATE = 0, EARLY = ~0u;              // any other number is the seed of a random order
unsigned order = LATE;
std::mt19937 chance;

// Runs some of the work that waits: in any stream, up to any place.
void run_some() {
  while (chance() % 2) {
    std::vector<WorkPointer> waiting;
    const auto look = [&](const WorkPointer& work) {
      if (work && !work->done) waiting.push_back(work);
    };
    for (auto& stream : streams) look(stream->last);
    for (auto& stream : defaults.legacy) look(stream.last);
    for (auto& [key, stream] : defaults.per_thread) look(stream.last);
    WorkPointer found;
    while (!waiting.empty() && (!found || chance() % 2)) {
      found = waiting[chance() % waiting.size()];
      waiting.clear();
      for (auto& before : found->after) look(before);
    }
    run(found);
  }
}

int add_to_capture(Stream& stream, Act act, const std::vector<WorkPointer>& also) {
  if (stream.capture->broken) return cudaErrorStreamCaptureInvalidated;
  WorkPointer node = std::make_shared<Work>();
  node->act = std::move(act);
  node->after = also;
  if (stream.last_captured) node->after.push_back(stream.last_captured);
  stream.capture->nodes.push_back(node);
  stream.last_captured = node;
  return 0;
}

// The null stream would have to wait for a captured stream, or the reverse; CUDA refuses that and invalidates the capture.
int implicit_capture(int device) {
  int error = 0;
  for_each_blocking(device, [&](Stream& other) {
    if (other.capture) other.capture->broken = true, error = cudaErrorStreamCaptureImplicit;
  });
  return error;
}

}  // namespace

Stream* stream_of(const void* handle) {
  const uintptr_t value = (uintptr_t)handle;
  if (value <= 1) return &defaults.legacy[self.device];              // 0 and cudaStreamLegacy
  if (value == 2) {                                                  // cudaStreamPerThread
    Stream& found = defaults.per_thread[{&self, self.device}];
    found.device = self.device;
    return &found;
  }
  for (auto& stream : streams)
    if (stream.get() == handle) return stream.get();
  return nullptr;
}

Stream* new_stream(int device, bool non_blocking) {
  streams.push_back(std::make_unique<Stream>());
  streams.back()->device = device;
  streams.back()->non_blocking = non_blocking;
  return streams.back().get();
}

bool delete_stream(const void* handle) {
  for (auto stream = streams.begin(); stream != streams.end(); ++stream)
    if (stream->get() == handle) {
      run((*stream)->last);                        // no call could ask for it later
      streams.erase(stream);
      return true;
    }
  return false;
}

int add(Stream* stream, Act act, const std::vector<WorkPointer>& also) {
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (context_error) return context_error;
  if (stream->capture) return add_to_capture(*stream, std::move(act), also);
  WorkPointer work = std::make_shared<Work>();
  work->act = std::move(act);
  work->after = also;
  work->after.push_back(stream->last);
  if (stream->legacy) {
    if (int error = implicit_capture(stream->device)) return error;
    for_each_blocking(stream->device, [&](Stream& other) { work->after.push_back(other.last); });
  } else if (!stream->non_blocking) {
    work->after.push_back(defaults.legacy[stream->device].last);
  }
  stream->last = work;
  if (order == EARLY) run(work);
  else if (order != LATE) run_some();
  return 0;
}

int add(const void* handle, Act act, const std::vector<WorkPointer>& also) { return add(stream_of(handle), std::move(act), also); }

void run(const WorkPointer& last) {
  std::vector<WorkPointer> waiting;                // not recursive: a stream may hold thousands of pieces
  if (last) waiting.push_back(last);
  while (!waiting.empty()) {
    const WorkPointer work = waiting.back();
    WorkPointer before;
    for (auto& one : work->after)
      if (!work->done && one && !one->done) before = one;
    if (before) {
      waiting.push_back(before);
      continue;
    }
    waiting.pop_back();
    if (work->done) continue;
    work->done = true;
    work->after.clear();
    const Act act = std::move(work->act);
    work->act = nullptr;
    if (act && !context_error) context_error = act();
  }
}

void run_stream(Stream* stream) {
  if (stream->legacy) add(stream, nullptr);        // waits for the blocking streams, including their latest work
  run(stream->last);
}

void run_device(int device) {
  // The newest stream first, unlike the order of the calls, on which no program may rely.
  for (size_t k = streams.size(); k-- > 0;)
    if (streams[k]->device == device) run(streams[k]->last);
  for (auto& [key, stream] : defaults.per_thread)
    if (stream.device == device) run(stream.last);
  run(defaults.legacy[device].last);
}

void leave_capture(const std::shared_ptr<Capture>& capture) {
  const auto leave = [&](Stream& stream) {
    if (stream.capture == capture) stream.capture = nullptr, stream.last_captured = nullptr;
  };
  for (auto& stream : streams) leave(*stream);
  for (auto& [key, stream] : defaults.per_thread) leave(stream);
}

int unsafe_during_capture(const char* function) {
  bool forbidden = false;
  const auto look = [&](Stream& stream) {
    Capture* capture = stream.capture.get();
    if (capture && self.capture_mode != cudaStreamCaptureModeRelaxed &&
        ((capture->mode == cudaStreamCaptureModeGlobal && self.capture_mode == cudaStreamCaptureModeGlobal) ||
         (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread == &self)))
      forbidden = capture->broken = true;
  };
  for (auto& stream : streams) look(*stream);
  for (auto& [key, stream] : defaults.per_thread) look(stream);
  return forbidden ? refused(cudaErrorStreamCaptureUnsupported, "%s during a capture", function) : 0;
}

}  // namespace standin

using namespace standin;

API void standin_set_order(unsigned wanted) {
  Lock lock(everything);
  order = wanted;
  chance.seed(wanted);
}
