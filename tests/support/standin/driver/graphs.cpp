// Captures, and the graphs that they produce.
#include <set>
#include <utility>

#include "work.hpp"

using namespace standin;

namespace {

// A captured graph.  Its own work is never executed; a launch copies it.
struct Graph {
  std::vector<WorkPointer> nodes;
};

// All nodes that this one depends on, itself included.
std::set<const Work*> ancestors(const WorkPointer& last) {
  std::set<const Work*> found;
  std::vector<const Work*> waiting{last.get()};
  while (!waiting.empty()) {
    const Work* node = waiting.back();
    waiting.pop_back();
    if (!node || !found.insert(node).second) continue;
    for (auto& before : node->after) waiting.push_back(before.get());
  }
  return found;
}

// Every node once, each after those that it depends on; of several branches the newest comes first.
std::vector<Act> acts_in_order(const std::vector<WorkPointer>& nodes) {
  std::vector<Act> acts;
  std::set<const Work*> done;
  for (size_t k = nodes.size(); k-- > 0;) {
    std::vector<WorkPointer> waiting{nodes[k]};
    while (!waiting.empty()) {
      const WorkPointer node = waiting.back();
      WorkPointer before;
      for (auto& one : node->after)
        if (one && !done.count(one.get())) before = one;
      if (before) {
        waiting.push_back(before);
        continue;
      }
      waiting.pop_back();
      if (done.insert(node.get()).second && node->act) acts.push_back(node->act);
    }
  }
  return acts;
}

}  // namespace

API int cudaStreamBeginCapture(const void* handle, int mode) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  if (stream->legacy) return result(refused(cudaErrorStreamCaptureUnsupported, "the null stream cannot be captured"));
  if (stream->capture) return result(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>(Capture{mode, &self, stream, false, {}});
  stream->last_captured = nullptr;
  return 0;
}
API int cudaStreamEndCapture(const void* handle, void** made) {
  Lock lock(everything);
  *made = nullptr;
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  if (!stream->capture) return result(cudaErrorIllegalState);
  if (stream->capture->origin != stream) return result(cudaErrorStreamCaptureUnmatched);
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed && stream->capture->thread != &self)
    return result(cudaErrorStreamCaptureWrongThread);
  const std::shared_ptr<Capture> capture = stream->capture;
  const bool joined = ancestors(stream->last_captured).size() == capture->nodes.size();
  leave_capture(capture);
  if (capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  if (!joined) return result(cudaErrorStreamCaptureUnjoined);
  *made = new Graph{capture->nodes};
  return 0;
}
API int cudaStreamIsCapturing(const void* handle, int* status) {
  Lock lock(everything);
  Stream* stream = stream_of(handle);
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  *status = !stream->capture          ? cudaStreamCaptureStatusNone
            : stream->capture->broken ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
  return 0;
}
API int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(self.capture_mode, *mode);
  return 0;
}
API int cudaGraphInstantiate(void** made, void* graph, unsigned long long) { return *made = new Graph(*(Graph*)graph), 0; }
API int cudaGraphUpload(void*, const void* handle) {
  Lock lock(everything);
  return result(stream_of(handle) ? 0 : (int)cudaErrorInvalidResourceHandle);
}
API int cudaGraphLaunch(void* graph, const void* handle) {
  Lock lock(everything);
  enter_context();
  auto acts = acts_in_order(((Graph*)graph)->nodes);
  return result(add(handle, [acts] {
    for (auto& act : acts)
      if (int error = act()) return error;
    return 0;
  }));
}
API int cudaGraphDestroy(void* graph) { return delete (Graph*)graph, 0; }
API int cudaGraphExecDestroy(void* graph) { return delete (Graph*)graph, 0; }
