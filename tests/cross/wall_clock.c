// A wall clock with an offset of WALL_OFFSET_S seconds, for the process into which this is preloaded. WALL_OFFSET_FILE
// names a file with a changeable offset instead, a long. With SLEWED, every clock that NTP slews runs slower by a
// twelfth.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  static volatile const long *shared;
  const char *path = getenv("WALL_OFFSET_FILE");
  if (path && !shared) {
    int file = open(path, O_RDONLY);
    shared = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  if (path) return *shared;
  const char *seconds = getenv("WALL_OFFSET_S");
  return seconds ? atol(seconds) : 0;
}

static void slew(clockid_t clock, struct timespec *time) {
  static long long began[16];
  long long now = time->tv_sec * 1000000000LL + time->tv_nsec;
  if (clock < 0 || clock >= 16) return;
  if (!began[clock]) began[clock] = now;
  now -= (now - began[clock]) / 12;
  time->tv_sec = now / 1000000000LL;
  time->tv_nsec = now % 1000000000LL;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int answer = (int)syscall(SYS_clock_gettime, clock, time);
  if (getenv("SLEWED") && clock != CLOCK_MONOTONIC_RAW) slew(clock, time);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += offset();
  return answer;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  int answer = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return answer;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}
