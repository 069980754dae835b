/*
 * The floor: the minimum cost of any lock, with blocking sockets and nothing else. The arguments are those of every
 * program here (bench/programs.py): floor floor MODE PORT[,PORT...] CALLERS SECONDS, with MODE pairs or handoff. In
 * pairs, it writes the SETs of all callers to every node at once, reads all replies, and does the same with their
 * compare-and-delete scripts. One caller and one node measure the raw blocking socket, five nodes measure N sockets,
 * and 64 callers measure the pipeline.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_NODES 16
static const char *RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
static const char *TOKEN = "0123456789abcdef0123456789abcdef";
static int nodes[MOST_NODES], node_count, callers;
static char *batch[2];
static size_t batch_length[2];

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

static int dial(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t sent = write(fd, bytes, length);
        if (sent <= 0) die("write");
        bytes += sent, length -= sent;
    }
}

/* Reads exactly this many bytes. Each reply has a known length, because each must be a success. */
static void expect(int fd, size_t length, char first) {
    static char reply[65536];
    for (size_t had = 0; had < length;) {
        ssize_t got = read(fd, reply, length - had < sizeof reply ? length - had : sizeof reply);
        if (got <= 0 || (had == 0 && reply[0] != first) || memchr(reply, '-', got)) die("reply");
        had += got;
    }
}

static void prepare(void) {
    char load[256], reply[128], sha[41];
    size_t n = snprintf(load, sizeof load, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n", strlen(RELEASE), RELEASE);
    for (int i = 0; i < node_count; i++) {
        send_all(nodes[i], load, n);
        if (read(nodes[i], reply, sizeof reply) < 45) die("load");
    }
    snprintf(sha, sizeof sha, "%.40s", reply + 5);
    char *at[2] = {batch[0] = malloc(callers * 256 + 1), batch[1] = malloc(callers * 256 + 1)};
    for (int i = 0; i < callers; i++) {
        at[0] += sprintf(at[0], "*6\r\n$3\r\nSET\r\n$10\r\nlock:%05d\r\n$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n", i, TOKEN);
        at[1] += sprintf(at[1], "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$10\r\nlock:%05d\r\n$32\r\n%s\r\n", sha, i, TOKEN);
    }
    for (int step = 0; step < 2; step++) batch_length[step] = at[step] - batch[step];
}

static void pair(void) {
    static const struct { char first; int length; } answer[2] = {{'+', 5}, {':', 4}}; /* +OK, :1 */
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < node_count; i++) send_all(nodes[i], batch[step], batch_length[step]);
        for (int i = 0; i < node_count; i++) expect(nodes[i], (size_t)callers * answer[step].length, answer[step].first);
    }
}

static void ready(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

static double cpu(const struct rusage *of) {
    return of->ru_utime.tv_sec + of->ru_stime.tv_sec + (of->ru_utime.tv_usec + of->ru_stime.tv_usec) / 1e6;
}

static void pairs(double seconds) {
    size_t room = 1 << 16, count = 0;
    double *took = malloc(room * sizeof *took);
    prepare();
    for (double warm = now_us() + 1e5; now_us() < warm;) pair();
    ready();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double begin = now_us(), end = begin + seconds * 1e6, last = begin;
    while (last < end) {
        double start = last;
        pair();
        last = now_us();
        if (count == room) took = realloc(took, (room *= 2) * sizeof *took);
        took[count++] = last - start;
    }
    getrusage(RUSAGE_SELF, &after);
    qsort(took, count, sizeof *took, compare);
    long switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
    printf("{\"pairs\": %zu, \"seconds\": %.6f, \"p50\": %.2f, \"p99\": %.2f, \"cpu\": %.6f, \"switches\": %ld, \"failed\": 0}\n",
           count * callers, (last - begin) / 1e6, took[count / 2], took[count * 99 / 100], cpu(&after) - cpu(&before), switches);
}

/*
 * The minimum cost of a handoff: one script deletes and pushes. That wakes another client's blocked pop, which sets the
 * key.
 */
static int taken[2];

static void *wait_and_take(void *port) {
    char reply[256];
    int fd = dial(*(int *)port);
    for (;;) {
        const char *pop = "BLPOP bench-floor 0\r\n", *set = "SET bench-key x NX PX 10000\r\n";
        send_all(fd, pop, strlen(pop));
        if (read(fd, reply, sizeof reply) <= 0) return NULL;
        send_all(fd, set, strlen(set));
        if (read(fd, reply, sizeof reply) <= 0 || reply[0] != '+') die("taken");
        double at = now_us();
        if (write(taken[1], &at, sizeof at) != sizeof at) die("pipe");
    }
}

static void handoff(int port, double seconds) {
    const char *give = "EVAL \"redis.call('del',KEYS[1]) redis.call('lpush',KEYS[2],'x') return 1\" 2 bench-key bench-floor\r\n";
    double *took = malloc(sizeof *took * (size_t)(seconds * 200 + 2)), end;
    size_t count = 0;
    pthread_t waiter;
    int fd = dial(port);
    if (pipe(taken) || pthread_create(&waiter, NULL, wait_and_take, &port)) die("waiter");
    ready();
    for (end = now_us() + seconds * 1e6; now_us() < end; count++) {
        double at;
        usleep(5000);
        double begin = now_us();
        send_all(fd, give, strlen(give));
        expect(fd, 4, ':');
        if (read(taken[0], &at, sizeof at) != sizeof at) die("pipe");
        took[count] = at - begin;
    }
    qsort(took, count, sizeof *took, compare);
    printf("{\"handoffs\": %zu, \"p50\": %.1f, \"p99\": %.1f}\n", count, took[count / 2], took[count * 99 / 100]);
}

int main(int argc, char **argv) {
    if (argc != 6) die("usage: floor floor MODE PORT[,PORT...] CALLERS SECONDS");
    callers = atoi(argv[4]);
    for (char *port = strtok(argv[3], ","); port && node_count < MOST_NODES; port = strtok(NULL, ","))
        nodes[node_count++] = atoi(port);
    if (!strcmp(argv[2], "handoff")) return handoff(nodes[0], atof(argv[5])), 0;
    for (int i = 0; i < node_count; i++) nodes[i] = dial(nodes[i]);
    return pairs(atof(argv[5])), 0;
}
