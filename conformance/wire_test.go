package conformance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// A wire is a form in which models answer over HTTP.
type wire struct {
	// understood says that the Transport reads these answers, and does not only
	// pass them on.
	understood bool

	// route brings a request to where the fake server takes completions.
	route func(http.RoundTripper) http.RoundTripper

	// speak returns the parts of an answer.
	speak func(m mode, text string) speech
}

// A speech is one answer, in parts that faults can be put between. What a
// stream says is in steps, a plain answer is a body.
type speech struct {
	streamed bool

	begin     fake.Step   // what comes before the first output
	half      []fake.Step // the first half of the output
	rest      []fake.Step // the second half
	end       fake.Step   // how the model says that it is done
	ping      fake.Step
	trouble   fake.Step // an error in place of the rest
	malformed fake.Step // a piece of output that is no JSON
	torn      fake.Step // a piece of output that ends in the middle
	abort     fake.Step // the server says that it gave up; zero if it has no word for that
	length    fake.Step // the token limit ends a tool call

	body       string // the plain answer
	abortBody  string // the plain answer that says that the server gave up
	lengthBody string // the plain answer whose tool call the token limit cut; empty for text, which may end so
	errorBody  string // an error in place of a plain answer
}

// whole is the healthy answer.
func (s speech) whole() fake.Step {
	if !s.streamed {
		return fake.JSON(s.body)
	}
	return fake.Reply(s.begin, fake.Reply(s.half...), fake.Reply(s.rest...), s.end)
}

// broken is the first half of the answer, and then what is given. The pause
// lets the half arrive before a reset overtakes it.
func (s speech) broken(then ...fake.Step) fake.Step {
	first := fake.Reply(s.begin, fake.Reply(s.half...))
	if !s.streamed {
		first = fake.Raw(s.body[:len(s.body)/2])
	}
	return fake.Reply(first, fake.Pause(time.Millisecond), fake.Reply(then...))
}

// pieces cuts the output of an answer before each word, in two halves. An
// answer without spaces is one piece.
func pieces(text string) (half, rest []string) {
	all := strings.SplitAfter(text, " ")
	n := (len(all) + 1) / 2
	return all[:n], all[n:]
}

// toolArgs are the arguments of the tool call that says text.
func toolArgs(text string) string { return encode(map[string]string{"text": text}) }

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps and strings come here
	}
	return string(b)
}

func each(list []string, step func(string) fake.Step) []fake.Step {
	steps := make([]fake.Step, len(list))
	for i, s := range list {
		steps[i] = step(s)
	}
	return steps
}
