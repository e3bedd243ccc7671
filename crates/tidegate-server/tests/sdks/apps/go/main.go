// Acceptance application on the Go SDK: every feature that the SDK has, in small functions.
//
//	LOG=FILE [PORT=0] [APP_ID=acceptance] app
//
// Prints its port. The log has one JSON line for each function body and each execution of a step.
// The rig controls the application at /rig and lets it send events at /send.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/inngest/inngestgo"
)

func main() {
	defineSteps()
	defineErrors()
	defineWaiting()
	defineParallel()
	defineControls()
	// The rig asks for registrations without a signature, as `curl -X PUT` does.
	serve := client.ServeWithOpts(inngestgo.ServeOpts{EnableUnauthedSync: inngestgo.BoolPtr(true)})
	http.HandleFunc("/api/inngest", func(response http.ResponseWriter, request *http.Request) {
		number, _ := strconv.Atoi(request.Header.Get("x-rig-call"))
		ctx := context.WithValue(request.Context(), callNumber{}, number)
		serve.ServeHTTP(response, request.WithContext(ctx))
	})
	http.HandleFunc("/rig", func(response http.ResponseWriter, request *http.Request) {
		must(json.NewDecoder(request.Body).Decode(knobs))
		answer(response, http.StatusOK, map[string]any{})
	})
	http.HandleFunc("/send", func(response http.ResponseWriter, request *http.Request) {
		ids, err := send(request)
		if err != nil {
			answer(response, http.StatusInternalServerError, map[string]any{"error": err.Error()})
			return
		}
		answer(response, http.StatusOK, map[string]any{"ids": ids})
	})
	port := os.Getenv("PORT")
	if port == "" {
		port = "0"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	must(err)
	fmt.Printf("listening on %d\n", listener.Addr().(*net.TCPAddr).Port)
	must(http.Serve(listener, nil))
}

func answer(response http.ResponseWriter, status int, body any) {
	response.Header().Set("content-type", "application/json")
	response.WriteHeader(status)
	must(json.NewEncoder(response).Encode(body))
}

// send sends events by the client, outside of steps, as a web handler does.
func send(request *http.Request) ([]string, error) {
	var events []inngestgo.Event
	if err := json.NewDecoder(request.Body).Decode(&events); err != nil {
		return nil, err
	}
	list := make([]any, len(events))
	for i, event := range events {
		list[i] = event
	}
	ids, err := client.SendMany(request.Context(), list)
	if err == nil {
		write(request.Context(), line{"what": "sent", "ids": ids})
	}
	return ids, err
}
