/*
 * A slow link: link MS PORT... listens on a port for each given one, prints it, and forwards data MS later in both
 * directions. Data in transit does not delay later data, because each chunk has its own departure time.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct chunk {
    struct chunk *next;
    struct timespec leaves;
    ssize_t length;
    char bytes[];
};

struct way {
    int from, to;
    struct chunk *first, **last;
    pthread_mutex_t guard;
    pthread_cond_t came;
};

struct gate {
    int listener, port;
};

static long delay_ns;

static void *deliver(void *of) {
    struct way *way = of;
    for (;;) {
        pthread_mutex_lock(&way->guard);
        while (!way->first) pthread_cond_wait(&way->came, &way->guard);
        struct chunk *chunk = way->first;
        if (!(way->first = chunk->next)) way->last = &way->first;
        pthread_mutex_unlock(&way->guard);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &chunk->leaves, NULL)) continue;
        if (chunk->length <= 0) {
            shutdown(way->to, SHUT_WR);
            return NULL;
        }
        for (ssize_t sent = 0, now; sent < chunk->length; sent += now)
            if ((now = write(way->to, chunk->bytes + sent, chunk->length - sent)) <= 0) return NULL;
        free(chunk);
    }
}

static void *collect(void *of) {
    struct way *way = of;
    for (ssize_t got = 1; got > 0;) {
        struct chunk *chunk = malloc(sizeof *chunk + 65536);
        got = chunk->length = read(way->from, chunk->bytes, 65536);
        chunk->next = NULL;
        clock_gettime(CLOCK_MONOTONIC, &chunk->leaves);
        long ns = chunk->leaves.tv_nsec + delay_ns;
        chunk->leaves.tv_sec += ns / 1000000000;
        chunk->leaves.tv_nsec = ns % 1000000000;
        pthread_mutex_lock(&way->guard);
        *way->last = chunk;
        way->last = &chunk->next;
        pthread_cond_signal(&way->came);
        pthread_mutex_unlock(&way->guard);
    }
    return NULL;
}

static void lead(int from, int to) {
    pthread_t thread;
    struct way *way = calloc(1, sizeof *way);
    way->from = from, way->to = to, way->last = &way->first;
    pthread_mutex_init(&way->guard, NULL);
    pthread_cond_init(&way->came, NULL);
    if (pthread_create(&thread, NULL, collect, way) || pthread_create(&thread, NULL, deliver, way)) exit(1);
}

static void *stand(void *of) {
    struct gate *gate = of;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(gate->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int one = 1, near;;) {
        int far = socket(AF_INET, SOCK_STREAM, 0);
        if ((near = accept(gate->listener, NULL, NULL)) < 0 || connect(far, (struct sockaddr *)&to, sizeof to)) exit(1);
        setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        lead(near, far);
        lead(far, near);
    }
}

int main(int count, char **words) {
    delay_ns = atof(words[1]) * 1e6;
    /* A connection that one side has closed ends alone. */
    signal(SIGPIPE, SIG_IGN);
    for (int i = 2; i < count; i++) {
        pthread_t thread;
        struct gate *gate = malloc(sizeof *gate);
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof at;
        gate->port = atoi(words[i]);
        gate->listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(gate->listener, (struct sockaddr *)&at, sizeof at) || listen(gate->listener, 128)) return 1;
        getsockname(gate->listener, (struct sockaddr *)&at, &length);
        printf("%d ", ntohs(at.sin_port));
        if (pthread_create(&thread, NULL, stand, gate)) return 1;
    }
    puts("");
    fflush(stdout);
    pause();
}
