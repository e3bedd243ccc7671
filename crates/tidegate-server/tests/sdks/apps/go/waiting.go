package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/inngest/inngestgo"
	sdk "github.com/inngest/inngestgo/errors"
	"github.com/inngest/inngestgo/step"
)

const match = "event.data.id == async.data.id"

// defineWaiting defines functions with sleeps, events, called functions and signals.
func defineWaiting() {
	define("sleeps", options{}, func(ctx context.Context, run *run) (any, error) {
		step.Sleep(ctx, "duration", time.Second)
		value(ctx, run, "between", 1)
		step.Sleep(ctx, "number", 1000*time.Millisecond)
		until := value(ctx, run, "until", time.Now().Add(1500*time.Millisecond))
		step.SleepUntil(ctx, "date", until)
		// A moment that has passed.
		step.SleepUntil(ctx, "past", until.Add(-time.Hour))
		return data{"until": until.Format(time.RFC3339Nano)}, nil
	})
	define("nap", options{}, func(ctx context.Context, run *run) (any, error) {
		step.Sleep(ctx, "nap", run.duration("time"))
		return "rested", nil
	})
	define("waits", options{}, func(ctx context.Context, run *run) (any, error) {
		event, err := wait(ctx, "t/answer", match, run.duration("timeout"))
		if errors.Is(err, step.ErrEventNotReceived) {
			return data{"answer": nil}, nil
		}
		return data{"answer": event}, err
	})
	defineCalls()
	define("signal", options{}, func(ctx context.Context, run *run) (any, error) {
		timeout := run.duration("timeout")
		wait := step.WaitForSignalOpts{Signal: run.text("signal"), Timeout: timeout}
		signal, err := step.WaitForSignal[any](ctx, "wait", wait)
		if errors.Is(err, step.ErrSignalNotReceived) {
			return data{"answer": nil}, nil
		}
		return data{"answer": signal}, err
	})
	none := options{Retries: inngestgo.IntPtr(0)}
	define("signaller", none, func(ctx context.Context, run *run) (any, error) {
		return work(ctx, run, "send", func() (any, error) { return nil, signal(run.text("signal")) })
	})
}

func wait(
	ctx context.Context, event string, condition string, timeout time.Duration,
) (data, error) {
	opts := step.WaitForEventOpts{Event: event, If: &condition, Timeout: timeout}
	return step.WaitForEvent[data](ctx, "answer", opts)
}

// signal posts a signal. The SDK waits for signals, and sends none.
func signal(name string) error {
	body, err := json.Marshal(data{"signal": name, "data": data{"hello": "there"}})
	must(err)
	answer, err := http.Post(server()+"/v1/signals", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 500 {
		return fmt.Errorf("the signal was answered with %d", answer.StatusCode)
	}
	return nil
}

// defineCalls defines a function that calls others, and those.
func defineCalls() {
	none := options{Retries: inngestgo.IntPtr(0)}
	define("caller", none, func(ctx context.Context, run *run) (any, error) {
		call := step.InvokeOpts{FunctionId: appID() + "-" + run.text("target"), Data: data{}}
		if sent, ok := run.Event.Data["data"].(data); ok {
			call.Data = sent
		}
		if run.text("timeout") != "" {
			call.Timeout = run.duration("timeout")
		}
		result, err := step.Invoke[any](ctx, "call", call)
		if err != nil {
			return data{"error": named(err)}, nil
		}
		value(ctx, run, "after", 1)
		return data{"value": result}, nil
	})
	define("callee", options{}, func(ctx context.Context, run *run) (any, error) {
		return value(ctx, run, "double", data{"doubled": 2 * run.number("n")}), nil
	})
	define("callee-fails", none, func(context.Context, *run) (any, error) {
		return nil, sdk.NoRetryError(errors.New("callee is broken"))
	})
	sleep := func(ctx context.Context, _ *run) (any, error) {
		step.Sleep(ctx, "long", time.Hour)
		return nil, nil
	}
	define("callee-sleeps", options{}, sleep)
	key := inngestgo.StrPtr("event.data.key")
	single := &inngestgo.ConfigSingleton{Key: key}
	define("callee-single", options{Singleton: single}, sleep)
	limit := &inngestgo.ConfigRateLimit{Limit: 1, Period: time.Hour, Key: key}
	define("callee-limited", options{RateLimit: limit}, func(context.Context, *run) (any, error) {
		return "limited", nil
	})
}
