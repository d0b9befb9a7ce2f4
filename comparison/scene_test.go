package comparison_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// deadline is what each run gets; think is how long the model takes.
	deadline = 10 * time.Minute
	think    = time.Second
	// slack is how late a run may be back.
	slack = 100 * time.Millisecond

	system = "You write one article: read, then write, then save."
	task   = "Write the article."
)

// A call is a call of a tool, a turn what the model answers: calls, or a text,
// or nothing at all, ever.
type call struct{ tool, text string }

type turn struct {
	text  string
	calls []call
	stall bool
}

// A scene is a night.
type scene struct {
	name   string
	script func(n int) turn
	stuck  bool     // the tool save ignores its context
	fails  bool     // the tool read fails from the second time on, each time with another text
	named  []string // words one of which names what it got stuck in
}

var scenes = []scene{
	{
		name: "a tool ignores its context", stuck: true, named: []string{"save"},
		script: toolTurn("read", "write", "save"),
	},
	{
		name: "a call is repeated for ever", named: []string{"read"},
		script: func(n int) turn {
			if n == 1 {
				return turn{calls: []call{{"read", ""}, {"write", "a paragraph"}}}
			}
			return turn{calls: []call{{"read", ""}}}
		},
	},
	{
		name: "a call fails for ever, with another text each time", fails: true, named: []string{"read"},
		script: toolTurn("read", "write", "read"),
	},
	{
		name: "the model stops answering", named: []string{"model"},
		script: func(n int) turn {
			if n > 2 {
				return turn{stall: true}
			}
			return toolTurn("read", "write")(n)
		},
	},
	{
		name: "it says it is done, and has not saved", named: []string{"save"},
		script: func(n int) turn {
			if n > 2 {
				return turn{text: "The article is done!"}
			}
			return toolTurn("read", "write")(n)
		},
	},
	{
		name: "all is well",
		script: func(n int) turn {
			if n > 3 {
				return turn{text: "The article is saved."}
			}
			return toolTurn("read", "write", "save")(n)
		},
	},
}

// toolTurn calls one tool after the other.
func toolTurn(tools ...string) func(n int) turn {
	return func(n int) turn { return turn{calls: []call{{tools[min(n, len(tools))-1], "a paragraph"}}} }
}

// A player plays a script as the model.
type player struct {
	script func(n int) turn

	mu sync.Mutex
	n  int
}

// next is the next answer. It obeys its context, as clients do.
func (p *player) next(ctx context.Context) (turn, error) {
	p.mu.Lock()
	p.n++
	t := p.script(p.n)
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return turn{}, ctx.Err()
	case <-time.After(think):
	}
	if t.stall {
		<-ctx.Done()
		return turn{}, ctx.Err()
	}
	return t, nil
}

// A desk is what the tools of an agent work on.
type desk struct {
	stuck   bool
	fails   bool
	release chan struct{} // the end of the scene

	mu    sync.Mutex
	reads int
	text  []string // in memory
	saved string   // on disk
	draft string   // there too
}

var errNothing = errors.New("nothing is written yet")

// use is every tool.
func (d *desk) use(tool, text string) (string, error) {
	switch tool {
	case "write":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.text = append(d.text, text)
		return "written", nil
	case "save":
		if d.stuck {
			<-d.release
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.text) == 0 {
			return "", errNothing
		}
		d.saved = strings.Join(d.text, "\n")
		return "saved", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads++; d.fails && d.reads > 1 {
		return "", fmt.Errorf("request %08x failed at %v", d.reads*7919, time.Now().UTC())
	}
	return "the tests pass", nil
}

// keep is for libraries that ask for what there is when an agent ends.
func (d *desk) keep() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draft = strings.Join(d.text, "\n")
	return "draft.md", nil
}

func (d *desk) kept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saved != "" || d.draft != ""
}

// description tells the model of a tool.
func description(tool string) string {
	return map[string]string{"read": "Reads the message.", "write": "Writes a paragraph.", "save": "Saves the article."}[tool]
}

var toolNames = []string{"read", "write", "save"}

// A library runs an agent with that model and those tools, and returns what it
// has to say of it.
type library struct {
	name string
	run  func(ctx context.Context, p *player, d *desk) (said string, err error)
}

var libraries = []library{neverhang, fantasyAgent, einoAgent, adkAgent}
