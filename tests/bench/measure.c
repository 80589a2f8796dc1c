// Runs a program and writes what it took: seconds, peak memory in KiB, exit status.
//   measure REPORT PROGRAM ARGUMENT...
// In C because the system counts a parent's memory to its child until exec: this parent has next to none.

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char** environ;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  pid_t child;
  int status = 0;
  struct rusage usage;
  const double start = now();
  if (posix_spawnp(&child, arguments[2], NULL, NULL, arguments + 2, environ) != 0) return 2;
  if (wait4(child, &status, 0, &usage) != child) return 2;
  const double seconds = now() - start;
  FILE* report = fopen(arguments[1], "w");
  if (!report) return 2;
  fprintf(report, "%.9f %ld %d\n", seconds, usage.ru_maxrss,
          WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return fclose(report) == 0 ? 0 : 2;
}
