package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inngest/inngest/pkg/enums"
	"github.com/inngest/inngestgo"
	"github.com/inngest/inngestgo/group"
	"github.com/inngest/inngestgo/step"
)

// defineParallel defines functions with parallel steps.
func defineParallel() {
	define("three", options{}, three(enums.ParallelModeNone))
	definePlain("three-plain", options{}, three(enums.ParallelModeNone))
	definePlain("three-each", options{}, three(enums.ParallelModeRace))
	define("chains", options{}, chains)
	define("mixed", options{}, mixed)
	define("one-fails", options{}, func(ctx context.Context, run *run) (any, error) {
		return both(ctx, run, []string{"good", "bad", "long"}, func(id string) (string, error) {
			if id == "bad" && run.times(id) < 1 {
				return "", later("once", time.Second)
			}
			if id == "long" {
				released(run.Event.Data["hold"])
			}
			return id, nil
		})
	})
	define("held-two", options{}, func(ctx context.Context, run *run) (any, error) {
		sides, err := both(ctx, run, []string{"left", "right"}, func(id string) (string, error) {
			released(run.Event.Data[id])
			return id, nil
		})
		if err != nil {
			return nil, err
		}
		return value(ctx, run, "join", strings.Join(sides, "+")), nil
	})
	many := options{Retries: inngestgo.IntPtr(20)}
	define("storm", many, storm)
	define("storm-child", many, func(ctx context.Context, run *run) (any, error) {
		return value(ctx, run, "double", 2*run.number("n")), nil
	})
}

// parts runs three steps at once, and returns the sum of their values.
func parts(ctx context.Context, run *run, first int, mode enums.ParallelMode) int {
	var steps []func(context.Context) (any, error)
	for n := 1; n <= 3; n++ {
		steps = append(steps, func(ctx context.Context) (any, error) {
			return value(ctx, run, fmt.Sprintf("part-%d", n), first+n), nil
		})
	}
	sum, opts := 0, group.ParallelOpts{ParallelMode: mode}
	for _, part := range group.ParallelWithOpts(ctx, opts, steps...) {
		sum += part.Value.(int)
	}
	return sum
}

func three(mode enums.ParallelMode) function {
	return func(ctx context.Context, run *run) (any, error) {
		return value(ctx, run, "sum", parts(ctx, run, 0, mode)), nil
	}
}

func chains(ctx context.Context, run *run) (any, error) {
	chain := func(name string) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			first := value(ctx, run, name+"-1", 1)
			return value(ctx, run, name+"-2", first+1), nil
		}
	}
	ends := group.Parallel(ctx, chain("a"), chain("b"))
	return data{"a": ends[0].Value, "b": ends[1].Value}, ends.AnyError()
}

func mixed(ctx context.Context, run *run) (any, error) {
	ends := group.Parallel(
		ctx,
		func(ctx context.Context) (any, error) {
			step.Sleep(ctx, "nap", 4*time.Second)
			return nil, nil
		},
		func(ctx context.Context) (any, error) { return wait(ctx, "t/answer", match, time.Minute) },
		func(ctx context.Context) (any, error) { return value(ctx, run, "quick", "quick"), nil },
	)
	if err := ends.AnyError(); err != nil {
		return nil, err
	}
	answer := ends[1].Value.(data)["data"].(data)
	return data{"answer": answer["say"], "quick": ends[2].Value}, nil
}

// storm is a run of the storms: every kind of step, with a child.
func storm(ctx context.Context, run *run) (any, error) {
	n := run.number("n")
	first := value(ctx, run, "first", n)
	step.Sleep(ctx, "nap", 500*time.Millisecond)
	sum := parts(ctx, run, first, enums.ParallelModeNone)
	same := "event.data.n == async.data.n"
	answer, err := wait(ctx, "t/storm-answer", same, 10*time.Minute)
	if err != nil {
		return nil, err
	}
	call := step.InvokeOpts{FunctionId: appID() + "-storm-child", Data: data{"n": n}}
	child, err := step.Invoke[int](ctx, "child", call)
	if err != nil {
		return nil, err
	}
	plus, _ := answer["data"].(data)["plus"].(float64)
	return value(ctx, run, "last", sum+child+int(plus)), nil
}
