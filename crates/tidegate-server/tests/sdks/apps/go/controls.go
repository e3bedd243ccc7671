package main

import (
	"context"
	"os"
	"time"

	"github.com/inngest/inngest/pkg/enums"
	"github.com/inngest/inngestgo"
	"github.com/inngest/inngestgo/step"
)

// defineControls defines functions with one control each, which log begin and end of their work.
func defineControls() {
	key := inngestgo.StrPtr("event.data.key")
	define("batched", options{
		BatchEvents: &inngestgo.ConfigBatchEvents{MaxSize: 3, Timeout: 2 * time.Second, Key: key},
	}, func(_ context.Context, run *run) (any, error) {
		var numbers []any
		for _, event := range run.Events {
			numbers = append(numbers, event.Data["n"])
		}
		return numbers, nil
	})
	most := 3 * time.Second
	define("debounced", options{
		Debounce: &inngestgo.ConfigDebounce{Period: time.Second, Key: *key, Timeout: &most},
	}, echo)
	define("limited", options{
		RateLimit: &inngestgo.ConfigRateLimit{Limit: 10, Period: time.Minute, Key: key},
	}, echo)
	define("once", options{Idempotency: key}, echo)

	switched := inngestgo.StrPtr("event.data.on ? event.data.key : false")
	skip := &inngestgo.ConfigSingleton{Key: switched, Mode: enums.SingletonModeSkip}
	define("single-skip", options{Singleton: skip}, working(0))
	cancel := &inngestgo.ConfigSingleton{Key: switched, Mode: enums.SingletonModeCancel}
	define("single-cancel", options{Singleton: cancel}, func(
		ctx context.Context, run *run,
	) (any, error) {
		step.Sleep(ctx, "nap", run.duration("time"))
		return run.Event.Data["n"], nil
	})

	account := inngestgo.StrPtr("event.data.accountId")
	define("exclusive", options{Concurrency: steps(1, account)}, working(50*time.Millisecond))
	define("pair", options{Concurrency: steps(2, key)}, working(50*time.Millisecond))
	define("throttled", options{
		Throttle: &inngestgo.ConfigThrottle{Limit: 1, Period: time.Second, Key: key},
	}, working(0))
	urgent := inngestgo.StrPtr("event.data.urgent ? 120 : 0")
	define("ranked", options{
		Concurrency: steps(1, key), Priority: &inngestgo.ConfigPriority{Run: urgent},
	}, working(0))
	// Whole runs: the limit holds while a run sleeps.
	define("whole", options{Concurrency: &inngestgo.ConfigConcurrency{
		Fn: []inngestgo.ConfigFnConcurrency{{Limit: 1, Key: key}},
	}}, func(ctx context.Context, run *run) (any, error) {
		step.Sleep(ctx, "nap", run.duration("time"))
		return run.Event.Data["n"], nil
	})
	defineEnds(key)
	defineTriggers()
	defineEverything(key)
}

func echo(_ context.Context, run *run) (any, error) { return run.Event.Data["n"], nil }

func working(pause time.Duration) function {
	return func(ctx context.Context, run *run) (any, error) {
		_, err := work(ctx, run, "work", func() (any, error) {
			released(run.Event.Data["hold"])
			time.Sleep(pause)
			return nil, nil
		})
		return run.Event.Data["n"], err
	}
}

// steps limits the requests in progress.
func steps(limit int, key *string) *inngestgo.ConfigConcurrency {
	return &inngestgo.ConfigConcurrency{
		Step: []inngestgo.ConfigStepConcurrency{{Limit: limit, Key: key}},
	}
}

// defineEnds defines functions that end before they return.
func defineEnds(key *string) {
	same := inngestgo.StrPtr(match)
	define("cancellable", options{
		Cancel: []inngestgo.ConfigCancel{{Event: "t/cancel", If: same}},
	}, func(ctx context.Context, run *run) (any, error) {
		step.Sleep(ctx, "long", run.duration("time"))
		return "not cancelled", nil
	})
	second := time.Second
	define("slow-start", options{
		Concurrency: steps(1, key), Timeouts: &inngestgo.ConfigTimeouts{Start: &second},
	}, working(0))
	define("slow-finish", options{
		Timeouts: &inngestgo.ConfigTimeouts{Finish: &second},
	}, func(ctx context.Context, _ *run) (any, error) {
		step.Sleep(ctx, "long", time.Hour)
		return nil, nil
	})
}

func defineTriggers() {
	define("wild", options{}, echo, on("t/wild/*"), on("t/wild/both"))
	condition := inngestgo.StrPtr(`event.data.n > 5 && event.data.kind == "x"`)
	define("filtered", options{}, echo, inngestgo.EventTrigger("t/filtered", condition))
	tick := func(context.Context, *run) (any, error) { return "ticked", nil }
	define("cron", options{}, tick, inngestgo.CronTrigger("TZ=Europe/Paris * * * * *"))
}

// defineEverything defines a function with every control that may stand beside the others, for a
// comparison of the definitions; and one that no server accepts, for the test of refusals.
func defineEverything(key *string) {
	start, finish := 10*time.Minute, 2*time.Hour
	define("everything", options{
		Retries: inngestgo.IntPtr(7),
		Concurrency: &inngestgo.ConfigConcurrency{Step: []inngestgo.ConfigStepConcurrency{
			{Limit: 4, Key: inngestgo.StrPtr("event.data.account.id")},
			{Limit: 9, Key: inngestgo.StrPtr(`"shared"`), Scope: enums.ConcurrencyScopeEnv},
		}},
		Throttle:  &inngestgo.ConfigThrottle{Limit: 3, Period: time.Minute, Burst: 2, Key: key},
		RateLimit: &inngestgo.ConfigRateLimit{Limit: 100, Period: time.Hour, Key: key},
		Priority:  &inngestgo.ConfigPriority{Run: inngestgo.StrPtr("event.data.rank * 10")},
		Timeouts:  &inngestgo.ConfigTimeouts{Start: &start, Finish: &finish},
		Cancel: []inngestgo.ConfigCancel{{
			Event: "t/cancel", If: inngestgo.StrPtr(match), Timeout: inngestgo.StrPtr("1h"),
		}},
	}, func(context.Context, *run) (any, error) { return "everything", nil })
	if os.Getenv("REFUSED") != "" {
		refused := inngestgo.StrPtr("event.data.(")
		define("refused", options{Concurrency: steps(1, refused)}, echo)
	}
}
