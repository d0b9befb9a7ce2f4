package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// options are the settings of the command line. The zero value of a duration leaves
// it to the client, a negative one switches it off.
type options struct {
	session     string // path of an export, "" for the embedded one
	baseURL     string // "" for the embedded server
	model       string
	apiKey      string
	keyEnv      string // where it is from
	agents      int
	articles    int // 0: one per message worth one
	out         string
	faults      string
	habits      string
	seed        uint64
	firstOutput time.Duration
	gap         time.Duration
	call        time.Duration
	deadline    time.Duration
	rpm         int
	maxInFlight int
	report      string // path, "-" for stdout, "" for none
	resume      bool
	naive       bool
	incident    string   // what befalls the embedded engine, "" for the embedded author alone
	servers     []string // further servers behind the endpoint
	compare     string   // an earlier run
	env         []string // further variables of the environment to keep
}

// embedded reports whether the embedded server plays the model.
func (o *options) embedded() bool { return o.baseURL == "" }

const (
	defaultOut    = "./bible"
	defaultKeyEnv = "OPENAI_API_KEY"
)

const usage = `usage: sessionbible [flags] [SESSION]

Turns a recorded coding session into a book: agents read its messages and write articles.
SESSION is a file made with: opencode export SESSION > session.json
Without one, an embedded session is used; without -base-url, an embedded server plays the
model, and misbehaves.

Durations are like 90s or 10m; 0 leaves the default, a negative one means no limit.
Exit codes: 0 all articles done, 1 some not, 2 wrong usage, 3 -naive got stuck, 130 interrupted.

`

// parseOptions reads the command line. flag.ErrHelp means that help was asked
// for, and written to help.
func parseOptions(args []string, help io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("sessionbible", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.baseURL, "base-url", "", "endpoint, such as http://localhost:8000/v1; without it an embedded server plays the model")
	fs.StringVar(&o.model, "model", "", "model name; may be left out if the endpoint serves only one")
	fs.StringVar(&o.keyEnv, "api-key-env", defaultKeyEnv, "environment variable with the endpoint's key")
	fs.IntVar(&o.agents, "agents", 45, "agents in parallel")
	fs.IntVar(&o.articles, "articles", 0, "how many articles; 0 means one per message worth one")
	fs.StringVar(&o.out, "out", defaultOut, "folder for the book, of one run at a time; an earlier book there is moved to its folder earlier")
	fs.BoolVar(&o.resume, "resume", false, "go on with the book in the folder -out, of a run that was killed or did not get done; SESSION and -articles are as they were then")
	fs.StringVar(&o.faults, "faults", defaultFaults(), "embedded server only: its faults, or none")
	fs.StringVar(&o.habits, "habits", defaultHabits(), "embedded server only: its author's bad habits, or none")
	fs.Uint64Var(&o.seed, "seed", 1, "embedded server only: the same seed gives the same faults")
	fs.DurationVar(&o.firstOutput, "first-output", 0, "longest wait for an answer's first output")
	fs.DurationVar(&o.gap, "gap", 0, "longest pause between two pieces of output")
	fs.DurationVar(&o.call, "call", 0, "longest call, retries included")
	fs.DurationVar(&o.deadline, "deadline", 0, "longest run; 0 means 2h, without it -incident ends after "+seconds(incidentTime))
	fs.IntVar(&o.rpm, "rpm", 0, "most requests per minute; 0 means no limit")
	fs.IntVar(&o.maxInFlight, "max-in-flight", 0, "most requests at a time; 0 means no limit")
	fs.StringVar(&o.report, "report", "", "file for a JSON report, - for stdout; a device or a pipe is written into")
	fs.BoolVar(&o.naive, "naive", false, "the old way, for seeing the deadlock: no timeouts, no way out, no report; without -faults the server hangs on every request, without -out the book goes to ./bible-naive")

	fs.StringVar(&o.incident, "incident", "", "plays an incident on an embedded inference engine, and what is said of it: "+strings.Join(incidents(), ", "))
	fs.Func("servers", "addresses of servers behind the endpoint to ask how they are, with commas between; what a router names is asked anyway", list(&o.servers))
	fs.StringVar(&o.compare, "compare", "", "folder of an earlier run: says what has changed since, servers, settings and client")
	fs.Func("keep-env", "names of environment variables to keep with the run, with commas between", list(&o.env))

	strict := explained(fs)
	var files []string
	for len(args) > 0 { // flags may follow the session
		if err := strict.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				fmt.Fprint(help, usage)
				fs.SetOutput(help)
				fs.PrintDefaults()
			}
			return nil, err
		}
		if args = strict.Args(); len(args) > 0 {
			files, args = append(files, args[0]), args[1:]
		}
	}
	switch len(files) {
	case 0:
	case 1:
		if files[0] == "" {
			return nil, errors.New("SESSION is empty, want the path of a file")
		}
		o.session = files[0]
	default:
		return nil, fmt.Errorf("got %d sessions (%s), want at most one", len(files), strings.Join(files, ", "))
	}
	set := make(map[string]bool)
	strict.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if err := o.check(set); err != nil {
		return nil, err
	}
	if !o.embedded() {
		o.apiKey = os.Getenv(o.keyEnv)
		if o.apiKey == "" && set["api-key-env"] {
			return nil, fmt.Errorf("-api-key-env names %s, which is not set", o.keyEnv)
		}
	}
	if o.naive && o.resume {
		return nil, errors.New("-naive keeps no journal, so there is nothing for -resume to go on with")
	}
	if o.naive && (o.incident != "" || o.compare != "" || len(o.servers) > 0) {
		return nil, errors.New("-naive asks no server how it is, so -incident, -servers and -compare are not for it")
	}
	if o.compare != "" && o.embedded() && o.incident == "" {
		return nil, errors.New("-compare needs -base-url or -incident: the embedded author has no settings, so there is nothing to compare")
	}
	if o.incident != "" && !set["agents"] {
		o.agents = incidentAgents
	}
	if o.incident != "" && !set["deadline"] {
		o.deadline = incidentTime
	}
	if o.naive && !set["out"] {
		o.out += "-naive" // what an ordinary run made there stays as it is
	}
	if o.naive && !set["faults"] && o.embedded() {
		o.faults, o.habits = naiveFaults, "none"
	}
	return o, nil
}

