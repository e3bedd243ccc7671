package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inngest/inngestgo"
	"github.com/inngest/inngestgo/pkg/checkpoint"
	"github.com/inngest/inngestgo/step"
)

// data is the data of events.
type data = map[string]any

// input is the input of functions.
type input = inngestgo.Input[data]

// options is the configuration of a function.
type options = inngestgo.FunctionOpts

var client = newClient()

func newClient() inngestgo.Client {
	// This SDK takes every text for development.
	if os.Getenv("INNGEST_DEV") == "0" {
		must(os.Unsetenv("INNGEST_DEV"))
	}
	level := &slog.HandlerOptions{Level: slog.LevelWarn}
	client, err := inngestgo.NewClient(inngestgo.ClientOpts{
		AppID:  appID(),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, level)),
		// Checkpoints do not read the environment variable.
		APIBaseURL: inngestgo.StrPtr(server()),
	})
	must(err)
	return client
}

func appID() string {
	if id := os.Getenv("APP_ID"); id != "" {
		return id
	}
	return "acceptance"
}

func server() string {
	if dev := os.Getenv("INNGEST_DEV"); dev != "" {
		return dev
	}
	return os.Getenv("INNGEST_BASE_URL")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// rig has values that the rig sets while the application runs: the keys of held steps that may go
// on, and the revision of the code.
type rig struct {
	lock     sync.Mutex
	Released []string
	Revision int
}

var knobs = &rig{Revision: 1}

// UnmarshalJSON sets the values that a request has.
func (r *rig) UnmarshalJSON(text []byte) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	type plain rig
	return json.Unmarshal(text, (*plain)(r))
}

func (r *rig) revision() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.Revision
}

// released waits until the rig releases a key; at once if there is none.
func released(key any) {
	name, _ := key.(string)
	isHeld := func() bool {
		knobs.lock.Lock()
		defer knobs.lock.Unlock()
		return name != "" && !slices.Contains(knobs.Released, name)
	}
	for isHeld() {
		time.Sleep(10 * time.Millisecond)
	}
}

// callNumber is the key of the number that the rig's proxy has given to the call in progress.
type callNumber struct{}

// line is a line of the log.
type line map[string]any

var logFile = openLog()

func openLog() *os.File {
	file, err := os.OpenFile(os.Getenv("LOG"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	must(err)
	return file
}

// write appends a line to the log in one write, so that `kill -9` loses nothing.
func write(ctx context.Context, fields line) {
	fields["at"] = time.Now().UnixMilli()
	fields["call"] = ctx.Value(callNumber{})
	text, err := json.Marshal(fields)
	must(err)
	_, err = logFile.Write(append(text, '\n'))
	must(err)
}

// function is the code of a function.
type function func(ctx context.Context, run *run) (any, error)

// run is one call of a function.
type run struct {
	input
	fn string
}

// define defines a function that records its steps by checkpoints.
func define(id string, opts options, body function, triggers ...inngestgo.Trigger) {
	opts.Checkpoint = checkpoint.ConfigSafe
	definePlain(id, opts, body, triggers...)
}

// definePlain defines a function without checkpoints. Its usual trigger is the event of its name.
func definePlain(id string, opts options, body function, triggers ...inngestgo.Trigger) {
	opts.ID = id
	if len(triggers) == 0 {
		triggers = []inngestgo.Trigger{on("t/" + id)}
	}
	logged := func(ctx context.Context, in input) (any, error) {
		write(ctx, line{
			"what": "body", "fn": id, "run": in.InputCtx.RunID, "attempt": in.InputCtx.Attempt,
			"data": in.Event.Data,
		})
		return body(ctx, &run{in, id})
	}
	_, err := inngestgo.CreateFunction(client, opts, inngestgo.MultipleTriggers(triggers), logged)
	must(err)
}

func on(event string) inngestgo.Trigger { return inngestgo.EventTrigger(event, nil) }

// work is a step whose executions are in the log, with their begin and end.
func work[T any](ctx context.Context, run *run, id string, body func() (T, error)) (T, error) {
	return step.Run(ctx, id, func(ctx context.Context) (T, error) {
		say := func(what string, message string) {
			write(ctx, line{
				"what": what, "fn": run.fn, "run": run.InputCtx.RunID, "step": id,
				"attempt": run.InputCtx.Attempt, "message": message,
			})
		}
		say("begin", "")
		result, err := body()
		if err != nil {
			say("fail", err.Error())
		} else {
			say("end", "")
		}
		return result, err
	})
}

// value is a step that returns a value.
func value[T any](ctx context.Context, run *run, id string, result T) T {
	result, err := work(ctx, run, id, func() (T, error) { return result, nil })
	must(err)
	return result
}

var (
	counts     = map[string]int{}
	countsLock sync.Mutex
)

// times returns the number of earlier calls with this name in this run, in this process.
func (run *run) times(name string) int {
	countsLock.Lock()
	defer countsLock.Unlock()
	key := strings.Join([]string{run.InputCtx.RunID, name}, " ")
	counts[key]++
	return counts[key] - 1
}

// number returns a number of the event's data.
func (run *run) number(name string) int {
	number, _ := run.Event.Data[name].(float64)
	return int(number)
}

// text returns a text of the event's data.
func (run *run) text(name string) string {
	text, _ := run.Event.Data[name].(string)
	return text
}

// duration returns a duration of the event's data, such as `1s`.
func (run *run) duration(name string) time.Duration {
	duration, err := time.ParseDuration(run.text(name))
	must(err)
	return duration
}
