// SPDX-License-Identifier: Apache-2.0
// Perfetto's tracing service as a program: the sockets are those of PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME.
#include "perfetto_c.cc"

#include <cstdio>

int main() {
  perfetto::base::UnixTaskRunner runner;
  auto service = perfetto::ServiceIPCHost::CreateInstance(&runner, {});
  const char* producers = perfetto::GetProducerSocket();
  const char* consumers = perfetto::GetConsumerSocket();
  remove(producers);
  remove(consumers);
  if (!service->Start(producers, consumers)) {
    fprintf(stderr, "traced: cannot listen on %s and %s\n", producers, consumers);
    return 1;
  }
  runner.Run();
}
