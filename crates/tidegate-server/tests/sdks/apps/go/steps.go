package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inngest/inngestgo"
	"github.com/inngest/inngestgo/pkg/checkpoint"
	"github.com/inngest/inngestgo/step"
)

// defineSteps defines functions with values, order, repeated ids and large memos.
func defineSteps() {
	define("plain", options{}, func(_ context.Context, run *run) (any, error) {
		return data{"echo": run.Event.Data}, nil
	})
	define("two-steps", options{}, twoSteps)
	definePlain("two-steps-plain", options{}, twoSteps)
	define("void-step", options{}, func(ctx context.Context, run *run) (any, error) {
		nothing := value[any](ctx, run, "nothing", nil)
		after := value(ctx, run, "after", "done")
		return data{"nothing": nothing, "after": after}, nil
	})
	define("loop", options{}, func(ctx context.Context, run *run) (any, error) {
		var items []int
		for i := range 3 {
			items = append(items, value(ctx, run, "item", i))
		}
		return items, nil
	})
	define("held", options{}, func(ctx context.Context, run *run) (any, error) {
		before := value(ctx, run, "before", 1)
		held, err := work(ctx, run, "held", func() (int, error) {
			released(run.Event.Data["hold"])
			return 2, nil
		})
		return before + held + value(ctx, run, "after", 3), err
	})
	// As many steps as the event says, each of as many bytes.
	definePlain("many", options{}, func(ctx context.Context, run *run) (any, error) {
		length := 0
		for i := range run.number("steps") {
			text := fmt.Sprint(i)
			text += strings.Repeat("x", run.number("bytes")-len(text))
			length += len(value(ctx, run, fmt.Sprintf("part-%d", i), text))
		}
		return data{"length": length}, nil
	})
	// Steps that the SDK posts only when there are very many.
	buffered := options{Checkpoint: checkpoint.ConfigPerformant}
	definePlain("buffered", buffered, func(ctx context.Context, run *run) (any, error) {
		sum := 0
		for n := 1; n <= 3; n++ {
			sum += value(ctx, run, fmt.Sprintf("part-%d", n), n)
		}
		return sum, nil
	})
	define("values", options{}, func(ctx context.Context, run *run) (any, error) {
		tricky := value[any](ctx, run, "tricky", tricky)
		return value[any](ctx, run, "echo", data{"data": run.Event.Data, "tricky": tricky}), nil
	})
	define("sender", options{}, sender)
	receive := func(_ context.Context, run *run) (any, error) { return run.Event.Data, nil }
	define("receiver", options{}, receive, on("t/sent"))
	define("slow", options{}, func(ctx context.Context, run *run) (any, error) {
		return work(ctx, run, "slow", func() (string, error) {
			time.Sleep(time.Duration(run.number("ms")) * time.Millisecond)
			return "slow", nil
		})
	})
}

var tricky = data{
	"floats":   []float64{0.1, 1e21, 1e-7, -1.5, 5e-324, 1.7976931348623157e308, 100},
	"integers": []int{9007199254740991, -9007199254740991, 0},
	"clé 鍵 🔑":  data{"ö": "ü", "\u0001": "\u2028", "z": nil, "a": []any{nil, data{"b": nil}}},
	"empty":    []any{data{}, []any{}, "", nil},
}

func twoSteps(ctx context.Context, run *run) (any, error) {
	first := value(ctx, run, "first", 2+run.number("add"))
	second := value(ctx, run, "second", first*10)
	return data{"first": first, "second": second}, nil
}

func sender(ctx context.Context, run *run) (any, error) {
	var events []inngestgo.Event
	for n := 1; n <= 2; n++ {
		sent := data{"n": n, "of": run.Event.Data["key"]}
		events = append(events, inngestgo.Event{Name: "t/sent", Data: sent})
	}
	ids, err := step.SendMany(ctx, "send", events)
	if err != nil {
		return nil, err
	}
	value(ctx, run, "after", len(ids))
	step.Sleep(ctx, "nap", time.Second)
	return data{"sent": len(ids)}, nil
}
