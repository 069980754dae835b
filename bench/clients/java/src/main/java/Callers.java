import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson with a thread per caller: LIBRARY MODE PORT[,PORT...] CALLERS SECONDS (see ../../../../../programs.py).
 * MODE: pairs, handoff, hold.
 */
public final class Callers {
  private static final List<RedissonClient> CLIENTS = new ArrayList<>();
  private static int callers;
  private static double seconds;

  private record Used(double cpu, long switches) {}

  private interface Body {
    void run(int caller) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    callers = Integer.parseInt(arguments[3]);
    seconds = Double.parseDouble(arguments[4]);
    for (String port : arguments[2].split(",")) CLIENTS.add(connect(port));
    switch (arguments[1]) {
      case "handoff" -> handoff();
      case "hold" -> hold();
      default -> {
        // Long enough for the compiler.
        pairs(2);
        begin();
        finish(pairs(seconds));
      }
    }
  }

  private static RedissonClient connect(String port) {
    Config config = new Config().setLockWatchdogTimeout(10_000).setThreads(2).setNettyThreads(1);
    int size = Math.max(64, Math.min(callers, 256));
    config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionPoolSize(size).setConnectionMinimumIdleSize(Math.min(callers, 64));
    return Redisson.create(config);
  }

  private static RLock lock(String name) {
    RLock[] each = CLIENTS.stream().map(client -> client.getLock(name)).toArray(RLock[]::new);
    return each.length == 1 ? each[0] : new RedissonRedLock(each);
  }

  private static String pairs(double length) throws Exception {
    double[][] took = new double[callers][];
    int[] failed = new int[callers];
    Used before = used();
    long start = System.nanoTime(), end = start + (long) (length * 1e9);
    inThreads(
        caller -> {
          double[] mine = new double[1 << 10];
          int count = 0;
          RLock lock = lock("bench-" + caller);
          for (long at = System.nanoTime(), next; at < end; at = next) {
            try {
              lock.lock(10, TimeUnit.SECONDS);
              lock.unlock();
            } catch (RuntimeException error) {
              failed[caller]++;
            }
            next = System.nanoTime();
            if (count == mine.length) mine = Arrays.copyOf(mine, count * 2);
            mine[count++] = (next - at) / 1e3;
          }
          took[caller] = Arrays.copyOf(mine, count);
        });
    double lasted = (System.nanoTime() - start) / 1e9;
    Used after = used();
    double[] all = Arrays.stream(took).flatMapToDouble(Arrays::stream).sorted().toArray();
    return String.format(
        "{\"pairs\": %d, \"seconds\": %f, \"p50\": %f, \"p99\": %f, \"cpu\": %f, \"switches\": %d, \"failed\": %d}",
        all.length, lasted, all[all.length / 2], all[all.length * 99 / 100],
        after.cpu - before.cpu, after.switches - before.switches, Arrays.stream(failed).sum());
  }

  private static void handoff() throws Exception {
    RLock first = lock("handoff");
    first.lock();
    first.unlock();
    begin();
    List<String> stamps = new ArrayList<>();
    // A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
    // again immediately, and the others would only wait.
    CyclicBarrier wave = new CyclicBarrier(callers);
    for (int i = 0; i < callers; i++) {
      start(
          0,
          number -> {
            for (RLock lock = lock("handoff"); ; lock.unlock()) {
              wave.await();
              long asked = System.nanoTime();
              lock.lock();
              long taken = System.nanoTime();
              Thread.sleep(5);
              synchronized (stamps) {
                stamps.add("[" + asked + ", " + taken + ", " + System.nanoTime() + "]");
              }
            }
          });
    }
    Thread.sleep((long) (seconds * 1000));
    synchronized (stamps) {
      finish("{\"stamps\": [" + String.join(", ", stamps) + "]}");
    }
  }

  private static void hold() throws Exception {
    long start = System.nanoTime();
    double empty = status("VmRSS:"), first = 0;
    int threads = threads();
    List<RLock> locks = new ArrayList<>();
    for (int i = 0; i < callers; i++) {
      // The first tenth includes everything that is allocated once, however many there are.
      if (i == callers / 10) first = status("VmRSS:");
      locks.add(lock("held-" + i));
      locks.get(i).lock();
    }
    double taken = (System.nanoTime() - start) / 1e9, kb = (status("VmRSS:") - first) / (callers - callers / 10);
    begin();
    double cpu = used().cpu;
    Thread.sleep((long) (seconds * 1000));
    cpu = used().cpu - cpu;
    long lost = locks.stream().filter(lock -> !lock.isHeldByCurrentThread()).count();
    finish(String.format(
        "{\"leases\": %d, \"lost\": %d, \"cpu\": %f, \"kb\": %f, \"first_mb\": %f, \"threads\": %d, \"taken_s\": %f}",
        callers, lost, cpu, kb, (first - empty) / 1024, threads() - threads, taken));
  }

  private static Thread start(int caller, Body body) {
    Thread thread = new Thread(() -> {
      try {
        body.run(caller);
      } catch (Exception error) {
        error.printStackTrace();
        System.exit(1);
      }
    });
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private static void inThreads(Body body) throws Exception {
    if (callers == 1) {
      body.run(0);
      return;
    }
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < callers; i++) threads.add(start(i, body));
    for (Thread thread : threads) thread.join();
  }

  /** CPU seconds of this process, and context switches of its running threads. */
  private static Used used() throws IOException {
    var bean = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    long switches = 0;
    for (java.io.File task : new java.io.File("/proc/self/task").listFiles()) {
      try {
        for (String line : Files.readAllLines(Path.of(task.getPath(), "status")))
          if (line.contains("ctxt_switches:")) switches += Long.parseLong(line.split("\\s+")[1]);
      } catch (IOException ended) {
        continue;
      }
    }
    return new Used(bean.getProcessCpuTime() / 1e9, switches);
  }

  private static int threads() {
    return new java.io.File("/proc/self/task").list().length;
  }

  private static double status(String name) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status")))
      if (line.startsWith(name)) return Double.parseDouble(line.split("\\s+")[1]);
    return 0;
  }

  /** Reports that everything is warm. The measurement starts then. */
  private static void begin() throws IOException {
    System.out.println("ready");
    while (System.in.read() != '\n') continue;
  }

  private static void finish(String result) {
    System.out.println(result);
    Runtime.getRuntime().halt(0);
  }
}
