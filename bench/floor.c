/* The floor: a lock and its release as two raw round trips over a blocking socket, nothing else.
 * floor PORT PAIRS prints the median microseconds of a pair. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
static const char *TOKEN = "0123456789abcdef0123456789abcdef";

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void die(const char *what) {
    fprintf(stderr, "floor: %s\n", what);
    exit(1);
}

/* Every answer here is short and comes in one piece. */
static size_t ask(int fd, const char *command, size_t length, char *reply, size_t room) {
    if (write(fd, command, length) != (ssize_t)length) die("write");
    ssize_t got = read(fd, reply, room - 1);
    if (got <= 0 || reply[0] == '-') die("reply");
    reply[got] = 0;
    return (size_t)got;
}

int main(int argc, char **argv) {
    if (argc != 3) die("usage: floor PORT PAIRS");
    int pairs = atoi(argv[2]), one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

    char reply[256], set[256], del[256], load[256], sha[41];
    size_t n = snprintf(load, sizeof load, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n", strlen(RELEASE), RELEASE);
    ask(fd, load, n, reply, sizeof reply);
    snprintf(sha, sizeof sha, "%.40s", reply + 5);
    size_t ns = snprintf(set, sizeof set, "*6\r\n$3\r\nSET\r\n$10\r\nlock:bench\r\n$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n", TOKEN);
    size_t nd = snprintf(del, sizeof del, "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$10\r\nlock:bench\r\n$32\r\n%s\r\n", sha, TOKEN);

    double *took = calloc(pairs, sizeof *took);
    for (int i = 0; i < pairs; i++) {
        double begin = now_us();
        ask(fd, set, ns, reply, sizeof reply);
        if (reply[0] != '+') die("not granted");
        ask(fd, del, nd, reply, sizeof reply);
        took[i] = now_us() - begin;
    }
    qsort(took, pairs, sizeof *took, compare);
    printf("%.2f\n", took[pairs / 2]);
    return 0;
}
