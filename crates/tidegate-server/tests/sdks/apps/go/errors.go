package main

import (
	"context"
	"errors"
	"time"

	"github.com/inngest/inngestgo"
	sdk "github.com/inngest/inngestgo/errors"
	"github.com/inngest/inngestgo/group"
)

// later is an error whose attempt is repeated after a time. The SDK sends whole seconds.
func later(message string, after time.Duration) error {
	return sdk.RetryAtError(errors.New(message), time.Now().Add(after))
}

func named(err error) data {
	var failed sdk.StepError
	errors.As(err, &failed)
	return data{"name": failed.Name, "message": err.Error()}
}

// defineErrors defines functions with errors: in steps and outside, retried and final, caught and
// not.
func defineErrors() {
	define("flaky", options{}, func(ctx context.Context, run *run) (any, error) {
		value(ctx, run, "before", 1)
		return work(ctx, run, "flaky", func() (string, error) {
			if run.times("flaky") < 2 {
				return "", later("not yet", time.Second)
			}
			return "third", nil
		})
	})
	definePlain("attempts", options{}, func(ctx context.Context, run *run) (any, error) {
		for _, id := range []string{"first", "second"} {
			_, err := work(ctx, run, id, func() (any, error) {
				if run.times(id) < 1 {
					return nil, later("once", time.Second)
				}
				return nil, nil
			})
			if err != nil {
				return nil, err
			}
		}
		return value(ctx, run, "third", "done"), nil
	})
	one := options{Retries: inngestgo.IntPtr(1)}
	define("always", one, func(ctx context.Context, run *run) (any, error) {
		_, err := work(ctx, run, "always", func() (int, error) {
			return 0, errors.New("never works")
		})
		return data{"caught": named(err), "after": value(ctx, run, "after", "went on")}, nil
	})
	defineUncaught()
	define("fatal-step", options{}, func(ctx context.Context, run *run) (any, error) {
		_, err := work(ctx, run, "fatal", func() (string, error) {
			return "", sdk.NoRetryError(errors.New("give up"))
		})
		return data{"caught": named(err)}, nil
	})
	// An error in Go code that no function returns.
	define("panics", one, func(ctx context.Context, run *run) (any, error) {
		return work(ctx, run, "panics", func() (string, error) { panic("out of range") })
	})
	defineRetries()
	none := options{Retries: inngestgo.IntPtr(0)}
	define("described", none, func(ctx context.Context, run *run) (any, error) {
		_, err := work(ctx, run, "declines", func() (data, error) {
			return data{"balance": 3}, errors.New("card declined")
		})
		return named(err), nil
	})
	// With `revision` 2 the code has other steps in its group than at revision 1.
	define("changed", one, func(ctx context.Context, run *run) (any, error) {
		ids := []string{"stays"}
		if knobs.revision() == 1 {
			ids = append(ids, "goes")
		}
		return both(ctx, run, ids, func(id string) (string, error) {
			if id == "goes" && run.times(id) < 1 {
				return "", later("once", 3*time.Second)
			}
			return id, nil
		})
	})
}

// both runs steps in parallel, and returns their values.
func both(
	ctx context.Context, run *run, ids []string, body func(id string) (string, error),
) ([]string, error) {
	var steps []func(context.Context) (any, error)
	for _, id := range ids {
		steps = append(steps, func(ctx context.Context) (any, error) {
			return work(ctx, run, id, func() (string, error) { return body(id) })
		})
	}
	results := group.Parallel(ctx, steps...)
	var values []string
	for _, result := range results {
		text, _ := result.Value.(string)
		values = append(values, text)
	}
	return values, results.AnyError()
}

// defineUncaught defines a function that fails, and the function that the SDK has instead of a
// failure handler: one that the event of the failure triggers.
func defineUncaught() {
	none := options{Retries: inngestgo.IntPtr(0)}
	define("uncaught", none, func(ctx context.Context, run *run) (any, error) {
		return work(ctx, run, "fails", func() (any, error) {
			return nil, errors.New("nobody catches this")
		})
	})
	id := appID() + "-uncaught"
	failed := inngestgo.StrPtr("event.data.function_id == '" + id + "'")
	define("uncaught-failure", options{}, func(ctx context.Context, run *run) (any, error) {
		failure := run.Event.Data
		event, _ := failure["event"].(data)
		write(ctx, line{
			"what": "failure", "run": failure["run_id"], "fn": failure["function_id"],
			"error": failure["error"], "data": event["data"],
		})
		return nil, nil
	}, inngestgo.EventTrigger("inngest/function.failed", failed))
}

// defineRetries defines functions that are called again, when the error or the function says.
func defineRetries() {
	define("retry-after-step", options{}, func(ctx context.Context, run *run) (any, error) {
		return work(ctx, run, "later", func() (string, error) {
			if run.times("later") < 1 {
				return "", later("later", 2500*time.Millisecond)
			}
			return "later", nil
		})
	})
	define("retry-after-body", options{}, func(_ context.Context, run *run) (any, error) {
		if run.times("later") < 1 {
			return nil, later("later", 2500*time.Millisecond)
		}
		return "later", nil
	})
	define("body-error", options{}, func(ctx context.Context, run *run) (any, error) {
		first := value(ctx, run, "first", 1)
		if run.times("body") < 1 {
			return nil, later("outside of steps", time.Second)
		}
		return data{"second": value(ctx, run, "second", first+1)}, nil
	})
	define("fatal-body", options{}, func(ctx context.Context, run *run) (any, error) {
		value(ctx, run, "first", 1)
		return nil, sdk.NoRetryError(errors.New("final"))
	})
}
