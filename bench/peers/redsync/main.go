// redsync with its defaults, but for as many tries as it takes. ../README.md says what it is asked to do.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

func main() {
	mode, resource := os.Args[1], os.Args[4]
	tasks, _ := strconv.Atoi(os.Args[2])
	span, _ := strconv.Atoi(os.Args[3])
	var pools []redsyncredis.Pool
	for _, node := range os.Args[5:] {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: node})))
	}
	locks := redsync.New(pools...)
	mutex := func(name string) *redsync.Mutex {
		return locks.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
	}
	warm := mutex("warm-up")
	if err := warm.Lock(); err != nil {
		panic(err)
	}
	warm.Unlock()

	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	end := time.Now().Add(time.Duration(span) * time.Millisecond)
	until, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	said := make([][]string, tasks)
	var holders, violations int64
	apart := func(task int) {
		for turn := 0; time.Now().Before(end); turn++ {
			begun := time.Now()
			one := mutex(fmt.Sprintf("%s:%d:%d", resource, task, turn))
			if one.Lock() == nil {
				one.Unlock()
				said[task] = append(said[task], fmt.Sprintf("lock %d", time.Since(begun).Microseconds()))
			}
		}
	}
	one := func(task int) {
		turns, failures := 0, 0
		var longest time.Duration
		for time.Now().Before(end) {
			begun := time.Now()
			lock := mutex(resource)
			err := lock.LockContext(until)
			if waited := time.Since(begun); waited > longest {
				longest = waited
			}
			if err != nil {
				if until.Err() == nil {
					failures++
				}
				continue
			}
			if atomic.AddInt64(&holders, 1) > 1 {
				atomic.AddInt64(&violations, 1)
			}
			turns++
			time.Sleep(time.Millisecond)
			atomic.AddInt64(&holders, -1)
			if ok, err := lock.Unlock(); !ok || err != nil {
				failures++
			}
		}
		said[task] = []string{fmt.Sprintf("task %d %d %d", turns, longest.Microseconds(), failures)}
	}
	var all sync.WaitGroup
	for task := 0; task < tasks; task++ {
		all.Add(1)
		go func(task int) {
			defer all.Done()
			if mode == "apart" {
				apart(task)
			} else {
				one(task)
			}
		}(task)
	}
	all.Wait()
	for _, lines := range said {
		if len(lines) > 0 {
			fmt.Println(strings.Join(lines, "\n"))
		}
	}
	fmt.Printf("violations %d\nend\n", violations)
}