// check returns an error that names the first bad flag.
func (o *options) check(set map[string]bool) error {
	for _, n := range []struct {
		flag         string
		value, least int
	}{
		{"agents", o.agents, 1}, {"articles", o.articles, 0}, {"rpm", o.rpm, 0}, {"max-in-flight", o.maxInFlight, 0},
	} {
		if n.value < n.least {
			return fmt.Errorf("-%s is %d, want %d or more", n.flag, n.value, n.least)
		}
	}
	if o.out == "" {
		return errors.New("-out is empty, want a folder")
	}
	if set["base-url"] {
		u, err := url.Parse(o.baseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("-base-url is %q, want one such as http://localhost:8000/v1", hideKey(o.baseURL))
		}
		for _, name := range []string{"faults", "habits", "seed", "incident"} {
			if set[name] {
				return fmt.Errorf("-%s is for the embedded server, and -base-url names another", name)
			}
		}
		return nil
	}
	if set["api-key-env"] {
		return errors.New("-api-key-env needs -base-url: the embedded server takes no key")
	}
	if len(o.servers) > 0 {
		return errors.New("-servers needs -base-url: the embedded server stands alone")
	}
	if o.incident != "" && set["faults"] {
		return errors.New("-faults are those of the embedded author, and -incident is played on an engine; give one of them")
	}
	return checkOffline(o)
}

// explained returns the same flags with errors that say which form is wanted. Its
// help is that of fs.
func explained(fs *flag.FlagSet) *flag.FlagSet {
	out := flag.NewFlagSet(fs.Name(), flag.ContinueOnError)
	out.SetOutput(io.Discard)
	fs.VisitAll(func(f *flag.Flag) {
		value := f.Value
		if g, ok := value.(flag.Getter); ok {
			switch g.Get().(type) {
			case time.Duration:
				value = explainedValue{value, "a duration with its unit, such as 90s or 10m"}
			case int:
				value = explainedValue{value, "a whole number"}
			case uint64:
				value = explainedValue{value, "a whole number, 0 or more"}
			}
		}
		out.Var(value, f.Name, f.Usage)
	})
	return out
}

// An explainedValue is a flag's value whose errors say what is wanted.
type explainedValue struct {
	flag.Value
	form string
}

func (v explainedValue) Set(s string) error {
	if v.Value.Set(s) != nil {
		return errors.New("want " + v.form)
	}
	return nil
}

// goOn returns the command line that goes on with this book. An incident is not
// played again.
func (o *options) goOn() string {
	line := "sessionbible -resume"
	add := func(flag, value string, given bool) {
		if given {
			line += " -" + flag + " " + quoted(value)
		}
	}
	add("out", o.out, o.out != defaultOut)
	add("articles", strconv.Itoa(o.articles), o.articles > 0)
	add("base-url", hideKey(o.baseURL), !o.embedded())
	add("model", o.model, !o.embedded())
	add("api-key-env", o.keyEnv, o.keyEnv != "" && o.keyEnv != defaultKeyEnv)
	if o.session != "" {
		line += " " + quoted(o.session)
	}
	return line
}

// quoted is a word as shells read it.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// list reads names with commas between them.
func list(into *[]string) func(string) error {
	return func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			if name = strings.TrimSpace(name); name != "" {
				*into = append(*into, name)
			}
		}
		return nil
	}
}

// hideKey returns a URL without what could be a secret in it.
func hideKey(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(unreadable)"
	}
	if u.User != nil {
		u.User = url.User("xxxxx")
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}
