package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// An agent that reads, writes and saves. The model here is a script; any type
// with a Chat method will do.
func Example() {
	var text, saved string
	type page struct {
		Index int `json:"index" jsonschema:"which message to read, from 0"`
	}
	read, err := agentloop.NewTool("read_message", "Reads a message.", func(_ context.Context, in page) (string, error) {
		return fmt.Sprintf("message %d: the tests pass", in.Index), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	write, _ := agentloop.NewTool("write", "Writes the article.", func(_ context.Context, in struct{ Text string }) (string, error) {
		text = in.Text
		return "written", nil
	})
	save, _ := agentloop.NewTool("save", "Saves the article.", func(context.Context, struct{}) (string, error) {
		saved = text
		return "saved", nil
	})
	write.Sequential, save.Sequential = true, true

	agent, err := agentloop.New(agentloop.Config{
		Name:  "writer",
		Model: scripted(`read_message {"index":7}`, `write {"Text":"The tests pass."}`, `I am done.`, `save {}`),
		Task:  "Write an article about message 7.",
		Tools: []agentloop.Tool{read, write, save},
		Progression: agentloop.Progression{
			{Name: "read", Tools: []string{"read_message"}},
			{Name: "write", Tools: []string{"write"}},
			{Name: "save", Tools: []string{"save"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	res := agent.Run(context.Background())
	fmt.Println(res.Outcome, res.Steps, res.Nudges)
	fmt.Println(saved)
	// Output:
	// done [read write save] 1
	// The tests pass.
}

// A group returns by its deadline with a name for every agent, even if the
// model never answers and does not listen to its context.
func ExampleGroup() {
	free := make(chan struct{})
	defer close(free)
	deaf := agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) {
		<-free
		return nil, nil
	})
	quick, _ := agentloop.New(agentloop.Config{Name: "quick", Model: scripted("Paris."), Task: "The capital of France?"})
	stuck, _ := agentloop.New(agentloop.Config{Name: "stuck", Model: deaf, Task: "The capital of Spain?"})

	group, err := agentloop.NewGroup(agentloop.GroupConfig{
		Agents:  []*agentloop.Agent{quick, stuck},
		Timeout: 20 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	report := group.Run(context.Background())
	for _, res := range report.Results {
		fmt.Printf("%s: %s %q\n", res.Name, res.Outcome, res.Text)
	}
	fmt.Println(report.Err)
	// Output:
	// quick: done "Paris."
	// stuck: abandoned ""
	// agentloop: deadline of group passed after 20ms
}

// A run that is killed goes on with its journal: the answer that was paid for is
// not asked for again, and the mail that was sent is not sent twice.
func ExampleGroup_Run_again() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	mail, _ := agentloop.NewTool("mail", "Sends a mail.", func(_ context.Context, in struct{ To string }) (string, error) {
		fmt.Println("a mail to", in.To)
		return "sent", nil
	})
	run := func(model agentloop.Model) {
		j, err := journal.Open(journal.Config{Dir: dir})
		if err != nil {
			log.Fatal(err)
		}
		defer j.Close()
		agent, _ := agentloop.New(agentloop.Config{Name: "clerk", Model: model, Task: "Tell Anna.", Tools: []agentloop.Tool{mail}})
		group, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{agent}, Journal: j})
		if err != nil {
			log.Fatal(err)
		}
		res := group.Run(context.Background()).Results[0]
		fmt.Printf("%s: %d answers, %d of them from the journal\n", res.Outcome, res.Rounds, res.Replayed)
	}
	script := scripted(`mail {"To":"Anna"}`, `Anna knows.`)
	broken := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		if len(req.Messages) > 1 {
			return nil, errors.New("the power is gone")
		}
		return script.Chat(ctx, req)
	})
	run(broken)
	run(script)
	// Output:
	// a mail to Anna
	// failed: 1 answers, 0 of them from the journal
	// done: 2 answers, 1 of them from the journal
}

// scripted returns a model that plays lines: a tool and its arguments, or text.
func scripted(lines ...string) agentloop.Model {
	return agentloop.ModelFunc(func(_ context.Context, req *chat.Request) (*chat.Response, error) {
		turn := 0
		for _, m := range req.Messages {
			if m.Role == chat.RoleAssistant {
				turn++
			}
		}
		msg := chat.Assistant(lines[turn])
		if tool, args, ok := strings.Cut(lines[turn], " {"); ok {
			msg = chat.Message{ToolCalls: []chat.ToolCall{{Name: tool, Arguments: "{" + args}}}
		}
		return &chat.Response{Message: msg}, nil
	})
}
