package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// This file is the naive way, kept for comparison: a plain client, no timeout, and a
// WaitGroup that waits for all. Do not copy it.

// naivePatience is how long -naive watches a run in which no call returns.
const naivePatience = 10 * time.Second

// A naiveClient calls a model as one does before the first bad night.
type naiveClient struct {
	http     *http.Client
	baseURL  string
	key      string
	model    string
	returned atomic.Int64 // calls that came back
}

func (c *naiveClient) chat(req *chat.Request) (*chat.Response, error) {
	body, err := req.AppendJSON(nil, false, false)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequest(http.MethodPost, strings.TrimRight(c.baseURL, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		post.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(post)
	c.returned.Add(1)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	answer, refused, err := chat.ParseResponse(data)
	if err == nil && refused != nil {
		err = fmt.Errorf("the server says: %s", refused.Message)
	}
	return answer, err
}

// naiveAgent asks, runs the tools, asks again, until the model stops.
func (c *naiveClient) naiveAgent(d *desk, tools []agentloop.Tool) error {
	req := &chat.Request{Model: c.model, Messages: []chat.Message{chat.System(system), chat.User(d.task())}}
	for _, t := range tools {
		req.Tools = append(req.Tools, chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	for range 50 {
		resp, err := c.chat(req)
		if err != nil {
			return err
		}
		req.Messages = append(req.Messages, resp.Message)
		if len(resp.Message.ToolCalls) == 0 {
			return nil
		}
		for _, call := range resp.Message.ToolCalls {
			result := "no such tool"
			for _, t := range tools {
				if t.Name == call.Name {
					var err error
					if result, err = t.Run(context.Background(), []byte(call.Arguments)); err != nil {
						result = "error: " + err.Error()
					}
				}
			}
			req.Messages = append(req.Messages, chat.ToolResult(call.ID, result))
		}
	}
	return nil
}

// writeNaively makes the book in the naive way. When no call has returned for a while
// (patience) it prints the stacks of all goroutines, and gives up: otherwise it would
// wait for ever.
func writeNaively(ctx context.Context, h *harness, patience time.Duration) int {
	o, say := h.opts, h.say
	client := &naiveClient{
		http:    &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
		baseURL: o.baseURL, key: o.apiKey, model: o.model,
	}
	if h.server != nil {
		client.baseURL = h.server.baseURL()
	}
	say.line("the old way: %d agents on a plain http.Client without timeouts, and a WaitGroup", min(o.agents, len(h.desks)))
	if o.report != "" {
		say.line("there will be no report: the old way has none")
	}
	if h.server != nil && o.faults == naiveFaults {
		say.line("the server hangs on every request; -faults sets others")
	}
	done := make(chan struct{})
	go waitForAll(client, h.desks, o.agents, done)

	progress := time.NewTicker(patience / 10)
	defer progress.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-done:
			return h.naiveEnd()
		case <-ctx.Done():
			say.line("sessionbible: interrupted; %d calls had returned, the others never would", client.returned.Load())
			return exitInterrupted
		case <-progress.C:
		}
		if n := client.returned.Load(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) >= patience {
			dumpNaive(say, patience, client.returned.Load())
			return exitStuck
		}
	}
}

// waitForAll is what a main function used to do.
func waitForAll(client *naiveClient, desks []*desk, parallel int, done chan<- struct{}) {
	defer close(done)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, d := range desks {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			runNaiveAgent(client, d)
		}()
	}
	wg.Wait()
}

func runNaiveAgent(client *naiveClient, d *desk) {
	tools, err := d.tools()
	if err != nil {
		return
	}
	_ = client.naiveAgent(d, tools) // an error was logged, once, and nobody looked
}

// dumpNaive prints where the goroutines of the run are.
func dumpNaive(say *printer, patience time.Duration, returned int64) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nno call has returned for %v; %d did before. The goroutines of the run, by stack:\n\n", patience, returned)
	for _, g := range stacks() {
		if g.through("main.runNaiveAgent") || g.through("sessionbible.runNaiveAgent") ||
			g.through("main.waitForAll") || g.through("sessionbible.waitForAll") {
			g.print(&b)
		}
	}
	b.WriteString("\nNothing here will ever return: no deadline, no clock, nobody to give up. That is the deadlock.\n" +
		"Without -naive every agent ends, whatever the server does, and says why.\n")
	_, _ = io.WriteString(say, b.String())
}

// naiveEnd reports what a naive run saved if it came to its end.
func (h *harness) naiveEnd() int {
	var entries []entry
	saved := 0
	for _, d := range h.desks {
		e := d.entry("not saved")
		if e.Page != nil {
			saved++
		}
		entries = append(entries, e)
	}
	text := "%d of %d articles saved"
	if saved < len(h.desks) {
		text += "; nobody knows what became of the others"
	}
	h.say.line(text, saved, len(h.desks))
	if err := h.book.bind(context.Background(), h.session, entries); err != nil {
		h.say.line("sessionbible: the index: %v", err)
		return exitNotDone
	}
	if saved < len(h.desks) {
		return exitNotDone
	}
	return exitDone
}
