// Go libraries with a goroutine per caller: LIBRARY MODE PORT[,PORT...] CALLERS SECONDS (see ../../programs.py).
// LIBRARY: redsync, bsm, and either with -autopipe, where go-redis batches the commands of many callers. MODE: pairs,
// handoff.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 10 * time.Second

var (
	library  = os.Args[1]
	mode     = os.Args[2]
	ports    = strings.Split(os.Args[3], ",")
	callers  = int(number(os.Args[4]))
	length   = time.Duration(number(os.Args[5]) * float64(time.Second))
	autopipe = strings.HasSuffix(library, "-autopipe")
	input    = bufio.NewReader(os.Stdin)
)

// Acquires the lock of a name and returns the function that releases it.
type take func() (func() error, error)

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(port string) redis.UniversalClient {
	size := callers
	if size < 10 || autopipe {
		size = 10
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, PoolSize: size})
	if !autopipe {
		return client
	}
	packed, err := client.AutoPipeline()
	check(err)
	return packed
}

func bsm() func(name string) take {
	locker := redislock.New(connect(ports[0]))
	var options *redislock.Options
	if mode == "handoff" {
		// The strategy and interval of the library's documentation.
		options = &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	}
	ctx := context.Background()
	return func(name string) take {
		return func() (func() error, error) {
			lock, err := locker.Obtain(ctx, name, ttl, options)
			if err != nil {
				return nil, err
			}
			return func() error { return lock.Release(ctx) }, nil
		}
	}
}

func ofRedsync() func(name string) take {
	var pools []redsyncredis.Pool
	for _, port := range ports {
		pools = append(pools, goredis.NewPool(connect(port)))
	}
	client := redsync.New(pools...)
	tries := 1
	if mode == "handoff" {
		tries = math.MaxInt32
	}
	return func(name string) take {
		return func() (func() error, error) {
			mutex := client.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(tries))
			if err := mutex.Lock(); err != nil {
				return nil, err
			}
			return func() error { _, err := mutex.Unlock(); return err }, nil
		}
	}
}

func used() (float64, int64) {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime), usage.Nvcsw + usage.Nivcsw
}

// Nanoseconds of the clock that all processes of this machine share.
func stamp() int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

// Reports that everything is warm. The measurement starts then.
func begin() {
	fmt.Println("ready")
	_, err := input.ReadString('\n')
	check(err)
}

func finish(result any) {
	check(json.NewEncoder(os.Stdout).Encode(result))
	os.Exit(0)
}

func run(ways []take, length time.Duration) map[string]any {
	all, failures := make([][]float64, callers), make([]int, callers)
	cpu, switches := used()
	start := time.Now()
	var group sync.WaitGroup
	for i, way := range ways {
		group.Add(1)
		go func() {
			defer group.Done()
			for before := time.Now(); before.Sub(start) < length; {
				give, err := way()
				if err == nil {
					err = give()
				}
				if err != nil {
					failures[i]++
				}
				now := time.Now()
				all[i] = append(all[i], float64(now.Sub(before).Nanoseconds())/1e3)
				before = now
			}
		}()
	}
	group.Wait()
	lasted := time.Since(start).Seconds()
	cpuAfter, switchesAfter := used()
	var took []float64
	failed := 0
	for i := range all {
		took = append(took, all[i]...)
		failed += failures[i]
	}
	sort.Float64s(took)
	return map[string]any{
		"pairs": len(took), "seconds": lasted, "p50": took[len(took)/2], "p99": took[len(took)*99/100],
		"cpu": cpuAfter - cpu, "switches": switchesAfter - switches, "failed": failed,
	}
}

func handoff(way take) {
	give, err := way()
	check(err)
	check(give())
	begin()
	var guard sync.Mutex
	stamps := [][3]int64{}
	work := func() {
		asked := stamp()
		give, err := way()
		check(err)
		taken := stamp()
		time.Sleep(5 * time.Millisecond)
		guard.Lock()
		stamps = append(stamps, [3]int64{asked, taken, stamp()})
		guard.Unlock()
		check(give())
	}
	go func() {
		// A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
  // again immediately, and the others would only wait.
		for {
			var wave sync.WaitGroup
			for range callers {
				wave.Go(work)
			}
			wave.Wait()
		}
	}()
	time.Sleep(length)
	guard.Lock()
	finish(map[string]any{"stamps": stamps})
}

func main() {
	of := bsm
	if strings.HasPrefix(library, "redsync") {
		of = ofRedsync
	}
	name := of()
	if mode == "handoff" {
		handoff(name("handoff"))
	}
	var ways []take
	for i := range callers {
		ways = append(ways, name(fmt.Sprintf("bench-%d", i)))
	}
	run(ways, 150*time.Millisecond)
	begin()
	finish(run(ways, length))
}
